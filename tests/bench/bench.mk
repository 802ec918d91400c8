# make bench: make truth, and our training step next to PyTorch's. make truth: what the modelled clock says
# of this machine (--machine this), next to what it takes. tests/bench/X.c is the program build/tests/bench/X.

BENCHES := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/bench/*.c))
$(BENCHES): $(BUILD)/%: $(BUILD)/obj/%.c.o

.PHONY: bench truth
bench: truth
	+@$(MAKE_PARALLEL) wanted WANTED='$(BENCHES) $(filter $(BUILD)/05_%,$(CHAPTERS))'
	@python=build/torch/bin/python; test -x $$python || python=python3; $$python tests/bench/bench.py $(ARGS)

truth: report
	+@$(MAKE_PARALLEL) wanted WANTED='$(filter %/step,$(BENCHES))'
	@for k in 1 2; do \
	    OMP_WAIT_POLICY=passive $(BUILD)/tests/bench/step lenet --batch 256 --devices $$k --truth 99 || exit 1; \
	    OMP_WAIT_POLICY=passive $(BUILD)/tests/bench/step resnet --batch 64 --devices $$k --truth 9 || exit 1; \
	    OMP_WAIT_POLICY=passive $(BUILD)/tests/bench/step lenet --batch 256 --devices $$k --overhead 40 || exit 1; \
	done
