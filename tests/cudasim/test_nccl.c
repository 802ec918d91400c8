// test_nccl.c: GPUs that exchange by NCCL, simulated: sums, order, and what is said when NCCL
// cannot be had, fails, or waits for ever. Each rank sees all the GPUs of the machine, and takes
// its own.
#include <nccl.h>
#include <signal.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/launcher.h"
#include "common/base/range.h"
#include "chapters/08_many_machines/ranks.h"
#include "tests/dies.h"
#include "tests/ranks.h"
#include "cudasim.h"

// ---- in a rank -----------------------------------------------------------------------------------

static int rank, size;
static Tensor *mine;

static void begin(double timeout) {
    dist_init_process_group((DistOptions){.timeout = timeout, .threads = 1});
    rank = dist_get_rank();
    size = dist_get_world_size();
}

static const int sizes[] = {0, 1, 2, 3, 12, 1001, 120000};
enum { NUM_SIZES = sizeof sizes / sizeof sizes[0], MOST = 120000 };

static float sum_of(int i, bool whole, int first, int step) {
    double sum = 0;
    for (int r = first; r < size; r += step) sum += (double)device_value(r, i, whole);
    return (float)sum;
}

static void fill_mine(int n, bool whole) {
    float *values = xmalloc(sizeof *values * (size_t)(n + 1));
    tensor_free(mine);
    mine = tensor_new(dist_device(), n);
    for (int i = 0; i < n; i++) values[i] = device_value(rank, i, whole);
    tensor_write(mine, values);
    free(values);
}

static float expected[MOST];
static void expect_sum(int n, bool whole) {
    for (int i = 0; i < n; i++) expected[i] = sum_of(i, whole, 0, 1);
}

// Numbers first .. first + n-1. Zero tolerance: to the bit (-0 is 0).
static void must_be(int first, int n, double tolerance, const char *what) {
    float *values = tensor_values(mine);
    for (int i = first; i < first + n; i++)
        if (!(fabs((double)values[i] - (double)expected[i]) <= tolerance))
            die("see the test", "%s on %d ranks: number %d is %g, not %g", what, size, i,
                (double)values[i], (double)expected[i]);
    free(values);
}

static void others_are_right(int n) {
    Range part = equal_range(n, size, rank);
    expect_sum(n, true);
    fill_mine(n, true);
    dist_reduce_scatter(NULL, mine);
    must_be((int)part.first, (int)part.count, 0, "reduce_scatter");
    dist_all_gather(NULL, mine);
    must_be(0, n, 0, "all_gather");
    for (int root = 0; root < size; root++) {
        for (int i = 0; i < n; i++) expected[i] = device_value(root, i, false);
        fill_mine(n, false);
        dist_broadcast(NULL, mine, root);
        must_be(0, n, 0, "broadcast");
    }
}

// Nothing was chosen: NCCL it is.
static void results_are_right(void) {
    begin(30);
    CHECK(strcmp(dist_chosen_all_reduce(), "nccl") == 0, "GPUs of their own exchange by NCCL");
    CHECK(!dist_why_no_nccl() && !dist_order_is_fixed(), "and its order is its own");
    for (int s = 0; s < NUM_SIZES; s++) {
        for (int whole = 0; whole < 2; whole++) {
            fill_mine(sizes[s], whole);
            dist_all_reduce(NULL, mine);
            expect_sum(sizes[s], whole);
            must_be(0, sizes[s], whole ? 0 : 1e-4, "all_reduce");
        }
        others_are_right(sizes[s]);
    }
    CHECK(cudasim_calls("ncclAllReduce") == 2 * (NUM_SIZES - 1), "none was left out");
}

// The last digits of sums depend on the order: here they are not those of the star.
static void order_is_another(void) {
    float *sums[2];
    int different = 0;
    begin(30);
    for (int by = 0; by < 2; by++) {
        dist_choose_all_reduce(by ? "nccl" : "star");
        CHECK(dist_order_is_fixed() == !by, "NCCL promises none");
        fill_mine(MOST, false);
        dist_all_reduce(NULL, mine);
        sums[by] = tensor_values(mine);
    }
    for (int i = 0; i < MOST; i++) different += sums[0][i] != sums[1][i];
    CHECK(different > 0 && different < MOST, "some digits differ");
    free(sums[0]);
    free(sums[1]);
}

// What is before and after in the compute queue and in the one that communicates. (The simulator
// runs all as late as it may, and reports what no event orders.)
static void queues_keep_their_order(void) {
    enum { N = 3000, TIMES = 12 };
    begin(30);
    Device *device = dist_device();
    fill_mine(N, true);
    tensor_fill(mine, 1);
    for (int t = 0; t < TIMES; t++) {
        bool beside = t % 2; // as DDP's buckets
        if (beside) queue_wait(comm_queue(device), device_record(device));
        if (beside) communicate_begin();
        dist_all_reduce(NULL, mine); // k times as much
        if (beside) communicate_end();
        if (beside && t % 4 == 3) // as the arena does, before it uses memory for something else
            wait_for_users(device, mine->data);
        else if (beside)
            device_wait(device, queue_record(comm_queue(device)));
        launch(device, scale, .x = mine->data, .factor = 1 / (float)size, .n = N);
        if (t % 5 == 4) dist_barrier(NULL);
    }
    for (int i = 0; i < N; i++) expected[i] = 1;
    must_be(0, N, 1e-5, "all_reduce and scale");
}

// Each has a communicator, opened when it is needed, and used by some ranks more often than others.
static void groups_are_apart(void) {
    begin(30);
    ProcessGroup *group = dist_new_group(rank % 2), *unused = dist_new_group(0);
    for (int times = 0; times < 2 + rank % 2; times++) {
        expected[0] = sum_of(0, true, rank % 2, 2);
        fill_mine(1, true);
        dist_all_reduce(group, mine);
        must_be(0, 1, 0, "a group's all_reduce");
    }
    dist_barrier(NULL);
    others_are_right(1001);
    dist_free_group(group);
    dist_free_group(unused);
}

static void fall_back(void) {
    begin(30);
    CHECK(strcmp(dist_chosen_all_reduce(), "star") == 0, "through host memory");
    CHECK(dist_why_no_nccl() && dist_order_is_fixed(), "for a reason, in an order");
    others_are_right(1001);
    CHECK(cudasim_calls("ncclGetUniqueId") == 0, "NCCL was not tried");
}
static void one_has_no_library(void) {
    if (launch_read().rank == 1) cudasim_fail("dlopen nccl", 1, 1);
    fall_back();
}
static void library_is_old(void) {
    cudasim_fail("dlsym nccl", 3, 1);
    fall_back();
}
static void nccl_is_demanded(void) {
    dist_choose_all_reduce("nccl");
    begin(30);
}

static void all_reduce_of(int n) {
    fill_mine(n, true);
    dist_all_reduce(NULL, mine);
    synchronize_all();
}

// The n-th call of a function fails with an error: "NAME N ERROR".
static void call_fails(void) {
    char name[64];
    int n, error;
    CHECK(sscanf(getenv("FAILS"), "%63s %d %d", name, &n, &error) == 3, "what fails");
    begin(5);
    cudasim_fail(name, n, error);
    for (int i = 0; i < 3; i++) all_reduce_of(1000);
    others_are_right(1001);
    dist_destroy_process_group();
    fprintf(stderr, "rank %d went on\n", rank);
}

// The last rank gets this signal, or sleeps for so long.
static void keep_waiting(int signal, unsigned seconds_long) {
    begin(1.5);
    all_reduce_of(1000);
    dist_note("bucket 1, step 42");
    if (rank == size - 1 && signal) raise(signal);
    if (rank == size - 1) sleep(seconds_long);
    all_reduce_of(1000);
    if (rank < size - 1) fprintf(stderr, "rank %d went on\n", rank);
}
static void one_is_stopped(void) { keep_waiting(SIGSTOP, 0); }
static void one_computes_on(void) { keep_waiting(0, 60); }
static void one_does_not_open(void) {
    begin(1.5);
    if (rank == size - 1) sleep(60);
    all_reduce_of(1000);
}
static void another_collective(void) {
    begin(5);
    fill_mine(12, true);
    if (rank == 1)
        dist_broadcast(NULL, mine, 0);
    else
        dist_all_reduce(NULL, mine);
    synchronize_all();
}
static void another_size(void) {
    begin(5);
    all_reduce_of(rank == 1 ? 12 : 24);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"results", results_are_right},
    {"digits", order_is_another},
    {"order", queues_keep_their_order},
    {"groups", groups_are_apart},
    {"fallback", fall_back},
    {"library", one_has_no_library},
    {"old", library_is_old},
    {"demanded", nccl_is_demanded},
    {"call", call_fails},
    {"stopped", one_is_stopped},
    {"computes", one_computes_on},
    {"absent", one_does_not_open},
    {"collective", another_collective},
    {"size", another_size},
};

static int run_simulated(const char *name) {
    const char *gpus = getenv("GPUS"), *seed = getenv("CUDASIM_SEED");
    set_program_name("test");
    dist_before_flags();
    cudasim_machine(gpus ? atoi(gpus) : 1, seed ? (unsigned)atoi(seed) : 1, CUDASIM_PEERS);
    devices_init(BACKEND_CUDA, 1);
    for (size_t c = 0; c < COUNT(cases); c++)
        if (strcmp(cases[c].name, name) == 0) cases[c].run();
    tensor_free(mine);
    if (dist_is_initialized()) dist_destroy_process_group();
    devices_close();
    CHECK(cudasim_live() == 0, "all that was made was freed");
    return 0;
}

// ---- the tests -------------------------------------------------------------------------------------

CASE(test_results) {
    passes_with("GPUS=2", "results", 2);
    passes_with("GPUS=4", "results", 3);
    passes_with("GPUS=4", "digits", 4);
    passes_with("GPUS=4", "groups", 4);
    passes_with("GPUS=3", "order", 3); // what CUDA leaves open comes in other orders
    passes_with("GPUS=3 CUDASIM_SEED=2", "order", 3);
}

CASE(test_without_nccl) {
    passes_with("GPUS=1", "fallback", 2);
    assert_non_null(strstr(said, "GPUs exchange through host memory, not by NCCL: rank 0 on "));
    assert_non_null(strstr(said, "it shares a GPU with another rank"));
    assert_int_equal(times_said("not by NCCL"), 1); // rank 0 alone
    passes_with("GPUS=2", "library", 2);
    assert_non_null(strstr(said, "libnccl.so.2 cannot be loaded"));
    passes_with("GPUS=2", "old", 2);
    assert_non_null(strstr(said, "lacks a function"));
    fails_with("GPUS=1", "demanded", 2, 10, "test: rank 0: error: no NCCL: rank 0 on ");
    assert_int_equal(times_said("error:"), 1);
}

CASE(test_what_goes_wrong) {
    static const struct {
        const char *before, *name;
        int ranks;
        const char *words, *also;
    } rows[] = {
        {"GPUS=2 FAILS='ncclCommInitRank 1 1'", "call", 2, "ncclCommInitRank: unhandled cuda", ""},
        {"GPUS=2 FAILS='ncclGetUniqueId 1 2'", "call", 2, "ncclGetUniqueId: system error", "hint"},
        {"GPUS=2 FAILS='ncclAllReduce 2 4'", "call", 2, "all_reduce: invalid argument", "hint"},
        {"GPUS=2 FAILS='ncclBroadcast 1 4'", "call", 2, "invalid argument", "hint"},
        {"GPUS=3", "stopped", 3, "rank 2 on ", " (bucket 1, step 42): it has not answered for 1.5"},
        {"GPUS=3", "computes", 3, "rank 2 on ", "it does something else"},
        {"GPUS=2", "absent", 2, "rank 1 on ", "has not reached nccl_id "},
        {"GPUS=2", "collective", 2, "NCCL's rank 0 calls ncclAllReduce of 12 numbers, its rank 1 ",
         "ncclBroadcast of 12"},
        {"GPUS=3", "size", 3, "ncclAllReduce of 24 numbers, its rank 1 ncclAllReduce of 12", ""},
    };
    for (size_t r = 0; r < COUNT(rows); r++) {
        fails_with(rows[r].before, rows[r].name, rows[r].ranks, 12, rows[r].words);
        if (!strstr(said, rows[r].also)) fail_msg("%s: %s", rows[r].name, said);
    }
}

// ---- the simulated NCCL itself must catch mistakes ---------------------------------------------------

enum { N = 8 };
static ncclComm_t comm;
static cudaStream_t streams[2];
static float *memory;

static void all_reduce_on(int stream, float *to) {
    ncclAllReduce(memory, to, N / 2, ncclFloat, ncclSum, comm, streams[stream]);
}
static void no_mistake(void) { all_reduce_on(0, memory); }
static void overlap(void) { all_reduce_on(0, memory + 1); }
static void another_gpus_stream(void) { all_reduce_on(1, memory); }
static void no_event_between(void) {
    all_reduce_on(0, memory);
    cudaMemsetAsync(memory, 0, N * sizeof(float), streams[1]);
}
static void not_waited_for(void) {
    all_reduce_on(0, memory);
    ncclCommDestroy(comm);
}

static void make_mistake(void *mistake) {
    ncclUniqueId id;
    cudasim_machine(2, 1, CUDASIM_PEERS);
    for (int g = 1; g >= 0; g--) {
        cudaSetDevice(g);
        cudaStreamCreateWithFlags(&streams[g], cudaStreamNonBlocking);
    }
    cudaMalloc((void **)&memory, N * sizeof(float));
    cudaMemsetAsync(memory, 0, N * sizeof(float), streams[0]);
    ncclGetUniqueId(&id);
    ncclCommInitRank(&comm, 1, id, 0);
    (*(void (**)(void))mistake)();
    for (int g = 0; g < 2; g++) cudaStreamSynchronize(streams[g]);
    _exit(0);
}

CASE(test_each_mistake_is_caught) { // forks
    static struct {
        void (*make)(void);
        const char *words;
    } mistakes[] = {
        {overlap, "overlap in another way than in place"},
        {another_gpus_stream, "on a stream of GPU 1"},
        {no_event_between, "of GPU 0 from GPU 1"},
        {not_waited_for, "while a call is in progress"},
    };
    char text[8192];
    void (*none)(void) = no_mistake;
    assert_int_equal(run_and_listen(make_mistake, &none, text, sizeof text), 0);
    for (size_t i = 0; i < COUNT(mistakes); i++) {
        int status = run_and_listen(make_mistake, &mistakes[i].make, text, sizeof text);
        if (status != CUDASIM_STATUS || !strstr(text, mistakes[i].words))
            fail_msg("mistake %zu: status %d, and not '%s': %s", i, status, mistakes[i].words,
                     text);
    }
}

int main(int argc, char *argv[]) {
    self = argv[0];
    if (argc == 3 && strcmp(argv[1], "--case") == 0) return run_simulated(argv[2]);
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1); // in ranks: MPI leaves memory behind
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_mistake_is_caught),
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_without_nccl),
        cmocka_unit_test(test_what_goes_wrong),
    };
    return cmocka_run_group_tests_name("nccl", tests, NULL, NULL);
}
