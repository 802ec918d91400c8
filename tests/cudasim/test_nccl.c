// test_nccl.c: GPUs that exchange by NCCL, simulated: sums, order, and what is said when NCCL
// fails, or waits for ever.
//
// Each rank sees all the GPUs of the machine, and takes its own.
#include <nccl.h>
#include <signal.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/range.h"
#include "common/comm/nccl.h"
#include "common/comm/process_group.h"
#include "tests/dies.h"
#include "tests/ranks.h"
#include "cudasim.h"

// ---- in a rank -----------------------------------------------------------------------------------

static int rank, size, k, local; // k: devices of all ranks, local: of this one
static Tensor *mine[MAX_LOCAL_DEVICES];

static void begin(int devices, double timeout) {
    cudasim_nccl_tell();
    dist_init_process_group((DistOptions){.devices = devices, .timeout = timeout, .threads = 1});
    rank = dist_get_rank();
    size = dist_get_world_size();
    k = dist_num_devices();
    local = devices;
}

static const int sizes[] = {0, 1, 2, 3, 12, 1001, 120000};
enum { NUM_SIZES = sizeof sizes / sizeof sizes[0], MOST = 120000 };

static float sum_of(int i, bool whole) {
    double sum = 0;
    for (int d = 0; d < k; d++) sum += (double)device_value(d, i, whole);
    return (float)sum;
}

static void fill_mine(int n, bool whole) {
    float *values = xmalloc(sizeof *values * (size_t)(n + 1));
    for (int d = 0; d < local; d++) {
        mine[d] = tensor_new(dist_device(d), n);
        for (int i = 0; i < n; i++) values[i] = device_value(rank * local + d, i, whole);
        tensor_write(mine[d], values);
    }
    free(values);
}
static void free_mine(void) {
    for (int d = 0; d < local; d++) tensor_free(mine[d]);
}

static float expected[MOST];

// Numbers first .. first + n-1 of one device. Zero tolerance: to the bit (-0 is 0).
static void must_be(int d, int first, int n, double tolerance, const char *what) {
    float *values = tensor_values(mine[d]);
    for (int i = first; i < first + n; i++)
        if (!(fabs((double)values[i] - (double)expected[i]) <= tolerance))
            die("see the test", "%s on %d devices: number %d of device %d is %g, not %g", what, k,
                i, d, (double)values[i], (double)expected[i]);
    free(values);
}
static void all_must_be(int n, double tolerance, const char *what) {
    for (int d = 0; d < local; d++) must_be(d, 0, n, tolerance, what);
}

static void parts_are_right(int n) {
    for (int i = 0; i < n; i++) expected[i] = sum_of(i, true);
    fill_mine(n, true);
    dist_reduce_scatter(NULL, mine);
    for (int d = 0; d < local; d++) {
        Range part = equal_range(n, k, rank * local + d);
        must_be(d, (int)part.first, (int)part.count, 0, "reduce_scatter");
    }
    dist_all_gather(NULL, mine);
    all_must_be(n, 0, "all_gather");
    free_mine();
}

static void broadcasts_are_right(int n) {
    for (int root = 0; root < size; root++) {
        for (int i = 0; i < n; i++) expected[i] = device_value(root * local, i, false);
        fill_mine(n, false);
        dist_broadcast(NULL, mine, root);
        all_must_be(n, 0, "broadcast");
        free_mine();
    }
}

// Nobody has chosen: NCCL it is.
static void results_are_right(int devices) {
    begin(devices, 30);
    CHECK(strcmp(dist_chosen_all_reduce(), "nccl") == 0, "GPUs of their own exchange by NCCL");
    CHECK(!dist_why_no_nccl() && !dist_order_is_fixed(), "and its order is its own");
    dist_print_ranks();
    for (int s = 0; s < NUM_SIZES; s++)
        for (int whole = 0; whole < 2; whole++) {
            fill_mine(sizes[s], whole);
            dist_all_reduce(NULL, mine);
            for (int i = 0; i < sizes[s]; i++) expected[i] = sum_of(i, whole);
            all_must_be(sizes[s], whole ? 0 : 1e-4, "all_reduce");
            free_mine();
        }
    for (int s = 0; s < NUM_SIZES; s++) {
        parts_are_right(sizes[s]);
        broadcasts_are_right(sizes[s]);
    }
    CHECK(cudasim_calls("ncclAllReduce") == 2 * (NUM_SIZES - 1) * devices, "none was left out");
    CHECK(cudasim_calls("ncclReduceScatter") > 0 && cudasim_calls("ncclReduce") > 0,
          "equal parts and others");
    CHECK(dist_traffic().bytes == 0 || size > 1, "alone, nothing is sent");
    dist_destroy_process_group();
}

// The last numbers of sums depend on the order: here they are not those of the star.
static void order_is_another(int devices) {
    float *sums[2];
    int different = 0;
    begin(devices, 30);
    for (int by = 0; by < 2; by++) {
        dist_choose_all_reduce(by ? "nccl" : "star");
        CHECK(dist_order_is_fixed() == !by, "NCCL promises none");
        fill_mine(MOST, false);
        dist_all_reduce(NULL, mine);
        sums[by] = tensor_values(mine[0]);
        free_mine();
    }
    for (int i = 0; i < MOST; i++) different += sums[0][i] != sums[1][i];
    CHECK(different > 0 && different < MOST, "some digits differ");
    free(sums[0]);
    free(sums[1]);
    dist_destroy_process_group();
}

// What is before and after in the compute queues and in those that communicate. (The simulator runs
// all as late as it may, and reports what no event orders.)
static void queues_keep_their_order(int devices) {
    enum { N = 3000, TIMES = 12 };
    begin(devices, 30);
    fill_mine(N, true);
    for (int d = 0; d < local; d++) tensor_fill(mine[d], 1);
    for (int t = 0; t < TIMES; t++) {
        bool beside = t % 2; // as DDP's buckets
        for (int d = 0; d < local && beside; d++)
            queue_wait(comm_queue(dist_device(d)), device_record(dist_device(d)));
        if (beside) communicate_begin();
        dist_all_reduce(NULL, mine); // k times as much
        if (beside) communicate_end();
        for (int d = 0; d < local && beside; d++) {
            if (t % 4 == 3) // as the arena does, before it uses memory for something else
                wait_for_users(dist_device(d), mine[d]->data);
            else
                device_wait(dist_device(d), queue_record(comm_queue(dist_device(d))));
        }
        for (int d = 0; d < local; d++)
            launch(dist_device(d), scale, .x = mine[d]->data, .factor = 1 / (float)k, .n = N);
        if (t % 5 == 4) dist_barrier(NULL);
    }
    for (int i = 0; i < N; i++) expected[i] = 1;
    all_must_be(N, 1e-5, "all_reduce and scale");
    free_mine();
    dist_destroy_process_group();
}

// Communicators of their own, opened when they are needed, by some ranks more often than by others.
static void groups_are_apart(int devices) {
    begin(devices, 30);
    ProcessGroup *group = dist_new_group(rank % 2), *unused = dist_new_group(0);
    for (int times = 0; times < 2 + rank % 2; times++) {
        float sum = 0;
        for (int r = rank % 2; r < size; r += 2)
            for (int d = 0; d < local; d++) sum += device_value(r * local + d, 0, true);
        expected[0] = sum;
        fill_mine(1, true);
        dist_all_reduce(group, mine);
        all_must_be(1, 0, "a group's all_reduce");
        free_mine();
    }
    dist_barrier(NULL);
    parts_are_right(1001);
    dist_free_group(group);
    dist_free_group(unused);
    dist_destroy_process_group();
}

// ---- in a rank, where NCCL cannot be --------------------------------------------------------------

static void fall_back(int devices) {
    begin(devices, 30);
    CHECK(strcmp(dist_chosen_all_reduce(), "star") == 0, "through host memory");
    CHECK(dist_why_no_nccl() && dist_order_is_fixed(), "for a reason, in an order");
    parts_are_right(1001);
    CHECK(cudasim_calls("ncclGetUniqueId") == 0, "NCCL was not tried");
    dist_destroy_process_group();
}
static void one_has_no_library(int devices) {
    if (strcmp(getenv("OMPI_COMM_WORLD_RANK") ? getenv("OMPI_COMM_WORLD_RANK") : "1", "1") == 0)
        cudasim_fail("dlopen nccl", 1, 1);
    fall_back(devices);
}
static void library_is_old(int devices) {
    cudasim_fail("dlsym nccl", 3, 1);
    fall_back(devices);
}
static void nccl_is_demanded(int devices) {
    dist_choose_all_reduce("nccl");
    begin(devices, 30);
}
static void nccl_is_demanded_later(int devices) {
    begin(devices, 30);
    dist_choose_all_reduce("nccl");
}
static void on_cpus(int devices) {
    devices_init(BACKEND_CPU, 1);
    begin(devices, 30);
    CHECK(strcmp(dist_chosen_all_reduce(), "star") == 0, "NCCL is for GPUs");
    parts_are_right(1001);
    dist_destroy_process_group();
}

// ---- in a rank, where something goes wrong --------------------------------------------------------

static void all_reduce_once(void) {
    fill_mine(1000, true);
    dist_all_reduce(NULL, mine);
    synchronize_all();
    free_mine();
}

static void says_that_it_went_on(void) { fprintf(stderr, "rank %d went on\n", rank); }

static void never_opened(int devices) {
    cudasim_nccl_polls(-1);
    begin(devices, 1);
    all_reduce_once();
    says_that_it_went_on();
}
static void never_enqueued(int devices) {
    begin(devices, 1);
    all_reduce_once();
    cudasim_nccl_polls(-1);
    all_reduce_once();
    says_that_it_went_on();
}
static void two_on_one_gpu(int devices) {
    begin(devices, 5);
    char id[NCCL_ID_BYTES], *offer = nccl_offer(dist_devices(), devices);
    free(offer);
    nccl_begin("rank 0 on a host", 5);
    nccl_new_id(id);
    nccl_open(id, dist_devices(), devices, 0, devices);
}

// The n-th call of a function fails with an error: "NAME N ERROR".
static void call_fails(int devices) {
    char name[64];
    int n, error;
    CHECK(sscanf(getenv("FAILS"), "%63s %d %d", name, &n, &error) == 3, "what fails");
    begin(devices, 5);
    cudasim_fail(name, n, error);
    for (int i = 0; i < 3; i++) all_reduce_once();
    parts_are_right(1001);
    parts_are_right(1200);
    dist_destroy_process_group();
    says_that_it_went_on();
}

static void one_is_stopped(int devices) {
    begin(devices, 1.5);
    all_reduce_once();
    dist_note("bucket 1, step 42");
    if (rank == size - 1) raise(SIGSTOP);
    all_reduce_once();
    if (rank < size - 1) says_that_it_went_on(); // the other may, until it is ended
}
static void one_computes_on(int devices) {
    begin(devices, 1.5);
    all_reduce_once();
    dist_note("bucket 1, step 42");
    if (rank == size - 1) sleep(60);
    fill_mine(1000, true);
    dist_all_reduce(NULL, mine);
    event_synchronize(device_record(dist_device(local - 1))); // no device may go on, nor the host
    says_that_it_went_on();
}
static void one_does_not_open(int devices) {
    begin(devices, 1.5);
    if (rank == size - 1) sleep(60);
    all_reduce_once();
}
// NCCL itself notices, long before the timeout.
static void link_breaks(int devices) {
    begin(devices, 50);
    all_reduce_once();
    if (rank == 1) cudasim_fail("ncclCommGetAsyncError", 40, ncclRemoteError);
    if (rank == 0) sleep(60);
    all_reduce_once();
    says_that_it_went_on();
}
static void another_collective(int devices) {
    begin(devices, 5);
    fill_mine(12, true);
    if (rank == 1)
        dist_broadcast(NULL, mine, 0);
    else
        dist_all_reduce(NULL, mine);
    synchronize_all();
}
static void another_size(int devices) {
    begin(devices, 5);
    fill_mine(rank == 1 ? 12 : 24, true);
    dist_all_reduce(NULL, mine);
    synchronize_all();
}

static const RankCase cases[] = {
    {"results", results_are_right},
    {"digits", order_is_another},
    {"order", queues_keep_their_order},
    {"groups", groups_are_apart},
    {"fallback", fall_back},
    {"library", one_has_no_library},
    {"old", library_is_old},
    {"demanded", nccl_is_demanded},
    {"later", nccl_is_demanded_later},
    {"cpus", on_cpus},
    {"opening", never_opened},
    {"enqueuing", never_enqueued},
    {"duplicate", two_on_one_gpu},
    {"call", call_fails},
    {"stopped", one_is_stopped},
    {"computes", one_computes_on},
    {"absent", one_does_not_open},
    {"link", link_breaks},
    {"collective", another_collective},
    {"size", another_size},
};

static int number_in(const char *variable, int otherwise) {
    const char *text = getenv(variable);
    return text ? atoi(text) : otherwise;
}

static int run_simulated_case(const char *name, int devices) {
    dist_before_flags();
    cudasim_machine(number_in("GPUS", 1), (unsigned)number_in("CUDASIM_SEED", 1), CUDASIM_PEERS);
    int status = run_case_on(BACKEND_CUDA, cases, sizeof cases / sizeof cases[0], name, devices);
    CHECK(cudasim_live() == 0, "all that was made was freed");
    return status;
}

// ---- the tests of ranks ----------------------------------------------------------------------------

// As ranks.h has them, on a machine with so many GPUs.
static void passes_on(int gpus, const char *name, int ranks, int devices) {
    char before[32];
    snprintf(before, sizeof before, "GPUS=%d", gpus);
    passes_with(before, name, ranks, devices);
}
static void fails_on(int gpus, const char *name, int ranks, int devices, double most,
                     const char *words) {
    char before[32];
    snprintf(before, sizeof before, "GPUS=%d", gpus);
    fails_with(before, name, ranks, devices, most, words);
}

static void devices_of_one_process(void **state) {
    (void)state;
    for (int devices = 2; devices <= 4; devices++) passes_on(4, "results", 0, devices);
    assert_int_equal(times_said("by NCCL, which promises no order of additions"), 1);
    passes_on(4, "digits", 0, 4);
    passes_on(2, "groups", 0, 2);
    static const char *const seeds[] = {"1", "2", "3", "4"};
    for (int s = 0; s < 4; s++) { // what CUDA leaves open comes in other orders
        setenv("CUDASIM_SEED", seeds[s], 1);
        passes_on(3, "order", 0, 3);
    }
    unsetenv("CUDASIM_SEED");
}
static void devices_of_several(void **state) {
    (void)state;
    passes_on(2, "results", 2, 1);
    passes_on(4, "results", 3, 1);
    passes_on(4, "results", 2, 2);
    passes_on(3, "order", 3, 1);
    passes_on(4, "order", 2, 2);
    passes_on(4, "groups", 4, 1);
    passes_on(6, "groups", 3, 2);
}

static void hosts_memory_where_nccl_cannot_be(void **state) {
    (void)state;
    passes_on(1, "fallback", 0, 2);
    assert_non_null(strstr(said, "GPUs exchange through host memory, not by NCCL: rank 0 on "));
    assert_non_null(strstr(said, " has two devices on one GPU"));
    passes_on(1, "fallback", 2, 1);
    assert_non_null(strstr(said, "not by NCCL: ranks 0 and 1 on "));
    assert_non_null(strstr(said, " share a GPU"));
    assert_int_equal(times_said("not by NCCL"), 1); // rank 0 alone
    passes_on(2, "library", 2, 1);
    assert_non_null(strstr(said, "rank 1 on "));
    assert_non_null(strstr(said, "cannot be loaded: libnccl.so.2: cannot open"));
    passes_on(2, "old", 0, 2);
    assert_non_null(strstr(said, "it is older than 2.14"));
    passes_on(2, "cpus", 2, 1);
    assert_null(strstr(said, "NCCL")); // nobody expects it there
}
static void who_demands_it_is_told(void **state) {
    (void)state;
    fails_on(1, "demanded", 0, 2, 10, "error: no NCCL: rank 0 on ");
    fails_on(1, "later", 0, 2, 10, "error: no NCCL: rank 0 on ");
    fails_on(1, "demanded", 2, 1, 10, "test: rank 0: error: no NCCL: ranks 0 and 1 on ");
    assert_int_equal(times_said("error:"), 1);
}

static void nothing_takes_for_ever(void **state) {
    (void)state;
    fails_on(2, "opening", 0, 2, 8, "nccl_init");
    assert_int_equal(times_said("cudasim: rank "), 2); // both devices abort
    fails_on(2, "enqueuing", 0, 2, 8, "NCCL on rank 0 on ");
    assert_non_null(strstr(said, "ncclAllReduce is not done after 1 s"));
    assert_int_equal(times_said("aborted"), 2);
    fails_on(2, "opening", 2, 1, 10, "all ranks are in nccl_init ");
}

static void errors_end_the_job(void **state) {
    (void)state;
    static const struct {
        const char *fails, *words, *hint;
    } errors[] = {
        {"ncclGetUniqueId 1 2", "ncclGetUniqueId: unhandled system error", "NCCL_SOCKET_IFNAME"},
        {"ncclCommInitRankConfig 2 1", "unhandled cuda error", "nvidia-smi"},
        {"ncclGroupStart 2 3", "ncclGroupStart: internal error", "NCCL_DEBUG=INFO"},
        {"ncclGroupStart 1 3", "ncclCommInitRankConfig: internal error", "NCCL_DEBUG=INFO"},
        {"ncclGroupEnd 2 5", "ncclAllReduce: invalid usage", "a GPU of its own"},
        {"ncclAllReduce 2 4", "ncclAllReduce: invalid argument", "NCCL_DEBUG=INFO"},
        {"ncclAllReduce 4 6", "remote process exited", "another rank has ended"},
        {"ncclReduce 3 4", "ncclReduce: invalid argument", "hint"},
        {"ncclBroadcast 3 4", "ncclBroadcast: invalid argument", "hint"},
        {"ncclReduceScatter 2 4", "ncclReduceScatter: invalid argument", "hint"},
        {"ncclAllGather 2 4", "ncclAllGather: invalid argument", "hint"},
        {"ncclCommGetAsyncError 2 6", "remote process exited", "hint"},
        {"ncclCommFinalize 2 3", "ncclCommFinalize: internal error", "hint"},
        {"ncclCommDestroy 1 3", "ncclCommDestroy: internal error", "hint"},
    };
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        setenv("FAILS", errors[i].fails, 1);
        fails_on(2, "call", 0, 2, 10, errors[i].words);
        if (!strstr(said, "error: NCCL on rank 0 on ") || !strstr(said, errors[i].hint) ||
            times_said("hint: ") != 1)
            fail_msg("%s: %s", errors[i].fails, said);
    }
    fails_on(1, "duplicate", 0, 2, 10, "invalid usage");
    assert_non_null(strstr(said, "Duplicate GPU detected"));
}

static void the_watch_names_who_does_not_come(void **state) {
    (void)state;
    fails_on(3, "stopped", 3, 1, 12, "rank 2 on ");
    assert_non_null(strstr(said, "has not reached all_reduce "));
    assert_non_null(strstr(said, " (bucket 1, step 42): it has not answered for 1.5 s"));
    assert_true(times_said(" of 3 aborted") >= 2); // the stopped one may go on when it is ended
    fails_on(3, "computes", 3, 1, 12, "rank 2 on ");
    assert_non_null(strstr(said, "it does something else"));
    assert_int_equal(times_said(" of 3 aborted"), 3); // all
    fails_on(4, "computes", 2, 2, 12, "rank 1 on ");
    assert_int_equal(times_said(" of 4 aborted"), 4);
    fails_on(2, "absent", 2, 1, 12, "rank 1 on ");
    assert_non_null(strstr(said, "has not reached nccl_id "));
}
static void errors_of_nccl_end_all(void **state) {
    (void)state;
    fails_on(3, "link", 3, 1, 20, "NCCL on rank 1 on ");
    assert_non_null(strstr(said, "while GPUs exchange: remote process exited"));
    assert_int_equal(times_said(" of 3 aborted"), 3);
    assert_int_equal(times_said("error: NCCL"), 1);
}
static void ranks_that_call_different_things(void **state) {
    (void)state;
    fails_on(
        2, "collective", 2, 1, 12,
        "NCCL's rank 0 calls ncclAllReduce of 12 numbers, its rank 1 ncclBroadcast of 12 numbers");
    fails_on(3, "size", 3, 1, 12, "ncclAllReduce of 24 numbers, its rank 1 ncclAllReduce of 12");
}

// ---- what ranks offer --------------------------------------------------------------------------------

static void is_obstacle(char *const offers[], int ranks, const char *why) {
    static const char *const hosts[] = {"a", "b", "b"};
    char *found = nccl_obstacle(offers, hosts, ranks);
    if (why)
        assert_string_equal(found ? found : "nothing", why);
    else
        assert_null(found);
    free(found);
}

static void offers_are_compared(void **state) {
    (void)state;
    is_obstacle((char *[]){"2.28.9 a/1 a/2", "2.28.9 b/1 b/2", "2.28.9 b/3 b/4"}, 3, NULL);
    is_obstacle((char *[]){"2.28.9 a/1"}, 1, NULL);
    is_obstacle((char *[]){"2.28.9 a/1", "2.28.9 b/1", "2.28.9 b/1"}, 3,
                "ranks 1 and 2 on b share a GPU");
    is_obstacle((char *[]){"2.28.9 a/1 a/1"}, 1, "rank 0 on a has two devices on one GPU");
    is_obstacle((char *[]){"2.28.9 a/1 a/11", "2.28.9 a/111"}, 2, NULL);
    is_obstacle((char *[]){"2.28.9 a/1", "2.28.9 b/1", "2.20.5 b/2"}, 3,
                "rank 2 on b has version 2.20.5 of it, rank 0 has 2.28.9");
    is_obstacle((char *[]){"2.28.9 a/1", "!cpu:0 is no GPU"}, 2, "rank 1 on b: cpu:0 is no GPU");
}

// ---- the simulated NCCL itself: it must catch each mistake -------------------------------------------

enum { GPUS = 2, N = 8 };
static ncclComm_t comms[GPUS];
static cudaStream_t streams[GPUS];
static float *memory[GPUS];

static void be_done(void) {
    ncclResult_t error = ncclInProgress;
    for (int g = 0; g < GPUS; g++) do
            if (ncclCommGetAsyncError(comms[g], &error) != ncclSuccess) error = ncclInternalError;
        while (error == ncclInProgress);
}
static void open_both(void) {
    ncclUniqueId id;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    cudasim_machine(GPUS, 1, CUDASIM_PEERS);
    ncclGetUniqueId(&id);
    ncclGroupStart();
    for (int g = 0; g < GPUS; g++) {
        cudaSetDevice(g);
        cudaStreamCreateWithFlags(&streams[g], cudaStreamNonBlocking);
        cudaMalloc((void **)&memory[g], N * sizeof(float));
        cudaMemsetAsync(memory[g], 0, N * sizeof(float), streams[g]);
        ncclCommInitRankConfig(&comms[g], GPUS, id, g, &config);
    }
    ncclGroupEnd();
}
static void all_reduce_of(int g) {
    ncclAllReduce(memory[g], memory[g], N, ncclFloat, ncclSum, comms[g], streams[g]);
}
static void all_reduce_of_both(void) {
    ncclGroupStart();
    for (int g = 0; g < GPUS; g++) all_reduce_of(g);
    ncclGroupEnd();
}

static void no_mistake(void) {
    be_done();
    all_reduce_of_both();
    be_done();
}
static void not_asked_after_opening(void) { all_reduce_of_both(); }
static void not_asked_after_a_call(void) {
    be_done();
    all_reduce_of_both();
    all_reduce_of_both();
}
static void one_is_missing(void) {
    be_done();
    ncclGroupStart();
    all_reduce_of(0);
    ncclGroupEnd();
    be_done();
}
static void outside_of_a_group(void) {
    be_done();
    all_reduce_of(0);
}
static void in_the_wrong_place(void) {
    be_done();
    ncclGroupStart();
    ncclAllGather(memory[1], memory[1], N / GPUS, ncclFloat, comms[1], streams[1]);
}
static void memory_of_another_gpu(void) {
    be_done();
    ncclGroupStart();
    for (int g = 0; g < GPUS; g++)
        ncclAllReduce(memory[0], memory[0], N, ncclFloat, ncclSum, comms[g], streams[g]);
    ncclGroupEnd();
    be_done();
}
static void stream_of_another_gpu(void) {
    be_done();
    ncclGroupStart();
    ncclAllReduce(memory[0], memory[0], N, ncclFloat, ncclSum, comms[0], streams[1]);
}
static void not_finalized(void) {
    be_done();
    ncclCommDestroy(comms[0]);
}
static void no_event_between(void) {
    be_done();
    all_reduce_of_both();
    be_done();
    cudaMemsetAsync(memory[1], 0, N * sizeof(float), streams[0]);
}
static void aborted_before(void) {
    be_done();
    ncclCommAbort(comms[0]);
    all_reduce_of_both();
}

static void make_mistake(void *mistake) {
    open_both();
    (*(void (**)(void))mistake)();
    for (int g = 0; g < GPUS; g++) cudaStreamSynchronize(streams[g]);
    _exit(0);
}

static void each_mistake_is_caught(void **state) {
    (void)state;
    static struct {
        void (*make)(void);
        const char *words;
    } mistakes[] = {
        {not_asked_after_opening, "while the communicator's last call is in progress"},
        {not_asked_after_a_call, "while the communicator's last call is in progress"},
        {one_is_missing, "for 1 of this process's 2 devices"},
        {outside_of_a_group, "outside of a group"},
        {in_the_wrong_place, "overlap in another way than in place"},
        {memory_of_another_gpu, "of GPU 0 from GPU 1"},
        {stream_of_another_gpu, "on a stream of GPU 1"},
        {not_finalized, "that was not finalized"},
        {no_event_between, "of GPU 1 from GPU 0"},
        {aborted_before, "of what was aborted"},
    };
    char text[8192];
    void (*none)(void) = no_mistake;
    assert_int_equal(run_and_listen(make_mistake, &none, text, sizeof text), 0);
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        int status = run_and_listen(make_mistake, &mistakes[i].make, text, sizeof text);
        if (status != CUDASIM_STATUS || !strstr(text, mistakes[i].words))
            fail_msg("mistake %zu: status %d, and not '%s': %s", i, status, mistakes[i].words,
                     text);
    }
}

int main(int argc, char *argv[]) {
    self = argv[0];
    if (argc == 4 && strcmp(argv[1], "--case") == 0)
        return run_simulated_case(argv[2], atoi(argv[3]));
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1); // in ranks: MPI leaves memory behind
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_mistake_is_caught), // forks
        cmocka_unit_test(offers_are_compared),
        cmocka_unit_test(devices_of_one_process),
        cmocka_unit_test(devices_of_several),
        cmocka_unit_test(hosts_memory_where_nccl_cannot_be),
        cmocka_unit_test(who_demands_it_is_told),
        cmocka_unit_test(nothing_takes_for_ever),
        cmocka_unit_test(errors_end_the_job),
        cmocka_unit_test(the_watch_names_who_does_not_come),
        cmocka_unit_test(errors_of_nccl_end_all),
        cmocka_unit_test(ranks_that_call_different_things),
    };
    return cmocka_run_group_tests_name("nccl", tests, NULL, NULL);
}
