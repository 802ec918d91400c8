// main.c: the story of chapter 7. README.md says how to run it and what to read.
#include "common/book.h"
#include "behind/behind.h"

static Flags flags;
static PsLesson lesson;
static double slow[MOST_WORKERS];
static long clocks; // steps of each worker
static Pace pace;

// ## A slow worker
//
// In chapter 4, no device begins a step before it has the sum of all gradients. This is
// *synchronous* training. If one device is slow, all the others wait for it in every step.
//
// In *asynchronous* training no device waits. Each one, called a *worker* here, repeats three
// things. It *pulls* the newest parameters, computes the gradients of its shard, and *pushes* them.
// Each push is applied to the parameters as soon as it arrives.
//
// The example has four workers with 16 images each, so a minibatch has 64. Each worker is a host
// with one A100 GPU, and its times are modelled, as on a `dgx-a100`. Worker 3 takes four times as
// long as the others for everything, computing as well as pulling and pushing. (Computing times
// also vary by up to a tenth, by chance.) Both trainings end after the same number of pushes.
//
// main.c:ask_how_much_longer
//
// behind/ways.c:show_slow_worker
//
// ![The first steps of four workers. In synchronous training, three of them are idle most of the
// time. In asynchronous training, none is. The numbers are those of the
// steps.](plots/07_parameter_servers_slow_worker.png "Two timelines with a lane for each of four
// workers. In the upper one, workers 0 to 2 compute for a short time and are then idle until worker
// 3 has pushed. In the lower one, they compute step after step, twelve of them while worker 3 makes
// three.")
//
// While the slow worker makes one step, each of the others could make four. So there is time for
// 4 + 4 + 4 + 1 = 13 pushes, and synchronous training makes 4. This gives 13/4 = 3.25. The table's
// times have a slightly larger ratio, which will be explained below.
//
// Asynchronous training has its price. When a push arrives, other workers have already changed the
// parameters from which it was computed. First we need a place for these parameters.
//
// ## Servers
//
// The parameters are held by *parameter servers* [@li2014]. A parameter's place in the vector of
// all parameters is its *key*, and each server is responsible for a range of keys. LeNet has
// 129,068 parameters. With two servers:
//
// ```
// keys      0 .. 64,533      64,534 .. 129,067
//             server 0            server 1
//             ^      |            ^      |
//        push |      | pull  push |      | pull      a range of the gradients up,
//             |      v            |      v           a range of the parameters down
//               each of the W workers
// ```
//
// servers.c:servers_push
//
// servers.c:servers_pull
//
// An update takes `per_update` pushes. This is 1 in asynchronous training and W in synchronous
// training.
//
// servers.c:servers_update
//
// `add_push()` adds what worker w has pushed to the sums. `sgd` divides by the number of images in
// the *whole* minibatch, so a single push counts lr/W.
//
// Synchronous training with servers is chapter 4's training in other roles. In the next run,
// workers push in a different order in every step, but the servers add up in the order of the
// workers. So not even the last bit may differ:
//
// behind/checks.c:show_synchronous
//
// ## The bottleneck
//
// Let P be the size of the parameters in bytes. In each step, a worker sends P bytes of gradients
// and receives P bytes of parameters. The S servers together receive W P bytes and send as many. If
// every link carries B bytes per second in each direction, all pushes together take at least
//
// $$\max(P/B,\ W P/(S B))$$
//
// seconds, and so do all pulls. One server is the bottleneck as soon as there are two workers. With
// as many servers as workers, the time no longer depends on W, but there are twice as many hosts.
// If every host is both a worker and a server, its own range does not travel, and the host sends
// and receives what a device in a ring does (chapter 2). For our four workers:
//
// behind/exchange.c:show_bytes
//
// The figure is modelled for `laptops-1gbe`, the machine with the slowest links, for which the
// formula is nearly exact.
//
// ![One push and one pull of all workers, beside the formula (dashed). With one server, twice as
// many workers take twice as long. With half as many servers as workers, or as many, the time
// hardly changes.](plots/07_parameter_servers_exchange.png "Modelled milliseconds over the number
// of workers, 1 to 16, both axes logarithmic. The line of one server rises in proportion to the
// workers. The lines of half as many servers and of as many servers as workers are nearly flat, the
// second at half the time. The ring begins at half of the lowest of these and rises towards it.
// Each line of servers lies on its dashed formula or just above.")
//
// ## Not waiting
//
// This is asynchronous training. In `asynchronous.c` the servers are pieces of the host's memory,
// and each worker computes in a thread. At the end of a step, the thread visits one server after
// the other:
//
// asynchronous.c:visit_server
//
// asynchronous.c:push_and_pull
//
// (`careless` and `ones` are for an experiment below.)
//
// `stale` is the *staleness* of the push. It is the number of other pushes that were applied after
// this worker's last pull, so the gradients do not know of them. On average it is W-1, even if the
// workers are not equally fast. To see why, count from the other side. Every push lies between two
// visits of each of the W-1 other workers, so it makes W-1 other pushes staler by one.
//
// ## Not waiting too long
//
// There is something between waiting in every step and never waiting. In *bounded staleness* (SSP,
// stale synchronous parallel [@ho2013]), no worker may be more than s steps ahead of the slowest.
// With s = 0 this is synchronous training, without a bound it is asynchronous training.
//
// schedule.c:within_bound
//
// With b *backup workers* [@chen2016], training is synchronous, but each update takes only the
// first W - b pushes. The others arrive too late and are dropped.
//
// schedule.c:fate_in_round
//
// `schedule.c` calculates when each worker pulls and pushes under these rules, and `replay.c`
// trains in that order. So a run can be repeated to the last bit, whatever computer it runs on.
//
// ![SSP 3, and one backup worker. Grey: a push that is
// dropped.](plots/07_parameter_servers_bounds.png "Two timelines with a lane for each of four
// workers. With SSP 3, workers 0 to 2 make five steps and are then idle until worker 3 has made its
// second step. With one backup worker, workers 0 to 2 hardly wait, and each push of worker 3 is
// dropped.")
//
// With SSP 3, the fast workers soon are as far ahead as they may be. From then on they make one
// step for each step of the slow worker, as in synchronous training. A bound helps if workers are
// slow now and then, and it does not help against one that is always slow. A backup worker does,
// but the slow worker's work is lost.
//
// ## What it costs and gives
//
// Now all of it with values. LeNet is trained on 16,384 images (8,192 images, twice), with a
// learning rate of 0.2, in each way from ten seeds. (It starts from `scaled_params()`, so that it
// learns from the first step on, without chapter 4's plateau.) Times, drops and staleness are those
// of the first seed, with the mean staleness and its maximum. "Accuracy", "least" and "most" are
// the mean over the ten seeds, the worst and the best. "More" is how much higher the accuracy is
// than in synchronous training with the same seed, on average, with its 95 % confidence interval.
//
// behind/ways.c:compare_ways
//
// ![Test accuracy of these trainings, the mean of ten seeds, with the worst and the best. Over
// pushes, the curves coincide. Over time, asynchronous training and one backup worker are far
// ahead.](plots/07_parameter_servers_disciplines.png "Two panels with five curves of test accuracy
// each. On the left, over pushes applied, all rise together and their bars overlap. On the right,
// over modelled seconds, asynchronous training and one backup worker reach the same accuracy long
// before synchronous training and the two bounds of staleness, whose curves coincide.")
//
// *Time.* SSP 3 takes nearly as long as synchronous training, one backup worker not much longer
// than asynchronous training. It drops few pushes, because the slow worker makes few.
//
// *Staleness.* The lower table has the asynchronous pushes by their staleness. Most have missed
// about two others. The pushes of the slow worker have missed many more, and the mean is W-1 = 3.
//
// *Accuracy.* All differences are smaller than their confidence intervals, so we see no effect of
// staleness. This rests on ten seeds of one small network and 16,384 images. An effect of one or
// two hundredths could hide in it.
//
// ## A slow computer or a slow cable?
//
// The first table's ratio is larger than 13/4, and on other machines it is much larger. The columns
// on the left are the times of a step: computing, one push or pull, and how long it keeps the links
// of the servers busy. On the right is the ratio of synchronous to asynchronous time, three times:
// with one slow worker, the same if any number of transfers could use the servers' links at once,
// and with no slow worker.
//
// behind/ways.c:show_machines
//
// If links are always free, the ratio is 13/4 everywhere. (Training ends in the middle of a slow
// step, so a hundredth is missing.) The rest is waiting for the links. In synchronous training all
// workers pull at the same time and push at the same time, and while they compute, the links are
// idle. Asynchronous workers come at different times. On `dgx-a100` computing takes longest, so a
// slow worker is a slow computer. On `laptops-1gbe` it is mostly a slow cable.
//
// ## Stale, or too large a rate?
//
// So far a push counted lr/W. It is just as common to divide a push by the number of its own rows
// and to apply it with the full rate. The next table has eight equally fast workers with 8 images
// each, and both rates.
//
// The asynchronous rows cannot tell by themselves whether staleness or the rate does harm. So there
// are two controls without staleness. In one, training is synchronous and every push counts lr.
// Eight pushes computed from the same parameters are added up, so this is one step with eight times
// the learning rate. In the other, one worker alone makes the same pushes, of 8 images each and
// with the full rate, one after the other.
//
// main.c:ask_whether_it_learns
//
// behind/ways.c:compare_rates
//
// With the full rate, asynchronous training learns nothing. (An accuracy of 0.000 means that
// parameters became infinite or NaN.) One worker alone learns well with the same pushes, so the
// rate is not too large for a single push. Synchronous training fails without any staleness, so one
// step of eight times the rate is too large. Asynchronous pushes are in between. They are applied
// one by one, but with a staleness of 7 none of eight pushes knows of the other seven. *Staleness
// turns W small steps into one large step.* With lr/W that large step is the one of the whole
// minibatch, and therefore does no harm here. (Or divide the rate of a push by its staleness
// [@zhang2016], as
// `--staleness-lr` does.)
//
// ## For real
//
// Without a schedule, workers push and pull whenever they are ready, and no two runs are the same.
// Still, what must hold in *any* order can be checked. Let all gradients be 1. Then every push
// takes the same amount from every parameter, and at the end each parameter says how many pushes it
// got. And all parameters that a worker pulls from one server must be equal. If they are not, the
// pull is *torn*: it has one part from before somebody's update and one from after it.
//
// The first row is `visit_server()`. The second one has a planted mistake: the worker releases the
// lock after half of its pull, and takes it again for the other half.
//
// behind/checks.c:check_ones
//
// No parameter is wrong in either row. Only the torn pulls give the mistake away. Then comes the
// asynchronous training of the table above, with threads on this computer:
//
// behind/checks.c:train_for_real
//
// The mean staleness is again nearly W-1, because that does not depend on the order. The maximum is
// much larger than the modelled one. Here workers share the cores of one computer, and a worker
// that waits for a core between its pull and its push misses everything that is pushed meanwhile.
//
// ## Towers
//
// In TensorFlow 1, one host did all of this for its own GPUs. The variables are on the CPU. Each
// GPU has a copy of the model, called a *tower*. In every step all variables go to all towers, all
// gradients come back, and the CPU combines them:
//
// towers.c:combine_gradients
//
// Each tower's loss is the *mean* over its rows. An article that many copied ("Distributed training
// of deep learning, part 1") adds the gradients of the towers up, as this function does.
// TensorFlow's own example takes their mean. The sum is k times the mean. With plain gradient
// descent this is k times the learning rate. But the article uses Adam, which divides each step by
// the size of the gradients, so the factor cancels, except where gradients are as small as Adam's
// epsilon. The table has how far the parameters moved, as a multiple of how far one tower moves
// them with the same images:
//
// behind/checks.c:show_towers
//
// So Adam hides this mistake. If you then change the optimizer, training diverges.

// ## Summary
//
// - Parameter servers hold the parameters by ranges of keys. Workers push gradients and pull
//   parameters. With synchronous updates this is chapter 4's training, to the bit.
// - One server is a bottleneck. As many servers as workers, on the same hosts, move what a ring
//   moves.
// - Synchronous training is as fast as its slowest worker. Asynchronous training is as fast as all
//   workers together, but each push has missed W-1 others on average.
// - Staleness turns W small steps into one large step. With lr/W for each push, we saw no effect on
//   the accuracy (ten seeds, LeNet, 16,384 images). With the full rate, eight workers learned
//   nothing.
// - A bound on the staleness helps against workers that are slow now and then. Backup workers help
//   against a worker that is always slow, whose work is then lost.
// - Even if the order differs in every run, you can check what must hold in any order.
//
// ## Questions
//
// 1. A program of towers is moved from Adam to plain gradient descent and diverges on 8 GPUs,
//    although the learning rate was found on one GPU. What happened?
// 2. Two workers, one server: how many times as long does the exchange take as with two servers?
//    And four workers with one server, compared with two and with four?
// 3. The mean staleness of N workers is N-1 even if one is slow. Why is it slightly less in the
//    table? And whose pushes have the greatest staleness?
// 4. SSP 3, and a worker that is always four times slower: after a while, training is not faster
//    than synchronous training. Why? When does SSP help?
// 5. Backup workers drop the pushes of the slow worker. What does that do to what is learned if the
//    slow worker is the only one with some kind of images?
//
// ## Exercises
//
// 1 and 3 have a folder in `exercises/`, with a place for your part. `make exercise-07-1` checks
// it. 2 and 4 are questions on the lab's sheet (`make exercise-07-2` says which).
//
// 1. Whole tensors as keys: place the tensors of ResNet-18 on servers so that the busiest server
// has
//    as little as possible. When is it worth cutting a tensor?
// 2. How much smaller must the learning rate be if pushes are stale? Find the rule, with
//    `--staleness-lr` and without.
// 3. Reduce the cost of a slow worker: backup workers against SSP, by the time until the same
//    accuracy is reached.
// 4. The towers' update on a GPU instead of the CPU: what would move, over which links, and on
// which
//    machine would it be faster?

// ## The program

static Prediction ask_how_much_longer(void) {
    return predict_first(
        "Four workers train together, and one of them takes four times as long for everything as "
        "each of the others. How many times as long does synchronous training take as "
        "asynchronous training, for the same number of images?");
}

static Prediction ask_whether_it_learns(void) {
    return predict_yes_no(
        "Eight equally fast workers train synchronously, with eight times the learning rate. Do "
        "they end with a test accuracy of more than 0.5?");
}

static void read_flags(int argc, char *argv[]) {
    Flags defaults = default_flags;
    defaults.batch_size = 64;
    defaults.epochs = 2;
    defaults.train_size = 8192;
    defaults.test_size = 1000;
    defaults.next = "make exercise-07-1, or make run-08";
    defaults.own = choice_flags;
    defaults.quick_means = "--epochs 1 --train-size 2048 --test-size 500";
    flags = book_begin(argc, argv,
                       "Trains LeNet with parameter servers, synchronously, asynchronously, and "
                       "between the two.",
                       "seed batch-size lr epochs train-size test-size data", defaults);
    book_needs_machine("the workers' pace");
    check_choices(&flags);
    book_needs_devices(choices.workers + choices.servers);
    if (flags.batch_size < choices.workers || flags.batch_size > flags.train_size)
        die_usage("each worker has at least one row, and all of them fewer than there are images",
                  "--batch-size %d for %d workers and %d images", flags.batch_size, choices.workers,
                  flags.train_size);
}

static void prepare(void) {
    lesson = (PsLesson){.W = choices.workers,
                        .S = choices.servers,
                        .batch_size = flags.batch_size,
                        .lr = flags.lr,
                        .lr_by_staleness = choices.staleness_lr,
                        .seed = flags.seed};
    clocks = (long)flags.epochs * (flags.train_size / flags.batch_size);
    read_slow(slow);
    pace = pace_on(modelled_machine(), &lesson, slow);
}

static void compare_all(void) {
    Prediction longer = ask_how_much_longer();
    double times = show_slow_worker(&pace, clocks);
    predict_compare(longer, times, "times as long");
    book_result("synchronous training took %.2f times as long as asynchronous", times);
    if (has_values(try_gpu(0))) {
        show_bytes(&lesson);
        show_synchronous(&lesson, 10);
    }
    draw_exchanges();
    draw_bounds(&pace);
}

static void train_all(void) {
    compare_ways(&lesson, &pace, clocks);
    show_machines(&lesson, &pace, clocks);
    Prediction learns = ask_whether_it_learns();
    predict_compare_yes_no(learns, compare_rates(&lesson, clocks) > 0.5);
    if (interrupted()) return;
    if (flags.backend != BACKEND_INLINE) { // there, workers take turns
        check_ones(&lesson);
        train_for_real(&lesson, &pace, clocks);
    }
    show_towers(&lesson);
}

static void ask_for_outputs(void) {
    book_csv("_exchange.csv");
    book_output("_exchange.png");
    book_csv("_disciplines.csv");
    book_output("_disciplines.png");
    book_timeline("_slow_worker.png");
    book_timeline("_bounds.png");
    book_check_outputs();
}

static void run(void) {
    finish_on_interrupt();
    if (choices.real)
        train_for_real(&lesson, &pace, clocks);
    else if (one_way())
        train_one_way(&lesson, &pace, chosen_discipline(), clocks);
    else {
        ask_for_outputs();
        compare_all();
        if (has_values(try_gpu(0))) train_all();
    }
}

int main(int argc, char *argv[]) {
    read_flags(argc, argv);
    prepare();
    if (choices.schedule) {
        const char *csv = book_output("_schedule.csv"), *svg = book_timeline("_schedule.svg");
        book_check_outputs();
        model_schedule(&pace, chosen_discipline(), clocks, csv, svg);
        return book_end();
    }
    if (flags.backend != BACKEND_MODEL) {
        lesson.train_data = fashion_mnist_open(flags.data, true, flags.train_size);
        lesson.test_data = fashion_mnist_open(flags.data, false, flags.test_size);
    }
    run();
    if (lesson.train_data) dataset_free((Dataset *)lesson.train_data);
    if (lesson.test_data) dataset_free((Dataset *)lesson.test_data);
    return book_end();
}
