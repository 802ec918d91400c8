// main.c: the story of chapter 5. README.md says how to run it and what to read.
#include "common/program/book.h"
#include "common/program/interrupt.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "common/base/error.h"
#include "common/model/modelled_clock.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "comparison.h"
#include "data_parallel.h"
#include "factors.h"
#include "initialization.h"
#include "notebook.h"
#include "on_a_machine.h"
#include "resnet18.h"
#include "resume.h"
#include "size.h"

#include <stdio.h>

static Notebook nb = {.bn = "averaged"};
static const Flag own_flags[] = {
    {"full", FLAG_ON, &nb.full, .help = "all images and epochs, on any machine"},
    {"bn", FLAG_CHOICE, &nb.bn, "M",
     .help = "batch norm's statistics: local, rank0, averaged or sync",
     .choices = "local|rank0|averaged|sync"},
    {"experiment", FLAG_ON, &nb.experiment,
     .help = "the chapter's experiment, instead of its training"},
    {0},
};

// ## A larger network
//
// To write out parameters and their exchange for each new network is no fun. Here the network is
// put together from *modules*, as with `torch.nn`: a module owns its parameters and knows how to
// compute. It is a ResNet-18, for images as small as ours: the book has changed its first layer and
// left out the pooling behind it. It computes much more for each of its parameters
// than LeNet does, so the exchange of gradients should weigh less. Most of it is residual blocks,
// which add their input to their output:
//
// resnet18.c:resnet_block
//
// Behind each convolution there is *batch normalisation*: it subtracts each channel's mean over the
// minibatch, and divides by the standard deviation. For evaluation it keeps *running statistics*,
// moving averages of both; with k devices somebody must say whose (`--bn`, see `data_parallel.c`).
//
// Without a GPU the program takes a part of the images, and begins by saying how many.

static void show_network(void) {
    say_size(&nb);
    Parameters all = parameters_of(nb.net);
    long trained = 0;
    for (int p = 0; p < all.n; p++)
        if (all.list[p]->trained) trained += (long)numel(all.list[p]->start);
    say("ResNet-18: %d tensors, %ld parameters (%.1f MB), and as many gradients; %.1f KB of "
        "running statistics",
        all.n, trained, (double)parameter_bytes(nb.net) / 1e6, (double)buffer_bytes(nb.net) / 1e3);
}

// ## Initializing the network
//
// The book's demonstration: as data goes through the network, it is initialized on the devices
// where the data is, and only there. Four observations are sent through it, two on each of two
// devices. Afterwards both devices have the same parameters. The host has only the start
// from which they were made, so to ask it for parameters is an error. (The program asks in a child
// process, a copy of itself, and so survives it.)

static void initialize_where_data_is(void) { demonstrate_initialization(nb.net, nb.flags.seed); }

// ## Training
//
// The training is that of chapter 4, with other words:
//
// 1. The parameters are initialized on all devices.
// 2. Each minibatch is split over the devices.
// 3. Loss and gradients are computed on all devices side by side.
// 4. The gradients are summed over the devices, and each updates its parameters.
//
// data_parallel.c:train_step_as
//
// At the end of each epoch the accuracy is computed, on all devices, too.

static void note_memory(Run *run) {
    for (int i = 0; i < run->dp.k; i++) {
        size_t bytes = arena_used_bytes(run->dp.devices[i]);
        if (bytes > run->arena_bytes) run->arena_bytes = bytes;
    }
}

static void print_memory(const Run *run) {
    double parameters = (double)parameter_bytes(nb.net) / 1e6;
    bool alone = run->t.k == 1;
    say("  memory of %s: %.1f MB of parameters, %.1f MB of gradients, %.0f MB of activations and "
        "their gradients%s",
        alone ? "the device" : "each device", parameters, parameters,
        (double)run->arena_bytes / 1e6, alone ? "" : ", with the room for the exchange");
}

static void step(Training *t, const Tensor *X, const Tensor *y, Tensor *losses[]) {
    Run *run = t->context;
    ledger_reset();
    train_step(&run->dp, X, y, t->lr, losses);
    note_memory(run);
    CHECK(ledger_bytes_between_devices() == run->bytes_per_step,
          "a step moved other bytes between the devices than the formula says: a bug in "
          "allreduce, batch norm or the ledger");
}

static double accuracy(Training *t) {
    Run *run = t->context;
    if (t->epoch == t->first_epoch && t->steps > 0) print_memory(run);
    return evaluate_accuracy_gpus(&run->dp, run->test_iter);
}

static void save(Training *t) {
    if (nb.flags.checkpoint) save_run(&nb, t->context);
}

// The book's `train(net, num_gpus, batch_size, lr)`.
static void train(Run *run) {
    const Flags *flags = &nb.flags;
    Training *t = &run->t;
    DataIter *train_iter =
        data_iter_new(nb.train_data, run->batch_size, flags->shuffle, flags->seed);
    Device *devices[MAX_DEVICES] = {NULL};
    run->test_iter = data_iter_new(nb.test_data, run->batch_size, false, 0);
    open_devices(devices, t->k);
    restart(nb.net);
    run->dp = data_parallel(nb.net, devices, t->k, batch_norm_mode(nb.bn));
    printf("training on %s: batch size %d, lr %g", device_names(devices, t->k), run->batch_size,
           (double)t->lr);
    printf(t->k > 1 ? ", batch norm's statistics: %s\n" : "\n", nb.bn);
    if (flags->resume && run->number == nb.resumed.run) resume_run(&nb, run);
    run->bytes_per_step = step_bytes(&run->dp);

    t->iter = train_iter;
    t->devices = devices;
    t->context = run;
    train_epochs(t);

    if (interrupted()) print_stopped(&nb, run);
    share_statistics(&run->dp); // Ctrl-C may have come before evaluation did
    if (flags->save) save_parameters(nb.net, devices[0], flags->save);
    data_iter_free(train_iter);
    data_iter_free(run->test_iter);
}

// ## One device, then two
//
// The book trains on one GPU with 256 images in a minibatch and a learning rate of 0.1, then on two
// GPUs with 512 images and 0.2. So each GPU has as many images in a step as before, but an epoch
// has half as many steps. (Without a GPU there are 16 and 32 images, of fewer altogether.) Note
// that this changes more than the number of devices.

static Run new_run(int number, int k, int times) {
    return (Run){.number = number,
                 .batch_size = times * nb.flags.batch_size,
                 .t = {.flags = &nb.flags,
                       .animator = nb.animator,
                       .log = &nb.loss_log,
                       .k = k,
                       .lr = (float)times * nb.flags.lr,
                       .step = step,
                       .accuracy = accuracy,
                       .whole_epoch = save}};
}

// The first run is on 1 device, the second on 2; with `--devices` there is one run, on as many.
// After `--resume`, a run that was over before is only remembered.
static void train_on_one_and_on_two(void) {
    Run runs[2] = {new_run(0, nb.num_runs == 1 ? nb.flags.devices : 1, 1), new_run(1, 2, 2)};
    bool compares = nb.num_runs == 2 && nb.flags.steps != 0;
    Prediction expected = {0};
    if (compares && nb.flags.backend != BACKEND_MODEL)
        expected = predict_first(
            "ResNet-18 is trained on one device, then from the same start on two, with twice the "
            "images in each minibatch and twice the learning rate, for as many epochs. By how many "
            "percentage points is the test accuracy of the second training higher? (A negative "
            "number if it is lower.)");
    for (int i = 0; i < nb.num_runs && !interrupted(); i++)
        if (nb.flags.resume && i < nb.resumed.run)
            recall_run(&nb, &runs[i]);
        else
            train(&runs[i]);
    if (!compares || interrupted()) return;
    compare_runs(&runs[0], &runs[1], nb.bn);
    if (!runs[1].t.no_values)
        book_result("test acc %.2f on 1 device and %.2f on 2", runs[0].t.test_acc,
                    runs[1].t.test_acc);
    predict_compare(expected, 100 * (runs[1].t.test_acc - runs[0].t.test_acc), "points");
}

// ## The curves
//
// ![Both runs after each epoch; more than the number of devices has changed, so the curves need not
// agree. An accuracy may jump up and down from one epoch to the next: the section after the next
// one is about that.](plots/05_resnet18_concise.png "Two panels over the epochs: training loss on
// the left, test accuracy on the right, with a thick line for one device and a thin one for two.
// The losses fall; the two lines differ from each other.")

static void write_curves(void) {
    animator_close(nb.animator);
    loss_log_write(&nb.loss_log, nb.flags.log_loss);
}

// ## What it would take on GPUs
//
// The book's whole training, on up to 8 devices of the machine that `--machine` names, by the
// modelled clock: nothing is computed. *Speed-up* is how many times as fast k devices are as one.
// Two ways to sum the gradients are compared, the book's star and the ring of chapter 2.

static void tell_other_machines(void) {
    Prediction expected = {0};
    if (modelled_machine())
        expected = predict_first(
            "The book's ResNet-18 is trained on GPUs of the modelled machine (a DGX A100, if you "
            "have not chosen another with --machine), with 256 images for each GPU in a step and "
            "the star allreduce. How many times as fast as one GPU are two?");
    predict_compare(expected, print_on_a_machine(&nb), "times as fast");
}

// ## One change at a time
//
// The book's second run was published many times: with PyTorch it ended with accuracies from 0.44
// to 0.91 on two GPUs, and the first one with 0.84 to 0.93 on one. What costs the accuracy? The
// second run has twice the batch size, twice the learning rate, and two devices. In PyTorch it
// keeps the running statistics of device 0 only (`--bn rank0`). And it does not begin as the first
// one did: the book gives the same network to `train()` again, which draws new weights, but leaves
// the biases and all of batch normalisation as the first run left them.
//
// `--experiment` changes one thing at a time, from ten seeds, with a ResNet-18 of an eighth of the
// channels and images of half the size, so that a laptop can do it (`factors.c`): 5 epochs of 4096
// images. Measured on an AMD EPYC with `build/05_resnet18_concise --experiment --threads 1`, in two
// halves: seeds 0 to 4 with an earlier version of the program, whose training was the same, then 5
// to 9.
//
// | way to train            | devices | batch |  lr | train loss | accuracy | lowest | highest |
// |-------------------------|--------:|------:|----:|-----------:|---------:|-------:|--------:|
// | the book's first run    |       1 |    32 | 0.1 |      0.634 |    0.753 |  0.667 |   0.800 |
// | the book's second run   |       2 |    64 | 0.2 |      0.721 |    0.724 |  0.678 |   0.753 |
// | twice the batch size    |       1 |    64 | 0.1 |      0.654 |    0.745 |  0.711 |   0.785 |
// | twice the learning rate |       1 |    32 | 0.2 |      0.636 |    0.754 |  0.711 |   0.790 |
// | twice both              |       1 |    64 | 0.2 |      0.710 |    0.691 |  0.545 |   0.748 |
// | twice both on 2 devices |       2 |    64 | 0.2 |      0.737 |    0.703 |  0.641 |   0.755 |
// | on 2, `--bn sync`       |       2 |    64 | 0.2 |      0.702 |    0.740 |  0.721 |   0.755 |
//
// | change                     | of the accuracy  | told from noise |
// |----------------------------|------------------|-----------------|
// | twice the batch size       | -0.008 ± 0.059   | no              |
// | twice the learning rate    | +0.001 ± 0.057   | no              |
// | both, on 1 device          | -0.062 ± 0.083   | no              |
// | mean of these three        | -0.023 ± 0.054   | no              |
// | both, mean of all 4 ways   | -0.039 ± 0.049   | no              |
// | 2 devices for 1, `rank0`   | +0.011 ± 0.075   | no              |
// | 2 devices for 1, `sync`    | +0.049 ± 0.077   | no              |
// | `local` for `rank0`        | +0.000 ± 0.004   | no              |
// | `averaged` for `rank0`     | +0.002 ± 0.004   | no              |
// | `sync` for `rank0`         | +0.037 ± 0.052   | no              |
// | what the first run left    | +0.022 ± 0.051   | no              |
// | the book's 2nd for its 1st | -0.029 ± 0.054   | no              |
// | own statistics, all ways   | +0.021 ± 0.013   | yes             |
//
// The second table compares trainings from the same seeds. In 95 of 100 such tables, all the means
// lie no further than ± from the truth; a change that is larger than its ± is told from noise. What
// follows?
//
// - Single runs spread widely. The same training, from ten seeds, ended with accuracies from 0.667
//   to 0.800 (the book's first run), and with twice both from 0.545 to 0.755. The widest spread,
//   0.545 to 0.748, is that of a training on one device.
// - `rank0` is not the reason here. The same trainings were evaluated with the statistics of device
//   0, of each device and of their mean, and the mean accuracy changed by 0.002 at most.
// - Running statistics cost something, in the mean of all seven ways: normalised by the statistics
//   of the test minibatch itself (*own statistics*), as in training, the networks are right more
//   often. Running statistics are those of past weights.
// - Twice the batch size and learning rate may cost accuracy, but ten seeds are too few to be sure,
//   and so they are to say what a second device or the leftovers of the first run do.
//
// We fell for the noise ourselves. The first five seeds alone "showed" that twice both, in the mean
// of all 4 ways, loses 0.058 ± 0.019 (an interval for this line alone); with the next five it was
// 0.019 ± 0.061. So of all explanations for 0.44 to 0.91, the spread of single runs is the one that
// we could see. It needs no second GPU. But this is a small network and a short training, and the
// book's runs with MXNet, with the same larger steps, ended with 0.89 to 0.93 on two GPUs: that
// remains to be explained.

// ## Summary
//
// - Modules hide how the parameters get onto the devices, not that they have to.
// - A wrapper for k devices is a page of code: split, forward, backward, allreduce, step.
// - Batch normalisation's statistics are the part of a network that "the same gradient" does not
//   cover. Somebody has to decide what they are when the network is evaluated.
// - Whoever changes the number of devices, the batch size and the learning rate at once does not
//   know which of them changed the accuracy. Change one thing at a time, from many seeds.
// - The more a network computes for each of its parameters, the less the exchange of gradients
//   weighs: here hardly anything on devices with fast links, and much more where the links are
//   slow.
//
// ## Questions
//
// 1. After the demonstration the host holds only the start. How do the two devices come by the
//    parameters that they hold, and why are they equal?
// 2. A step of ResNet-18 moves many more bytes between two devices than a step of LeNet: compare
//    the lines "Bytes" of chapters 4 and 5. Yet on the modelled machine the exchange takes a good
//    part of LeNet's time, and less than a hundredth of ResNet's. Why?
// 3. You double the minibatch once more. What happens to the bytes that move between two devices in
//    an epoch?
// 4. Train twice with `--devices 2`, once with `--bn local` and once with `--bn rank0`: the losses
//    are the same to the last digit. With `--bn sync` they are not. Why?
// 5. To train on two devices with `--bn sync` is to train on one with the same minibatches, but for
//    rounding. Which line of the experiment's second table compares the two, and what does it tell
//    you about the other lines?

// ## Exercises
//
// Each has a folder in `exercises/`, with a place for your part and a check: `make exercise-05-1`,
// and so on. They are the book's.
//
// 1. Try other numbers of epochs, batch sizes and learning rates, and more devices. What happens
//    with 16?
// 2. Devices may differ in speed. How should the minibatch be split? Is it worth the effort?
// 3. What happens if we drop the wait at the end of each step? How would you let the devices have
//    up to two steps to work on?

// ## The program

// Now, and not when the second run begins.
static void check_machine(const Flags *flags) {
    const Machine *machine = modelled_machine();
    if (flags->devices == 0 && machine && !machine_has_devices(machine, 2))
        die_usage("give --devices 1, another --machine, or --machine none",
                  "the second run is on 2 devices, and the machine %s has one", machine->name);
}

static void read_flags(int argc, char *argv[]) {
    Flags defaults = flags_without_size();
    defaults.own = own_flags;
    nb.flags =
        book_begin(argc, argv,
                   "Trains the book's ResNet-18 on k devices: first on 1, then on 2 with twice "
                   "the batch size and learning rate.",
                   "devices quick batch-size lr epochs seed train-size test-size steps "
                   "no-shuffle allreduce data load save checkpoint resume log-loss csv live",
                   defaults);
    if (nb.flags.quick && nb.full) die_usage("give one of them", "--quick and --full");
    choose_allreduce(nb.flags.allreduce);
    choose_size(&nb);
    check_machine(&nb.flags);
    if (nb.flags.load && nb.flags.resume)
        die_usage("leave --load out: the checkpoint holds all that is needed",
                  "--load and --resume");
}

static void prepare(void) {
    const Flags *flags = &nb.flags;
    nb.train_data = fashion_mnist_open(flags->data, true, flags->train_size);
    nb.test_data = fashion_mnist_open(flags->data, false, flags->test_size);
    const char *csv = book_csv(".csv"), *png = book_output(".png");
    book_check_outputs();
    nb.animator = animator_new(csv, png, flags->live);
    nb.net = resnet18(FASHION_MNIST_CLASSES, 1);
    initialize(nb.net, flags->seed);
    open_start(&nb);
}

static void clean_up(void) {
    checkpoint_close(&nb.resumed);
    module_free(nb.net);
    dataset_free(nb.train_data);
    dataset_free(nb.test_data);
    loss_log_free(&nb.loss_log);
}

int main(int argc, char *argv[]) {
    read_flags(argc, argv);
    if (nb.experiment) {
        separate_factors(&nb.flags);
        return book_end();
    }
    nb.num_runs = nb.flags.devices > 0 ? 1 : 2;
    prepare();
    if (num_gpus() == 0 && nb.flags.backend != BACKEND_MODEL) warn_if_cpu_is_slow();
    show_network();
    initialize_where_data_is();
    train_on_one_and_on_two();
    write_curves();
    if (nb.num_runs == 2 && !interrupted()) tell_other_machines();
    clean_up();
    return book_end();
}
