# make bench: our training step next to PyTorch's. Is the modelled clock true? make truth: its times next to what others
# measured; make truth-page writes them into the book. tests/bench/X.c is the program build/tests/bench/X.

BENCHES := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/bench/*.c))
$(BENCHES): $(BUILD)/%: $(BUILD)/obj/%.c.o

.PHONY: bench truth truth-page
bench: report
	+@$(MAKE_PARALLEL) wanted WANTED='$(filter %/step,$(BENCHES)) $(filter $(BUILD)/05_%,$(CHAPTERS))'
	@python=build/torch/bin/python; test -x $$python || python=python3; $$python tests/bench/bench.py $(ARGS)

truth: report
	+@$(MAKE_PARALLEL) wanted WANTED='$(BUILD)/tests/bench/truth'
	@$(BUILD)/tests/bench/truth
truth-page: truth
	@$(BUILD)/tests/bench/truth >$(BUILD)/truth.md
	@sed -i '/^## Row by row/q' chapters/how_true.md && cat $(BUILD)/truth.md >>chapters/how_true.md
