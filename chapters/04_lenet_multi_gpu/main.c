// # Multiple GPUs: training LeNet from scratch on k devices
//
// Book: "Training on Multiple GPUs" (multiple-gpus), from "A Toy Network" to "Training".
// Difficulty: ★★☆☆
//
// What you will learn
//   - how one training step is spread over k devices by splitting the data: split the minibatch, compute
//     on each device, sum the gradients over the devices (allreduce), update each copy of the parameters;
//   - that k devices compute what one computes;
//   - when more devices are faster, and when they are not.
//
// How to run
//   make lenet                                        the book's two runs: 1 device, then 2
//   build/04_lenet_multi_gpu --devices 4 --epochs 3   one run, on 4 devices
//   build/04_lenet_multi_gpu --help                   all flags
//
// What you will see: a line per epoch, the book's last line of each run, a comparison in words, and in
// plots/ the curves, the filters that were learned, and what the network says of 40 test images.
//
// Read in this order: lenet.c (the network, train_batch), then train() here. get_params and allreduce are
// explained in chapter 2, split_batch in chapter 3.
#include "../../common/animator.h"
#include "../../common/error.h"
#include "../../common/evaluate.h"
#include "../../common/file.h"
#include "../../common/flags.h"
#include "../../common/interrupt.h"
#include "../../common/progress.h"
#include "../../common/safetensors.h"
#include "../../common/timer.h"
#include "../02_get_params_and_allreduce/allreduce.h"
#include "../02_get_params_and_allreduce/get_params.h"
#include "lenet.h"
#include "pictures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// What the book's notebook keeps in global variables.
static Flags flags;
static Tensor *params[LENET_PARAMS];  // the common start of all runs, on the host
static Tensor *trained[LENET_PARAMS]; // where the last run ended, on the host
static Dataset *train_data, *test_data;
static DataIter *train_iter, *test_iter;
static Animator *animator;
static float *step_losses; // mean loss of each minibatch, of all runs, for --log-loss
static long num_step_losses;

// What there is to say about a run.
typedef struct Result {
    int k, epochs;                 // devices; epochs that were finished
    double test_acc, sec_per_epoch;
    double bytes_between_devices;  // per step
    float *params;                 // where it ended: all parameters, one behind the other
} Result;

static size_t bytes_of_params(void) {
    size_t bytes = 0;
    for (int i = 0; i < LENET_PARAMS; i++) bytes += tensor_bytes(params[i]);
    return bytes;
}

// ## Training

// The mean loss of a minibatch of n images: the summed losses of the shards, divided once.
static double mean_loss(Tensor *const losses[], int k, int n) {
    double total = 0;
    for (int i = 0; i < k; i++) total += (double)item(losses[i]);
    return total / n;
}

static void write_step_losses(void);

static void check_loss(double loss, int epoch, long step) {
    if (isfinite(loss)) return;
    animator_close(animator); // the epochs before this one stay
    write_step_losses();
    die("start again with a smaller --lr", "the loss became %f at step %ld (epoch %d) with lr %g", loss, step,
        epoch + 1, (double)flags.lr);
}

static void log_loss(double loss) {
    if ((num_step_losses & (num_step_losses - 1)) == 0) // room for 1, 2, 4, 8, ...
        step_losses = xrealloc(step_losses, sizeof *step_losses * (unsigned long)(2 * num_step_losses + 1));
    step_losses[num_step_losses++] = (float)loss;
}

// One pass over the training set, or less if --steps or Ctrl-C ends it. Returns the mean loss.
static double train_epoch(int epoch, Tensor *device_params[][LENET_PARAMS], Device *const devices[], int k,
                          long *step, Progress *progress) {
    Tensor *X, *y, *losses[MAX_DEVICES];
    double total = 0;
    long images = 0;
    char text[80];
    data_iter_start(train_iter, epoch);
    while (*step != flags.steps && !interrupted() && data_iter_next(train_iter, &X, &y)) {
        // Perform multi-device training for a single minibatch
        train_batch(X, y, device_params, devices, k, flags.lr, losses);
        synchronize_all();

        double loss = mean_loss(losses, k, X->shape[0]);
        check_loss(loss, epoch, ++*step);
        log_loss(loss);
        total += loss * X->shape[0];
        images += X->shape[0];
        snprintf(text, sizeof text, "epoch %d/%d, loss %.3f", epoch + 1, flags.epochs, loss);
        progress_step(progress, text);
    }
    return images ? total / (double)images : NAN;
}

// Copies the parameters to `trained`, and into one array to compare runs by. The caller frees it.
static float *keep_params(Tensor *const from[]) {
    float *values = xmalloc(bytes_of_params()), *next = values;
    for (int i = 0; i < LENET_PARAMS; i++) {
        tensor_copy(trained[i], from[i]);
        tensor_read(trained[i], next);
        next += numel(trained[i]);
    }
    return values;
}

static Result train(int num_gpus, int batch_size, float lr) {
    Device *devices[MAX_DEVICES] = {NULL};
    for (int i = 0; i < num_gpus; i++) devices[i] = try_gpu(i);
    share_cores(devices, num_gpus);

    // Copy model parameters to `num_gpus` devices
    Tensor *device_params[MAX_DEVICES][LENET_PARAMS];
    for (int i = 0; i < num_gpus; i++) get_params(params, LENET_PARAMS, devices[i], device_params[i]);

    int batches = data_iter_batches(train_iter);
    long step = 0, steps = (long)batches * flags.epochs;
    if (flags.steps >= 0 && flags.steps < steps) steps = flags.steps;
    printf("training on %s: batch size %d, lr %g, %ld minibatches\n", device_names(devices, num_gpus), batch_size,
           (double)lr, steps);

    Result result = {.k = num_gpus};
    Timer timer = {0};
    Progress progress = progress_start(steps);
    ledger_reset();
    for (int epoch = 0; step < steps && !interrupted(); epoch++) {
        timer_start(&timer);
        double train_loss = train_epoch(epoch, device_params, devices, num_gpus, &step, &progress);
        double seconds = timer_stop(&timer);
        progress_clear(&progress);
        if (interrupted()) break;
        // Evaluate the model on device 0
        result.test_acc = evaluate_accuracy_gpu(lenet, device_params[0], test_iter, devices[0]);
        result.epochs++;
        printf("  epoch %2d: train loss %.3f, test acc %.3f, %.1f sec\n", epoch + 1, train_loss, result.test_acc, seconds);
        animator_add(animator, num_gpus, (double)step / batches, train_loss, result.test_acc, seconds);
    }
    if (steps == 0) result.test_acc = evaluate_accuracy_gpu(lenet, device_params[0], test_iter, devices[0]);
    result.sec_per_epoch = timer_avg(&timer);
    result.bytes_between_devices = step ? (double)ledger_bytes_between_devices() / (double)step : 0;
    if (!interrupted())
        printf("test acc: %.2f, %.1f sec/epoch on %s\n", result.test_acc, result.sec_per_epoch,
               device_names(devices, num_gpus));

    result.params = keep_params(device_params[0]);
    for (int i = 0; i < num_gpus; i++) free_params(device_params[i], LENET_PARAMS);
    return result;
}

// ## What the comparison shows

static void explain_accuracy(const Result *one, const Result *two) {
    double largest = 0;
    for (size_t i = 0; i < bytes_of_params() / sizeof(float); i++)
        largest = fmax(largest, fabs((double)one->params[i] - (double)two->params[i]));
    printf("  Accuracy: %.4f on 1 device, %.4f on %d. Both runs take the same steps: the gradients of the\n"
           "    shards add up to the gradient of the whole minibatch.\n", one->test_acc, two->test_acc, two->k);
    if (largest == 0)
        printf("    Here even the order of additions is the same (the sum over a minibatch is a tree, and each\n"
               "    device computes one half of it), so the parameters of both runs are equal to the bit.\n");
    else
        printf("    The parameters differ by up to %.2g. That comes from the order in which numbers are added,\n"
               "    at first in the seventh digit; training makes such differences grow, most while the loss\n"
               "    falls steeply, so the curves may part a little, and come together again.\n", largest);
}

static void explain_time(const Result *one, const Result *two) {
    double ratio = two->sec_per_epoch / one->sec_per_epoch;
    printf("  Time: an epoch on %d devices took %.2f times as long as on 1.\n", two->k, ratio);
    if (num_gpus() == 0)
        printf("    The devices are workers that share the same %d cores: the same arithmetic on the same cores, so\n"
               "    about 1.00 is to be expected. The exchange of gradients adds to it, smaller pieces of work may\n"
               "    save, and what else the machine was doing counts too.\n", num_threads());
    else if (num_gpus() < two->k)
        printf("    The devices are %d queues on %d GPU: no more arithmetic per second, only more exchange.\n", two->k,
               num_gpus());
    else if (ratio > 0.9)
        printf("    Each GPU has half the images, but LeNet is so small that starting kernels and exchanging\n"
               "    gradients takes longer than the arithmetic that is saved.\n");
    else
        printf("    Each GPU has half the images, and that outweighs the exchange of gradients.\n");
}

// The book: "test accuracy is basically the same ... there is no meaningful speedup". Here with our figures.
static void explain(const Result *one, const Result *two) {
    printf("\nWhat the comparison shows\n");
    explain_accuracy(one, two);
    explain_time(one, two);
    double bytes = (double)bytes_of_params();
    printf("  Bytes: each step moved %.0f bytes between the devices. The formula for an allreduce (%s), 2 (k-1)\n"
           "    times the %.0f bytes of the parameters, says %.0f.\n\n",
           two->bytes_between_devices, flags.allreduce, bytes, 2 * (two->k - 1) * bytes);
}

// ## Files

static char *out_file(const char *suffix) {
    char *name = xprintf("%s%s", program_name(), suffix), *path = path_join(flags.out, name);
    free(name);
    return path;
}

static void write_step_losses(void) {
    if (!flags.log_loss) return;
    OutputFile file = output_open(flags.log_loss);
    long batches = (long)data_iter_batches(train_iter) * flags.epochs;
    long steps_per_run = flags.steps >= 0 && flags.steps < batches ? flags.steps : batches;
    fprintf(file.stream, "step,loss\n");
    for (long i = 0; i < num_step_losses; i++)
        fprintf(file.stream, "%ld,%.9g\n", i % steps_per_run + 1, (double)step_losses[i]);
    output_close(&file);
}

// Ten epochs are not to end at a folder that cannot be written: opening the files at once tells.
static void check_outputs(const char *csv) {
    const char *paths[] = {csv, flags.save, flags.log_loss};
    make_directory(flags.out);
    for (int i = 0; i < 3; i++) {
        if (!paths[i]) continue;
        OutputFile file = output_open(paths[i]);
        output_abandon(&file);
    }
}

static void draw_pictures(void) {
    char *filters = out_file("_filters.png"), *predictions = out_file("_predictions.png");
    draw_filters(filters, trained, test_data, try_gpu(0));
    draw_predictions(predictions, trained, test_data, try_gpu(0));
    printf("filters: %s, predictions: %s\n", filters, predictions);
    free(filters);
    free(predictions);
}

// ## The program

static void prepare(void) {
    char *csv = flags.csv ? xstrdup(flags.csv) : out_file(".csv"), *png = out_file(".png");
    train_data = fashion_mnist_open(flags.data, true, flags.train_size);
    test_data = fashion_mnist_open(flags.data, false, 0);
    train_iter = data_iter_new(train_data, flags.batch_size, flags.shuffle, flags.seed);
    test_iter = data_iter_new(test_data, 256, false, 0);
    lenet_init(params, flags.seed);
    if (flags.load) safetensors_load(flags.load, params, LENET_PARAMS);
    for (int i = 0; i < LENET_PARAMS; i++) trained[i] = tensor_to(params[i], host());
    check_outputs(csv);
    animator = animator_new(csv, png, "training_curves.gp", flags.live);
    free(csv);
    free(png);
}

static void clean_up(void) {
    data_iter_free(train_iter);
    data_iter_free(test_iter);
    dataset_free(train_data);
    dataset_free(test_data);
    free_params(params, LENET_PARAMS);
    free_params(trained, LENET_PARAMS);
    free(step_losses);
    autograd_close();
    devices_close();
}

int main(int argc, char *argv[]) {
    flags = parse_flags(argc, argv, "Trains the book's LeNet on k devices: first on 1, then on 2.", default_flags);
    choose_allreduce(flags.allreduce);
    catch_interrupts();
    prepare();

    if (flags.devices > 0) {
        free(train(flags.devices, flags.batch_size, flags.lr).params);
    } else {
        Result one = train(1, flags.batch_size, flags.lr), two = {.params = NULL};
        if (!interrupted()) two = train(2, flags.batch_size, flags.lr);
        if (!interrupted() && one.epochs > 0) explain(&one, &two);
        free(one.params);
        free(two.params);
    }

    animator_close(animator); // first: if one of the next two fails, no gnuplot is still drawing
    write_step_losses();
    if (flags.save) safetensors_save(flags.save, trained, LENET_PARAMS);
    if (!interrupted()) draw_pictures();
    clean_up();
    return interrupted() ? EXIT_INTERRUPTED : EXIT_SUCCESS;
}

// ## Summary
//
// - The data are split over the devices: each runs forward and backward on its shard, then gradients are
//   summed and sent back (allreduce), and each device updates its own copy of the parameters.
// - Gradients are sums over rows, so shards of unequal size need no care: one division, by the full size of
//   the minibatch, at the end.
// - The algorithm is that of one device. What k devices change is time, memory per device, and bytes moved.
// - With larger minibatches more devices have more to do; then a somewhat larger learning rate may help.
//
// ## Exercises
//
// 1. When training on k devices, change the minibatch size from b to k*b.
// 2. Compare accuracy for different learning rates. How does it change with the number of devices?
// 3. Write a more efficient allreduce, which sums different parameters on different devices. Why is it more
//    efficient?
// 4. Compute the test accuracy on all devices.
