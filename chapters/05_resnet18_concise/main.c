// # Concise implementation for multiple GPUs: ResNet-18
//
// Book: "Concise Implementation for Multiple GPUs" (multiple-gpus-concise).
// Difficulty: ★★★☆
//
// What you will learn
//   - the same training as in chapter 4, with high-level parts: modules instead of arrays of
//     parameters, one wrapper for all that has to do with k devices;
//   - where a network's parameters are, and where not;
//   - batch normalisation, the one layer for which k devices do not by themselves compute what one
//     computes, and what can be done about that (--bn);
//   - how a training that was stopped goes on as if nothing had been (--checkpoint, --resume).
//
// How to run
//   make resnet                        the book's two runs: 1 device, then 2 with twice the batch
//                                      size and learning rate. Without a GPU: a quick version.
//   build/05_resnet18_concise --full   all of Fashion-MNIST, 10 epochs, on any machine
//   build/05_resnet18_concise --devices 4 --bn sync --batch-size 128 --lr 0.1
//   build/05_resnet18_concise --help   all flags
//
// What you will see: the network and what it needs, the book's demonstrations, a line per epoch,
// the book's last line of each run, a comparison in words, and the curves in plots/.
//
// Read in this order: resnet18.c (the network), data_parallel.c (everything about k devices), then
// train() here. common/tensor/nn.h has the modules, common/tensor/batch_norm.c what devices exchange.
#include "common/data/network_file.h"
#include "common/program/animator.h"
#include "common/base/child.h"
#include "common/device/cpu_speed.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/program/flags.h"
#include "common/program/interrupt.h"
#include "common/program/loss_log.h"
#include "common/program/progress.h"
#include "common/tensor/random.h"
#include "common/device/timer.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/03_split_batch/split_batch.h"
#include "checkpoint.h"
#include "data_parallel.h"
#include "resnet18.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What the book's notebook keeps in global variables.
static Flags flags;
static Module *net;
static Dataset *train_data, *test_data;
static Animator *animator;
static LossLog loss_log;
static int num_runs;
static Start start;        // of all runs
static Checkpoint resumed; // with --resume

// One of the program's runs, and what is known when it is over.
typedef struct Run {
    int k, batch_size;
    float lr;
    long steps; // done
    double train_loss, test_acc, sec_per_epoch;
    uint64_t bytes_per_step; // between devices
    size_t arena_bytes;      // the most that a device needed for a step
    int saved_epochs;        // in the checkpoint
} Run;

// ## The network

static void print_network(void) {
    Parameters all = parameters_of(net);
    long trained = 0;
    for (int p = 0; p < all.n; p++)
        if (all.list[p]->trained) trained += (long)numel(all.list[p]->start);
    printf("ResNet-18: %d tensors, %ld parameters (%.1f MB), and as many gradients; %.1f KB of "
           "running statistics\n",
           all.n, trained, (double)parameter_bytes(net) / 1e6, (double)buffer_bytes(net) / 1e3);
}

// ## Four observations over two devices
//
// As data goes through the network, it is initialized on the devices where the data is, and only
// there.

static void split_four_observations(Device *const devices[], Tensor *y_hat[]) {
    Tensor *X = tensor_new(host(), 4, 1, 28, 28), *y = tensor_new(host(), 4);
    Tensor *X_shards[2], *y_shards[2];
    for (size_t i = 0; i < numel(X); i++)
        X->data[i] = (float)random_uniform(flags.seed, STREAM_TEST, i);
    tensor_fill(y, 0);
    for (int i = 0; i < 2; i++) begin_step(devices[i]);
    split_batch(X, y, devices, 2, X_shards, y_shards);
    forward_all(net, X_shards, 2, y_hat);
    synchronize_all();
    tensor_free(X);
    tensor_free(y);
}

static void ask_the_host(void *weight) { parameter_data(weight, host()); }

static void print_filter(const Parameter *weight, const Device *device) {
    const Tensor *data = parameter_data(weight, device);
    float *values = xmalloc(tensor_bytes(data));
    tensor_read(data, values);
    printf("    [");
    for (int i = 0; i < 9; i++) printf("%s%8.5f", i % 3 ? ", " : i ? "; " : "", (double)values[i]);
    printf("] on %s\n", device_name(device));
    free(values);
}

static void check_equal(const Parameter *weight, Device *const devices[]) {
    Tensor *copies[2];
    float *values[2];
    for (int i = 0; i < 2; i++) {
        copies[i] = parameter_data(weight, devices[i]);
        values[i] = xmalloc(tensor_bytes(copies[i]));
        tensor_read(copies[i], values[i]);
    }
    CHECK(memcmp(values[0], values[1], tensor_bytes(copies[0])) == 0,
          "all devices start from the same parameters");
    free(values[0]);
    free(values[1]);
}

static void demonstrate_initialization(void) {
    Device *devices[2] = {try_gpu(0), try_gpu(1)};
    Tensor *y_hat[2];
    const Parameter *weight = find_parameter(net, "0.weight");
    set_training(net, false);
    set_grad_enabled(false);
    split_four_observations(devices, y_hat);
    set_grad_enabled(true);
    set_training(net, true);
    printf("\nFour observations, two on each of %s: scores\n", device_names(devices, 2));
    tensor_print("  y_hat[0]", y_hat[0]);
    tensor_print("  y_hat[1]", y_hat[1]);
    printf("The host holds no parameters. Asked for 0.weight all the same, in a child process:\n");
    CHECK(try_in_child(ask_the_host, (void *)weight) == EXIT_FAILURE, "this must be an error");
    printf("The first filter of 0.weight, the same on both devices:\n");
    for (int i = 0; i < 2; i++) print_filter(weight, devices[i]);
    check_equal(weight, devices);
    printf("\n");
}

// ## Training

static void check_loss(double loss, float lr, int epoch, long step) {
    if (isfinite(loss)) return;
    animator_close(animator); // the epochs before this one stay
    loss_log_write(&loss_log, flags.log_loss);
    die("start again with a smaller --lr", "the loss became %s at step %ld (epoch %d) with lr %g",
        isnan(loss) ? "nan" : "infinite", step, epoch + 1, (double)lr);
}

// One pass over the training set, or less if --steps or Ctrl-C ends it. Returns the mean loss.
static double train_epoch(DataParallel *dp, DataIter *train_iter, int epoch, Run *run,
                          Progress *progress) {
    Tensor *X, *y, *losses[MAX_DEVICES];
    double total = 0;
    long images = 0;
    char text[80];
    data_iter_start(train_iter, epoch);
    while (run->steps != flags.steps && !interrupted() && data_iter_next(train_iter, &X, &y)) {
        train_step(dp, X, y, run->lr, losses);
        for (int i = 0; i < dp->k; i++)
            if (arena_used_bytes(dp->devices[i]) > run->arena_bytes)
                run->arena_bytes = arena_used_bytes(dp->devices[i]);
        double loss = 0;
        for (int i = 0; i < dp->k; i++) loss += (double)item(losses[i]); // waits for the devices
        loss /= X->shape[0];
        check_loss(loss, run->lr, epoch, ++run->steps);
        loss_log_add(&loss_log, run->steps, loss);
        finish_on_interrupt(); // now there is something to keep
        total += loss * X->shape[0];
        images += X->shape[0];
        snprintf(text, sizeof text, "epoch %d/%d, loss %.3f", epoch + 1, flags.epochs, loss);
        progress_step(progress, text);
    }
    synchronize_all();
    return images ? total / (double)images : NAN;
}

// What must be the same for a training to go on to the same bits. The learning rate has as many
// digits as it takes to tell it from others.
static char *settings_of(const Run *run) {
    char lr[32];
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(lr, sizeof lr, "%.*g", digits, (double)run->lr);
        if (strtof(lr, NULL) == run->lr) break;
    }
    return xprintf("devices %d, batch size %d, lr %s, seed %llu, bn %s, allreduce %s, %d training "
                   "and %d test images (%08x, %08x) on %s%s",
                   run->k, run->batch_size, lr, (unsigned long long)flags.seed, flags.bn,
                   flags.allreduce, train_data->count, test_data->count,
                   dataset_checksum(train_data), dataset_checksum(test_data),
                   num_gpus() > 0 ? "GPUs" : "the CPU",
                   flags.shuffle ? "" : " in the order of the file");
}

static char *length_of_runs(void) {
    return flags.steps < 0 ? xprintf("--epochs %d", flags.epochs)
                           : xprintf("--epochs %d --steps %d", flags.epochs, flags.steps);
}

// How many minibatches a run has.
static long steps_with(int batches) {
    long steps = (long)batches * flags.epochs;
    return flags.steps >= 0 && flags.steps < steps ? flags.steps : steps;
}

static void save_checkpoint(const DataParallel *dp, int number, int epochs, Run *run) {
    bool more = number + 1 < num_runs;
    Checkpoint checkpoint = {
        .run = number,
        .epoch = epochs,
        .step = run->steps,
        .loss = xprintf("%.9g", (double)loss_log.rows[loss_log.count - 1].loss),
        .settings = settings_of(run),
        .length = length_of_runs(),
        .history = animator_rows(animator),
        .start = !start.from_file ? FROM_SEED
                 : more           ? START_HELD
                                  : FROM_FILE,
    };
    // First, as the training goes on only from where its losses are known.
    if (flags.log_loss && !is_written_directly(flags.log_loss))
        loss_log_write(&loss_log, flags.log_loss);
    checkpoint_save(flags.checkpoint, &checkpoint, &start, dp);
    checkpoint_close(&checkpoint);
    run->saved_epochs = epochs;
}

// What was known at the end of the last epoch before the training was stopped.
static void recall(Run *run) {
    animator_last(animator, run->k, &run->train_loss, &run->test_acc, &run->sec_per_epoch);
}

// Whether what follows is what would have followed.
static void check_resumed(const Run *run) {
    const char *hint = "give the flags of the run that wrote the checkpoint, and --resume";
    char *settings = settings_of(run), *length = length_of_runs();
    if (strcmp(settings, resumed.settings) != 0)
        die(hint, "%s: was written with %s; now: %s", flags.resume, resumed.settings, settings);
    if (resumed.run > 0 && strcmp(length, resumed.length) != 0)
        die(hint, "%s: the run before had %s; now: %s", flags.resume, resumed.length, length);
    int batches = (train_data->count + run->batch_size - 1) / run->batch_size;
    if (resumed.step != (long)resumed.epoch * batches)
        die("the file is damaged: go on from another checkpoint",
            "%s: %ld minibatches are not the %d epochs that it tells of", flags.resume,
            resumed.step, resumed.epoch);
    if (resumed.step > steps_with(batches))
        die("it is at an end: --load it with --steps 0 to evaluate it",
            "%s: is after minibatch %ld, %s ends before that", flags.resume, resumed.step, length);
    free(settings);
    free(length);
}

// Returns the epoch to go on with.
static int resume(DataParallel *dp, Run *run) {
    check_resumed(run);
    checkpoint_load(flags.resume, dp);
    run->steps = resumed.step;
    run->saved_epochs = resumed.epoch;
    recall(run);
    printf("going on after epoch %d of %s\n", resumed.epoch, flags.resume);
    return resumed.epoch;
}

static void print_memory(const Run *run) {
    double parameters = (double)parameter_bytes(net) / 1e6;
    printf("  memory of %s: %.1f MB of parameters, %.1f MB of gradients, %.0f MB of activations "
           "and\n    their gradients%s\n",
           run->k == 1 ? "the device" : "each device", parameters, parameters,
           (double)run->arena_bytes / 1e6, run->k == 1 ? "" : ", with the room for the exchange");
}

static void print_stopped(const Run *run) {
    if (!flags.checkpoint) return;
    if (run->saved_epochs > 0)
        printf("stopped; --resume %s goes on after epoch %d\n", flags.checkpoint,
               run->saved_epochs);
    else
        printf("stopped before the end of the first epoch: nothing to --resume of this run\n");
}

static void train_epochs(DataParallel *dp, int number, int first_epoch, Run *run) {
    DataIter *train_iter = data_iter_new(train_data, run->batch_size, flags.shuffle, flags.seed);
    DataIter *test_iter = data_iter_new(test_data, run->batch_size, false, 0);
    int batches = data_iter_batches(train_iter);
    long steps = steps_with(batches);
    Timer timer = {0};
    Progress progress = progress_start(steps - run->steps);
    for (int epoch = first_epoch; (run->steps < steps || steps == 0) && !interrupted(); epoch++) {
        ledger_reset();
        long steps_before = run->steps;
        timer_start(&timer);
        run->train_loss = train_epoch(dp, train_iter, epoch, run, &progress);
        double seconds = timer_stop(&timer);
        progress_clear(&progress);
        uint64_t bytes = ledger_bytes_between_devices();
        CHECK(bytes == step_bytes(dp) * (uint64_t)(run->steps - steps_before),
              "a step moved other bytes between the devices than the formula says: a bug in "
              "allreduce, batch norm or the ledger");
        if (interrupted()) break;
        if (epoch == first_epoch && steps > 0) print_memory(run);
        run->test_acc = evaluate_accuracy_gpus(dp, test_iter);
        if (interrupted() || steps == 0) break; // --steps 0 only evaluates
        double epochs = (double)run->steps / batches;
        printf("  epoch %2.3g: train loss %.3f, test acc %.3f, %.1f sec\n", epochs, run->train_loss,
               run->test_acc, seconds);
        animator_add(animator, run->k, epochs, run->train_loss, run->test_acc, seconds);
        run->sec_per_epoch = timer.sum / (epochs - first_epoch);
        bool whole = run->steps == (long)(epoch + 1) * batches; // --steps may end within an epoch
        if (flags.checkpoint && whole) save_checkpoint(dp, number, epoch + 1, run);
    }
    data_iter_free(train_iter);
    data_iter_free(test_iter);
}

// The book's train(net, num_gpus, batch_size, lr).
static void train(int number, Run *run) {
    Device *devices[MAX_DEVICES] = {NULL};
    for (int i = 0; i < run->k; i++) devices[i] = try_gpu(i);
    begin_again(net, &start);
    DataParallel dp = data_parallel(net, devices, run->k, batch_norm_mode(flags.bn));
    printf("training on %s: batch size %d, lr %g", device_names(devices, run->k), run->batch_size,
           (double)run->lr);
    printf(run->k > 1 ? ", batch norm's statistics: %s\n" : "\n", flags.bn);
    int first_epoch = flags.resume && number == resumed.run ? resume(&dp, run) : 0;
    run->bytes_per_step = step_bytes(&dp);
    train_epochs(&dp, number, first_epoch, run);
    if (!interrupted()) {
        printf("test acc: %.2f", run->test_acc);
        if (run->sec_per_epoch > 0) printf(", %.1f sec/epoch", run->sec_per_epoch);
        printf(" on %s\n", device_names(devices, run->k));
    }
    if (interrupted()) print_stopped(run);
    share_statistics(&dp); // Ctrl-C may have come before evaluation did
    if (flags.save) save_parameters(net, devices[0], flags.save);
}

// ## What the comparison shows

static void explain(const Run *one, const Run *two) {
    printf("\nWhat the comparison shows\n"
           "  Accuracy: %.3f on 1 device with minibatches of %d, %.3f on %d with minibatches of %d "
           "and twice\n"
           "    the learning rate: half as many updates, each at twice the rate.\n",
           one->test_acc, one->batch_size, two->test_acc, two->k, two->batch_size);
    if (one->sec_per_epoch > 0 && two->sec_per_epoch > 0)
        printf("  Time: an epoch on %d devices took %.2f times as long as on 1.%s\n", two->k,
               two->sec_per_epoch / one->sec_per_epoch,
               num_gpus() >= 2  ? ""
               : num_gpus() > 0 ? " They are queues on the same GPU."
                                : " They share the same cores.");
    printf("  Bytes: each step moved %llu bytes between the devices, as the formulas say.\n",
           (unsigned long long)two->bytes_per_step);
    printf("  Batch norm: in training each device used mean and variance of its own shard%s. The "
           "statistics that\n"
           "    the network is evaluated with: %s. (--bn local|rank0|averaged|sync; the book's "
           "PyTorch runs keep\n"
           "    those of device 0 only, and ended with 0.44 to 0.91 on 2 GPUs.)\n\n",
           strcmp(flags.bn, "sync") == 0 ? "s together" : "", flags.bn);
}

// ## How long, and how much of it

// The book's runs, and those for a machine without a GPU: small enough for a few minutes on two
// cores, large enough that the curves show something.
enum { QUICK_TRAIN = 2048, QUICK_TEST = 1000, QUICK_EPOCHS = 5, QUICK_BATCH = 16 };
static const float QUICK_LR = 0.025f;
enum { FULL_EPOCHS = 10, FULL_BATCH = 256 };
static const float FULL_LR = 0.1f;

// Seconds per image of training, from a small step that is forgotten afterwards.
static double seconds_per_image(void) {
    enum { IMAGES = 32 };
    Device *device = try_gpu(0);
    DataIter *iter = data_iter_new(train_data, IMAGES, false, 0);
    DataParallel dp = data_parallel(net, &device, 1, BN_LOCAL);
    Tensor *X, *y, *losses[MAX_DEVICES];
    Timer timer = {0};
    double fastest = INFINITY;
    data_iter_start(iter, 0);
    CHECK(data_iter_next(iter, &X, &y), "there is a minibatch");
    for (int i = 0; i < 2; i++) { // the first gets memory
        timer_start(&timer);
        train_step(&dp, X, y, 0, losses);
        fastest = fmin(fastest, timer_stop(&timer));
    }
    int images = X->shape[0];
    data_iter_free(iter);
    begin_again(net, &start);
    return fastest / images;
}

// Of all runs together; a forward pass is about a third of a training step.
static double hours_for(int runs, int epochs, int train_images, int test_images, double per_image) {
    return runs * epochs * (train_images + test_images / 3.0) * per_image / 3600;
}

static void say_quick(int runs) {
    enum { TRAIN = 60000, TEST = 10000 };
    double per_image = seconds_per_image();
    double hours = hours_for(runs, FULL_EPOCHS, TRAIN, TEST, per_image);
    double quick = hours_for(runs, flags.epochs, train_data->count, test_data->count, per_image);
    printf("quick: the first %d of %d training images and %d of %d test images, %d epoch%s, batch "
           "size %d: about %.0f minutes here; the full run (--full) would take about %.*f hours\n",
           train_data->count, TRAIN, test_data->count, TEST, flags.epochs,
           flags.epochs == 1 ? "" : "s", flags.batch_size, ceil(60 * quick), hours < 10, hours);
}

// What was not given on the command line.
static void choose_size(void) {
    if (flags.quick && flags.full) die_usage("give one of them", "--quick and --full");
    if (flags.load && flags.resume)
        die_usage("leave --load out: the checkpoint holds all that is needed",
                  "--load and --resume");
    bool quick = flags.quick || (!flags.full && num_gpus() == 0);
    flags.quick = quick;
    if (flags.batch_size == 0) flags.batch_size = quick ? QUICK_BATCH : FULL_BATCH;
    if (flags.lr < 0) flags.lr = quick ? QUICK_LR : FULL_LR;
    if (flags.epochs == 0) flags.epochs = quick ? QUICK_EPOCHS : FULL_EPOCHS;
    if (flags.train_size == 0 && quick) flags.train_size = QUICK_TRAIN;
    if (flags.test_size == 0 && quick) flags.test_size = QUICK_TEST;
}

// ## The program

static void open_outputs(void) {
    char *csv = flags.csv ? xstrdup(flags.csv) : out_file(flags.out, ".csv");
    char *png = out_file(flags.out, ".png");
    enum { SAVE = 3, CHECKPOINT, OUTPUTS };
    const char *outputs[OUTPUTS] = {csv, png, flags.log_loss, flags.save, flags.checkpoint};
    fashion_mnist_keep(flags.data, outputs, OUTPUTS);
    check_kept(flags.resume, outputs, CHECKPOINT); // the next checkpoint may replace it
    check_kept(flags.load, outputs, SAVE);         // at the end --save may replace it,
    check_kept(flags.load, outputs + CHECKPOINT, 1);
    make_directory(flags.out);
    check_outputs(outputs, OUTPUTS);
    animator = animator_new(csv, png, "training_curves.gp", flags.live);
    free(csv);
    free(png);
}

// Reads what the runs start from, and what a training that was stopped left.
static void open_start(void) {
    start = start_of(net);
    if (flags.load) load_start(&start, net, flags.load, false);
    if (!flags.resume) return;
    resumed = checkpoint_open(flags.resume);
    if (resumed.run >= num_runs || !animator_restore(animator, resumed.history))
        die("give the flags of the run that wrote the checkpoint, and --resume",
            "%s: is of another run", flags.resume);
    if (resumed.run + 1 == num_runs)
        start.from_file = resumed.start != FROM_SEED;
    else if (resumed.start == START_HELD)
        load_start(&start, net, flags.resume, true);
    else if (resumed.start == FROM_FILE)
        die("give --devices as the run that wrote it",
            "%s: is of a single run that began with --load: it does not hold the start of another",
            flags.resume);
    loss_log_restore(&loss_log, flags.log_loss, resumed.run, resumed.step, resumed.loss);
}

int main(int argc, char *argv[]) {
    Flags defaults = default_flags;
    defaults.batch_size = defaults.epochs = 0; // see choose_size()
    defaults.lr = -1;
    flags =
        parse_flags(argc, argv,
                    "Trains the book's ResNet-18 on k devices: first on 1, then on 2 with twice "
                    "the batch size\nand learning rate.",
                    "devices quick full batch-size lr epochs seed train-size test-size steps "
                    "no-shuffle allreduce bn data load save checkpoint resume log-loss csv live",
                    defaults);
    choose_allreduce(flags.allreduce);
    choose_size();
    if (flags.resume && !flags.checkpoint) flags.checkpoint = flags.resume;
    train_data = fashion_mnist_open(flags.data, true, flags.train_size);
    test_data = fashion_mnist_open(flags.data, false, flags.test_size);
    open_outputs();
    net = resnet18(FASHION_MNIST_CLASSES, 1);
    initialize(net, flags.seed);

    Run runs[2] = {{.k = 1, .batch_size = flags.batch_size, .lr = flags.lr},
                   {.k = 2, .batch_size = 2 * flags.batch_size, .lr = 2 * flags.lr}};
    num_runs = 2;
    if (flags.devices > 0) runs[0].k = flags.devices, num_runs = 1;
    open_start();
    if (num_gpus() == 0) warn_if_cpu_is_slow();
    if (flags.quick) say_quick(num_runs);
    print_network();
    demonstrate_initialization();
    for (int i = 0; i < num_runs && !interrupted(); i++)
        if (flags.resume && i < resumed.run)
            recall(&runs[i]);
        else
            train(i, &runs[i]);
    if (num_runs == 2 && !interrupted() && flags.steps != 0) explain(&runs[0], &runs[1]);

    checkpoint_close(&resumed);
    free_counts(&start.counts);
    animator_close(animator);
    loss_log_write(&loss_log, flags.log_loss);
    module_free(net);
    dataset_free(train_data);
    dataset_free(test_data);
    loss_log_free(&loss_log);
    devices_close();
    check_stdout();
    return interrupted() ? EXIT_INTERRUPTED : EXIT_SUCCESS;
}

// ## Summary
//
// - Modules hide how the parameters get onto the devices, not that they have to.
// - A wrapper for k devices is a page of code: split, forward, backward, allreduce, step.
// - Batch norm's statistics are the part of a network that "the same gradient" does not cover.
//   Somebody has to decide what they are when the network is evaluated.
// - The more a network computes for each of its parameters, the less the exchange of gradients
//   weighs.
//
// ## Exercises
//
// Solved in exercises/: make exercise-05-1 and so on. make exercises takes the solutions out.
//
// 1. Try other numbers of epochs, batch sizes and learning rates, and more devices. What happens
//    with 16?
// 2. Devices may differ in speed. How should the minibatch be split? Is it worth the effort?
// 3. What happens if we drop the wait at the end of each step? How would you let the devices have
//    up to two steps to work on?
