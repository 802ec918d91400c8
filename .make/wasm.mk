# Chapters with a file in_browser (flags to begin with, and a line for the reader) as WebAssembly:
# build/wasm/NN_name.wasm. What they ask of a system is WASI, which Node has, and plots/book/wasi.js in a page. Of two
# files that do one thing with and without something, it takes the one without.
WASM_CHAPTERS := $(patsubst %/in_browser,%,$(filter chapters/%/in_browser,$(wildcard chapters/*/in_browser)))
WASM_WITHOUT  := common/device/device_cuda.c common/data/safetensors.c \
                 common/base/platform_posix.c common/program/interrupt.c common/program/exercise.c common/program/facts.c
WASM_SOURCES  := $(filter-out $(WASM_WITHOUT),$(wildcard common/*/*.c kernels/*.c) $(CPU_SOURCES)) \
                 $(filter-out %/main.c %/in_one_file.c %/over_ranks.c %/behind/ranks.c,$(filter chapters/%.c,$(foreach c,$(WASM_CHAPTERS),$(wildcard $c/*.c $c/behind/*.c)))) \
                 $(filter-out $(WASM_CHAPTERS:%=%/resnet18.c),chapters/05_resnet18_concise/resnet18.c)
WASM_PROGRAMS := $(WASM_CHAPTERS:chapters/%=$(BUILD)/wasm/%.wasm)
WASM_OBJECTS  := $(WASM_SOURCES:%=$(BUILD)/wasm/obj/%.o) $(GENERATED:$(BUILD)/%=$(BUILD)/wasm/%.o)
WASM_FLAGS     = -O3 -msimd128 -std=c11 -D_GNU_SOURCE -D_WASI_EMULATED_SIGNAL \
                 -D_WASI_EMULATED_GETPID -DISA=plain -iquote . -Icommon/without $(filter -I%,$(STB) $(RANDOM123)) \
                 -Wall -Wextra -Wno-unknown-pragmas -Wno-unused -Wno-unused-parameter $(if $(filter 1,$(WERROR)),-Werror)

.PHONY: wasm
wasm: report
	@test -n '$(WASM_CC)' || { echo 'make: error: no clang for WebAssembly' >&2; echo 'hint: make setup wasm' >&2; exit 1; }
	+@$(MAKE_PARALLEL) wanted WANTED='$(WASM_PROGRAMS)'

$(eval $(call KEEP,wasm,$(WASM_VERSION) $(WASM_CC) $(WASM_FLAGS)))
$(eval $(call KEEP,wasm-objects,$(WASM_OBJECTS)))
$(WASM_PROGRAMS): $(BUILD)/wasm/%.wasm: $(BUILD)/wasm/obj/chapters/%/main.c.o $(WASM_OBJECTS) $(WITH)/wasm-objects
	$(call QUIET,$@)$(WASM_CC) $(WASM_FLAGS) -o $@ $(filter %.o,$^) -lwasi-emulated-signal -lwasi-emulated-getpid \
	    -Wl,-z,stack-size=4194304,--initial-memory=1073741824,--max-memory=1073741824
$(BUILD)/wasm/obj/kernels/cpu/%.o: WASM_FLAGS += -ffp-contract=fast
# (Debian has stb as a library, for its own processors only.)
$(BUILD)/wasm/obj/common/program/picture.c.o: WASM_FLAGS += -DSTB_IMAGE_WRITE_IMPLEMENTATION -DSTB_TRUETYPE_IMPLEMENTATION
# (Random123 has not heard of WebAssembly; what it does for 32-bit Arm is plain C.)
$(BUILD)/wasm/obj/common/tensor/random.c.o: WASM_FLAGS += -D__arm__
$(GENERATED:$(BUILD)/%=$(BUILD)/wasm/%.o): $(BUILD)/wasm/%.o: $(BUILD)/% $(WITH)/wasm
	@mkdir -p $(@D)
	$(call QUIET,$<)$(WASM_CC) $(WASM_FLAGS) -MMD -MP -c $< -o $@
$(BUILD)/wasm/obj/%.c.o: %.c .make/wasm.mk $(WITH)/wasm
	@mkdir -p $(@D)
	$(call QUIET,$<)$(WASM_CC) $(WASM_FLAGS) -MMD -MP -c $< -o $@
