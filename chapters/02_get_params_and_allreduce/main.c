// main.c: the story of chapter 2. README.md says how to run it and what to read.
#include "common/book.h"
#include "allreduce.h"
#include "get_params.h"
#include "behind/behind.h"

// ## get_params
//
// Training on several devices needs two operations. The first copies all parameters to a device and
// attaches a gradient to each. A device computes only with what is in its own memory, so it needs
// the parameters before it can evaluate the network.
//
// get_params.c:get_params
//
// As in the book (*Dive into Deep Learning*, "Data Synchronization"), we try it on one device and
// print the bias `b1` of LeNet's first layer.
//
// main.c:demonstrate_get_params

static void demonstrate_get_params(Tensor *const params[2]) {
    Tensor *new_params[2];
    get_params(params, 2, try_gpu(0), new_params);
    tensor_print("b1 weight", new_params[1]);
    tensor_print("b1 grad", new_params[1]->grad);
    check_copies(new_params, params, 2);
    free_params(new_params, 2);
}

// ## allreduce
//
// The second operation sums a vector over all devices and leaves the sum on each of them. Its name
// says both: a *reduce* turns many values into one, and *all* devices get it. In training the
// vector is a gradient. The book lets device 0 do the work:
//
// allreduce_star.c:allreduce_book
//
// The first loop copies one vector after the other to device 0 and adds it there. The second loop
// sends the sum to all other devices. Device 0 is the *hub* of a *star*. We try it as the book
// does, with ones on device 0 and twos on device 1. There we call `allreduce()`, which runs the
// method that `--allreduce` chooses: by default this star, in pieces (see below).
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
// each GPU has a link of 16 GB/s, which can send and receive at the same time. Nothing else takes
// time.
//
// One vector needs 160 MB / (16 GB/s) = 10 ms. In the star, three vectors come in through GPU 0's
// link, one after the other. Then the sum goes out three times. That takes 60 ms. Is the CPU a
// better hub? All four vectors have to reach it through the one link that connects it to the GPUs'
// switch, and the sum goes back four times: 80 ms.
//
// The book's remedy is to make each GPU the hub of a quarter of the vector, which needs 2.5 ms on a
// link. Each GPU receives three quarters to add up, and then three finished quarters. All four
// links work at the same time, in both directions.
//
// main.c:ask_what_quarters_take
//
// behind/book_example.c:show_book_example
//
// ![The example on one clock, with two more methods. Each row shows when a device sends, and to
// which one. Orange is still to be added up, blue is the sum. In the star one device sends at a
// time. In the sharded method and in the ring all four send until everything is done.](exchange:all
// "Star: whole vectors, one after the other, done at 60 ms. Sharded and ring: quarters, which all
// four devices send at the same time, done at 15 ms. Tree: whole vectors, at most two at the same
// time, done at 40 ms.")

static Prediction ask_what_quarters_take(void) {
    return predict_first("Four GPUs sum vectors of 160 MB. Each has a link of 16 GB/s, which can "
                         "send and receive at the same time, and nothing else takes time. The star "
                         "takes 60 milliseconds. How many does it take if each GPU is the hub of a "
                         "quarter?");
}

// ## Sharded: all devices work
//
// This is the *sharded* method. Device j receives part j from all others and adds it up. After this
// first half, called *reduce-scatter*, each device has the sum of one part. In the second half,
// *all-gather*, each device collects the finished parts from the others. On three devices, with a0
// for part 0 of device 0's vector and S0 for its sum over all devices:
//
//     device    0   1   2        0   1   2        0   1   2
//     part 0   a0  b0  c0   ->  S0  b0  c0   ->  S0  S0  S0
//     part 1   a1  b1  c1   ->  a1  S1  c1   ->  S1  S1  S1
//     part 2   a2  b2  c2   ->  a2  b2  S2   ->  S2  S2  S2
//
// In each half, every device sends k-1 parts of N/k bytes. Together that is $2 (k-1)/k \cdot N$,
// less than $2 N$ for any number of devices.
//
// If only devices add, no method can send less. For each number of the vector, it takes at least
// k-1 transfers until one device can have the whole sum, and k-1 more until all others have it,
// too. So the k devices together send at least $2 (k-1) N$ bytes, and the busiest of them sends at
// least a k-th of that [@patarasuk2009].
//
// Writing this method is the book's exercise 3, so its code is not on this page. (`make
// exercise-04-3` checks yours; ours is in `allreduce_sharded.c`.)
//
// ## Ring: only neighbours talk
//
// The sharded method needs a switch that carries all transfers at once, or a link between any two
// devices, and often there is neither. In a ring, each device sends to its right neighbour only.
//
// allreduce_ring.c:pass_to_the_right
//
// allreduce_ring.c:allreduce_ring
//
// In each half, every device sends k-1 parts, as in the sharded method.
//
// ## Tree: few steps
//
// Let us call transfers *steps* if one has to wait for the other, for its data or for its link. The
// star, the sharded method and the ring take $2 (k-1)$ steps. Each costs the latency of a link,
// however short the vector is. A tree sums in pairs, then pairs of pairs, and so on up to device 0;
// the sum goes back the same way. That takes only $2 \lceil \log_2 k \rceil$ steps: 20 instead of
// 2046 on 1024 devices. But whole vectors travel, not parts.
//
// allreduce_tree.c:allreduce_tree
//
// ## What costs time
//
// Three things take time: *bytes*, which the link of the busiest device has to carry; *steps*, of
// which each takes the latency of a link; and *starts*, because the CPU launches every copy and
// every addition, one after the other.
//
// |         | steps                          | the busiest device sends       | another device sends  | starts       |
// |---------|--------------------------------|--------------------------------|-----------------------|--------------|
// | star    | $2 (k-1)$                      | $(k-1) N$                      | $N$                   | $3 (k-1)$    |
// | sharded | $2 (k-1)$                      | $2 (k-1)/k \cdot N$            | the same              | $3 k (k-1)$  |
// | ring    | $2 (k-1)$                      | $2 (k-1)/k \cdot N$            | the same              | $3 k (k-1)$  |
// | tree    | $2 \lceil \log_2 k \rceil$    | $\lceil \log_2 k \rceil N$    | $N$ or more           | $3 (k-1)$    |
//
// The program's table has all three for k = 4. The bytes are counted: every copy between devices is
// entered in a *ledger*, and the program stops if the ledger differs from the formula. Starts are
// those of this program, which copies and adds in separate calls. If the devices are in several
// hosts, each host starts only the work of its own. The times are modelled on one host with eight
// A100, linked by NVLink (chapter 0).
//
// behind/four_ways.c:compare_four_ways
//
// All methods send $2 (k-1) N$ bytes in total. With 64 MiB the bytes of the busiest device decide.
// The ring's devices send half as much as the star's hub, and they receive at the same time, so the
// ring needs about a quarter of the star's time. With 1 KiB bytes cost nothing, and the starts
// decide: 36 x 2.2 µs are most of the ring's time. On 4 devices of this machine, star and ring
// cross at about 2 MiB. LeNet's gradients, the column N, are shorter than that. So the default is
// the book's star, not the ring. (The tree would be slightly faster.)
//
// "Star in pieces" is what `--allreduce star` runs: the same bytes, and bit-identical sums.
// `tensor_copy()` makes both devices wait for each other. Here copies wait for events instead, so
// short vectors are faster, too. And vectors of more than 4 MiB come in pieces, so that devices
// fetch the sum of one piece while device 0 adds up the next.
//
// ![Modelled: hosts of eight A100. From 8 to 16 devices the network between the hosts comes in. For
// a short vector (middle) only the tree has few steps and few starts. For a long one (right) the
// star's hub sends more with each device.](plots/02_get_params_and_allreduce.png "Three panels,
// all axes logarithmic. Left, the time on 4 devices against the size of the vector from 1 KiB to 64
// MiB: all curves are flat at first and then rise; for short vectors star and tree are lowest, for
// long ones ring and sharded. Middle, 8 KiB on 2 to 1024 devices: the tree hardly rises, the others
// rise in straight lines. Right, 160 MB: the star rises steeply, ring and sharded stay lowest.")
//
// ## Bandwidth
//
// If summing N bytes takes the time t, the caller sees N/t. NVIDIA's benchmark
// [nccl-tests](https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md) calls this
// *algbw*. You cannot compare it with the speed of a link, because more than N bytes moved: the
// busiest device had to send at least $2 (k-1)/k \cdot N$. Hence
// $$\text{busbw} = \text{algbw} \cdot 2 (k-1)/k$$
// which tells you how well the links are used, for any k.
//
// behind/bandwidth.c:show_bandwidth
//
// The first row was measured on CPU devices, which share one memory and have no links. The last row
// is calculated with the formulas of NCCL, NVIDIA's library, which runs several rings at once and
// adds while bytes arrive.
//
// ## Two silent mistakes
//
// Both operations can be written wrong in a way that looks right and raises no error.
//
// The last line of `allreduce` must write *into* `data[i]`. In the book's English text it does:
//
//     data[i][:] = data[0].to(data[i].device)
//
// The Chinese text leaves out the `[:]`, and so makes a new tensor. In C:
//
// main.c:allreduce_rebinding
//
// After the exchange, the list of gradients has the sums, but each parameter still has its old
// gradient. So device 0 takes a step with the gradient of the whole minibatch, and every other
// device with the gradient of its own part. From then on the copies of the parameters, the
// *replicas*, drift apart.
//
// main.c:show_rebinding
//
// In C the compiler can help. `allreduce.h` declares `Tensor *const data[]`: you may write into the
// tensors, but not replace them, so the mistaken line would not compile.
//
// The other mistake is in `get_params`: to leave out the copy if the parameters are on the right
// device already. PyTorch's `p.to(device)` does just that, and returns `p` itself. Then two
// replicas can be one buffer. Below, device 0 writes 1, device 1 overwrites it with 2, and the sum
// of both is 4. Our `allreduce` looks for shared memory first, and refuses.
//
// main.c:show_sharing

static void allreduce_rebinding(Tensor *data[], int k) {
    for (int i = 1; i < k; i++) {
        Tensor *received = tensor_to(data[i], data[0]->device);
        launch(data[0]->device, add, .y = data[0]->data, .x = received->data, .n = numel(received));
        tensor_free(received);
    }
    for (int i = 1; i < k; i++) data[i] = tensor_to(data[0], data[i]->device); // the mistake
}

static void weights_on_two_devices(Tensor *W[2]) {
    for (int i = 0; i < 2; i++) {
        W[i] = tensor_new(try_gpu(i), 1, 2);
        tensor_fill(W[i], 1);
        attach_grad(W[i]);
        tensor_fill(W[i]->grad, (float)(i + 1));
    }
}

static bool are_equal_with_allreduce(void) {
    Tensor *W[2];
    weights_on_two_devices(W);
    allreduce((Tensor *[]){W[0]->grad, W[1]->grad}, 2);
    for (int i = 0; i < 2; i++) sgd(&W[i], 1, 0.1f, 1);
    bool equal = all_replicas_equal(W, 2);
    free_params(W, 2);
    return equal;
}

static void show_rebinding(void) {
    Tensor *W[2];
    weights_on_two_devices(W); // 1, with gradients 1 and 2
    Tensor *grads[2] = {W[0]->grad, W[1]->grad};
    allreduce_rebinding(grads, 2);
    tensor_print("in the list, grads[1]", grads[1]);
    tensor_print("used in the step, W[1].grad", W[1]->grad);
    for (int i = 0; i < 2; i++) sgd(&W[i], 1, 0.1f, 1);
    tensor_print("after the step, W[0]", W[0]);
    tensor_print("after the step, W[1]", W[1]);
    say_checked(!all_replicas_equal(W, 2) && are_equal_with_allreduce(),
                "noticed: the replicas differ after a step; with allreduce() they are equal");
    tensor_free(grads[1]);
    free_params(W, 2);
}

static void show_sharing(void) {
    Tensor *data[2] = {tensor_new(cpu_device(0), 1, 2)};
    Tensor same_memory = *data[0];
    same_memory.device = cpu_device(1); // what a get_params that skips the copy would return
    data[1] = &same_memory;
    tensor_fill(data[0], 1);
    synchronize(cpu_device(0));
    tensor_fill(data[1], 2);
    synchronize(cpu_device(1));
    const char *mistake = allreduce_mistake(data, 2);
    allreduce_star(data, 2); // bypasses the check
    tensor_print("one buffer: 1 + 2 is", data[0]);
    float *sums = tensor_values(data[0]);
    char *what = xprintf("allreduce() refuses them: \"%s\"", mistake ? mistake : "");
    say_checked(mistake && sums[0] == 4, what);
    free(what);
    free(sums);
    tensor_free(data[0]);
}

// ## Summary
//
// - `get_params` gives each device its own copy of the parameters. `allreduce` gives each device
//   the sum of a vector over all devices, and writes it into the tensors that it gets.
// - All four methods move $2 (k-1) N$ bytes in all. In the star, all of them pass through device 0.
//   In the sharded method and in the ring, each device sends less than $2 N$.
// - For long vectors the bytes of the busiest device decide, and sharded or the ring is best. For
//   short vectors starts and steps decide, and with many devices the tree is best.
// - After a step, all replicas must be equal to the bit. Compare them to find silent mistakes.
//
// ## Questions
//
// 1. Why does `allreduce_book` not add `data[i]` to `data[0]` directly? What would two GPUs need to
//    do without `received`?
// 2. After the mistake of the new tensor, which device trains with which gradient? Why does a test
//    that looks at the list of gradients not notice?
// 3. How many bytes does the busiest device send on 16 devices, in units of N: in the star, in the
//    ring, in the tree?
// 4. The ring sends the fewest bytes. Why is the tree nevertheless the fastest for 8 KiB on 1024
//    devices?

// ## Exercises
//
// 1. Between two computers, each with four GPUs, there is a slow link. Write an allreduce that
//    sends fewer bytes over that link than any of the four here.
// 2. Add recursive doubling, with its formula: at distance 1, 2, 4, ... both devices of a pair send
//    each other all that they have. What if k is not a power of two?

// ## The program

static void show_get_params(uint64_t seed) {
    Tensor *W1 = tensor_new(host(), 20, 1, 3, 3), *b1 = tensor_new(host(), 20);
    Tensor *params[2] = {W1, b1};
    fill_normal(W1->data, numel(W1), 0.01, seed, STREAM_PARAMS);
    tensor_fill(b1, 0);
    demonstrate_get_params(params);
    free_params(params, 2);
}

int main(int argc, char *argv[]) {
    bool curves = false; // only these, for the figure to move in the book's page
    const Flag own_flags[] = {
        {"curves", FLAG_ON, &curves, .help = "only model the curves over bytes, into --csv"}, {0}};
    Flags defaults = default_flags;
    defaults.next = "make run-03";
    defaults.own = own_flags;
    Flags flags =
        book_begin(argc, argv,
                   "Shows get_params and allreduce, and compares four ways to do an\n"
                   "allreduce, on 4 devices or with --devices K on K. Times are modelled, on\n"
                   "the machine of --machine.",
                   "devices seed allreduce csv -tf32", defaults);
    if (flags.devices == 1) die_usage("--devices 2 or more", "one device has nothing to sum up");
    int k = book_devices(flags.devices, 4, 2);
    bool many = flags.devices == 0; // up to 1024 devices, too, which takes ten seconds
    if (curves) book_needs_machine("--curves");
    choose_allreduce(flags.allreduce);
    const char *csv = book_csv(".csv"), *png = book_output(".png");
    book_check_outputs();
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
        show_rebinding();
        show_sharing();
    }
    figures_close(&figures, curves ? NULL : png);
    return book_end();
}
