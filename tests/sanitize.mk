# SANITIZE=asan|tsan: the build with sanitizers, into build/asan or build/tsan, and the goals that test it. "asan" is
# AddressSanitizer, UndefinedBehaviorSanitizer and simulated GPUs (tests/cudasim) in one.

SANITIZE_asan := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
SANITIZE_tsan := -fsanitize=thread

ifneq ($(SANITIZE),)
OPTIMIZE := -O1 -g
CHECKS   := $(SANITIZE_$(SANITIZE)) -DSANITIZED=1
NVCC     :=
# Two instruction sets, or one where other things are tested.
ISAS     := $(filter plain v1 $(if $(filter asan,$(SANITIZE)),v3),$(ISAS))
endif
ifeq ($(SANITIZE),asan)
# (At -O1 what is in registers here would be in memory, each access checked.)
$(BUILD)/obj/kernels/cpu-%.o: OPTIMIZE := -O2 -g
endif
ifeq ($(SANITIZE),tsan)
# libgomp is not compiled for TSan, which would report its barriers; the queues are what is tested.
# (Without OpenMP, what only its pragmas use is unused.)
THREADING := -Wno-unknown-pragmas -Wno-unused-parameter -Wno-unused-variable
endif

.PHONY: sanitize sanitize-cuda

# Where threads of ours meet: queues, devices, process groups, and chapter 7's workers and servers.
TSAN_TESTS := $(addprefix $(BUILD)/tsan/tests/,test_process_group test_servers test_queues test_device)

# On CPU devices all of them, and a small run of each program; then on simulated GPUs those that use GPUs, beside TSan's.
sanitize: simulator-is-there
	+@$(MAKE_PARALLEL) SANITIZE=asan sanitized-programs
	@CUDASIM_GPUS=0 sh tests/run.sh $(BUILD)/asan tests/small_runs_test.sh \
	    $(patsubst $(BUILD)/%,$(BUILD)/asan/%,$(call longest_first,%/test_process_group %/test_many_machines,$(TESTS)))
	+@$(MAKE_PARALLEL) SANITIZE=tsan $(TSAN_TESTS)
	@env -u CUDA_VISIBLE_DEVICES sh tests/run.sh $(BUILD)/asan $(TSAN_TESTS) $(SIMULATED_TESTS)

# On a real GPU: out of bounds, races in shared memory, reads of what nothing wrote, barriers. (Where OMP_WAIT_POLICY is
# set, a program does not start itself once more.)
COMPUTE_SANITIZER = $(firstword $(shell command -v compute-sanitizer) $(wildcard $(dir $(NVCC))compute-sanitizer))
sanitize-cuda: report
	@nvidia-smi -L >/dev/null 2>&1 || { echo 'make: error: sanitize-cuda needs a GPU' >&2; \
	    echo 'hint: make simulated-tests runs the CUDA code on simulated GPUs' >&2; exit 1; }
	@test -n '$(and $(NVCC),$(COMPUTE_SANITIZER))' || { echo 'make: error: no nvcc or no compute-sanitizer' >&2; \
	    echo 'hint: both are part of the CUDA toolkit' >&2; exit 1; }
	+@$(MAKE_PARALLEL) wanted WANTED='$(GPU_TESTS)'
	@for tool in memcheck racecheck initcheck synccheck; do for test in $(GPU_TESTS); do \
	    echo "  $$tool $$test"; \
	    OMP_WAIT_POLICY=passive $(COMPUTE_SANITIZER) --tool $$tool --error-exitcode 1 --log-file $(BUILD)/sanitize-cuda.log $$test \
	        >$(BUILD)/sanitize-cuda.out 2>&1 || { cat $(BUILD)/sanitize-cuda.out $(BUILD)/sanitize-cuda.log; exit 1; }; \
	done; done
