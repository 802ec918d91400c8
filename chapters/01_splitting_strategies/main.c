// # Multiple GPUs: splitting the problem
//
// Book: "Training on Multiple GPUs" (multiple-gpus), "Splitting the Problem".
// Difficulty: ★★☆☆
//
// What you will learn
//   - three ways to split the training of a network over k devices: across layers, within layers,
//     across data; that all three compute what one device computes;
//   - what each costs: memory per device, bytes that move, how often devices must wait for each
//     other, and who is idle meanwhile;
//   - why the book (and everybody) splits the data, unless the network does not fit on one device.
//
// How to run
//   make run-01
//   build/01_splitting_strategies --devices 3       three devices, and one to compare with
//   build/01_splitting_strategies --batch-size 32   less work between the exchanges
//   build/01_splitting_strategies --machine p100-25gbe   modelled time of another machine
//   build/01_splitting_strategies --backend model        nothing but modelled time, in seconds
//
// What you will see: the three ways at work, each checked against one device; a table of their
// costs with the bytes that were counted next to those that a formula says, with the time that was
// measured next to the time that a modelled machine takes; how idle a pipeline is; in plots/ what
// each device did when, measured and modelled, and the modelled time of AlexNet and ResNet-18 on up
// to 128 devices. On 2 idle cores it takes about 20 seconds.
//
// Read in this order: network.c (LeNet as a list of layers), spread.h (who holds what), then one
// file for each way: strategy_pipeline.c, strategy_within.c, strategy_data.c. Then this file, from
// top to bottom; what a section says is computed and printed in the file that it names.
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/data/fashion_mnist.h"
#include "common/program/book.h"
#include "bubble.h"
#include "costs.h"
#include "parity.h"
#include "predict.h"
#include "step_costs.h"
#include "step_pictures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static Flags flags;
static int ks[3] = {1, 2, 4}, num_ks = 3;

// ## The problem
//
// LeNet has two convolutions, in which nearly all of the work is, and two fully connected layers,
// in which nearly all of the parameters are. That is so for many networks, and matters for each way
// to split them. All ways compute one step of it, from the same parameters on the same minibatch
// (problem.h).

static Problem lenet = {.network = &lenet_network, .microbatches = 4};

// The book draws its start from N(0, 0.01^2). The scores are then so close to zero that the loss is
// log 10 per image whatever the layers do, and would hide their mistakes. So the start is ten times
// as large here.
static const double SCALE = 0.1;

// ## One device
//
// What all three ways must give: the loss of the minibatch, the gradients of all parameters, and
// the loss after one update with them.

static Tensor *loss_on(Device *device, Tensor *const there[]) {
    begin_step(device);
    Tensor *X = tensor_to(lenet.X, device), *y = tensor_to(lenet.y, device);
    Range all_layers = {0, lenet_network.num_layers};
    Tensor *loss = sum(cross_entropy(layers_forward(&lenet_network, all_layers, X, there), y));
    backward(loss);
    tensor_free(X);
    tensor_free(y);
    return loss;
}

static Reference one_device(void) {
    Reference r;
    Device *device;
    Tensor *there[MAX_PARAMS];
    int n = lenet.X->shape[0];
    open_devices(&device, 1);
    for (int p = 0; p < num_params(&lenet_network); p++) {
        there[p] = tensor_to(lenet.params[p], device);
        attach_grad(there[p]);
    }
    r.loss = (double)item(loss_on(device, there));
    for (int p = 0; p < num_params(&lenet_network); p++) r.grads[p] = tensor_values(there[p]->grad);
    sgd(there, num_params(&lenet_network), lenet.lr, n);
    r.next_loss = (double)item(loss_on(device, there));
    r.has_values = has_values(device);
    if (r.has_values &&
        !(r.next_loss <= 10 * r.loss)) // differences by rounding would grow as much; or it is a NaN
        die("start again with a smaller --lr", "one update with lr %g takes the loss from %g to %g",
            (double)lenet.lr, r.loss / n, r.next_loss / n);
    for (int p = 0; p < num_params(&lenet_network); p++) tensor_free(there[p]);
    if (r.has_values)
        printf("One device (%s): loss %.6f per image, %.6f after one update\n\n",
               device_name(device), r.loss / n, r.next_loss / n);
    else
        printf(
            "The devices compute nothing (--backend model): there is time, there are bytes, and\n"
            "no values that could be compared.\n\n");
    return r;
}

// ## Three ways
//
// Each way is run with 1, 2 and 4 devices, and must give the same numbers but for rounding
// (parity.c).

static void compare(Spread *s, const Reference *r) {
    double loss = check_same_loss(s, r->loss), grads = check_same_gradients(s, &lenet, r);
    spread_update(s, lenet.lr, lenet.X->shape[0]);
    s->strategy->gradients(s, lenet.X, lenet.y);
    loss = fmax(loss, check_same_loss(s, r->next_loss));
    printf("  %d device%s  same loss (to %.0e), same gradients (to %.0e), same loss after update\n",
           s->k, s->k > 1 ? "s:" : ": ", loss, grads);
}

static StepCosts run(const Strategy *strategy, int k, const Reference *r) {
    Spread *s = problem_spread(&lenet, strategy, k);
    ledger_reset();
    strategy->gradients(s, lenet.X, lenet.y);
    synchronize_all();
    StepCosts costs = step_costs(s, &lenet);
    if (r->has_values)
        compare(s, r);
    else
        printf("  %d device%s\n", k, k > 1 ? "s" : "");
    if (k > 1) print_holdings(s);
    time_steps(&costs, s, &lenet, flags.steps);
    spread_close(s);
    return costs;
}

static int run_strategy(const Strategy *strategy, const Reference *r, StepCosts costs[]) {
    int num_costs = 0;
    printf("Splitting %s (the book's \"%s\")\n", strategy->name, strategy->book);
    printf("  and what each device holds: parameters + activations, with gradients; layers\n");
    for (int i = 0; i < num_ks; i++) {
        if (ks[i] <= strategy->most_devices(&lenet_network))
            costs[num_costs++] = run(strategy, ks[i], r);
        else
            printf("  %d devices: there are only %d layers\n", ks[i], lenet_network.num_layers);
    }
    printf("\n");
    return num_costs;
}

// ## What each costs
//
// Parameters: across and within layers they are shared out, across data each device has them all.
// Activations: across data each device has those of its rows only; within layers the gathered
// inputs are on all devices, and what is sent and received takes room too. Bytes that move: counted
// by the ledger (ledger.h), and by the formula at the end of each strategy's file. A
// synchronization point ("sync") is a place in the step at which devices need what others have
// computed, and wait for it. A collective counts as one, whatever it is made of: the allreduce of
// all gradients, an all-gather, a reduce-scatter. In a pipeline each transfer is one: for each
// boundary, each microbatch, forward and backward.
//
// Time is measured on this computer, where devices may share cores; and modelled, as the same work
// would take on the machine of --machine, where each device is a GPU by itself. (step_costs.c)

static void three_ways(const Reference *reference) {
    StepCosts costs[NUM_STRATEGIES * 3];
    int n = 0;
    for (int i = 0; i < NUM_STRATEGIES; i++) n += run_strategy(strategies[i], reference, costs + n);
    print_step_costs(costs, n, &lenet);
    explain_step_costs(costs, n, &lenet);
}

// ## Who computed what, and when
//
// trace.h records each piece of work with its start and end. Of some measured steps we take the
// shortest: the one that other programs disturbed least (record.c). Modelled steps are always the
// same. They are AlexNet's, computed by the same code on devices that only tell the time: LeNet's
// kernels are so short on a GPU that we would see the host launch them, and nothing of the three
// ways. Look for the bubble across layers, for the exchange at each layer within layers and, across
// data, for the one exchange at the end, and who waits for whom in it. (step_pictures.c)

static void timelines(void) {
    Problem alexnet = problem_to_model(&alexnet_network, 256, 8);
    for (int i = 0; i < num_ks; i++)
        if (ks[i] > 1) show_timeline(&lenet, &alexnet, ks[i]);
    problem_free(&alexnet);
}

// ## The bubble
//
// A pipeline's devices are idle while it fills and drains. With stages that take equally long that
// is (k-1)/(m+k-1) of the time: less with more microbatches. But smaller pieces are computed less
// efficiently, so the step need not get faster. We see that with networks of eight equal layers.
// With LeNet and AlexNet we do not: the device that has most to do is always busy, the others wait
// for it, and no number of microbatches helps against that. "These stages" is the same schedule,
// fill and drain, calculated with the times that the stages took. What remains to "idle" is sending
// and loading, and, where it was measured, whatever else ran on the cores. With equal stages, on a
// modelled machine that sends and launches in no time, nothing remains: "idle" then is
// (k-1)/(m+k-1) (a test, tests/test_splitting.c, holds that to nine digits). (bubble.c)

static void bubbles(void) {
    if (num_ks < 2 || ks[1] > network_pieces(&equal_network)) return;
    Problem alexnet = problem_to_model(&alexnet_network, 256, 1);
    show_bubble(&lenet, &alexnet, ks, num_ks, flags.seed);
    problem_free(&alexnet);
}

// ## Larger networks, more devices
//
// The formulas for bytes need no devices, and modelled time needs none that compute. predict.c says
// what AlexNet and ResNet-18 hold and move, and how long a step of theirs takes on up to 128
// devices of three machines.

static void predictions(void) {
    larger_networks();
    many_devices();
}

// ## The program

// What is written must not replace what is read, nor each other: that is seen before any work.
static void check_outputs_now(void) {
    char suffix[32];
    book_csv("_model.csv");
    book_output("_model.png");
    book_timeline("_bubble.png");
    for (int i = 0; i < num_ks; i++) {
        snprintf(suffix, sizeof suffix, "_timeline_%d.png", ks[i]);
        book_timeline(suffix);
    }
    book_check_outputs();
}

static void choose_devices(void) {
    if (flags.devices == 0) return;
    ks[1] = flags.devices;
    num_ks = flags.devices > 1 ? 2 : 1;
}

int main(int argc, char *argv[]) {
    flags = book_begin(
        argc, argv,
        "Splits a step of LeNet over k = 1, 2 and 4 devices in three ways, and compares.\n"
        "With --devices K: over 1 and K.",
        "devices seed batch-size lr steps train-size no-shuffle csv data", default_flags);
    choose_devices();
    book_needs_devices(ks[num_ks - 1]);
    check_outputs_now();
    Dataset *data = fashion_mnist_open(flags.data, true, flags.train_size);
    DataIter *iter = data_iter_new(data, flags.batch_size, flags.shuffle, flags.seed);
    data_iter_first(iter, &lenet.X, &lenet.y);
    lenet.lr = flags.lr;
    network_init(&lenet_network, lenet.params, SCALE, flags.seed);

    network_print(&lenet_network);
    Reference reference = one_device();
    three_ways(&reference);
    timelines();
    bubbles();
    predictions();

    for (int p = 0; p < num_params(&lenet_network); p++) {
        tensor_free(lenet.params[p]);
        free(reference.grads[p]);
    }
    data_iter_free(iter);
    dataset_free(data);
    return book_end();
}

// ## Summary
//
// - A network can be split over devices across its layers, within its layers, or across data. All
//   three compute the same.
// - Across layers, a device holds a part of the network, and only what crosses a boundary moves.
//   But devices wait for each other at each boundary, the bubble grows with their number, and
//   stages are never equal.
// - Within layers, parameters and work are split evenly where there are channels enough; the
//   gathered activations are on all devices. Each layer needs all channels of the one before, so
//   devices wait for each other twice per layer, and what moves grows with the minibatch: for
//   convolutional networks it is usually most.
// - Across data, devices wait for each other once per step, and any network can be split. But each
//   device holds all parameters, so more devices do not allow a larger network.
// - So split the data, unless the network does not fit; and do not sum on one device when they are
//   many (chapter 2).
//
// ## Exercises
//
// 1. Cut LeNet behind its convolutions instead (place() in strategy_pipeline.c). Which columns of
//    the tables change, and why does less move?
// 2. Let a stage go backward with a microbatch as soon as it can, instead of after all have gone
//    forward ("1F1B"). What does that do to the bubble, and what to the memory?
// 3. Within layers: if a layer's weights are cut along their *inputs*, it needs only its own part
//    of the layer before. Cut every second layer so. How many syncs remain?
// 4. Across data, gradients of the last layer are ready long before those of the first. Begin to
//    exchange them while the others are still being computed, as the book calls highly desirable
//    (strategy_data.c; when_grad_is_final() of autograd.h says when a gradient may go). What
//    does the timeline show?
// 5. Split AlexNet's convolutions across data and its fully connected layers within layers. What
//    moves per step, by the formulas? (Krizhevsky, "One weird trick for parallelizing convolutional
//    neural networks", 2014.)
