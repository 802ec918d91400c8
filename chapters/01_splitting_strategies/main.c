// main.c: the story of chapter 1. README.md says how to run it and what to read.
#include "common/book.h"
#include "costs.h"
#include "behind/behind.h"

// ## Three ways
//
// How can several devices share one step of training? As in the book (*Dive into Deep Learning*,
// "Splitting the Problem"), we use LeNet, which has two convolutions and two fully connected
// layers. This is LeNet on two devices, 0 and 1:
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
// Every device now has the same sums and applies the same update, so the copies of the network stay
// equal. A sum that every device receives is called an *allreduce*. If the gradients take up N
// bytes, each of the other k-1 devices sends N bytes to device 0 and gets N bytes back. So $2 (k-1)
// N$ bytes move, regardless of the size of the minibatch.
//
// ## Across layers
//
// Each device holds some consecutive layers, which form a *stage*. Only data that crosses a
// boundary between stages moves: activations (the outputs of layers) in the forward pass, and their
// gradients in the backward pass.
//
// If the whole minibatch went through in one piece, only one device would work at a time. So we cut
// it into m *microbatches*, which follow each other as on an assembly line. Here are three devices
// and four microbatches, going forward (F) and backward (B). A dot is a time slot in which the
// device is idle:
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
// One loop calls the first function for all microbatches, and then another loop calls the second.
// This order is called *fill-drain*. The activations of a microbatch are kept until it goes
// backward. Its gradients are added to `grad`, so m does not change the result, apart from
// rounding. (Labels and `syncs` are for the timelines and tables below.)
//
// ## Within layers
//
// Each device computes some of the channels (or units) of every layer. But each channel needs *all*
// channels of the previous layer. So after each layer, every device sends its channels to every
// other device. This is called an *all-gather*:
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
// In the backward pass, each device has only the share of the input's gradient that came through
// its own channels. A *reduce-scatter* sums these shares. Each channel is summed on the device that
// computed it. (In 2012, AlexNet was split over two GPUs, because one had too little memory. They
// exchanged channels like this in some layers.)
//
// Two layers can also share one exchange. If the weights of the second layer are cut along its
// *inputs*, each device needs only the channels that it has computed itself. Its outputs are then
// only shares, and an allreduce adds them up:
//
// ```
//           device 0                      device 1
//
// conv1     computes channels 0-9         computes channels 10-19         cut along outputs
// conv2     reads 0-9: shares of 0-49     reads 10-19: shares of 0-49     cut along inputs
//           <------------------ allreduce --------------------->
// ```
//
// Transformers are split in such pairs (chapter 10). The program does not do this here, but
// exercise 2 below does.
//
// ## The same step
//
// All three must produce the same loss as one device, the same gradients, and the same loss after
// one update. The program stops if a difference is larger than rounding can explain. (A different
// order of addition changes the last digits. Across data, two devices keep the order of one, and
// chapter 4 says how. With k = 1, a pipeline still adds up four microbatches.)
//
// behind/same_step.c:compare_steps_with_one_device
//
// Batch normalization, which LeNet does not have, is an exception. It computes means over the
// minibatch, and shards and microbatches have different means. Devices can share theirs (chapter
// 5).
//
// ## The bubble
//
// The dots in the diagram above are the pipeline's *bubble*. If all stages take equally long, k
// devices with m microbatches are idle for
//
// $$\frac{k-1}{m+k-1}$$
//
// of the time. In the diagram, this is 2 of 6 time slots in each direction. More microbatches make
// the bubble smaller. But if stages are not equal, the slowest one sets the pace, and the others
// wait for it in every microbatch.
//
// The table compares the formula with steps on four devices (AlexNet: 128 images). All times in
// this chapter are *modelled* ([How true is the clock?](../how_true.md)), for a server with eight
// A100 GPUs unless another machine is named. A device counts as idle when it runs neither a forward
// nor a backward pass.
//
// behind/pictures.c:show_bubbles
//
// The idle time of eight equal layers is close to the formula. But their step takes half as long
// with 8 microbatches as with 1, not a third, because small microbatches are computed less
// efficiently. AlexNet's four stages are not equal, so its devices are idle for much longer.
//
// More microbatches do not always help. With 8 of them, AlexNet's devices are less idle than with
// 4, but its step takes longer. Device 3 has fully connected layers, and a product with 16 rows
// does not fill a GPU. It takes nearly as long as one with 32.
//
// ![Four pipelines on four devices. Longer bars have the numbers of their microbatches. A pipeline
// fills at the left, turns back, and drains at the right.](plots/01_splitting_strategies_bubble.png
// "Four timelines with a lane for each of four devices: eight equal layers with 1 and with 8
// microbatches, AlexNet with 4 and with 8. The bars form stairs down to device 3 while going
// forward, and stairs up again while going backward. With one microbatch only one device works at a
// time, apart from the updates; with eight the stairs are short and the step takes half the time.
// AlexNet's bars differ in length: forward, device 3's are the longest, and backward, device 1's.
// With 8 microbatches the step takes longer than with 4.")
//
// ## What each way costs
//
// The cost depends on which layers have the parameters, the work and the activations. We count work
// in "mult-adds", each a multiplication followed by an addition. All columns except "parameters"
// are for one image.
//
// behind/costs_of_a_step.c:print_network
//
// Most of the work, the parameters and the activations are in three different layers, as in many
// convolutional networks.
//
// The next table shows all three strategies on four devices, with a minibatch of 256 images, in MB
// ($10^6$ bytes). Parameters and activations are the most that one device holds, with the gradients
// that exist at the same time. Then come the bytes moved in total, the most that enter or leave one
// device ("busiest link"), and the largest share of the work on one device ("work"). A *sync* is a
// point at which devices wait for others' results. Each allreduce, all-gather and reduce-scatter is
// one, and so is each transfer in a pipeline (3 boundaries, 4 microbatches, 2 directions).
//
// main.c:ask_about_activations
//
// main.c:ask_about_bytes
//
// behind/costs_of_a_step.c:show_costs
//
// - *Across data* leaves a quarter of the activations on each device, moves the fewest bytes, and
//   divides the work evenly. But each device holds all parameters.
// - *Across layers* cannot divide a single layer. The device with the first convolution keeps most
//   of the activations, and the device with the second has 90 % of the work. (The first one has 77
//   % of what is kept, but 61 % of the memory of one device. That device also holds gradients of
//   the whole minibatch, while a pipeline goes backward with one microbatch at a time.)
//   <!-- figure: 90 77 = run-01: "largest" -->
// - *Within layers* divides parameters and work by four. But all devices hold the gathered
//   activations, and more than eight times as many bytes move as across data (17 times with twice
//   the images).
//
// Only splitting the data is faster than one device, and not by much, because LeNet's kernels are
// short and more devices need more launches (chapter 4). So the next figure shows AlexNet.
//
// ![A step of AlexNet on two devices. Across data there is one exchange, at the end. Across layers,
// device 1 begins late, device 0 waits for it in the middle, and device 1 updates late, because its
// last gradients wait until device 0 can take them. Within layers, the devices exchange data
// between layers. (Two GPUs share a link to the host, so one waits while the other loads its images
// (dark grey). Within layers, each device loads all
// images.)](plots/01_splitting_strategies_timeline.png "Three timelines of one step, with a lane
// for each of two devices. Across data, both compute in one piece and exchange once at the end.
// Across layers, device 1 begins late and device 0 waits for it in the middle. Within layers, both
// lanes are cut by short exchanges at every layer.")
//
// ## Larger networks, more devices
//
// AlexNet has many parameters, while ResNet-18 has few parameters and large activations. The next
// table shows them on eight devices, with 256 images of 224 x 224 pixels. Each pipeline has the
// number of microbatches with which it is fastest. "Both" is the most that one device holds,
// parameters and activations together.
//
// main.c:ask_about_stages
//
// behind/larger_networks.c:larger_networks
//
// On this machine, splitting the data is fastest for both networks. AlexNet moves eight times as
// many bytes across data as across layers. But on fast links, moving bytes costs less time than
// leaving devices idle. Splitting ResNet-18 across or within its layers needs even more memory than
// splitting the data, because its activations are not divided evenly.
//
// On real machines, splitting within layers is used for networks that are too large for one device.
// In 2019, a language model with 8.3 billion parameters was split within its layers over eight V100
// GPUs. Each of them computed 77 % of what one GPU computes alone with a smaller model. With 64
// such groups of eight, split across data, it was 74 % [@shoeybi2019].
//
// The next figure shows up to 128 devices, on machines with fast and slow links. With many devices,
// our allreduce is a poor choice. It is a *star*, in which device 0 receives all other gradients
// one after the other. So a second curve shows the *ring* of chapter 2. In each of $2 (k-1)$
// rounds, each device sends 1/k of the gradients to its right neighbour. In total, each device
// sends less than twice the size of the gradients, for any k.
//
// ![The time of a step on up to 128 devices. The dashed line is 1/k of the time of one device. With
// the star, the time across data rises in the end on every machine. With the ring, it keeps falling
// for ResNet-18, more slowly than the dashed line. For AlexNet it soon stops falling, and rises
// once when a host is full.](plots/01_splitting_strategies_model.png "Six panels: AlexNet above,
// ResNet-18 below; DGX A100, P100 with a 25 Gb/s network, and laptops from left to right. Devices
// from 1 to 128 on the horizontal axis, modelled seconds per step on the vertical one, both
// logarithmic. Across data with a star falls at first, except for AlexNet on laptops, and then
// rises steeply. With a ring it keeps falling for ResNet-18. For AlexNet it jumps up at the edge of
// a host and then stays flat. Across layers falls slowly and ends at 8 or 10 devices. Within layers
// falls at most by half, then mostly rises, and ends at 32; it is missing for ResNet-18 on
// laptops.")
//
// Compare the lowest points of the curves. Where links are slow, a pipeline of AlexNet is faster
// than splitting the data with the star. On laptops it is faster than with the ring, too, and on
// P100s about as fast. AlexNet's gradients take up 244 MB, so in a ring each device sends nearly
// 489 MB, which takes 4.1 s at 0.118 GB/s, the laptops' Ethernet. More devices do not help. Across
// layers, only 419 MB move in total, over seven boundaries. ResNet-18 has 47 MB of gradients, and
// splitting its data with the ring is fastest everywhere.
// <!-- figure: 489 = run-01: "AlexNet across data" -->
// <!-- figure: 419 = run-01: "AlexNet across layers" -->
//
// ## Which one?
//
// *Why split the data?* Devices wait for each other once per step. Their work is equal for any
// network, and the bytes moved do not grow with the minibatch. So larger minibatches can keep more
// devices busy.
//
// *When not?* If the network does not fit on one device, split it across or within its layers. Or
// let each device keep only a part of the parameters and gather the rest when needed (*ZeRO*,
// chapter 9). If links are slow and gradients large, a pipeline can be faster.  Large language
// models are trained with all three strategies at once.

// ## Summary
//
// - Apart from batch normalization, splitting across data, across layers or within layers computes
//   what one device computes.
// - Across data, devices wait for each other once per step, and the bytes moved do not grow with
//   the minibatch. But each device holds all parameters.
// - Across layers, only data at the boundaries moves. But stages are hardly ever equal, and the
//   bubble grows with their number.
// - Within layers, parameters and work are divided evenly. But devices wait for each other twice
//   per layer, and convolutional networks move many bytes.
// - So split the data if the network fits on one device, unless links are slow and gradients large.
//   With many devices, do not compute the sum on one of them.
//
// ## Questions
//
// 1. With LeNet across layers on 4 devices, one holds more than half of the activations that a
//    single device would hold. Why do more devices not help?
// 2. You double the minibatch. With which strategies do the bytes that move between devices double,
//    and with which do they stay the same? Why?
// 3. With 8 microbatches, AlexNet's pipeline is idle much longer than the formula says. Would 100
//    microbatches help?
// 4. Across data on 4 devices, 1.55 MB go into LeNet's busiest device. How many MB would it be with
//    a ring?
// 5. AlexNet on 8 devices moves many more bytes across data than across layers, but its step is
//    shorter across data. Why?

// ## Exercises
//
// 1. Cut LeNet after its convolutions instead (`place()` in `strategy_pipeline.c`). Which columns
//    of the table change, and why do fewer bytes move?
// 2. If, within layers, a layer's weights are cut along their *inputs*, each device needs only its
//    own part of the previous layer. Cut every second layer like this. How many syncs remain?
// 3. Across data, the gradients of the last layer are ready first. Exchange them while the others
//    are still being computed (`when_grad_is_final()` of `autograd.h`). What does the timeline
//    show?
// 4. Split AlexNet's convolutions across data and its fully connected layers within layers. How
//    many bytes move per step, according to the formulas? (Krizhevsky, "One weird trick for
//    parallelizing convolutional neural networks", 2014.)
//
// Exercise 2 of chapter 6 is a pipeline that goes backward as soon as it can.

// ## The program

static Prediction ask_about_activations(int k) {
    if (k != 4) return (Prediction){0};
    return predict_yes_no(
        "Across layers on 4 devices, each device has one of LeNet's four layers. Does the device "
        "with the most activations need less than half of what a single device with all layers "
        "needs?");
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
        "cut in two. What percentage of the work does the largest stage have?");
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
    const char *pipeline;
    int microbatches;
    const Flag own_flags[] = {
        {"microbatches", FLAG_INTEGER, &microbatches, "M",
         .help = "into which a pipeline cuts a minibatch", .least = 1, .most = 64, .standard = "4"},
        {"pipeline", FLAG_CHOICE, &pipeline, "N",
         .help = "only model a pipeline of this network (CSV and SVG)", .choices = pipeline_names,
         .standard = "none"},
        {0},
    };
    Flags flags = book_begin(
        argc, argv,
        "Splits a step of LeNet over k = 1, 2 and 4 devices in three ways, and compares.\n"
        "With --devices K: over 1 and K.",
        "devices seed batch-size lr train-size no-shuffle csv data",
        (Program){.own = own_flags, .next = "make run-02"});
    int ks[] = {1, 2, 4}, num_ks = flags.devices == 0 ? 3 : flags.devices == 1 ? 1 : 2;
    if (flags.devices > 0) ks[1] = flags.devices;
    book_needs_devices(ks[num_ks - 1]);
    if (strcmp(pipeline, "none") != 0) {
        book_needs_machine("--pipeline");
        book_outputs("_pipeline.csv _pipeline.svg");
        model_one_pipeline(pipeline, ks[num_ks - 1], microbatches, book_output("_pipeline.csv"),
                           book_output("_pipeline.svg"));
        return book_end();
    }
    book_outputs("_model.csv _model.png _bubble.png _bubble.svg _timeline.png _timeline.svg");
    Problem lenet = problem_of_lenet(&flags, microbatches);
    tell(&lenet, ks, num_ks, flags.backend != BACKEND_MODEL);
    problem_free(&lenet);
    return book_end();
}
