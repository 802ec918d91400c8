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
//   build/05_resnet18_concise --backend model --devices 64 --machine dgx-h100
//                                      no values, only the time that it would take there
//   build/05_resnet18_concise --help   all flags
//
// What you will see: the network and what it needs, the book's demonstrations, a line per epoch,
// the book's last line of each run, a comparison in words, the curves in plots/, and what the whole
// training would take 1 to 8 devices of a machine that you need not have (--machine).
//
// Read in this order: resnet18.c (the network), data_parallel.c (everything about k devices), then
// train() and train_epochs() here. common/tensor/nn.h has the modules, common/tensor/batch_norm.c
// what devices exchange. Beside the training: initialization.c (which device has parameters when),
// size.c (the quick version), checkpoint.c and resume.c (how it goes on), comparison.c,
// modelled_steps.c and on_a_machine.c (time and memory on another machine).
#include "common/program/book.h"
#include "common/program/interrupt.h"
#include "common/program/say.h"
#include "common/base/error.h"
#include "common/data/network_file.h"
#include "common/device/cpu_speed.h"
#include "common/device/modelled_clock.h"
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

static Notebook nb;

// ## The network

static void print_network(void) {
    Parameters all = parameters_of(nb.net);
    long trained = 0;
    for (int p = 0; p < all.n; p++)
        if (all.list[p]->trained) trained += (long)numel(all.list[p]->start);
    say("ResNet-18: %d tensors, %ld parameters (%.1f MB), and as many gradients; %.1f KB of "
        "running statistics",
        all.n, trained, (double)parameter_bytes(nb.net) / 1e6, (double)buffer_bytes(nb.net) / 1e3);
}

// ## Training

static void note_memory(const DataParallel *dp, Run *run) {
    for (int i = 0; i < dp->k; i++) {
        size_t bytes = arena_used_bytes(dp->devices[i]);
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

static void check_bytes(const DataParallel *dp, long steps) {
    CHECK(ledger_bytes_between_devices() == step_bytes(dp) * (uint64_t)steps,
          "a step moved other bytes between the devices than the formula says: a bug in "
          "allreduce, batch norm or the ledger");
}

static void train_epochs(DataParallel *dp, DataIter *test_iter, Run *run) {
    Training *t = &run->t;
    Tensor *X, *y, *losses[MAX_DEVICES];
    while (next_epoch(t)) {
        long steps_before = t->steps;
        ledger_reset();
        while (next_batch(t, &X, &y)) {
            train_step(dp, X, y, t->lr, losses);
            note_memory(dp, run);
            end_batch(t, losses); // waits for all devices
        }
        check_bytes(dp, t->steps - steps_before);
        if (interrupted()) break;
        if (t->epoch == t->first_epoch && t->steps > 0) print_memory(run);
        bool whole = end_epoch(t, evaluate_accuracy_gpus(dp, test_iter));
        if (whole && nb.flags.checkpoint) save_run(&nb, dp, run);
    }
}

// The book's train(net, num_gpus, batch_size, lr).
static void train(Run *run) {
    const Flags *flags = &nb.flags;
    Training *t = &run->t;
    DataIter *train_iter =
        data_iter_new(nb.train_data, run->batch_size, flags->shuffle, flags->seed);
    DataIter *test_iter = data_iter_new(nb.test_data, run->batch_size, false, 0);
    Device *devices[MAX_DEVICES] = {NULL};
    open_devices(devices, t->k);
    begin_again(nb.net, &nb.start);
    DataParallel dp = data_parallel(nb.net, devices, t->k, batch_norm_mode(flags->bn));
    printf("training on %s: batch size %d, lr %g", device_names(devices, t->k), run->batch_size,
           (double)t->lr);
    printf(t->k > 1 ? ", batch norm's statistics: %s\n" : "\n", flags->bn);
    if (flags->resume && run->number == nb.resumed.run) resume_run(&nb, &dp, run);
    run->bytes_per_step = step_bytes(&dp);

    t->iter = train_iter;
    training_start(t);
    train_epochs(&dp, test_iter, run);
    training_end(t, devices);

    if (interrupted()) print_stopped(&nb, run);
    share_statistics(&dp); // Ctrl-C may have come before evaluation did
    if (flags->save) save_parameters(nb.net, devices[0], flags->save);
    data_iter_free(train_iter);
    data_iter_free(test_iter);
}

// ## The program

// Now, and not when the second run begins.
static void check_machine(const Flags *flags) {
    const Machine *machine = modelled_machine();
    if (flags->devices == 0 && machine && !machine_has_devices(machine, 2))
        die_usage("give --devices 1, another --machine, or --machine none",
                  "the second run is on 2 devices, and the machine %s has one", machine->name);
}

static Flags read_flags(int argc, char *argv[]) {
    Flags flags =
        book_begin(argc, argv,
                   "Trains the book's ResNet-18 on k devices: first on 1, then on 2 with twice "
                   "the batch size and learning rate.",
                   "devices quick full batch-size lr epochs seed train-size test-size steps "
                   "no-shuffle allreduce bn data load save checkpoint resume log-loss csv live "
                   "experiment",
                   flags_without_size());
    choose_allreduce(flags.allreduce);
    choose_size(&flags);
    check_machine(&flags);
    if (flags.load && flags.resume)
        die_usage("leave --load out: the checkpoint holds all that is needed",
                  "--load and --resume");
    return flags;
}

static void prepare(void) {
    const Flags *flags = &nb.flags;
    nb.train_data = fashion_mnist_open(flags->data, true, flags->train_size);
    nb.test_data = fashion_mnist_open(flags->data, false, flags->test_size);
    const char *csv = book_csv(".csv"), *png = book_output(".png");
    book_check_outputs();
    nb.animator = animator_new(csv, png, "training_curves.gp", flags->live);
    nb.net = resnet18(FASHION_MNIST_CLASSES, 1);
    initialize(nb.net, flags->seed);
    open_start(&nb);
}

static Run new_run(int number, int k, int times) {
    return (Run){.number = number,
                 .batch_size = times * nb.flags.batch_size,
                 .t = {.flags = &nb.flags,
                       .animator = nb.animator,
                       .log = &nb.loss_log,
                       .k = k,
                       .lr = (float)times * nb.flags.lr,
                       .hint = "start again with a smaller --lr"}};
}

static void clean_up(void) {
    checkpoint_close(&nb.resumed);
    free_counts(&nb.start.counts);
    module_free(nb.net);
    dataset_free(nb.train_data);
    dataset_free(nb.test_data);
    loss_log_free(&nb.loss_log);
}

int main(int argc, char *argv[]) {
    nb.flags = read_flags(argc, argv);
    nb.num_runs = nb.flags.devices > 0 ? 1 : 2;
    if (nb.flags.experiment) {
        separate_factors(&nb.flags);
        return book_end();
    }
    prepare();
    if (num_gpus() == 0 && nb.flags.backend != BACKEND_MODEL) warn_if_cpu_is_slow();
    say_size(&nb);
    print_network();
    demonstrate_initialization(nb.net, nb.flags.seed);

    // On 1 device, then on 2 with twice the batch size and learning rate; or once, on --devices
    Run runs[2] = {new_run(0, nb.num_runs == 1 ? nb.flags.devices : 1, 1), new_run(1, 2, 2)};
    for (int i = 0; i < nb.num_runs && !interrupted(); i++)
        if (nb.flags.resume && i < nb.resumed.run)
            recall_run(&nb, &runs[i]);
        else
            train(&runs[i]);
    if (nb.num_runs == 2 && !interrupted() && nb.flags.steps != 0)
        compare_runs(&runs[0], &runs[1], nb.flags.bn);
    if (nb.num_runs == 2 && !interrupted()) print_on_a_machine(&nb);

    animator_close(nb.animator);
    loss_log_write(&nb.loss_log, nb.flags.log_loss);
    clean_up();
    return book_end();
}

// ## Summary
//
// - Modules hide how the parameters get onto the devices, not that they have to.
// - A wrapper for k devices is a page of code: split, forward, backward, allreduce, step.
// - Batch norm's statistics are the part of a network that "the same gradient" does not cover.
//   Somebody has to decide what they are when the network is evaluated.
// - The more a network computes for each of its parameters, the less the exchange of gradients
//   weighs: here a few percent of a step on devices with fast links, much more where the links are
//   slow.
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
