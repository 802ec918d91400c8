# GPUs, simulated (see README.md here): how the CUDA code is compiled for them where SANITIZE is asan, and
# the goal that runs its tests.

# These use GPUs where there are some: they run on simulated ones, and under compute-sanitizer on real ones.
GPU_TESTS := $(patsubst %.c,$(BUILD)/%,$(shell grep -l 'try_gpu\|ON_BOTH\|open_devices' tests/test_*.c))
# The tests of the simulator, and what only a simulator can try.
SIM_TESTS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/cudasim/test_*.c))

.PHONY: simulated-tests simulated-programs simulator-is-there

ifeq ($(SANITIZE),asan)

# The compilers are gcc and g++, whatever CC says: the simulator's files use what only they have.
override CC  := gcc
CUDA_SOURCES := $(wildcard kernels/cuda/*.cu tests/cudasim/*.cpp) common/device/device_cuda.c
LINK          = g++ $(CHECKS) $(THREADING) -pthread
# (With small pieces and few blocks: then small tests have many pieces, and threads take several elements each.)
SIMULATED    := -DCUDASIM -Itests/cudasim/include \
                -DCONV_WORKSPACE=200000 -DPIECE_BYTES=4096 -DPART_NUMBERS=256 -DGRID_BLOCKS=3 -DWEIGHT_BLOCKS=6 -DPIXELS_FOR_TF32=1 -DWEIGHT_PIXELS_FOR_TF32=1
CHECKS       += $(SIMULATED)
SIM_FLAGS    := -std=c++17 -g -iquote . -Wall -Wextra $(if $(filter 1,$(WERROR)),-Werror) $(SIMULATED)

$(eval $(call KEEP,simulator,$(SIMULATOR) $(SIM_FLAGS)))
$(BUILD)/obj/%.cpp.o: %.cpp $(WITH)/simulator
	@mkdir -p $(@D)
	$(call QUIET,$<)g++ $(SIM_FLAGS) -O2 -Wshadow -MMD -MP -c $< -o $@

# Where libraries are loaded while the program runs: see load.cpp.
$(BUILD)/obj/chapters/08_many_machines/nccl.c.o: CFLAGS_ALL += -Ddlopen=cudasim_dlopen -Ddlsym=cudasim_dlsym -Ddlerror=cudasim_dlerror

# Plain CUDA but for launches, as C++; -fsanitize=thread shows each access to memory to the simulator.
$(BUILD)/obj/%.cu.o: %.cu tests/cudasim/launch.sed $(WITH)/simulator
	@mkdir -p $(@D)
	@{ echo '#line 1 "$<"'; sed -f tests/cudasim/launch.sed $<; } >$(@:.o=.cpp)
	$(call QUIET,$<)g++ $(SIM_FLAGS) -O1 -Wno-sign-compare -Wno-unknown-pragmas -fsanitize=thread,undefined \
	    -fno-sanitize-recover=all -include tests/cudasim/device.h -iquote $(dir $<) -MMD -MP -c $(@:.o=.cpp) -o $@

$(SIM_TESTS): $(BUILD)/%: $(BUILD)/obj/%.c.o $(BUILD)/obj/tests/cudasim/planted.cu.o

simulated-programs: $(GPU_TESTS) $(SIM_TESTS)
	@:

else

# (What is only about the modelled clock is the same there. Longest first.)
SIMULATED_TESTS = $(patsubst $(BUILD)/%,$(BUILD)/asan/%,$(call longest_first,%/test_process_group \
                   %/test_kernels %/test_many_machines,$(SIM_TESTS) $(filter-out %/test_modelled_clock \
                   %/test_modelled_steps,$(GPU_TESTS))))
simulator-is-there: report
	@test -n '$(and $(SIMULATOR),$(CMOCKA))' || { echo 'make: error: simulated GPUs need g++ and cmocka' >&2; \
	    echo 'hint: make setup' >&2; exit 1; }
simulated-tests: simulator-is-there
	+@$(MAKE_PARALLEL) SANITIZE=asan simulated-programs
	@env -u CUDA_VISIBLE_DEVICES sh tests/run.sh $(BUILD)/asan $(SIMULATED_TESTS)

endif
