// # Multiple GPUs: training LeNet from scratch on k devices
//
// Book: "Training on Multiple GPUs" (multiple-gpus), from "A Toy Network" to "Training".
// Difficulty: ★★☆☆
//
// What you will learn
//   - how one training step is spread over k devices by splitting the data: split the minibatch,
//     compute on each device, sum the gradients over the devices (allreduce), update each copy of
//     the parameters;
//   - that k devices compute what one computes;
//   - when more devices are faster, and when they are not: measured here, and modelled for GPUs.
//
// How to run
//   make lenet                                        the book's two runs: 1 device, then 2
//   build/04_lenet_multi_gpu --devices 4 --epochs 3   one run, on 4 devices
//   build/04_lenet_multi_gpu --threads-per-device 1   1 core, then 2: a speed-up on a CPU
//   build/04_lenet_multi_gpu --backend model --machine dgx-h100 --devices 64 --steps 20
//                                                     no values, but how long it would take there
//   build/04_lenet_multi_gpu --help                   all flags
//
// What you will see: a line per epoch, the book's last line of each run, a comparison in words, how
// long an epoch would take on 1 to 8 GPUs (--machine says which), and in plots/ the curves, the
// filters that were learned, and what the network says of 40 test images.
//
// Read in this order: lenet.c (the network, train_batch), then train() here. get_params and
// allreduce are explained in chapter 2, split_batch in chapter 3, modelled time in modelled.h. What
// next_epoch() and its like do besides counting, common/program/training.h says.
#include "common/program/book.h"
#include "common/program/interrupt.h"
#include "common/program/plot.h"
#include "common/program/training.h"
#include "common/device/cpu_speed.h"
#include "common/device/modelled_clock.h"
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
static Tensor *params[LENET_PARAMS];  // the common start of all runs, on the host
static Tensor *trained[LENET_PARAMS]; // where the last run ended, on the host
static Dataset *train_data, *test_data;
static Animator *animator; // NULL if there are no values to draw
static LossLog loss_log;

// ## Training

static void print_run(Device *const devices[], int k, int batch_size, float lr, int batches) {
    long steps = training_steps(&flags, batches);
    printf("training on %s: batch size %d, lr %g, %ld minibatch%s\n", device_names(devices, k),
           batch_size < train_data->count ? batch_size : train_data->count, (double)lr, steps,
           steps == 1 ? "" : "es");
}

// What is known of a run when it is over. Keeps the parameters, in `trained` and, to compare runs
// by, in one array; and checks that the bytes that crossed between the devices are those of the
// formula.
static Result result_of(const Training *t, Tensor *const from[]) {
    Result result = {.k = t->k,
                     .threads_per_device = flags.threads_per_device,
                     .no_values = !has_values(from[0]->device),
                     .steps = t->steps,
                     .test_acc = t->test_acc,
                     .sec_per_epoch = t->sec_per_epoch,
                     .modelled_sec_per_epoch = t->modelled_sec_per_epoch,
                     .bytes_between = ledger_bytes_between_devices()};
    for (int i = 0; i < LENET_PARAMS; i++) tensor_copy(trained[i], from[i]);
    result.params = values_of_all(trained, LENET_PARAMS, &result.num_params);
    CHECK(result.bytes_between == bytes_per_step(&result) * (uint64_t)result.steps,
          "a step moved other bytes between the devices than the formula says: a bug in allreduce "
          "or in the ledger");
    return result;
}

static Result train(int num_gpus, int batch_size, float lr) {
    DataIter *train_iter = data_iter_new(train_data, batch_size, flags.shuffle, flags.seed);
    DataIter *test_iter = data_iter_new(test_data, 256, false, 0);
    Device *devices[MAX_DEVICES] = {NULL};
    open_devices(devices, num_gpus);
    print_run(devices, num_gpus, batch_size, lr, data_iter_batches(train_iter));

    // Copy model parameters to `num_gpus` devices
    Tensor *device_params[MAX_DEVICES][LENET_PARAMS];
    for (int i = 0; i < num_gpus; i++)
        get_params(params, LENET_PARAMS, devices[i], device_params[i]);

    Training t = {.flags = &flags,
                  .animator = animator,
                  .log = &loss_log,
                  .iter = train_iter,
                  .k = num_gpus,
                  .lr = lr,
                  .hint = "start again with a smaller --lr; no parameters were saved"};
    Tensor *X, *y, *losses[MAX_DEVICES];
    training_start(&t);
    ledger_reset();
    while (next_epoch(&t)) {
        while (next_batch(&t, &X, &y)) {
            // Perform multi-device training for a single minibatch
            train_batch(X, y, device_params, devices, num_gpus, lr, losses);
            end_batch(&t, losses); // waits for all devices
        }
        if (interrupted()) break;
        // Evaluate the model on device 0
        end_epoch(&t, evaluate_accuracy_gpu(lenet, device_params[0], test_iter, devices[0]));
    }
    training_end(&t, devices);

    Result result = result_of(&t, device_params[0]);
    for (int i = 0; i < num_gpus; i++) free_params(device_params[i], LENET_PARAMS);
    data_iter_free(train_iter);
    data_iter_free(test_iter);
    return result;
}

static void train_on_one_and_on_two(void) {
    Result one = train(1, flags.batch_size, flags.lr), two = {.k = 2};
    if (!interrupted()) two = train(2, flags.batch_size, flags.lr);
    if (!interrupted() && one.steps > 0) explain(&one, &two);
    free(one.params);
    free(two.params);
}

// ## The program

static bool has_two_runs; // without --devices
static const char *filters_png, *predictions_png, *modelled_csv, *modelled_png;

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

// Our convolutions need fewer multiplications than are counted here, but there is more to do than
// convolutions: a step takes about 0.6 of the time of so much work in a product of matrices.
static void say_how_long(void) {
    if (num_gpus() > 0 || flags.backend == BACKEND_MODEL) return;
    warn_if_cpu_is_slow();
    double images = (double)flags.epochs * train_data->count;
    if (flags.steps >= 0) images = fmin(images, (double)flags.steps * flags.batch_size);
    double tests = images / fmax(train_data->count, 1) * test_data->count;
    int runs = flags.devices > 0 ? 1 : 2;
    print_time_for(0.6 * runs * (images * LENET_TRAINING_FLOP + tests * LENET_FORWARD_FLOP));
}

// On 1 to 8 devices of the machine of --machine.
static void tell_modelled_epochs(void) {
    if (!modelled_csv) return;
    int images = train_data->count;
    int batch_size = flags.batch_size < images ? flags.batch_size : images;
    ModelledEpochs m =
        model_epochs(batch_size, (images + batch_size - 1) / batch_size, flags.graph);
    print_modelled_epochs(&m);
    explain_modelled_epochs(&m);
    OutputFile csv = output_open(modelled_csv);
    write_modelled_epochs(csv.stream, &m);
    output_close(&csv);
    if (plot_draw(modelled_png, "lenet_modelled.gp", modelled_csv))
        printf("modelled epochs: %s, figures: %s\n", modelled_png, modelled_csv);
}

static void draw_pictures(void) {
    if (!filters_png) return;
    draw_filters(filters_png, trained, test_data, try_gpu(0));
    draw_predictions(predictions_png, trained, test_data, try_gpu(0));
    printf("filters: %s, predictions: %s\n", filters_png, predictions_png);
}

static void clean_up(void) {
    dataset_free(train_data);
    dataset_free(test_data);
    free_params(params, LENET_PARAMS);
    free_params(trained, LENET_PARAMS);
    loss_log_free(&loss_log);
}

int main(int argc, char *argv[]) {
    flags = book_begin(argc, argv,
                       "Trains the book's LeNet on k devices: first on 1, then on 2.\n"
                       "With --devices K: once, on K devices.",
                       "devices batch-size lr epochs seed train-size test-size steps no-shuffle "
                       "allreduce graph data load save log-loss csv live",
                       default_flags);
    has_two_runs = flags.devices == 0;
    book_needs_devices(has_two_runs ? 2 : flags.devices);
    choose_allreduce(flags.allreduce);
    choose_graph(flags.graph);
    prepare();
    say_how_long();

    if (has_two_runs)
        train_on_one_and_on_two();
    else
        free(train(flags.devices, flags.batch_size, flags.lr).params);

    // First: if one of the next two fails, no gnuplot is still drawing.
    if (animator) animator_close(animator);
    loss_log_write(&loss_log, flags.log_loss);
    if (flags.save) safetensors_save(flags.save, trained, LENET_PARAMS);
    if (!interrupted()) tell_modelled_epochs();
    if (!interrupted()) draw_pictures();
    clean_up();
    return book_end();
}

// ## Summary
//
// - The data are split over the devices: each runs forward and backward on its shard, then
//   gradients are summed and sent back (allreduce), and each device updates its own copy of the
//   parameters.
// - Gradients are sums over rows, so shards of unequal size need no care: one division, by the full
//   size of the minibatch, at the end.
// - The algorithm is that of one device. What k devices change is time, memory per device, and
//   bytes moved.
// - LeNet is small: launched from a framework, its kernels are over before the host has launched
//   the next ones, and one host thread launches for all devices; a CUDA graph launches a step at
//   once. What then remains is arithmetic, which is shared, and the exchange, which grows.
// - With larger minibatches more devices have more to do; then a somewhat larger learning rate may
//   help.
//
// ## Exercises
//
// Solved in exercises/: make exercise-04-1 and so on. make exercises takes the solutions out.
//
// 1. When training on k devices, change the minibatch size from b to k*b.
// 2. Compare accuracy for different learning rates. How does it change with the number of devices?
// 3. Write a more efficient allreduce, which sums different parameters on different devices. Why is
//    it more efficient?
// 4. Compute the test accuracy on all devices.
