# GPUs, simulated (see README.md here): how the CUDA code is compiled for them where SANITIZE is cudasim, and
# the goals that run its tests.

# These use GPUs where there are some: they run on simulated ones, and under compute-sanitizer on real ones.
GPU_TESTS := $(patsubst %.c,$(BUILD)/%,$(shell grep -l 'try_gpu\|ON_BOTH\|open_devices' tests/test_*.c))
# The tests of the simulator, and what only a simulator can try.
SIM_TESTS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/cudasim/test_*.c))

.PHONY: simulated-tests

ifeq ($(SANITIZE),cudasim)

# The compilers are gcc and g++, whatever CC says: the simulator's files use what only they have.
override CC  := gcc
CUDA_SOURCES := $(wildcard kernels/cuda/*.cu tests/cudasim/*.cpp) common/device/device_cuda.c
LINK          = g++ $(CHECKS) $(THREADING) -pthread
# (With small pieces and few blocks: then small tests have many pieces, and threads take several elements each.)
SIMULATED    := -DCUDASIM -Itests/cudasim/include \
                -DCONV_WORKSPACE=200000 -DPIECE_BYTES=4096 -DPART_NUMBERS=256 -DGRID_BLOCKS=3
CHECKS       += $(SIMULATED)
SIM_FLAGS    := -std=c++17 -g -iquote . -Wall -Wextra $(if $(filter 1,$(WERROR)),-Werror) $(SIMULATED)

$(BUILD)/obj/%.cpp.o: %.cpp $(CONFIG)
	@mkdir -p $(@D)
	$(call QUIET,CXX,$<)g++ $(SIM_FLAGS) -O2 -Wshadow -MMD -MP -c $< -o $@

# Where libraries are loaded while the program runs: see load.cpp.
$(BUILD)/obj/common/comm/nccl.c.o: CFLAGS_ALL += -Ddlopen=cudasim_dlopen -Ddlsym=cudasim_dlsym -Ddlerror=cudasim_dlerror

# Plain CUDA but for launches, as C++; -fsanitize=thread shows each access to memory to the simulator.
$(BUILD)/obj/%.cu.o: %.cu tests/cudasim/launch.sed $(CONFIG)
	@mkdir -p $(@D)
	@{ echo '#line 1 "$<"'; sed -f tests/cudasim/launch.sed $<; } >$(@:.o=.cpp)
	$(call QUIET,CXX,$<)g++ $(SIM_FLAGS) -O1 -Wno-sign-compare -fsanitize=thread,undefined -fno-sanitize-recover=all \
	    -include tests/cudasim/device.h -iquote $(dir $<) -MMD -MP -c $(@:.o=.cpp) -o $@

$(SIM_TESTS): $(BUILD)/%: $(BUILD)/obj/%.c.o $(BUILD)/obj/tests/cudasim/planted.cu.o

simulated-tests: $(GPU_TESTS) $(SIM_TESTS)
	@:

else

# They take minutes. So the day they passed is kept, and `make test-all` runs them again when one of these
# has changed; `make simulated-tests` always does.
SIMULATED_PASSED := $(BUILD)/cudasim/passed
SIMULATED_CODE   := $(wildcard kernels/*.h kernels/cuda/* common/device/* common/comm/* common/tensor/* chapters/*/*.[ch] \
                    tests/cudasim/*.[chs]* tests/cudasim/include/*) $(GPU_TESTS:$(BUILD)/%=%.c) $(wildcard tests/*.h)

simulated-tests: report
	@test -n '$(and $(SIMULATOR),$(CMOCKA))' || { echo 'make: error: simulated GPUs need g++ and cmocka' >&2; \
	    echo 'hint: make setup' >&2; exit 1; }
	+@$(MAKE_PARALLEL) SANITIZE=cudasim simulated-tests
	@sh tests/run.sh $(BUILD)/cudasim $(notdir $(GPU_TESTS) $(SIM_TESTS))
	@touch $(SIMULATED_PASSED)
$(SIMULATED_PASSED): $(SIMULATED_CODE)
	+@$(MAKE) --no-print-directory simulated-tests

endif
