// test_many_machines.c: chapter 8's parts, on real ranks: trainings with the bits of one process
// (which has PyTorch's figures: test_ddp_reference.c), the hierarchical sum, and what fusion does
// with gradients. To be run from the repository root.
#include "chapters/08_many_machines/ranks.h"
#include "chapters/08_many_machines/step.h"
#include "chapters/03_split_batch/split_batch.h"
#include "chapters/06_data_parallel_and_ddp/networks.h"
#include "cases.h"
#include "formula.h"
#include "start_ranks.h"

// ---- rows for each device ----------------------------------------------------------------------

// `rows` of the images from `first` on, of which rank or device g gets its part.
static void give_shard(const Tensor *X, const Tensor *y, int first, int rows, int g, Device *device,
                       Tensor **X_shard, Tensor **y_shard) {
    Range part = equal_range(rows, size, g);
    part.first += first;
    *X_shard = rows_on(X, part, device);
    *y_shard = rows_on(y, part, device);
}

// ---- trainings ---------------------------------------------------------------------------------

typedef struct Plan {
    const char *algorithm;
    ExchangeKind exchange;
    size_t bucket_bytes;
    int rows; // of each rank in a step; the last ones are short
    const NetworkKind *kind;
} Plan;

enum { ROWS = SANITIZED ? 6 : 16, NUM_STEPS = 4 };

static const Plan lenet_plans[] = {
    // (What is fused depends on time, and the ring's order of additions on what is fused.)
    {"star", EXCHANGE_TENSORS, 1, ROWS, networks},
    {"star", EXCHANGE_FUSION, 1, ROWS, networks},
    {"star", EXCHANGE_BUCKETS, 64 << 10, ROWS, networks},
    {"tree", EXCHANGE_BUCKETS, 64 << 10, ROWS, networks},
    {"ring", EXCHANGE_TENSORS, 1, ROWS, networks},
    {"ring", EXCHANGE_BUCKETS, 64 << 10, ROWS, networks},
    {"sharded", EXCHANGE_FUSION, 1, ROWS, networks},
    {"sharded", EXCHANGE_BUCKETS, 0, 4 * ROWS, networks},
};

static RankNetOptions options_of(const Plan *plan) {
    return (RankNetOptions){.exchange = plan->exchange,
                            .ddp.bucket_bytes = plan->bucket_bytes,
                            .fusion = {.threshold = 96 << 10, .cycle = 1e-3}};
}

// The last two minibatches do not come out even, and LeNet's last one has fewer rows than devices.
// (Batch norm makes little of single rows.)
static int rows_in(const Plan *plan, int step) {
    if (step == NUM_STEPS - 1 && plan->kind == &networks[0]) return size > 1 ? size - 1 : 1;
    return size * plan->rows - (step >= NUM_STEPS - 2 ? plan->rows / 2 : 0);
}

static const float LR = 0.05f;

// As ranks, or on the same number of devices of this process.
static float *train(const Plan *plan, bool as_ranks, size_t *n) {
    Tensor *X, *y, *Xs[MAX_COMPUTING], *ys[MAX_COMPUTING], *losses[MAX_COMPUTING];
    int devices = as_ranks ? 1 : size, own = as_ranks ? rank : 0;
    Device *device[MAX_COMPUTING];
    Module *net = plan->kind->make(10);
    RankNet *rank_net = NULL;
    Ddp *ddp = NULL;
    initialize(net, as_ranks ? (uint64_t)rank : 0); // rank 0's counts
    formula_batch(NUM_STEPS * plan->rows * size, &X, &y);
    keep(X), keep(y);
    for (int i = 0; i < devices; i++) device[i] = as_ranks ? dist_device() : try_gpu(i);
    if (as_ranks) {
        dist_choose_all_reduce(plan->algorithm);
        rank_net = rank_net_new(net, options_of(plan));
    } else {
        choose_allreduce(plan->algorithm);
        ddp = ddp_new(net, device, size, options_of(plan).ddp);
    }
    for (int step = 0, first = 0; step < NUM_STEPS; first += rows_in(plan, step++)) {
        int rows = rows_in(plan, step);
        for (int i = 0; i < devices; i++) {
            begin_step(device[i]);
            give_shard(X, y, first, rows, own + i, device[i], &Xs[i], &ys[i]);
        }
        if (as_ranks)
            rank_net_step(rank_net, Xs[0], ys[0], LR, rows, losses);
        else
            ddp_step(ddp, Xs, ys, LR, rows, losses);
        synchronize_all();
    }
    if (as_ranks) broadcast_buffers(rank_net);
    FlatParameters flat = flat_parameters(net, device[0]);
    float *values = values_of_all((Tensor *[]){flat.data, flat.buffers}, 2, n);
    keep_both(values, NULL);
    if (as_ranks) {
        double checksum = rank_net_checksum(rank_net), all[MAX_COMPUTING];
        dist_gather(NULL, &checksum, 1, all);
        for (int r = 1; r < size; r++) CHECK(all[r] == all[0], "all ranks end with the same bits");
        rank_net_free(rank_net);
    } else {
        ddp_free(ddp);
    }
    module_free(net);
    return values;
}

// Rank 0 trains in one process as well, and compares.
static void compare_bits(const Plan *plan) {
    size_t n, m;
    const float *ours = train(plan, true, &n), *theirs = rank ? ours : train(plan, false, &m);
    CHECK(n > 0 && (rank || n == m), "one network");
    for (size_t i = 0; i < n; i++)
        if (!isfinite(ours[i]) || memcmp(&ours[i], &theirs[i], sizeof *ours) != 0)
            die("see the test",
                "%s, %s, exchange %d, %d ranks: number %zu is %.9g, in one process %.9g",
                plan->kind->title, plan->algorithm, (int)plan->exchange, size, i, (double)ours[i],
                (double)expected[i]);
    dist_barrier(NULL);
    free_kept();
}

// ---- the hierarchical sum ----------------------------------------------------------------------

static void check_hierarchical_sum(int n) {
    HierarchicalBytes formula_bytes = hierarchical_bytes((size_t)n);
    double sum = 0, all[MAX_COMPUTING];
    fill_mine(n, false);
    dist_reset_traffic();
    hierarchical_all_reduce(mine);
    DistTraffic sent = dist_traffic();
    CHECK(sent.bytes == formula_bytes.inside + formula_bytes.across, "bytes by the formula");
    CHECK(sent.bytes_to_hosts == formula_bytes.across, "and so many to other hosts");
    expect_sum(n, false, 0, 1);
    mine_must_be("hierarchical", n, 1e-4, false);
    float *values = tensor_values(mine);
    for (int i = 0; i < n; i++) sum += (i % 7 + 1) * (double)values[i];
    free(values);
    dist_gather(NULL, &sum, 1, all);
    for (int r = 0; r < size; r++) CHECK(all[r] == sum, "all ranks have the same bits");
}

// Pretends that each host has two ranks. One or two ranks are one host.
static void hierarchical_is_right(void) {
    static const int sizes[] = {0, 1, 2, 3, 5, 7, 1001, 4099};
    dist_pretend_hosts(2);
    if (size > 1 && size % 2 == 1) {
        CHECK(!dist_hosts_are_equal(), "there are hosts of two ranks, and of one");
        return;
    }
    for (int a = 0; a < NUM_ALLREDUCES; a++) {
        dist_choose_all_reduce(allreduces[a].name);
        hierarchical_begin();
        for (size_t s = 0; s < COUNT(sizes); s++) check_hierarchical_sum(sizes[s]);
        hierarchical_end();
    }
}

// ---- fusion ------------------------------------------------------------------------------------

// What one cycle's question, which gradients are ready, costs this rank.
static DistTraffic talk_of_cycle(int num_params) {
    double *votes = xcalloc((size_t)num_params, sizeof *votes);
    dist_reset_traffic();
    dist_sum(NULL, votes, num_params);
    free(votes);
    return dist_traffic();
}

// One step of LeNet by fusion; the star, of which a rank but 0 sends one message for each vector.
// `exchanges`: so many, in one cycle; 0: it depends on time.
static void check_fusion(size_t threshold, double cycle, long exchanges) {
    Tensor *X, *y, *X_shard, *y_shard, *loss;
    Module *net = lenet_modules(10);
    initialize(net, 0);
    RankNet *n = rank_net_new(
        net, (RankNetOptions){.exchange = EXCHANGE_FUSION, .fusion = {threshold, cycle}});
    formula_batch(8 * size, &X, &y);
    keep(X), keep(y);
    begin_step(dist_device());
    give_shard(X, y, 0, 8 * size, rank, dist_device(), &X_shard, &y_shard);
    dist_reset_traffic();
    double start = seconds_now();
    rank_net_step(n, X_shard, y_shard, LR, 8 * size, &loss);
    synchronize_all();
    double took = seconds_now() - start;
    DistTraffic sent = dist_traffic();
    FusionCounts c = fusion_counts(n->fusion);
    Parameters all = parameters_of(net);
    DistTraffic talk = talk_of_cycle(all.n);
    size_t floats = 0, rest = 0; // of all gradients, and of those that are not longer
    long least = 0;
    for (int p = 0; p < all.n; p++) {
        size_t its = numel(all.list[p]->start);
        bool longer = its * sizeof(float) > threshold;
        floats += its;
        rest += longer ? 0 : its;
        least += longer;
    }
    if (threshold > 0) least += (long)((rest * sizeof(float) + threshold - 1) / threshold);
    if (rank > 0) {
        CHECK(sent.bytes == (uint64_t)c.cycles * talk.bytes + 4 * floats, "each gradient once");
        CHECK((long)sent.messages == c.cycles * (long)talk.messages + c.exchanges, "each vector");
    }
    CHECK(c.exchanges >= least, "no buffer is longer than the threshold");
    CHECK(c.exchanges <= all.n, "a vector has a gradient at least");
    CHECK(c.cycles >= 1 && took >= (double)c.cycles * cycle, "a cycle takes its time");
    CHECK(threshold > 0 || c.exchanges == all.n, "threshold 0: each alone");
    CHECK(threshold < 1 << 20 || c.exchanges <= c.cycles, "all that is ready is in one buffer");
    CHECK(!exchanges || (c.cycles == 1 && c.exchanges == exchanges), "all were ready in time");
    rank_net_free(n);
    module_free(net);
    free_kept();
}

static void fusion_is_right(void) {
    dist_choose_all_reduce("star");
    check_fusion(0, 1e-3, 0);
    check_fusion(4, 0, 0);
    check_fusion(64 << 10, 1e-3, 0);
    check_fusion(FUSION_THRESHOLD, 1e-3, 0);
    check_fusion(FUSION_THRESHOLD, 0.1, 0);
    // After 2 s all are ready, and travel from the last on. Three fit exactly into so many bytes:
    // (b4 W4 b3) (W3) (b2) (W2) (b1 W1).
    check_fusion((10 + 1280 + 128) * sizeof(float), 2, 5);
}

// ---- the tests ---------------------------------------------------------------------------------

// All of it in one start, because ranks take long to start.
static int everything(void) {
    set_program_name("test");
    devices_init(BACKEND_CPU, 1);
    dist_before_flags();
    begin(40, 0);
    for (size_t p = 0; p < COUNT(lenet_plans); p++) compare_bits(&lenet_plans[p]);
    if (size == 3 && !SANITIZED)
        compare_bits(&(Plan){"sharded", EXCHANGE_BUCKETS, 0, 4, &networks[1]});
    if (size <= 3) fusion_is_right();
    hierarchical_is_right();
    dist_destroy_process_group();
    devices_close();
    return 0;
}

TEST(test_ranks) {
    for (int ranks = 1; ranks <= 4; ranks++) passes("everything", ranks);
}

int main(int argc, char *argv[]) {
    self = argv[0];
    if (argc == 3 && strcmp(argv[1], "--case") == 0) return everything();
    return run_all("many_machines", NULL, NULL);
}
