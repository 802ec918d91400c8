# The labs: make grade, hand-in, lab-kit, autograder. What they mean is in chapters/for_instructors.md.
#
#   make grade                      the exercises of this project, as they are now
#   make grade SUBMISSION=FILE      a folder or an archive that was handed in, in a sandbox
#   make grade CLASS=FOLDER         each folder and archive in it; a table, CSV=FILE, JSON=FILE
#
# LABS="04-1 06-2" picks exercises, LABS=04 a whole chapter's (labs.sh), SECONDS=60 is what the run of an exercise may take,
# JOBS=2 how many are graded at a time, TRUSTED=1 leaves the sandbox out, STRICT=1 makes a lost point an error, PART=2
# counts that part of an exercise alone, SEED=7 draws the cases from 7 (or takes one of the files in a folder).
# STUDENTS=roster.csv grades the numbers in your_answers.md, too, each on her student's machine.

LABS       ?=
SUBMISSION ?=
CLASS      ?=
JSON       ?=
CSV        ?=
GRADESCOPE ?=
SECONDS    ?= 60
JOBS       ?= $(shell nproc)
TRUSTED    ?=
STRICT     ?=
PART       ?=
SEED       ?=
STUDENTS   ?=

JUDGE         := $(BUILD)/lab/judge
JUDGE_SOURCES := $(wildcard tests/grader/*.c)
$(eval $(call MADE_OF,$(JUDGE),$(JUDGE_SOURCES:%=$(BUILD)/obj/%.o)))
$(JUDGE): $(LIBRARY) $(WITH)/link
	@mkdir -p $(@D)
	$(call QUIET,$@)$(LINK) -o $@ $(filter %.o,$^) $(LIBRARY) $(LIBS)

# What a hand-in is compiled and linked with, for each exercise, and judged by:
#
#     BUILD/lab/exercises/04-1/expected.tsv    the facts of its solution and of known mistakes (transcript.h)
#                              folder          chapters/04_lenet_multi_gpu/exercises/1_larger_batches
#                              given.o         cases.c, experiment.c and what else it was given
#                              compile, link   commands of the shell, for build.sh
graded = $(BUILD)/lab/exercises/$(call exercise_id,$1)
quoted = '$(subst ','\'',$(strip $1))'

DERIVING := $(addprefix tests/grader/,derive.sh build.sh gate.sh c_names rival.awk)
define GRADED_EXERCISE
$(call MADE_OF,$(graded)/given.o,$(call objects,$(given)))
$(graded)/given.o:
	@mkdir -p $$(@D)
	$$(call QUIET,$$@)ld -r -o $$@ $$(filter %.o,$$^)
$(graded)/link: $(graded)/given.o $(LIBRARY) tests/grader/grader.mk $(WITH)/c $(WITH)/link $(WITH)/mpi
	@echo $1 >$(graded)/folder
	@printf '%s\n' $$(call quoted,$$(CC) $$(filter-out -Werror,$$(CFLAGS_ALL)) "$$$$SOURCE") >$(graded)/compile
	@printf '%s\n' $$(call quoted,$$(LINK) -Xlinker -z -Xlinker relro -Xlinker -z -Xlinker now -Xlinker -z -Xlinker noexecstack -o "$$$$OWN/program" "$$$$OWN/your_part.o" "$$$$GIVEN" "$$$$LIBRARY" $$(LIBS)) >$$@
$(graded)/link: YOUR_PART := -iquote $1 -Wno-unused -Wno-unused-parameter
$(if $(filter $1,$(WITH_MPI)),$(graded)/link: CFLAGS_ALL += $$(MPI_H))
$(graded)/expected.tsv: $(graded)/link $(JUDGE) $(if $(wildcard $1/solution.c),$1/solution.c $1/rivals $1/may_call $(DERIVING),$1/expected.tsv)
	@sha256sum $$(filter chapters/% tests/%,$$^) >$$@.sum && rm -f $(graded)/seed-*.tsv
	$$(call QUIET,$$@)$(if $(wildcard $1/solution.c),LIBRARY=$(LIBRARY) sh tests/grader/derive.sh $(JUDGE) $(graded) $1 1 $$@,cp $1/expected.tsv $$@)
endef
$(foreach folder,$(BUILT_EXERCISES),$(eval $(call GRADED_EXERCISE,$(folder))))

# Those that LABS names by their numbers, or all.
GRADED := $(foreach folder,$(BUILT_EXERCISES),$(call graded,$(folder))/expected.tsv)
.PHONY: graded
graded: $(if $(LABS),$(filter $(LABS:%=$(BUILD)/lab/exercises/%/expected.tsv),$(GRADED)),$(GRADED))
# (Two at once build one after the other, where there are locks: some shared file systems have none.)
numbers      = "$$(sh tests/grader/labs.sh make $(call quoted,$(LABS)) ids)"
build_graded = numbers=$(numbers) && mkdir -p $(BUILD)/lab && { command exec 9>>$(BUILD)/lab/lock; why=$$(flock 9 2>&1) || \
               echo "make: goes on without a lock, so start one at a time here ($${why\#\#*: })" >&2; } && \
               $(MAKE_PARALLEL) wanted WANTED='$(JUDGE) graded $(if $(filter grade,$(MAKECMDGOALS)),$(if $(STUDENTS),$(CHAPTERS)))' LABS="$$numbers"

grade_settings = BUILD LABS SUBMISSION CLASS JSON CSV GRADESCOPE JOBS TRUSTED STRICT PART SEED STUDENTS
grade_with = LIMIT=$(call quoted,$(SECONDS)) $(foreach name,$(grade_settings),$(name)=$(call quoted,$($(name)))) sh tests/grader/grade.sh

.PHONY: grade hand-in lab-kit autograder
grade: report
	@$(foreach name,SUBMISSION CLASS,$(if $(and $(filter command%,$(origin $(name))),$(if $(strip $($(name))),,empty)),\
	    echo 'make: error: $(name) is empty' >&2; echo 'hint: SUBMISSION=a folder or an archive$(comma) CLASS=a folder with one for each' >&2; exit 1;)) :
	@CHECK=1 $(call grade_with)
	+@$(call build_graded)
	@CHECK= $(call grade_with)

# ---- what students get, and what they hand in ---------------------------------------------------------

OFFLINE   ?=
CLASSROOM ?=

lab-kit: report
	@$(if $(STUDENTS),roster=$(call quoted,$(STUDENTS)) && { [ -f "$$roster" ] || { echo "lab-kit: error: $$roster: there is no such file" >&2; \
	    echo 'hint: STUDENTS=roster.csv: ID$(comma)name in a line for each student' >&2; exit 1; }; } && awk -f tests/grader/roster.awk "$$roster" >/dev/null)
	+@$(call build_graded)
	@sh tests/grader/kit.sh $(BUILD) $(call quoted,$(LABS)) '$(OFFLINE)' '$(CLASSROOM)' $(call quoted,$(STUDENTS))
autograder: report
	+@$(call build_graded)
	@sh tests/grader/autograder.sh $(BUILD) $(call quoted,$(LABS)) '$(OFFLINE)'
hand-in:
	@sh tests/grader/hand_in.sh $(BUILD) $(call quoted,$(LABS))
