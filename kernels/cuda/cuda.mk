# GPUs: kernels/cuda and common/device/device_cuda.c, where config.mk has found nvcc; otherwise
# common/device/cuda_none.c, which says that there is no GPU.

ifneq ($(SANITIZE),asan) # where tests/cudasim/simulator.mk has other GPUs
ifneq ($(NVCC),)

CUDA_SOURCES := $(wildcard kernels/cuda/*.cu) common/device/device_cuda.c
NVCC_FLAGS   := -std=c++17 -O3 -I. $(GENCODE) -Xcompiler -Wall,-Wextra \
                $(if $(filter 1,$(WERROR)),-Werror all-warnings)

$(eval $(call KEEP,cuda,$(NVCC_VERSION) $(NVCC) $(NVCC_FLAGS)))
$(BUILD)/obj/%.cu.o: %.cu $(WITH)/cuda
	@mkdir -p $(@D)
	$(call QUIET,$<)$(NVCC) $(NVCC_FLAGS) -MMD -MP -c $< -o $@
# (nvcc knows where CUDA's headers are.)
$(BUILD)/obj/common/device/device_cuda.c.o: $(BUILD)/obj/%.c.o: %.c $(WITH)/c $(WITH)/cuda
	@mkdir -p $(@D)
	$(call QUIET,$<)$(NVCC) -Xcompiler '$(CFLAGS_ALL)' -MMD -MP -c $< -o $@

# nvcc links, because it knows where its runtime is (the static one: a program needs no toolkit to start).
LINK   = $(NVCC) --cudart static -Xcompiler '$(CFLAGS) $(THREADING) -pthread' \
         $(foreach flag,$(CUDA_RPATH),-Xlinker $(patsubst -Wl$(comma)-rpath$(comma)%,-rpath=%,$(flag)))
# (nvcc wants to be told which of its words are the linker's, and which the compiler's.)
LIBS  := $(foreach flag,$(filter-out -fopenmp -pthread,$(LIBS)),$(if $(filter -Wl$(comma)%,$(flag)),-Xlinker=$(flag:-Wl$(comma)%=%),$(if \
         $(filter -l% -L% %.a %.so,$(flag)),$(flag),-Xcompiler=$(flag)))) -lpthread -lrt

else

CUDA_SOURCES := common/device/cuda_none.c

endif
endif
