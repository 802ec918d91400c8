// # Multiple GPUs: get_params and allreduce
//
// Book: "Training on Multiple GPUs" (multiple-gpus), "Data Synchronization", and exercise 3.
// Difficulty: ★★☆☆
//
// What you will learn
//   - the two operations that training on k devices needs: copies of the parameters for each
//     device, and the sum of a vector over all devices;
//   - two mistakes in them that are easy to make and hard to see, and how to catch them;
//   - why the book's allreduce is slow, three that are faster, and how to measure and compare them.
//
// How to run
//   make run-02                                           all of it; about 20 seconds
//   build/02_get_params_and_allreduce --devices 8         the times on 8 devices only
//   build/02_get_params_and_allreduce --steps 3           each time measured 3 times at most
//   build/02_get_params_and_allreduce --allreduce ring    the book's demonstration by another way
//   build/02_get_params_and_allreduce --machine dgx-h100  the modelled times of another machine
//   build/02_get_params_and_allreduce --backend model     modelled times only, no values
//
// What you will see: the book's prints, "ok" for each check (a check that fails ends the program
// with an error), tables of bytes and of times, and the times as pictures in plots/. Times are of
// two kinds, and each table says which: measured here, and modelled for a machine that need not be
// here.
//
// Read in this order: get_params.c, allreduce_star.c (the book's), this file, and when it speaks of
// them mistakes.c, allreduce_sharded.c, allreduce_ring.c, allreduce_tree.c, bytes.c, times.c,
// book_example.c, modelled_times.c.
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/device/modelled_clock.h"
#include "common/program/book.h"
#include "common/program/plot.h"
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
#include "times.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Flags flags;

// ## get_params
//
// A device computes with what is in its own memory. So before it can evaluate the network it needs
// a copy of all parameters, with gradients attached. Here for the first layer of LeNet.

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
// The other operation adds up a vector over all devices and gives each device the sum. To test it,
// vectors with different values on two devices: ones, times i + 1.

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
// Both operations have a line in them that looks as if it could be said more simply. In mistakes.c
// it is, on purpose: allreduce makes a new tensor in place of writing into data[i], and get_params
// saves a copy, so that two devices share one buffer. Nothing fails in either case, no message
// appears; the replicas just drift apart, or sums are wrong.

// ## Why it is slow
//
// In the star device 0 takes in k-1 vectors, one after the other, and sends out k-1 more. All
// others wait. Three other algorithms move just as many bytes, but spread over the devices:
//
//   sharded  each device is the hub of one part of the vector (the book's exercise 3);
//   ring     the parts go round, and each device only talks to its neighbours;
//   tree     whole vectors, but summed in pairs side by side: few steps.
//
// First: do all of them compute the same? Whole numbers are summed exactly in any order (below
// 2^24), so there the answer has to be right to the bit. For other numbers the order matters in the
// last digits, but the replicas still have to agree to the bit: a difference would grow with each
// step of training.

static float whole_number(int i, int j) {
    return (float)((i + 1) * ((j * 37 + i * 11) % 201 - 100));
}

static bool sums_exactly(const Allreduce *algorithm, int k, int n) {
    Tensor *data[MAX_DEVICES];
    vectors_on_devices(data, k, n);
    float *values = xcalloc((size_t)n + 1, sizeof(float));
    float *sums = xcalloc((size_t)n + 1, sizeof(float));
    for (int i = 0; i < k; i++) {
        for (int j = 0; j < n; j++) {
            values[j] = whole_number(i, j);
            sums[j] += values[j];
        }
        tensor_write(data[i], values);
        begin_step(data[i]->device);
    }
    algorithm->run(data, k);
    bool exact = true;
    for (int i = 0; i < k; i++) {
        tensor_read(data[i], values);
        exact = exact && memcmp(values, sums, sizeof(float) * (size_t)n) == 0;
    }
    free_params(data, k);
    free(values);
    free(sums);
    return exact;
}

static void check_sums(void) {
    printf("\nDo all compute the same?\n");
    const int ks[] = {1, 2, 3, 5, 8}, sizes[] = {0, 1, 7, 1000, 12345};
    for (int a = 0; a < NUM_ALLREDUCES; a++) {
        bool exact = true;
        char *tried = xstrdup("1");
        for (int b = 0; b < 5 && can_have_devices(ks[b]); b++) {
            for (int c = 0; c < 5; c++)
                exact = sums_exactly(&allreduces[a], ks[b], sizes[c]) && exact;
            char *longer = b == 0 ? xstrdup(tried) : xprintf("%s,%d", tried, ks[b]);
            free(tried);
            tried = longer;
        }
        char *what = xprintf("%s sums exactly: k = %s devices, n = 0,1,7,1000,12345 numbers",
                             allreduces[a].name, tried);
        say_checked_on(try_gpu(0), exact, what);
        free(tried);
        free(what);
    }
}

// ## Bytes
//
// Every copy between devices is entered in a ledger, so that we need not believe a formula: bytes.c
// counts.

// ## Time
//
// The formulas count bytes and steps. What those cost is measured on this machine in times.c, and
// modelled beside it: how long the same work would take on the machine of --machine. Where devices
// share one memory, as CPU devices do, the book's slow star is as fast as any. What the book says
// of it holds for devices with links of their own.

static int most_devices(void) {
    if (flags.devices > 0) return flags.devices;
    return can_have_devices(4) ? 4 : 2;
}

static void compare_all_times(FILE *csv) {
    write_figures_header(csv);
    if (flags.devices == 0 && most_devices() > 2) compare_times(2, flags.steps, csv);
    compare_times(most_devices(), flags.steps, csv);
    explain_times();
}

// ## Time on machines that are not here
//
// What the book reckons for four GPUs (book_example.c), and how long the same functions take on
// three machines that differ in the ways between their devices, and on up to 1024 devices
// (modelled_times.c).

static void compare_all_machines(FILE *csv) {
    const Machine *own = modelled_machine();
    show_book_example();
    compare_machines(own, most_devices(), csv);
    if (flags.devices == 0) compare_numbers_of_devices(own, csv);
}

// ## The program

static void draw(const char *csv, const char *png, const char *growth_png) {
    bool readable = !is_written_directly(csv); // what went into a pipe cannot be drawn
    if (readable && plot_draw(png, "allreduce.gp", csv)) printf("\ntimes: %s\n", png);
    if (readable && flags.devices == 0 && plot_draw(growth_png, "allreduce_devices.gp", csv))
        printf("times, up to 1024 devices: %s\n", growth_png);
    if (readable) printf("figures: %s\n", csv);
}

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
    flags = book_begin(argc, argv,
                       "Shows get_params and allreduce; compares four ways to do an allreduce.\n"
                       "Times are taken on 2 and on 4 devices, or with --devices K on K; beside\n"
                       "them stand modelled times, on the machine of --machine and on others.",
                       "devices seed steps allreduce csv", default_flags);
    check_devices();
    choose_allreduce(flags.allreduce);
    const char *csv = book_csv(".csv"), *png = book_output(".png");
    const char *growth_png = book_output("_devices.png");
    book_check_outputs();
    OutputFile file = output_open(csv); // if that fails, then before the measuring

    demonstrate_get_params();
    demonstrate_allreduce();
    show_rebinding();
    show_sharing();
    check_sums();
    compare_bytes(flags.seed);
    book_end_trace();
    compare_all_times(file.stream);
    compare_all_machines(file.stream);

    output_close(&file);
    draw(csv, png, growth_png);
    return book_end();
}

// ## Summary
//
// - Training on k devices needs two operations: get_params gives each device a copy of the
//   parameters; allreduce gives each the sum of a vector over all.
// - allreduce writes into the tensors that it gets. Replicas must have the same bits afterwards: to
//   compare them costs little and finds mistakes of which no message tells.
// - Every allreduce here moves 2 (k-1) N bytes. The book's moves all of them through one device.
//   Sharded or in a ring each device sends 2 (k-1)/k N, less than 2 N for any k.
// - Long vectors: bytes per device count; sharded or ring is best. Short ones: steps count; with
//   many devices a tree is best. That is so where devices have links of their own: on a modelled
//   machine, say. Where all share one memory, all are about as fast.
// - algbw is what the caller sees; busbw is what the links have to carry.
//
// ## Exercises
//
// 1. Why does allreduce_star.c not add data[i] to data[0] directly? What would two GPUs need for
//    it to do without `received`?
// 2. The sums of the sharded allreduce have the bits of the star, those of the ring do not. Why?
//    What would it cost to have the ring add in the order of the devices?
// 3. A step of LeNet makes eight allreduces, one of them of ten floats. On your machine, from which
//    size on does the time of one depend on the size? What follows for LeNet? What could be done?
// 4. Two computers of four GPUs each, with a slow link between them: how many bytes cross that link
//    in each of the four algorithms? Write one that needs fewer.
// 5. Add an algorithm of your own to the table in allreduce.c, with its formula. For instance
//    recursive doubling: at distance 1, 2, 4, ... both devices of a pair send each other all they
//    have. What if k is not a power of two?
