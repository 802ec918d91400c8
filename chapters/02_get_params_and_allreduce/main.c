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
#include "get_params.h"
#include "behind/bandwidth.h"
#include "behind/book_example.h"
#include "behind/figures.h"
#include "behind/four_ways.h"
#include "behind/replicas.h"

#include <stdio.h>
#include <stdlib.h>

static Flags flags;

// ## get_params
//
// get_params.c:get_params

static void demonstrate_get_params(void) {
    Tensor *W1 = tensor_new(host(), 20, 1, 3, 3), *b1 = tensor_new(host(), 20);
    Tensor *params[2] = {W1, b1}, *new_params[2];
    fill_normal(W1->data, numel(W1), 0.01, flags.seed, STREAM_PARAMS);
    tensor_fill(b1, 0);

    Device *device = try_gpu(0);
    get_params(params, 2, device, new_params);
    print_values("b1 weight", new_params[1]);
    print_values("b1 grad", new_params[1]->grad);

    Tensor *zeros = tensor_zeros_like(W1);
    bool copied = same_bits(new_params[0], W1) && same_bits(new_params[1], b1);
    bool no_gradient = same_bits(new_params[0]->grad, zeros);
    tensor_fill(new_params[0], 1);
    bool own_memory = !same_bits(new_params[0], W1);
    say_checked_on(device, copied && no_gradient && own_memory,
                   "the copies have the same bits, memory of their own, and gradients of zero");
    tensor_free(zeros);
    free_params(params, 2);
    free_params(new_params, 2);
}

// ## allreduce
//
// allreduce_star.c:allreduce_book

static void demonstrate_allreduce(void) {
    Tensor *data[2];
    for (int i = 0; i < 2; i++) {
        data[i] = tensor_new(try_gpu(i), 1, 2);
        tensor_fill(data[i], (float)(i + 1));
    }
    print_values("before allreduce, data[0]", data[0]);
    print_values("before allreduce, data[1]", data[1]);
    allreduce(data, 2);
    print_values("after allreduce,  data[0]", data[0]);
    print_values("after allreduce,  data[1]", data[1]);

    Tensor *three = tensor_new(host(), 1, 2);
    tensor_fill(three, 3);
    char *what = xprintf("%s: both devices have 1 + 2 = 3", chosen_allreduce()->name);
    say_checked_on(data[0]->device, same_bits(data[0], three) && same_bits(data[1], three), what);
    free(what);
    tensor_free(three);
    free_params(data, 2);
}

// ## Why it is slow

static void reckon_the_books_example(void) {
    Prediction ring =
        predict_first("Four GPUs sum vectors of 160 MB. Each has a link of 16 GB/s, which can send "
                      "and receive at the same time, and nothing else takes time. The book's star "
                      "takes 60 milliseconds. How many does the ring take?");
    predict_compare(ring, show_book_example(), "ms");
}

// ## Four ways to sum

static int num_devices(void) {
    if (flags.devices > 0) return flags.devices;
    return can_have_devices(4) ? 4 : 2;
}

// ## Two mistakes
//
// ### A new tensor instead of a sum

static void allreduce_rebinding(Tensor *data[], int k) {
    for (int i = 1; i < k; i++) {
        Tensor *received = tensor_to(data[i], data[0]->device);
        launch(data[0]->device, add, .y = data[0]->data, .x = received->data, .n = numel(received));
        tensor_free(received);
    }
    for (int i = 1; i < k; i++) data[i] = tensor_to(data[0], data[i]->device); // the mistake
}

static void allreduce_as_it_should(Tensor *data[], int k) { allreduce(data, k); }

// One step of training on two devices, with gradients 1 and 2. Returns whether the replicas agree
// after it.
static bool step_with(void (*sum_over_devices)(Tensor *data[], int k), bool prints) {
    Tensor *W[2], *grads[2];
    for (int i = 0; i < 2; i++) {
        W[i] = tensor_new(try_gpu(i), 1, 2);
        tensor_fill(W[i], 1);
        attach_grad(W[i]);
        tensor_fill(W[i]->grad, (float)(i + 1));
        grads[i] = W[i]->grad; // the list that is made for this call
    }
    sum_over_devices(grads, 2);
    if (prints) print_values("in the list, grads[1]", grads[1]);
    if (prints) print_values("used in the step, W[1].grad", W[1]->grad);
    for (int i = 0; i < 2; i++) sgd(&W[i], 1, 0.1f, 1);
    if (prints) print_values("after the step, W[0]", W[0]);
    if (prints) print_values("after the step, W[1]", W[1]);
    bool agree = all_replicas_equal(W, 2);
    if (grads[1] != W[1]->grad) tensor_free(grads[1]);
    free_params(W, 2);
    return agree;
}

static void show_rebinding(void) {
    bool noticed = !step_with(allreduce_rebinding, true);
    say_checked_on(try_gpu(0), noticed && step_with(allreduce_as_it_should, false),
                   "noticed: the replicas differ after a step; with allreduce() they are equal");
}

// ### Two devices, one buffer

static void show_sharing(void) {
    Tensor *data[2] = {tensor_new(cpu_device(0), 1, 2)};
    Tensor same_memory = *data[0];
    same_memory.device = cpu_device(1); // what a get_params that saves the copy would return
    data[1] = &same_memory;
    tensor_fill(data[0], 1);
    synchronize(cpu_device(0));
    tensor_fill(data[1], 2);
    synchronize(cpu_device(1));
    const char *mistake = allreduce_mistake(data, 2);
    allreduce_star(data, 2); // goes round the check
    print_values("one buffer: 1 + 2 is", data[0]);
    float *sums = tensor_values(data[0]);
    char *what = xprintf("allreduce() refuses them: \"%s\"", mistake ? mistake : "");
    say_checked(mistake && sums[0] == 4, what);
    free(what);
    free(sums);
    tensor_free(data[0]);
}

// ## The program

static void check_devices(void) {
    if (flags.devices == 1) die_usage("--devices 2 or more", "one device has nothing to sum up");
    if (flags.devices > MAX_COMPUTING && flags.backend != BACKEND_MODEL)
        die_usage("fewer --devices, or --backend model", "%d devices at most can compute",
                  MAX_COMPUTING);
    if (!can_have_devices(num_devices()))
        die_usage("fewer --devices, another --machine, or --machine none",
                  "%d devices are wanted, and the machine %s has %d", num_devices(),
                  modelled_machine()->name, modelled_machine()->devices);
}

int main(int argc, char *argv[]) {
    Flags defaults = default_flags;
    defaults.next = "make run-03";
    flags = book_begin(argc, argv,
                       "Shows get_params and allreduce, and compares four ways to do an\n"
                       "allreduce, on 4 devices or with --devices K on K. Times are modelled, on\n"
                       "the machine of --machine.",
                       "devices seed allreduce csv -tf32", defaults);
    check_devices();
    choose_allreduce(flags.allreduce);
    const char *csv = book_csv(".csv"), *png = book_output(".png");
    book_check_outputs();
    OutputFile file = output_open(csv);

    demonstrate_get_params();
    demonstrate_allreduce();
    reckon_the_books_example();
    double ring = compare_four_ways(num_devices(), flags.seed, file.stream);
    if (can_have_devices(8))
        book_result("of 8 devices the busiest sends %.3g N in the ring, and 7 N in the star", ring);
    book_end_trace();
    if (flags.devices == 0) model_up_to_1024_devices(file.stream);
    show_bandwidth(num_devices(), file.stream);
    show_rebinding();
    show_sharing();

    output_close(&file);
    draw_figures(csv, png);
    return book_end();
}
