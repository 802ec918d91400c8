# Training on Multiple GPUs, in C.   `make help` lists what can be made.
#
#   make setup lenet    installs what is missing, builds, trains, draws the curves
#   make setup test     the same, up to the tests
#
# How the book is built; all of it lands in build/, laid out like the sources:
#
#   1. What this machine has is looked up once, and kept in build/config.mk.       .make/config.mk
#   2. Each source file becomes an object, build/obj/<its path>.o: the kernels for
#      CPUs once per instruction set, those for GPUs by nvcc.                      kernels/*/*.mk
#      When what it was compiled with has changed, it is made again.               .make/with.mk
#   3. The objects that more than one program needs become build/libbook.a.
#   4. A program is its own objects, linked with that library.
#
# A new chapter is a new folder chapters/NN_name with a main.c; nothing here needs an edit. All its other
# .c files, also those in behind/, go into the library. An exercise is a folder chapters/NN_name/exercises/N_title
# (.make/exercises.mk).

# (A zip may have been packed on Windows, with what was converted there.)
ifneq ($(shell grep -l "$$(printf '\r')" .make/setup.sh && printf '%s\n' 'make: error: these files have the line ends of Windows' \
    "hint: git clone them again, or: find . -path ./.git -prune -o -type f -exec grep -Iq . {} ';' -exec sed -i 's/\r$$//' {} +" >&2),)
$(error stopped)
endif

CC     ?= cc
CUDA   ?= 1
ARCH   ?=
V      ?= 0
WERROR ?= 0
# SANITIZE=asan|tsan builds with sanitizers, into a folder of its own; see tests/sanitize.mk.
SANITIZE ?=

# Numbers have a point, and names one order, in all that is started here.
export LC_ALL := C
# Nor has the shell options that are set outside (SHELLOPTS=noclobber).
unexport SHELLOPTS BASHOPTS

BUILD  = build
CONFIG := $(BUILD)/config.mk
override BUILD := $(BUILD)$(if $(SANITIZE),/$(SANITIZE))

# Said after make, and not in the environment, where other software may have such names.
$(foreach name,WANTED COUNTING SIDE_BY_SIDE DONE YOUR_PART SUBMISSION CLASS JSON CSV GRADESCOPE SECONDS JOBS TRUSTED STRICT \
    PART SEED OFFLINE CLASSROOM,$(if $(filter environment,$(origin $(name))),$(eval undefine $(name))))

# Left out of your flags: objects are joined before a program is linked, and with these they are none yet.
NOT_HERE := -flto% -fwhole-program
DROPPED  := $(filter $(NOT_HERE),$(CC) $(CFLAGS) $(LDFLAGS) $(OPTIMIZE))
override CC      := $(filter-out $(NOT_HERE),$(CC))
override CFLAGS  := $(filter-out $(NOT_HERE),$(CFLAGS))
override LDFLAGS := $(filter-out $(NOT_HERE),$(LDFLAGS))

# Your settings, as scripts get them.
YOURS  = $(foreach name,CC CPPFLAGS CFLAGS LDFLAGS CUDA ARCH CUDA_HOME FASHION_MNIST_DIR,$(name)=$(call quoted,$($(name))))
quoted = '$(subst ','\'',$(strip $1))'

.DEFAULT_GOAL := all
.PHONY: all programs wanted report help help-all setup lenet resnet plots clean always
.DELETE_ON_ERROR:
# Goals run in the order they are named in; inside a goal the compilers run side by side, in a make of
# their own (where SIDE_BY_SIDE is 1, because .NOTPARALLEL holds for all that a make does).
ifneq ($(SIDE_BY_SIDE),1)
.NOTPARALLEL:
endif
MAKE_PARALLEL = $(MAKE) --no-print-directory SIDE_BY_SIDE=1 $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))

# $(call QUIET,file) goes before a command: it says which step of how many this is, "[ 57/231] common/tensor/arena.c". At
# the first step a make that does nothing (-n) counts them. On a terminal each line takes the place of the one before.
# V=1 shows the commands instead.
QUIET     = $(if $(filter 1,$(V)),,$(if $(COUNTING),: step;,@$(call SAY_STEP,$(NEXT_STEP),$(STEPS),$1);))
NEXT_STEP = $(eval DONE += x)$(words $(DONE))
STEPS     = $(eval STEPS := $(shell $(MAKE) -n COUNTING=1 $(MAKEOVERRIDES) $(MAKECMDGOALS) 2>/dev/null | grep -c '^: step'))$(STEPS)
SAY_STEP  = if test -t 1; then printf '\033[K[%3d/$2] %s$(if $(filter $1,$2),\n,\r)' $1 '$3'; else printf '[%3d/$2] %s\n' $1 '$3'; fi

# What stands before the first empty line, and the chapters' titles; then the rest.
help:
	@sed '/^$$/q' .make/help.txt
	@echo 'The chapters:' && awk 'FNR == 1 && sub(/^# [0-9]*\. /, "") { printf "%02d  %s\n", n++, $$0 }' chapters/*/README.md
help-all:
	@sed '1,/^$$/d' .make/help.txt

.DEFAULT:
	@sh .make/goals.sh '$@'

# ---- setup changes what can be found, so what is made after it starts a make of its own -------------

ifneq ($(filter setup,$(MAKECMDGOALS)),)

setup:
	@sh .make/goals.sh $(foreach goal,$(AFTER_SETUP),$(if $(findstring /,$(goal)),,'$(goal)'))
	@$(YOURS) FOR='$(filter %test %tests test-% book book-check book-pdf lab-sheets grade lint wasm,$(MAKECMDGOALS))' sh .make/setup.sh
	@rm -f $(CONFIG:config.mk=probed) || : # what is there now is looked up anew
AFTER_SETUP := $(filter-out setup clean help help-all,$(MAKECMDGOALS))
ifneq ($(AFTER_SETUP),)
.PHONY: $(AFTER_SETUP)
$(firstword $(AFTER_SETUP)): setup
	@$(MAKE) --no-print-directory $(AFTER_SETUP)
$(wordlist 2,$(words $(AFTER_SETUP)),$(AFTER_SETUP)): $(firstword $(AFTER_SETUP))
	@:
endif

else

# ---- how a file is compiled, and a program linked --------------------------------------------------

include .make/config.mk
include .make/with.mk

OPTIMIZE  := -O3 -g
THREADING := $(OPENMP)
CHECKS    :=

# With SANITIZE, these three and what config.mk has found are changed.
include tests/sanitize.mk

CFLAGS_ALL = -std=c11 -D_GNU_SOURCE $(filter-out $(NOT_HERE),$(OPTIMIZE)) -Wall -Wextra -Wshadow -Werror=implicit-function-declaration $(if $(filter 1,$(WERROR)),-Werror) \
             -iquote . $(THREADING) -pthread $(CHECKS) \
             $(if $(ZLIB),,-Icommon/without) $(filter -I%,$(ZLIB) $(JANSSON) $(STB) $(RANDOM123)) $(YOUR_PART) $(CPPFLAGS) $(CFLAGS)
LIBS       = $(LDFLAGS) $(ZLIB) $(JANSSON) $(STB) $(MPI_LIBS) $(THREADING) -pthread -ldl -lm
# Only programs of several ranks need MPI when they start; the others do without.
MPI_LIBS   = $(if $(MPI),-Wl$(comma)--as-needed $(filter-out -I%,$(MPI)))
comma      := ,
LINK       = $(CC) $(CFLAGS) $(CHECKS) $(THREADING) -pthread
# A flag for the linker's driver, whichever it is: nvcc passes on what is the compiler's (kernels/cuda/cuda.mk).
NO_PIE     = $(if $(NVCC),-Xcompiler )-no-pie

# (X.o.sum: checksums of X.c, and of its headers; .make/stale.sh)
HEADERS_OF = sed '/:$$/d; s/^[^ ]*: //; s/\\$$//' $(@:.o=.d)
$(BUILD)/obj/%.c.o: %.c $(WITH)/c
	@mkdir -p $(@D) && sha256sum $< >$@.sum
	$(call QUIET,$<)$(CC) $(CFLAGS_ALL) -MMD -MP -c $< -o $@
	@$(HEADERS_OF) | xargs sha256sum >>$@.sum

# Chapter 8 includes mpi.h. Without MPI it finds one that knows no other rank.
MPI_H        = $(if $(MPI),$(filter -I%,$(MPI)),-Icommon/without/mpi)
NEED_MPI_H  := $(foreach objects,obj recorded/obj,$(patsubst %,$(BUILD)/$(objects)/%.o,$(wildcard chapters/08_*/*.c chapters/08_*/behind/*.c)))

# Which of the two files in common/device that implement GPUs is compiled, and how, is said in cuda.mk.
include kernels/cpu/cpu.mk
include kernels/cuda/cuda.mk
include tests/cudasim/simulator.mk
include common/generated.mk

# ---- the library -----------------------------------------------------------------------------------

# (Of two files that do one thing with and without something, the one is left out; in_one_file.c is a program by itself.
# The name of somebody's "main - Copy.c" is words that are no files.
# make JANSSON= ZLIB= does without these two: images unpacked, no parameters in files.)
LEFT_OUT := common/device/device_cuda.c common/device/cuda_none.c \
            common/data/$(if $(JANSSON),safetensors_none,safetensors).c common/base/platform_wasi.c \
            common/program/interrupt_none.c %/behind/no_ranks.c %/in_one_file.c
SOURCES  := $(filter-out $(LEFT_OUT) %/main.c,$(filter common/%.c kernels/%.c chapters/%.c, \
                $(wildcard common/*/*.c kernels/*.c chapters/*/*.c chapters/*/behind/*.c))) \
            $(CUDA_SOURCES)
LIBRARY  := $(BUILD)/libbook.a

$(eval $(call MADE_OF,$(LIBRARY),$(SOURCES:%=$(BUILD)/obj/%.o) $(GENERATED:%=%.o) $(CPU_OBJECTS)))
$(LIBRARY):
	@rm -f $@
	$(call QUIET,$@)ar rcs $@ $(filter %.o,$^) || { echo "make: error: $$(command -v ar) makes no archive" >&2; \
	    echo 'hint: it has to be that of binutils: is another one first in PATH, such as busybox?' >&2; exit 1; }

# ---- programs --------------------------------------------------------------------------------------

# The chapter chapters/NN_name/main.c is the program build/NN_name.
CHAPTERS := $(patsubst chapters/%/main.c,$(BUILD)/%,$(filter chapters/%/main.c,$(wildcard chapters/*/main.c)))
$(CHAPTERS): $(BUILD)/%: $(BUILD)/obj/chapters/%/main.c.o

include .make/wasm.mk
include .make/exercises.mk
include tests/grader/grader.mk
include tests/bench/bench.mk
include plots/book/book.mk
include tests/tests.mk

$(CHAPTERS) $(EXERCISES) $(SOLVED_EXERCISES) $(TESTS) $(SIM_TESTS) $(BENCHES): $(LIBRARY) $(WITH)/link
	@mkdir -p $(@D)
	$(call QUIET,$@)$(LINK) -o $@ $(filter %.o,$^) $(LIBRARY) $(LIBS)

$(NEED_MPI_H): CFLAGS_ALL += $(MPI_H)
$(NEED_MPI_H): $(WITH)/mpi
# (CFLAGS_ALL as it is where no target adds to it.)
$(eval $(call KEEP,c,$(COMPILER) $(CC) $(CFLAGS_ALL) X.o.sum))
$(eval $(call KEEP,mpi,$(MPI_H)))
$(eval $(call KEEP,link,$(LINK) $(LIBS)))

# The headers that each object needs. (These goals compile nothing: they start a make that does.)
ifneq ($(filter-out all report lenet resnet run-% exercise-% book wasm grade,$(or $(MAKECMDGOALS),all)),)
-include $(shell find $(BUILD)/obj $(BUILD)/wasm/obj $(BUILD)/recorded/obj -name '*.d' 2>/dev/null)
endif

# ---- goals; those of the tests are in tests/tests.mk -----------------------------------------------

all: report
	+@$(MAKE_PARALLEL) programs
programs: $(CHAPTERS) $(EXERCISES)
	@:
# Only the programs that are to run: another one that does not compile is no obstacle.
wanted: $(WANTED)
	@:

lenet: run-04
resnet: run-05

run-%: report
	@sh .make/goals.sh '$@'
	+@$(MAKE_PARALLEL) wanted WANTED='$(filter $(BUILD)/$*_%,$(CHAPTERS))'
	@$(call launch,$*)$(filter $(BUILD)/$*_%,$(CHAPTERS)) $(ARGS)

# A chapter with a file `ranks` is started as so many processes, or RANKS. Without MPI it is one, if no number was asked for.
launch   = $(if $(wildcard chapters/$1_*/ranks),$(if $(MPI)$(RANKS),sh .make/ranks.sh $(or $(RANKS),$(shell cat chapters/$1_*/ranks)) ,$(one_rank)))
one_rank = echo 'make: no MPI, so this is one rank; make setup installs MPI' >&2;

# (What programs draw themselves, of other CSV files, is not drawn again.)
plots:
	@grep -lq '^devices,epoch,' plots/*.csv 2>/dev/null || { echo 'make: error: plots/ has no curves yet' >&2; \
	    echo 'hint: make lenet' >&2; exit 1; }
	@command -v gnuplot >/dev/null || { echo 'make: error: no gnuplot' >&2; echo 'hint: make setup' >&2; exit 1; }
	@for csv in plots/*.csv; do \
	    head -n 1 "$$csv" 2>/dev/null | grep -q '^devices,epoch,' || continue; \
	    echo "  PLOT  $${csv%.csv}.png"; \
	    gnuplot -d -c plots/training_curves.gp "$$csv" "$${csv%.csv}.png" || exit 1; \
	done

endif

clean:
	rm -rf $(filter-out build/torch,$(wildcard build/*))
