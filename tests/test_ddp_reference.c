// test_ddp_reference.c: chapter 6 against PyTorch's figures: what DistributedDataParallel trains,
// its buckets, and the lists of DistributedSampler (tests/reference/ddp.safetensors; make_ddp.py
// there says what it holds). To be run from the repository root.
#include "common/model/modelled_clock.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/03_split_batch/split_batch.h"
#include "chapters/06_data_parallel_and_ddp/ddp.h"
#include "chapters/06_data_parallel_and_ddp/sampler.h"
#include "ddp_reference.h"

// ---- training -----------------------------------------------------------------------------------

// PyTorch's figures are in float64. Ours may be wrong by a part of what is measured, and each
// update of a parameter rounds. In ResNet-18 some activation is within a rounding error of a relu's
// kink now and then; so PyTorch's own float32 is wrong by 7e-4 of the norm of what a tensor
// learned.
static const double reference_tolerance = 1e-4, rounding = STEPS * 0x1p-24;
static const double tolerance_of_changes[NUM_NETWORKS] = {1e-4, 3e-3};

// Ours is the sum over the rows of a rank, PyTorch's the mean.
static void check_loss(const Training *t, int step, int rank, float ours, int rows) {
    const SafetensorsEntry *expected = part("%s.%d.losses", t->kind->name, t->k);
    size_t at = (size_t)(step * t->k + rank);
    assert_int_equal(expected->count, STEPS * t->k);
    check(expected->name, at, (double)ours * t->k / rows, (double)expected->values[at],
          reference_tolerance);
}

// Differences are measured by how much a parameter learned, all in all. The bias of a convolution
// before a batch norm has the gradient 0, where rounding is all there is: so it is measured by its
// weight.
static void check_change(const Training *t, int number, int rank) {
    const Parameter *const *list = (const Parameter *const *)parameters_of(t->net).list;
    const Parameter *p = list[number];
    bool is_noise = t->kind == &networks[1] && number > 0 && list[number - 1]->start->ndim == 4;
    const SafetensorsEntry *measure =
        part("%s.%d.norm.%s", t->kind->name, t->k, list[is_noise ? number - 1 : number]->name);
    check_learned(t, p, values_of(parameter_data(p, t->devices[rank])),
                  (double)measure->values[0] * tolerance_of_changes[t->kind - networks],
                  rounding * largest_of(p->start->data, numel(p->start)));
}

// Of batch norm. A rank's are those of rank 0 before the last step, and its own rows in it.
static void check_statistics(const Training *t, const Parameter *p, int rank) {
    const SafetensorsEntry *expected = part("%s.%d.rank.%d.%s", t->kind->name, t->k, rank, p->name);
    const float *ours = values_of(parameter_data(p, t->devices[rank]));
    double largest = largest_of(expected->values, expected->count);
    assert_int_equal(numel(p->start), expected->count);
    for (size_t i = 0; i < expected->count; i++)
        check(expected->name, i, (double)ours[i], (double)expected->values[i],
              reference_tolerance * largest);
}

// All that a rank has in the end. (Of the statistics the file has the first and the last rank's.)
static void check_rank(const Training *t, int rank) {
    Parameters all = parameters_of(t->net);
    for (int p = 0; p < all.n; p++)
        if (all.list[p]->trained)
            check_change(t, p, rank);
        else if (rank == 0 || rank == t->k - 1)
            check_statistics(t, all.list[p], rank);
}

static void train(void **state, const NetworkKind *kind, int k, const char *allreduce_name,
                  DdpOptions options) {
    Training t = {.kind = kind, .k = k, .net = network_at_start(kind)};
    Tensor *X, *y, *Xs[MAX_DEVICES], *ys[MAX_DEVICES], *losses[MAX_DEVICES];
    int rows = (int)part("%s.rows", kind->name)->values[0];
    float lr = part("%s.lr", kind->name)->values[0];
    devices_under_test(state, k, t.devices);
    choose_allreduce(allreduce_name);
    Ddp *ddp = ddp_new(t.net, t.devices, k, options);
    formula_batch(STEPS * rows, &X, &y);
    keep(X), keep(y);
    for (int step = 0; step < STEPS; step++) {
        Tensor own_X = rows_of(X, (Range){step * rows, rows});
        Tensor own_y = rows_of(y, (Range){step * rows, rows});
        for (int i = 0; i < k; i++) begin_step(t.devices[i]);
        split_batch(&own_X, &own_y, t.devices, k, Xs, ys);
        ddp_step(ddp, Xs, ys, lr, rows, losses);
        for (int i = 0; i < k; i++) check_loss(&t, step, i, item(losses[i]), rows);
    }
    check_rank(&t, 0);
    check_rank(&t, k - 1);
    free_kept();
    ddp_free(ddp);
    module_free(t.net);
}

// (Not in all ways: that these have the same bits is test_trainers.c's, and that ranks have them
// test_many_machines.c's.)
static const DdpOptions small = {.bucket_bytes = 64 << 10}, large = {0};
TEST_ON_BOTH(test_lenet) {
    train(state, &networks[0], 2, "star", small);
    train(state, &networks[0], 3, "star", large);
    train(state, &networks[0], 2, "ring", large);
    train(state, &networks[0], 3, "ring", small);
}
TEST_ON_BOTH_UNLESS_SIMULATED(test_resnet18) {
    train(state, &networks[1], 2, "ring", small);
    train(state, &networks[1], 3, "ring", small);
}

// ---- buckets ------------------------------------------------------------------------------------

enum { MOST_PARAMS = 128 };

// The trained parameters of a network, which must be as large as PyTorch's.
typedef struct Trained {
    const char *name;
    Module *net;
    int n, arrivals[MOST_PARAMS], backwards[MOST_PARAMS], forwards[MOST_PARAMS];
    size_t sizes[MOST_PARAMS];
} Trained;

static Trained trained_of(const NetworkKind *kind) {
    Trained t = {.name = kind->name, .net = network_at_start(kind)};
    const SafetensorsEntry *sizes = part("%s.floats", kind->name);
    const SafetensorsEntry *arrivals = part("%s.arrivals", kind->name);
    Parameters all = parameters_of(t.net);
    for (int p = 0; p < all.n; p++)
        if (all.list[p]->trained) t.sizes[t.n++] = numel(all.list[p]->start);
    assert_int_equal(sizes->count, t.n);
    assert_int_equal(arrivals->count, t.n);
    for (int p = 0; p < t.n; p++) {
        assert_int_equal(t.sizes[p], sizes->values[p]);
        t.arrivals[p] = (int)arrivals->values[p];
        t.forwards[p] = p;
        t.backwards[p] = t.n - 1 - p;
    }
    return t;
}

// Each bucket has as many numbers as PyTorch's, and those of its own parameters.
static void check_buckets(const Trained *t, const Buckets *ours, const SafetensorsEntry *theirs,
                          bool in_reverse) {
    assert_int_equal(ours->n, theirs->count);
    assert_int_equal(ours->first[ours->n], t->n);
    for (int b = 0; b < ours->n; b++) {
        size_t floats = (size_t)theirs->values[in_reverse ? ours->n - 1 - b : b], own = 0;
        for (int i = ours->first[b]; i < ours->first[b + 1]; i++) {
            own += t->sizes[ours->order[i]];
            assert_int_equal(bucket_with(ours, ours->order[i]), b);
        }
        if (ours->floats[b] != floats || own != floats)
            fail_msg("%s: bucket %d has %zu floats, of its parameters %zu, PyTorch's %zu",
                     theirs->name, b, ours->floats[b], own, floats);
    }
}

static void check_rule(const Trained *t, const int order[], size_t first_bytes, size_t bytes,
                       const SafetensorsEntry *expected) {
    Buckets b = buckets_of(t->sizes, order, t->n, first_bytes, bytes);
    check_buckets(t, &b, expected, order == t->forwards);
    buckets_free(&b);
}

// The order in which autograd says that gradients are final, in a step on a device without values.
typedef struct Order {
    int n, params[MOST_PARAMS];
    const Tensor *of[MOST_PARAMS];
} Order;

static void note_arrival(Tensor *t, void *order) {
    Order *o = order;
    int p = 0;
    while (o->of[p] != t) p++;
    o->params[o->n++] = p;
}

// Our gradients come in PyTorch's order, to the single parameter (a Linear layer's bias before its
// weight, elsewhere the weight before the bias). In that order PyTorch fills its buckets after the
// first step.
static void check_arrivals(const Trained *t) {
    Device *device = model_device(0);
    Order order = {0};
    Parameters all = parameters_of(t->net);
    int n = 0;
    begin_step(device);
    place_on(t->net, device);
    for (int p = 0; p < all.n; p++) {
        if (!all.list[p]->trained) continue;
        order.of[n++] = parameter_data(all.list[p], device);
        when_grad_is_final(parameter_data(all.list[p], device), note_arrival, &order);
    }
    Tensor *X = arena_tensor(device, 4, (const int[]){8, 1, 28, 28}, false);
    set_training(t->net, true);
    backward(sum(forward(t->net, X)));
    assert_int_equal(order.n, t->n);
    for (int p = 0; p < t->n; p++) assert_int_equal(order.params[p], t->arrivals[p]);
    restart(t->net);
}

TEST_UNLESS_SIMULATED(test_buckets) {
    for (int net = 0; net < NUM_NETWORKS; net++) {
        Trained t = trained_of(&networks[net]);
        check_arrivals(&t);
        const SafetensorsEntry *caps = part("caps");
        for (int i = 0; i < (int)caps->count / 2; i++) {
            size_t first = (size_t)caps->values[2 * i], others = (size_t)caps->values[2 * i + 1];
            check_rule(&t, t.backwards, first, others, part("%s.reversed.%d", t.name, i));
            check_rule(&t, t.arrivals, first, others, part("%s.arrived.%d", t.name, i));
        }
        // bucket_cap_mb; the first bucket is smaller only where the user has given no cap
        caps = part("%s.ddp.caps", t.name);
        for (int i = 0; i < (int)caps->count; i++) {
            size_t bytes = (size_t)((double)caps->values[i] * (1 << 20));
            check_rule(&t, t.arrivals, bytes ? bytes : FIRST_BUCKET_BYTES,
                       bytes ? bytes : BUCKET_BYTES, part("%s.ddp.%d", t.name, i));
            // With find_unused_parameters PyTorch fills buckets from the first parameter on, never
            // anew, and starts the last one first. Ours are always filled from the last, so here we
            // compare the rule.
            check_rule(&t, t.forwards, bytes ? bytes : FIRST_BUCKET_BYTES,
                       bytes ? bytes : BUCKET_BYTES, part("%s.unused.%d", t.name, i));
        }
        module_free(t.net);
    }
}

// ---- the sampler --------------------------------------------------------------------------------

// Where in the order the image is first that is at place j.
static int first_place(const int order[], int j) {
    int first = 0;
    while (order[first] != order[j]) first++;
    return first;
}

// Place j of the order is rank j % k's number j / k. Another random order has the same structure:
// which places repeat which.
TEST_UNLESS_SIMULATED(sampler_is_that_of_pytorch) {
    const int counts[] = {2, 10, 11, 12};
    const char *const names[] = {"pad", "drop", "shuffled"};
    for (int c = 0; c < 4 * 3 * 3; c++) {
        int n = counts[c / 9], k = c / 3 % 3 + 2, way = c % 3, ours[64], theirs[64], list[64];
        const SafetensorsEntry *expected = part("sampler.%d.%d.%s", n, k, names[way]);
        int count = expected->shape[1];
        assert_int_equal(expected->shape[0], k);
        for (int rank = 0; rank < k; rank++) {
            SamplerMode mode = way == 1 ? SAMPLER_DROP : SAMPLER_PAD;
            DistributedSampler s = {n, k, rank, mode, way == 2, .seed = 0, .epoch = 0};
            assert_int_equal(sampler_count(&s), count);
            sampler_indices(&s, list);
            for (int i = 0; i < count; i++) {
                ours[i * k + rank] = list[i];
                theirs[i * k + rank] = (int)expected->values[rank * count + i];
            }
        }
        for (int j = 0; j < k * count; j++)
            assert_int_equal(way == 2 ? first_place(ours, j) : ours[j],
                             way == 2 ? first_place(theirs, j) : theirs[j]);
    }
}

// Of all images, each rank has its share.
TEST_UNLESS_SIMULATED(sampler_deals_out_all_images) {
    const int counts[] = {1, 7, 12, 101};
    for (int c = 0; c < 4 * 7 * 3; c++) {
        int n = counts[c / 21], k = c / 3 % 7 + 1, indices[101], seen[101] = {0};
        SamplerMode mode = (SamplerMode)(c % 3);
        for (int rank = 0; rank < k; rank++) {
            DistributedSampler s = {n, k, rank, mode, true, 5, 2};
            int mine = sampler_count(&s), most = n / k + (mode != SAMPLER_DROP && n % k > 0);
            assert_int_equal(mine, mode == SAMPLER_EXACT ? n / k + (rank < n % k) : most);
            sampler_indices(&s, indices);
            for (int i = 0; i < mine; i++) seen[indices[i]]++;
        }
        for (int i = 0; i < n; i++)
            assert_true((mode == SAMPLER_DROP || seen[i] >= 1) &&
                        (mode == SAMPLER_PAD || seen[i] <= 1));
    }
}

TEST_UNLESS_SIMULATED(sampler_epochs) {
    int order[3][50];
    DistributedSampler s = {100, 2, 1, SAMPLER_PAD, true, 5, 0};
    for (int i = 0; i < 3; i++) { // the second time forgotten: the same order once more
        sampler_set_epoch(&s, i / 2);
        sampler_indices(&s, order[i]);
    }
    assert_memory_equal(order[0], order[1], sizeof order[0]);
    assert_memory_not_equal(order[0], order[2], sizeof order[0]);
}

static int open_reference(void **state) {
    reference = safetensors_open("tests/reference/ddp.safetensors");
    return (void)state, 0;
}

int main(void) { return run_all("ddp_reference", open_reference, close_reference); }
