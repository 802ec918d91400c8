# The exercise chapters/NN_name/exercises/N_title is a folder: your_part.c has the question and what a student writes,
# solution.c the same functions, solved; cases.c calls them, and experiment.c measures with them. One of
# the first two, these, and all .c files there and in exercises/ that have a header (others may be somebody's copies), are the
# program build/NN_name_exercise_N, or build/solved/NN_name_exercise_N. What the functions do is judged by another program,
# tests/grader/judge.c, by what the solution does: expected.tsv, which is made of solution.c and `rivals`, known mistakes,
# and never of your_part.c. Where there is no solution.c, the file lies in the folder.
#
# A file may_call in the folder lists what your_part.c defines and what it may call (tests/grader/gate.sh).
#
# One that asks for no code has question.md for your_part.c, and nothing to judge. With an experiment.c it is a program, too.

# (A copy of a folder, 1_larger_batches_old, comes after it, and is passed over. A name with a blank is two words.)
number_of        = $(firstword $(subst _, ,$(notdir $1)))
folders          = $(sort $(patsubst %/$1,%,$(filter chapters/%/$1,$(wildcard chapters/*/exercises/*/$1))))
first_of         = $(foreach folder,$1,$(filter $(folder),$(firstword $(filter $(dir $(folder))$(call number_of,$(folder))_%,$1))))
EXERCISE_FOLDERS := $(call first_of,$(call folders,your_part.c))
QUESTIONS        := $(call first_of,$(call folders,question.md))
RUN_QUESTIONS    := $(patsubst %/experiment.c,%,$(wildcard $(QUESTIONS:%=%/experiment.c)))

# One with a file needs_mpi is handed out everywhere, and compiled where there is MPI, whose mpi.h it may include.
WITH_MPI        := $(patsubst %/needs_mpi,%,$(wildcard chapters/*/exercises/*/needs_mpi))
BUILT_EXERCISES := $(if $(MPI),$(EXERCISE_FOLDERS),$(filter-out $(WITH_MPI),$(EXERCISE_FOLDERS)))

# chapters/04_name/exercises/1_title is exercise 04-1, of chapter 04_name.
chapter_of  = $(word 2,$(subst /, ,$1))
exercise_id = $(firstword $(subst _, ,$(chapter_of)))-$(number_of)

given       = $(wildcard $1/cases.c $1/experiment.c $(filter-out $1/your_part% $1/solution%,$(patsubst %.h,%.c,$(wildcard $1/*.h $(dir $1)*.h))))
sources     = $(foreach folder,$1,$(wildcard $(folder)/your_part.c $(folder)/solution.c) $(call given,$(folder)))
objects     = $(patsubst %,$(BUILD)/obj/%.o,$1)
yours       = $(BUILD)/$(chapter_of)_exercise_$(number_of)
solved      = $(BUILD)/solved/$(notdir $(yours))

# A starter leaves variables and parameters unused; -Werror would not let it pass.
define EXERCISE
$(call MADE_OF,$(yours),$(call objects,$1/your_part.c $(given)))
$(call MADE_OF,$(solved),$(call objects,$1/solution.c $(given)))
$(call objects,$1/your_part.c): YOUR_PART := -Wno-unused -Wno-unused-parameter
endef
$(foreach folder,$(EXERCISE_FOLDERS),$(eval $(call EXERCISE,$(folder))))
$(foreach folder,$(RUN_QUESTIONS),$(eval $(call MADE_OF,$(call yours,$(folder)),$(call objects,$(call given,$(folder))))))

NEED_MPI_H += $(call objects,$(call sources,$(WITH_MPI)))

EXERCISES        := $(foreach folder,$(BUILT_EXERCISES) $(RUN_QUESTIONS),$(call yours,$(folder)))
SOLVED_EXERCISES := $(foreach folder,$(BUILT_EXERCISES),$(if $(wildcard $(folder)/solution.c),$(call solved,$(folder))))

named          = $(strip $(foreach folder,$2,$(if $(filter $1,$(call exercise_id,$(folder))),$(folder))))
folder_named   = $(call named,$1,$(EXERCISE_FOLDERS))
question_named = $(call named,$1,$(QUESTIONS))
run_question   = $(foreach folder,$(call named,$1,$(RUN_QUESTIONS)),$(call yours,$(folder)))
exercise_named = $(foreach folder,$(call folder_named,$1),$(call $(if $(filter 1,$(SOLVED)),solved,yours),$(folder)))
expected_named = $(foreach folder,$(call folder_named,$1),$(call graded,$(folder))/expected.tsv)

exercise-%: report
	@sh .make/goals.sh '$@'
	+@$(MAKE_PARALLEL) $(if $(call question_named,$*),asked,judged)-$*

asked-%:
	@$(if $(filter --check,$(ARGS)),echo 'make: error: exercise $* is a question and an experiment: nothing to check' >&2; echo 'hint: make exercise-$*' >&2; exit 1)
	@cat $(call question_named,$*)/question.md
	+@$(if $(call run_question,$*),$(MAKE) --no-print-directory wanted WANTED='$(call run_question,$*)')
	@$(if $(call run_question,$*),echo; $(call run_question,$*) $(ARGS))

judged-%:
	@test -n '$(filter $(EXERCISES) $(SOLVED_EXERCISES),$(call exercise_named,$*))' || { \
	    echo 'make: error: exercise $* is skipped: $(if $(filter 1,$(SOLVED)),there is no solution.c,it needs MPI, and there is none)' >&2; \
	    echo 'hint: $(if $(filter 1,$(SOLVED)),without SOLVED=1 it takes your_part.c,make setup installs it)' >&2; exit 1; }
	+@$(MAKE) --no-print-directory wanted WANTED='$(call exercise_named,$*)'
	+@$(MAKE) --no-print-directory wanted WANTED='$(JUDGE) $(call expected_named,$*) $(call graded,$(call folder_named,$*))/link'
	@$(if $(SANITIZE)$(filter 1,$(SOLVED)),,folder=$(call folder_named,$*) in=$(call graded,$(call folder_named,$*)) && \
	    SOURCE=$$folder/your_part.c sh -c "$$(cat $$in/compile) -E" >$$in/your_part.i && sh tests/grader/gate.sh $$folder \
	    $$folder/your_part.c $(call objects,$(call folder_named,$*)/your_part.c) $$in/your_part.i >&2)
	@facts=$$(mktemp) && trap 'rm -f "$$facts"' EXIT && $(call exercise_named,$*) --facts "$$facts" 1 && \
	    { $(JUDGE) $(call expected_named,$*) "$$facts" $(if $(filter --hint,$(ARGS)),,$(call graded,$(call folder_named,$*))/lost) || { \
	    echo 'hint: edit $(call folder_named,$*)/$(if $(filter 1,$(SOLVED)),solution,your_part).c, then make exercise-$* again' >&2; exit 1; }; }
	@$(if $(filter --check --hint,$(ARGS)),,echo; $(call exercise_named,$*) $(ARGS))
expected-%: report
	+@$(MAKE_PARALLEL) wanted WANTED='$(call expected_named,$*)'
