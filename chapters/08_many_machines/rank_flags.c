// rank_flags.c: see rank_flags.h.
#include "rank_flags.h"

#include "common/base/error.h"
#include "common/base/number.h"
#include "common/program/book.h"
#include "lr_rules.h"

#include <stdlib.h>
#include <string.h>

// ## Reading them

RankFlags rank_flags = {.network = "lenet",
                        .rule = "linear",
                        .collective = "auto",
                        .exchange = "buckets",
                        .seeds = MOST_JOB_SEEDS,
                        .cycle = 1,
                        .timeout = 60};
static const Flag own_flags[] = {
    {"train", FLAG_ON, &rank_flags.train,
     .help = "the training alone, without the tables before and after it"},
    {"full", FLAG_ON, &rank_flags.full, .help = "all images and epochs, on any machine"},
    {"seeds", FLAG_INTEGER, &rank_flags.seeds, "N", .help = "train from N seeds each", .least = 1,
     .most = MOST_JOB_SEEDS, .counts = "seeds"},
    {"network", FLAG_CHOICE, &rank_flags.network, "N", .help = "what is trained: lenet or resnet18",
     .choices = "lenet|resnet18"},
    {"rule", FLAG_CHOICE, &rank_flags.rule, "R",
     .help = "the learning rate of many ranks: none, sqrt, linear or warmup",
     .choices = "none|sqrt|linear|warmup"},
    {"collective", FLAG_CHOICE, &rank_flags.collective, "C",
     .help = "sums over ranks: star, sharded, ring, tree, mpi, nccl; auto: nccl, else sharded",
     .choices = "auto|star|sharded|ring|tree|mpi|nccl"},
    {"exchange", FLAG_CHOICE, &rank_flags.exchange, "E",
     .help = "how gradients travel: tensors, fusion or buckets",
     .choices = "tensors|fusion|buckets"},
    {"bucket", FLAG_INTEGER, &rank_flags.bucket, "KB", .help = "size of a bucket", .least = 1,
     .most = 1 << 20, .otherwise = "PyTorch's"},
    {"fusion", FLAG_INTEGER, &rank_flags.fusion, "KB",
     .help = "size of the buffer in which gradients are fused", .least = 1, .most = 1 << 20,
     .otherwise = "Horovod's"},
    {"cycle", FLAG_REAL, &rank_flags.cycle, "MS",
     .help = "milliseconds between two looks at what can be fused"},
    {"hierarchical", FLAG_ON, &rank_flags.hierarchical,
     .help = "sums are made inside each host first, then across"},
    {"devices-per-rank", FLAG_INTEGER, &rank_flags.devices_per_rank, "D",
     .help = "each rank has D devices", .least = 1, .most = 16, .otherwise = "1"},
    {"ranks-per-host", FLAG_INTEGER, &rank_flags.ranks_per_host, "R",
     .help = "as if each R ranks were on a host of their own", .least = 1, .most = 1 << 20,
     .otherwise = "as it is"},
    {"timeout", FLAG_REAL, &rank_flags.timeout, "S",
     .help = "seconds until a rank that does not come is given up"},
    {"plant", FLAG_TEXT, &rank_flags.plant, "F",
     .help = "a fault, such as stop:2@5, rank 2 in step 5: kill, stop, exit, memory or nan",
     .otherwise = "no"},
    {0},
};

static void check_flags(const Flags *f) {
    const float MOST_SECONDS = 1e6f, MOST_CYCLE = 1000;
    if (f->backend == BACKEND_MODEL)
        die_usage("auto, cpu or cuda", "--backend model: ranks exchange values");
    if (exchange_named(rank_flags.exchange) == EXCHANGE_FUSION && rank_flags.hierarchical)
        die_usage("--exchange buckets or tensors", "--hierarchical and --exchange fusion exclude "
                                                   "each other");
    if (strcmp(f->machine, "none") != 0)
        die_usage("leave it out: the modelled cluster is Horovod's",
                  "--machine %s: what ranks do is measured", f->machine);
    if (!(rank_flags.timeout >= 1 && rank_flags.timeout <= MOST_SECONDS))
        die_usage("from 1 to 1000000 seconds: between two exchanges ranks compute",
                  "--timeout: not a possible value: %g", (double)rank_flags.timeout);
    if (!(rank_flags.cycle <= MOST_CYCLE))
        die_usage("from 0 to 1000 milliseconds", "--cycle: not a possible value: %g",
                  (double)rank_flags.cycle);
    if (f->quick && rank_flags.full) die_usage("give one of them", "--quick and --full");
    fault_of(rank_flags.plant);
}

Flags read_rank_flags(int argc, char *argv[]) {
    Flags flags = default_flags;
    flags.machine = "none";
    flags.batch_size = 64;
    flags.lr = 0.05f;
    flags.epochs = 2;
    flags.of_ranks = true;
    flags.own = own_flags;
    flags.next = "make exercise-08-1";
    flags.quick_means = "--batch-size 16 --epochs 3 --seeds 1 --train-size 8192 --test-size 500";
    flags = book_begin(
        argc, argv,
        "Trains on many ranks; alone it is one. mpirun -np 4 starts four on this machine "
        "(with --oversubscribe more than it has cores, with --allow-run-as-root as "
        "root in a container), mpirun -np 4 -H one:2,two:2 two on each of two "
        "machines, srun --mpi=pmix as many as Slurm gives "
        "(chapters/08_many_machines/job.sbatch), and make run-08 four, whoever you "
        "are.",
        "batch-size lr epochs steps seed train-size test-size no-shuffle checkpoint resume csv"
        " data -machine -predict",
        flags);
    check_flags(&flags);
    rank_flags.train |= flags.checkpoint || flags.resume || rank_flags.plant;
    return flags;
}

// ## The same on all ranks

static void agree_on(const char *what, char *value) {
    dist_must_agree(what, value);
    free(value);
}

static void agree_on_switch(const char *what, bool is_on) {
    dist_must_agree(what, is_on ? "on" : "off");
}

static void agree_on_images(const char *set, const Dataset *data) {
    char *of = xprintf("a %s set of", set), *with = xprintf("a %s set with the checksum", set);
    agree_on(of, xprintf("%d images", data->count));
    agree_on(with, xprintf("%08x", dataset_checksum(data)));
    free(of);
    free(with);
}

// (All ranks ask for all of these, whatever they have: each is a collective.)
void ranks_must_agree(const Flags *f, const Dataset *train_data, const Dataset *test_data) {
    dist_must_agree_on_program();
    dist_must_agree_on_devices();
    agree_on_switch("--train", rank_flags.train);
    agree_on_switch("--full", rank_flags.full);
    agree_on_switch("--no-shuffle", !f->shuffle);
    agree_on_switch("--hierarchical", rank_flags.hierarchical);
    dist_must_agree("--network", rank_flags.network);
    dist_must_agree("--rule", rank_flags.rule);
    dist_must_agree("--collective", rank_flags.collective);
    dist_must_agree("--exchange", rank_flags.exchange);
    dist_must_agree("--checkpoint", f->checkpoint ? "FILE" : "none");
    dist_must_agree("--resume", f->resume ? "FILE" : "none");
    agree_on("--batch-size", xprintf("%d", f->batch_size));
    agree_on("--lr", xshortest(f->lr));
    agree_on("--epochs", xprintf("%d", f->epochs));
    agree_on("--steps", xprintf("%d", f->steps));
    agree_on("--seed", xprintf("%llu", (unsigned long long)f->seed));
    agree_on("--seeds", xprintf("%d", rank_flags.seeds));
    agree_on("--bucket", xprintf("%d", rank_flags.bucket));
    agree_on("--fusion", xprintf("%d", rank_flags.fusion));
    agree_on("--cycle", xshortest(rank_flags.cycle));
    agree_on_images("training", train_data);
    agree_on_images("test", test_data);
}

// ## A training

char *rank_settings(const Flags *f, const Dataset *train_data, const Dataset *test_data) {
    char *lr = xshortest(f->lr);
    char *text =
        xprintf("%s, %d images of each device in a step, --lr %s, rule %s, seed %llu, "
                "%s images, %d training and %d test images (%08x, %08x)",
                rank_flags.network, f->batch_size, lr, rank_flags.rule, (unsigned long long)f->seed,
                f->shuffle ? "shuffled" : "unshuffled", train_data->count, test_data->count,
                dataset_checksum(train_data), dataset_checksum(test_data));
    free(lr);
    return text;
}

static LrRule rule_named(const char *name) {
    static const char *const names[NUM_LR_RULES] = {"none", "sqrt", "linear", "warmup"};
    int rule = 0;
    while (strcmp(names[rule], name) != 0) rule++;
    return (LrRule)rule;
}

RankLesson rank_lesson(const Flags *f, const Dataset *train_data, const Dataset *test_data,
                       const char *settings) {
    size_t fused = rank_flags.fusion > 0 ? (size_t)rank_flags.fusion << 10 : FUSION_THRESHOLD;
    return (RankLesson){
        .train_data = train_data,
        .test_data = test_data,
        .network = &networks[strcmp(rank_flags.network, "lenet") != 0],
        .rows = f->batch_size,
        .epochs = f->epochs,
        .steps = f->steps,
        .lr = f->lr,
        .rule = rule_named(rank_flags.rule),
        .shuffle = f->shuffle,
        .seed = f->seed,
        .net = {.exchange = exchange_named(rank_flags.exchange),
                .ddp = {.bucket_bytes = (size_t)rank_flags.bucket << 10},
                .fusion = {.threshold = fused, .cycle = (double)rank_flags.cycle / 1e3},
                .hosts_first = rank_flags.hierarchical},
        .checkpoint = f->checkpoint,
        .resume = f->resume,
        .settings = settings,
        .fault = fault_of(rank_flags.plant),
    };
}
