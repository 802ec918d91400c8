// main.c: the story of chapter 7. README.md says how to run it and what to read.
#include "common/base/error.h"
#include "common/model/modelled_clock.h"
#include "common/program/book.h"
#include "common/program/interrupt.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "choices.h"
#include "disciplines.h"
#include "exchange_times.h"
#include "real_shown.h"
#include "shown.h"

static Flags flags;
static PsLesson lesson;
static double slow[MOST_WORKERS];
static long clocks; // steps of each worker
static Pace pace;

// ## Towers
//
// In TensorFlow 1 a model that is copied to k devices has k *towers*. The variables are none of
// theirs: they are on the CPU, once. Each step sends all of them to all towers, brings all
// gradients back, and there combines and applies them. The text does it in Python, in a function
// that our `combine_gradients()` follows line by line (`towers.c`).
//
// Each tower's loss is the *mean* over its rows. The text adds the towers' gradients up.
// TensorFlow's own example takes their mean. With k towers the sum is k times the mean: with plain
// gradient descent that is k times the learning rate. With Adam, which the text uses, it makes
// hardly a difference: Adam divides by the size of the gradient, so a factor cancels, but for the
// epsilon in its denominator, which counts only where gradients are tiny. A mistake that another
// optimizer hides; or, where it is meant, the rule "k times the batch, k times the learning rate"
// in disguise (chapter 8). The program tries it with four towers, one step of gradient descent,
// five of Adam.

static void run_towers(void) {
    if (!has_values(try_gpu(0))) return;
    say("Towers: variables on the CPU, gradients combined there");
    show_towers(&lesson, 4, 5);
}

// ## Parameter servers
//
// The CPU of one host can do that for its own devices. For many hosts the variables are spread over
// several machines: *parameter servers*, each responsible for a range of keys. *Workers* pull
// parameters, compute gradients, and push these.
//
// servers.c:servers_push
//
// servers.c:servers_pull
//
// First synchronously: all push, servers add up and update, all pull. That is chapter 4's training
// with other roles, so it must have chapter 4's bits; and it has, for servers add up in the order
// of the workers, not in that of arrival.

static void run_synchronous(void) {
    if (!has_values(try_gpu(0))) return;
    show_synchronous(&lesson, 10);
    say("\nWhat moves in a step, but for the images");
    show_bytes(&lesson);
}

// ## The bottleneck
//
// W workers send P bytes each, and S servers share them: whatever they do, a step needs
// $$\max(P/B,\ W P/(S B))$$
// seconds in each direction, if all have links of bandwidth B. One server is the bottleneck as soon
// as there are two workers. With as many servers as workers that is $2 P/B$ for push and pull, on
// twice the machines. A ring needs $2 (W-1)/W \cdot P/B$: for two workers half of it, for many
// nearly as much. (Servers on the workers' own machines leave each link what a ring's carries.)
//
// ![Push and pull of all parameters by up to 16 workers, beside the formula (dashed). With one
// server each doubling of the workers doubles the time; with a server for each worker it stays, and
// a ring comes up to it from below.](plots/07_parameter_servers_exchange.png "Modelled milliseconds
// over the number of workers, 1 to 16, both axes logarithmic. The line of one server rises in
// proportion to the workers. The lines of half as many servers and of as many servers as workers
// are nearly flat, the second at half the time. The ring begins at half of the lowest of these and
// rises towards it. Each line of servers lies on its dashed formula or just above.")

static void run_exchanges(void) {
    if (!modelled_machine() || modelled_machine()->cards == 0) return;
    say("\nModelled: push and pull of all workers on hosts of one device each, as in %s",
        modelled_machine()->name);
    compare_exchanges(16);
}

// ## Waiting for each other, or not
//
// If one worker is slow, synchronous training is as slow as that one. So let nobody wait: a worker
// pushes, the servers apply it at once, and it pulls and goes on. That is *asynchronous* training.
// Now a gradient is applied to other parameters than it was computed from; how many other pushes
// were applied in between is its *staleness*.
//
// Between the two: *bounded staleness* (SSP, stale synchronous parallel [@ho2013]). No worker may
// be more than s steps ahead of the slowest. With s = 0 it is synchronous, without a bound
// asynchronous. (Papers call the number of a worker's step its *clock*, and so do some names here.)
// And *backup workers* [@chen2016]: synchronous, but each update takes the first W - b pushes, and
// throws the last b away.
//
// The program runs all of them on as many images, with one worker that takes four times as long for
// all that it does, computing and sending. How far each worker is at any time follows from their
// pace on the modelled machine; each computing time varies by up to a tenth either way, drawn from
// the seed (`schedule.c`). So every run is the same to the bit, on every computer, and the accuracy
// can be drawn over time: modelled time, in which each worker has a processor of its own, while
// here they share one.
//
// A single training says little of accuracy: from another seed it ends some hundredths higher or
// lower. So each way is trained from five seeds. (They start from parameters with which LeNet
// learns at once, not from chapter 4's plateau: `scaled_start.c`.)
//
// All of them divide a push by the rows of all W workers, which is lr/W for each. The usual way
// divides it by its own rows, which is the full lr. Eight workers are trained with both.
//
// ![Test accuracy of five ways to wait, from the worst seed to the best: over pushes they can
// hardly be told apart. Over modelled time, those that do not wait for the slow worker are far
// ahead.](plots/07_parameter_servers_disciplines.png "Two panels with five curves of test accuracy
// each. On the left, over pushes applied, all rise together and their bars overlap. On the right,
// over modelled seconds, asynchronous training and one backup worker reach the same accuracy long
// before synchronous training and the two bounds of staleness, whose curves lie together.")

static void compare_ways(void) {
    Prediction expected = {0};
    if (!choices.slow && lesson.W == 4)
        expected = predict_first(
            "Four workers train together, one of them takes four times as long as the others. How "
            "many times as long does synchronous training take as asynchronous training, for as "
            "many images?");
    const char *plural = lesson.W > 1 ? "s" : "";
    say("\n%s ways to wait, %d worker%s, %d server%s: %ld pushes, minibatches of %d images for all "
        "together, seeds %llu to %llu. Pace of %s, one step in ms: %.3g to compute, %.3g to send "
        "or get all parameters, for %.3g of which the servers' links are taken.",
        lesson.W > 1 ? "Five" : "Four", lesson.W, plural, lesson.S, lesson.S > 1 ? "s" : "",
        clocks * lesson.W, lesson.batch_size, (unsigned long long)lesson.seed,
        (unsigned long long)lesson.seed + NUM_SEEDS - 1, modelled_machine()->name,
        1e3 * pace.compute, 1e3 * pace.transfer, 1e3 * pace.busy);
    double times = compare_disciplines(&lesson, &pace, clocks);
    predict_compare(expected, times, "times as long");
    book_result("synchronous training took %.2f times as long as asynchronous", times);
}

// ## For real
//
// No schedule: each worker's queue computes, pushes and pulls when it gets there, and the servers,
// pieces of the host's memory with a lock each, apply what comes (`real.c`). Run it twice, and the
// results differ. What must hold in any order can still be checked, with gradients that are all 1:
// then every parameter says how many pushes it was given, and a range with two different numbers in
// it was seen in the middle of an update. Then comes a training, beside the modelled one.

static void run_for_real(void) {
    if (!has_values(try_gpu(0))) return;
    say("\nAsynchronous for real, %d worker%s, %ld pushes%s; no two runs are the same", lesson.W,
        lesson.W > 1 ? "s" : "", clocks * lesson.W,
        num_gpus() > 0 ? " (GPUs, as fast as they are)" : "");
    show_real(&lesson, &pace, clocks);
}

// ## Summary
//
// - Towers keep the variables in one place, and so send all of them to all devices in each step.
// - Parameter servers share that work by ranges of keys. Synchronous, they are chapter 4's training
//   to the bit. As many servers as workers, on the same devices, move what a ring moves.
// - Synchronous training is as fast as its slowest worker. Asynchronous training is as fast as all
//   of them together, with gradients that are W - 1 updates old on average, where nobody waits
//   between a push and a pull. At lr/W for each push that does not show in the accuracy. With eight
//   workers at the usual full rate, each push divided by its own rows, training collapses.
// - Bounded staleness lets the fast ones go ahead for a while, but a worker that is always slow
//   still sets the pace. Backup workers do without it, and without what it computes.
// - What happens in another order in each run can still be checked: for what must hold in any
//   order.
//
// ## Questions
//
// 1. A program of towers is moved from Adam to plain gradient descent and diverges with 8 GPUs,
//    though the learning rate was tried out on one. What happened?
// 2. Two workers, one server: how many times as long does the exchange take as with two servers?
//    And four workers with one server, next to two and next to four?
// 3. With asynchronous training and N workers that are equally fast, why is the staleness N - 1 on
//    average? When is it less?
// 4. SSP 3 and a worker that is always four times slower: after a while it is not faster than
//    synchronous training. Why? When does it help? (Try `--slow 0=1`.)
// 5. Backup workers drop the slow worker's pushes. What does that do to what is learned, if the
//    slow worker is the only one with some kind of images?

// ## Exercises
//
// 1 and 3 have a folder in `exercises/`, with a place for your part: `make exercise-07-1` checks
// it. 2 and 4 are questions on the lab's sheet (`make exercise-07-2` says which).
//
// 1. Whole tensors as keys: place those of ResNet-18 on servers so that the busiest has least. When
//    does it pay to cut them?
// 2. How much smaller must the learning rate be if pushes are stale? Find the rule, with
//    `--staleness-lr` and without.
// 3. Cut a straggler's cost: backup workers against SSP, by the time until the same accuracy is
//    reached.
// 4. The towers' update on a GPU instead of the CPU: what would move, over which links, and on
//    which machine would it pay?

// ## The program

static void read_flags(int argc, char *argv[]) {
    Flags defaults = default_flags;
    defaults.machine = "laptops-1gbe";
    defaults.batch_size = 64;
    defaults.epochs = 2;
    defaults.train_size = 4096;
    defaults.test_size = 1000;
    defaults.next = "make exercise-07-1, or make run-08";
    defaults.own = choice_flags;
    defaults.quick_means = "--epochs 1 --train-size 2048 --test-size 500";
    flags = book_begin(argc, argv,
                       "Trains LeNet with towers and with parameter servers, synchronously, "
                       "asynchronously, and between the two.",
                       "seed batch-size lr epochs train-size test-size data", defaults);
    if (!modelled_machine())
        die_usage("--machine laptops-1gbe, say",
                  "without a machine it is not known how long workers need");
    check_choices(&flags);
    book_needs_devices(choices.workers + choices.servers);
}

static void prepare(void) {
    lesson = (PsLesson){.train_data = fashion_mnist_open(flags.data, true, flags.train_size),
                        .test_data = fashion_mnist_open(flags.data, false, flags.test_size),
                        .W = choices.workers,
                        .S = choices.servers,
                        .batch_size = flags.batch_size,
                        .lr = flags.lr,
                        .lr_by_staleness = choices.staleness_lr,
                        .seed = flags.seed,
                        .points = NUM_POINTS};
    if (flags.batch_size < choices.workers)
        die_usage("each worker has one row at least", "--batch-size %d for %d workers",
                  flags.batch_size, choices.workers);
    if (flags.batch_size > lesson.train_data->count)
        die_usage("a minibatch is not more than all", "--batch-size %d of %d images",
                  flags.batch_size, lesson.train_data->count);
    clocks = (long)flags.epochs * (lesson.train_data->count / lesson.batch_size);
    read_slow(slow);
    pace = pace_on_machine(&lesson, slow);
    read_dies(&pace);
}

static void ask_for_outputs(void) {
    if (!one_way() && !choices.real) {
        book_csv("_exchange.csv");
        book_output("_exchange.png");
        book_csv("_disciplines.csv");
        book_output("_disciplines.png");
    }
    book_check_outputs();
}

static void run_all(void) {
    run_towers();
    run_synchronous();
    run_exchanges();
    if (has_values(try_gpu(0))) compare_ways();
    if (!interrupted() && flags.backend != BACKEND_INLINE) run_for_real(); // there they take turns
}

int main(int argc, char *argv[]) {
    read_flags(argc, argv);
    prepare();
    ask_for_outputs();
    finish_on_interrupt();
    if (choices.real)
        run_for_real();
    else if (one_way())
        train_one_way(&lesson, &pace, chosen_discipline(), clocks, choices.schedule);
    else
        run_all();
    dataset_free((Dataset *)lesson.train_data);
    dataset_free((Dataset *)lesson.test_data);
    return book_end();
}
