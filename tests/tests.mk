# The tests: tests/test_*.c are programs, build/tests/test_*, and tests/*_test.sh are scripts. tests/run.sh runs those
# that it is given, in that order, several at a time: so the longest come first.

TESTS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/test_*.c))
$(TESTS): $(BUILD)/%: $(BUILD)/obj/%.c.o
$(BUILD)/tests/test_splitting: $(BUILD)/obj/tests/lenet_float64.c.o
$(TESTS) $(SIM_TESTS): LIBS += $(CMOCKA)
$(TESTS) $(SIM_TESTS): $(WITH)/cmocka
$(BUILD)/obj/tests/%: CFLAGS_ALL += $(filter -I%,$(CMOCKA))
$(eval $(call KEEP,cmocka,$(CMOCKA)))
longest_first = $(foreach one,$1,$(filter $(one),$2)) $(filter-out $1,$2)

# `make test` is what one waits for, `make test-all` is everything. These are left to the second: scripts that
# start programs many times, wait for them, train for long, or build the book once more.
LONG_TESTS  := $(addprefix tests/,chapter_08_faults_test.sh quick_test.sh judge_test.sh exercises_test.sh \
               instruction_sets_test.sh grade_test.sh deceivers_test.sh grade_machine_test.sh chapter_05_resume_test.sh \
               interrupt_test.sh hosts_test.sh build_test.sh changes_test.sh cli_test.sh lab_kit_test.sh book_test.sh \
               questions_test.sh pytorch_test.sh defaults_test.sh readme_test.sh figures_test.sh inline_test.sh \
               wasm_test.sh)
SHORT_TESTS := $(call longest_first,tests/chapter_08_test.sh $(BUILD)/tests/test_process_group tests/chapter_07_test.sh \
               $(BUILD)/tests/test_many_machines tests/chapter_06_test.sh tests/chapter_05_test.sh,$(TESTS) \
               $(filter-out $(LONG_TESTS) tests/small_runs_test.sh,$(wildcard tests/*_test.sh)))

.PHONY: test test-all long-tests test-programs sanitized-programs can-test announce-test announce-test-all syntax lint

# (numbers_test.sh grades a class, with one exercise beside the numbers.)
test: announce-test can-test
	+@$(MAKE_PARALLEL) wanted WANTED='$(CHAPTERS) $(TESTS) $(BUILD)/tests/bench/truth $(JUDGE) $(filter %/06-3/expected.tsv,$(GRADED))'
	@sh tests/run.sh $(BUILD) $(SHORT_TESTS)
# Some look at what chapters print with their default flags: the book's runs.
long-tests: can-test
	+@$(MAKE_PARALLEL) test-programs recorded
	+@$(MAKE) --no-print-directory SIDE_BY_SIDE=1 -j$(or $(RUNS_AT_ONCE),1) wanted WANTED='$(RUNS)'
	@sh tests/run.sh $(BUILD) $(wildcard $(LONG_TESTS))
test-all: announce-test-all test long-tests sanitize
	@echo
	@echo 'All tests passed.'

announce-test:
	@echo 'make test: a few minutes, once all is compiled. (make test-all has the long tests too.)'
announce-test-all:
	@echo 'make test-all: about twenty minutes, once all is compiled.'

can-test: report
	@test -n '$(and $(CMOCKA),$(PROVE))' || { echo 'make: error: the tests need cmocka and prove' >&2; \
	    echo 'hint: make setup' >&2; exit 1; }
test-programs: $(CHAPTERS) $(EXERCISES) $(SOLVED_EXERCISES) $(TESTS) $(BENCHES) $(JUDGE) $(GRADED) $(if $(WASM_CC),$(WASM_PROGRAMS))
	@:
sanitized-programs: $(CHAPTERS) $(SOLVED_EXERCISES) $(TESTS) $(SIM_TESTS)
	@:

# Whether CC takes all of the sources, without making anything of them:
# make CC=clang BUILD=build/clang OPTIMIZE='-O1 -fsyntax-only' syntax
syntax: $(SOURCES:%=$(BUILD)/obj/%.o) $(GENERATED:%=%.o) $(JUDGE_SOURCES:%=$(BUILD)/obj/%.o) \
        $(foreach isa,$(ISAS),$(CPU_SOURCES:kernels/cpu/%=$(BUILD)/obj/kernels/cpu-$(isa)/%.o)) \
        $(call objects,plots/book/record.c $(wildcard chapters/*/main.c tests/*.c tests/bench/*.c) \
        $(call sources,$(BUILT_EXERCISES) $(RUN_QUESTIONS)))
	@:

# Style. (Of one version, as versions differ. Of shellcheck's warnings, those left out are of words that are to be split
# and of variables that another file has.) And how large the house may be.
lint:
	@for tool in git clang-format-14 shellcheck; do command -v $$tool >/dev/null || { \
	    echo "make: error: no $$tool" >&2; echo 'hint: make setup lint' >&2; exit 1; }; done
	@git ls-files '*.c' '*.h' '*.cu' '*.cuh' '*.cpp' | xargs clang-format-14 --dry-run -Werror
	@git ls-files | grep -vE '\.(png|safetensors|gz)$$' | xargs wc -l | awk -f tests/budget.awk tests/budget -
	@git ls-files '*.sh' .ci/run | xargs shellcheck -s sh -S warning -e SC1007,SC1091,SC2034,SC2046,SC2154
