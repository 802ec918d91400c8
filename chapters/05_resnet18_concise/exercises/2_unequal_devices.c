// # Exercise 2: devices of unequal speed
//
// Book: "Concise Implementation for Multiple GPUs" (multiple-gpus-concise), exercise 2: "Sometimes,
// different devices provide different computing power. We could use the GPUs and the CPU at the
// same time. How should we divide the work? Is it worth the effort? Why? Why not?"
//
// Difficulty: ★★☆☆
//
// How to run
//   make exercise-05-2                       the question, the answer, the evidence
//   make exercise-05-2 ARGS=--check          only check the solution: a second
//
// A step is over when the slowest device is, so each should get rows in proportion to its speed.
// Where no device differs from the next, one is made slower: device_set_slowdown() lets it sleep
// after each kernel. Where there is a GPU, a CPU device also works beside it.
#include "common/base/error.h"
#include "common/base/clock.h"
#include "common/device/timer.h"
#include "experiment.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Flags flags;

// ## Your part
//
// Divides n rows among k devices in proportion to their speeds (0 or more, not all 0). Device i
// gets shards[i].count rows from row shards[i].first on; rows stay in order, and each belongs to
// one shard. Its quota n speed[i] / (sum of speeds) is seldom a whole number. So give each the
// whole part of it, and the rows that are left over to those with the largest remainders, one each.
static void shards_for(int n, const double speed[], int k, Range shards[]) {
    // SOLUTION (starter: for (int i = 0; i < k; i++) shards[i] = equal_range(n, k, i);)
    double total = 0, remainder[MAX_DEVICES];
    int left = n;
    for (int i = 0; i < k; i++) total += speed[i];
    for (int i = 0; i < k; i++) {
        double quota = n * speed[i] / total;
        shards[i].count = (long)quota;
        remainder[i] = quota - shards[i].count;
        left -= shards[i].count;
    }
    for (; left > 0; left--) {
        int largest = 0;
        for (int i = 1; i < k; i++)
            if (remainder[i] > remainder[largest]) largest = i;
        shards[largest].count++;
        remainder[largest] = -1;
    }
    long first = 0;
    for (int i = 0; i < k; i++) {
        shards[i].first = first;
        first += shards[i].count;
    }
    // END SOLUTION
}

// The seconds that a step will take: all devices compute side by side, device i speed[i] rows per
// second (none, if it has no rows), then they exchange gradients and update, in `exchange` seconds.
static double predict_step(const Range shards[], const double speed[], int k, double exchange) {
    // SOLUTION (starter: return 0;)
    double slowest = 0;
    for (int i = 0; i < k; i++)
        if (shards[i].count > 0) slowest = fmax(slowest, shards[i].count / speed[i]);
    return slowest + exchange;
    // END SOLUTION
}

// ## The check

static void check_shards(int n, const double speed[], int k) {
    Range shards[MAX_DEVICES];
    double total = 0, least_up = 1, most_down = 0; // remainders of those rounded up, and down
    long rows = 0;
    for (int i = 0; i < k; i++) total += speed[i];
    shards_for(n, speed, k, shards);
    for (int i = 0; i < k; i++) {
        double quota = n * speed[i] / total, over = shards[i].count - quota;
        EXPECT(shards[i].first == rows && shards[i].count >= 0,
               "%d rows, %d devices: shard %d has %ld rows from %ld on; row %ld comes next", n, k,
               i, shards[i].count, shards[i].first, rows);
        EXPECT(fabs(over) <= 1, "%d rows: device %d gets %ld, its quota is %.3f", n, i,
               shards[i].count, quota);
        if (over > 1e-9) least_up = fmin(least_up, 1 - over);
        if (over < -1e-9) most_down = fmax(most_down, -over);
        rows += shards[i].count;
    }
    EXPECT(rows == n, "%d rows, %d devices: the shards have %ld rows together", n, k, rows);
    EXPECT(least_up >= most_down - 1e-9,
           "%d rows, %d devices: a remainder of %.3f was rounded up, one of %.3f down", n, k,
           least_up, most_down);
}

static void check_prediction(void) {
    const Range shards[] = {{0, 12}, {12, 3}, {15, 0}};
    const double speed[] = {6, 1, 0}, expected = 3.5;
    double came = predict_step(shards, speed, 3, 0.5);
    EXPECT(fabs(came - expected) <= 1e-9,
           "12 rows at 6 a second, 3 at 1, none at 0, and 0.5 s of exchange: %g s, not %g s", came,
           expected);
}

enum { CHECKED_STEPS = 3, CHECKED_BATCH = 30 };

// Trains on k devices with shards for these speeds. The values of device 0 at the end; free() them.
static float *train_with(Module *net, const Dataset *data, BatchNormMode bn, const double speed[],
                         int k, double *loss) {
    Tensor *X, *y, *losses[MAX_DEVICES];
    Range shards[MAX_DEVICES];
    DataParallel dp = network_on(net, k, bn, 7);
    DataIter *iter = data_iter_new(data, CHECKED_BATCH, false, 0);
    data_iter_start(iter, 0);
    for (int step = 0; step < CHECKED_STEPS && data_iter_next(iter, &X, &y); step++) {
        shards_for(X->shape[0], speed, k, shards);
        train_step_as(&dp, shards, X, y, 0.5f, losses);
        *loss = 0;
        for (int i = 0; i < k; i++) *loss += (double)item(losses[i]);
    }
    data_iter_free(iter);
    return network_values(net, dp.devices[0]);
}

// How far apart training ends with equal speeds and with these, as a part of the change.
static double effect_of_shards(Module *net, const Dataset *data, BatchNormMode bn,
                               const double speed[], int k, double losses[2]) {
    const double equal[] = {1, 1, 1, 1};
    network_on(net, 1, bn, 7);
    float *start = network_values(net, try_gpu(0));
    float *expected = train_with(net, data, bn, equal, k, &losses[0]);
    float *came = train_with(net, data, bn, speed, k, &losses[1]);
    double difference = relative_difference(came, expected, start, network_numel(net));
    free(start);
    free(expected);
    free(came);
    return difference;
}

static void check_training(void) {
    static const double speeds[][4] = {{3, 1}, {1, 0.01}, {5, 2, 1, 0}, {0, 1, 1, 1}};
    static const int ks[] = {2, 2, 4, 4};
    Dataset *data = small_images(flags.data, false, CHECKED_STEPS * CHECKED_BATCH);
    Module *net = small_network();
    for (int c = 0; c < 4; c++) {
        double losses[2];
        double difference = effect_of_shards(net, data, BN_SYNC, speeds[c], ks[c], losses);
        EXPECT(difference <= 1e-2 && fabs(losses[1] - losses[0]) <= 1e-2 * losses[0],
               "case %d: shards in proportion change what is learned by %g of the change, the "
               "loss from %.6f to %.6f",
               c, difference, losses[0], losses[1]);
    }
    leave_devices(net, 0);
    module_free(net);
    dataset_free(data);
}

static void check(void) {
    static const double speeds[][5] = {{1, 1, 1, 1, 1},   {3, 1, 0, 0, 0},  {0, 0, 7, 0, 0},
                                       {100, 1, 1, 1, 1}, {2, 3, 5, 7, 11}, {0.1, 0.2, 0.3, 0, 1}};
    for (int c = 0; c < 6; c++)
        for (int n = 0; n <= 100; n++) check_shards(n, speeds[c], 5);
    check_shards(256, (const double[]){1}, 1);
    check_prediction();
    check_training();
    printf("check passed: shards cover the rows, in proportion; training is that of equal "
           "shards\n\n");
}

// ## What is measured

enum { ROUNDS = 4, NUM_SLOWDOWNS = 4, NUM_BATCHES = 4, K = 2 }; // the fastest round counts
static const double slowdowns[NUM_SLOWDOWNS] = {1, 1.25, 2, 4};

// Two devices and one minibatch. Each device has its own number of cores.
typedef struct Pair {
    Module *net;
    DataParallel both, first; // on both devices; on the first alone
    int threads[K];
    Tensor *X, *y;
} Pair;

static void give_threads(const Pair *p) {
    for (int i = 0; i < K; i++) device_set_threads(p->both.devices[i], p->threads[i]);
}

// X and y stay with the iterator.
static Pair pair_of(Module *net, Device *first, Device *second, DataIter *iter) {
    Device *devices[K] = {first, second};
    Pair p = {.net = net, .threads = {1, 1}};
    initialize(net, flags.seed);
    p.first = data_parallel(net, &first, 1, BN_AVERAGED);
    p.both = data_parallel(net, devices, K, BN_AVERAGED);
    give_threads(&p);
    data_iter_start(iter, 0);
    CHECK(data_iter_next(iter, &p.X, &p.y), "there is a minibatch");
    return p;
}

// The first n rows of the minibatch.
static Tensor rows_of(const Tensor *t, int n) {
    Tensor rows = *t;
    rows.shape[0] = n;
    return rows;
}

static double time_step(DataParallel *dp, const Pair *p, const Range shards[]) {
    int n = (int)(shards[dp->k - 1].first + shards[dp->k - 1].count);
    Tensor X = rows_of(p->X, n), y = rows_of(p->y, n), *losses[MAX_DEVICES];
    Timer timer = {0};
    timer_start(&timer);
    train_step_as(dp, shards, &X, &y, flags.lr, losses);
    return timer_stop(&timer);
}

// Enqueues forward and backward of the whole minibatch on a device.
static void compute_on(const Pair *p, Device *device) {
    Range all = {0, p->X->shape[0]};
    Tensor *X, *y;
    begin_step(device);
    split_batch_as(&all, p->X, p->y, &device, 1, &X, &y);
    backward(sum(cross_entropy(forward(p->net, X), y)));
}

// Rows per second of each device, forward and backward, while the other is at work too: the two may
// be in each other's way, as they will be in training. In each round the clock is another device's.
static void measure_speeds(const Pair *p, double speed[K]) {
    int n = p->X->shape[0];
    for (int i = 0; i < K; i++) speed[i] = 0;
    for (int round = 0; round < K * ROUNDS; round++) {
        int i = round % K;
        synchronize_all();
        double start = seconds_now();
        for (int j = 0; j < K; j++) compute_on(p, p->both.devices[j]);
        synchronize(p->both.devices[i]);
        speed[i] = fmax(speed[i], n / (seconds_now() - start));
        for (int j = 0; j < K; j++) sgd_step(p->net, p->both.devices[j], 0, n); // no gradients left
    }
}

// Seconds of the exchange and the update.
static double measure_exchange(DataParallel *dp) {
    double fastest = INFINITY;
    for (int round = 0; round < ROUNDS; round++) {
        Timer timer = {0};
        for (int i = 0; i < dp->k; i++) begin_step(dp->devices[i]);
        timer_start(&timer);
        trainer_step(dp, 0, 1);
        fastest = fmin(fastest, timer_stop(&timer));
    }
    return fastest;
}

typedef struct Result {
    double slowdown; // what was asked for
    int n, rows[K];  // in proportion
    double speed[K], exchange;
    double equal, proportional, alone;    // seconds per step, measured
    double said_equal, said_proportional; // predicted
} Result;

static Result measure(Pair *p, int n, const double speed[K], double exchange) {
    Result r = {.n = n, .speed = {speed[0], speed[1]}, .exchange = exchange};
    Range equal[K], proportional[K], all = {0, n};
    for (int i = 0; i < K; i++) equal[i] = equal_range(n, K, i);
    shards_for(n, speed, K, proportional);
    for (int i = 0; i < K; i++) r.rows[i] = (int)proportional[i].count;
    r.said_equal = predict_step(equal, speed, K, exchange);
    r.said_proportional = predict_step(proportional, speed, K, exchange);
    r.equal = r.proportional = r.alone = INFINITY;
    for (int round = 0; round < ROUNDS; round++) { // in turn: noise meets all alike
        r.equal = fmin(r.equal, time_step(&p->both, p, equal));
        r.proportional = fmin(r.proportional, time_step(&p->both, p, proportional));
        r.alone = fmin(r.alone, time_step(&p->first, p, &all));
    }
    EXPECT(r.equal > 0 && r.proportional > 0 && r.alone > 0, "a step took no time");
    return r;
}

static Result measure_all(Pair *p, int n) {
    double speed[K];
    measure_speeds(p, speed);
    return measure(p, n, speed, measure_exchange(&p->both));
}

static void print_head(const char *first) {
    printf("  %s   images/s of    images   exchange   seconds per step: equal   in proportion   "
           "first device\n"
           "             each device      each    seconds   measured (said)   measured (said)   "
           "       alone\n",
           first);
}

static void print_result(const Result *r, double first) {
    printf("  %8.4g %8.1f %7.1f %5d %4d %9.3f %10.3f (%.3f) %9.3f (%.3f) %15.3f\n", first,
           r->speed[0], r->speed[1], r->rows[0], r->rows[1], r->exchange, r->equal, r->said_equal,
           r->proportional, r->said_proportional, r->alone);
}

// ## The experiment

static Result by_slowdown[NUM_SLOWDOWNS], by_batch[NUM_BATCHES], beside_gpu;
enum { TWICE_AS_SLOW = 2 }; // of the slowdowns

static void compare_slowdowns(Module *net, DataIter *iter) {
    Pair p = pair_of(net, cpu_device(0), cpu_device(1), iter);
    printf("Two CPU devices with a core each, the second made slower; minibatches of %d\n",
           flags.batch_size);
    print_head("slowdown");
    for (int i = 0; i < NUM_SLOWDOWNS; i++) {
        device_set_slowdown(cpu_device(1), slowdowns[i]);
        by_slowdown[i] = measure_all(&p, flags.batch_size);
        by_slowdown[i].slowdown = slowdowns[i];
        print_result(&by_slowdown[i], slowdowns[i]);
    }
    printf("\nThe second is %g times slower; smaller minibatches\n", slowdowns[TWICE_AS_SLOW]);
    print_head("   batch");
    device_set_slowdown(cpu_device(1), slowdowns[TWICE_AS_SLOW]);
    for (int i = 0; i < NUM_BATCHES; i++) {
        const Result *known = &by_slowdown[TWICE_AS_SLOW];
        int n = flags.batch_size >> (NUM_BATCHES - 1 - i);
        by_batch[i] = *known;
        if (n < flags.batch_size) by_batch[i] = measure(&p, n, known->speed, known->exchange);
        by_batch[i].slowdown = slowdowns[TWICE_AS_SLOW];
        print_result(&by_batch[i], n);
    }
    device_set_slowdown(cpu_device(1), 1);
    leave_devices(net, flags.seed);
}

// Devices that are unequal by themselves.
static void compare_threads(Module *net, DataIter *iter) {
    int threads = num_threads();
    if (threads < 3) return;
    Pair p = pair_of(net, cpu_device(0), cpu_device(1), iter);
    p.threads[0] = threads - 1;
    give_threads(&p);
    printf("\nTwo CPU devices with %d cores and with 1\n", threads - 1);
    print_head("   batch");
    Result r = measure_all(&p, flags.batch_size);
    print_result(&r, flags.batch_size);
    leave_devices(net, flags.seed);
}

static void compare_gpu(Module *net, DataIter *iter) {
    if (num_gpus() == 0) return;
    Pair p = pair_of(net, try_gpu(0), cpu_device(0), iter);
    p.threads[1] = num_threads();
    give_threads(&p);
    printf("\nA GPU, and a CPU device with %d cores beside it\n", num_threads());
    print_head("   batch");
    beside_gpu = measure_all(&p, flags.batch_size);
    print_result(&beside_gpu, flags.batch_size);
    leave_devices(net, flags.seed);
}

// ### The answer

// Whether something else kept the cores busy: then the slowdowns did not come out as asked for.
static bool was_busy(void) {
    double base = by_slowdown[0].speed[1] / by_slowdown[0].speed[0];
    for (int i = 0; i < NUM_SLOWDOWNS; i++) {
        double came = base * by_slowdown[i].speed[0] / by_slowdown[i].speed[1];
        if (fabs(came / slowdowns[i] - 1) > 0.25) {
            printf("\n  (The device that was to be %g times slower was %.2f times slower: "
                   "something else is using the\n  cores, and nothing follows from these times.)\n",
                   slowdowns[i], came);
            return true;
        }
    }
    return false;
}

static double saved(const Result *r) { return 100 * (1 - r->proportional / r->equal); }

static void explain_division(void) {
    const Result *r = &by_slowdown[NUM_SLOWDOWNS - 1];
    printf("\nAnswer\n"
           "  How: in proportion to the measured speeds, so that all are ready at the same time. "
           "With a second\n    device of %.2f times the speed that is %d and %d of %d images: "
           "%.2f s per step, with equal\n    shards %.2f s.\n",
           r->speed[1] / r->speed[0], r->rows[0], r->rows[1], r->n, r->proportional, r->equal);
    printf("    The gradient needs nothing else: it is a sum over rows, divided once by the rows "
           "of the whole\n    minibatch. A mean of the devices' means would be wrong here.\n");
}

static void explain_batch_norm(void) {
    static const double speed[] = {3, 1};
    double losses[2];
    Dataset *data = small_images(flags.data, false, CHECKED_STEPS * CHECKED_BATCH);
    Module *net = small_network();
    double sync = effect_of_shards(net, data, BN_SYNC, speed, 2, losses);
    double local = effect_of_shards(net, data, BN_LOCAL, speed, 2, losses);
    printf("    Batch norm does, if each device takes its statistics from its own rows: %d steps "
           "of a small\n    network with shards 3 : 1 end %.2g of the change away from those with "
           "equal shards; with\n    synchronised batch norm %.1g.\n",
           CHECKED_STEPS, local, sync);
    leave_devices(net, 0);
    module_free(net);
    dataset_free(data);
}

static void explain_worth(void) {
    printf("  Is it worth it? What a division in proportion saves of the step with equal "
           "shards:\n   ");
    for (int i = 0; i < NUM_SLOWDOWNS; i++)
        printf(" %.0f%% at %g times%s", saved(&by_slowdown[i]), slowdowns[i],
               i < NUM_SLOWDOWNS - 1 ? "," : ".\n");
    printf("    The arithmetic alone would say 1 - 2/(s+1) for a device s times slower:");
    for (int i = 0; i < NUM_SLOWDOWNS; i++)
        printf(" %.0f%%%s", 100 * (1 - 2 / (slowdowns[i] + 1)),
               i < NUM_SLOWDOWNS - 1 ? "," : ".\n");
    printf("    At 1 times the two divisions are nearly the same one, so the %.0f%% there show how "
           "far noise goes.\n",
           saved(&by_slowdown[0]));
    const Result *few = &by_batch[0], *many = &by_batch[NUM_BATCHES - 1];
    printf(
        "    Small minibatches: with %d images the division is %d : %d and saves %.0f%%, with %d "
        "images %d : %d\n    and %.0f%%. Shards are whole rows, and the exchange, %.0f ms here, "
        "takes as long for few images\n    as for many.\n",
        few->n, few->rows[0], few->rows[1], saved(few), many->n, many->rows[0], many->rows[1],
        saved(many), 1e3 * many->exchange);
    const Result *slow = &by_slowdown[NUM_SLOWDOWNS - 1];
    printf("    The prediction for %d : %d was %.2f s, measured were %.2f s: it takes the speed of "
           "large shards,\n    and a core does fewer images per second when it gets them in small "
           "ones.\n",
           slow->rows[0], slow->rows[1], slow->said_proportional, slow->proportional);
}

static void explain_second(const Result *r, const char *what) {
    printf("    %s: a step takes %.3f s on both, %.3f s on the first alone, so the second device "
           "%s.\n",
           what, r->proportional, r->alone,
           r->proportional < 0.95 * r->alone   ? "helps"
           : r->proportional > 1.05 * r->alone ? "only costs"
                                               : "makes no difference");
}

static void explain_alone(void) {
    printf("  Or without the slow device? It has to save more than the exchange costs.\n");
    explain_second(&by_slowdown[NUM_SLOWDOWNS - 1], "4 times slower");
    explain_second(&by_batch[0], "2 times slower, the smallest minibatch");
    if (num_gpus() > 0) explain_second(&beside_gpu, "CPU beside GPU");
}

static void write_csv(const char *path) {
    OutputFile file = output_open(path);
    fprintf(file.stream, "part,slowdown,batch,rows0,rows1,speed0,speed1,exchange,equal,said_equal,"
                         "proportional,said_proportional,alone\n");
    for (int i = 0; i < NUM_SLOWDOWNS + NUM_BATCHES; i++) {
        bool slow = i < NUM_SLOWDOWNS;
        const Result *r = slow ? &by_slowdown[i] : &by_batch[i - NUM_SLOWDOWNS];
        fprintf(file.stream, "%s,%g,%d,%d,%d,%.3f,%.3f,%.5f,%.5f,%.5f,%.5f,%.5f,%.5f\n",
                slow ? "slowdown" : "batch", r->slowdown, r->n, r->rows[0], r->rows[1], r->speed[0],
                r->speed[1], r->exchange, r->equal, r->said_equal, r->proportional,
                r->said_proportional, r->alone);
    }
    output_close(&file);
}

static void experiment(void) {
    Module *net = resnet18(FASHION_MNIST_CLASSES, 1);
    Dataset *data = small_images(flags.data, true, flags.batch_size);
    DataIter *iter = data_iter_new(data, flags.batch_size, false, 0);
    make_directory(flags.out);
    char *csv = out_file(flags.out, ".csv"), *png = out_file(flags.out, ".png");
    printf("Question: how should a minibatch be divided among devices of unequal speed, and is it "
           "worth it?\n"
           "ResNet-18, images of 14 x 14, the fastest of %d steps; in brackets what predict_step() "
           "says\n\n",
           ROUNDS);
    compare_slowdowns(net, iter);
    compare_threads(net, iter);
    compare_gpu(net, iter);
    bool busy = was_busy();
    explain_division();
    explain_batch_norm();
    if (!busy) explain_worth();
    if (!busy) explain_alone();
    write_csv(csv);
    draw_plot("exercise_unequal_devices.gp", csv, png);
    free(csv);
    free(png);
    data_iter_free(iter);
    dataset_free(data);
    module_free(net);
}

int main(int argc, char *argv[]) {
    Flags defaults = default_flags;
    defaults.batch_size = 32;
    defaults.lr = 0.02f;
    flags = parse_flags(argc, argv, "Exercise 2: a minibatch divided among unequal devices.",
                        "batch-size lr seed data check", defaults);
    if (flags.batch_size < 1 << NUM_BATCHES)
        die_usage("--batch-size 16 or more", "%d images cannot be halved often enough",
                  flags.batch_size);
    check();
    if (!flags.check) experiment();
    devices_close();
    return EXIT_SUCCESS;
}
