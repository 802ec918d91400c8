// main.c: the story of chapter 4. README.md says how to run it and what to read.
#include "common/book.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "behind/behind.h"
#include "lenet.h"

// What the book's notebook keeps in global variables.
typedef struct Notebook {
    Flags flags;
    Tensor *params[LENET_PARAMS];  // the common start of all runs, on the host
    Tensor *trained[LENET_PARAMS]; // where the last run ended, on the host
    Tensor *device_params[MAX_DEVICES][LENET_PARAMS];
    Dataset *train_data, *test_data;
    DataIter *test_iter;
    Curves *curves;
    bool has_values; // not with --backend model
} Notebook;

static Result train(Notebook *nb, int num_gpus, int batch_size, float lr);

// ## One training step
//
// Each of k devices holds a copy of all parameters, a *replica*. All replicas start with the same
// values.
//
// lenet.c:train_batch
//
// All replicas get the same sum and divide it by the same number, so they are still equal after the
// step. (Step 1 is chapter 3's `split_batch`, and steps 3 and 4 together are chapter 2's
// `allreduce`.)
//
// ## A simple network
//
// The network is the book's LeNet: two convolutions, each with ReLU and average pooling, then two
// fully connected layers. It is written from scratch, so that you can see what is copied to the
// devices and what they exchange. The eight parameters, 129,068 numbers in all, are W1 (20,1,3,3),
// W2 (50,20,5,5), W3 (800,128) and W4 (128,10), each with a bias. In the comments, `(n,20,13,13)`
// means n images with 20 channels of 13 x 13 pixels.
//
// lenet.c:lenet
//
// lenet.c:fully_connected
//
// Each operation is recorded on the *tape* of its device, and `backward()` goes through the tape in
// reverse. For each operation, it launches the kernels that compute its gradient. The results are
// in the device's *arena*. `begin_step()` empties the tape and the arena, so each step uses the
// same memory again, and a result is valid until the next `begin_step()` of its device. Parameters,
// made by `tensor_new()`, live until `tensor_free()`.
//
// ## Training
//
// `train()` copies the parameters to all devices and then calls this loop. As in d2l, it is two
// loops. For each epoch, it goes through all minibatches and makes a step with each.
//
// main.c:training_loop
//
// `curves_loss()` waits for all devices and returns the sum of their losses. Nothing else in a step
// waits. After each epoch, device 0 measures the accuracy, and `curves_epoch()` prints a line and
// adds a point to the curves below.
//
// On a CPU, `train_batch_as_graph()` is the same as `train_batch()`. On a GPU it records the step
// once and then launches it as a CUDA graph.

static double training_loop(Notebook *nb, DataIter *train_iter, Device *const devices[], int k,
                            float lr) {
    Tensor *X, *y, *losses[MAX_DEVICES];
    Timer timer = {0};
    double acc = NAN;
    for (int epoch = 0; epoch < nb->flags.epochs && curves_more(nb->curves); epoch++) {
        double loss = 0;
        int images = 0;
        timer_start(&timer);
        data_iter_start(train_iter, epoch);
        while (curves_next(nb->curves, train_iter, &X, &y)) {
            train_batch_as_graph(X, y, nb->device_params, devices, k, lr, losses);
            loss += curves_loss(nb->curves, losses, X->shape[0]);
            images += X->shape[0];
        }
        timer_stop(&timer);
        if (interrupted()) break; // Ctrl-C: whole epochs are kept
        acc = evaluate_accuracy_gpu(lenet, nb->device_params[0], nb->test_iter, devices[0]);
        curves_epoch(nb->curves, loss / images, acc, &timer);
    }
    return acc;
}

// ## One device, then two
//
// The book trains twice, with minibatches of 256 images and a learning rate of 0.2, first on one
// device, then on two. Both runs see the same minibatches in the same order. Adding numbers in a
// different order can change the last digits of the sum, and two devices add up a minibatch in two
// halves.
//
// main.c:ask_whether_equal
//
// main.c:train_on_one_and_on_two
//
// The order of additions is part of the design. A CPU device adds up the gradients of 16 images,
// and then these sums in a tree. The first of two devices computes the left half of this tree, the
// second one the right half, and the exchange adds their sums. For 64 images:
//
//     images      0-15    16-31      32-47    48-63
//                   \      /            \      /
//                  device 0   ---+---   device 1
//                             the sum
//
// In the first epoch the loss stays at $2.303 = -\ln(1/10)$. The weights start near zero, so each
// of the ten classes gets the probability 1/10. The gradients are products of such small weights,
// so they change the parameters very little.
//
// (With a different number of images, or on GPUs, or with PyTorch, expect differences in the last
// digits that grow during training.)
//
// Each step moves $2 (k-1)$ times the size of the gradients (chapter 2), regardless of the number
// of images.
//
// ![Both runs, epoch by epoch: the two curves coincide.](plots/04_lenet_multi_gpu.png "Two panels
// over the epochs: training loss on the left, test accuracy on the right. A thick line for one
// device and a thin one for two lie on each other. The loss is 2.3 in the first epoch, then falls
// steeply, then slowly; the accuracy rises steeply, then unevenly.")
//
// ![The first test images with the class that the network gives them; mistakes are framed in
// red.](plots/04_lenet_multi_gpu_predictions.png "Forty small images of clothes in five rows, each
// with a class below it. Where the class is wrong, frame and class are red and the right class
// stands below. Most mistakes are between shirts, coats and dresses, or between kinds of shoes.")

static Prediction ask_whether_equal(void) {
    return predict_yes_no(
        "The same training is run on one device of this computer, then on two, with the same "
        "minibatches of 256 images. Are the parameters of both equal to the last bit at the end?");
}

static void train_on_one_and_on_two(Notebook *nb, int batch_size, float lr) {
    Prediction equal = nb->has_values ? ask_whether_equal() : (Prediction){0};
    Result one = train(nb, 1, batch_size, lr), two = {0};
    if (!interrupted()) two = train(nb, 2, batch_size, lr);
    if (!interrupted() && one.steps > 0) {
        putchar('\n');
        if (nb->has_values) print_comparison(&one, &two);
        print_bytes(&two);
        if (nb->has_values) predict_compare_yes_no(equal, equal_to_the_bit(&one, &two));
    }
    free(one.params);
    free(two.params);
}

// ## Is it faster?
//
// The time of a step with B images is the time to compute plus the time to exchange gradients:
//
// $$t_{\text{step}}(k) \approx t_{\text{compute}}(B/k) + t_{\text{comm}}$$
//
// Two CPU devices share the cores that one device had, so expect about the same time. (It varies
// with what else the computer does.) We do not have two GPUs, so the times of this section are
// modelled, for a DGX with eight A100 GPUs ([How true is the clock?](../how_true.md)). They leave
// out the reading of images.
//
// One host *launches* the work of all GPUs, one kernel or copy after the other. Each GPU needs 51
// launches in a step, however few images it has, and each one except the first needs 24 more,
// because 8 gradients are copied, added and copied back. A launch takes 2.2 µs. On one GPU, a step
// takes 0.971 ms.
// <!-- figure: 51 0.971 = run-04: "1" -->
//
// main.c:ask_about_eight_gpus
//
// behind/modelled.c:print_launches
//
// On two GPUs, a step takes a quarter less time than on one. From two GPUs to eight its time nearly
// doubles, to 1.4 times the time on one. "Launches alone" is how long a step would take if only the
// host's launches and events took time. On one GPU that is a ninth of the step, on eight nearly
// all.
// <!-- figure: 1.4 = run-04: modelled_seconds_per_epoch[launches=program, devices=8] / [devices=1]
// -->
//
// ## Three causes
//
// *Launches.* If a step is recorded as a *CUDA graph*, the host can launch all of it at once:
//
// ![A step of 256 images on two A100 GPUs, modelled. As a CUDA graph, all kernels and the exchange
// take less time, and the short ones gain most.](plots/04_lenet_multi_gpu_step.png "Two timelines
// on one scale, each with lanes for two devices: copies of the images, a few long and many short
// bars of forward and backward, then the short copies and additions of the exchange with gaps
// between them, then the update. The upper timeline, launched one by one, takes 710 microseconds,
// the lower one, as a CUDA graph, 585.")
//
// We measured a step of 256 images in float32 on one H100 (`tests/bench`):
//
// | measured on one H100 | launched one by one |    as a CUDA graph |
// |----------------------|--------------------:|-------------------:|
// | PyTorch              |            2.192 ms | compiled: 0.473 ms |
// | this program         |            0.445 ms |           0.347 ms |
//
// In our program, the two columns differ only in launching, which takes a fifth of the step. (In a
// graph, a kernel also begins a little sooner after the one before.) This is the modelled step on
// the DGX again, as a CUDA graph:
//
// behind/modelled.c:print_shares
//
// *Small shards.* "The rest" is the step without the exchange: each device computes the gradients
// of its shard and updates its parameters. Two devices have half the images each but need 59 % of
// the time, and eight need 30 % instead of 12.5 %. A GPU is fast because it computes thousands of
// numbers at once. LeNet's kernels for 32 images have too few of them, and the last ones, which add
// and update, do not get shorter at all. The GPU is *underutilized*. Even if launches and the
// exchange took no time, eight GPUs would be only 3.3 times as fast as one.
// <!-- figure: 59 = run-04: rest_seconds[launches=graph, devices=2] / [devices=1] x100 -->
// <!-- figure: 30 = run-04: rest_seconds[launches=graph, devices=8] / [devices=1] x100 -->
// <!-- figure: 3.3 = run-04: rest_seconds[launches=graph, devices=1] / [devices=8] -->
//
// *The exchange* of eight small gradients takes longer with each device. On eight GPUs it is more
// than half of the step.
//
// ![The modelled time of an epoch on 1 to 8 GPUs. The triangle marks the launches alone. Where it
// is as high as the bar, the GPUs wait for the host.](plots/04_lenet_multi_gpu_modelled.png "Two
// panels of bars with one scale: launched one by one, and as a CUDA graph; devices 1, 2, 4 and 8 on
// the horizontal axis, modelled seconds of an epoch on the vertical one. On the left two devices
// are fastest and eight slowest, and the triangle climbs to the top of the bar. On the right the
// bars get shorter up to four devices, and the part that is the exchange of gradients grows.")
//
// ## On real GPUs
//
// The first two rows are from the book's two editions. In 2026 its authors measured again, on RTX
// 4090 cards [@d2lneu]. All these times include reading the images:
//
// | seconds per epoch                     | 1 GPU | 2 GPUs |
// |---------------------------------------|------:|-------:|
// | PyTorch, Chinese edition              |   2.7 |    3.6 |
// | PyTorch, English edition              |   3.0 |    2.8 |
// | PyTorch, 2026                         |  2.37 |   2.31 |
// | JAX, 2026, the whole step is compiled |  0.55 |   0.90 |
//
// On the same card, JAX needs 0.55 s for an epoch. And with PyTorch's 2.192 ms from above, the 235
// steps of an epoch take half a second. So PyTorch spends most of its epoch reading, and what a
// second GPU does hardly matters.
//
// JAX's epochs are short enough to compare with the model. With the second GPU they take 1.6 times
// as long as with one. The model of a DGX says 0.7 times. But a DGX connects its GPUs by NVLink.
// The RTX 4090 cards have no direct connection, so gradients pass through the host's memory. For
// such cards
// (`--machine rtx4090-pcie`), the model says 1.1 times as long, as a CUDA graph. We do not know why
// JAX's factor is larger.
// <!-- figure: 1.1 = run-04 --machine rtx4090-pcie: modelled_seconds_per_epoch[launches=graph,
// devices=2] / [devices=1] -->
//
// ## More work for each device
//
// So far all devices share one minibatch of 256 images, and eight GPUs get 32 each. This is *strong
// scaling*. In *weak scaling* the minibatch grows with the number of devices. A larger minibatch
// only adds computation to a step. The launches and the bytes of the exchange stay the same.
//
// behind/modelled.c:print_larger
//
// With minibatches of 2,048 images, eight GPUs are 4.4 times as fast as one. In weak scaling, with
// 256 images on each GPU, eight GPUs are 5.2 times as fast as one. But larger minibatches mean
// fewer updates. Exercises 1 and 2 ask what that does to the accuracy.
// <!-- figure: 4.4 = run-04: modelled_seconds_per_epoch[launches=graph of 2048, devices=1] /
// [devices=8] -->
// <!-- figure: 5.2 = run-04: modelled_seconds_per_epoch[launches=graph, devices=1] /
// [launches=graph of 2048, devices=8] -->

// ## Summary
//
// - Each device computes the gradients of its shard, `allreduce` sums them, and each device updates
//   its replica with the sum. Only gradients pass between devices.
// - Apart from rounding, k devices compute the same updates as one. Only the time and the bytes
//   moved differ.
// - LeNet is so small that more GPUs soon cost more time, in launches and the exchange, than they
//   save in computation. And a GPU with a small shard is underutilized.
//
// ## Questions
//
// 1. After step 5, must the devices send each other their parameters? Why, or why not?
// 2. You double the minibatch to 512 images. How many bytes does a step then move between two
//    devices, and how many does an epoch move? Check it with `--batch-size 512 --epochs 1`.
// 3. The parameter `b4` has ten numbers, `W3` has 102,400. What does the allreduce of `b4` cost
//    compared with the allreduce of `W3` (chapter 2)? What would you save with one buffer for all
//    eight gradients?
// 4. d2l's fourth exercise is to compute the test accuracy on several GPUs. Chapter 5 does this in
//    `count_all_correct()`, in `data_parallel.c`. Each device counts its own correct answers, and
//    the host reads all counts after the loop. What would the devices wait for if the line
//    `items(correct, dp->k, counts);` were inside the loop, at its end?
// 5. Someone writes one loop over the devices instead: forward pass, `count_correct()`, and
//    `item()` to read the count. How many devices then compute at the same time? Which line is to
//    blame? Is the accuracy still right?
//
// ## Exercises
//
// `make exercise-04-1` and `make exercise-04-3` check the code that you write. `make exercise-04-2`
// asks a question and runs an experiment. These are d2l's exercises 1 to 3. Its fourth is the
// subject of questions 4 and 5.

// ## The program

static Result train(Notebook *nb, int num_gpus, int batch_size, float lr) {
    const Flags *flags = &nb->flags;
    Device *devices[MAX_DEVICES];
    open_devices(devices, num_gpus);
    DataIter *train_iter = data_iter_new(nb->train_data, batch_size, flags->shuffle, flags->seed);
    long steps = curves_begin(nb->curves, train_iter, devices, num_gpus, lr);
    print_run(devices, num_gpus, batch_size, nb->train_data->count, lr, steps);
    // Copy model parameters to `num_gpus` devices
    for (int i = 0; i < num_gpus; i++)
        get_params(nb->params, LENET_PARAMS, devices[i], nb->device_params[i]);

    ledger_reset(); // from here on, bytes between devices are counted
    double acc = training_loop(nb, train_iter, devices, num_gpus, lr);
    if (steps == 0)
        acc = evaluate_accuracy_gpu(lenet, nb->device_params[0], nb->test_iter, devices[0]);
    Result result = {.k = num_gpus, .steps = curves_steps(nb->curves), .acc = acc};
    result.diverged = curves_end(nb->curves, acc);
    complete_result(&result, nb->device_params[0], nb->trained);
    for (int i = 0; i < num_gpus; i++) free_params(nb->device_params[i], LENET_PARAMS);
    data_iter_free(train_iter);
    return result;
}

static Prediction ask_about_eight_gpus(void) {
    return predict_first(
        "LeNet is trained on one GPU of the modelled machine (a DGX A100, if you have not chosen "
        "another with --machine), then on all it has, at most eight. One host launches one kernel "
        "after the other for all of them. How long does an epoch take on all of them, as a "
        "multiple "
        "of the time on one GPU?");
}

static void compare_modelled_epochs(const Machine *machine, const Flags *flags, int images) {
    const char *csv = book_output("_modelled.csv"), *png = book_output("_modelled.png");
    const char *step = book_timeline("_step.png");
    Prediction expected = ask_about_eight_gpus();
    int batch_size = flags->batch_size < images ? flags->batch_size : images;
    ModelledEpochs m = model_epochs(machine, images, batch_size, 8);
    model_larger_minibatches(&m, images);
    if (!flags->quick) {
        print_launches(&m);
        print_shares(&m);
        print_larger(&m);
    }
    const EpochParts *epochs = m.epoch[ONE_BY_ONE];
    predict_compare(expected, epochs[m.num_counts - 1].seconds / epochs[0].seconds,
                    "times as long");
    draw_lenet_step(machine, step, m.num_counts > 1 ? 2 : 1, batch_size);
    write_modelled_epochs(csv, &m);
    plot_draw(png, "lenet_modelled.gp", csv);
}

static void read_images_and_parameters(Notebook *nb) {
    const Flags *flags = &nb->flags;
    nb->train_data = fashion_mnist_open(flags->data, true, flags->train_size);
    nb->test_data = fashion_mnist_open(flags->data, false, flags->test_size);
    nb->test_iter = data_iter_new(nb->test_data, 256, false, 0);
    lenet_init(nb->params, flags->seed);
    if (flags->load) safetensors_load(flags->load, nb->params, LENET_PARAMS);
    for (int i = 0; i < LENET_PARAMS; i++) nb->trained[i] = tensor_to(nb->params[i], host());
}

// Trains, keeps the curves and the parameters, and draws predictions.
static void train_and_draw(Notebook *nb) {
    const Flags *flags = &nb->flags;
    const char *csv = nb->has_values ? book_output(".csv") : NULL;
    const char *png = nb->has_values ? book_output(".png") : NULL;
    if (num_gpus() == 0 && nb->has_values) warn_if_cpu_is_slow();
    nb->curves = curves_new(flags, csv, png);
    if (flags->devices == 0)
        train_on_one_and_on_two(nb, flags->batch_size, flags->lr);
    else
        free(train(nb, flags->devices, flags->batch_size, flags->lr).params);
    curves_free(nb->curves);
    if (flags->save) safetensors_save(flags->save, nb->trained, LENET_PARAMS);
    if (nb->has_values && !interrupted())
        draw_predictions(book_output("_predictions.png"), nb->trained, nb->test_data, try_gpu(0));
}

int main(int argc, char *argv[]) {
    bool curves = false;
    const Flag own_flags[] = {
        {"curves", FLAG_ON, &curves, .help = "only model epochs (CSV), and a step (SVG)"},
        {0},
    };
    static Notebook nb; // large
    nb.flags = book_begin(argc, argv,
                          "Trains the book's LeNet on k devices: first on 1, then on 2.\n"
                          "With --devices K: once, on K devices.",
                          "devices batch-size lr epochs seed train-size test-size steps no-shuffle "
                          "allreduce data load save log-loss csv live",
                          (Program){.own = own_flags,
                                    .quick_means = "--batch-size 64 --epochs 3 --train-size 16384",
                                    .next = "make exercise-04-1, or make run-05"});
    const Flags *flags = &nb.flags;
    book_needs_devices(flags->devices ? flags->devices : 2);
    choose_allreduce(flags->allreduce);
    if (curves) {
        const Machine *machine = book_needs_machine("--curves");
        book_outputs("_modelled.csv _step.svg");
        const char *csv = book_output("_modelled.csv"), *svg = book_timeline("_step.svg");
        model_curves_and_step(machine, flags, csv, svg);
        return book_end();
    }
    nb.has_values = flags->backend != BACKEND_MODEL;
    read_images_and_parameters(&nb);
    const Machine *machine = machine_of_epochs(flags); // NULL: no epochs are modelled
    book_outputs("%s%s", nb.has_values ? ".csv .png _predictions.png " : "",
                 machine ? "_modelled.csv _modelled.png _step.png _step.svg" : "");
    train_and_draw(&nb);
    if (machine && !interrupted()) compare_modelled_epochs(machine, flags, nb.train_data->count);

    data_iter_free(nb.test_iter);
    dataset_free(nb.train_data);
    dataset_free(nb.test_data);
    free_params(nb.params, LENET_PARAMS);
    free_params(nb.trained, LENET_PARAMS);
    return book_end();
}
