// test_zero_reference.c: chapter 9 against PyTorch's figures: what fully_shard and Adam train on 2
// and 3 ranks (tests/reference/zero.safetensors; make_zero.py there says what it holds). To be run
// from the repository root.
#include "chapters/09_what_each_device_keeps/zero.h"
#include "ddp_reference.h"

// Of the loss, and of the largest number of a tensor.
static const double allowed_part = 1e-6;

// What a parameter is now, less what it was at the start: at the places that the file has, and the
// length of all of it.
static void check_parameter(const Training *t, const Parameter *p, const float *now) {
    const char *name = t->kind->name;
    const SafetensorsEntry *some = find_part(false, "%s.%d.change.%s", name, t->k, p->name);
    const SafetensorsEntry *index = some ? NULL : part("%s.index.%s", name, p->name);
    if (!some) some = part("%s.%d.change.%s.value", name, t->k, p->name);
    const SafetensorsEntry *norm = part("%s.%d.norm.%s", name, t->k, p->name);
    const float *start = p->start->data;
    double largest = 0, squares = 0;
    size_t n = numel(p->start);
    for (size_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs((double)now[i]));
        squares += pow((double)now[i] - (double)start[i], 2);
    }
    assert_int_equal(some->count, index ? index->count : n);
    for (size_t i = 0; i < some->count; i++) {
        size_t at = index ? (size_t)index->values[i] : i;
        check(t, some->name, at, (double)now[at] - (double)start[at], (double)some->values[i],
              allowed_part * largest);
    }
    check(t, norm->name, 0, sqrt(squares), (double)norm->values[0],
          allowed_part * largest * sqrt((double)n));
}

// Of each rank, as a part of the minibatch's mean loss.
static void check_losses(const Training *t, int step, Tensor *const losses[], int rows) {
    const SafetensorsEntry *expected = part("%s.%d.losses", t->kind->name, t->k);
    const float *theirs = expected->values + step * t->k;
    double mean = 0;
    assert_int_equal(expected->count, STEPS * t->k);
    for (int i = 0; i < t->k; i++) mean += (double)theirs[i];
    for (int i = 0; i < t->k; i++)
        check(t, expected->name, (size_t)(step * t->k + i), (double)item(losses[i]) / rows,
              (double)theirs[i], allowed_part * mean);
}

static void check_steps(const Training *t, Zero *z, float lr) {
    const SafetensorsEntry *rows = part("rows");
    Tensor *X, *y, *Xs[MAX_DEVICES], *ys[MAX_DEVICES], *losses[MAX_DEVICES];
    int first = 0;
    assert_int_equal(rows->count, STEPS);
    formula_batch(STEPS * (int)rows->values[0], &X, &y);
    keep(X), keep(y);
    for (int step = 0; step < STEPS; step++) {
        int n = (int)rows->values[step];
        Tensor X_step = rows_of(X, (Range){first, n}), y_step = rows_of(y, (Range){first, n});
        for (int i = 0; i < t->k; i++) begin_step(t->devices[i]);
        split_batch(&X_step, &y_step, t->devices, t->k, Xs, ys);
        zero_step(z, Xs, ys, lr, n, losses);
        check_losses(t, step, losses, n);
        first += n;
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
    for (int p = 0; p < all.n; p++)
        if (all.list[p]->trained) check_parameter(&t, all.list[p], now + all.list[p]->first);
    zero_free(z);
    module_free(t.net);
    free_kept();
}

static void test_lenet(void **state) {
    train(state, &networks[0], 2);
    train(state, &networks[0], 3);
}
static void test_resnet18(void **state) {
    train(state, &networks[1], 2);
    train(state, &networks[1], 3);
}

int main(int argc, char *argv[]) {
    (void)argc;
    set_program_name(argv[0]);
    const struct CMUnitTest tests[] = {
        ON_BOTH(test_lenet),
        ON_BOTH_UNLESS_SIMULATED(test_resnet18),
    };
    reference = safetensors_open("tests/reference/zero.safetensors");
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    safetensors_close(&reference);
    devices_close();
    return failed;
}
