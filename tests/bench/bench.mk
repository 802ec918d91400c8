# make bench: our training step next to PyTorch's. tests/bench/X.c is the program build/tests/bench/X.

BENCHES := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/bench/*.c))
$(BENCHES): $(BUILD)/%: $(BUILD)/obj/%.c.o

.PHONY: bench
bench: report
	+@$(MAKE_PARALLEL) wanted WANTED='$(BENCHES) $(filter $(BUILD)/05_%,$(CHAPTERS))'
	@python=build/torch/bin/python; test -x $$python || python=python3; $$python tests/bench/bench.py $(ARGS)

# make truth: modelled time beside what others measured. Its networks are in tests/published; a test has them, too.
PUBLISHED := $(patsubst %.c,$(BUILD)/obj/%.c.o,$(wildcard tests/published/*.c))
$(BUILD)/tests/bench/truth: $(PUBLISHED)

.PHONY: truth
truth: report
	+@$(MAKE_PARALLEL) wanted WANTED='$(BUILD)/tests/bench/truth'
	@$(BUILD)/tests/bench/truth $(ARGS)
