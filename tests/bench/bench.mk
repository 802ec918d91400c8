# make bench: our training step next to PyTorch's. Is the modelled clock true? make truth: its times next to what others
# measured; make truth-page writes them into the book. make truth-here (make bench begins with it, on CPUs): next to what
# is measured here. make links: allreduces between hosts, next to what the links between them allow. tests/bench/X.c is
# the program build/tests/bench/X.

BENCHES := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/bench/*.c))
$(BENCHES): $(BUILD)/%: $(BUILD)/obj/%.c.o

.PHONY: bench truth truth-page truth-here links
bench: $(if $(findstring cuda,$(ARGS)),report,truth-here)
	+@$(MAKE_PARALLEL) wanted WANTED='$(BENCHES) $(filter $(BUILD)/05_%,$(CHAPTERS))'
	@python=build/torch/bin/python; test -x $$python || python=python3; $$python tests/bench/bench.py $(ARGS)

truth-here: report
	+@$(MAKE_PARALLEL) wanted WANTED='$(filter %/step,$(BENCHES))'
	@for k in 1 2; do for mode in 'lenet --truth 99' 'resnet --batch-size 64 --truth 9' 'lenet --overhead 40'; do \
	    $(BUILD)/tests/bench/step --backend cpu --devices $$k --train $$mode || exit 1; \
	done; done

truth: report
	+@$(MAKE_PARALLEL) wanted WANTED='$(BUILD)/tests/bench/truth'
	@$(BUILD)/tests/bench/truth
truth-page: truth
	@$(BUILD)/tests/bench/truth >$(BUILD)/truth.md
	@sed -i '/^## Row by row/q' chapters/how_true.md && cat $(BUILD)/truth.md >>chapters/how_true.md

links: report
	+@$(MAKE_PARALLEL) wanted WANTED='$(BUILD)/tests/bench/links'
	@sh tests/bench/links.sh $(BUILD)/tests/bench/links $(ARGS)
