// test_zero_reference.c: chapter 9 against PyTorch's figures: what fully_shard and Adam train on 2
// and 3 ranks (tests/reference/zero.safetensors; make_zero.py there says what it holds). To be run
// from the repository root.
#include "ddp_reference.h"
#include "zero_run.h"

// Of the loss, and of the largest number of a tensor.
static const double allowed_part = 1e-6;

// Of each rank, as a part of the minibatch's mean loss.
static void check_losses(const Training *t, int step, Tensor *const losses[], int rows) {
    const SafetensorsEntry *expected = part("%s.%d.losses", t->kind->name, t->k);
    const float *theirs = expected->values + step * t->k;
    double mean = 0;
    assert_int_equal(expected->count, STEPS * t->k);
    for (int i = 0; i < t->k; i++) mean += (double)theirs[i];
    for (int i = 0; i < t->k; i++)
        check(expected->name, (size_t)(step * t->k + i), (double)item(losses[i]) / rows,
              (double)theirs[i], allowed_part * mean);
}

static void check_steps(const Training *t, Zero *z, float rate) {
    const SafetensorsEntry *rows = part("rows");
    Tensor *Xs[MAX_DEVICES], *ys[MAX_DEVICES], *losses[MAX_DEVICES];
    assert_int_equal(rows->count, STEPS);
    for (int step = 0, first = 0; step < STEPS; first += (int)rows->values[step++]) {
        int n = (int)rows->values[step];
        give_rows(first, n, t->devices, t->k, Xs, ys);
        zero_step(z, Xs, ys, rate, n, losses);
        check_losses(t, step, losses, n);
    }
}

// (Not in all stages: that they have the same bits is test_zero.c's.)
static void train(void **state, const NetworkKind *kind, int k) {
    Training t = {.kind = kind, .k = k, .net = network_at_start(kind)};
    const float *adam = part("%s.adam", kind->name)->values;
    devices_under_test(state, k, t.devices);
    Zero *z = zero_new(t.net, t.devices, k, ZERO_3, (AdamOptions){.eps = adam[1]});
    float *now = keep_memory(xmalloc(parameter_bytes(t.net)));
    check_steps(&t, z, adam[0]);
    zero_read(z, now);
    Parameters all = parameters_of(t.net);
    for (int p = 0; p < all.n; p++) {
        const float *values = now + all.list[p]->first;
        if (all.list[p]->trained)
            check_learned(&t, all.list[p], values, 0,
                          allowed_part * largest_of(values, numel(all.list[p]->start)));
    }
    zero_free(z);
    module_free(t.net);
    free_kept();
}

TEST_ON_BOTH(test_lenet) {
    train(state, &networks[0], 2);
    train(state, &networks[0], 3);
}
TEST_ON_BOTH_UNLESS_SIMULATED(test_resnet18) {
    train(state, &networks[1], 2);
    train(state, &networks[1], 3);
}

static int open_reference(void **state) {
    reference = safetensors_open("tests/reference/zero.safetensors");
    return (void)state, 0;
}

int main(void) { return run_all("zero_reference", open_reference, close_reference); }
