// main.c: the story of chapter 1. README.md says how to run it and what to read.
#include "common/book.h"
#include "bubble.h"
#include "costs.h"
#include "behind/behind.h"

// ## The problem
//
// We begin, as the book does, with a somewhat old network for a simple problem: LeNet, which has
// two convolutions and two fully connected layers, and images of clothes in ten classes. Several
// devices have more memory and more computing power than one. How can a step of training use them?
//
// First look at what there is to split. The work, the parameters and the activations (outputs of
// the layers, kept because the backward pass needs them) are not in the same layers. That is so in
// many networks, and it matters for each way to split them. "Mult-adds" is the work: a
// multiplication and an addition each. "Passed on" is how many numbers the next layer gets.

static void show_network(void) { network_print(&lenet_network); }

// ## One device
//
// All ways compute one step of training, from the same parameters and on the same minibatch. So all
// must give what one device gives: the loss of the minibatch, the gradients of all parameters, and
// the loss after one update with them.
//
// The book draws the parameters from $N(0, 0.01^2)$. The scores of the classes are then so close to
// zero that an image's loss is $\ln 10$ whatever the layers do, which would hide their mistakes.
// So the parameters are ten times as large here.

static Reference compute_on_one_device(const Problem *lenet) {
    Reference one_device = one_device_step(lenet);
    int n = lenet->X->shape[0];
    printf("\nOne device (%s): loss %.6f per image, %.6f after one update\n",
           device_name(try_gpu(0)), one_device.loss / n, one_device.next_loss / n);
    return one_device;
}

// ## Three ways
//
// | here          | the book                | the field                                        |
// |---------------|-------------------------|--------------------------------------------------|
// | across layers | network parallelism     | pipeline parallelism (a form of model parallelism) |
// | within layers | layer-wise parallelism  | tensor parallelism (model parallelism, too)      |
// | across data   | data parallelism        | data parallelism; DDP in PyTorch                 |
//
// The picture shows LeNet on two devices, 0 and 1, in each way; compare it with the book's figure.
//
// ```
//             across layers     within layers         across data
//
// linear4       device 1     device 0 | device 1    device 0   device 1
// linear3       device 1     device 0 | device 1    device 0   device 1
// conv2         device 1     device 0 | device 1    device 0   device 1
// conv1         device 0     device 0 | device 1    device 0   device 1
//
// images           all         all    |   all        first      second
//                                                     half       half
// ```
//
// Each way is run with 1, 2 and 4 devices, and each step is compared with that of one device. The
// results are not always the same to the bit, because sums are added up in another order. The
// program prints the largest relative difference, and ends with an error if it is more than
// rounding explains.
//
// ## Across layers
//
// The first way splits the network itself: each device has some of the layers. It takes what flows
// into its first layer, computes, and sends the result to the next device. So a network may be
// larger than the memory of one device. But the devices must work in step where two of them meet,
// which is hard to do well if they do not have equal work, and layers are what they are.
// (`strategy_pipeline.c`)

static void split_across_layers(StepTable *t, const Problem *lenet, const Reference *one_device) {
    run_strategy(&across_layers, t, lenet, one_device);
}

// ## Within layers
//
// The second way splits the work of each layer: instead of all 50 channels of a convolution, or all
// 128 units of a fully connected layer, each device computes some. That divides work and parameters
// evenly, as long as there are channels enough. But the next layer needs all channels, so the
// devices must exchange them after each layer. (`strategy_within.c`)

static void split_within_layers(StepTable *t, const Problem *lenet, const Reference *one_device) {
    run_strategy(&within_layers, t, lenet, one_device);
}

// ## Across data
//
// The third way splits the minibatch: all devices do the same work on different images, and their
// gradients are summed. This is the simplest way, it works for any network, and devices wait for
// each other only once per minibatch. With more devices one can also take larger minibatches, which
// keep each of them busy. But each holds the whole network, so more devices do not allow a larger
// one. (`strategy_data.c`)

static void split_across_data(StepTable *t, const Problem *lenet, const Reference *one_device) {
    run_strategy(&across_data, t, lenet, one_device);
    book_result("split in three ways, a step is that of one device");
}

// ## What each device holds
//
// Parameters are shared out across layers and within layers; across data, each device has them all.
// Activations go other ways. Across layers they stay with the layer that computed them. Within
// layers each device has its own channels of them, and copies of all the others. Across data each
// device has those of its own images.
//
// Already on one device the three ways differ. The last table says what the activations are made
// of:
//
// - *outputs* of the layers, kept until the backward pass has used them: the same in all ways;
// - *gradients* of outputs, needed for two operations at a time. A pipeline goes backward with one
//   microbatch (a part of the minibatch) at a time, so it needs them for those few images only;
// - *gathered*: within layers, the channels of all devices, with gradients, as input of the next
//   layer. (*The rest* is labels and padding and, within layers, gradients cut into the channels of
//   each device, which is done on one device, too.)

static void compare_memory(const StepTable *t, const Problem *lenet) {
    int last = t->num_ks - 1;
    Prediction less_than_half = {0};
    if (t->ks[last] == 4)
        less_than_half = predict_yes_no(
            "Across layers on 4 devices, each device has one of LeNet's four layers. One device "
            "that has all layers keeps the activations of all. Does the device with the most "
            "activations now need less than half of that?");
    print_memory(t, lenet);
    const StepCosts *across = t->of[0];
    predict_compare_yes_no(less_than_half,
                           across[last].most_activations < across[0].most_activations / 2);
}

// ## What moves between devices
//
// The bytes are counted as they move, and must be those of the formula at the end of each way's
// file. Across and within layers they grow with the minibatch; across data they do not, because
// gradients have the size of the parameters.
//
// A synchronization point ("sync") is a place in the step at which devices need what others have
// computed, and wait for it. A collective, an operation in which all devices take part, is one: the
// allreduce (all get the sum) of the gradients across data; within layers the all-gather (all get
// all parts) after each layer, and the reduce-scatter (each gets a part of the sum) on the way
// back. Across layers each transfer is one: for each boundary, each microbatch, forward and
// backward.

static void compare_traffic(const StepTable *t, const Problem *lenet) {
    if (t->num_ks == 1) return; // nothing moves
    Prediction bytes = predict_first(
        "LeNet has 129,068 parameters, numbers of 4 bytes. Across data on 2 devices, one sends its "
        "gradients to the other, which adds its own and sends the sums back. How many MB (10^6 "
        "bytes) move in a step with 256 images?");
    print_traffic(t, lenet);
    predict_compare(bytes, megabytes(across_data.bytes_moved(&lenet_network, 2, 256, 1)), "MB");
}

// ## How long it takes
//
// *Measured* time is that of this computer, where devices may share cores; if it has other things
// to do, it means little. *Modelled* time is what the same work would take on the machine of
// `--machine` (an NVIDIA DGX A100 if you name none), where each device is a GPU by itself.
//
// Already on one device the ways differ: across layers the minibatch comes in microbatches, so
// there are more and smaller kernels; within layers, channels are copied to where they would be
// gathered.

static void compare_seconds(const StepTable *t) { print_seconds(t); }

// ## Who computes what, and when
//
// A step as timelines, a lane for each device. Of the measured steps we draw the shortest, which
// other programs disturbed least. The modelled steps are AlexNet's, a larger network: LeNet's
// kernels are so short on a GPU that we would mostly see how the host launches them.
//
// ![A step on two devices. Look for the idle time across layers, the exchange at each layer within
// layers, and the one exchange at the end across data; two GPUs of a DGX A100 share a link to the
// host, so one waits while the other loads its images (dark
// grey).](plots/01_splitting_strategies_timeline_2.png "Six timelines of one step, with a lane for
// each of two devices and milliseconds from left to right: LeNet measured, then AlexNet modelled,
// each across layers, within layers and across data. Across layers, device 1 begins late and device
// 0 waits for it in the middle. Within layers, both lanes are cut by short exchanges at every
// layer. Across data, both compute in one piece and exchange once at the end.")
//
// ![The same on four devices: LeNet's last two stages have hardly anything to do. Across data, see
// who waits for whom: device 0 receives all gradients, then the others get the
// sums.](plots/01_splitting_strategies_timeline_4.png "The same six timelines with four lanes each.
// Across layers the lanes form stairs with much idle time; of LeNet's pipeline, the lanes of
// devices 2 and 3 are nearly empty. Across data, at the end, first device 0 has a long bar of
// exchange while the others are idle, then each of the others has several short ones.")

static void draw_timelines(const StepTable *t, const Problem *lenet) {
    Problem alexnet = problem_to_model(&alexnet_network, 256, 8);
    for (int j = 1; j < t->num_ks; j++) show_timeline(lenet, &alexnet, t->ks[j]);
    problem_free(&alexnet);
}

// ## The bubble, measured
//
// A pipeline's later devices have nothing to do until the first microbatch reaches them, and its
// first ones nothing after the last has passed; backward it is the same. The field calls this idle
// time the bubble. Three devices, four microbatches, forward (F) and backward (B):
//
// ```
// device 0   F1 F2 F3 F4  .  .  .  . B4 B3 B2 B1
// device 1    . F1 F2 F3 F4  .  . B4 B3 B2 B1  .
// device 2    .  . F1 F2 F3 F4 B4 B3 B2 B1  .  .     ---> time
// ```
//
// If all stages (the layers of one device) take equally long, k devices with m microbatches are
// idle for $(k-1)/(m+k-1)$ of the time: here for 2 of 6 beats each way. More microbatches make that
// less. But smaller pieces are computed less efficiently, so the step need not get shorter.
//
// The first column, *equal times*, is that formula. The second, *their times*, is calculated for
// the same order of work with the times that the stages really took: the slowest sets the pace, and
// the others wait for it. The third is the idle share as it was *recorded*, which also has sending,
// loading, and whatever else the computer did. If it did nothing else, eight equal layers come
// close to the formula. LeNet cannot: its stages are unequal. And mult-adds are not time: conv1 has
// few of them, but its outputs are the largest, and ReLU and pooling have to go through them all.
//
// "Idle" has another meaning here than under the timelines. There a device that loads or sends is
// not idle; here only forward and backward count as work. So the same step has more idle time here.
//
// ![Equal layers on two devices, measured, with more and smaller microbatches (the numbers on the
// bars) from top to bottom. Find the gaps where a lane waits for the other
// one.](plots/01_splitting_strategies_bubble_measured.png "Four timelines with a lane for each of
// two devices, for 1, 2, 4 and 8 microbatches. With one microbatch the lanes take turns. With more,
// forward bars of both lanes overlap, then backward bars; device 1 begins later and device 0 ends
// later. Each title compares the idle share with the formula.")

static void bubble_measured(const Problem *lenet, int k, uint64_t seed) {
    if (k > network_pieces(&equal_network)) return;
    Prediction idle = {0};
    if (k == 2)
        idle = predict_first(
            "A pipeline of 2 equal stages with 8 microbatches is idle for 1/9 of the time, which "
            "is 11 percent. LeNet in 2 stages is conv1, with the largest outputs, on one device, "
            "and all other layers, with 95 percent of the mult-adds, on the other. For which share "
            "of the time are these two devices idle, on average, in percent, if nothing but the "
            "work of the stages takes time?");
    double share = measure_bubble(lenet, k, seed);
    predict_compare(idle, 100 * share, "percent");
}

// ## The bubble, modelled
//
// On a modelled machine nothing disturbs, so eight equal layers (wider ones, for a GPU) have the
// bubble of the formula, and a little for sending and loading. AlexNet has not: its stages are not
// equal, and no number of microbatches helps against that.
//
// ![Equal layers on four modelled devices. The idle triangles (the line fills at the left, turns
// round in the middle, drains at the right) shrink with each doubling of the
// microbatches.](plots/01_splitting_strategies_bubble_modelled.png "Four timelines with a lane for
// each of four devices, for 1, 2, 4 and 8 microbatches. The bars form stairs down to device 3 while
// going forward, and stairs up again while going backward. With one microbatch only one device
// works at a time; with eight the stairs are short and the step takes less than half the time.")

static void bubble_modelled(int k) {
    if (k > 1) model_bubble(k);
}

// ## Larger networks
//
// The formulas for memory and bytes need no devices, and modelled time needs none that compute. So
// here are AlexNet, which has most of its parameters in its fully connected layers, and ResNet-18,
// which has few parameters and large activations.
//
// "Params", "activations" and "both" are the most on one device: three maxima, with gradients but
// without room for what is being sent. "Both" may be less than the sum of the others, where the
// most parameters and the most activations are on different devices. "Busiest" is the busiest
// device's share of the work.

static void compare_larger_networks(void) {
    Prediction busiest = predict_first(
        "ResNet-18 is cut into a pipeline of 8 stages; the largest has as little work as possible. "
        "Its first layer has 6.5 percent of the work, its eight residual blocks have 12.7, 12.7, "
        "9.9, 12.7, 9.9, 12.7, 9.9 and 12.7 percent, its last layer hardly any; none of them is "
        "cut in two. How much of the work has the largest stage, in percent?");
    larger_networks();
    predict_compare(busiest, 100 * busiest_share(&across_layers, &resnet18_network, 8, 256),
                    "percent");
}

// ## Many devices
//
// And on more devices than anybody here has? Now with 32 microbatches, so that long pipelines fill;
// and within layers on 32 devices at most, because more take long to simulate. Three machines:
// eight GPUs a host with fast links and a fast network (an NVIDIA DGX A100), four a host with a
// slow network, laptops. The minibatch stays the same, so the more devices there are, the less each
// has to do.
//
// A pipeline ends where the network has no more layers to cut between. Within layers, every device
// sends to every other one, which goes well on fast links only; and our GPU kernels unfold the
// whole input of a convolution, however few channels a device computes from it. Across data, device
// 0 receives the gradients of all others, one after the other. Where links are slow, even a
// pipeline can be faster than that; chapter 2 sums gradients in better ways.
//
// ![The time of a step in three ways on up to 128 devices. Look where each curve leaves the dashed
// line, which is the time of one device divided by k, and ask
// why.](plots/01_splitting_strategies_model.png "Six panels: AlexNet above, ResNet-18 below; DGX
// A100, P100 with a 25 Gb/s network, and laptops from left to right. Devices from 1 to 128 on the
// horizontal axis, modelled seconds per step on the vertical one, both logarithmic. Across data
// falls with the dashed line until a host is full, then rises steeply; on laptops with AlexNet it
// rises from the start. Across layers falls slowly and ends at 8 or 10 devices. Within layers is
// nearly flat or rises, and ends at 32.")

static void compare_many_devices(void) { many_devices(); }

// ## Summary
//
// - A network can be split over devices across its layers, within its layers, or across data. All
//   three compute the same.
// - Across layers, a device holds a part of the network, and only what crosses a boundary moves.
//   But devices wait for each other at each boundary, the bubble grows with their number, and
//   stages are hardly ever equal.
// - Within layers, parameters and work are split evenly where there are channels enough. But
//   devices wait for each other twice per layer, the gathered activations are on all of them, and
//   what moves grows with the minibatch: for convolutional networks it is usually most.
// - Across data, devices wait for each other once per step, and any network can be split. But each
//   device holds all parameters, so more devices do not allow a larger network.
// - So split the data if the network fits and links are fast, but do not sum on one device when
//   they are many: chapter 2 sums several times faster. Where links are slow, a pipeline can be
//   faster, for only what crosses its boundaries moves.
// - The language models that came after the book do not fit: they are trained with all three ways
//   at once.
//
// ## Questions
//
// 1. Across layers on 4 devices, one device needs nearly as much memory for activations as one
//    device that has the whole network. Why do more devices not help?
// 2. You double the minibatch. In which of the three ways do the bytes that move between devices
//    double, and in which do they stay the same? Why?
// 3. With 8 microbatches, a pipeline of equal stages is idle for much less of the time than
//    LeNet's. Would 100 microbatches help LeNet?
// 4. On the modelled machine, LeNet's step across data takes longer on 4 devices than on two.
//    Where does the time go?
// 5. AlexNet on 8 devices moves many more bytes across data than across layers, and still its step
//    is shorter across data. How can that be?

// ## Exercises
//
// 1. Cut LeNet behind its convolutions instead (`place()` in `strategy_pipeline.c`). Which columns
//    of the tables change, and why does less move?
// 2. Let a stage go backward with a microbatch as soon as it can, instead of after all have gone
//    forward (the field's "1F1B": one forward, one backward). What does that do to the bubble, and
//    what to the memory?
// 3. Within layers: if a layer's weights are cut along their *inputs*, it needs only its own part
//    of the layer before. Cut every second layer so. How many syncs remain?
// 4. Across data, gradients of the last layer are ready long before those of the first. Begin to
//    exchange them while the others are still being computed, as the book calls highly desirable
//    (`strategy_data.c`; `when_grad_is_final()` of `autograd.h` says when a gradient may go). What
//    does the timeline show?
// 5. Split AlexNet's convolutions across data and its fully connected layers within layers. What
//    moves per step, by the formulas? (Krizhevsky, "One weird trick for parallelizing convolutional
//    neural networks", 2014.)

// ## The program
//
// What it writes must not replace what it reads, nor each other: that is seen before any work.

static void check_outputs_now(const StepTable *t) {
    char suffix[32];
    book_csv("_model.csv");
    book_output("_model.png");
    book_timeline("_bubble_measured.png");
    book_timeline("_bubble_modelled.png");
    for (int j = 1; j < t->num_ks; j++) {
        snprintf(suffix, sizeof suffix, "_timeline_%d.png", t->ks[j]);
        book_timeline(suffix);
    }
    book_check_outputs();
}

static void tell(const Problem *lenet, StepTable *t, const char *part, uint64_t seed) {
    if (is_asked_for(part, "splitting")) {
        show_network();
        Reference one_device = compute_on_one_device(lenet);
        split_across_layers(t, lenet, &one_device);
        split_within_layers(t, lenet, &one_device);
        split_across_data(t, lenet, &one_device);
        compare_memory(t, lenet);
        compare_traffic(t, lenet);
        compare_seconds(t);
        draw_timelines(t, lenet);
        reference_free(&one_device, lenet->network);
    }
    if (is_asked_for(part, "bubble")) {
        if (t->num_ks > 1) bubble_measured(lenet, t->ks[1], seed);
        bubble_modelled(t->ks[t->num_ks - 1]);
    }
    if (is_asked_for(part, "model")) {
        compare_larger_networks();
        compare_many_devices();
    }
}

int main(int argc, char *argv[]) {
    const char *part = "all";
    const Flag own_flags[] = {
        {"part", FLAG_CHOICE, &part, "P", .help = "run only this part: splitting, bubble or model",
         .choices = "all|splitting|bubble|model"},
        {0},
    };
    Flags defaults = default_flags;
    defaults.next = "make run-02";
    defaults.own = own_flags;
    Flags flags = book_begin(
        argc, argv,
        "Splits a step of LeNet over k = 1, 2 and 4 devices in three ways, and compares.\n"
        "With --devices K: over 1 and K.",
        "devices seed batch-size lr steps train-size no-shuffle csv data", defaults);

    // The steps that the story compares
    StepTable table = {.num_ks = 3, .ks = {1, 2, 4}, .steps = flags.steps};
    if (flags.devices > 0) {
        table.num_ks = flags.devices > 1 ? 2 : 1;
        table.ks[1] = flags.devices;
    }
    book_needs_devices(table.ks[table.num_ks - 1]);
    check_outputs_now(&table);
    Problem lenet = problem_of_lenet(&flags);
    if (flags.backend == BACKEND_MODEL)
        splitting_without_values(&lenet, &table, part);
    else
        tell(&lenet, &table, part, flags.seed);
    problem_free(&lenet);
    return book_end();
}
