// flags.c: see behind.h.
#include "behind.h"

#include "common/base/error.h"
#include "common/base/number.h"
#include "common/program/program.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

RankFlags rank_flags;
static const Flag own_flags[] = {
    {"train", FLAG_ON, &rank_flags.train,
     .help = "the training alone, without the tables before and after it"},
    {"ranks-per-host", FLAG_INTEGER, &rank_flags.ranks_per_host, "R",
     .help = "as if each R ranks were on a host of their own", .least = 1, .most = 1 << 20,
     .otherwise = "as it is"},
    {"timeout", FLAG_REAL, &rank_flags.timeout, "S",
     .help = "seconds until a rank that does not come is given up", .standard = "60"},
    {"plant", FLAG_TEXT, &rank_flags.plant, "F",
     .help = "a fault, such as stop:2@5, rank 2 in step 5: kill, stop, exit, memory or nan",
     .otherwise = "no"},
    {0},
};

// ## --plant: ranks that go wrong on purpose

// A rank that is made to fail in this step (from 1), to see how the others react.
static struct Fault {
    enum { NO_FAULT, FAULT_KILL, FAULT_STOP, FAULT_EXIT, FAULT_MEMORY, FAULT_NAN } kind;
    int rank;
    long step;
} fault;
static const char *const fault_names[] = {"", "kill", "stop", "exit", "memory", "nan"};

// "stop:2@5" is rank 2 in step 5. kill (-9), stop (it hangs), exit (without a word), memory (asks
// for more than there is), nan (its images are not numbers). NULL: no fault.
static void read_fault(const char *text) {
    char name[16];
    int end = 0;
    if (!text) return;
    if (sscanf(text, "%15[a-z]:%d@%ld%n", name, &fault.rank, &fault.step, &end) == 3 && !text[end])
        for (int kind = FAULT_KILL; kind <= FAULT_NAN; kind++)
            if (strcmp(name, fault_names[kind]) == 0) fault.kind = kind;
    if (!fault.kind || fault.rank < 0 || fault.step < 1)
        die_usage("kill, stop, exit, memory or nan, a rank and its step, such as stop:2@5",
                  "--plant: not a possible value: '%s'", text);
}

void check_fault(long steps) {
    int ranks = dist_get_world_size();
    if (fault.kind != NO_FAULT && (fault.rank >= ranks || fault.step > steps))
        die_usage("a rank from 0 on, and a step from 1 on",
                  "--plant %s:%d@%ld: there are %d ranks and %ld steps", fault_names[fault.kind],
                  fault.rank, fault.step, ranks, steps);
}

static void go_wrong(long step, Tensor *X) {
    if (fault.kind == NO_FAULT || fault.step != step || fault.rank != dist_get_rank()) return;
    if (fault.kind == FAULT_KILL) raise(SIGKILL);
    if (fault.kind == FAULT_STOP) raise(SIGSTOP);
    if (fault.kind == FAULT_EXIT) _exit(EXIT_SUCCESS);
    if (fault.kind == FAULT_MEMORY) xmalloc((size_t)1 << 60);
    if (fault.kind == FAULT_NAN) tensor_fill(X, NAN);
}

static void check_flags(const Flags *f) {
    const float MOST_SECONDS = 1e6f;
    bool modelled = f->backend == BACKEND_MODEL;
    if (strcmp(f->machine, modelled ? "p100-25gbe" : "none") != 0)
        die_usage("--backend model --machine p100-25gbe prints the modelled efficiencies alone",
                  "--machine %s: what ranks do is measured", f->machine);
    if (!(rank_flags.timeout >= 1 && rank_flags.timeout <= MOST_SECONDS))
        die_usage("from 1 to 1000000 seconds: between two exchanges ranks compute",
                  "--timeout: not a possible value: %g", (double)rank_flags.timeout);
    read_fault(rank_flags.plant);
}

Flags read_rank_flags(int argc, char *argv[]) {
    Flags flags = book_begin(
        argc, argv,
        "Trains on many ranks, or as one rank without a launcher. make run-08 starts four on this "
        "machine, and so does mpirun -np 4 (with fewer cores add --oversubscribe, as root "
        "--allow-run-as-root). mpirun -np 4 -H one:2,two:2 starts two on each of two machines, and "
        "srun --mpi=pmix starts a Slurm job's (chapters/08_many_machines/job.sbatch).",
        "batch-size=64 lr=0.05 epochs=2 steps seed train-size test-size no-shuffle checkpoint "
        "resume csv data machine=none -machine",
        (Program){.own = own_flags,
                  .quick_means = "--batch-size 16 --epochs 3 --train-size 8192 --test-size 500",
                  .next = "make exercise-08-1",
                  .of_ranks = true});
    check_flags(&flags);
    rank_flags.train |= flags.checkpoint || flags.resume || rank_flags.plant;
    return flags;
}

// ## The same on all ranks

static const char *on_or_off(bool on) { return on ? "on" : "off"; }

// Ranks that were built from other sources would call other collectives.
static uint32_t program_checksum(void) {
    unsigned char bytes[1 << 16];
    uLong sum = crc32(0, NULL, 0);
    FILE *program = fopen("/proc/self/exe", "rb");
    if (!program) return 0;
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, program)) > 0;)
        sum = crc32(sum, bytes, (uInt)n);
    fclose(program);
    return (uint32_t)sum;
}

// (In one collective. Devices of another kind add in another order, so what is computed alike on
// all ranks would drift apart.)
void ranks_must_agree(const Flags *f, const Dataset *train_data, const Dataset *test_data) {
    const RankFlags *r = &rank_flags;
    char *kind = device_kind(dist_device()), *lr = xshortest(f->lr);
    char *text =
        xprintf("a program with the checksum %08x\na device of the kind %s\n--timeout %.9g\n"
                "--ranks-per-host %d\n--train %s\n--quick %s\n--no-shuffle %s\n--checkpoint %s\n"
                "--resume %s\n--batch-size %d\n--lr %s\n--epochs %d\n--steps %d\n--seed %llu\n"
                "%d training and %d test images\n"
                "training and test images with the checksums %08x and %08x\n",
                program_checksum(), kind, (double)r->timeout, r->ranks_per_host,
                on_or_off(r->train), on_or_off(f->quick), on_or_off(!f->shuffle),
                f->checkpoint ? "FILE" : "none", f->resume ? "FILE" : "none", f->batch_size, lr,
                f->epochs, f->steps, (unsigned long long)f->seed, train_data->count,
                test_data->count, dataset_checksum(train_data), dataset_checksum(test_data));
    dist_must_agree(text);
    free(text);
    free(kind);
    free(lr);
}

char *rank_settings(const Flags *f, const Dataset *train_data, const Dataset *test_data) {
    char *lr = xshortest(f->lr);
    char *text =
        xprintf("%d images of each rank in a step, --lr %s, seed %llu, %s images, "
                "%d training and %d test images (%08x, %08x)",
                f->batch_size, lr, (unsigned long long)f->seed,
                f->shuffle ? "shuffled" : "unshuffled", train_data->count, test_data->count,
                dataset_checksum(train_data), dataset_checksum(test_data));
    free(lr);
    return text;
}

RankLesson rank_lesson(const Flags *f, const Dataset *train_data, const Dataset *test_data,
                       const char *settings) {
    return (RankLesson){
        .train_data = train_data,
        .test_data = test_data,
        .rows = f->batch_size,
        .epochs = f->epochs,
        .steps = f->steps,
        .lr = f->lr,
        .shuffle = f->shuffle,
        .seed = f->seed,
        .net = {.exchange = EXCHANGE_BUCKETS},
        .checkpoint = f->checkpoint,
        .resume = f->resume,
        .settings = settings,
        .before_step = go_wrong,
    };
}
