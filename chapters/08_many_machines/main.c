// main.c: the story of chapter 8. README.md says how to run it and what to read.
#include "common/base/error.h"
#include "common/program/book.h"
#include "common/program/interrupt.h"
#include "common/program/say.h"
#include "accumulate.h"
#include "collectives_table.h"
#include "exchange_table.h"
#include "modelled_scaling.h"
#include "rank_flags.h"
#include "scaling_here.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Flags flags;
static Dataset *train_data, *test_data;
static RankLesson lesson;

// ## Ranks
//
// So far one program has had k devices. Machines have at most eight or sixteen, so whoever wants
// more needs several machines, and a program runs on one. The way out is old: start the same
// program many times, on all machines, and let the copies send messages to each other. Each copy is
// a *rank*, and knows three numbers: its own (0 to W-1), how many there are (the *world size* W),
// and which one it is on its own machine (its *local rank*).
//
// `mpirun` starts them and helps them to find each other. On clusters that share their machines
// out, Slurm's `srun` does it. What all ranks do is the same; only rank 0 prints, draws and saves.
// (Try what happens if all four print.)
//
// Which device does a rank use? Its local rank says it: the rank with local rank 2 uses GPU 2 of
// its machine. The program says below what it chose, and why.

static void show_ranks(void) { dist_print_ranks(); }

// ## Sums over ranks
//
// Ranks share no memory. A *collective* is a function that all of them call, and that sends
// messages: `dist_all_reduce()` has the algorithms of chapter 2. There the host enqueued the work
// of all devices; here each rank does its own part and knows nothing of the others but what they
// send. The order of the additions is the same, so four ranks have the bits of four devices in one
// process. MPI has an allreduce of its own, which may be faster and promises no order.

static void show_collectives(void) {
    say("\nSums of as many numbers as LeNet has, over %d ranks", dist_get_world_size());
    compare_collectives();
}

// ## Horovod's five steps
//
// A program for one device becomes one for many, says Horovod's README, with five changes:
//
// 1. `hvd.init()`: find the other ranks (`dist_init_process_group()`);
// 2. pin each rank to its device;
// 3. scale the learning rate, for W ranks make minibatches W times as large;
// 4. broadcast the parameters of rank 0 to all (`rank_net_new()`);
// 5. wrap the update: sum gradients over all ranks before it (`rank_net_step()`).
//
// (A sixth: only rank 0 writes checkpoints.)
//
// What these do not say: each rank must load images of its own (chapter 6's sampler); an
// accuracy is exact only if each test image is counted once; and all ranks have to stop in the same
// step. Here is a training with all of it. The checksum at the end is that of all parameters, and
// all ranks must have the same one.

static void check_equal_parameters(const RankResult *r) {
    double mine = r->checksum, *all = xmalloc(sizeof *all * (size_t)dist_get_world_size());
    dist_gather(NULL, &mine, 1, all);
    for (int k = 1; k < dist_get_world_size(); k++)
        CHECK(all[k] == all[0], "all ranks have the same parameters, to the bit");
    free(all);
}

static void print_end(const RankResult *r) {
    const double A_GUESS = 0.11;
    int W = dist_get_world_size();
    printf("  %ld steps; parameters %08x on all %d rank%s", r->steps, r->checksum, W,
           W == 1 ? "" : "s");
    if (dist_order_is_fixed() && W > 1)
        printf("; rank 0 has sent %.1f MB in %llu messages", (double)r->traffic.bytes / 1e6,
               (unsigned long long)r->traffic.messages);
    printf("\n");
    if (r->test_acc < A_GUESS)
        say("  (That is guessing. From the book's start LeNet spends its first steps on a plateau, "
            "see chapter 4; more --epochs or more images take it off.)");
}

// Returns whether it came to its end.
static bool train(void) {
    say("\n%s on %d device%s, %d images on each in a step; learning rate %g for one device, %.3g "
        "for "
        "all (rule '%s'); gradients travel in %s, summed by '%s'",
        lesson.network->title, dist_num_devices(), dist_num_devices() == 1 ? "" : "s", lesson.rows,
        (double)lesson.lr, rule_lr(lesson.rule, (double)lesson.lr, dist_num_devices(), 1, 1),
        lr_rule_names[lesson.rule], rank_flags.exchange, dist_chosen_all_reduce());
    RankResult r = train_on_ranks(&lesson);
    check_equal_parameters(&r);
    if (r.stopped) {
        say("  stopped after %ld steps, on all ranks", r.steps);
        if (flags.checkpoint && r.epochs > 0)
            say("  --resume %s goes on after epoch %d", flags.checkpoint, r.epochs);
        return false;
    }
    print_end(&r);
    book_result("%d rank%s with the same parameters: test acc %.2f", dist_get_world_size(),
                dist_get_world_size() == 1 ? "" : "s", r.test_acc);
    return true;
}

// ## How gradients travel
//
// Each gradient alone is simple, and each message costs microseconds, however small it is; across
// machines ten times as many. DDP makes its buckets beforehand (chapter 6); Horovod *fuses* what
// happens to be ready at the same time:
//
// fusion.c:fusion_exchange
//
// Where several ranks share a machine, sums can be made inside each first, and then across:
//
// hierarchical.c:hierarchical_all_reduce

static void show_exchanges(void) {
    if (dist_get_world_size() == 1) return;
    say("\nWays to let gradients travel");
    compare_exchanges_of_ranks(&lesson);
    say("\n  All of them move the same gradients: so many bytes, but for parts that are rounded to "
        "whole numbers, and but for what ranks tell each other (after each step their loss; with "
        "fusion, in each cycle, what is ready). With sums in the order of the ranks the bits are "
        "the same, too. What differs is the number of messages, and what crosses between hosts. "
        "On one host a message is a copy in memory: the times above say little but how busy these "
        "cores are. On many machines each message costs its latency, and the network between "
        "hosts is the slowest link.");
}

// ## Do processes cost anything?
//
// The same steps on the same cores, once by k ranks, once by k devices of one process: chapter 6's
// DDP with chapter 2's sums. The parameters are compared to the bit.

static void show_processes(void) {
    if (dist_local_devices() > 1) return;
    say("\nRanks beside devices of one process, one thread each, %d images each in a step",
        lesson.rows);
    compare_with_one_process(train_data, lesson.rows, flags.seed);
}

// ## The same on one rank
//
// Minibatches of four ranks fit one rank, too, in four parts, if it adds up their gradients before
// it makes the update (*gradient accumulation*, `accumulate.c`). Has it the bits of four?

static void show_one_rank(void) {
    dist_note("gradient accumulation, by rank 0");
    dist_wait_patiently(true);
    if (dist_get_rank() == 0)
        show_accumulation(train_data, 4 * lesson.rows, 4 * flags.lr, flags.seed);
    dist_barrier(NULL);
    dist_wait_patiently(false);
    share_cores(dist_devices(), dist_local_devices());
}

// ## Larger minibatches
//
// W ranks that keep their 64 images each make minibatches of 64 W. That is fewer updates for as
// many images, so each should be longer: but how much? The text takes the square root, others the
// number of ranks itself. Four rules are compared below, on two networks. The trainings have
// nothing to do with each other, so here the ranks work side by side without any exchange but that
// of the results: job j is done by rank j modulo W. (`lr_rules.c`)
//
// ![Test accuracy after the same number of epochs, with minibatches 4 and 16 times as large. At 4
// times, the linear rule loses little; at 16 times every rule
// loses.](plots/08_many_machines_lr_rules.png "Two panels, LeNet and a narrow ResNet-18, with a
// line for each of four rules: none, square root, linear, linear with warm-up. 1, 4 and 16 times
// the base batch on the horizontal axis, test accuracy on the vertical one, with bars from the
// lowest to the highest seed. All lines begin at the same point. At 4 times the line without a rule
// is among the lowest; at 16 times all lines have fallen.")

static void compare_rules(void) {
    RuleJob jobs[MOST_RULE_JOBS];
    RuleResult results[MOST_RULE_JOBS];
    int n = rule_jobs(RULES_SGD, rank_flags.full, flags.seed, rank_flags.seeds, jobs),
        W = dist_get_world_size();
    if (rule_images(jobs, n) > train_data->count) {
        say("\n(No learning rates for larger minibatches: these trainings take %d images, and "
            "--train-size leaves %d.)",
            rule_images(jobs, n), train_data->count);
        return;
    }
    say("\nLearning rates for larger minibatches: %d trainings, dealt out to %d rank%s", n, W,
        W == 1 ? "" : "s");
    dist_wait_patiently(true);
    deal_rule_jobs(jobs, results, n, train_data, test_data);
    dist_wait_patiently(false);
    if (dist_get_rank() == 0) show_rule_results(jobs, results, n);
    share_cores(dist_devices(), dist_local_devices());
}

// ## How far does it go?
//
// Four ranks on one machine are no cluster. The modelled clock (chapter 0) can tell what an
// exchange takes on one that you do not have, and Horovod's authors have published what theirs
// took. Where the two differ, the reasons are of more use than the figures.
//
// ![How much of k times one GPU's speed is left on k GPUs: modelled (lines), and published by
// Horovod's authors (open marks). On the right, see what becomes of a ring, of sums inside hosts
// first, and of servers when messages are sent every few milliseconds (dashed) and not only when
// they are large.](plots/08_many_machines_scaling.png "Two panels of efficiency in percent, from 30
// up, over 1 to 512 ranks on a logarithmic axis. On the left three networks: the modelled lines
// fall slowly to between 80 and 95 percent; the published marks lie below them, those of VGG-16 far
// below. On the right three ways for ResNet-101: with large messages all fall slowly, servers most;
// with a message every 5 milliseconds, sums inside hosts first stay near 100 percent, while ring
// and servers fall below half.")

static void show_scaling(void) {
    dist_note("the modelled scaling, by rank 0");
    dist_wait_patiently(true);
    if (dist_get_rank() == 0) show_modelled_scaling();
    dist_barrier(NULL);
    dist_wait_patiently(false);
}

// ## When something breaks
//
// With k devices in one program, an error ends all of it. With many processes one can be gone while
// the others wait for it, for ever if nobody does anything: no message is also what a slow rank
// sends.
//
// | what goes wrong | who notices | what happens |
// |:----------------|:------------|:-------------|
// | a rank dies: killed, out of memory, an error | it says so itself, or else its *witness*, a child that only waits for its end (`launch.c`); and the launcher | the launcher ends all others within seconds |
// | a rank hangs, or its host or network is gone | the watch of every rank (`watch.c`) | after `--timeout` seconds each says which rank has not come to which collective, and ends; `mpirun` itself may wait 15 minutes for a lost host |
// | ranks make different collectives | the watch | the same, with what each of the two is in |
// | ranks have other flags, another program, other data | the start | refused, with what differs, both values and whose they are |
// | a loss that is not a number | every rank, after the step | all end |
// | the disk of rank 0 is full | rank 0 | the job ends; the checkpoint before is whole |
// | the launcher started processes that do not find each other | each of them | refused |
//
// Try it: `--plant stop:2@5 --timeout 3` lets rank 2 hang in step 5. `kill`, `exit`, `memory` and
// `nan` are the others.

// ## Summary
//
// - A rank is a process that knows its number and how many there are. All do the same; messages are
//   all that they share.
// - Horovod's five steps: find each other, pin the device, scale the learning rate, broadcast the
//   start, sum the gradients. Besides: images of one's own, an exact accuracy, one common end.
// - If sums are added in the order of the ranks, k ranks have the bits of k devices in one process.
//   MPI's and NCCL's own sums promise no order.
// - Few large messages beat many small ones, the more the farther they have to go: fusion and
//   buckets. Between hosts it pays to add up inside each first.
// - Larger minibatches mean fewer updates. A larger learning rate makes up for a part of that, and
//   only up to a point.
// - A rank that hangs is noticed by nobody unless somebody looks at the clock.
//
// ## Questions
//
// 1. Each rank makes the parameters from the same seed, so they are the same anyhow. Why does
//    rank 0 send its own to all?
// 2. Three ranks train on 13 images with 2 on each in a step. How many steps does the epoch have,
//    and what would happen if each rank simply went through its own images to the end?
// 3. Fused gradients are in another order in each run. With which sums do the parameters still have
//    the same bits in every run, and why not with the ring?
// 4. Two hosts with four ranks each and one network card each: how many bytes leave a host in an
//    allreduce of N bytes by one ring over all eight, and how many if the hosts add up inside
//    first?
// 5. A rank is stopped by a debugger for two minutes and then goes on. What do the others do, with
//    `--timeout 60` and with `--timeout 300`?
// 6. `if (rank == 0) printf("accuracy %f\n", accuracy_of_all_ranks());` hangs. Why?

// ## Exercises
//
// Each has a folder in `exercises/`; the first three have a place for your part and a check:
// `make exercise-08-1`, and so on. They start their ranks themselves.
//
// 1. Write the ring with MPI alone, for any number of ranks: an allreduce over `MPI_Sendrecv()`.
//    Its messages are counted between your part and MPI, its sums compared with chapter 2's bits.
// 2. Find the hang: four functions whose ranks do not call the same collectives in the same order.
//    Who waits where, how does the watch tell you, and which one does it not notice?
// 3. How large should fused messages be? Write the rule of fusion, measure what a message costs,
//    and compute the best threshold: for two ranks here, and for 512 on Horovod's machines.
// 4. Linear rule or square root: for which optimizer? A question on the chapter's sheet, `lab.md`:
//    let `compare_rules()` train with Adam, and say what is different, and why.

// ## The program

// GPUs have NCCL where it can be had: faster, and without a promise of bits.
static void choose_collective(void) {
    bool is_auto = strcmp(rank_flags.collective, "auto") == 0;
    if (!is_auto) dist_choose_all_reduce(rank_flags.collective);
    if (is_auto && dist_order_is_fixed()) dist_choose_all_reduce("sharded");
}

static void prepare_outputs(void) {
    if (dist_get_rank() > 0) {
        book_another_writes();
        return;
    }
    if (rank_flags.train) {
        book_check_outputs();
        return;
    }
    book_output("_scaling.csv");
    book_output("_scaling.png");
    book_csv("_lr_rules.csv");
    book_output("_lr_rules.png");
    book_check_outputs();
}

int main(int argc, char *argv[]) {
    dist_before_flags();
    flags = read_rank_flags(argc, argv);
    dist_init_process_group((DistOptions){.devices = rank_flags.devices_per_rank,
                                          .timeout = (double)rank_flags.timeout,
                                          .threads = flags.threads,
                                          .ranks_per_host = rank_flags.ranks_per_host});
    choose_collective();
    train_data = fashion_mnist_open(flags.data, true, flags.train_size);
    test_data = fashion_mnist_open(flags.data, false, flags.test_size);
    prepare_outputs();
    ranks_must_agree(&flags, train_data, test_data);
    char *settings = rank_settings(&flags, train_data, test_data);
    lesson = rank_lesson(&flags, train_data, test_data, settings);
    show_ranks();
    if (!rank_flags.train) show_collectives();
    if (rank_flags.train) finish_on_interrupt(); // there may be something to keep
    if (train() && !rank_flags.train) {
        show_exchanges();
        show_processes();
        show_one_rank();
        compare_rules();
        show_scaling();
    }
    dist_destroy_process_group();
    free(settings);
    dataset_free(train_data);
    dataset_free(test_data);
    return book_end();
}
