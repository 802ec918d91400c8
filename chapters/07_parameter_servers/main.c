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
// In chapter 4, no device begins the next step until it has the sum of all gradients. This is
// *synchronous* training. If one device is slow, all the others wait for it in every step.
//
// In *asynchronous* training no device waits. A *parameter server* holds the parameters [@li2014].
// Each device, called a *worker* here, *pulls* the newest parameters, computes the gradients of its
// shard, *pushes* them to the server, and begins again. The server applies each push to the
// parameters as soon as it arrives.
//
// The example has four workers with 16 images each, so a minibatch has 64. Two servers hold half of
// the parameters each. Each worker is a host with one A100 GPU. Times are modelled for `dgx-a100`,
// whose network carries 23.5 GB/s with a latency of 14 µs.
// ([How true is the clock?](../how_true.md) compares modelled times with published ones.) Worker 3
// takes four times as long as the others to compute, to pull and to push. Computing times also vary
// at random, by up to a tenth. Training ends after 1,024 pushes.
//
// main.c:ask_how_much_longer
//
// behind/ways.c:show_slow_worker
//
// ![The first steps, with their numbers. In synchronous training, three workers are idle most of
// the time. In asynchronous training, none is. The arrow leads from worker 3's first pull to its
// push. In the meantime, each of the others pushes three times, and again just afterwards. So
// worker 3's push misses nine.](plots/07_parameter_servers_slow_worker.png "Two timelines of four
// workers. An arrow below the second one says that worker 3's push misses 9 others.")
//
// While the slow worker takes one step, each of the others could take four. That would be 13
// pushes, but synchronous training makes only 4. It takes a little more than 13/4 = 3.25 times as
// long, because workers also wait for links (see "A slow computer or a slow cable?").
//
// But when an asynchronous push arrives, the parameters are no longer those from which it was
// computed. It has *missed* the pushes in between.
//
// ## Who waits for whom
//
// Every worker repeats four lines (the tab "PyTorch" below has this loop as a program):
//
// ```
// wait until may_pull()
// pull all parameters
// compute the gradients of its shard
// push all gradients
// ```
//
// Four *disciplines* differ in how long a worker waits and how many pushes an update takes:
//
// | discipline                | a worker waits until             | an update takes      |
// |---------------------------|----------------------------------|----------------------|
// | synchronous               | all others have caught up        | all W pushes         |
// | asynchronous              | (it never waits)                 | 1 push               |
// | bounded staleness (SSP s) | none is more than s steps behind | 1 push               |
// | b backup workers          | the update of its step is done   | the first W-b pushes |
//
// schedule.c:may_pull
//
// `may_begin` points to the next function. `staleness` is s: 0 in synchronous training, huge in
// asynchronous training.
//
// schedule.c:within_bound
//
// SSP is *stale synchronous parallel* [@ho2013]. With s = 0, workers would wait as in synchronous
// training, but pushes would be applied one by one. With backup workers [@chen2016], the last b
// pushes of each step are dropped:
//
// schedule.c:fate_in_round
//
// `schedule.c` calculates when each worker pulls and pushes, and `replay.c` trains in that order.
// So you can repeat a run bit for bit.
//
// ![SSP 3 and one backup worker. The numbers count each worker's own
// steps.](plots/07_parameter_servers_bounds.png "Two timelines of four workers.")
//
// With SSP 3, the fast workers soon reach the bound. From then on, they take one step for each step
// of the slow worker. The table has modelled times on `dgx-a100`, again for 1,024 pushes. In its
// second row, no worker is always slow, but one step in ten, at random, takes four times as long to
// compute.
//
// behind/ways.c:show_bounds
//
// *A bound helps if workers are slow now and then, not if one is always slow.* A backup worker
// helps most if one is always slow. But then all dropped pushes are the slow worker's, so you could
// just as well unplug it (last column).
//
// ## Staleness
//
// The *staleness* of a push is the number of other pushes that it misses, those applied between its
// worker's pull and its own arrival. (Pushes in the same update do not make each other stale.) In
// asynchronous training, a worker pulls as soon as it has pushed. We call both together a visit.
//
// ```
// worker 0   ---V-----V-----V-----V-----V--->     V: a visit, push and pull
// worker 1   -----V-----------V-----------V->     time goes to the right
// ```
//
// On average, the staleness is W-1, even if some workers are slower than others. Each push falls
// between two visits of every other worker, so W-1 pushes miss it. In this drawing, each push of
// worker 1 misses two others, and every second push of worker 0 misses one.
//
// With SSP, a worker may wait between its push and its next pull, so the two are not one visit. If
// all four wait for each other, they compute from the same parameters. Then their pushes miss 0, 1,
// 2 and 3 others, 1.5 on average. Also, a bound counts steps, but staleness counts pushes. With SSP
// s, the slow worker's push can miss s+1 steps of each other worker. With SSP 1, these are the 6
// pushes in the table below. With SSP 3 they would be 12, but the others have time for only nine,
// as in the first figure.
//
// Does staleness harm the accuracy? We train LeNet on Fashion-MNIST in five ways, each with ten
// seeds, on 16,384 images (8,192 images, twice), with a learning rate lr of 0.2. (Training starts
// from `scaled_params()`, without chapter 4's plateau.) An update divides by the number of images
// in the *whole* minibatch, but one push has the gradients of only 1/W of them. So a push that is
// applied alone moves the parameters by lr/W times the mean gradient of its images. We say that its
// *own rate* is lr/W.
//
// - Dropped pushes, mean and maximum staleness, and modelled time (`dgx-a100`) are from the first
//   seed.
// - The test accuracy is the mean of all seeds. The "more" column is its difference from
//   synchronous training with the same seeds, before rounding (with a 95 % confidence interval).
//
// behind/ways.c:compare_ways
//
// ![Test accuracy: the mean, the worst and the best of ten seeds. Against pushes, the curves
// nearly coincide. Against time, asynchronous training and one backup worker are far
// ahead.](plots/07_parameter_servers_disciplines.png "Five curves, twice.")
//
// All differences in accuracy are smaller than their confidence intervals, so we see no effect of
// staleness. But these intervals could hide an effect of 0.03.
//
// ## Stale, or too large a rate?
//
// So far, a push's own rate was lr/W. If each worker divides by its own number of images instead,
// it is lr. How large a rate does asynchronous training tolerate? We use eight equally fast workers
// with 8 images each.
//
// If training fails, is the cause staleness or the rate? Two controls have no staleness. In the
// first, training is synchronous, so an update adds up eight pushes. If each has the rate lr, the
// update has eight times lr. In the second, a single worker makes the same number of pushes at the
// same rate. The table has the mean accuracy of ten seeds, after half the images of the runs above.
//
// main.c:ask_whether_it_learns
//
// behind/ways.c:compare_rates
//
// Synchronous and asynchronous training fail alike. Both learn with lr/8 and lr/4, and both fail
// with lr. With lr/2 only some seeds learn, so the intervals are wide. No row tells the two apart.
// (If parameters are NaN, the accuracy is 0.)
//
// One worker learns at every rate, so no rate is too large for a single push. Synchronous training
// fails because a step with four or eight times lr is too large. Asynchronous pushes are applied
// one by one, but each misses seven others on average. *Staleness turns W small steps into one
// large step.* We see no other clear harm: with lr/8, asynchronous training is slightly below one
// worker, but within the intervals. (`--staleness-lr` divides a push's rate by its staleness
// [@zhang2016].)
//
// ## Servers
//
// In the star of chapter 2, device 0 receives all gradients, adds them up and sends the sum to all.
// That is a server's work. But device 0 also computes the gradients of its own shard. On a host of
// its own, a server can receive a push at any time. Then its link carries everything that all
// workers send. So split the server: a parameter's *key* is its place in the vector of all
// parameters, and each server holds a range of keys. LeNet has 129,068 parameters. With two
// servers:
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
// Server s holds the keys `keys[s]` in `params[s]`. What worker w pushes arrives in
// `received[s][w]` and *waits* there until an update takes it.
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
// (`add_push()` adds worker w's gradients to the sums.) Synchronous training with servers is the
// same computation as in chapter 4. In the next run, pushes arrive in a different order in each
// step, but the servers add them up in the order of the workers' numbers. So the parameters must be
// bit-identical to chapter 4's:
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
// W servers, the time no longer depends on W, but you need twice as many hosts. Instead, each host
// can be both worker and server. It keeps one of the W ranges and exchanges the others. That moves
// the same number of bytes as a device in a ring. With P = 516,272 bytes, four workers and two
// servers:
//
// | in each step                    | sends and receives |     bytes |
// |---------------------------------|--------------------|----------:|
// | a worker                        | 2 P                | 1,032,544 |
// | the only server                 | 2 W P              | 4,130,176 |
// | one of S servers                | 2 W P/S            | 2,065,088 |
// | worker and server, or in a ring | 4 (W-1)/W P        | 1,548,816 |
// | device 0 of a star              | 2 (W-1) P          | 3,097,632 |
//
// ![The time for all workers to push and pull once on `laptops-1gbe`, and the formula (dashed).
// Workers and servers are separate hosts.](plots/07_parameter_servers_exchange.png "Modelled
// milliseconds over 1 to 16 workers.")
//
// ## A slow computer or a slow cable?
//
// The table's first two rows are times. The others are the ratio of synchronous to asynchronous
// training time.
//
// behind/ways.c:show_machines
//
// "One worker is slow" means in everything, as above. On `dgx-a100`, its GPU is the main reason. On
// `laptops-1gbe`, transfers take most of the time. There, a slow worker is one with a slow cable:
// if only its GPU is slow, the ratio is 1.69, almost the same as without any slow worker (1.67).
// <!-- figure: 1.69 = run-07: "only its GPU is slow" -->
// <!-- figure: 1.67 = run-07: "all equally fast" -->
//
// Why is that ratio not 1? In synchronous training, all workers push at the same time, and later
// all pull. Each link is busy in only one direction at a time, and idle while they compute. In
// asynchronous training, one worker pulls while another pushes. In the last row, no transfer waits
// for another. Then synchronous training waits only for the worker that happens to be last.
//
// ## For real
//
// So far, a schedule has set the order. Real asynchronous training has no schedule, so
// `asynchronous.c` is a second implementation. Each worker computes in its own thread, and the
// servers are parts of the host's memory. At the end of each step, the thread visits every server:
//
// asynchronous.c:visit_server
//
// asynchronous.c:push_and_pull
//
// No two runs are the same. But some things must hold in *any* order. Let all gradients be 1. Then
// every push subtracts the same amount from every parameter, and at the end each parameter shows
// how many pushes it received. Also, all parameters that a worker pulls from one server must be
// equal. If they are not, the pull is *torn*: some parameters include a push that others do not
// include yet. The second row checks both servers together, as if they were one server that is
// visited twice.
//
// behind/checks.c:check_ones
//
// No push is lost. Because of the lock, no pull from one server is torn, so one number says how
// stale it is. Two servers may not be equally up to date, but training tolerates that. Here is the
// asynchronous training from above, with threads on this computer:
//
// behind/checks.c:train_for_real
//
// The mean staleness is again about W-1. The maximum differs from run to run, because workers share
// the cores of one computer. A worker that waits for a core between its pull and its push misses
// all pushes in the meantime.

// ## Summary
//
// - Synchronous training is only as fast as its slowest worker. Asynchronous training uses the full
//   speed of every worker, but each push misses W-1 others on average.
// - A bound helps if workers are slow now and then. A backup worker helps if one is always slow,
//   but so does unplugging it.
// - In our runs, staleness turned W small steps into one large step. Asynchronous training failed
// at the same
//   rates as synchronous training. When a push had the rate lr/W, we saw no effect of staleness on
//   accuracy (ten seeds, LeNet, 16,384 images).
// - Servers hold ranges of the parameters. With synchronous updates, the parameters are
//   bit-identical to chapter 4's. One server is a bottleneck. If each host is both worker and
//   server, it moves as much data as a device in a ring.
//
// ## Questions
//
// 1. TensorFlow 1 had a copy of the model, a *tower*, on each GPU. A program with towers computes
//    the mean gradient of each tower's images and adds up these means. (`towers.c`, below, does
//    this.) It is changed from Adam to plain gradient descent, and diverges on 8 GPUs, although the
//    learning rate was tuned on one GPU. What happened?
// 2. With two workers, how much longer does the exchange take with one server than with two? With
//    four workers, how much longer with one server than with two, and than with four?
// 3. The mean staleness should be W-1. Why is it slightly less in the table? Whose pushes are the
//    stalest?
// 4. With backup workers, the slow worker's pushes are dropped. What does the network learn if only
//    the slow worker has a certain kind of image?
//
// ## Exercises
//
// `make exercise-07-1` (which server has which tensors?) and `make exercise-07-3` (backup workers
// or SSP?) ask a question and run an experiment. Exercises 07-2 and 07-4 have no program. They are
// questions 7 and 8 on the lab's sheet.

// ## The program

static Prediction ask_how_much_longer(void) {
    return predict_first(
        "Four workers train together, and one of them takes four times as long as the "
        "others for everything. How many times as long does synchronous training take as "
        "asynchronous training, for the same number of images?");
}

static Prediction ask_whether_it_learns(void) {
    return predict_yes_no(
        "Eight equally fast workers train synchronously, and every push has the full learning "
        "rate lr as its own. Do they end with a test accuracy of more than 0.5?");
}

static void read_flags(int argc, char *argv[]) {
    flags = book_begin(argc, argv,
                       "Trains LeNet with parameter servers, synchronously, asynchronously, and "
                       "between the two.",
                       "seed batch-size=64 lr epochs=2 train-size=8192 test-size=1000 data",
                       (Program){.own = choice_flags,
                                 .quick_means = "--epochs 1 --train-size 2048 --test-size 500",
                                 .next = "make exercise-07-1, or make run-08"});
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
    show_bounds(&pace, clocks);
    if (has_values) {
        compare_ways(&lesson, &pace, clocks);
        Prediction learns = ask_whether_it_learns();
        predict_compare_yes_no(learns, compare_rates(&lesson, clocks) > 0.5);
        if (!interrupted()) show_synchronous(&lesson, 10);
    }
    draw_exchanges();
    if (flags.quick || interrupted()) return;
    show_machines(&lesson, &pace, clocks);
    if (!has_values) return;
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
