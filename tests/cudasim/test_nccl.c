// test_nccl.c: GPUs that exchange by NCCL, simulated: sums, order, and what is said when NCCL
// cannot be had, fails, or waits for ever. Each rank sees all the GPUs of the machine, and takes
// its own.

#include "common/base/launcher.h"
#include "tests/cases.h"
#include "tests/start_ranks.h"
#include "cudasim.h"

// ---- in a rank -----------------------------------------------------------------------------------

static const int sizes[] = {0, 1, 2, 3, 12, 1001, 120000};
enum { NUM_SIZES = sizeof sizes / sizeof sizes[0], MOST = 120000 };

// Nothing was chosen: NCCL it is.
static void results_are_right(void) {
    begin(30, 0);
    CHECK(strcmp(dist_chosen_all_reduce(), "nccl") == 0, "GPUs of their own exchange by NCCL");
    CHECK(!dist_why_no_nccl() && !dist_order_is_fixed(), "and its order is its own");
    for (int s = 0; s < NUM_SIZES; s++) {
        for (int whole = 0; whole < 2; whole++) {
            fill_mine(sizes[s], whole);
            dist_all_reduce(NULL, mine);
            expect_sum(sizes[s], whole, 0, 1);
            mine_must_be("all_reduce", sizes[s], whole ? 0 : 1e-4, false);
        }
        others_are_right(sizes[s]);
    }
    CHECK(cudasim_calls("ncclAllReduce") == 2 * (NUM_SIZES - 1), "none was left out");
}

// (The simulator runs all as late as it may, and reports what no event orders.)
static void queues_keep_their_order(void) {
    begin(30, 0);
    queue_keeps_its_order(3000, 12);
}
static void groups_have_communicators(void) {
    begin(30, 0);
    groups_are_apart();
}

static void fall_back(void) {
    begin(30, 0);
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

// The n-th call of a function fails with an error: "NAME N ERROR".
static void call_fails(void) {
    char name[64];
    int n, error;
    CHECK(sscanf(getenv("FAILS"), "%63s %d %d", name, &n, &error) == 3, "what fails");
    begin(5, 0);
    cudasim_fail(name, n, error);
    for (int i = 0; i < 3; i++) all_reduce(1000);
    others_are_right(1001);
    dist_destroy_process_group();
    fprintf(stderr, "rank %d went on\n", rank);
}

static void one_is_stopped(void) {
    begin(3, 0);
    keep_waiting(SIGSTOP, 0);
}
static void one_computes_on(void) {
    begin(3, 0);
    keep_waiting(0, 60);
}
static void one_does_not_open(void) {
    begin(3, 0);
    if (rank == size - 1) sleep(60);
    all_reduce(1000);
}
static void another_collective(void) {
    begin(5, 0);
    fill_mine(12, true);
    if (rank == 1)
        dist_broadcast(NULL, mine, 0);
    else
        dist_all_reduce(NULL, mine);
    synchronize_all();
}
static void another_size(void) {
    begin(5, 0);
    all_reduce(rank == 1 ? 12 : 24);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"results", results_are_right},
    {"order", queues_keep_their_order},
    {"groups", groups_have_communicators},
    {"fallback", fall_back},
    {"library", one_has_no_library},
    {"old", library_is_old},
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

TEST(test_results) {
    passes_with("GPUS=4", "results", 3);
    passes_with("GPUS=4", "groups", 4);
    passes_with("GPUS=3", "order", 3);
}

TEST(test_without_nccl) {
    passes_with("GPUS=1", "fallback", 2);
    assert_non_null(strstr(said, "GPUs exchange through host memory, not by NCCL: rank 0 on "));
    assert_non_null(strstr(said, "it shares a GPU with another rank"));
    assert_int_equal(times_said("not by NCCL"), 1); // rank 0 alone
    passes_with("GPUS=2", "library", 2);
    assert_non_null(strstr(said, "libnccl.so.2 cannot be loaded"));
    passes_with("GPUS=2", "old", 2);
    assert_non_null(strstr(said, "lacks a function"));
}

TEST(test_what_goes_wrong) {
    static const struct {
        const char *before, *name;
        int ranks;
        const char *words, *also;
    } rows[] = {
        {"GPUS=2 FAILS='ncclCommInitRank 1 1'", "call", 2, "ncclCommInitRank: unhandled cuda", ""},
        {"GPUS=2 FAILS='ncclGetUniqueId 1 2'", "call", 2, "ncclGetUniqueId: system error", "hint"},
        {"GPUS=2 FAILS='ncclAllReduce 2 4'", "call", 2, "ncclAllReduce: invalid argument", "hint"},
        {"GPUS=2 FAILS='ncclBroadcast 1 4'", "call", 2, "invalid argument", "hint"},
        {"GPUS=3", "stopped", 3, "rank 2 on ", " (bucket 1, step 42): it has not answered for 3"},
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

int main(int argc, char *argv[]) {
    self = argv[0];
    if (argc == 3 && strcmp(argv[1], "--case") == 0) return run_simulated(argv[2]);
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1); // in ranks: MPI leaves memory behind
    return run_all("nccl", NULL, NULL);
}
