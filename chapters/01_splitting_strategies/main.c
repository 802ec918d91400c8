// main.c: the story of chapter 1. README.md says how to run it and what to read.
#include "common/book.h"
#include "costs.h"
#include "behind/behind.h"

// ## Three ways
//
// How can several devices share one step of training? As the book does (*Dive into Deep Learning*,
// "Splitting the Problem"), we try it with LeNet, which has two convolutions and two fully
// connected layers. This is LeNet on two devices, 0 and 1:
//
// ```
//             across data          across layers     within layers
//
// linear4     device 0  device 1     device 1      device 0 | device 1
// linear3     device 0  device 1     device 1      device 0 | device 1
// conv2       device 0  device 1     device 1      device 0 | device 1
// conv1       device 0  device 1     device 0      device 0 | device 1
//
// images       first     second        all                all
//              half       half
// ```
//
// | here          | the book                | other names                                   |
// |---------------|-------------------------|-----------------------------------------------|
// | across data   | data parallelism        | DDP in PyTorch                                |
// | across layers | network parallelism     | pipeline parallelism, model parallelism       |
// | within layers | layer-wise parallelism  | tensor parallelism, model parallelism         |
//
// ## Across data
//
// strategy_data.c:shard_gradients
//
// strategy_data.c:sum_gradients
//
// Every device now has the same sum and makes the same update, so the copies of the network stay
// equal. Such a sum is called an *allreduce*. If the gradients have N bytes, k-1 devices send N
// bytes to device 0 and get N bytes back. So $2 (k-1) N$ bytes move, regardless of the size of the
// minibatch. Chapter 2 has better ways to compute the sum.
//
// ## Across layers
//
// Each device has some consecutive layers, a *stage*. Only what crosses a boundary between stages
// moves: activations (the outputs of layers) on the way forward, their gradients on the way back.
//
// If the whole minibatch went through at once, only one device would work at a time. So it is cut
// into m *microbatches*, which follow each other as on an assembly line. Here are three devices and
// four microbatches, going forward (F) and backward (B). A dot is a beat in which the device is
// idle:
//
// ```
// device 0   F1 F2 F3 F4  .  .  .  . B4 B3 B2 B1
// device 1    . F1 F2 F3 F4  .  . B4 B3 B2 B1  .
// device 2    .  . F1 F2 F3 F4 B4 B3 B2 B1  .  .     ---> time
// ```
//
// strategy_pipeline.c:microbatch_forward
//
// strategy_pipeline.c:microbatch_backward
//
// One loop calls the first function for all microbatches, then another loop calls the second one.
// This order is called *fill-drain*. Until a microbatch goes backward, its activations are kept.
// The gradients of the microbatches add up in `grad`, so m does not change the result.
//
// ## Within layers
//
// Each device computes some of the channels (or units) of every layer. But each channel needs *all*
// channels of the layer before it. So after each layer every device sends its channels to every
// other device, which is called an *all-gather*:
//
// ```
//           device 0                      device 1
//
// conv1     computes channels 0-9         computes channels 10-19
//           <------------------ all-gather -------------------->
// conv2     reads 0-19, computes 0-24     reads 0-19, computes 25-49
// ```
//
// strategy_within.c:forward_pass
//
// strategy_within.c:all_gather
//
// On the way back each device has only a share of the gradient of a layer's input, the share that
// came through its own channels. A *reduce-scatter* sums these shares, each channel on the device
// that computed it. (AlexNet was trained much like this in 2012, because one GPU had too little
// memory.)
//
// ## The same step
//
// All three must give what one device gives: the same loss, the same gradients, and the same loss
// after one update. The program stops if a difference is larger than rounding explains. (Where sums
// are added up in another order, the last digits differ.)
//
// behind/same_step.c:compare_steps_with_one_device
//
// There is an exception. Batch normalization, which LeNet does not have, computes means over the
// minibatch. Shards and microbatches have other means (chapter 5).
//
// ## The bubble
//
// The dots in the diagram above are the pipeline's *bubble*. If all stages take equally long, k
// devices with m microbatches are idle for
//
// $$\frac{k-1}{m+k-1}$$
//
// of the time, in the diagram for 2 of 6 beats in each direction. More microbatches make the bubble
// smaller. But smaller pieces are computed less efficiently. And if stages are not equal, the
// slowest one sets the pace, and the others wait for it with every microbatch.
//
// The table compares the formula with steps on four devices. All times in this chapter are
// *modelled*, for a server with eight A100 GPUs unless another machine is named (chapter 0). A
// device counts as idle when it goes neither forward nor backward.
//
// behind/pictures.c:show_bubbles
//
// Eight equal layers come close to the formula. The rest is sending and loading. AlexNet's four
// stages are not equal, so it is idle for much longer. And more microbatches need not help: its
// step is shorter with 4 than with 8, although more of it is bubble.
//
// ![Eight equal layers on four devices, with 1, 2 and 8 microbatches. The line fills at the left,
// turns round in the middle and drains at the
// right.](plots/01_splitting_strategies_bubble.png "Three timelines with a lane for each of four
// devices. The bars form stairs down to device 3 while going forward, and stairs up again while
// going backward. With one microbatch only one device works at a time; with eight the stairs are
// short and the step takes less than half the time.")
//
// ## What each way costs
//
// That depends on where a network has its parameters, its work and its activations. We count work
// in "mult-adds", multiplications that are each followed by an addition. All columns except
// parameters are for one image.
//
// behind/costs_of_a_step.c:print_network
//
// The second convolution has 90 % of the work, the first fully connected layer has 79 % of the
// parameters, and the first convolution keeps 77 % of the activations. Many networks are like this.
//
// Now all three ways on four devices, in MB ($10^6$ bytes). The columns are the parameters (with
// gradients) and activations of the fullest device, what moves in all, what goes into or out of one
// device at most, and the largest share of the work. A *sync* is a point at which devices wait for
// what others have computed: each allreduce, each all-gather, each reduce-scatter, and in a
// pipeline each transfer (3 boundaries, 4 microbatches, 2 directions).
//
// main.c:ask_about_activations
//
// main.c:ask_about_bytes
//
// behind/costs_of_a_step.c:show_costs
//
// - *Across data* leaves a quarter of the activations on each device, moves the fewest bytes, and
//   shares out the work evenly. But each device holds all parameters.
// - *Across layers* cannot share out what is in one layer. The device with the first convolution
//   keeps most of the activations, and the device with the second has 90 % of the work.
// - *Within layers* divides parameters and work by four. But the gathered activations are on all
//   devices, and more than eight times as many bytes move as across data. With twice the images it
//   would be 17 times.
//
// None of them is much faster than one device, because LeNet's kernels are short, and more devices
// need more launches (chapter 4). So the picture shows AlexNet.
//
// ![A step of AlexNet on two devices. Across data there is one exchange, at the end. Across layers
// device 1 begins late, and device 0 waits for it in the middle. Within layers the devices exchange
// after every layer. (Two GPUs share a link to the host, so one waits while the other loads its
// images, dark grey.)](plots/01_splitting_strategies_timeline.png "Three timelines of one step,
// with a lane for each of two devices. Across data, both compute in one piece and exchange once at
// the end. Across layers, device 1 begins late and device 0 waits for it in the middle. Within
// layers, both lanes are cut by short exchanges at every layer.")
//
// ## Larger networks, more devices
//
// AlexNet has many parameters, ResNet-18 has few parameters and large activations. Here they are on
// eight devices, with 256 images of 224 x 224 pixels and 8 microbatches. "Both" is the most that
// one device holds of parameters and activations together.
//
// main.c:ask_about_stages
//
// behind/larger_networks.c:larger_networks
//
// On this machine splitting the data is fastest for both. AlexNet moves eight times as many bytes
// across data as across layers. But on fast links bytes are cheap, and idle devices are not.
//
// The next figure has up to 128 devices, on machines with fast and slow links. There our sum is a
// poor choice. It is a *star*: device 0 receives the gradients of all others one after the other.
// So there is a second curve, with the *ring* of chapter 2. In $2 (k-1)$ rounds each device sends a
// k-th of the gradients to its right neighbour. That is less than twice the gradients for any k.
// (Each copy and addition of the ring is modelled, as if the gradients were one vector.)
//
// ![The time of a step on up to 128 devices. The dashed line is a k-th of the time of one device.
// With the star, splitting the data leaves that line as soon as a host is full. With the ring it
// stays nearer to it, except where AlexNet's gradients have to cross a slow
// network.](plots/01_splitting_strategies_model.png "Six panels: AlexNet above, ResNet-18 below;
// DGX A100, P100 with a 25 Gb/s network, and laptops from left to right. Devices from 1 to 128 on
// the horizontal axis, modelled seconds per step on the vertical one, both logarithmic. Across data
// with a star falls with the dashed line until a host is full, then rises steeply. With a ring it
// falls on for ResNet-18, and becomes flat for AlexNet. Across layers falls slowly and ends at 8 or
// 10 devices. Within layers is nearly flat or rises, and ends at 32.")
//
// On the two machines with slow links, these are the fastest steps, and how many devices they take:
//
// behind/larger_networks.c:many_devices
//
// With the star, a pipeline of AlexNet is faster than splitting the data on both machines. With the
// ring this is left in one case, AlexNet on laptops. Its gradients have 244 MB, so each device
// sends nearly 489 MB, which takes 4.1 s at 0.118 GB/s. More devices do not help. Across layers
// only 419 MB move in all, over seven boundaries. (On the P100, a pipeline is also faster on eight
// devices, which are two hosts. But four devices in one host are faster than both.) ResNet-18 has
// 47 MB of gradients, and splitting its data wins everywhere.
//
// ## Which one?
//
// *Why split the data?* Devices wait for each other once in a step. Their work is equal in any
// network, and what moves does not grow with the minibatch. So larger minibatches can keep more
// devices busy.
//
// *When not?* Each device holds all parameters, so more devices do not allow a larger network. If a
// network does not fit on one device, split it across or within its layers. Or let each device keep
// only a part of the parameters and gather the rest when it needs them, which is called ZeRO
// (chapter 9). If links are slow and gradients large, a pipeline can be faster. With batch
// normalization, small shards change what is computed, unless devices share their means (chapter
// 5). Large language models are trained in all three ways at once.

// ## Summary
//
// - Training can be split across data, across layers or within layers. Apart from batch
//   normalization, all three compute what one device computes.
// - Across data, devices wait for each other once in a step, and what moves does not grow with the
//   minibatch. But each device holds all parameters.
// - Across layers, only what crosses a boundary moves. But stages are hardly ever equal, and the
//   bubble grows with their number.
// - Within layers, parameters and work are divided evenly. But devices wait for each other twice
//   per layer, and for convolutional networks most bytes move.
// - So split the data if the network fits on one device, and with many devices do not sum on one.
//
// ## Questions
//
// 1. Across layers on 4 devices, one device needs more than half of the memory for activations that
//    one device alone needs. Why do more devices not help?
// 2. You double the minibatch. In which of the three ways do the bytes that move between devices
//    double, and in which do they stay the same? Why?
// 3. With 8 microbatches, AlexNet's pipeline is idle for much more of the time than the formula
//    says. Would 100 microbatches help?
// 4. Across data on 4 devices, 1.55 MB go into LeNet's busiest device. How many would it be in a
//    ring?
// 5. AlexNet on 8 devices moves many more bytes across data than across layers, and still its step
//    is shorter across data. How can that be?

// ## Exercises
//
// 1. Cut LeNet behind its convolutions instead (`place()` in `strategy_pipeline.c`). Which columns
//    of the table change, and why does less move?
// 2. Within layers: if a layer's weights are cut along their *inputs*, it needs only its own part
//    of the layer before. Cut every second layer so. How many syncs remain?
// 3. Across data, the gradients of the last layer are ready first. Exchange them while the others
//    are still being computed (`when_grad_is_final()` of `autograd.h`). What does the timeline
//    show?
// 4. Split AlexNet's convolutions across data and its fully connected layers within layers. What
//    moves per step, by the formulas? (Krizhevsky, "One weird trick for parallelizing convolutional
//    neural networks", 2014.)
//
// A pipeline that goes backward as soon as it can is exercise 2 of chapter 6.

// ## The program

static Prediction ask_about_activations(int k) {
    if (k != 4) return (Prediction){0};
    return predict_yes_no(
        "Across layers on 4 devices, each device has one of LeNet's four layers. Does the device "
        "with the most activations need less than half of what one device needs that has all "
        "layers?");
}

static Prediction ask_about_bytes(int k) {
    if (k != 4) return (Prediction){0};
    return predict_first("LeNet has 129,068 parameters, numbers of 4 bytes. How many MB (10^6 "
                         "bytes) move in a step across data on 4 devices?");
}

static void compare_costs(const Problem *lenet, int k) {
    print_network(&lenet_network);
    Prediction activations = ask_about_activations(k), bytes = ask_about_bytes(k);
    double share = show_costs(lenet, k);
    predict_compare_yes_no(activations, share < 0.5);
    predict_compare(bytes, megabytes(across_data.bytes_moved(&lenet_network, k, 256)), "MB");
}

static Prediction ask_about_stages(void) {
    return predict_first(
        "ResNet-18 is cut into a pipeline of 8 stages; the largest has as little work as possible. "
        "Its first layer has 6.5 percent of the work, its eight residual blocks have 12.7, 12.7, "
        "9.9, 12.7, 9.9, 12.7, 9.9 and 12.7 percent, its last layer hardly any; none of them is "
        "cut in two. How much of the work has the largest stage, in percent?");
}

static void compare_larger_networks(void) {
    Prediction busiest = ask_about_stages();
    larger_networks();
    predict_compare(busiest, 100 * busiest_share(&across_layers, &resnet18_network, 8, 256),
                    "percent");
}

static void tell(const Problem *lenet, const int ks[], int num_ks, bool computes) {
    int k = ks[num_ks - 1];
    if (computes) compare_steps_with_one_device(lenet, ks, num_ks);
    show_bubbles(k);
    compare_costs(lenet, k);
    draw_three_ways(&alexnet_network, 256, 8, num_ks > 1 ? ks[1] : 1);
    compare_larger_networks();
    many_devices();
}

int main(int argc, char *argv[]) {
    const char *pipeline = "none";
    int microbatches = 4;
    const Flag own_flags[] = {
        {"microbatches", FLAG_INTEGER, &microbatches, "M",
         .help = "into which a pipeline cuts a minibatch", .least = 1, .most = 64},
        {"pipeline", FLAG_CHOICE, &pipeline, "N",
         .help = "only model a pipeline of this network (CSV and SVG)", .choices = pipeline_names},
        {0},
    };
    Flags defaults = default_flags;
    defaults.next = "make run-02";
    defaults.own = own_flags;
    Flags flags = book_begin(
        argc, argv,
        "Splits a step of LeNet over k = 1, 2 and 4 devices in three ways, and compares.\n"
        "With --devices K: over 1 and K.",
        "devices seed batch-size lr train-size no-shuffle csv data", defaults);
    int ks[] = {1, 2, 4}, num_ks = flags.devices == 0 ? 3 : flags.devices == 1 ? 1 : 2;
    if (flags.devices > 0) ks[1] = flags.devices;
    book_needs_devices(ks[num_ks - 1]);
    if (strcmp(pipeline, "none") != 0) {
        book_needs_machine("--pipeline");
        const char *csv = book_output("_pipeline.csv"), *svg = book_timeline("_pipeline.svg");
        book_check_outputs();
        model_one_pipeline(pipeline, ks[num_ks - 1], microbatches, csv, svg);
        return book_end();
    }
    book_csv("_model.csv");
    book_output("_model.png");
    book_timeline("_bubble.png");
    book_timeline("_timeline.png");
    book_check_outputs();
    Problem lenet = problem_of_lenet(&flags, microbatches);
    tell(&lenet, ks, num_ks, flags.backend != BACKEND_MODEL);
    problem_free(&lenet);
    return book_end();
}
