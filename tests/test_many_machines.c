// test_many_machines.c: chapter 8's parts, on real ranks: trainings with the bits of one process,
// PyTorch's figures, the hierarchical sum, and what fusion does with gradients. To be run from the
// repository root.
#include "common/base/range.h"
#include "common/comm/process_group.h"
#include "common/tensor/autograd.h"
#include "chapters/03_split_batch/split_batch.h"
#include "chapters/08_many_machines/across_ranks.h"
#include "chapters/08_many_machines/hierarchical.h"
#include "chapters/08_many_machines/rank_net.h"
#include "ddp_reference.h"
#include "ranks.h"

static int rank, size, k; // k: devices of all ranks

static void begin(int devices) {
    dist_before_flags();
    dist_init_process_group((DistOptions){.devices = devices, .timeout = 40, .threads = 1});
    rank = dist_get_rank();
    size = dist_get_world_size();
    k = dist_num_devices();
}

// ---- rows for each device ----------------------------------------------------------------------

// `rows` of the images from `first` on, of which device g of k gets its part.
static void give_shard(const Tensor *X, const Tensor *y, int first, int rows, int g, Device *device,
                       Tensor **X_shard, Tensor **y_shard) {
    Range part = equal_range(rows, k, g);
    part.first += first;
    *X_shard = rows_on(X, part, device);
    *y_shard = rows_on(y, part, device);
}

// ---- trainings ---------------------------------------------------------------------------------

typedef struct Plan {
    const NetworkKind *kind;
    int rows, steps; // of each device in a step; the last ones are short
    const char *algorithm;
    RankNetOptions options;
} Plan;

// The last two minibatches do not come out even, and LeNet's last one has fewer rows than devices.
// (Batch norm makes little of single rows.)
static int rows_in(const Plan *plan, int step) {
    if (step == plan->steps - 1 && plan->kind == &networks[0]) return k > 1 ? k - 1 : 1;
    return k * plan->rows - (step >= plan->steps - 2 ? plan->rows / 2 : 0);
}

static const float LR = 0.05f;

static float *values_of_replica(const Module *net, const Device *device, size_t *n) {
    FlatParameters flat = flat_parameters(net, device);
    Tensor *const all[] = {flat.data, flat.buffers};
    return values_of_all(all, 2, n);
}

static float *train_as_ranks(const Plan *plan, const Tensor *X, const Tensor *y, size_t *n) {
    Tensor *Xs[MAX_LOCAL_DEVICES], *ys[MAX_LOCAL_DEVICES], *losses[MAX_LOCAL_DEVICES];
    int first = 0, devices = dist_local_devices();
    Module *net = plan->kind->make(10);
    initialize(net, (uint64_t)rank); // rank 0's counts
    dist_choose_all_reduce(plan->algorithm);
    if (plan->options.hosts_first) hierarchical_begin();
    RankNet *rank_net = rank_net_new(net, plan->options);
    for (int step = 0; step < plan->steps; step++) {
        int rows = rows_in(plan, step);
        for (int i = 0; i < devices; i++) {
            begin_step(dist_device(i));
            give_shard(X, y, first, rows, rank * devices + i, dist_device(i), &Xs[i], &ys[i]);
        }
        rank_net_step(rank_net, Xs, ys, LR, rows, losses);
        first += rows;
        synchronize_all();
    }
    rank_net_share_buffers(rank_net);
    float *values = values_of_replica(net, dist_device(0), n);
    double checksum = rank_net_checksum(rank_net), all[MAX_COMPUTING];
    dist_gather(NULL, &checksum, 1, all);
    for (int r = 1; r < size; r++) CHECK(all[r] == all[0], "all ranks end with the same bits");
    rank_net_free(rank_net);
    if (plan->options.hosts_first) hierarchical_end();
    module_free(net);
    return values;
}

static float *train_in_one_process(const Plan *plan, const Tensor *X, const Tensor *y, size_t *n) {
    Tensor *Xs[MAX_COMPUTING], *ys[MAX_COMPUTING], *losses[MAX_COMPUTING];
    Device *devices[MAX_COMPUTING];
    int first = 0;
    Module *net = plan->kind->make(10);
    initialize(net, 0);
    for (int g = 0; g < k; g++) devices[g] = try_gpu(g);
    sum_in_this_process(plan->algorithm);
    Ddp *ddp = ddp_new(net, devices, k, plan->options.ddp);
    for (int step = 0; step < plan->steps; step++) {
        int rows = rows_in(plan, step);
        for (int g = 0; g < k; g++) {
            begin_step(devices[g]);
            give_shard(X, y, first, rows, g, devices[g], &Xs[g], &ys[g]);
        }
        ddp_step(ddp, Xs, ys, LR, rows, losses);
        first += rows;
        synchronize_all();
    }
    float *values = values_of_replica(net, devices[0], n);
    ddp_free(ddp);
    module_free(net);
    return values;
}

static bool learned(const float *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(values[i])) return false;
    return n > 0;
}

// Rank 0 trains in one process as well, and compares.
static void compare_bits(const Plan *plan) {
    Tensor *X, *y;
    size_t n, m;
    formula_batch(plan->steps * plan->rows * k, &X, &y);
    float *ours = train_as_ranks(plan, X, y, &n);
    CHECK(learned(ours, n), "numbers come out");
    if (rank == 0) {
        float *expected = train_in_one_process(plan, X, y, &m);
        CHECK(n == m, "one network");
        for (size_t i = 0; i < n; i++)
            if (memcmp(&ours[i], &expected[i], sizeof *ours) != 0)
                die("see the test",
                    "%s, %s, exchange %d, %d x %d devices: number %zu is %.9g, in "
                    "one process %.9g",
                    plan->kind->title, plan->algorithm, (int)plan->options.exchange, size, k / size,
                    i, (double)ours[i], (double)expected[i]);
        free(expected);
    }
    dist_barrier(NULL);
    free(ours);
    tensor_free(X);
    tensor_free(y);
}

enum { ROWS = SANITIZED ? 6 : 16, NUM_STEPS = SANITIZED ? 3 : 8 };

static void lenet_has_the_bits(int devices) {
    begin(devices);
    for (int a = 0; a < NUM_ALLREDUCES; a++)
        for (int e = 0; e < NUM_EXCHANGES; e++) {
            // (What is fused depends on time, and the ring's order of additions on what is fused.)
            if (e == EXCHANGE_FUSION && strcmp(allreduces[a].name, "ring") == 0) continue;
            DdpOptions ddp = {.bucket_bytes = e == EXCHANGE_BUCKETS ? 64 << 10 : 1};
            compare_bits(&(Plan){&networks[0],
                                 ROWS,
                                 NUM_STEPS,
                                 allreduces[a].name,
                                 {.exchange = (ExchangeKind)e,
                                  .ddp = ddp,
                                  .fusion = {.threshold = 96 << 10, .cycle = 1e-3}}});
        }
    compare_bits(
        &(Plan){&networks[0], 4 * ROWS, NUM_STEPS, "sharded", {.exchange = EXCHANGE_BUCKETS}});
    dist_destroy_process_group();
}

static void resnet_has_the_bits(int devices) {
    begin(devices);
    compare_bits(&(Plan){&networks[1], 4, 3, "sharded", {.exchange = EXCHANGE_BUCKETS}});
    dist_destroy_process_group();
}

// ---- PyTorch's figures, one rank for each of its own -------------------------------------------

static void train_reference(Training *t, RankNet *net) {
    const char *name = t->kind->name;
    int rows = (int)part("%s.rows", name)->values[0];
    const SafetensorsEntry *expected = part("%s.%d.losses", name, t->k);
    Tensor *X, *y, *X_shard, *y_shard, *loss;
    float ours;
    formula_batch(STEPS * rows, &X, &y);
    for (int step = 0; step < STEPS; step++) {
        begin_step(dist_device(0));
        give_shard(X, y, step * rows, rows, rank, dist_device(0), &X_shard, &y_shard);
        rank_net_step(net, &X_shard, &y_shard, part("%s.lr", name)->values[0], rows, &loss);
        items(&loss, 1, &ours);
        size_t at = (size_t)(step * t->k + rank);
        check(t, expected->name, at, (double)ours * t->k / rows, (double)expected->values[at],
              reference_tolerance);
    }
    tensor_free(X);
    tensor_free(y);
}

static void has_the_figures(const NetworkKind *kind, const RankNetOptions *options) {
    Training t = {.kind = kind, .k = k, .net = network_at_start(kind)};
    RankNet *net = rank_net_new(t.net, *options);
    t.devices[rank] = dist_device(0);
    train_reference(&t, net);
    Parameters all = parameters_of(t.net);
    for (int p = 0; p < all.n; p++)
        if (all.list[p]->trained)
            check_change(&t, p, rank);
        else if (rank == 0 || rank == k - 1) // those are in the file
            check_statistics(&t, all.list[p], rank);
    rank_net_free(net);
    module_free(t.net);
}

static void pytorch_has_the_same(int devices) {
    begin(devices);
    reference = safetensors_open("tests/reference/ddp.safetensors");
    for (int e = 0; e < NUM_EXCHANGES; e++) {
        RankNetOptions o = {.exchange = (ExchangeKind)e,
                            .ddp = {.bucket_bytes = 64 << 10},
                            .fusion = {.threshold = 64 << 10, .cycle = 1e-3}};
        dist_choose_all_reduce(e == EXCHANGE_BUCKETS ? "ring" : "sharded");
        has_the_figures(&networks[0], &o);
        if (e == EXCHANGE_BUCKETS) has_the_figures(&networks[1], &o);
    }
    safetensors_close(&reference);
    dist_destroy_process_group();
}

// ---- the hierarchical sum ----------------------------------------------------------------------

static float value(int d, int i) { return (float)formula((uint32_t)d + 1, (uint32_t)i); }

static void check_hierarchical_sum(int n) {
    Tensor *mine = tensor_new(dist_device(0), n);
    float *values = xmalloc(sizeof *values * (size_t)(n + 1));
    for (int i = 0; i < n; i++) values[i] = value(rank, i);
    tensor_write(mine, values);
    free(values);
    dist_reset_traffic();
    hierarchical_all_reduce(mine);
    DistTraffic sent = dist_traffic();
    HierarchicalBytes formula_bytes = hierarchical_bytes((size_t)n);
    CHECK(sent.bytes == formula_bytes.inside + formula_bytes.across, "bytes by the formula");
    CHECK(sent.bytes_to_hosts == formula_bytes.across, "and so many to other hosts");
    values = tensor_values(mine);
    for (int i = 0; i < n; i++) {
        double sum = 0, all[MAX_COMPUTING], own = (double)values[i];
        for (int r = 0; r < size; r++) sum += (double)value(r, i);
        CHECK(fabs(own - sum) <= 1e-6 * size, "the sum, within a rounding error");
        if (i % 997 != 0) continue;
        dist_gather(NULL, &own, 1, all);
        for (int r = 0; r < size; r++) CHECK(all[r] == own, "all ranks have the same bits");
    }
    free(values);
    tensor_free(mine);
}

// Two ranks on each host, as it is pretended; one host is that of one or two ranks.
static void hierarchical_is_right(int devices) {
    static const int sizes[] = {0, 1, 2, 3, 5, 7, 1001, 4099};
    begin(devices);
    dist_pretend_hosts(2);
    if (size > 1 && size % 2 == 1) {
        CHECK(hierarchical_mistake(), "hosts of two ranks and of one are refused");
    } else {
        for (int a = 0; a < NUM_ALLREDUCES; a++) {
            dist_choose_all_reduce(allreduces[a].name);
            hierarchical_begin();
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
                check_hierarchical_sum(sizes[s]);
            hierarchical_end();
        }
    }
    dist_destroy_process_group();
}

// A training with it, and with the ring: the same but for the order of additions.
static void hierarchical_trains(int devices) {
    begin(devices);
    dist_pretend_hosts(2);
    Tensor *X, *y;
    size_t n, m;
    Plan flat = {&networks[0], 16, 6, "ring", {.exchange = EXCHANGE_BUCKETS}}, levels = flat;
    levels.options.hosts_first = true;
    formula_batch(flat.steps * flat.rows * k, &X, &y);
    float *a = train_as_ranks(&flat, X, y, &n), *b = train_as_ranks(&levels, X, y, &m);
    CHECK(n == m && n > 0, "one network");
    for (size_t i = 0; i < n; i++)
        CHECK(fabsf(a[i] - b[i]) <= 1e-5f * fmaxf(fabsf(a[i]), 0.01f), "within rounding errors");
    free(a);
    free(b);
    tensor_free(X);
    tensor_free(y);
    dist_destroy_process_group();
}

// ---- fusion ------------------------------------------------------------------------------------

typedef struct FusionRun {
    FusionCounts counts;
    DistTraffic sent, talk; // the gradients; what ranks tell each other in a cycle
    double seconds;
    int num_params, larger; // gradients; of these, longer than the threshold,
    size_t floats, rest;    // of all, and of those that are not
} FusionRun;

// What one cycle's question, which gradients are ready, costs this rank.
static DistTraffic talk_of_cycle(int num_params) {
    double *votes = xcalloc((size_t)num_params, sizeof *votes);
    dist_reset_traffic();
    dist_sum(NULL, votes, num_params);
    free(votes);
    return dist_traffic();
}

// One step of LeNet by fusion; the star, of which a rank but 0 sends one message for each vector.
static FusionRun fuse_once(size_t threshold, double cycle) {
    FusionRun r = {0};
    Tensor *X, *y, *X_shard, *y_shard, *loss;
    Module *net = lenet_modules(10);
    initialize(net, 0);
    RankNet *n = rank_net_new(
        net, (RankNetOptions){.exchange = EXCHANGE_FUSION, .fusion = {threshold, cycle}});
    formula_batch(8 * k, &X, &y);
    begin_step(dist_device(0));
    give_shard(X, y, 0, 8 * k, rank, dist_device(0), &X_shard, &y_shard);
    dist_reset_traffic();
    double start = seconds_now();
    rank_net_step(n, &X_shard, &y_shard, LR, 8 * k, &loss);
    synchronize_all();
    r.seconds = seconds_now() - start;
    r.sent = dist_traffic();
    r.counts = fusion_counts(n->fusion);
    Parameters all = parameters_of(net);
    r.num_params = all.n;
    r.talk = talk_of_cycle(all.n);
    r.sent.bytes -= (uint64_t)r.counts.cycles * r.talk.bytes;
    r.sent.messages -= (uint64_t)r.counts.cycles * r.talk.messages;
    for (int p = 0; p < all.n; p++) {
        size_t floats = numel(all.list[p]->start);
        r.floats += floats;
        if (floats * sizeof(float) > threshold)
            r.larger++;
        else
            r.rest += floats;
    }
    rank_net_free(n);
    module_free(net);
    tensor_free(X);
    tensor_free(y);
    return r;
}

static void check_fusion(size_t threshold, double cycle) {
    FusionRun r = fuse_once(threshold, cycle);
    size_t least = (size_t)r.larger;
    if (threshold > 0) least += (r.rest * sizeof(float) + threshold - 1) / threshold;
    CHECK(rank == 0 || r.sent.bytes == r.floats * sizeof(float), "each gradient once");
    CHECK(rank == 0 || (long)r.sent.messages == r.counts.exchanges, "a message for each vector");
    CHECK(r.counts.exchanges >= (long)least, "no buffer is longer than the threshold");
    CHECK(r.counts.exchanges <= r.num_params, "a vector has a gradient at least");
    CHECK(r.counts.cycles >= 1 && r.seconds >= (double)r.counts.cycles * cycle,
          "a cycle takes its time");
    CHECK(threshold > 0 || r.counts.exchanges == r.num_params, "threshold 0: each alone");
    CHECK(threshold < (size_t)1 << 20 || r.counts.exchanges <= r.counts.cycles,
          "all that is ready at a time is in one buffer");
}

static void fusion_is_right(int devices) {
    begin(devices);
    dist_choose_all_reduce("star");
    check_fusion(0, 1e-3);
    check_fusion(4, 0);
    check_fusion(64 << 10, 1e-3);
    check_fusion(FUSION_THRESHOLD, 1e-3);
    check_fusion(FUSION_THRESHOLD, 0.1);
    // After so long all are ready: one cycle, one vector.
    FusionRun r = fuse_once(FUSION_THRESHOLD, 2);
    CHECK(r.counts.cycles == 1 && r.counts.exchanges == 1, "after 2 s all gradients are ready");
    // And with 64 KiB as many as fit, from the last gradient on: (b4 W4 b3) (W3) (b2) (W2) (b1 W1).
    r = fuse_once(64 << 10, 2);
    CHECK(r.counts.cycles == 1 && r.larger == 2 && r.counts.exchanges == 5, "W2 and W3 go alone");
    dist_destroy_process_group();
}

// ---- the tests ---------------------------------------------------------------------------------

static const RankCase cases[] = {
    {"lenet", lenet_has_the_bits},     {"resnet", resnet_has_the_bits},
    {"pytorch", pytorch_has_the_same}, {"hierarchical", hierarchical_is_right},
    {"levels", hierarchical_trains},   {"fusion", fusion_is_right},
};

static void test_lenet(void **state) {
    (void)state;
    all_pass("lenet", 4, 1);
    if (!SANITIZED) all_pass("lenet", 2, 2);
}
static void test_resnet18(void **state) {
    (void)state;
    if (SANITIZED) skip("too long with sanitizers");
    all_pass("resnet", 3, 1);
}
static void test_pytorch(void **state) {
    (void)state;
    if (SANITIZED) skip("too long with sanitizers");
    passes("pytorch", 2, 1);
    passes("pytorch", 3, 1);
}
static void test_hierarchical(void **state) {
    (void)state;
    all_pass("hierarchical", 4, 1);
    passes("levels", 4, 1);
}
static void test_fusion(void **state) {
    (void)state;
    all_pass("fusion", 3, 1);
}

int main(int argc, char *argv[]) {
    self = argv[0];
    if (argc == 4 && strcmp(argv[1], "--case") == 0)
        return run_case(cases, sizeof cases / sizeof cases[0], argv[2], atoi(argv[3]));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lenet),   cmocka_unit_test(test_resnet18),
        cmocka_unit_test(test_pytorch), cmocka_unit_test(test_hierarchical),
        cmocka_unit_test(test_fusion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
