# SANITIZE=asan|tsan|cudasim: the build with sanitizers, into build/asan and so on, and the goals that test it.
# (cudasim is asan with simulated GPUs, see tests/cudasim.)

SANITIZE_asan    := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
SANITIZE_cudasim := $(SANITIZE_asan)
SANITIZE_tsan    := -fsanitize=thread

ifneq ($(SANITIZE),)
OPTIMIZE := -O1 -g
CHECKS   := $(SANITIZE_$(SANITIZE)) -DSANITIZED=1
NVCC     :=
NCCL     := $(if $(filter cudasim,$(SANITIZE)),simulated)
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

# What a sanitizer has nothing to say about, or what others show it in less time: trainings, waiting, compiling.
NOT_SANITIZED := $(if $(SANITIZE),arrows_test.sh build_test.sh chapter_01_flags_test.sh chapter_08_test.sh \
                 chapter_08_faults_test.sh defaults_test.sh grade_test.sh hosts_test.sh \
                 instruction_sets_test.sh interrupt_test.sh lab_kit_test.sh pytorch_test.sh quick_test.sh training_test.sh \
                 wrong_answers_test.sh)
TSAN_TESTS    := test_device test_queues test_trace test_data test_allreduce test_ddp test_servers test_process_group
sanitize:
	@$(MAKE) --no-print-directory SANITIZE=asan test long-tests
	+@$(MAKE_PARALLEL) SANITIZE=tsan $(TSAN_TESTS:%=$(BUILD)/tsan/tests/%)
	@sh tests/run.sh $(BUILD)/tsan $(TSAN_TESTS)

# On a real GPU: out of bounds, races in shared memory, reads of what nothing wrote, barriers.
COMPUTE_SANITIZER = $(firstword $(shell command -v compute-sanitizer) $(wildcard $(dir $(NVCC))compute-sanitizer))
sanitize-cuda: report
	@nvidia-smi -L >/dev/null 2>&1 || { echo 'make: error: sanitize-cuda needs a GPU' >&2; \
	    echo 'hint: make simulated-tests runs the CUDA code on simulated GPUs' >&2; exit 1; }
	@test -n '$(and $(NVCC),$(COMPUTE_SANITIZER))' || { echo 'make: error: no nvcc or no compute-sanitizer' >&2; \
	    echo 'hint: both are part of the CUDA toolkit' >&2; exit 1; }
	+@$(MAKE_PARALLEL) wanted WANTED='$(GPU_TESTS)'
	@for tool in memcheck racecheck initcheck synccheck; do for test in $(GPU_TESTS); do \
	    echo "  $$tool $$test"; \
	    $(COMPUTE_SANITIZER) --tool $$tool --error-exitcode 1 --log-file $(BUILD)/sanitize-cuda.log $$test \
	        >$(BUILD)/sanitize-cuda.out 2>&1 || { cat $(BUILD)/sanitize-cuda.out $(BUILD)/sanitize-cuda.log; exit 1; }; \
	done; done
