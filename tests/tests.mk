# The tests: tests/test_*.c are programs, build/tests/test_*, and tests/*_test.sh are scripts. tests/run.sh
# runs those that it is told to, and counts.

TESTS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/test_*.c))
$(TESTS): $(BUILD)/%: $(BUILD)/obj/%.c.o
$(BUILD)/tests/test_published $(BUILD)/tests/test_many_ranks: $(PUBLISHED)
$(TESTS) $(SIM_TESTS): LIBS += $(CMOCKA)

# `make test` is what one waits for, `make test-all` is everything. These are left to the second: scripts that
# start programs hundreds of times, wait for them, train for long, or build the book once more; 10 s to 5 minutes
# each. Two run side by side, as much of that is waiting; those that need the machine for themselves come last.
LONG_TESTS  := book_test.sh build_test.sh chapter_01_flags_test.sh chapter_02_flags_test.sh chapter_05_resume_test.sh \
               chapter_08_faults_test.sh cli_test.sh defaults_test.sh exercises_test.sh grade_test.sh hosts_test.sh \
               instruction_sets_test.sh interrupt_test.sh lab_kit_test.sh pytorch_test.sh quick_test.sh training_test.sh \
               wrong_answers_test.sh
ALONE_TESTS := defaults_test.sh instruction_sets_test.sh pytorch_test.sh quick_test.sh training_test.sh
SHORT_TESTS := $(filter-out $(LONG_TESTS),$(notdir $(TESTS) $(wildcard tests/*_test.sh)))

.PHONY: test test-all long-tests test-programs can-test announce-test announce-test-all

test: announce-test can-test
	+@$(MAKE_PARALLEL) wanted WANTED='$(CHAPTERS) $(TESTS)'
	@AT_ONCE=2 sh tests/run.sh $(BUILD) $(filter-out $(NOT_SANITIZED),$(SHORT_TESTS))
long-tests: can-test
	+@$(MAKE_PARALLEL) test-programs
	@AT_ONCE=2 ALONE='$(ALONE_TESTS)' sh tests/run.sh $(BUILD) $(filter-out $(NOT_SANITIZED),$(LONG_TESTS))
test-all: announce-test-all test long-tests $(if $(SIMULATOR),$(SIMULATED_PASSED))
	@echo
	@echo 'All tests passed$(if $(SIMULATOR),; those on simulated GPUs run again when CUDA code has changed,; without g++ there are no simulated GPUs).'

announce-test:
	@$(if $(SANITIZE),,echo 'make test: a few minutes, once all is compiled. (make test-all has the long tests too.)')
announce-test-all:
	@echo 'make test-all: about half an hour, once all is compiled; ten minutes more if CUDA code has changed.'

can-test: report
	@test -n '$(CMOCKA)' || { echo 'make: error: the tests need cmocka' >&2; echo 'hint: make setup' >&2; exit 1; }
test-programs: $(CHAPTERS) $(EXERCISES) $(TESTS) $(if $(SANITIZE),,$(STARTERS) $(BENCHES) $(GRADER) $(GRADED))
	@:
