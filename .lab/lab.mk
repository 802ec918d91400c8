# The labs: make grade, hand-in, lab-kit, autograder. What they mean is in chapters/for_instructors.md.
#
#   make grade                      the exercises of this project, as they are now
#   make grade SUBMISSION=FILE      a folder or an archive that was handed in, in a sandbox
#   make grade CLASS=FOLDER         each folder and archive in it; a table, CSV=FILE, JSON=FILE
#
# LABS="04-1 06-2" picks exercises, LABS=04 a whole chapter's (labs.sh), SECONDS=60 is what the run of an exercise may take,
# JOBS=2 how many are graded at a time, TRUSTED=1 leaves the sandbox out, STRICT=1 makes a lost point an error, PART=2
# counts that part of an exercise alone.

LABS       ?=
SUBMISSION ?=
CLASS      ?=
JSON       ?=
CSV        ?=
GRADESCOPE ?=
SECONDS    ?= 60
JOBS       ?= $(shell n=$$(nproc); echo $$((n > 1 ? n / 2 : 1)))
TRUSTED    ?=
STRICT     ?=
PART       ?=

GRADER        := $(BUILD)/lab/grade
JUDGE         := $(BUILD)/lab/judge
JUDGING       := .lab/judging.c .lab/transcript.c .lab/visible.c
JUDGE_SOURCES := .lab/judge.c $(JUDGING)
GRADER_SOURCES := $(filter-out $(if $(ARCHIVE),.lab/archive_none.c,.lab/archive.c) .lab/judge.c,$(wildcard .lab/*.c))

$(GRADER): $(GRADER_SOURCES:%=$(BUILD)/obj/%.o) $(LIBRARY)
	@mkdir -p $(@D)
	$(call QUIET,$@)$(LINK) -o $@ $(filter %.o,$^) $(LIBRARY) $(ARCHIVE) $(LIBS)
$(JUDGE): $(JUDGE_SOURCES:%=$(BUILD)/obj/%.o) $(LIBRARY)
	@mkdir -p $(@D)
	$(call QUIET,$@)$(LINK) -o $@ $(filter %.o,$^) $(LIBRARY) $(LIBS)

# What a hand-in is compiled and linked with, for each exercise, and judged by: see .lab/exercise_list.h.
graded   = $(BUILD)/lab/exercises/$(call exercise_id,$1)
quoted   = '$(subst ','\'',$(strip $1))'

define GRADED_EXERCISE
$(graded)/given.o: $(call objects,$(given))
	@mkdir -p $$(@D)
	$$(call QUIET,$$@)ld -r -o $$@ $$^
$(graded)/link: $(graded)/given.o $(LIBRARY) .lab/lab.mk
	@echo $1 >$(graded)/folder
	@printf '%s\n' $$(call quoted,$$(CC) $$(filter-out -Werror,$$(CFLAGS_ALL)) -c "$$$$OWN/your_part.c" -o "$$$$OWN/your_part.o") >$(graded)/compile
	@printf '%s\n' $$(call quoted,sh .lab/object.sh "$$$$OWN/your_part.o" $(graded)/given.o $(LIBRARY) $1 && $$(LINK) -o "$$$$OWN/program" "$$$$OWN/your_part.o" $(graded)/given.o $(LIBRARY) $$(LIBS)) >$$@
$(graded)/link: YOUR_PART := -iquote $1 -Wno-unused -Wno-unused-parameter
$(if $(filter $1,$(WITH_MPI)),$(graded)/link: CFLAGS_ALL += $(filter -I%,$(MPI)))
$(graded)/expected.tsv: $(graded)/link $(JUDGE) $(if $(wildcard $1/solution.c),$1/solution.c $1/rivals .lab/derive.sh .lab/rival.awk,$1/expected.tsv)
	$$(call QUIET,$$@)$(if $(wildcard $1/solution.c),sh .lab/derive.sh $(JUDGE) $(graded) $1,cp $1/expected.tsv $$@)
endef
$(foreach folder,$(BUILT_EXERCISES),$(eval $(call GRADED_EXERCISE,$(folder))))

# Those that LABS names by their numbers, or all.
GRADED := $(foreach folder,$(BUILT_EXERCISES),$(call graded,$(folder))/expected.tsv)
.PHONY: graded
graded: $(if $(LABS),$(filter $(LABS:%=$(BUILD)/lab/exercises/%/expected.tsv),$(GRADED)),$(GRADED))
# (Two at once build one after the other.)
numbers      = "$$(sh .lab/labs.sh make $(call quoted,$(LABS)) ids)"
build_graded = numbers=$(numbers) && mkdir -p $(BUILD)/lab && \
               flock $(BUILD)/lab/lock $(MAKE_PARALLEL) wanted WANTED='$1' LABS="$$numbers"
refuse_if    = $(if $(strip $1),echo 'make: error: $2' >&2; echo 'hint: $3' >&2; exit 1,:)

grade_flags = --labs $(numbers) $(if $(JSON),--json $(call quoted,$(JSON))) $(if $(CSV),--csv $(call quoted,$(CSV))) \
              $(if $(GRADESCOPE),--gradescope $(call quoted,$(GRADESCOPE))) --seconds '$(SECONDS)' --jobs '$(JOBS)' \
              $(if $(filter 1,$(TRUSTED)),--trusted) $(if $(filter 1,$(STRICT)),--strict) \
              $(if $(PART),--part '$(PART)')

.PHONY: grade hand-in lab-kit autograder
grade: report
	@$(foreach name,SUBMISSION CLASS,$(if $(and $(filter command%,$(origin $(name))),$(if $(strip $($(name))),,empty)),\
	    echo 'make: error: $(name) is empty' >&2; echo 'hint: SUBMISSION=a folder or an archive$(comma) CLASS=a folder with one for each' >&2; exit 1;)) :
	@$(call refuse_if,$(and $(SUBMISSION),$(CLASS)),SUBMISSION and CLASS,SUBMISSION=FILE is one hand-in$(comma) CLASS=FOLDER many: give one of the two)
	@$(call refuse_if,$(and $(GRADESCOPE),$(CLASS)),GRADESCOPE of a CLASS,GRADESCOPE=FILE is for one hand-in$(comma) a class has CSV=FILE and JSON=FILE)
	@$(foreach name,SUBMISSION CLASS,$(if $(strip $($(name))),test -e $(call quoted,$($(name))) || { \
	    echo 'make: error: $(name)='$(call quoted,$($(name)))': there is no such file or folder' >&2; \
	    echo 'hint: a path from here$(comma) or from the root: /..' >&2; exit 1; };)) :
	@! { test -n '$(filter 1,$(TRUSTED))' && ls chapters/*/exercises/*/solution.c >/dev/null 2>&1; } || { \
	    echo 'make: error: TRUSTED=1 where the solutions are: a hand-in could read them' >&2; \
	    echo 'hint: grade in what make lab-kit writes, which has none' >&2; exit 1; }
	+@$(call build_graded,$(GRADER) graded)
	@test -n '$(SUBMISSION)$(CLASS)' || ! ls chapters/*/exercises/*/solution.c >/dev/null 2>&1 || \
	    echo "make: this is the project's own your_part.c; what was handed in: SUBMISSION=FILE, CLASS=FOLDER" >&2
	@$(GRADER) $(grade_flags) $(if $(CLASS),--class $(BUILD) $(call quoted,$(CLASS)),$(BUILD) $(if $(SUBMISSION),$(call quoted,$(SUBMISSION))))

# ---- what students get, and what they hand in ---------------------------------------------------------

OFFLINE   ?=
CLASSROOM ?=

lab-kit: report
	+@$(call build_graded,graded)
	@sh .lab/kit.sh $(BUILD) $(call quoted,$(LABS)) '$(OFFLINE)' '$(CLASSROOM)'
autograder: report
	+@$(call build_graded,graded)
	@sh .lab/autograder.sh $(BUILD) $(call quoted,$(LABS)) '$(OFFLINE)'
hand-in:
	@sh .lab/hand_in.sh $(BUILD) $(call quoted,$(LABS))
