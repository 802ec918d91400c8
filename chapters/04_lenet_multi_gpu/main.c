// main.c: the story of chapter 4. README.md says how to run it and what to read.
#include "common/program/book.h"
#include "common/program/interrupt.h"
#include "common/program/plot.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "common/program/training.h"
#include "common/device/cpu_speed.h"
#include "common/model/modelled_clock.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/data/evaluate.h"
#include "common/data/safetensors.h"
#include "common/tensor/step_graph.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "compare.h"
#include "lenet.h"
#include "modelled.h"
#include "pictures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// What the book's notebook keeps in global variables.
static Flags flags;
static const char *graph = "on";
static const Flag own_flags[] = {
    {"graph", FLAG_CHOICE, &graph, "G", .help = "GPUs launch a step as a whole: on or off",
     .choices = "on|off"},
    {0},
};
static Tensor *params[LENET_PARAMS];  // the common start of all runs, on the host
static Tensor *trained[LENET_PARAMS]; // where the last run ended, on the host
static Dataset *train_data, *test_data;
static Animator *animator; // NULL if there are no values to draw
static LossLog loss_log;

// ## Data parallelism
//
// Each of k devices holds a whole copy of the model's parameters, a *replica*. All replicas start
// equal, and each step of training keeps them equal:
//
// 1. A random *minibatch*, the images of one step, is split into k parts, the *shards*, one for
//    each device. They are as equal in size as possible.
// 2. Each device computes the loss and the gradient of its shard, with its own replica.
// 3. The gradients of the k devices are summed. The sum is the gradient of the whole minibatch.
// 4. The sum is sent back to each device. (Steps 3 and 4 together are an *allreduce*.)
// 5. Each device updates its replica with this gradient.
//
// The same five numbers stand in `train_batch()`, which is one such step:
//
// lenet.c:train_batch
//
// With k = 2 and the book's minibatch of 256 images, as in the book's figure:
//
//                     minibatch: 256 images, on the host
//                                       |
//                          +------------+------------+
//     1 split          128 images               128 images
//                          |                         |
//                      device 0                  device 1
//                      parameters    (equal)     parameters
//                          |                         |
//     2 compute      loss, gradient            loss, gradient
//                          +------------+------------+
//                                       |
//     3 sum                   the sum, on device 0
//                                       |
//                          +------------+------------+
//     4 send back       the sum                   the sum
//                          |                         |
//     5 update         parameters    (equal)     parameters
//
// The same step in time, from left to right. The host only puts this work on the devices' queues;
// the devices work side by side until one needs something from the other.
//
//     device 0   | 1 | 2 forward, backward | 3 add   | 4 send    | 5 update |
//     device 1   | 1 | 2 forward, backward | 3 send  | 4 receive | 5 update |

// ## Training
//
// `train()` is the book's: it copies the parameters to all devices, takes `train_batch()` for each
// minibatch, and after each epoch evaluates the network on device 0 while the others are idle,
// which is simple but wasteful (exercise 4). `train_epochs()`, in `common/program/training.c`, is
// the loop over epochs and minibatches; it calls `step()` and `accuracy()`.

static void print_run(Device *const devices[], int k, int batch_size, float lr, int batches) {
    long steps = training_steps(&flags, batches);
    int rows = batch_size < train_data->count ? batch_size : train_data->count;
    printf("training on %s: batch size %d, lr %g, %ld minibatch%s\n", device_names(devices, k),
           rows, (double)lr, steps, steps == 1 ? "" : "es");
    if (k > rows)
        say("  A minibatch has %d images, so only %d of the %d devices have any. The others "
            "compute nothing, but take part in each exchange of gradients.",
            rows, rows, k);
}

// When a run is over, its parameters are kept to compare runs by, and the bytes that crossed
// between the devices must be those of the formula.
static Result result_of(const Training *t, Tensor *const from[]) {
    Result result = {.t = *t, .bytes_between = ledger_bytes_between_devices()};
    for (int i = 0; i < LENET_PARAMS; i++) tensor_copy(trained[i], from[i]);
    result.params = values_of_all(trained, LENET_PARAMS, &result.num_params);
    CHECK(result.bytes_between == bytes_per_step(&result) * (uint64_t)t->steps,
          "a step moved other bytes between the devices than the formula says: a bug in allreduce "
          "or in the ledger");
    return result;
}

static Tensor *device_params[MAX_DEVICES][LENET_PARAMS];
static DataIter *test_iter;

// Perform multi-device training for a single minibatch: train_batch(), which GPUs launch as a whole
static void step(Training *t, const Tensor *X, const Tensor *y, Tensor *losses[]) {
    train_batch_as_graph(X, y, device_params, t->devices, t->k, t->lr, losses);
}

// Evaluate the model on device 0
static double accuracy(Training *t) {
    return evaluate_accuracy_gpu(lenet, device_params[0], test_iter, t->devices[0]);
}

static Result train(int num_gpus, int batch_size, float lr) {
    DataIter *train_iter = data_iter_new(train_data, batch_size, flags.shuffle, flags.seed);
    Device *devices[MAX_DEVICES] = {NULL};
    test_iter = data_iter_new(test_data, 256, false, 0);
    open_devices(devices, num_gpus);
    print_run(devices, num_gpus, batch_size, lr, data_iter_batches(train_iter));

    // Copy model parameters to `num_gpus` devices
    for (int i = 0; i < num_gpus; i++)
        get_params(params, LENET_PARAMS, devices[i], device_params[i]);

    Training t = {.flags = &flags,
                  .animator = animator,
                  .log = &loss_log,
                  .iter = train_iter,
                  .devices = devices,
                  .k = num_gpus,
                  .lr = lr,
                  .hint = "start again with a smaller --lr; no parameters were saved",
                  .step = step,
                  .accuracy = accuracy};
    ledger_reset();
    train_epochs(&t);

    Result result = result_of(&t, device_params[0]);
    for (int i = 0; i < num_gpus; i++) free_params(device_params[i], LENET_PARAMS);
    data_iter_free(train_iter);
    data_iter_free(test_iter);
    return result;
}

// ## One device, then two
//
// The book's experiment: 256 images in a minibatch, a learning rate of 0.2, first on one device,
// then on two. Both runs see the same minibatches in the same order. So each line of the second run
// can be compared with that of the first one, the parameters at the end, too.
//
// Do not worry about epoch 1 (and perhaps 2), where the loss stays at 2.303 and the accuracy at
// 0.1. All weights start from random numbers of about 0.01, and all biases from zero. Each layer
// multiplies by such small weights, so the scores of the ten classes are nearly zero, whatever the
// image; each class gets a probability of 1/10, and the loss is $-\ln(1/10) = \ln 10 = 2.303$.
// The gradient of a weight is a product that contains small numbers from the other layers, so it is
// tiny, too, and the first steps change hardly anything. Meanwhile the network gives nearly all
// images the same class: it is right for one in ten. Once the weights have grown, the loss falls
// steeply.

static void train_on_one_and_on_two(void) {
    Prediction time = {0}, bits = {0};
    if (flags.backend != BACKEND_MODEL) {
        time = predict_first(
            "The same training is run on one device of this computer, then on two, with the same "
            "minibatches. How many times as long does an epoch take on two? (1 is just as long, "
            "0.5 half as long.)");
        bits = predict_yes_no(
            "The same training is run on one device of this computer, then on two, with the same "
            "minibatches. Are the parameters of both equal to the last bit at the end?");
    }
    Result one = train(1, flags.batch_size, flags.lr), two = {0};
    if (!interrupted()) two = train(2, flags.batch_size, flags.lr);
    if (!interrupted() && one.t.steps > 0) {
        double times = explain(&one, &two);
        if (!isnan(times)) predict_compare(time, times, "times as long");
        predict_compare_yes_no(bits, equal_to_the_bit(&one, &two));
        if (!one.t.no_values)
            book_result("test acc %.2f on 1 device and %.2f on 2; parameters %s", one.t.test_acc,
                        two.t.test_acc,
                        equal_to_the_bit(&one, &two) ? "equal to the bit"
                                                     : "equal but for rounding");
    }
    free(one.params);
    free(two.params);
}

// With `--devices` there is one run, on as many devices.
static void train_once(void) { free(train(flags.devices, flags.batch_size, flags.lr).params); }

// ## The curves
//
// ![Both runs after each epoch. They make the same steps, so their curves should lie on each other,
// but for what the order of additions changes in the last digits.](plots/04_lenet_multi_gpu.png
// "Two panels over the epochs: training loss on the left, test accuracy on the right. A thick line
// for one device and a thin one for two lie on each other. The loss stays at its start for an
// epoch, then falls steeply, then slowly; the accuracy rises from 0.1 accordingly.")

static void write_curves(void) {
    if (animator) animator_close(animator);
    loss_log_write(&loss_log, flags.log_loss);
    if (flags.save) safetensors_save(flags.save, trained, LENET_PARAMS);
}

// ## What GPUs would do
//
// In the book two GPUs were hardly faster than one, or even slower. Why? You may have no GPU to
// find out, so a simulation tells the time of one: it knows how long each kernel, copy and launch
// takes on a stated machine (`--machine`, chapter 0). To *launch* a kernel is to ask a GPU for it,
// and that is work of the host. The table has three ways to do it: one kernel after the other, as
// this program does; a whole step at once, as a *CUDA graph*, which the GPU has recorded before;
// and one after the other by a framework written in Python, which takes longer for each launch.
//
// ![An epoch on 1 to 8 modelled GPUs, launched in three ways. Where the triangle, the time of the
// launches alone, is as high as the bar, the GPUs wait for the
// host.](plots/04_lenet_multi_gpu_modelled.png "Three panels of bars, each with its own scale:
// without CUDA graphs, with them, and by a framework's launches. Devices 1, 2, 4 and 8 on the
// horizontal axis, modelled seconds of an epoch on the vertical one; the upper part of each bar is
// the exchange of gradients. Without graphs two devices are fastest and eight are slowest. With
// graphs the lower part shrinks and the exchange grows, so eight are hardly faster than two. By a
// framework, each doubling takes about twice as long, and all triangles are at the top.")

static bool has_two_runs; // without --devices
static const char *modelled_csv, *modelled_png;

static void compare_modelled_epochs(void) {
    if (!modelled_csv) return;
    Prediction expected = predict_first(
        "A framework written in Python trains LeNet on the GPUs of the modelled machine (a DGX "
        "A100, if you have not chosen another with --machine), first on one, then on two, with the "
        "same minibatches. How many times as long does an epoch take on two?");
    int images = train_data->count;
    int batch_size = flags.batch_size < images ? flags.batch_size : images;
    ModelledEpochs m = model_epochs(images, batch_size, graph);
    print_modelled_epochs(&m);
    if (m.num_counts > 1)
        predict_compare(expected,
                        m.epoch[BY_FRAMEWORK][1].seconds / m.epoch[BY_FRAMEWORK][0].seconds,
                        "times as long");
    explain_modelled_epochs(&m);
    OutputFile csv = output_open(modelled_csv);
    write_modelled_epochs(csv.stream, &m);
    output_close(&csv);
    if (plot_draw(modelled_png, "lenet_modelled.gp", modelled_csv))
        printf("modelled epochs: %s, figures: %s\n", modelled_png, modelled_csv);
}

// ## What the network has learned
//
// The first layer of LeNet has 20 *filters* of 3x3 weights.
//
// ![The filters, and beside each a test image as that filter sees it. Look for filters that react
// to edges, and for some that have hardly learned anything: the number below says how large the
// weights are.](plots/04_lenet_multi_gpu_filters.png "Twenty pairs of a 3x3 filter and a shoe seen
// through it, blue for negative and red for positive. Most filters show the whole shoe evenly,
// lighter or darker than the background; a few show mainly its outline.")
//
// ![The first test images with the class that the network gives them. Frames mark its mistakes:
// would you have made them, too?](plots/04_lenet_multi_gpu_predictions.png "Forty small images of
// clothes in five rows, each with a class below it. Where the class is wrong, frame and class are
// red and the right class stands below. Most mistakes are between shirts, coats and dresses, or
// between kinds of shoes.")

static const char *filters_png, *predictions_png;

static void draw_pictures(void) {
    if (!filters_png) return;
    draw_filters(filters_png, trained, test_data, try_gpu(0));
    draw_predictions(predictions_png, trained, test_data, try_gpu(0));
    printf("filters: %s, predictions: %s\n", filters_png, predictions_png);
}

// ## Summary
//
// - The data are split over the devices: each goes forward and backward with its shard, then the
//   gradients are summed and sent back (allreduce), and each device updates its own copy of the
//   parameters.
// - Gradients are sums over images, so shards of unequal size need no care: there is one division,
//   by the full size of the minibatch, at the end.
// - The algorithm is that of one device. What k devices change is the time, the memory per device,
//   and the bytes that move.
// - LeNet is small. A framework's host needs longer to launch its kernels than a GPU to run them,
//   and one host thread launches for all devices. A CUDA graph launches a whole step at once; what
//   remains are the kernels, which the devices share, and the exchange, which grows.
// - With larger minibatches more devices have enough to do. Then a somewhat larger learning rate
//   may help.
//
// ## Questions
//
// 1. After step 5 of a training step, do the two devices need to send each other their parameters?
//    Why, or why not?
// 2. Three devices split a minibatch of 256 images into 86, 85 and 85. Each device could take the
//    *mean* of its gradients, and one could then take the mean of the three. Why does this program
//    sum, and divide by 256 once?
// 3. The minibatch is doubled, to 512 images. How many bytes does a step then move between two
//    devices? Check it with `--batch-size 512 --epochs 1`.
// 4. In the table of modelled times, look at the column of a framework's launches. One host thread
//    launches the kernels of all devices. Why do more devices make the epoch longer there, although
//    each has fewer images?
// 5. With CUDA graphs, the share of the exchange grows from 2 to 8 devices. Which part of a step
//    becomes shorter with more devices, and which does not?

// ## Exercises
//
// Each has a folder in `exercises/`, with a place for your part and a check: `make exercise-04-1`,
// and so on. They are the book's.
//
// 1. When training on k devices, change the minibatch size from b to k*b.
// 2. Compare the accuracy of different learning rates. How does it change with the number of
//    devices?
// 3. Write a more efficient `allreduce`, which sums different parameters on different devices. Why
//    is it more efficient?
// 4. Compute the test accuracy on all devices.

// ## The program

static void name_outputs(void) {
    bool has_pictures = flags.backend != BACKEND_MODEL;
    const char *csv = has_pictures ? book_csv(".csv") : NULL;
    const char *png = has_pictures ? book_output(".png") : NULL;
    filters_png = has_pictures ? book_output("_filters.png") : NULL;
    predictions_png = has_pictures ? book_output("_predictions.png") : NULL;
    bool has_modelled = has_two_runs && modelled_machine() && flags.steps != 0;
    modelled_csv = has_modelled ? book_output("_modelled.csv") : NULL;
    modelled_png = has_modelled ? book_output("_modelled.png") : NULL;
    book_check_outputs();
    if (has_pictures) animator = animator_new(csv, png, "training_curves.gp", flags.live);
}

static void prepare(void) {
    train_data = fashion_mnist_open(flags.data, true, flags.train_size);
    test_data = fashion_mnist_open(flags.data, false, flags.test_size);
    lenet_init(params, flags.seed);
    if (flags.load) safetensors_load(flags.load, params, LENET_PARAMS);
    for (int i = 0; i < LENET_PARAMS; i++) trained[i] = tensor_to(params[i], host());
    name_outputs();
}

static void clean_up(void) {
    dataset_free(train_data);
    dataset_free(test_data);
    free_params(params, LENET_PARAMS);
    free_params(trained, LENET_PARAMS);
    loss_log_free(&loss_log);
}

int main(int argc, char *argv[]) {
    Flags defaults = default_flags;
    defaults.next = "make exercise-04-1, or make run-05";
    defaults.own = own_flags;
    defaults.quick_means = "--batch-size 64 --epochs 5 --train-size 16384 --test-size 2000";
    flags = book_begin(argc, argv,
                       "Trains the book's LeNet on k devices: first on 1, then on 2.\n"
                       "With --devices K: once, on K devices.",
                       "devices batch-size lr epochs seed train-size test-size steps no-shuffle "
                       "allreduce data load save log-loss csv live",
                       defaults);
    has_two_runs = flags.devices == 0;
    book_needs_devices(has_two_runs ? 2 : flags.devices);
    choose_allreduce(flags.allreduce);
    choose_graph(graph);
    prepare();
    if (num_gpus() == 0 && flags.backend != BACKEND_MODEL) warn_if_cpu_is_slow();

    if (has_two_runs)
        train_on_one_and_on_two();
    else
        train_once();
    write_curves();
    if (!interrupted()) compare_modelled_epochs();
    if (!interrupted()) draw_pictures();
    clean_up();
    return book_end();
}
