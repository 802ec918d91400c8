// test_ddp_reference.c: chapter 6 against PyTorch's figures: what DistributedDataParallel trains,
// its buckets, and the lists of DistributedSampler (tests/reference/ddp.safetensors; make_ddp.py
// there says what it holds). To be run from the repository root.
#include "test.h"

#include "common/base/error.h"
#include "common/data/safetensors.h"
#include "common/model/modelled_clock.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/03_split_batch/split_batch.h"
#include "chapters/06_data_parallel_and_ddp/ddp.h"
#include "chapters/06_data_parallel_and_ddp/networks.h"
#include "chapters/06_data_parallel_and_ddp/sampler.h"
#include "ddp_reference.h"

// ---- training -----------------------------------------------------------------------------------

static void train(Training *t) {
    const char *name = t->kind->name;
    int rows = (int)part("%s.rows", name)->values[0];
    const SafetensorsEntry *expected = part("%s.%d.losses", name, t->k);
    Tensor *X, *y, *X_shards[MAX_DEVICES], *y_shards[MAX_DEVICES], *losses[MAX_DEVICES];
    assert_int_equal(expected->count, STEPS * t->k);
    formula_batch(STEPS * rows, &X, &y);
    for (int step = 0; step < STEPS; step++) {
        Tensor X_batch = *X, y_batch = *y;
        X_batch.shape[0] = y_batch.shape[0] = rows;
        X_batch.data += (size_t)step * numel(&X_batch);
        y_batch.data += (size_t)step * numel(&y_batch);
        float ours[MAX_DEVICES];
        for (int i = 0; i < t->k; i++) begin_step(t->devices[i]);
        split_batch(&X_batch, &y_batch, t->devices, t->k, X_shards, y_shards);
        ddp_step(t->ddp, X_shards, y_shards, part("%s.lr", name)->values[0], rows, losses);
        items(losses, t->k, ours);
        for (int i = 0; i < t->k; i++) {
            // ours is the sum over the rows of a rank, PyTorch's the mean
            double mean = (double)ours[i] * t->k / rows;
            size_t at = (size_t)(step * t->k + i);
            check(t, expected->name, at, mean, (double)expected->values[at], reference_tolerance);
        }
    }
    tensor_free(X);
    tensor_free(y);
}

static void check_training(void **state, const NetworkKind *kind, int k, const char *allreduce_name,
                           DdpOptions options) {
    Training t = {.kind = kind, .k = k, .net = network_at_start(kind)};
    for (int i = 0; i < k; i++)
        t.devices[i] = strcmp(*state, "cuda") == 0 ? try_gpu(i) : cpu_device(i);
    choose_allreduce(allreduce_name);
    t.ddp = ddp_new(t.net, t.devices, k, options);
    train(&t);
    Parameters all = parameters_of(t.net);
    for (int rank = 0; rank < k; rank += k - 1)
        for (int p = 0; p < all.n; p++)
            if (all.list[p]->trained)
                check_change(&t, p, rank);
            else
                check_statistics(&t, all.list[p], rank);
    print_message("%s on %d ranks, %s, %s: differs by %.2f of what is allowed at most\n",
                  kind->title, k, allreduce_name,
                  options.rebuild  ? "rebuilt"
                  : options.copies ? "copies"
                                   : "views",
                  t.worst);
    ddp_free(t.ddp);
    module_free(t.net);
}

static const DdpOptions views = {.bucket_bytes = 64 << 10},
                        copies = {.bucket_bytes = 64 << 10, .copies = true},
                        rebuilt = {.bucket_bytes = 64 << 10, .copies = true, .rebuild = true};

static void test_lenet(void **state) {
    device_under_test(state);
    for (int k = 2; k <= 3; k++)
        for (int ring = 0; ring < 2; ring++) {
            const char *name = ring ? "ring" : "star";
            check_training(state, &networks[0], k, name, views);
            if (!SANITIZED) check_training(state, &networks[0], k, name, copies);
            check_training(state, &networks[0], k, name, rebuilt);
        }
}

// Not in all ways, as LeNet: that would take long.
static void test_resnet18(void **state) {
    device_under_test(state);
    check_training(state, &networks[1], 3, "ring", rebuilt);
    if (!SANITIZED) check_training(state, &networks[1], 2, "star", views);
}

// ---- buckets ------------------------------------------------------------------------------------

enum { MOST_PARAMS = 128 };

// The trained parameters of a network, which must be as large as PyTorch's.
typedef struct Trained {
    const NetworkKind *kind;
    Module *net;
    int n, arrivals[MOST_PARAMS], backwards[MOST_PARAMS], forwards[MOST_PARAMS];
    size_t sizes[MOST_PARAMS];
    const Parameter *list[MOST_PARAMS];
} Trained;

static Trained trained_of(const NetworkKind *kind) {
    Trained t = {.kind = kind, .net = network_at_start(kind)};
    const SafetensorsEntry *sizes = part("%s.floats", kind->name);
    const SafetensorsEntry *arrivals = part("%s.arrivals", kind->name);
    Parameters all = parameters_of(t.net);
    for (int p = 0; p < all.n; p++)
        if (all.list[p]->trained) t.list[t.n++] = all.list[p];
    assert_int_equal(sizes->count, t.n);
    assert_int_equal(arrivals->count, t.n);
    for (int p = 0; p < t.n; p++) {
        t.sizes[p] = numel(t.list[p]->start);
        assert_int_equal(t.sizes[p], sizes->values[p]);
        t.arrivals[p] = (int)arrivals->values[p];
        t.forwards[p] = p;
        t.backwards[p] = t.n - 1 - p;
    }
    return t;
}

static void check_buckets(const Buckets *ours, const SafetensorsEntry *theirs, bool in_reverse) {
    if (ours->n != (int)theirs->count)
        fail_msg("%s: %d buckets, PyTorch has %zu", theirs->name, ours->n, theirs->count);
    for (int b = 0; b < ours->n; b++) {
        size_t floats = (size_t)theirs->values[in_reverse ? ours->n - 1 - b : b];
        if (ours->floats[b] != floats)
            fail_msg("%s: bucket %d has %zu floats, PyTorch's %zu", theirs->name, b,
                     ours->floats[b], floats);
    }
}

static void check_rule(const Trained *t, const int order[], size_t first_bytes, size_t bytes,
                       const SafetensorsEntry *expected) {
    Buckets b = buckets_of(t->sizes, order, t->n, first_bytes, bytes);
    check_buckets(&b, expected, order == t->forwards);
    buckets_free(&b);
}

static void test_bucket_rule(void **state) {
    (void)state;
    const SafetensorsEntry *caps = part("caps");
    for (int net = 0; net < NUM_NETWORKS; net++) {
        Trained t = trained_of(&networks[net]);
        for (int i = 0; i < (int)caps->count / 2; i++) {
            size_t first = (size_t)caps->values[2 * i], others = (size_t)caps->values[2 * i + 1];
            check_rule(&t, t.backwards, first, others, part("%s.reversed.%d", t.kind->name, i));
            check_rule(&t, t.arrivals, first, others, part("%s.arrived.%d", t.kind->name, i));
        }
        module_free(t.net);
    }
}

// bucket_cap_mb as bytes. The first bucket is smaller only where the user has given no cap.
static DdpOptions caps_of_pytorch(double cap_mb) {
    if (cap_mb == 0) return (DdpOptions){.bucket_bytes = 0};
    size_t bytes = (size_t)(cap_mb * (1 << 20));
    return (DdpOptions){.bucket_bytes = bytes, .first_bucket_bytes = bytes};
}

// A step on devices without values: what is there is the order in which the gradients become final.
static Ddp *ddp_after_a_step(const Trained *t, DdpOptions options) {
    Device *devices[2] = {model_device(0), model_device(1)};
    const Tensor X = {.ndim = 4, .shape = {8, 1, 28, 28}, .device = host()};
    const Tensor y = {.ndim = 1, .shape = {8}, .device = host()};
    Tensor *X_shards[2], *y_shards[2], *losses[2];
    Ddp *ddp = ddp_new(t->net, devices, 2, options);
    for (int i = 0; i < 2; i++) begin_step(devices[i]);
    split_batch(&X, &y, devices, 2, X_shards, y_shards);
    ddp_step(ddp, X_shards, y_shards, 0.1f, 8, losses);
    return ddp;
}

// Our gradients come in PyTorch's order, to the single parameter (a Linear layer's bias before its
// weight, elsewhere the weight before the bias). So after the first step both have the same
// buckets.
static void test_rebuilt_buckets(void **state) {
    (void)state;
    for (int net = 0; net < NUM_NETWORKS; net++) {
        Trained t = trained_of(&networks[net]);
        const SafetensorsEntry *caps = part("%s.ddp.caps", t.kind->name);
        for (int i = 0; i < (int)caps->count; i++) {
            const SafetensorsEntry *expected = part("%s.ddp.%d", t.kind->name, i);
            DdpOptions o = caps_of_pytorch((double)caps->values[i]);
            o.copies = o.rebuild = true;
            Ddp *ddp = ddp_after_a_step(&t, o);
            assert_int_equal(ddp->num_came, t.n);
            for (int p = 0; p < t.n; p++) assert_int_equal(ddp->came[p], t.arrivals[p]);
            check_buckets(&ddp->buckets, expected, false);
            ddp_free(ddp);
        }
        module_free(t.net);
    }
}

// With find_unused_parameters PyTorch fills buckets from the first parameter on, never anew, and
// starts the last one first. Ours are always filled from the last, so here we compare the rule.
static void test_buckets_from_the_front(void **state) {
    (void)state;
    for (int net = 0; net < NUM_NETWORKS; net++) {
        Trained t = trained_of(&networks[net]);
        const SafetensorsEntry *caps = part("%s.ddp.caps", t.kind->name);
        for (int i = 0; i < (int)caps->count; i++) {
            DdpOptions o = caps_of_pytorch((double)caps->values[i]);
            if (o.bucket_bytes == 0)
                o = (DdpOptions){.first_bucket_bytes = FIRST_BUCKET_BYTES,
                                 .bucket_bytes = BUCKET_BYTES};
            check_rule(&t, t.forwards, o.first_bucket_bytes, o.bucket_bytes,
                       part("%s.unused.%d", t.kind->name, i));
        }
        module_free(t.net);
    }
}

// ---- the sampler --------------------------------------------------------------------------------

enum { MOST_IMAGES = 64 };

// The lists of all ranks, as they would be read: place j of the order is rank j % k's number j / k.
typedef struct Lists {
    int k, count, order[MOST_IMAGES];
} Lists;

static Lists lists_of(int n, int k, SamplerMode mode, bool shuffle) {
    Lists lists = {.k = k};
    for (int rank = 0; rank < k; rank++) {
        DistributedSampler s = {n, k, rank, mode, shuffle, .seed = 0, .epoch = 0};
        int indices[MOST_IMAGES];
        lists.count = sampler_count(&s);
        sampler_indices(&s, indices);
        for (int i = 0; i < lists.count; i++) lists.order[i * k + rank] = indices[i];
    }
    return lists;
}

static Lists lists_in(const SafetensorsEntry *entry) {
    Lists lists = {.k = entry->shape[0], .count = entry->shape[1]};
    for (int rank = 0; rank < lists.k; rank++)
        for (int i = 0; i < lists.count; i++)
            lists.order[i * lists.k + rank] = (int)entry->values[rank * lists.count + i];
    return lists;
}

static void check_lists(const Lists *ours, const Lists *theirs) {
    assert_int_equal(ours->k, theirs->k);
    assert_int_equal(ours->count, theirs->count);
    for (int j = 0; j < ours->k * ours->count; j++)
        assert_int_equal(ours->order[j], theirs->order[j]);
}

// Another random order has the same structure: each image is replaced by the place where it is
// first. What is left is which places repeat which.
static Lists structure_of(Lists lists) {
    Lists structure = lists;
    for (int j = 0; j < lists.k * lists.count; j++)
        for (int first = j; first >= 0; first--)
            if (lists.order[first] == lists.order[j]) structure.order[j] = first;
    return structure;
}

static void test_sampler(void **state) {
    (void)state;
    const int counts[] = {2, 10, 11, 12};
    for (int c = 0; c < 4; c++)
        for (int k = 2; k <= 4; k++) {
            int n = counts[c];
            Lists pad = lists_of(n, k, SAMPLER_PAD, false),
                  drop = lists_of(n, k, SAMPLER_DROP, false);
            Lists theirs = lists_in(part("sampler.%d.%d.pad", n, k));
            check_lists(&pad, &theirs);
            theirs = lists_in(part("sampler.%d.%d.drop", n, k));
            check_lists(&drop, &theirs);
            Lists ours = structure_of(lists_of(n, k, SAMPLER_PAD, true));
            theirs = structure_of(lists_in(part("sampler.%d.%d.shuffled", n, k)));
            check_lists(&ours, &theirs);
        }
}

// ---- main ---------------------------------------------------------------------------------------

static int setup(void **state) {
    (void)state;
    reference = safetensors_open("tests/reference/ddp.safetensors");
    return 0;
}

static int teardown(void **state) {
    (void)state;
    safetensors_close(&reference);
    return 0;
}

int main(int argc, char *argv[]) {
    (void)argc;
    set_program_name(argv[0]);
    devices_init(BACKEND_AUTO, 0);
    const struct CMUnitTest tests[] = {
        UNLESS_SIMULATED(test_bucket_rule),
        UNLESS_SIMULATED(test_rebuilt_buckets),
        UNLESS_SIMULATED(test_buckets_from_the_front),
        UNLESS_SIMULATED(test_sampler),
        ON_BOTH(test_lenet),
        ON_BOTH_UNLESS_SIMULATED(test_resnet18),
    };
    int failed = cmocka_run_group_tests(tests, setup, teardown);
    devices_close();
    return failed;
}
