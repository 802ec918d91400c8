// main.c: the story of chapter 2. README.md says how to run it and what to read.
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/model/modelled_clock.h"
#include "common/program/book.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "common/tensor/functional.h"
#include "common/tensor/random.h"
#include "allreduce.h"
#include "book_example.h"
#include "bytes.h"
#include "figures.h"
#include "get_params.h"
#include "mistakes.h"
#include "modelled_times.h"
#include "replicas.h"
#include "sums.h"
#include "times.h"

#include <stdio.h>
#include <stdlib.h>

static Flags flags;

// ## get_params
//
// Training on several devices needs two operations. The first gives a device a copy of all
// parameters, and attaches a gradient to each: `get_params()`. Without parameters a device cannot
// evaluate the network, for it computes only with what is in its own memory.
//
// get_params.c:get_params
//
// As the book does, we try it on one device and print the bias `b1` of LeNet's first layer: 20
// zeros. Its gradient is zero, too, since nothing was computed yet.

static void demonstrate_get_params(void) {
    printf("\nget_params: the parameters on a device\n");
    Tensor *W1 = tensor_new(host(), 20, 1, 3, 3), *b1 = tensor_new(host(), 20);
    Tensor *params[2] = {W1, b1}, *new_params[2];
    fill_normal(W1->data, numel(W1), 0.01, flags.seed, STREAM_PARAMS);
    tensor_fill(b1, 0);

    Device *device = try_gpu(0);
    get_params(params, 2, device, new_params);
    print_values("b1 weight", new_params[1]);
    print_values("b1 grad", new_params[1]->grad);

    Tensor *zeros = tensor_zeros_like(W1);
    say_checked_on(device, same_bits(new_params[0], W1) && same_bits(new_params[1], b1),
                   "the copies have the same bits");
    say_checked_on(device, same_bits(new_params[0]->grad, zeros),
                   "nothing was computed yet, so gradients are zero");
    tensor_fill(new_params[0], 1);
    say_checked_on(device, !same_bits(new_params[0], W1),
                   "a copy has memory of its own: changing it leaves the original alone");
    tensor_free(zeros);
    free_params(params, 2);
    free_params(new_params, 2);
}

// ## allreduce
//
// The second operation adds up a vector over all devices and gives the sum to each of them. Its
// name says both: a *reduce* makes one value of many, and *all* receive it. To add up, data has to
// be copied to the device where the sum is formed. The book takes device 0:
//
// allreduce_star.c:allreduce_book
//
// As the book does, we test it with different values on two devices: device i has ones, times
// i + 1.

static void ones_times_i_plus_1(Tensor *data[], int k) {
    for (int i = 0; i < k; i++) {
        data[i] = tensor_new(try_gpu(i), 1, 2);
        tensor_fill(data[i], (float)(i + 1));
    }
}

static void demonstrate_allreduce(void) {
    printf("\nallreduce (%s): the sum over all devices, on each device\n",
           chosen_allreduce()->name);
    Tensor *data[2];
    ones_times_i_plus_1(data, 2);
    print_values("before allreduce, data[0]", data[0]);
    print_values("before allreduce, data[1]", data[1]);
    allreduce(data, 2);
    print_values("after allreduce,  data[0]", data[0]);
    print_values("after allreduce,  data[1]", data[1]);

    Tensor *three = tensor_new(host(), 1, 2);
    tensor_fill(three, 3);
    say_checked_on(data[0]->device, same_bits(data[0], three) && same_bits(data[1], three),
                   "both devices have 1 + 2 = 3");
    tensor_free(three);
    free_params(data, 2);
}

// ## Two mistakes
//
// Each of the two operations has a line that looks as if it could be said more simply. In
// `mistakes.c` it is, on purpose: once `allreduce` makes a new tensor instead of writing into
// `data[i]`, and once `get_params` saves a copy, so that two devices share one memory. In both
// cases nothing fails and no message appears. The copies of the parameters on the devices (their
// *replicas*) just drift apart, or a sum is wrong.

// ## Four ways to add up
//
// In the book's allreduce device 0 receives k-1 vectors, adds them to its own and sends the sum out
// k-1 times; the others wait. It is the *hub* of a *star*. Here are three other ways, and what they
// do with a vector of N bytes:
//
// | name    | how                                                                          |
// |---------|------------------------------------------------------------------------------|
// | star    | device 0 receives all vectors, adds them up, and sends the sum to all        |
// | sharded | each device is the hub of one part (*shard*) of N/k bytes                    |
// | ring    | the same parts go round a ring: each device sends to its right neighbour only |
// | tree    | whole vectors, summed in pairs side by side, then pairs of pairs, and so on  |
//
// ![Star: two steps, but device 0 sends and receives three vectors.](exchange:star "Devices 1, 2
// and 3 send to device 0, which then sends to all of them.")
//
// ![Ring: six steps of a quarter of the vector, and all send at the same time.](exchange:ring "Four
// devices in a ring; in each of six steps each one sends to the next.")
//
// ![Tree: whole vectors, in pairs side by side, there and back.](exchange:tree "1 sends to 0 and 3
// to 2, then 2 to 0; then the sum goes back from 0 to 2, and to 1 and 3.")
//
// The sharded one and the ring have two halves. After the first, each device has the sum of one
// part; this is called *reduce-scatter*. In the second, each gets all the other parts:
// *all-gather*.
//
// First: do all of them compute the same? Whole numbers below $2^{24}$ are summed exactly, in any
// order, so with them the result has to be right to the bit. With other numbers the order of the
// additions changes the last digits.

static void check_sums(void) {
    printf("\nDo all compute the same?\n");
    for (int a = 0; a < NUM_ALLREDUCES; a++) check_sums_of(&allreduces[a]);
}

// ## Bytes
//
// Why is the star slow? Let us count bytes. Every copy between devices is entered in a *ledger*, so
// nobody has to believe a formula: the table has what was counted, and the formula beside it. The
// vector has as many numbers as LeNet has parameters, and they are no whole numbers this time, so
// "replicas equal" says something: all devices must end with the same bits, or else they would
// drift apart with each step of training.
//
// A *step* is a transfer that has to wait until the one before has arrived. "6 of N/k" means that
// six transfers of N/k bytes come one after the other. The star's way back has k-1 steps because
// device 0's link sends one long vector at a time; short ones, whose bytes take no time, go
// together.

enum { MOST_COUNTED = 8 };

static void count_bytes(void) {
    Prediction busiest = {0};
    if (can_have_devices(MOST_COUNTED))
        busiest = predict_first("On 8 devices, all of them together send 14 N bytes, whichever way "
                                "is taken. In the star the busiest device, device 0, sends 7 N of "
                                "them. How many does the busiest device of the ring send, in units "
                                "of N?");
    double ring = compare_bytes(MOST_COUNTED, flags.seed);
    predict_compare(busiest, ring, "N");
    if (can_have_devices(MOST_COUNTED))
        book_result("of %d devices the busiest sends %.3g N in the ring, and %d N in the star",
                    MOST_COUNTED, ring, MOST_COUNTED - 1);
}

// ## Time, measured here
//
// The formulas count bytes and steps; what do those cost? The program measures it on the computer
// at hand. Beside it stands what the same work would take on the machine of `--machine` (unless you
// say otherwise, a DGX A100: eight GPUs, all linked to each other by NVLink): a simulation goes
// through all that the program enqueued, and adds up what it would cost there.
//
// Below the times are two bandwidths for the longest vector, as NVIDIA's benchmark
// [nccl-tests](https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md) defines them:
//
// - *algbw*, the algorithm's bandwidth, is what the caller sees: N bytes were summed in a time
//   t, so it is N / t. It cannot be compared with the speed of a link, for more than N bytes moved.
// - *busbw*, the bus bandwidth, can. In any allreduce the busiest device has to send at least
//   $2 (k-1)/k \cdot N$ bytes: in the ring all send that, in the star the others send only N. So
//   $$\text{busbw} = \text{algbw} \cdot 2 (k-1)/k$$
//   is how fast the busiest link would have to be, for the best allreduce to take the same time. If
//   it is near the speed that the link really has, no other way to add up can be much faster over
//   that one link.
//
// An example: 4 devices sum 100 MB in 10 ms. Then algbw is 10 GB/s, and busbw 10 x 1.5 = 15 GB/s.
// With `--machine d2l-pcie --devices 4`, a machine where nothing but bytes takes time, the ring's
// modelled busbw is exactly the speed of a link.
//
// The last row of bandwidths, *as NCCL does it*, is not ours: it is what NVIDIA's library would
// reach on that machine, by the library's own formulas (`common/model/nccl_model.c`). NCCL runs
// several rings at once, over all NVLinks and network cards, and one kernel per device does it all:
// there is a single launch, and a device adds bytes while more of them arrive.

static int most_devices(void) {
    if (flags.devices > 0) return flags.devices;
    return can_have_devices(4) ? 4 : 2;
}

static void measure_times(FILE *csv) {
    write_figures_header(csv);
    if (flags.devices == 0 && most_devices() > 2) compare_times(2, flags.steps, csv);
    compare_times(most_devices(), flags.steps, csv);
    explain_times();
}

// ## Time, as the book reckons it
//
// Where devices share one memory, one cannot see why the star should be slow. In the book's example
// one can: four GPUs, each with a link of its own. It counts nothing but bytes, so you can
// reckon along. In the star three vectors come to GPU 0 one after the other, and each takes 160 MB
// / (16 GB/s) = 10 ms. Then the sum goes out three times. That makes 60 ms. If the CPU adds up, the
// vectors of all four GPUs pass the one link between the PCIe switch and the CPU, and the sum
// passes it four times on the way back. That makes 80 ms.

static void reckon_the_books_example(void) {
    Prediction ring =
        predict_first("Four GPUs sum vectors of 160 MB. Each has a link of 16 GB/s, which can send "
                      "and receive at the same time, and nothing else takes time. The book's star "
                      "takes 60 milliseconds. How many does the ring take?");
    double ms = show_book_example();
    predict_compare(ring, ms, "ms");
}

// ## Time on other machines
//
// The same functions once more, modelled on machines that differ in the ways between their devices;
// then on one of them, on up to 1024 devices. A transfer takes
// $$t = \text{latency} + \text{bytes} / \text{bandwidth}$$
// so for a short vector the question is how many transfers come one after the other, for a long one
// how many bytes the busiest device has to move.

static void compare_all_machines(const Machine *own, FILE *csv) {
    compare_machines(own, most_devices(), csv);
    if (flags.devices == 0) compare_numbers_of_devices(own, csv);
}

// ## The times as pictures
//
// ![One allreduce on this computer and on three modelled machines: find the size at which the
// curves begin to rise, for shorter vectors take the time of starting transfers only. On the
// right, a curve under 1 is faster than the star.](plots/02_get_params_and_allreduce.png "Four rows
// of two panels: measured here, then three modelled machines. The size of the vector, from 1 KB to
// beyond 32 MB, is on the horizontal axis. On the left is the time, on the right the time divided
// by the star's, all logarithmic. In every modelled row the curves are flat up to a certain size
// and then rise; for short vectors star and tree are lowest, for long ones ring and sharded.")
//
// ![The same on up to 1024 modelled devices. See for the short vector how slowly the tree's time
// grows, and for the long one how little the ring's grows beside the
// star's.](plots/02_get_params_and_allreduce_devices.png "Two panels, both axes logarithmic:
// devices from 2 to 1024, and time. For 8 KB the tree's curve is almost flat while star, ring and
// sharded rise in straight lines, ring and sharded highest. For 160 MB the star's curve rises
// steeply, and ring and sharded stay lowest. All curves jump between 8 and 16 devices, where a
// second host begins.")

static void draw_the_times(const char *csv, const char *png, const char *growth_png) {
    draw_figures(csv, png, flags.devices == 0 ? growth_png : NULL);
}

// ## Summary
//
// - Training on k devices needs two operations: `get_params` gives each device a copy of the
//   parameters; `allreduce` gives each the sum of a vector over all.
// - `allreduce` writes into the tensors that it gets. Replicas must have the same bits afterwards:
//   to compare them costs little, and finds mistakes of which no message tells.
// - Every allreduce here moves $2 (k-1) N$ bytes in total. The book's moves all of them through one
//   device. Sharded or in a ring each device sends $2 (k-1)/k \cdot N$, less than $2 N$ for any k.
// - Long vectors: bytes per device count, and sharded or ring is best. Short ones: steps count, and
//   with many devices a tree is best. That is so where devices have links of their own. Where all
//   share one memory, there are no idle links to gain.
// - algbw is what the caller sees; busbw is to be compared with the speed of a link.
//
// ## Questions
//
// 1. Why does `allreduce_star.c` not add `data[i]` to `data[0]` directly? What would two GPUs need
//    for it to do without the place `received`?
// 2. After the mistake of `data[i] =` a new tensor, which device trains with which gradient? Why
//    does a test of `allreduce` alone not notice, if it looks only at the list `data`?
// 3. How many bytes does the busiest device send on 16 devices, in units of N: in the star, in the
//    ring, and in the tree?
// 4. The ring sends the fewest bytes per device. Why is it nevertheless the tree that is fastest
//    for 8 KB on 1024 devices, and the star or the tree for 1 KB on 4?
// 5. A step of LeNet makes eight allreduces, one for each parameter, and one of them is of ten
//    floats. Look at the first rows of the table of times: what does the allreduce of ten floats
//    cost, compared with one of a thousand? What could be done about it?

// ## Exercises
//
// 1. Two computers of four GPUs each, with a slow link between them: write an allreduce that sends
//    fewer bytes over that link than any of the four here.
// 2. Add recursive doubling to the table in `allreduce.c`, with its formula: at distance 1, 2, 4,
//    ... both devices of a pair send each other all that they have. What if k is not a power of
//    two?

// ## The program

static void check_devices(void) {
    if (flags.devices == 1) die_usage("--devices 2 or more", "one device has nothing to sum up");
    if (flags.devices > MAX_COMPUTING && flags.backend != BACKEND_MODEL)
        die_usage("fewer --devices, or --backend model", "%d devices at most can compute",
                  MAX_COMPUTING);
    if (!can_have_devices(most_devices()))
        die_usage("fewer --devices, another --machine, or --machine none",
                  "%d devices are wanted, and the machine %s has %d", most_devices(),
                  modelled_machine()->name, modelled_machine()->devices);
}

int main(int argc, char *argv[]) {
    Flags defaults = default_flags;
    defaults.next = "make run-03";
    flags = book_begin(argc, argv,
                       "Shows get_params and allreduce; compares four ways to do an allreduce.\n"
                       "Times are taken on 2 and on 4 devices, or with --devices K on K; beside\n"
                       "them stand modelled times, on the machine of --machine and on others.",
                       "devices seed steps allreduce csv -tf32", defaults);
    check_devices();
    choose_allreduce(flags.allreduce);
    const char *csv = book_csv(".csv"), *png = book_output(".png");
    const char *growth_png = book_output("_devices.png");
    book_check_outputs();
    OutputFile file = output_open(csv); // if that fails, then before the measuring
    const Machine *own = modelled_machine();

    demonstrate_get_params();
    demonstrate_allreduce();
    show_rebinding();
    show_sharing();
    check_sums();
    count_bytes();
    book_end_trace();
    measure_times(file.stream);
    reckon_the_books_example();
    compare_all_machines(own, file.stream);

    output_close(&file);
    draw_the_times(csv, png, growth_png);
    return book_end();
}
