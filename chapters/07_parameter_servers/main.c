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
// In *asynchronous* training no device waits. Each device, called a *worker* here, *pulls* the
// newest parameters, computes the gradients of its shard, *pushes* them, and begins again. Each
// push is applied to the parameters as soon as it arrives.
//
// The example has four workers with 16 images each, so a minibatch has 64. Each worker is a host
// with one A100 GPU, and times are modelled (`dgx-a100`). Worker 3 takes four times as long as the
// others for everything, computing as well as pulling and pushing. Computing times also vary by up
// to a tenth, by chance. Training ends after 1,024 pushes.
//
// main.c:ask_how_much_longer
//
// behind/ways.c:show_slow_worker
//
// ![The first steps, with their numbers. In synchronous training, three workers are idle most of
// the time. In asynchronous training, none is.](plots/07_parameter_servers_slow_worker.png "Four
// lanes, twice. Above, workers 0 to 2 wait for worker 3. Below, they compute all the time.")
//
// While the slow worker makes one step, each of the others could make four. So there is time for 13
// pushes, and synchronous training makes 4. The ratio is 13/4 = 3.25, slightly less than that of
// the two times. ("A slow computer or a slow cable?" explains the rest.)
//
// This has its price. When a push arrives, other workers have already changed the parameters from
// which it was computed. First we need a place for these parameters.
//
// ## Servers
//
// *Parameter servers* hold the parameters [@li2014]. A parameter's place in the vector of all
// parameters is its *key*, and each server is responsible for a range of keys. LeNet has 129,068
// parameters. With two servers:
//
// ```
// keys      0 .. 64,533      64,534 .. 129,067
//             server 0            server 1
//             ^      |            ^      |
//        push |      | pull  push |      | pull      gradients up, parameters down
//             |      v            |      v
//               each of the W workers
// ```
//
// servers.c:servers_push
//
// servers.c:servers_pull
//
// An update takes `per_update` pushes. In asynchronous training this is 1, in synchronous training
// W, the number of workers.
//
// servers.c:servers_update
//
// `add_push()` adds what worker w has pushed to the sums. `sgd` divides by the number of images in
// the *whole* minibatch. So if lr is the learning rate, a single push counts lr/W.
//
// Synchronous training with servers is chapter 4's training in other roles. In the next run,
// workers push in another order in every step, but servers add up in the order of the workers. So
// not even the last bit may differ:
//
// behind/checks.c:show_synchronous
//
// ## The bottleneck
//
// Let P be the size of the parameters in bytes. In each step, a worker sends P bytes of gradients
// and receives P bytes of parameters. The S servers share W P bytes in each direction. If every
// link carries B bytes per second in each direction, all pushes together take at least
//
// $$\max(P/B,\ W P/(S B))$$
//
// seconds, and so do all pulls. One server is the bottleneck as soon as there are two workers. With
// as many servers as workers, the time no longer depends on W, but there are twice as many hosts.
// If every host is both worker and server, its own range does not travel, and it sends and receives
// what a device of a ring does. With P = 516,272 bytes, four workers and two servers:
//
// | in each step             | sends and receives |     bytes |
// |--------------------------|--------------------|----------:|
// | a worker                 | 2 P                | 1,032,544 |
// | the only server          | 2 W P              | 4,130,176 |
// | one of S servers         | 2 W P/S            | 2,065,088 |
// | worker and server in one | 4 (W-1)/W P        | 1,548,816 |
// | device 0 of a star       | 2 (W-1) P          | 3,097,632 |
//
// ![One push and one pull of all workers on `laptops-1gbe`, the machine with the slowest links,
// beside the formula (dashed). With one server, twice as many workers take twice as
// long.](plots/07_parameter_servers_exchange.png "Modelled milliseconds over 1 to 16 workers. One
// server: in proportion. Half as many servers as workers, as many, and a ring: nearly flat.")
//
// ## Not waiting
//
// This is asynchronous training. In `asynchronous.c` the servers are pieces of the host's memory,
// and each worker computes in a thread. At the end of a step, the thread visits all servers:
//
// asynchronous.c:visit_server
//
// asynchronous.c:push_and_pull
//
// (`careless` and `ones` are for an experiment below.) `stale` is the *staleness* of the push, the
// number of other pushes that were applied since this worker's last pull. Its gradients do not know
// of them. On average the staleness is W-1, even if some workers are slower than others. To see
// why, count from the other side. Every push lies between two visits of each of the W-1 other
// workers, so it makes W-1 other pushes staler by one.
//
// ## Not waiting too long
//
// With *bounded staleness* (SSP, stale synchronous parallel [@ho2013]), no worker may be more than
// s steps ahead of the slowest. With s = 0 this is synchronous training, and without a bound
// asynchronous training.
//
// schedule.c:within_bound
//
// With b *backup workers* [@chen2016], training is synchronous, but each update takes only the
// first W - b pushes. The others arrive too late and are dropped.
//
// schedule.c:fate_in_round
//
// `schedule.c` calculates when each worker pulls and pushes, and `replay.c` trains in that order.
// So a training can be repeated to the last bit, however busy the computer is.
//
// ![SSP 3 and one backup worker. Grey: a push that is
// dropped.](plots/07_parameter_servers_bounds.png "Four lanes, twice. Above, workers 0 to 2 make
// five steps and then wait for worker 3. Below, they hardly wait, and worker 3's pushes are
// dropped.")
//
// With SSP 3, the fast workers are soon as far ahead as they may be. From then on they make one
// step for each step of the slow worker. A bound helps if workers are slow now and then, but not if
// one is always slow. (In the figure, let no worker be slow. Then even a bound of 1 is enough.) A
// backup worker helps against both, but the slow worker's pushes are lost.
//
// ## What it costs and gives
//
// Now LeNet is trained in five ways, each with ten seeds, on 16,384 images (8,192 images, twice),
// with a learning rate of 0.2. (It starts from `scaled_params()`, without chapter 4's plateau.) The
// columns up to "modelled" are from the first seed; "stale" is the mean staleness and "max" its
// maximum. Then come the mean accuracy of the ten seeds, the worst and the best. "More" is how much
// better than synchronous training a way is with the same seed, on average, with a 95 % confidence
// interval. The second table sorts the asynchronous pushes by staleness.
//
// behind/ways.c:compare_ways
//
// ![Test accuracy, the mean of ten seeds, with the worst and the best. Over pushes, the curves
// coincide. Over time, asynchronous training and one backup worker are far
// ahead.](plots/07_parameter_servers_disciplines.png "Five curves, twice. Over pushes they rise
// together, over modelled seconds asynchronous training and one backup worker rise first.")
//
// SSP 3 takes nearly as long as synchronous training. With one backup worker, training takes a
// little longer than asynchronous training. Few pushes are dropped, because the slow worker makes
// few. Its asynchronous pushes are the stalest, and the mean is W-1.
//
// All differences in accuracy are smaller than their confidence intervals, so we see no effect of
// staleness. This rests on ten seeds of one small network and 16,384 images. An effect of two
// hundredths could be hidden.
//
// ## A slow computer or a slow cable?
//
// The next table has four machines. On the left are the times of a step: computing, one push or
// pull, and how long it keeps the servers' links busy. On the right is the time of synchronous
// training divided by that of asynchronous training, three times: with one slow worker, the same if
// the servers' links were never busy, and with no slow worker.
//
// behind/ways.c:show_machines
//
// If links are always free, the ratio is almost 13/4 everywhere. (Training ends in the middle of a
// slow step.) The rest is waiting for links. In synchronous training all workers pull and push at
// the same time, and the links are idle while they compute. Asynchronous workers come at different
// times. (With no slow worker, synchronous training also waits for the worker that happens to be
// last.) On `dgx-a100` computing takes longest, so a slow worker is a slow computer. On
// `laptops-1gbe` it is mostly a slow cable.
//
// ## Stale, or too large a rate?
//
// So far a push counted lr/W. Often it is divided by the number of its own rows instead, so that it
// counts lr. Here are both, with eight equally fast workers of 8 images each.
//
// If training fails, is it because of staleness or because of the rate? There are two controls
// without staleness. In one, training is synchronous and every push counts lr. Eight pushes
// computed from the same parameters are added up, a step with eight times the learning rate. In the
// other, one worker alone makes the same pushes with the same rate, one after the other.
//
// main.c:ask_whether_it_learns
//
// behind/ways.c:compare_rates
//
// With the full rate, asynchronous training learns nothing. (If the accuracy is 0.000, the
// parameters are NaN.) One worker learns well from the same pushes, so the rate is not too large
// for one push. Synchronous training fails without staleness, so a step of eight times the rate is
// too large. Asynchronous pushes are applied one by one, but none of eight knows of the other
// seven. *Staleness turns W small steps into one large step.* With lr/W the large step is the usual
// one, and does no harm here. (`--staleness-lr` divides a push's rate by its staleness
// [@zhang2016].)
//
// ## For real
//
// Without a schedule, no two runs are the same. Still, you can check what must hold in *any* order.
// Let all gradients be 1. Then every push takes the same amount from every parameter, and at the
// end each parameter tells how many pushes it got. And all parameters that a worker pulls from one
// server must be equal. If they are not, the pull is *torn*: another worker's update is in one part
// of it only. The second row has a planted mistake, two visits for two halves of a server's range.
//
// behind/checks.c:check_ones
//
// No parameter is wrong in either row. Only torn pulls give the mistake away. Now the asynchronous
// training from above, with threads on this computer:
//
// behind/checks.c:train_for_real
//
// The mean staleness is again about W-1. The maximum is larger than the modelled one, because
// workers share the cores of one computer. A worker that waits for a core between its pull and its
// push misses everything that is pushed meanwhile.
//
// ## Towers
//
// In TensorFlow 1, one host does all of this for its own GPUs. The CPU has the variables, and each
// GPU has a copy of the model, called a *tower*. In every step all variables go to all towers, all
// gradients come back, and the CPU combines them:
//
// towers.c:combine_gradients
//
// Each tower's loss is the *mean* over its rows. This function, from an article ("Distributed
// training of deep learning, part 1"), adds up the gradients of k towers. TensorFlow's own example
// takes their mean. With plain gradient descent, the sum is k times the learning rate. But the
// article uses Adam, which divides by the size of the gradients, so the factor cancels, except
// where gradients are as small as Adam's epsilon. The table shows how far the parameters moved,
// divided by how far one tower moves them.
//
// behind/checks.c:show_towers
//
// So Adam hides this mistake, until somebody changes the optimizer.

// ## Summary
//
// - Workers push gradients to servers and pull parameters. With synchronous updates this is chapter
//   4's training, to the bit.
// - One server is a bottleneck. As many servers as workers, on the same hosts, move what a ring
//   moves.
// - Synchronous training is as fast as its slowest worker. Asynchronous training is as fast as all
//   of them together, but each push has missed W-1 others on average.
// - Staleness turns W small steps into one large step. With lr/W for each push, we saw no effect on
//   the accuracy (ten seeds, LeNet, 16,384 images). With the full rate, nothing was learned.
// - A bound helps against workers that are slow now and then, a backup worker also against one that
//   is always slow.
//
// ## Questions
//
// 1. A program of towers is moved from Adam to plain gradient descent and diverges on 8 GPUs,
//    although the learning rate was found on one GPU. What happened?
// 2. Two workers, one server: how many times as long does the exchange take as with two servers?
//    And four workers with one server, compared with two and with four?
// 3. The mean staleness is W-1. Why is it slightly less in the table? Whose pushes are the stalest?
// 4. SSP 3, and a worker that is always four times slower: after a while, training is no faster
//    than synchronous training. Why? When does SSP help?
// 5. Backup workers drop the pushes of the slow worker. What does that do to what is learned if the
//    slow worker is the only one with some kind of images?
//
// ## Exercises
//
// `make exercise-07-1` (which server has which tensors of ResNet-18?) and `make exercise-07-3`
// (backup workers or SSP?) check your part. Exercises 2 (how much smaller must the learning rate be
// if pushes are stale?) and 4 (the towers' update on a GPU) are questions on the lab's sheet.

// ## The program

static Prediction ask_how_much_longer(void) {
    return predict_first(
        "Four workers train together, and one of them takes four times as long for everything as "
        "each of the others. How many times as long does synchronous training take as "
        "asynchronous training, for the same number of images?");
}

static Prediction ask_whether_it_learns(void) {
    return predict_yes_no(
        "Eight equally fast workers train synchronously, and every push counts the full learning "
        "rate. Do they end with a test accuracy of more than 0.5?");
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
    lesson = (PsLesson){.W = choices.workers,
                        .S = choices.servers,
                        .batch_size = flags.batch_size,
                        .lr = flags.lr,
                        .lr_by_staleness = choices.staleness_lr,
                        .seed = flags.seed,
                        .points = 1};
    clocks = (long)flags.epochs * (flags.train_size / flags.batch_size);
    read_slow(slow);
    pace = pace_on(modelled_machine(), &lesson, slow);
}

static void show_all(void) {
    bool has_values = flags.backend != BACKEND_MODEL;
    Prediction longer = ask_how_much_longer();
    double times = show_slow_worker(&pace, clocks);
    predict_compare(longer, times, "times as long");
    book_result("synchronous training took %.2f times as long as asynchronous", times);
    if (has_values) show_synchronous(&lesson, 10);
    draw_exchanges();
    draw_bounds(&pace);
    if (has_values) compare_ways(&lesson, &pace, clocks);
    if (!flags.quick && !interrupted()) show_machines(&lesson, &pace, clocks);
    if (!has_values) return;
    Prediction learns = ask_whether_it_learns();
    predict_compare_yes_no(learns, compare_rates(&lesson, clocks) > 0.5);
    if (interrupted() || flags.quick) return;
    if (flags.backend != BACKEND_INLINE) { // there, workers take turns
        check_ones(&lesson);
        train_for_real(&lesson, &pace, clocks);
    }
    show_towers(&lesson);
}

int main(int argc, char *argv[]) {
    read_flags(argc, argv);
    name_outputs();
    if (flags.backend != BACKEND_MODEL && !choices.schedule) {
        lesson.train_data = fashion_mnist_open(flags.data, true, flags.train_size);
        lesson.test_data = fashion_mnist_open(flags.data, false, flags.test_size);
    }
    finish_on_interrupt();
    if (choices.schedule)
        model_schedule(&pace, chosen_discipline(), clocks);
    else if (one_way())
        train_one_way(&lesson, &pace, chosen_discipline(), clocks);
    else
        show_all();
    if (lesson.train_data) dataset_free((Dataset *)lesson.train_data);
    if (lesson.test_data) dataset_free((Dataset *)lesson.test_data);
    return book_end();
}
