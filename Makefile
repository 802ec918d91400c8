# Training on Multiple GPUs, in C.   `make help` lists what can be made.
#
#   make setup lenet    installs what is missing, builds, trains, draws the curves
#   make setup test     the same, up to the tests
#
# A new chapter is a new folder chapters/NN_name with a main.c; nothing here needs an edit. All its other
# .c files go into the library that every program and test is linked with. An exercise is a folder
# chapters/NN_name/exercises/N_title; the .c files beside it are linked with each of them.

CC     ?= cc
CUDA   ?= 1
ARCH   ?=
V      ?= 0
WERROR ?= 0
# SANITIZE=asan|tsan|cudasim builds with sanitizers, into a folder of its own. cudasim is asan with simulated
# GPUs, see tests/cudasim.
SANITIZE ?=

BUILD := build$(if $(SANITIZE),/$(SANITIZE))
Q     := $(if $(filter 1,$(V)),,@)
QUIET  = $(if $(filter 1,$(V)),,@printf '  %-5s %s\n' '$(1)' '$(2)';)

.DEFAULT_GOAL := all
.PHONY: all programs exercises starters help setup lenet resnet test sanitize sanitize-cuda bench plots clean report
.SECONDARY:
.DELETE_ON_ERROR:
# Goals run in the order they are named in; inside a goal the compilers run side by side, in a make of
# their own (where SIDE_BY_SIDE is 1, because .NOTPARALLEL holds for all that a make does).
ifneq ($(SIDE_BY_SIDE),1)
.NOTPARALLEL:
endif
MAKE_PARALLEL = $(MAKE) --no-print-directory SIDE_BY_SIDE=1 $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))

help:
	@echo 'make setup lenet   install what is missing, train LeNet on 1 and on 2 devices, draw the curves'
	@echo 'make setup test    install what is missing, run the tests'
	@echo
	@echo 'make               build all chapters into build/, and say what was found'
	@echo 'make setup         install what is missing (apt, as root or through sudo)'
	@echo 'make lenet         chapter 4; same as make run-04'
	@echo 'make resnet        chapter 5; same as make run-05'
	@echo 'make run-NN        the program of chapter NN; ARGS="--devices 4 --live" gives it flags'
	@echo 'make exercise-NN-N exercise N of chapter NN, solved; ARGS=--check only checks the solution'
	@echo 'make exercises     the exercises without their solutions, to hand out: into build/exercises/'
	@echo 'make test          all tests; the last line counts them'
	@echo 'make simulated-tests the tests of CUDA code, on simulated GPUs; part of make test'
	@echo 'make sanitize      the tests with ASan and UBSan, the device queues with TSan'
	@echo 'make sanitize-cuda the tests under compute-sanitizer, on a GPU'
	@echo 'make bench         our training step next to PyTorch'"'"'s'
	@echo 'make plots         draw the curves in plots/ again from their CSV files'
	@echo 'make clean         remove build/'
	@echo
	@echo 'CUDA=0             leave the CUDA backend out'
	@echo 'ARCH="80 90"       GPU architectures to compile for'
	@echo 'CC=clang V=1       another compiler; show the commands'

# ---- setup changes what can be found, so what is made after it starts a make of its own -------------

ifneq ($(filter setup,$(MAKECMDGOALS)),)

setup:
	@CC='$(CC)' sh .make/setup.sh
AFTER_SETUP := $(filter-out setup clean,$(MAKECMDGOALS))
ifneq ($(AFTER_SETUP),)
$(AFTER_SETUP): setup
	@$(MAKE) --no-print-directory $@
endif

else

# ---- what this machine has: build/config.mk, made by .make/probe.sh ---------------------------------

NEEDS_CONFIG := $(filter-out help clean plots,$(or $(MAKECMDGOALS),all))
ifneq ($(NEEDS_CONFIG),)
-include build/config.mk
# Found once, except what was not found: that is looked for each time.
SETTINGS := $(CC) $(CUDA) $(ARCH) $(WERROR) $(CFLAGS)
ifneq ($(SETTINGS)|$(strip $(MISSING)$(LACKING)),$(CONFIG_SETTINGS)|)
build/probed: always
.PHONY: always
endif
endif

# config.mk keeps its date, and what depends on it is not made again, when nothing has changed.
build/config.mk: build/probed ;
build/probed: Makefile .make/probe.sh
	@mkdir -p build
	@CC='$(CC)' CUDA='$(CUDA)' ARCH='$(ARCH)' sh .make/probe.sh >$@
	@echo 'CONFIG_SETTINGS := $(SETTINGS)' >>$@
	@cmp -s $@ build/config.mk || { $(if $(ALL_IS_A_GOAL),,sed -n 's/^#! /  /p' $@;) cp $@ build/config.mk; }

# `make` says what was found each time, other goals when it changed.
ALL_IS_A_GOAL := $(filter all,$(or $(MAKECMDGOALS),all))
report: build/config.mk
	@$(if $(ALL_IS_A_GOAL),sed -n 's/^#! /  /p' build/config.mk)
	@test -z '$(strip $(MISSING))' || { echo 'make: error: missing: $(MISSING)' >&2; \
	    echo 'hint: make $(if $(filter command,$(origin CC)),CC=$(if $(word 2,$(CC)),"$(CC)",$(CC)) )setup' >&2; exit 1; }

# ---- flags ---------------------------------------------------------------------------------------

SANITIZE_asan := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
SANITIZE_cudasim := $(SANITIZE_asan)
# libgomp is not compiled for TSan, which would report its barriers; the queues are what is tested.
SANITIZE_tsan := -fsanitize=thread
# (Without OpenMP, what only its pragmas use is unused.)
THREADING     := $(if $(filter tsan,$(SANITIZE)),-Wno-unknown-pragmas -Wno-unused-parameter -Wno-unused-variable,$(OPENMP))
OPTIMIZE      := $(if $(SANITIZE),-O1 -g,-O3 -g)
# (With small pieces and few blocks: then small tests have many pieces, and threads take several elements each.)
SIMULATED     := $(if $(filter cudasim,$(SANITIZE)),-DCUDASIM -Itests/cudasim/include \
                 -DCONV_WORKSPACE=200000 -DPIECE_BYTES=4096 -DPART_NUMBERS=256 -DGRID_BLOCKS=3)

CFLAGS_ALL := -std=c11 -D_GNU_SOURCE $(OPTIMIZE) -Wall -Wextra -Wshadow $(if $(filter 1,$(WERROR)),-Werror) \
              -iquote . $(THREADING) -pthread $(SANITIZE_$(SANITIZE)) $(if $(SANITIZE),-DSANITIZED=1) -DFONT_FILE='"$(FONT)"' \
              $(filter -I%,$(ZLIB) $(JANSSON) $(STB) $(RANDOM123) $(CMOCKA)) $(SIMULATED) $(CFLAGS)
LIBS       := $(ZLIB) $(JANSSON) $(STB) $(THREADING) -pthread -ldl -lm

ifeq ($(SANITIZE),cudasim)
# The compilers are gcc and g++, whatever CC says; tests/cudasim/README.md tells why, and what the flags do.
override CC  := gcc
CUDA_SOURCES := $(wildcard kernels/cuda/*.cu) common/device/device_cuda.c $(wildcard tests/cudasim/*.cpp)
LINK          = g++ $(SANITIZE_cudasim) $(OPENMP) -pthread
else ifneq ($(and $(NVCC),$(if $(SANITIZE),,1)),)
CUDA_SOURCES := $(wildcard kernels/cuda/*.cu) common/device/device_cuda.c
NVCC_FLAGS   := -std=c++17 -O3 -I. $(GENCODE) -Xcompiler -Wall,-Wextra \
                $(if $(filter 1,$(WERROR)),-Werror all-warnings)
# nvcc links, because it knows where its runtime is (the static one: a program needs no toolkit to start)
LINK = $(NVCC) --cudart static -Xcompiler '$(SANITIZE_$(SANITIZE)) $(THREADING) -pthread' \
       $(foreach flag,$(CUDA_RPATH),-Xlinker $(patsubst -Wl$(comma)-rpath$(comma)%,-rpath=%,$(flag)))
LIBS := $(filter-out -fopenmp -pthread,$(LIBS)) -lpthread -lrt
else
CUDA_SOURCES := common/device/cuda_none.c
LINK = $(CC) $(SANITIZE_$(SANITIZE)) $(THREADING) -pthread
endif
comma := ,

# ---- objects, programs ---------------------------------------------------------------------------

ifneq ($(SANITIZE),)
override ISAS := $(filter plain v1 $(if $(filter asan,$(SANITIZE)),v3),$(ISAS))
endif
SOURCES  := $(filter-out common/device/device_cuda.c common/device/cuda_none.c,$(wildcard common/*/*.c)) \
            $(wildcard kernels/*.c) $(filter-out %/main.c,$(wildcard chapters/*/*.c)) $(CUDA_SOURCES)
OBJECTS  := $(SOURCES:%=$(BUILD)/obj/%.o) $(ISAS:%=$(BUILD)/obj/kernels/cpu-%.o)
LIBRARY  := $(BUILD)/libbook.a
PROGRAMS := $(patsubst chapters/%/main.c,$(BUILD)/%,$(wildcard chapters/*/main.c))
# The exercise chapters/NN_name/exercises/N_title is the program NN_name_exercise_N. Its starter, your_part.c without
# the solution, is in exercises/NN_name/N_title; with that it is the program tests/starters/NN_name/N_title.
EXERCISE_FOLDERS := $(patsubst %/,%,$(wildcard chapters/*/exercises/[0-9]*/))
exercise_program  = $(BUILD)/$(word 2,$(subst /, ,$1))_exercise_$(firstword $(subst _, ,$(notdir $1)))
exercise_starter  = $(BUILD)/exercises/$(word 2,$(subst /, ,$1))/$(notdir $1)
starter_program   = $(BUILD)/tests/starters/$(word 2,$(subst /, ,$1))/$(notdir $1)
exercise_objects  = $(patsubst %,$(BUILD)/obj/%.o,$(wildcard $1/*.c $(dir $1)*.c))
EXERCISES        := $(foreach folder,$(EXERCISE_FOLDERS),$(call exercise_program,$(folder)))
STARTERS         := $(foreach folder,$(EXERCISE_FOLDERS),$(call exercise_starter,$(folder))/your_part.c)
STARTER_PROGRAMS := $(foreach folder,$(EXERCISE_FOLDERS),$(call starter_program,$(folder)))
TESTS    := $(patsubst tests/%.c,$(BUILD)/%,$(wildcard tests/test_*.c))
GPU_TESTS := $(patsubst tests/%.c,$(BUILD)/%,$(shell grep -l 'try_gpu\|ON_BOTH' tests/test_*.c))
# On simulated GPUs: those, and the tests of the simulator.
ifeq ($(SANITIZE),cudasim)
SIM_TESTS := $(patsubst tests/cudasim/%.c,$(BUILD)/%,$(wildcard tests/cudasim/test_*.c))
TESTS     := $(GPU_TESTS)
endif
BENCHES  := $(patsubst tests/bench/%.c,$(BUILD)/bench_%,$(wildcard tests/bench/*.c))

all: report
	+@$(MAKE_PARALLEL) programs
programs: $(PROGRAMS) $(EXERCISES)
	@:

$(BUILD)/obj/kernels/cpu.c.o: CFLAGS_ALL += $(ISAS:%=-DHAS_%)
# Where a solution was taken out, variables and parameters are left unused; -Werror would not let them pass.
$(BUILD)/obj/chapters/%.c.o: UNSOLVED = $(if $(filter %/your_part,$*),-Wno-unused -Wno-unused-parameter)

$(BUILD)/obj/%.c.o: %.c build/config.mk
	@mkdir -p $(@D)
	$(call QUIET,CC,$<)$(CC) $(CFLAGS_ALL) $(UNSOLVED) -MMD -MP -c $< -o $@

# ---- kernels/cpu: once for each instruction set --------------------------------------------------
#
# The flags are those of the psABI's levels of x86-64, one by one, because older compilers do not know the
# levels' names. A set's objects become one, of which only the table of kernels and the product can be seen, and
# of one set also the plain loops that the tests compare with. CPU=v2 in the environment picks one when a program
# runs. (With sanitizers, two of them, or one where other things are tested; and at -O1 what is in registers here
# would be in memory, each access checked.)
ISA_FLAGS_plain :=
ISA_FLAGS_v1    :=
ISA_FLAGS_v2    := -mcx16 -mpopcnt -msahf -msse4.2
ISA_FLAGS_v3    := $(ISA_FLAGS_v2) -mavx2 -mbmi -mbmi2 -mf16c -mfma -mlzcnt -mmovbe
ISA_FLAGS_v4    := $(ISA_FLAGS_v3) -mavx512f -mavx512bw -mavx512cd -mavx512dq -mavx512vl
CPU_KERNELS     := $(wildcard kernels/cpu/*.c)
OBJCOPY         ?= objcopy

# A product and the addition of it are one operation where the CPU has one: more exact, twice as fast.
define INSTRUCTION_SET
$(BUILD)/obj/kernels/cpu-$1/%.o: CFLAGS_ALL += $(if $(filter asan,$(SANITIZE)),-O2)
$(BUILD)/obj/kernels/cpu-$1/%.o: kernels/cpu/%.c build/config.mk
	@mkdir -p $$(@D)
	$$(call QUIET,CC,$$< ($1))$$(CC) $$(CFLAGS_ALL) -ffp-contract=fast $$(ISA_FLAGS_$1) -DISA=$1 -MMD -MP -c $$< -o $$@
$(BUILD)/obj/kernels/cpu-$1.o: $(CPU_KERNELS:kernels/cpu/%.c=$(BUILD)/obj/kernels/cpu-$1/%.o)
	@$$(LD) -r -o $$@ $$^
	@$$(OBJCOPY) -w --keep-global-symbol='cpu_kernels_$1' --keep-global-symbol='cpu_product_$1' \
	    $$(if $$(filter $1,$$(firstword $$(ISAS))),--keep-global-symbol='*_naive' --keep-global-symbol=winograd_suits) $$@
endef
$(foreach isa,$(ISAS),$(eval $(call INSTRUCTION_SET,$(isa))))

ifeq ($(SANITIZE),cudasim)
SIM_FLAGS := -std=c++17 -g -iquote . -Wall -Wextra $(if $(filter 1,$(WERROR)),-Werror) $(SIMULATED)
$(BUILD)/obj/%.cpp.o: %.cpp build/config.mk
	@mkdir -p $(@D)
	$(call QUIET,CXX,$<)g++ $(SIM_FLAGS) -O2 -Wshadow -MMD -MP -c $< -o $@

# Plain CUDA but for launches, as C++; -fsanitize=thread shows each access to memory to the simulator.
$(BUILD)/obj/%.cu.o: %.cu tests/cudasim/launch.sed build/config.mk
	@mkdir -p $(@D)
	@{ echo '#line 1 "$<"'; sed -f tests/cudasim/launch.sed $<; } >$(@:.o=.cpp)
	$(call QUIET,CXX,$<)g++ $(SIM_FLAGS) -O1 -Wno-sign-compare -fsanitize=thread,undefined -fno-sanitize-recover=all \
	    -include tests/cudasim/device.h -iquote $(dir $<) -MMD -MP -c $(@:.o=.cpp) -o $@
else
$(BUILD)/obj/common/device/device_cuda.c.o: common/device/device_cuda.c build/config.mk
	@mkdir -p $(@D)
	$(call QUIET,CC,$<)$(NVCC) -Xcompiler '$(CFLAGS_ALL)' -MMD -MP -c $< -o $@

$(BUILD)/obj/%.cu.o: %.cu build/config.mk
	@mkdir -p $(@D)
	$(call QUIET,NVCC,$<)$(NVCC) $(NVCC_FLAGS) -MMD -MP -c $< -o $@
endif

$(LIBRARY): $(OBJECTS)
	@rm -f $@
	$(call QUIET,AR,$@)ar rcs $@ $^

$(PROGRAMS): $(BUILD)/%: $(BUILD)/obj/chapters/%/main.c.o $(LIBRARY)
	$(call QUIET,LINK,$@)$(LINK) -o $@ $^ $(LIBS)
$(TESTS): $(BUILD)/%: $(BUILD)/obj/tests/%.c.o $(LIBRARY)
	$(call QUIET,LINK,$@)$(LINK) -o $@ $^ $(CMOCKA) $(LIBS)
$(SIM_TESTS): $(BUILD)/%: $(BUILD)/obj/tests/cudasim/%.c.o $(BUILD)/obj/tests/cudasim/planted.cu.o $(LIBRARY)
	$(call QUIET,LINK,$@)$(LINK) -o $@ $^ $(CMOCKA) $(LIBS)
$(BENCHES): $(BUILD)/bench_%: $(BUILD)/obj/tests/bench/%.c.o $(LIBRARY)
	$(call QUIET,LINK,$@)$(LINK) -o $@ $^ $(LIBS)

# A starter includes what its solution includes, from the solution's folder.
define EXERCISE
$(exercise_program): $(exercise_objects) $(LIBRARY)
	$$(call QUIET,LINK,$$@)$$(LINK) -o $$@ $$^ $$(LIBS)
$(exercise_starter)/your_part.c: $1/your_part.c .make/starter.sh
	@mkdir -p $$(@D)
	$$(call QUIET,WRITE,$$@)sh .make/starter.sh $$< >$$@
$(starter_program).o: $(exercise_starter)/your_part.c build/config.mk
	@mkdir -p $$(@D)
	$$(call QUIET,CC,$$<)$$(CC) $$(CFLAGS_ALL) -Wno-unused -Wno-unused-parameter -iquote $1 -MMD -MP -c $$< -o $$@
$(starter_program): $(starter_program).o $(filter-out %/your_part.c.o,$(exercise_objects)) $(LIBRARY)
	$$(call QUIET,LINK,$$@)$$(LINK) -o $$@ $$^ $$(LIBS)
endef
$(foreach folder,$(EXERCISE_FOLDERS),$(eval $(call EXERCISE,$(folder))))

-include $(wildcard $(BUILD)/obj/*/*.d $(BUILD)/obj/*/*/*.d $(BUILD)/obj/*/*/*/*.d \
                    $(BUILD)/obj/*/*/*/*/*.d $(BUILD)/tests/starters/*/*.d)

# ---- goals ---------------------------------------------------------------------------------------

lenet: run-04
resnet: run-05

# OpenMP's threads spin while they wait; on cores that other programs want too, that makes a run several
# times slower. They read this when a program starts.
run-% exercise-%: export OMP_WAIT_POLICY ?= passive

# Only the program that is to run: another one that does not compile is no obstacle.
.PHONY: wanted
wanted: $(WANTED)
	@:

run-%: report
	@test -n '$(wildcard chapters/$*_*/main.c)' || { echo 'make: error: there is no chapter $*' >&2; \
	    echo 'hint: the chapters are $(notdir $(PROGRAMS))' >&2; exit 1; }
	+@$(MAKE_PARALLEL) wanted WANTED='$(filter $(BUILD)/$*_%,$(PROGRAMS))'
	@$(filter $(BUILD)/$*_%,$(PROGRAMS)) $(ARGS)

exercise-%: report
	@test -n '$(call exercise_named,$*)' || { echo 'make: error: there is no exercise $*' >&2; \
	    echo 'hint: the exercises are $(foreach folder,$(EXERCISE_FOLDERS),$(call number_of,$(folder)))' >&2; exit 1; }
	+@$(MAKE_PARALLEL) wanted WANTED='$(call exercise_named,$*)'
	@$(call exercise_named,$*) $(ARGS)
# chapters/04_name/exercises/1_title is exercise 04-1
number_of = $(firstword $(subst _, ,$(word 2,$(subst /, ,$1))))-$(firstword $(subst _, ,$(notdir $1)))
exercise_named = $(strip $(foreach folder,$(EXERCISE_FOLDERS),$(if \
    $(filter $1,$(call number_of,$(folder))),$(call exercise_program,$(folder)))))

exercises: report
	+@$(MAKE_PARALLEL) starters
	@echo 'The exercises without their solutions are in $(BUILD)/exercises/. To hand them out, copy each'
	@echo 'NN_name/N_title/your_part.c there over the one in chapters/NN_name/exercises/N_title.'
starters: $(STARTERS)
	@:

.PHONY: test-programs
test-programs: $(PROGRAMS) $(EXERCISES) $(STARTER_PROGRAMS) $(TESTS) $(BENCHES)
	@:
.PHONY: simulated-tests
ifeq ($(SANITIZE),cudasim)
simulated-tests: $(TESTS) $(SIM_TESTS)
	@:
else
# Their names are given to run.sh, which would run the scripts too.
simulated-tests: report
	@test -n '$(and $(SIMULATOR),$(CMOCKA))' || { echo 'make: error: simulated GPUs need g++ and cmocka' >&2; \
	    echo 'hint: make setup' >&2; exit 1; }
	+@$(MAKE_PARALLEL) SANITIZE=cudasim simulated-tests
	@SIMULATED=build/cudasim sh tests/run.sh build/none \
	    $(notdir $(GPU_TESTS) $(basename $(wildcard tests/cudasim/test_*.c)))
endif

test: report
	@test -n '$(CMOCKA)' || { echo 'make: error: the tests need cmocka' >&2; echo 'hint: make setup' >&2; exit 1; }
	+@$(MAKE_PARALLEL) test-programs
	+@$(if $(ON_SIMULATED),$(MAKE_PARALLEL) SANITIZE=cudasim simulated-tests)
	@SIMULATED=$(ON_SIMULATED) sh tests/run.sh $(BUILD)
# The tests of GPU code on simulated GPUs too, where there is a compiler for that.
ON_SIMULATED := $(if $(SANITIZE),,$(if $(SIMULATOR),build/cudasim))

sanitize:
	@$(MAKE) --no-print-directory SANITIZE=asan test
	+@$(MAKE_PARALLEL) SANITIZE=tsan build/tsan/test_device build/tsan/test_data build/tsan/test_allreduce
	@sh tests/run.sh build/tsan test_device test_data test_allreduce

# On a real GPU: out of bounds, races in shared memory, reads of what nothing wrote, barriers.
COMPUTE_SANITIZER = $(firstword $(shell command -v compute-sanitizer) $(wildcard $(dir $(NVCC))compute-sanitizer))
.PHONY: gpu-tests
gpu-tests: $(GPU_TESTS)
	@:
sanitize-cuda: report
	@nvidia-smi -L >/dev/null 2>&1 || { echo 'make: error: sanitize-cuda needs a GPU' >&2; \
	    echo 'hint: make test runs the CUDA code on simulated GPUs' >&2; exit 1; }
	@test -n '$(and $(NVCC),$(COMPUTE_SANITIZER))' || { echo 'make: error: no nvcc or no compute-sanitizer' >&2; \
	    echo 'hint: both are part of the CUDA toolkit' >&2; exit 1; }
	+@$(MAKE_PARALLEL) gpu-tests
	@for tool in memcheck racecheck initcheck synccheck; do for test in $(GPU_TESTS); do \
	    echo "  $$tool $$test"; \
	    $(COMPUTE_SANITIZER) --tool $$tool --error-exitcode 1 --log-file build/sanitize-cuda.log $$test \
	        >build/sanitize-cuda.out 2>&1 || { cat build/sanitize-cuda.out build/sanitize-cuda.log; exit 1; }; \
	done; done

bench: report
	+@$(MAKE_PARALLEL) wanted WANTED='$(BENCHES) $(filter $(BUILD)/05_%,$(PROGRAMS))'
	@python=build/torch/bin/python; test -x $$python || python=python3; $$python tests/bench/bench.py $(ARGS)

plots:
	@for csv in plots/*.csv; do \
	    head -n 1 "$$csv" 2>/dev/null | grep -q '^devices,epoch,' || continue; \
	    echo "  PLOT  $${csv%.csv}.png"; \
	    gnuplot -c plots/training_curves.gp "$$csv" "$${csv%.csv}.png" || exit 1; \
	done

endif

clean:
	rm -rf $(filter-out build/torch,$(wildcard build/*))
