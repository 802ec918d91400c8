# The exercise chapters/NN_name/exercises/N_title is a folder: your_part.c has the question and the solution,
# check.c and experiment.c are given. All its .c files, and those in exercises/ that the chapter's exercises
# share, are the program build/NN_name_exercise_N.
#
# Its starter is your_part.c without the solution, in build/exercises/NN_name/N_title/. That is what is handed out.
#
# A file may_not_call in the folder lists what would be the answer, ready-made: functions of the book and of the check
# that your_part.c does without (.lab/calls.sh). make exercise-NN-N and make grade refuse a part that uses one.

EXERCISE_FOLDERS := $(patsubst %/your_part.c,%,$(wildcard chapters/*/exercises/*/your_part.c))

# One with a file needs_mpi is handed out everywhere, and compiled where there is MPI, whose mpi.h it may include.
WITH_MPI        := $(patsubst %/needs_mpi,%,$(wildcard chapters/*/exercises/*/needs_mpi))
BUILT_EXERCISES := $(if $(MPI),$(EXERCISE_FOLDERS),$(filter-out $(WITH_MPI),$(EXERCISE_FOLDERS)))

# chapters/04_name/exercises/1_title is exercise 04-1, of chapter 04_name.
chapter_of  = $(word 2,$(subst /, ,$1))
number_of   = $(firstword $(subst _, ,$(notdir $1)))
exercise_id = $(firstword $(subst _, ,$(chapter_of)))-$(number_of)

your_part   = $1/your_part.c
given       = $(filter-out $(your_part),$(wildcard $1/*.c $(dir $1)*.c))
handout     = $(BUILD)/exercises/$(chapter_of)/$(notdir $1)/your_part.c
objects     = $(patsubst %,$(BUILD)/obj/%.o,$1)
solved      = $(BUILD)/$(chapter_of)_exercise_$(number_of)

# Where a solution was taken out, variables and parameters are left unused; -Werror would not let them pass.
define EXERCISE
$(solved): $(call objects,$(your_part) $(given))
$(call objects,$(your_part) $(handout)): YOUR_PART := -iquote $(dir $(your_part)) -Wno-unused -Wno-unused-parameter
$(handout): $(your_part) .make/starter.sh
	@test -d $$(@D) || rm -f $$(@D) # a program of that name, in builds of before
	@mkdir -p $$(@D)
	$$(call QUIET,$$@)sh .make/starter.sh $$< >$$@
endef
$(foreach folder,$(EXERCISE_FOLDERS),$(eval $(call EXERCISE,$(folder))))

$(foreach folder,$(WITH_MPI),$(call objects,$(wildcard $(folder)/*.c) $(call handout,$(folder)))): \
    CFLAGS_ALL += $(filter -I%,$(MPI))

EXERCISES := $(foreach folder,$(BUILT_EXERCISES),$(call solved,$(folder)))
HANDOUTS  := $(foreach folder,$(EXERCISE_FOLDERS),$(call handout,$(folder)))

folder_named   = $(strip $(foreach folder,$(EXERCISE_FOLDERS),$(if $(filter $1,$(call exercise_id,$(folder))),$(folder))))
exercise_named = $(foreach folder,$(folder_named),$(call solved,$(folder)))

exercise-%: report
	@test -n '$(call exercise_named,$*)' || { echo 'make: error: there is no exercise $*' >&2; \
	    echo 'hint: the exercises are $(foreach folder,$(EXERCISE_FOLDERS),$(call exercise_id,$(folder)))' >&2; exit 1; }
	@test -n '$(filter $(EXERCISES),$(call exercise_named,$*))' || { \
	    echo 'make: error: exercise $* is skipped: it needs MPI, and there is none' >&2; \
	    echo 'hint: make setup installs it' >&2; exit 1; }
	+@$(MAKE_PARALLEL) wanted WANTED='$(call exercise_named,$*)'
	@sh .lab/calls.sh $(call objects,$(call folder_named,$*)/your_part.c) $(call folder_named,$*) >&2
	@$(call exercise_named,$*) $(ARGS)

.PHONY: exercises
exercises: report
	@grep -q '^ *// SOLUTION' $(call your_part,chapters/*/exercises/*) || { \
	    echo 'make: error: no exercise here has a solution that could be taken out' >&2; \
	    echo 'hint: write your part in chapters/*/exercises/*/your_part.c; make grade looks at it' >&2; exit 1; }
	+@$(MAKE_PARALLEL) wanted WANTED='$(HANDOUTS)'
	@find $(BUILD)/exercises -mindepth 2 -maxdepth 2 -type f -delete # objects and programs, in builds of before
	@echo 'The exercises without their solutions are in $(BUILD)/exercises/. To hand them out, copy'
	@echo '$(BUILD)/exercises/NN_name/N_title/your_part.c over chapters/NN_name/exercises/N_title/your_part.c;'
	@echo 'make exercise-NN-N runs one.'
