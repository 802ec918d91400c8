// test_process_group.c: processes that compute together: sums to the bit, bytes by the formulas,
// and what is said when a rank does not come.
#include <signal.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/comm/launch.h"
#include "common/comm/process_group.h"
#include "common/tensor/autograd.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/08_many_machines/hierarchical.h"
#include "ranks.h"

// ---- in a rank -----------------------------------------------------------------------------------

static int rank, size, k; // k: devices of all ranks

static void begin(int devices, double timeout) {
    dist_before_flags();
    dist_init_process_group((DistOptions){.devices = devices, .timeout = timeout, .threads = 1});
    rank = dist_get_rank();
    size = dist_get_world_size();
    k = dist_num_devices();
}

static const int sizes[] = {0, 1, 2, 3, 7, 1001, SANITIZED ? 16387 : (1 << 20) + 3};
enum { NUM_SIZES = sizeof sizes / sizeof sizes[0] };
static const char *const algorithms[] = {"star", "sharded", "ring", "tree", "mpi"};
enum { NUM_ALGORITHMS = 5 };

static Tensor *filled(Device *device, int d, int n, bool whole) {
    Tensor *t = tensor_new(device, n);
    float *values = xmalloc(sizeof *values * (size_t)(n + 1));
    for (int i = 0; i < n; i++) values[i] = device_value(d, i, whole);
    tensor_write(t, values);
    free(values);
    return t;
}

// This rank's tensors; device i of this process is number rank D + i of all.
static void fill_mine(Tensor *mine[], int n, bool whole) {
    for (int i = 0; i < dist_local_devices(); i++)
        mine[i] = filled(dist_device(i), rank * dist_local_devices() + i, n, whole);
}
static void free_mine(Tensor *mine[]) {
    for (int i = 0; i < dist_local_devices(); i++) tensor_free(mine[i]);
}

static void must_be(const Tensor *t, const float *expected, const char *what, int n) {
    float *values = tensor_values(t);
    for (int i = 0; i < n; i++)
        if (memcmp(&values[i], &expected[i], sizeof *values) != 0)
            die("see the test", "%s of %d numbers on %d devices: number %d is %g, not %g", what, n,
                k, i, (double)values[i], (double)expected[i]);
    free(values);
}

static void sums_are_exact(int devices) {
    Tensor *mine[MAX_LOCAL_DEVICES];
    begin(devices, 20);
    for (int a = 0; a < NUM_ALGORITHMS; a++)
        for (int s = 0; s < NUM_SIZES; s++) {
            int n = sizes[s];
            float *expected = xcalloc((size_t)n + 1, sizeof *expected);
            for (int d = 0; d < k; d++)
                for (int i = 0; i < n; i++) expected[i] += device_value(d, i, true);
            fill_mine(mine, n, true);
            dist_choose_all_reduce(algorithms[a]);
            dist_all_reduce(NULL, mine);
            for (int i = 0; i < devices; i++) must_be(mine[i], expected, algorithms[a], n);
            free_mine(mine);
            free(expected);
        }
    dist_destroy_process_group();
}

// The k vectors on k devices of this process, summed by chapter 2.
static float *sum_in_one_process(const char *algorithm, int n) {
    Tensor *data[MAX_COMPUTING];
    choose_allreduce(algorithm);
    for (int d = 0; d < k; d++) {
        begin_step(try_gpu(d));
        data[d] = filled(try_gpu(d), d, n, false);
    }
    allreduce(data, k);
    float *sum = tensor_values(data[0]);
    for (int d = 0; d < k; d++) tensor_free(data[d]);
    return sum;
}

static void sums_have_the_bits_of_one_process(int devices) {
    Tensor *mine[MAX_LOCAL_DEVICES];
    begin(devices, 20);
    for (int a = 0; a < NUM_ALLREDUCES; a++)
        for (int s = 0; s < NUM_SIZES; s++) {
            float *expected = sum_in_one_process(allreduces[a].name, sizes[s]);
            fill_mine(mine, sizes[s], false);
            dist_choose_all_reduce(allreduces[a].name);
            dist_all_reduce(NULL, mine);
            for (int i = 0; i < devices; i++)
                must_be(mine[i], expected, allreduces[a].name, sizes[s]);
            free_mine(mine);
            free(expected);
        }
    dist_destroy_process_group();
}

static void bytes_are_those_of_the_formula(int devices) {
    Tensor *mine[MAX_LOCAL_DEVICES];
    begin(devices, 20);
    for (int a = 0; a < NUM_ALLREDUCES; a++)
        for (int s = 0; s < NUM_SIZES; s++) {
            fill_mine(mine, sizes[s], false);
            dist_choose_all_reduce(allreduces[a].name);
            dist_reset_traffic();
            dist_all_reduce(NULL, mine);
            size_t formula = allreduce_bytes(&allreduces[a], (size_t)sizes[s], k, rank).sent;
            if (dist_traffic().bytes != formula)
                die("see the test", "%s of %d numbers: rank %d sent %llu bytes, not %zu",
                    allreduces[a].name, sizes[s], rank, (unsigned long long)dist_traffic().bytes,
                    formula);
            CHECK(dist_traffic().bytes_to_hosts == 0, "there is one host");
            free_mine(mine);
        }
    dist_destroy_process_group();
}

// In the compute queue as in the other one: what comes before and after keeps its order.
static void queues_keep_their_order(int devices) {
    enum { N = 300000, TIMES = 20 };
    Tensor *mine[MAX_LOCAL_DEVICES];
    float *expected = xmalloc(sizeof *expected * N), times = 1;
    begin(devices, 20);
    dist_choose_all_reduce("ring");
    fill_mine(mine, N, true);
    for (int i = 0; i < devices; i++) tensor_fill(mine[i], 1);
    for (int t = 0; t < TIMES; t++) {
        bool beside = t % 2; // in the queue that communicates, as DDP's buckets
        for (int i = 0; i < devices && beside; i++)
            queue_wait(comm_queue(dist_device(i)), device_record(dist_device(i)));
        if (beside) communicate_begin();
        dist_all_reduce(NULL, mine); // k times as much
        if (beside) communicate_end();
        for (int i = 0; i < devices && beside; i++)
            device_wait(dist_device(i), queue_record(comm_queue(dist_device(i))));
        for (int i = 0; i < devices; i++)
            launch(dist_device(i), scale, .x = mine[i]->data, .factor = 2.0f / (float)k, .n = N);
        times *= 2;
    }
    if (k == 1 || k == 2 || k == 4) { // else 2 / k is rounded
        for (int i = 0; i < N; i++) expected[i] = times;
        for (int i = 0; i < devices; i++) must_be(mine[i], expected, "in order", N);
    }
    free_mine(mine);
    free(expected);
    dist_destroy_process_group();
}

static void others_are_right(int devices) {
    Tensor *mine[MAX_LOCAL_DEVICES];
    begin(devices, 20);
    for (int s = 0; s < NUM_SIZES; s++) {
        int n = sizes[s];
        float *expected = xcalloc((size_t)n + 1, sizeof *expected);
        for (int root = 0; root < size; root++) {
            for (int i = 0; i < n; i++) expected[i] = device_value(root * devices, i, false);
            fill_mine(mine, n, false);
            dist_broadcast(NULL, mine, root);
            for (int i = 0; i < devices; i++) must_be(mine[i], expected, "broadcast", n);
            free_mine(mine);
        }
        for (int i = 0; i < n; i++) {
            expected[i] = 0;
            for (int d = 0; d < k; d++) expected[i] += device_value(d, i, true);
        }
        fill_mine(mine, n, true);
        dist_reduce_scatter(NULL, mine);
        for (int i = 0; i < devices; i++) {
            Range part = equal_range(n, k, rank * devices + i);
            float *values = tensor_values(mine[i]);
            CHECK(part.count == 0 || memcmp(values + part.first, expected + part.first,
                                            sizeof(float) * (size_t)part.count) == 0,
                  "reduce_scatter: each has the sum of its part");
            free(values);
        }
        dist_all_gather(NULL, mine);
        for (int i = 0; i < devices; i++) must_be(mine[i], expected, "all_gather", n);
        free_mine(mine);
        free(expected);
    }
    dist_destroy_process_group();
}

static void groups_are_apart(int devices) {
    Tensor *mine[MAX_LOCAL_DEVICES];
    begin(devices, 20);
    ProcessGroup *group = dist_new_group(rank % 2);
    float expected = 0;
    CHECK(group_size(group) == (size + 1 - rank % 2) / 2, "even ranks and odd ones");
    CHECK(group_rank(group) == rank / 2, "in their order");
    for (int r = rank % 2; r < size; r += 2)
        for (int i = 0; i < devices; i++) expected += device_value(r * devices + i, 0, true);
    fill_mine(mine, 1, true);
    dist_choose_all_reduce("ring");
    dist_all_reduce(group, mine);
    for (int i = 0; i < devices; i++) must_be(mine[i], &expected, "group", 1);
    for (int times = 0; times < rank % 2; times++) dist_all_reduce(group, mine); // one group alone
    free_mine(mine);
    fill_mine(mine, 1, true);
    dist_all_reduce(NULL, mine); // what groups have done does not matter to others
    expected = 0;
    for (int d = 0; d < k; d++) expected += device_value(d, 0, true);
    for (int i = 0; i < devices; i++) must_be(mine[i], &expected, "all, after a group", 1);
    free_mine(mine);
    dist_free_group(group);
    dist_destroy_process_group();
}

static void figures_of_hosts(int devices) {
    begin(devices, 20);
    double values[2] = {rank, 0.1 * rank}, sum[2] = {0};
    for (int r = 0; r < size; r++) {
        sum[0] += r;
        sum[1] += 0.1 * r;
    }
    dist_sum(NULL, values, 2);
    CHECK(values[0] == sum[0] && values[1] == sum[1], "in the order of the ranks");
    char *text = xprintf("%*s", rank * 10, "x");
    char **texts = dist_gather_texts(NULL, text);
    for (int r = 0; r < size; r++) {
        char *theirs = xprintf("%*s", r * 10, "x");
        CHECK(strcmp(texts[r], theirs) == 0, "texts of any length");
        free(theirs);
    }
    dist_free_texts(NULL, texts);
    free(text);
    dist_barrier(NULL);
    dist_must_agree("k", "as all others");
    CHECK(dist_num_hosts() == 1 && dist_local_rank() == rank && dist_local_size() == size,
          "all are on this host");
    dist_destroy_process_group();
}

static void hosts_are_pretended(int devices) {
    dist_before_flags();
    dist_init_process_group((DistOptions){.devices = devices, .ranks_per_host = 2});
    int r = dist_get_rank();
    CHECK(dist_num_hosts() == (dist_get_world_size() + 1) / 2, "two ranks on each");
    CHECK(dist_host_of(r) == r / 2 && dist_local_rank() == r % 2, "in their order");
    dist_destroy_process_group();
}

// ---- on several hosts; by hosts_test.sh ------------------------------------------------------------

// The bytes that this rank sends to other hosts in an allreduce of n floats. (The ranks of a host
// stand side by side.)
static size_t star_to_hosts(size_t n) {
    int of_rank_0 = dist_local_size();
    if (rank == 0) return (size_t)(size - of_rank_0) * n * sizeof(float);
    return dist_host_of(rank) == dist_host_of(0) ? 0 : n * sizeof(float);
}
static const Allreduce *ring(void) {
    choose_allreduce("ring");
    return chosen_allreduce();
}
static size_t ring_to_hosts(size_t n) {
    bool crosses = dist_host_of((rank + 1) % size) != dist_host_of(rank);
    return crosses ? allreduce_bytes(ring(), n, size, rank).sent : 0;
}
static size_t hierarchical_to_hosts(size_t n) {
    size_t part = (size_t)equal_range((long)n, dist_local_size(), dist_local_rank()).count;
    return allreduce_bytes(ring(), part, dist_num_hosts(), dist_host_of(rank)).sent;
}

// All ranks have sent what the formula says; rank 0 says how much that is, of each host.
static void say_bytes_to_hosts(const char *name, size_t formula) {
    double mine = (double)dist_traffic().bytes_to_hosts;
    double *all = xmalloc(sizeof *all * (size_t)size);
    if (mine != (double)formula)
        die("see the test", "%s: rank %d sent %.0f bytes to other hosts, not %zu", name, rank, mine,
            formula);
    dist_gather(NULL, &mine, 1, all);
    for (int h = 0; h < dist_num_hosts(); h++) {
        double of_host = 0;
        for (int r = 0; r < size; r++) of_host += dist_host_of(r) == h ? all[r] : 0;
        printf("%s: host %d sent %.0f\n", name, h, of_host);
    }
    free(all);
    dist_reset_traffic();
}

// Three ways to one sum. (Long enough that what else crosses, when the job starts and ends, is
// little.)
static void bytes_between_hosts(int devices) {
    enum { N = 2000003 };
    Tensor *mine;
    begin(devices, 20);
    hierarchical_begin();
    float *expected = xcalloc(N, sizeof *expected);
    for (int d = 0; d < k; d++)
        for (int i = 0; i < N; i++) expected[i] += device_value(d, i, true);
    dist_print_ranks();
    for (int way = 0; way < 3; way++) {
        static const char *const names[] = {"star", "ring", "hierarchical"};
        static size_t (*const formulas[])(size_t) = {star_to_hosts, ring_to_hosts,
                                                     hierarchical_to_hosts};
        fill_mine(&mine, N, true);
        dist_choose_all_reduce(way == 0 ? "star" : "ring");
        dist_reset_traffic();
        if (way < 2)
            dist_all_reduce(NULL, &mine);
        else
            hierarchical_all_reduce(mine);
        must_be(mine, expected, names[way], N);
        say_bytes_to_hosts(names[way], formulas[way](N));
        free_mine(&mine);
    }
    free(expected);
    hierarchical_end();
    dist_destroy_process_group();
}

// Until something happens. Says when it has begun.
static void all_reduce_forever(int devices) {
    Tensor *mine[MAX_LOCAL_DEVICES];
    begin(devices, 3);
    fill_mine(mine, 100000, true);
    for (long step = 0;; step++) {
        dist_note("step %ld", step);
        dist_all_reduce(NULL, mine);
        synchronize_all();
        if (step == 0) printf("the first step is done\n");
        if (step == 0) fflush(stdout);
    }
}

// ---- in a rank, where something is wrong -----------------------------------------------------------

static void all_reduce_once(void) {
    Tensor *mine[MAX_LOCAL_DEVICES];
    fill_mine(mine, 100000, true);
    dist_all_reduce(NULL, mine);
    synchronize_all();
    free_mine(mine);
}

static void one_disagrees(int devices) {
    begin(devices, 20);
    dist_must_agree("--lr", rank == size - 1 ? "0.1" : "0.2");
}

static void another_collective(int devices) {
    Tensor *mine[MAX_LOCAL_DEVICES];
    begin(devices, 1.5);
    dist_note("bucket 1, step 42");
    fill_mine(mine, 5, true);
    if (rank == 1) dist_broadcast(NULL, mine, 0);
    dist_all_reduce(NULL, mine);
    synchronize_all();
}

static void another_size(int devices) {
    Tensor *mine[MAX_LOCAL_DEVICES];
    begin(devices, 20);
    dist_choose_all_reduce("star");
    fill_mine(mine, rank == 1 ? 5 : 6, true);
    dist_all_reduce(NULL, mine);
    synchronize_all();
}

static void one_is_stopped(int devices) {
    begin(devices, 1.5);
    all_reduce_once();
    dist_note("bucket 1, step 42");
    if (rank == size - 1) raise(SIGSTOP);
    all_reduce_once();
}

static void one_computes_on(int devices) {
    begin(devices, 1.5);
    all_reduce_once();
    dist_note("bucket 1, step 42");
    if (rank == size - 1) sleep(60);
    all_reduce_once();
}

static void one_is_killed(int devices) {
    begin(devices, 20);
    all_reduce_once();
    if (rank == size - 1) raise(SIGKILL);
    for (int i = 0; i < 1000; i++) all_reduce_once();
}

static void one_dies(int devices) {
    begin(devices, 20);
    all_reduce_once();
    if (rank == 0) die("mend it", "rank 0 has a mistake");
    for (int i = 0; i < 1000; i++) all_reduce_once();
}

static void one_comes_late(int devices) {
    dist_before_flags();
    if (launch_read().rank > 0) sleep(60);
    begin(devices, 1);
}

static void one_is_slow_but_comes(int devices) {
    begin(devices, 3);
    if (rank == size - 1) sleep(2);
    all_reduce_once();
    dist_destroy_process_group();
}

static const RankCase cases[] = {
    {"exact", sums_are_exact},
    {"bits", sums_have_the_bits_of_one_process},
    {"bytes", bytes_are_those_of_the_formula},
    {"order", queues_keep_their_order},
    {"others", others_are_right},
    {"groups", groups_are_apart},
    {"figures", figures_of_hosts},
    {"hosts", hosts_are_pretended},
    {"between", bytes_between_hosts},
    {"forever", all_reduce_forever},
    {"disagrees", one_disagrees},
    {"collective", another_collective},
    {"size", another_size},
    {"stopped", one_is_stopped},
    {"computes", one_computes_on},
    {"killed", one_is_killed},
    {"dies", one_dies},
    {"late", one_comes_late},
    {"slow", one_is_slow_but_comes},
};

// ---- the tests -----------------------------------------------------------------------------------

static void test_sums_are_exact(void **state) {
    (void)state;
    all_pass("exact", 4, 1);
    all_pass("exact", 3, 2);
}
static void test_bits(void **state) {
    (void)state;
    all_pass("bits", 4, 1);
    all_pass("bits", 2, 3);
}
static void test_bytes(void **state) {
    (void)state;
    all_pass("bytes", 4, 1);
}
static void test_order(void **state) {
    (void)state;
    all_pass("order", 4, 1);
    all_pass("order", 2, 2);
}
static void test_others(void **state) {
    (void)state;
    all_pass("others", 4, 1);
    all_pass("others", 3, 2);
}
static void test_groups(void **state) {
    (void)state;
    all_pass("groups", 4, 1);
    all_pass("groups", 3, 2);
}
static void test_figures(void **state) {
    (void)state;
    all_pass("figures", 4, 1);
    all_pass("hosts", 4, 1);
    all_pass("slow", 3, 1);
}

static void test_disagreement(void **state) {
    (void)state;
    fails("disagrees", 3, 10, "test: rank 0: error: rank 2 on ");
    assert_non_null(strstr(said, "has --lr 0.1, rank 0 has 0.2"));
}
static void test_another_collective(void **state) {
    (void)state;
    fails("collective", 2, 10, "is in broadcast ");
    fails("size", 3, 10, "bytes than the 24 that are expected here");
}
static void test_stopped(void **state) {
    (void)state;
    fails("stopped", 4, 10, "rank 3 on ");
    assert_non_null(strstr(said, " (bucket 1, step 42): it has not answered for 1.5 s"));
    assert_int_equal(times_said("rank 3 on"), 3); // each of the others says so
}
static void test_computes(void **state) {
    (void)state;
    fails("computes", 3, 10, "rank 2 on ");
    assert_non_null(strstr(said, "it does something else"));
}
static void test_killed(void **state) {
    (void)state;
    fails("killed", 4, 10, "test: error: rank 3 on ");
    assert_non_null(strstr(said, " has ended in the middle of its work"));
    assert_int_equal(times_said("error: "), 1); // those whom the launcher ends are not blamed
}
static void test_dies(void **state) {
    (void)state;
    fails("dies", 3, 10, "test: rank 0: error: rank 0 has a mistake");
}
static void test_late(void **state) {
    (void)state;
    fails("late", 3, 12, "not all ranks have come together within 1 s");
}

// What a program says that was started with these variables, with all that Open MPI says.
static int alone_with(const char *variables) {
    char *command =
        xprintf(RANKS_ENVIRONMENT "%s timeout -k 1 60 %s --case exact 1 2>&1", variables, self);
    int status = output_of(command);
    free(command);
    return status;
}

// A program that was started by hand is rank 0 of 1, and so is one in a shell that srun started;
// what a launcher started alone is refused, by rank 0 with one error, by the others without.
static void test_wrong_launch(void **state) {
    (void)state;
    assert_int_equal(alone_with(""), 0);
    assert_int_equal(alone_with("SLURM_JOBID=1 SLURM_NODELIST=one SLURM_STEP_ID=0 SLURM_PROCID=0 "
                                "SLURM_STEP_NUM_TASKS=1"),
                     0);
    assert_string_equal(said, "");
    assert_int_equal(alone_with("SLURM_JOBID=1 SLURM_NODELIST=one SLURM_STEP_ID=0 SLURM_PROCID=0 "
                                "SLURM_STEP_NUM_TASKS=4"),
                     1);
    assert_non_null(strstr(said, "error: srun started 4 processes, but each is a world of 1"));
    assert_null(strstr(said, "OMPI"));
    assert_int_equal(alone_with("SLURM_PROCID=2 SLURM_STEP_NUM_TASKS=4"), 1);
    assert_string_equal(said, "");
    assert_int_equal(alone_with("PMI_RANK=0 PMI_SIZE=3 MPI_LOCALRANKID=0"), 1);
    assert_non_null(strstr(said, "error: mpiexec started 3 processes"));
    assert_int_equal(alone_with("PMI_RANK=0 PMI_SIZE=3 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=3"), 1);
    assert_non_null(strstr(said, "error: srun started 3 processes"));
}

int main(int argc, char *argv[]) {
    self = argv[0];
    if (argc == 4 && strcmp(argv[1], "--case") == 0)
        return run_case(cases, sizeof cases / sizeof cases[0], argv[2], atoi(argv[3]));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_are_exact),
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_disagreement),
        cmocka_unit_test(test_another_collective),
        cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_computes),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_dies),
        cmocka_unit_test(test_late),
        cmocka_unit_test(test_wrong_launch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
