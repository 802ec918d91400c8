# Training on Multiple GPUs, in C.   `make help` lists what can be made.
#
#   make setup lenet    installs what is missing, builds, trains, draws the curves
#   make setup test     the same, up to the tests
#
# A new chapter is a new folder chapters/NN_name with a main.c; nothing here needs an edit. All its other
# .c files go into the library that every program and test is linked with.

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
.PHONY: all programs help setup lenet test sanitize bench plots clean report
.SECONDARY:
.DELETE_ON_ERROR:
# Goals run in the order they are named in; inside a goal the compilers run side by side.
.NOTPARALLEL:
MAKE_PARALLEL = $(MAKE) --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))

help:
	@echo 'make setup lenet   install what is missing, train LeNet on 1 and on 2 devices, draw the curves'
	@echo 'make setup test    install what is missing, run the tests'
	@echo
	@echo 'make               build all chapters into build/, and say what was found'
	@echo 'make setup         install what is missing (apt, as root or through sudo)'
	@echo 'make lenet         chapter 4; same as make run-04'
	@echo 'make run-NN        the program of chapter NN; ARGS="--devices 4 --live" gives it flags'
	@echo 'make test          all tests; the last line counts them'
	@echo 'make sanitize      the tests with ASan and UBSan, the device queues with TSan'
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
	    echo 'hint: make setup' >&2; exit 1; }

# ---- flags ---------------------------------------------------------------------------------------

SANITIZE_asan := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
SANITIZE_cudasim := $(SANITIZE_asan)
# libgomp is not compiled for TSan, which would report its barriers; the queues are what is tested.
SANITIZE_tsan := -fsanitize=thread
# (Without OpenMP, what only its pragmas use is unused.)
THREADING     := $(if $(filter tsan,$(SANITIZE)),-Wno-unknown-pragmas -Wno-unused-parameter -Wno-unused-variable,$(OPENMP))
OPTIMIZE      := $(if $(SANITIZE),-O1 -g,-O3 -g)
# (With small pieces, so that small tests have many of them.)
SIMULATED     := $(if $(filter cudasim,$(SANITIZE)),-DCUDASIM -Itests/cudasim/include \
                 -DCONV_WORKSPACE=200000 -DPIECE_BYTES=4096)

CFLAGS_ALL := -std=c11 -D_GNU_SOURCE $(OPTIMIZE) -Wall -Wextra -Wshadow $(if $(filter 1,$(WERROR)),-Werror) \
              $(THREADING) -pthread $(SANITIZE_$(SANITIZE)) -DFONT_FILE='"$(FONT)"' \
              $(filter -I%,$(BLAS) $(ZLIB) $(JANSSON) $(STB) $(RANDOM123) $(CMOCKA)) $(SIMULATED) $(CFLAGS)
LIBS       := $(BLAS) $(ZLIB) $(JANSSON) $(STB) $(THREADING) -pthread -ldl -lm

ifeq ($(SANITIZE),cudasim)
# The compilers are gcc and g++, whatever CC says: -fsanitize=thread of .cu files is meant for g++.
override CC  := gcc
CUDA_SOURCES := $(wildcard kernels/cuda/*.cu) common/device_cuda.c $(wildcard tests/cudasim/*.cpp)
LINK          = g++ $(SANITIZE_cudasim) $(OPENMP) -pthread
else ifneq ($(and $(NVCC),$(if $(SANITIZE),,1)),)
CUDA_SOURCES := $(wildcard kernels/cuda/*.cu) common/device_cuda.c
NVCC_FLAGS   := -std=c++17 -O3 $(GENCODE) -Xcompiler -Wall,-Wextra \
                $(if $(filter 1,$(WERROR)),-Werror all-warnings)
# nvcc links, because it knows where its runtime is (the static one: a program needs no toolkit to start)
LINK = $(NVCC) --cudart static -Xcompiler '$(SANITIZE_$(SANITIZE)) $(THREADING) -pthread' \
       $(foreach flag,$(CUDA_RPATH),-Xlinker $(patsubst -Wl$(comma)-rpath$(comma)%,-rpath=%,$(flag)))
LIBS := $(filter-out -fopenmp -pthread,$(LIBS)) -lpthread -lrt
else
CUDA_SOURCES := common/cuda_none.c
LINK = $(CC) $(SANITIZE_$(SANITIZE)) $(THREADING) -pthread
endif
comma := ,

# ---- objects, programs ---------------------------------------------------------------------------

SOURCES  := $(filter-out common/device_cuda.c common/cuda_none.c,$(wildcard common/*.c)) \
            $(wildcard kernels/cpu/*.c) $(filter-out %/main.c,$(wildcard chapters/*/*.c)) $(CUDA_SOURCES)
OBJECTS  := $(SOURCES:%=$(BUILD)/obj/%.o)
LIBRARY  := $(BUILD)/libbook.a
PROGRAMS := $(patsubst chapters/%/main.c,$(BUILD)/%,$(wildcard chapters/*/main.c))
TESTS    := $(patsubst tests/%.c,$(BUILD)/%,$(wildcard tests/test_*.c))
# On simulated GPUs: the tests that use devices, and those of the simulator.
ifeq ($(SANITIZE),cudasim)
SIM_TESTS := $(patsubst tests/cudasim/%.c,$(BUILD)/%,$(wildcard tests/cudasim/test_*.c))
TESTS     := $(patsubst tests/%.c,$(BUILD)/%,$(shell grep -l 'try_gpu\|ON_BOTH' tests/test_*.c))
endif
BENCHES  := $(patsubst tests/bench/%.c,$(BUILD)/bench_%,$(wildcard tests/bench/*.c))

all: report
	+@$(MAKE_PARALLEL) programs
programs: $(PROGRAMS)
	@:

$(BUILD)/obj/%.c.o: %.c build/config.mk
	@mkdir -p $(@D)
	$(call QUIET,CC,$<)$(CC) $(CFLAGS_ALL) -MMD -MP -c $< -o $@

ifeq ($(SANITIZE),cudasim)
SIM_FLAGS := -std=c++17 -g -Wall -Wextra $(if $(filter 1,$(WERROR)),-Werror) $(filter -I%,$(BLAS)) $(SIMULATED)
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
$(BUILD)/obj/common/device_cuda.c.o: common/device_cuda.c build/config.mk
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

-include $(wildcard $(BUILD)/obj/*/*.d $(BUILD)/obj/*/*/*.d $(BUILD)/obj/*/*/*/*.d)

# ---- goals ---------------------------------------------------------------------------------------

lenet: run-04

run-%: report
	@test -n '$(wildcard chapters/$*_*/main.c)' || { echo 'make: error: there is no chapter $*' >&2; \
	    echo 'hint: the chapters are $(notdir $(PROGRAMS))' >&2; exit 1; }
	+@$(MAKE_PARALLEL) programs
	@$(filter $(BUILD)/$*_%,$(PROGRAMS)) $(ARGS)

.PHONY: test-programs
test-programs: $(PROGRAMS) $(TESTS) $(BENCHES)
	@:
.PHONY: simulated-tests
simulated-tests: $(TESTS) $(SIM_TESTS)
	@:

test: report
	@test -n '$(CMOCKA)' || { echo 'make: error: the tests need cmocka' >&2; echo 'hint: make setup' >&2; exit 1; }
	+@$(MAKE_PARALLEL) test-programs
	@sh tests/run.sh $(BUILD)

sanitize:
	@$(MAKE) --no-print-directory SANITIZE=asan test
	+@$(MAKE_PARALLEL) SANITIZE=tsan build/tsan/test_device build/tsan/test_data build/tsan/test_allreduce
	@sh tests/run.sh build/tsan test_device test_data test_allreduce

bench: report
	+@$(MAKE_PARALLEL) test-programs
	@python=build/torch/bin/python; test -x $$python || python=python3; $$python tests/bench/lenet.py

plots:
	@for csv in plots/*.csv; do \
	    head -n 1 "$$csv" 2>/dev/null | grep -q '^devices,epoch,' || continue; \
	    echo "  PLOT  $${csv%.csv}.png"; \
	    gnuplot -c plots/training_curves.gp "$$csv" "$${csv%.csv}.png" || exit 1; \
	done

endif

clean:
	rm -rf $(filter-out build/torch,$(wildcard build/*))
