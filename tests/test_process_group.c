// test_process_group.c: processes that compute together: sums to the bit, bytes by the formulas,
// and what is said when a rank does not come.
#include <signal.h>

#include "common/base/launcher.h"
#include "common/tensor/autograd.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/08_many_machines/step.h"
#include "cases.h"
#include "start_ranks.h"

// ---- in a rank -----------------------------------------------------------------------------------

static const int sizes[] = {0, 1, 2, 3, 7, 1001, SANITIZED ? 16387 : (1 << 20) + 3};

// The same vectors on devices of this process, summed by chapter 2's functions.
static void expect_chapter_2(const char *algorithm, int n) {
    Tensor *data[MAX_COMPUTING];
    choose_allreduce(algorithm);
    for (int d = 0; d < size; d++) {
        begin_step(try_gpu(d));
        data[d] = filled(try_gpu(d), d, n, false);
    }
    allreduce(data, size);
    tensor_read(data[0], expected);
    for (int d = 0; d < size; d++) tensor_free(data[d]);
}

// Bits of one process, and bytes by the formula.
static void sums_have_the_bits_of_one_process(void) {
    for (int a = 0; a < NUM_ALLREDUCES; a++)
        for (size_t s = 0; s < COUNT(sizes); s++) {
            int n = sizes[s];
            const char *name = allreduces[a].name;
            expect_chapter_2(name, n);
            fill_mine(n, false);
            dist_choose_all_reduce(name);
            dist_reset_traffic();
            dist_all_reduce(NULL, mine);
            size_t formula = allreduce_bytes(&allreduces[a], (size_t)n, size, rank).sent;
            CHECK(dist_traffic().bytes == formula, "bytes by the formula");
            CHECK(dist_num_hosts() > 1 || dist_traffic().bytes_to_hosts == 0, "there is one host");
            mine_must_be(name, n, 0, false);
        }
}

static void queues_keep_their_order(void) {
    dist_choose_all_reduce("ring");
    queue_keeps_its_order(300000, 12);
}
static void all_others_are_right(void) {
    for (size_t s = 0; s < COUNT(sizes); s++) others_are_right(sizes[s]);
}

static void figures_of_hosts(void) {
    double values[2] = {rank, 0.1 * rank}, sum[2] = {0};
    for (int r = 0; r < size; r++) sum[0] += r, sum[1] += 0.1 * r;
    dist_sum(NULL, values, 2);
    CHECK(values[0] == sum[0] && values[1] == sum[1], "in the order of the ranks");
    dist_barrier(NULL);
    dist_must_agree("k 3\nas all others");
    CHECK(dist_num_hosts() == 1 && dist_local_rank() == rank && dist_local_size() == size,
          "all are on this host");
}

// ---- on several hosts; by hosts_test.sh ------------------------------------------------------------

// Rank 0 says how much each host has sent to others; hosts_test.sh knows the formulas.
static void say_bytes_to_hosts(const char *name) {
    double sent = (double)dist_traffic().bytes_to_hosts, all[MAX_COMPUTING];
    dist_gather(NULL, &sent, 1, all);
    for (int h = 0; h < dist_num_hosts(); h++) {
        double of_host = 0;
        for (int r = 0; r < size; r++) of_host += dist_host_of(r) == h ? all[r] : 0;
        printf("%s: host %d sent %.0f\n", name, h, of_host);
    }
}

// Three ways to one sum. (Long enough that what else crosses, when the job starts and ends, is
// little.)
static void bytes_between_hosts(void) {
    hierarchical_begin();
    expect_sum(LONGEST, true, 0, 1);
    printf("%d ranks on %d hosts,%s\n", size, dist_num_hosts(),
           dist_is_mpi_available() ? "" : " no MPI");
    for (int r = 0; r < size; r++) printf("rank %d on %s: \n", r, dist_host_name(r));
    for (int way = 0; way < 3; way++) {
        static const char *const names[] = {"star", "ring", "hierarchical"};
        fill_mine(LONGEST, true);
        dist_choose_all_reduce(way == 0 ? "star" : "ring");
        dist_reset_traffic();
        if (way < 2)
            dist_all_reduce(NULL, mine);
        else
            hierarchical_all_reduce(mine);
        mine_must_be(names[way], LONGEST, 0, false);
        say_bytes_to_hosts(names[way]);
    }
    hierarchical_end();
}

// Until something happens. Says when it has begun.
static void all_reduce_forever(void) {
    fill_mine(100000, true);
    for (long step = 0;; step++) {
        dist_note("step %ld", step);
        dist_all_reduce(NULL, mine);
        synchronize_all();
        if (step == 0) printf("the first step is done\n"), fflush(stdout);
    }
}

// ---- in a rank, where something is wrong -----------------------------------------------------------

static void one_is_killed(void) { keep_waiting(SIGKILL, 0); }
static void one_is_stopped(void) { keep_waiting(SIGSTOP, 0); }
static void one_computes_on(void) { keep_waiting(0, 60); }
static void one_is_slow_but_comes(void) {
    CHECK(dist_num_hosts() == (size + 1) / 2, "two ranks on each");
    CHECK(dist_host_of(rank) == rank / 2 && dist_local_rank() == rank % 2, "in their order");
    keep_waiting(0, 1);
}

static void one_disagrees(void) {
    dist_must_agree(rank == size - 1 ? "--seed 1\n--lr 0.1\n" : "--seed 1\n--lr 0.2\n");
}

static void another_collective(void) {
    fill_mine(5, true);
    if (rank == 1) dist_broadcast(NULL, mine, 0);
    all_reduce(5);
}

static void another_size(void) {
    dist_choose_all_reduce("star");
    all_reduce(rank == 1 ? 5 : 6);
}

// ---- the cases -------------------------------------------------------------------------------------

// Those with `all` are run by one start of the ranks, one after the other: the case "all".
static const struct {
    const char *name;
    void (*run)(void);
    bool all;
    double timeout;
    int ranks_per_host;
} cases[] = {
    {"bits", sums_have_the_bits_of_one_process, true, 20, 0},
    {"order", queues_keep_their_order, true, 20, 0},
    {"others", all_others_are_right, true, 20, 0},
    {"groups", groups_are_apart, true, 20, 0},
    {"figures", figures_of_hosts, true, 20, 0},
    {"between", bytes_between_hosts, false, 20, 0},
    {"forever", all_reduce_forever, false, 8, 0},
    {"slow", one_is_slow_but_comes, false, 3, 2},
    {"stopped", one_is_stopped, false, 3, 0},
    {"computes", one_computes_on, false, 3, 0},
    {"disagrees", one_disagrees, false, 20, 0},
    {"collective", another_collective, false, 3, 0},
    {"size", another_size, false, 20, 0},
    {"killed", one_is_killed, false, 20, 0},
    {"late", NULL, false, 1, 0},
};

static int run_named(const char *name) {
    bool all = strcmp(name, "all") == 0, begun = false;
    set_program_name("test");
    dist_before_flags();
    devices_init(BACKEND_CPU, 1);
    for (size_t c = 0; c < COUNT(cases); c++) {
        if (!(all ? cases[c].all : strcmp(name, cases[c].name) == 0)) continue;
        if (!cases[c].run && launch_read().rank > 0) sleep(60); // comes late
        if (!begun) begin(cases[c].timeout, cases[c].ranks_per_host);
        begun = true;
        if (cases[c].run) cases[c].run();
    }
    if (!begun) return 99;
    dist_destroy_process_group();
    devices_close();
    return 0;
}

// ---- the tests -----------------------------------------------------------------------------------

TEST(test_what_ranks_compute) {
    for (int ranks = 1; ranks <= 5; ranks++) passes("all", ranks);
    passes("slow", 3);
}

// Each ends the job in time, with these words, the first of them so many times (0: or more).
TEST(test_what_goes_wrong) {
    static const struct {
        const char *name;
        int ranks;
        const char *words, *also;
        int times;
    } rows[] = {
        {"disagrees", 3, "test: rank 0: error: rank 2 on ", "has --lr 0.1, rank 0 has --lr 0.2", 0},
        {"collective", 2, "is in broadcast ", "", 0},
        {"size", 2, "bytes than the 24 that are expected here", "", 0},
        {"stopped", 4, "rank 3 on ", " (bucket 1, step 42): it has not answered for 3 s", 3},
        {"computes", 3, "rank 2 on ", "it does something else", 0},
        {"killed", 4, "error: ", "rank 3 on ", 1}, // those whom the launcher ends are not blamed
        {"late", 3, "not all ranks have come together within 1 s", "", 0},
    };
    for (size_t r = 0; r < COUNT(rows); r++) {
        fails_with("", rows[r].name, rows[r].ranks, 12, rows[r].words);
        int times = rows[r].times;
        if (!strstr(said, rows[r].also) || (times > 0 && times_said(rows[r].words) != times))
            fail_msg("%s: not '%s' %d times: %s", rows[r].name, rows[r].words, times, said);
    }
}

// A program that was started by hand is rank 0 of 1, and so is one in a shell that srun started;
// what a launcher started alone is refused with one error; ranks of srun leave that to rank 0.
TEST(test_wrong_launch) {
    static const struct {
        const char *variables;
        int status;
        const char *words; // "": nothing is said
    } rows[] = {
        {"SLURM_JOBID=1 SLURM_NODELIST=one SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1",
         0, ""},
        {"SLURM_JOBID=1 SLURM_NODELIST=one SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=4",
         1, "srun started 4 processes, but each is a world of 1"},
        {"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=4 SLURM_PTY_PORT=1 SLURM_TASK_PID=1 PMIX_RANK=0", 0,
         ""},
        {"SLURM_PROCID=0 SLURM_NTASKS=4", 0, ""}, // a batch script
        {"SLURM_PROCID=2 SLURM_STEP_NUM_TASKS=4", 1, ""},
        {"PMI_RANK=0 PMI_SIZE=3 MPI_LOCALRANKID=0", 1, "mpiexec started 3 processes"},
        {"PMI_RANK=0 PMI_SIZE=3 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=3", 1,
         "srun started 3 processes"},
        {"RANK=0 WORLD_SIZE=4", 1, "WORLD_SIZE=4 says that torchrun started 4 processes, but"},
        {"RANK=1 WORLD_SIZE=2", 1, "torchrun started 2 processes"}, // in its own terminal
        {"RANK=0 WORLD_SIZE=4 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1", 1, "torchrun started 4"},
        {"RANK=0 WORLD_SIZE=4 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2", 1, "srun started 2"},
        {"RANK=0 WORLD_SIZE=1 LOCAL_RANK=0", 0, ""},
        {"WORLD_SIZE=4", 0, ""},
        {"HOROVOD_RANK=0 HOROVOD_SIZE=2", 1, "horovodrun started 2 processes"},
        {"FLUX_TASK_RANK=0 FLUX_JOB_SIZE=2", 1, "flux started 2 processes"},
    };
    passes("figures", 0);
    for (size_t r = 0; r < COUNT(rows); r++) {
        assert_int_equal(ranks_run(rows[r].variables, 0, "figures"), rows[r].status);
        if (!strstr(said, rows[r].words) || (!*rows[r].words && *said) || strstr(said, "OMPI"))
            fail_msg("%s: %s", rows[r].variables, said);
    }
}

int main(int argc, char *argv[]) {
    self = argv[0];
    if (argc == 3 && strcmp(argv[1], "--case") == 0) return run_named(argv[2]);
    return run_all("process_group", NULL, NULL);
}
