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
//
// What you will see: the three ways at work, each checked against one device; a table of their
// costs with the bytes that were counted next to those that a formula says; how idle a pipeline is;
// in plots/ what each device did when, and what a model predicts for AlexNet and ResNet-18 on up to
// 1024 devices. On 2 idle cores it takes about 20 seconds.
//
// Read in this order: network.c (LeNet as a list of layers), spread.h (who holds what), then one
// file for each way: strategy_pipeline.c, strategy_within.c, strategy_data.c. costs.c has the
// formulas, predict.c what they say of larger networks.
#include "common/base/error.h"
#include "common/data/fashion_mnist.h"
#include "common/base/file.h"
#include "common/program/flags.h"
#include "common/device/timer.h"
#include "costs.h"
#include "predict.h"
#include "timeline.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Flags flags;
static Tensor *params[MAX_PARAMS]; // of LeNet: the common start, on the host
static Tensor *X, *y;              // one minibatch, on the host
static int ks[3] = {1, 2, 4}, num_ks = 3;

enum { MICROBATCHES = 4 };

// The book draws its start from N(0, 0.01^2). The scores are then so close to zero that the loss is
// log 10 per image whatever the layers do, and would hide their mistakes. So the start is ten times
// as large here.
static const double SCALE = 0.1;

// ## The problem
//
// LeNet has two convolutions, in which nearly all of the work is, and two fully connected layers,
// in which nearly all of the parameters are. That is so for many networks, and matters for each way
// to split them.

static void print_network(const Network *network) {
    printf("%s\n  %-8s %11s %16s %18s\n", network->name, "layer", "parameters", "mult-adds/image",
           "passed on/image");
    for (int l = 0; l < network->num_layers; l++) {
        const Layer *layer = &network->layers[l];
        printf("  %-8s %11.0f %16.0f %18.0f\n", layer->name, layer_params(layer), layer_macs(layer),
               layer_sent(layer));
    }
    printf("\n");
}

// ## One device
//
// What all three ways must give: the loss of the minibatch, the gradients of all parameters, and
// the loss after one update with them.

typedef struct Reference {
    double loss, next_loss;
    float *grads[MAX_PARAMS];
} Reference;

static Tensor *loss_on(Device *device, Tensor *const there[]) {
    begin_step(device);
    Tensor *Z = tensor_to(X, device), *labels = tensor_to(y, device), *flow = Z;
    for (int l = 0; l < lenet_network.num_layers; l++)
        flow = layer_forward(&lenet_network.layers[l], flow, there[2 * l], there[2 * l + 1]);
    Tensor *loss = sum(cross_entropy(flow, labels));
    backward(loss);
    tensor_free(Z);
    tensor_free(labels);
    return loss;
}

static Reference one_device(void) {
    Reference r;
    Device *device = try_gpu(0);
    Tensor *there[MAX_PARAMS];
    share_cores(&device, 1);
    for (int p = 0; p < num_params(&lenet_network); p++) {
        there[p] = tensor_to(params[p], device);
        attach_grad(there[p]);
    }
    r.loss = (double)item(loss_on(device, there));
    for (int p = 0; p < num_params(&lenet_network); p++) {
        r.grads[p] = xmalloc(tensor_bytes(params[p]));
        tensor_read(there[p]->grad, r.grads[p]);
    }
    sgd(there, num_params(&lenet_network), flags.lr, X->shape[0]);
    r.next_loss = (double)item(loss_on(device, there));
    if (!(r.next_loss <= 10 * r.loss)) // differences by rounding would grow as much; or it is a NaN
        die("start again with a smaller --lr", "one update with lr %g takes the loss from %g to %g",
            (double)flags.lr, r.loss / X->shape[0], r.next_loss / X->shape[0]);
    for (int p = 0; p < num_params(&lenet_network); p++) tensor_free(there[p]);
    printf("One device (%s): loss %.6f per image, %.6f after one update\n\n", device_name(device),
           r.loss / X->shape[0], r.next_loss / X->shape[0]);
    return r;
}

// ## Three ways
//
// Each way is run with 1, 2 and 4 devices from the same start on the same minibatch, and must give
// the same numbers but for rounding: sums over rows or channels are added up in another order.

static const double TOLERANCE = 1e-5;

static double check_loss(const Spread *s, double expected) {
    double difference = fabs(spread_loss(s) / expected - 1);
    if (!(difference <= TOLERANCE))
        die("a bug: please report it", "%s, k = %d: loss %.8g, one device has %.8g",
            s->strategy->name, s->k, spread_loss(s), expected);
    return difference;
}

// The largest difference of a gradient, as a part of the largest gradient of the same parameter.
static double check_gradients(const Spread *s, const Reference *r) {
    double worst = 0;
    for (int p = 0; p < num_params(&lenet_network); p++) {
        float *grad = spread_grad(s, p, params[p]);
        double largest = 0, difference = 0;
        for (size_t i = 0; i < numel(params[p]); i++) {
            double off = fabs((double)grad[i] - (double)r->grads[p][i]);
            largest = fmax(largest, fabs((double)r->grads[p][i]));
            difference = off <= difference ? difference : off; // a NaN stays
        }
        free(grad);
        if (!(difference <= TOLERANCE * largest))
            die("a bug: please report it",
                "%s, k = %d: the gradient of %s differs by %g from one device's", s->strategy->name,
                s->k, params[p]->name, difference);
        if (largest > 0) worst = fmax(worst, difference / largest);
    }
    return worst;
}

static void print_holdings(const Spread *s) {
    for (int i = 0; i < s->k; i++) {
        printf("    %s %.3f + %.2f MB:", device_name(s->devices[i]),
               megabytes((double)spread_param_bytes(s, i)),
               megabytes((double)arena_used_bytes(s->devices[i])));
        const char *comma = " ";
        for (int l = 0; l < lenet_network.num_layers; l++) {
            Part part = s->part[i][l];
            const Layer *layer = &lenet_network.layers[l];
            if (part.count == 0) continue;
            printf("%s%s", comma, layer->name);
            if (part.count < layer->out)
                printf("[%d..%d]", part.first, part.first + part.count - 1);
            comma = ", ";
        }
        printf("\n");
    }
}

// What a step costs: a line of the table.
typedef struct Row {
    const Strategy *strategy;
    int k, syncs;
    double most_params, most_activations, all_params, all_activations; // bytes on a device, on all
    double moved, formula, from_host, seconds;
} Row;

static Row costs_of(const Spread *s) {
    int n = X->shape[0];
    Row row = {.strategy = s->strategy, .k = s->k, .syncs = s->syncs};
    row.moved = (double)ledger_bytes_between_devices();
    row.from_host = (double)ledger_bytes_host();
    row.formula = s->strategy->bytes_moved(&lenet_network, s->k, n, MICROBATCHES);
    double syncs = s->strategy->syncs(&lenet_network, s->k, MICROBATCHES);
    if (row.moved != row.formula || row.syncs != syncs)
        die("a bug: please report it",
            "%s, k = %d: %.0f bytes moved, %d syncs; the formulas say %.0f, %.0f",
            s->strategy->name, s->k, row.moved, row.syncs, row.formula, syncs);
    for (int i = 0; i < s->k; i++) {
        double held = (double)spread_param_bytes(s, i),
               kept = (double)arena_used_bytes(s->devices[i]);
        row.most_params = fmax(row.most_params, held);
        row.most_activations = fmax(row.most_activations, kept);
        row.all_params += held;
        row.all_activations += kept;
    }
    return row;
}

// The fastest of some steps, which is the one that other programs disturbed least: of 15, or of
// those that two seconds suffice for.
static double seconds_per_step(Spread *s) {
    int steps = flags.steps > 0 ? flags.steps : 15;
    double fastest = INFINITY, total = 0;
    for (int i = 0; i < steps && (flags.steps > 0 || i < 3 || total < 2); i++) {
        Timer timer;
        timer_start(&timer);
        spread_step(s, X, y, flags.lr);
        double seconds = timer_stop(&timer);
        fastest = fmin(fastest, seconds);
        total += seconds;
    }
    return fastest;
}

static Spread *open_on(const Network *network, Tensor *const start[], const Strategy *strategy,
                       int k, int m) {
    Device *devices[MAX_DEVICES];
    open_devices(devices, k);
    return spread_open(network, start, strategy, devices, k, m);
}

static Row run(const Strategy *strategy, int k, const Reference *r) {
    Spread *s = open_on(&lenet_network, params, strategy, k, MICROBATCHES);
    ledger_reset();
    strategy->gradients(s, X, y);
    synchronize_all();
    Row row = costs_of(s);
    double loss = check_loss(s, r->loss), grads = check_gradients(s, r);
    spread_update(s, flags.lr, X->shape[0]);
    strategy->gradients(s, X, y);
    loss = fmax(loss, check_loss(s, r->next_loss));
    printf("  %d device%s  same loss (to %.0e), same gradients (to %.0e), same loss after update\n",
           k, k > 1 ? "s:" : ": ", loss, grads);
    if (k > 1) print_holdings(s);
    row.seconds = seconds_per_step(s);
    spread_close(s);
    return row;
}

static int run_strategy(const Strategy *strategy, const Reference *r, Row rows[]) {
    int num_rows = 0;
    printf("Splitting %s (the book's \"%s\")\n", strategy->name, strategy->book);
    printf("  and what each device holds: parameters + activations, with gradients; layers\n");
    for (int i = 0; i < num_ks; i++) {
        if (ks[i] <= strategy->most_devices(&lenet_network))
            rows[num_rows++] = run(strategy, ks[i], r);
        else
            printf("  %d devices: there are only %d layers\n", ks[i], lenet_network.num_layers);
    }
    printf("\n");
    return num_rows;
}

// ## What each costs
//
// Parameters: across and within layers they are shared out, across data each device has them all.
// Activations: across data each device has those of its rows only; within layers the gathered
// inputs are on all devices, and what is sent and received takes room too. Bytes that move: counted
// by the ledger of device.h, and by the formula at the end of each strategy's file. A
// synchronization point ("sync") is a place in the step at which devices need what others have
// computed, and wait for it. A collective counts as one, whatever it is made of: the allreduce of
// all gradients, an all-gather, a reduce-scatter. In a pipeline each transfer is one: for each
// boundary, each microbatch, forward and backward.

static void print_rows(const Row rows[], int num_rows) {
    printf("One step, %d images (MB = 10^6 bytes, gradients included; %d microbatches)\n",
           X->shape[0], MICROBATCHES);
    printf("                  most on one device    all together      bytes between devices\n"
           "strategy       k  params  activations  params  activ.     counted     formula"
           "  syncs  ms/step\n");
    for (int i = 0; i < num_rows; i++) {
        const Row *r = &rows[i];
        printf("%-13s %2d %7.2f %12.2f %7.2f %7.2f %11.0f %11.0f %6d %8.1f\n",
               r->k == rows[0].k ? r->strategy->name : "", r->k, megabytes(r->most_params),
               megabytes(r->most_activations), megabytes(r->all_params),
               megabytes(r->all_activations), r->moved, r->formula, r->syncs, 1e3 * r->seconds);
    }
}

static void explain_rows(const Row rows[], int num_rows) {
    double batch = (double)(tensor_bytes(X) + tensor_bytes(y));
    for (int i = 0; i < num_rows; i++) {
        int copies = rows[i].strategy == &within_layers ? rows[i].k : 1;
        if (rows[i].from_host != copies * batch)
            die("a bug: please report it", "%s, k = %d: %.0f bytes from the host, not %.0f",
                rows[i].strategy->name, rows[i].k, rows[i].from_host, copies * batch);
    }
    printf("From the host came the minibatch, %.0f bytes; within layers, to each device. Syncs: an "
           "allreduce,\nan all-gather, a reduce-scatter is one; across layers, each transfer.\n",
           batch);
    if (num_gpus() == 0)
        printf("Here the devices are workers that share %d core%s, all of which one device uses "
               "too. So more devices\ncannot be much faster; on a busy machine these times mean "
               "little.\n",
               num_threads(), num_threads() > 1 ? "s" : "");
    printf("\n");
}

// ## Who computed what, and when
//
// trace.h records each piece of work with its start and end. Of some steps we take the shortest:
// the one that other programs disturbed least.

static double duration(const Recorded *r) {
    double end = 0;
    for (int i = 0; i < r->count; i++) end = fmax(end, r->spans[i].end);
    return end;
}

static Recorded record_once(Spread *s) {
    Recorded r = {.k = s->k};
    memcpy(r.devices, s->devices, sizeof r.devices);
    trace_begin();
    spread_step(s, X, y, flags.lr);
    r.spans = trace_end(&r.count);
    return r;
}

static Recorded record_best(const Network *network, Tensor *const start[], const Strategy *strategy,
                            int k, int m) {
    enum { RUNS = 9 };
    Spread *s = open_on(network, start, strategy, k, m);
    spread_step(s, X, y, flags.lr); // the first touches new memory
    Recorded best = record_once(s);
    for (int i = 1; i < RUNS; i++) {
        Recorded other = record_once(s);
        bool shorter = duration(&other) < duration(&best);
        free(shorter ? best.spans : other.spans);
        if (shorter) best = other;
    }
    spread_close(s);
    return best;
}

// Draws the steps and forgets them.
static void draw(const char *suffix, const char *heading, Recorded steps[], int n) {
    char *path = out_file(flags.out, suffix);
    draw_timeline(path, heading, steps, n);
    printf("%s: %s\n", heading, path);
    free(path);
    for (int i = 0; i < n; i++) {
        free((char *)steps[i].title);
        free(steps[i].spans);
    }
}

// More workers than cores: what one does slows down the others.
static bool crowded(int k) { return num_gpus() == 0 && k > num_threads(); }

static void timeline(int k) {
    Recorded steps[NUM_STRATEGIES];
    int n = 0;
    for (int i = 0; i < NUM_STRATEGIES; i++) {
        if (k > strategies[i]->most_devices(&lenet_network)) continue;
        Recorded *r = &steps[n++];
        *r = record_best(&lenet_network, params, strategies[i], k, MICROBATCHES);
        r->title = xprintf("%s%s: %.1f ms, idle %.0f%%", strategies[i]->name,
                           strategies[i] == &across_layers ? " (numbers: microbatches)" : "",
                           1e3 * duration(r), 100 * idle_share(r->spans, r->count, r->devices, k));
    }
    char *cores =
        crowded(k) ? xprintf(" that share %d core%s", num_threads(), num_threads() > 1 ? "s" : "")
                   : xstrdup("");
    char *heading = xprintf("One step of LeNet, %d images, on %d devices%s", X->shape[0], k, cores);
    char *suffix = xprintf("_timeline_%d.png", k);
    draw(suffix, heading, steps, n);
    free(cores);
    free(heading);
    free(suffix);
}

// ## The bubble
//
// A pipeline's devices are idle while it fills and drains. With stages that take equally long that
// is (k-1)/(m+k-1) of the time: less with more microbatches. But smaller pieces are computed less
// efficiently, so the step need not get faster. We see that with a network of eight equal layers.
// With LeNet we do not: the device that has conv2 is always busy, the others wait for it, and no
// number of microbatches helps against that. "These stages" is the same schedule, fill and drain,
// calculated with the times that the stages took. What remains to "measured" is sending, and
// whatever else ran on the cores.

static Recorded measure_bubble(const Network *network, Tensor *const start[], int k, int m) {
    Recorded r = record_best(network, start, &across_layers, k, m);
    double idle = idle_share(r.spans, r.count, r.devices, k);
    printf("  %-20s %2d %13d %14.0f%% %13.0f%% %9.0f%% %8.1f\n", network->name, k, m,
           100 * equal_bubble(k, m), 100 * stage_bubble(r.spans, r.count, r.devices, k, m),
           100 * idle, 1e3 * duration(&r));
    r.title = xprintf("%d microbatch%s: %.1f ms, idle %.0f%%; (k-1)/(m+k-1) is %.0f%%", m,
                      m > 1 ? "es" : "", 1e3 * duration(&r), 100 * idle, 100 * equal_bubble(k, m));
    return r;
}

static void bubbles_of(const Network *network, Tensor *const start[], int k, const char *suffix) {
    Recorded steps[4];
    int n = 0;
    for (int m = 1; m <= 8 && m <= X->shape[0]; m *= 2)
        steps[n++] = measure_bubble(network, start, k, m);
    char *heading = xprintf("A pipeline of %d devices, %s, %d images, cut into m microbatches", k,
                            network->name, X->shape[0]);
    if (suffix) draw(suffix, heading, steps, n);
    for (int i = 0; !suffix && i < n; i++) {
        free((char *)steps[i].title);
        free(steps[i].spans);
    }
    free(heading);
}

static void bubble(void) {
    const Network *equal = &equal_network;
    Tensor *start[MAX_PARAMS];
    bool drawn = false, note = false;
    network_init(equal, start, sqrt(2.0 / 512), flags.seed); // activations keep their size
    printf("\nThe bubble: the share of the time in which a pipeline's devices are idle\n"
           "  network               k  microbatches   equal stages  these stages  measured  "
           "ms/step\n");
    for (int i = num_ks - 1; i > 0; i--) {
        bool draw_it = !drawn && (!crowded(ks[i]) || i == 1);
        if (ks[i] <= network_pieces(equal))
            bubbles_of(equal, start, ks[i], draw_it ? "_bubble.png" : NULL);
        if (ks[i] <= network_pieces(&lenet_network))
            bubbles_of(&lenet_network, params, ks[i], NULL);
        drawn = drawn || draw_it;
        note = note || crowded(ks[i]);
    }
    if (note)
        printf(
            "With more workers than cores (%d) a stage takes longer than by itself while others\n"
            "run: \"measured\" says little where there are more devices than cores.\n",
            num_threads());
    printf("\n");
    for (int p = 0; p < num_params(equal); p++) tensor_free(start[p]);
}

// ## The program

// The figures must not replace what is read or drawn.
static void check_csv(void) {
    if (!flags.csv) return;
    enum { CSV, FIRST_PNG };
    char suffix[32], *paths[8] = {[CSV] = xstrdup(flags.csv)};
    int n = FIRST_PNG;
    paths[n++] = out_file(flags.out, "_model.png");
    paths[n++] = out_file(flags.out, "_bubble.png");
    for (int i = 0; i < num_ks; i++) {
        snprintf(suffix, sizeof suffix, "_timeline_%d.png", ks[i]);
        paths[n++] = out_file(flags.out, suffix);
    }
    fashion_mnist_keep(flags.data, (const char *const *)paths, 1);
    check_outputs((const char *const *)paths, n);
    for (int i = 0; i < n; i++) free(paths[i]);
}

static void prepare(Dataset **data, DataIter **iter) {
    if (flags.devices > 0) {
        ks[1] = flags.devices;
        num_ks = flags.devices > 1 ? 2 : 1;
    }
    make_directory(flags.out);
    check_csv();
    *data = fashion_mnist_open(flags.data, true, flags.train_size);
    *iter = data_iter_new(*data, flags.batch_size, flags.shuffle, flags.seed);
    data_iter_start(*iter, 0);
    if (!data_iter_next(*iter, &X, &y)) die("use a larger --train-size", "there is no minibatch");
    network_init(&lenet_network, params, SCALE, flags.seed);
}

static void clean_up(Dataset *data, DataIter *iter, Reference *reference) {
    for (int p = 0; p < num_params(&lenet_network); p++) {
        tensor_free(params[p]);
        free(reference->grads[p]);
    }
    data_iter_free(iter);
    dataset_free(data);
    devices_close();
}

int main(int argc, char *argv[]) {
    Dataset *data;
    DataIter *iter;
    Row rows[NUM_STRATEGIES * 3];
    int num_rows = 0;
    flags = parse_flags(
        argc, argv,
        "Splits a step of LeNet over k = 1, 2 and 4 devices in three ways, and compares.\n"
        "With --devices K: over 1 and K.",
        "devices seed batch-size lr steps train-size no-shuffle csv data", default_flags);
    prepare(&data, &iter);

    print_network(&lenet_network);
    Reference reference = one_device();
    for (int i = 0; i < NUM_STRATEGIES; i++)
        num_rows += run_strategy(strategies[i], &reference, rows + num_rows);
    print_rows(rows, num_rows);
    explain_rows(rows, num_rows);
    for (int i = 0; i < num_ks; i++)
        if (ks[i] > 1) timeline(ks[i]);
    if (num_ks > 1 && ks[1] <= network_pieces(&equal_network)) bubble();
    larger_networks();
    many_devices(flags.csv, flags.out);

    clean_up(data, iter, &reference);
    return EXIT_SUCCESS;
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
// - So split the data, unless the network does not fit.
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
//    (strategy_data.c; backward_from() of autograd.h goes back through one layer at a time). What
//    does the timeline show?
// 5. Split AlexNet's convolutions across data and its fully connected layers within layers. What
//    moves per step, by the formulas? (Krizhevsky, "One weird trick for parallelizing convolutional
//    neural networks", 2014.)
