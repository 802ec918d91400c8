// rank_flags.c: see rank_flags.h.
#include "rank_flags.h"

#include "common/base/error.h"
#include "common/program/book.h"
#include "lr_rules.h"

#include <stdlib.h>
#include <string.h>

// ## Reading them

static void check_flags(const Flags *f) {
    const float MOST_SECONDS = 1e6f, MOST_CYCLE = 1000;
    if (f->backend == BACKEND_MODEL)
        die_usage("auto, cpu or cuda", "--backend model: ranks exchange values");
    if (exchange_named(f->exchange) == EXCHANGE_FUSION && f->hierarchical)
        die_usage("--exchange buckets or tensors", "--hierarchical and --exchange fusion exclude "
                                                   "each other");
    if (strcmp(f->machine, "none") != 0)
        die_usage("leave it out: the modelled cluster is Horovod's",
                  "--machine %s: what ranks do is measured", f->machine);
    if (!(f->timeout >= 1 && f->timeout <= MOST_SECONDS))
        die_usage("from 1 to 1000000 seconds: between two exchanges ranks compute",
                  "--timeout: not a possible value: %g", (double)f->timeout);
    if (!(f->cycle <= MOST_CYCLE))
        die_usage("from 0 to 1000 milliseconds", "--cycle: not a possible value: %g",
                  (double)f->cycle);
    if (f->seeds > MOST_JOB_SEEDS)
        die_usage(xprintf("from 1 to %d", MOST_JOB_SEEDS), "--seeds: not a possible value: %d",
                  f->seeds);
    fault_of(f->plant);
}

Flags read_rank_flags(int argc, char *argv[]) {
    Flags flags = default_flags;
    flags.machine = "none";
    flags.batch_size = 64;
    flags.lr = 0.05f;
    flags.epochs = 2;
    flags.seeds = MOST_JOB_SEEDS;
    flags.next = "make exercise-08-1";
    flags.quick_means = "--batch-size 16 --epochs 3 --train-size 8192 --test-size 500 --seeds 1";
    flags = book_begin(
        argc, argv,
        "Trains on many ranks; alone it is one. mpirun -np 4 starts four on this machine "
        "(with --oversubscribe more than it has cores, with --allow-run-as-root as "
        "root in a container), mpirun -np 4 -H one:2,two:2 two on each of two "
        "machines, srun --mpi=pmix as many as Slurm gives "
        "(chapters/08_many_machines/job.sbatch), and make run-08 four, whoever you "
        "are.",
        "train network batch-size lr rule epochs steps seed seeds train-size test-size "
        "no-shuffle collective exchange bucket fusion cycle hierarchical "
        "full devices-per-rank ranks-per-host timeout plant checkpoint resume csv data "
        "-machine -predict",
        flags);
    check_flags(&flags);
    flags.train |= flags.checkpoint || flags.resume || flags.plant;
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
    agree_on_switch("--train", f->train);
    agree_on_switch("--full", f->full);
    agree_on_switch("--no-shuffle", !f->shuffle);
    agree_on_switch("--hierarchical", f->hierarchical);
    dist_must_agree("--network", f->network);
    dist_must_agree("--rule", f->rule);
    dist_must_agree("--collective", f->collective);
    dist_must_agree("--exchange", f->exchange);
    dist_must_agree("--checkpoint", f->checkpoint ? "FILE" : "none");
    dist_must_agree("--resume", f->resume ? "FILE" : "none");
    agree_on("--batch-size", xprintf("%d", f->batch_size));
    agree_on("--lr", xshortest(f->lr));
    agree_on("--epochs", xprintf("%d", f->epochs));
    agree_on("--steps", xprintf("%d", f->steps));
    agree_on("--seed", xprintf("%llu", (unsigned long long)f->seed));
    agree_on("--seeds", xprintf("%d", f->seeds));
    agree_on("--bucket", xprintf("%d", f->bucket));
    agree_on("--fusion", xprintf("%d", f->fusion));
    agree_on("--cycle", xshortest(f->cycle));
    agree_on_images("training", train_data);
    agree_on_images("test", test_data);
}

// ## A training

char *rank_settings(const Flags *f, const Dataset *train_data, const Dataset *test_data) {
    char *lr = xshortest(f->lr);
    char *text =
        xprintf("%s, %d images of each device in a step, --lr %s, rule %s, seed %llu, "
                "%s images, %d training and %d test images (%08x, %08x)",
                f->network, f->batch_size, lr, f->rule, (unsigned long long)f->seed,
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
    size_t fused = f->fusion > 0 ? (size_t)f->fusion << 10 : FUSION_THRESHOLD;
    return (RankLesson){
        .train_data = train_data,
        .test_data = test_data,
        .network = &networks[strcmp(f->network, "lenet") != 0],
        .rows = f->batch_size,
        .epochs = f->epochs,
        .steps = f->steps,
        .lr = f->lr,
        .rule = rule_named(f->rule),
        .shuffle = f->shuffle,
        .seed = f->seed,
        .net = {.exchange = exchange_named(f->exchange),
                .ddp = {.bucket_bytes = (size_t)f->bucket << 10},
                .fusion = {.threshold = fused, .cycle = (double)f->cycle / 1e3},
                .hosts_first = f->hierarchical},
        .checkpoint = f->checkpoint,
        .resume = f->resume,
        .settings = settings,
        .fault = fault_of(f->plant),
    };
}
