// main.c: the story of chapter 2. README.md says how to run it and what to read.
#include "common/book.h"
#include "allreduce.h"
#include "get_params.h"
#include "behind/behind.h"

// ## get_params
//
// The first operation copies all parameters to a device and attaches a gradient to each. A device
// can compute only with data in its own memory, so the parameters have to be there first.
//
// get_params.c:get_params
//
// As in the book (*Dive into Deep Learning*, "Data Synchronization"), we try it on one device and
// print a bias. (The book prints `b1`. `b4`, that of LeNet's last layer, is shorter.)
//
// main.c:demonstrate_get_params

static void demonstrate_get_params(Tensor *const params[2]) {
    Tensor *new_params[2];
    get_params(params, 2, try_gpu(0), new_params);
    tensor_print("b4 weight", new_params[1]);
    tensor_print("b4 grad", new_params[1]->grad);
    check_copies(new_params, params, 2);
    free_params(new_params, 2);
}

// ## allreduce
//
// The second operation sums a vector over all devices and leaves the sum on each of them. Its name
// says both: a *reduce* combines many values into one, and *all* devices get the result. In
// training the vector is a gradient. In the book, device 0 does the work:
//
// allreduce_star.c:allreduce_book
//
// Device 0 is the *hub* of a *star*. Like the book, we try it with ones on device 0 and twos on
// device 1. `allreduce()` (in `allreduce.c`) runs the method chosen with `--allreduce`. By default
// that is a faster form of this star, the *star in pieces* (explained below).
//
// main.c:demonstrate_allreduce

static void demonstrate_allreduce(void) {
    Tensor *data[2];
    for (int i = 0; i < 2; i++) {
        data[i] = tensor_new(try_gpu(i), 1, 2);
        tensor_fill(data[i], (float)(i + 1));
    }
    tensor_print("before allreduce, data[0]", data[0]);
    tensor_print("before allreduce, data[1]", data[1]);
    allreduce(data, 2);
    tensor_print("after allreduce,  data[0]", data[0]);
    tensor_print("after allreduce,  data[1]", data[1]);
    check_sum_of_1_and_2(data);
    free_params(data, 2);
}

// ## Why the star is slow
//
// The book has an example that you can work out in your head: four GPUs sum vectors of 160 MB, and
// each GPU has a link of 16 GB/s, which can send and receive at the same time.
//
// One vector needs 160 MB / (16 GB/s) = 10 ms. In the star, three vectors come in through GPU 0's
// link, one after the other. Then the sum goes out three times. That takes 60 ms. Is the CPU a
// better hub? All four vectors have to cross the one link between the CPU and the GPUs' switch, and
// the sum goes back four times. That takes 80 ms.
//
// The book's remedy is to make each GPU the hub for one quarter of the vector. Then all four links
// are busy at the same time, in both directions.
//
// main.c:ask_what_quarters_take
//
// behind/book_example.c:show_book_example

static Prediction ask_what_quarters_take(void) {
    return predict_first("Four GPUs sum vectors of 160 MB. Each has a link of 16 GB/s, which can "
                         "send and receive at the same time, and nothing else takes time. The star "
                         "takes 60 milliseconds. How many does it take if each GPU is the hub of a "
                         "quarter?");
}

// ## Sharded: all devices work
//
// We call the book's remedy the *sharded* method. Device j receives part j from all others and adds
// it up. After this first half, called *reduce-scatter*, each device has the sum of one part. In
// the second half, *all-gather*, each device collects the finished parts from the others. On three
// devices, where a0, b0 and c0 are part 0 of the three vectors and S0 is their sum:
//
//     device    0   1   2        0   1   2        0   1   2
//     part 0   a0  b0  c0   ->  S0  b0  c0   ->  S0  S0  S0
//     part 1   a1  b1  c1   ->  a1  S1  c1   ->  S1  S1  S1
//     part 2   a2  b2  c2   ->  a2  b2  S2   ->  S2  S2  S2
//
// If the vector has N bytes, every device sends k-1 parts of N/k bytes in each half. The two halves
// together are $2 (k-1)/k \cdot N$, which is less than $2 N$ for any number of devices.
//
// Some networks can add up vectors on their way (NVIDIA calls this SHARP). Where only devices can
// add, no method sends less. Each number in the vector needs at least k-1 transfers before one
// device has the whole sum, and k-1 more before all have it. So the devices together send at least
// $2 (k-1) N$ bytes, and the busiest sends at least $1/k$ of that [@patarasuk2009].
//
// Two transfers are separate *steps* if one has to wait for the other, for its data or its link.
// The star and the sharded method take $2 (k-1)$ steps, because a link carries one part after the
// other.
//
// Writing this method is the book's exercise 3 (`make exercise-04-3`), so its C code is not on this
// page.
//
// ## Ring: only neighbours talk
//
// The sharded method needs a switch that carries all transfers at once, or a link between every two
// devices. Often there is neither. In a ring, each device sends only to its right neighbour.
//
// allreduce_ring.c:pass_to_the_right
//
// ## Tree: few steps
//
// The star, the sharded method and the ring take $2 (k-1)$ steps. Each step costs the latency of a
// link, however short the vector is. A tree sums pairs of devices, then pairs of pairs, and so on
// up to device 0. The sum goes back the same way. That takes only $2 \lceil \log_2 k \rceil$ steps:
// 20 instead of 2046 on 1024 devices. But the tree sends whole vectors, not parts. Here are eight
// devices. In each step, the number at the left end of a line gets the vector at its right end:
//
// ```
// devices    0   1   2   3   4   5   6   7
// step 1     0---1   2---3   4---5   6---7      sums of two
// step 2     0-------2       4-------6          sums of four
// step 3     0---------------4                  the whole sum, on device 0
// ```
//
// Steps 4 to 6 are the same lines from bottom to top, and the sum goes from left to right.
//
// ## What costs time
//
// Here are all four methods for the book's example:
//
// ![The example and two more methods on one time axis. Each row shows when a device sends and to
// which device. Orange marks what is still to be added up, blue the sum.](exchange:all "Star: whole
// vectors, one after the other, done at 60 ms. Sharded and ring: quarters, which all four devices
// send at the same time, done at 15 ms. Tree: whole vectors, at most two at the same time, done at
// 40 ms.")
//
// In general, three things take time: the *bytes* that the busiest device's link has to carry; the
// *steps*; and the *starts*, because the CPU launches every copy and every addition, one after the
// other.
//
// |         | steps                          | the busiest device sends       | another device sends  | starts       |
// |---------|--------------------------------|--------------------------------|-----------------------|--------------|
// | star    | $2 (k-1)$                      | $(k-1) N$                      | $N$                   | $3 (k-1)$    |
// | sharded | $2 (k-1)$                      | $2 (k-1)/k \cdot N$            | the same              | $3 k (k-1)$  |
// | ring    | $2 (k-1)$                      | $2 (k-1)/k \cdot N$            | the same              | $3 k (k-1)$  |
// | tree    | $2 \lceil \log_2 k \rceil$    | $\lceil \log_2 k \rceil N$    | $N$ or more           | $3 (k-1)$    |
//
// The program's table shows all three for k = 4. The program enters every copy between devices in a
// *ledger* and stops if the bytes differ from the formula. The starts are counted for this program,
// which copies and adds in separate calls. With several hosts, each host starts only the work of
// its own devices. The times are modelled for one host with eight A100 GPUs linked by NVLink
// (chapter 0).
//
// behind/four_ways.c:compare_four_ways
//
// All four methods send $2 (k-1) N$ bytes in total. At 64 MiB, the bytes of the busiest device
// matter most. Each device in the ring sends half as much as the star's hub and receives at the
// same time, so the ring needs about a quarter of the star's time. At 1 KiB, the bytes cost almost
// nothing and the starts matter most: 36 x 2.2 µs is most of the ring's time.
// <!-- figure: 36 = run-02: "ring" --> <!-- figure: 2.2 = run-02: "Four ways to sum" -->
//
// "Star in pieces" is what `--allreduce star` runs. It sends the same bytes as the star and
// computes bit-identical sums. Its copies wait for events, whereas `tensor_copy()` makes both
// devices wait for each other. So it is faster even for short vectors. Vectors of more than 4 MiB
// are sent in pieces, so that the other devices fetch the sum of one piece while device 0 adds up
// the next.
//
// From which N is a ring faster than this star? The ring has $3 k (k-1) - 3 (k-1) = 3 (k-1)^2$ more
// starts, of s seconds each. In exchange, its transfers are so short that they hide behind the
// starts, while the star's hub receives and then sends $2 (k-1) N$ bytes, one vector after the
// other. If a link carries B bytes per second, both are equal when
//
// $$3 (k-1)^2 s = \frac{2 (k-1) N}{B}, \quad \text{so} \quad N = 1.5\, (k-1)\, s\, B.$$
//
// On 4 devices of this machine, 1.5 x 3 x 2.2 µs x 274 GB/s is 2.7
// MB. The model also counts the star's additions, and there the two are equal at about 2 MiB.
// LeNet's gradients (column N) are smaller, so the star in pieces is the default.
// <!-- figure: 274 = run-02: "NCCL, calculated" -->
//
// ![Modelled times on hosts with eight A100 GPUs. Beyond 8 devices, the network between hosts is
// used. On 4 devices (left), the best method depends on N. For a short vector (middle), and many
// devices, only the tree has both few steps and few starts. For a long one (right), the star's hub
// sends more with each added device.](plots/02_get_params_and_allreduce.png "Three panels, all axes
// logarithmic. Left, the time on 4 devices against the size of the vector from 1 KiB to 64 MiB: all
// curves are flat at first and then rise; for short vectors star and tree are lowest, for long ones
// ring and sharded. Middle, 8 KiB on 2 to 1024 devices: the tree rises slowly, to 0.3 ms, and the
// others reach 30 to 70 ms. Right, 160 MB: the star rises steeply, ring and sharded stay lowest.")
//
// ## Bandwidth
//
// If summing N bytes takes time t, the caller sees a bandwidth of N/t. NVIDIA's benchmark
// [nccl-tests](https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md) calls this
// *algbw*. But the busiest device sends at least $2 (k-1)/k \cdot N$ bytes. So it is the *bus
// bandwidth* that you can compare with the speed of a link:
// $$\text{busbw} = \text{algbw} \cdot 2 (k-1)/k$$
//
// behind/bandwidth.c:show_bandwidth
//
// The first row was measured on CPU devices. They have no links, so it says how fast two cores copy
// and add. The last row is calculated with the formulas of NCCL, NVIDIA's library. Measured with
// nccl-tests on eight A100 GPUs, NCCL had a bus bandwidth of 172 GB/s for 64 MiB and of 229 GB/s
// for 1 GiB [@bekman2024].
//
// ## Two silent mistakes
//
// It is easy to get either operation wrong with code that looks right and raises no error.
//
// The last line of `allreduce` must write *into* `data[i]`. In the book's English text it does:
//
//     data[i][:] = data[0].to(data[i].device)
//
// The Chinese text leaves out the `[:]` and so creates a new tensor. In C:
//
// main.c:allreduce_rebinding
//
// After the exchange, the list holds the sums, but the parameters on all devices except device 0
// still have their old gradients. So device 0 takes a step with the gradient of the whole
// minibatch, and every other device with the gradient of its own part. From then on the *replicas*,
// the copies of the parameters, drift apart.
//
// behind/replicas.c:show_rebinding
//
// In C the compiler can help. `allreduce.h` declares `Tensor *const data[]`, so you may write into
// the tensors but not replace them. With `const`, the mistaken line would not compile.
//
// The other mistake is to skip the copy in `get_params` if the parameters are already on the right
// device. PyTorch's `p.to(device)` does this and returns `p` itself. Then two replicas can share
// one buffer. Below, device 0 writes 1, device 1 overwrites it with 2, and the sum is 4. Our
// `allreduce` refuses tensors that share memory.
//
// behind/replicas.c:show_sharing

static void allreduce_rebinding(Tensor *data[], int k) {
    for (int i = 1; i < k; i++) {
        Tensor *received = tensor_to(data[i], data[0]->device);
        launch(data[0]->device, add, .y = data[0]->data, .x = received->data, .n = numel(received));
        tensor_free(received);
    }
    for (int i = 1; i < k; i++) data[i] = tensor_to(data[0], data[i]->device); // the mistake
}

// ## Summary
//
// - `get_params` gives each device its own copy of the parameters. `allreduce` gives each device
//   the sum of a vector over all devices, and writes it into the tensors that you pass.
// - All four methods move $2 (k-1) N$ bytes in total. In the star, all these bytes pass through
//   device 0. In the sharded method and in the ring, each device sends less than $2 N$.
// - For long vectors the bytes of the busiest device matter most, and the sharded method and the
//   ring are best. For short vectors starts and steps matter most, and with many devices the tree
//   is best.
// - After a step, all replicas must be bit-identical. Compare them to find silent mistakes.
//
// ## Questions
//
// 1. Why does `allreduce_book` not add `data[i]` to `data[0]` directly? What would two GPUs need in
//    order to manage without `received`?
// 2. After the first silent mistake, which device trains with which gradient? Why does a test of
//    the list of gradients not notice it?
// 3. On 16 devices, how many bytes does the busiest device send in the star, in the ring and in the
//    tree, in units of N?
// 4. The ring's busiest device sends fewer bytes than the tree's. Why is the tree still the fastest
//    for 8 KiB on 1024 devices?

// ## Exercises
//
// 1. Between two computers, each with four GPUs, there is a slow link. Write an allreduce that
//    sends fewer bytes over that link than the star, the sharded method and the ring.
// 2. Add recursive doubling and its formula. At distance 1, 2, 4, ... the two devices of each pair
//    send each other their sums so far. What if k is not a power of two?

// ## The program

static void show_get_params(uint64_t seed) {
    Tensor *W4 = tensor_new(host(), 128, 10), *b4 = tensor_new(host(), 10);
    Tensor *params[2] = {W4, b4};
    fill_normal(W4->data, numel(W4), 0.01, seed, STREAM_PARAMS);
    tensor_fill(b4, 0);
    demonstrate_get_params(params);
    free_params(params, 2);
}

int main(int argc, char *argv[]) {
    bool curves = false; // only these, for the figure to move in the book's page
    const Flag own_flags[] = {
        {"curves", FLAG_ON, &curves, .help = "only model the curves over bytes, into --csv"}, {0}};
    Flags flags = book_begin(
        argc, argv,
        "Shows get_params and allreduce, and compares four ways to do an\n"
        "allreduce, on 4 devices or with --devices K on K. Times are modelled, on\n"
        "the machine of --machine.",
        "devices seed allreduce csv -tf32", (Program){.own = own_flags, .next = "make run-03"});
    if (flags.devices == 1) die_usage("--devices 2 or more", "one device has nothing to sum up");
    int k = book_devices(flags.devices, 4, 2);
    bool many = flags.devices == 0; // up to 1024 devices, too, which takes ten seconds
    if (curves) book_needs_machine("--curves");
    choose_allreduce(flags.allreduce);
    book_outputs(".csv .png");
    const char *csv = book_output(".csv"), *png = book_output(".png");
    Figures figures = figures_open(csv);

    if (curves) {
        model_curves(&figures, k);
    } else if (flags.backend == BACKEND_MODEL) {
        allreduce_without_values(&figures, k, many, flags.seed);
    } else {
        show_get_params(flags.seed);
        demonstrate_allreduce();
        Prediction quarters = ask_what_quarters_take();
        predict_compare(quarters, show_book_example(), "ms");
        compare_four_ways(&figures, k, flags.seed);
        book_end_trace();
        if (many) model_up_to_1024_devices(&figures);
        show_bandwidth(&figures, k);
        show_rebinding(allreduce_rebinding);
        show_sharing();
    }
    figures_close(&figures, curves ? NULL : png);
    return book_end();
}
