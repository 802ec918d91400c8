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
//   make run-02                                           all of it; about 15 seconds
//   build/02_get_params_and_allreduce --devices 8         the times on 8 devices only
//   build/02_get_params_and_allreduce --steps 3           each time measured 3 times at most
//   build/02_get_params_and_allreduce --allreduce ring    the book's demonstration by another way
//
// What you will see: the book's prints, "ok" for each check (a check that fails ends the program
// with an error), tables of bytes and of times, and the times as a picture in plots/.
//
// Read in this order: get_params.c, allreduce_star.c (the book's), this file, and when it speaks of
// them allreduce_sharded.c, allreduce_ring.c, allreduce_tree.c, times.c.
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/program/flags.h"
#include "common/tensor/functional.h"
#include "common/program/plot.h"
#include "common/tensor/random.h"
#include "allreduce.h"
#include "get_params.h"
#include "times.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Flags flags;

// A chapter that computes something wrong ends with an error.
static void check(bool right, const char *what) {
    if (!right)
        die("this is a mistake in the program: please report it", "it does not hold that %s", what);
    printf("  ok: %s\n", what);
}

// Whether two tensors, wherever they are, have the same bits.
static bool same_bits(const Tensor *a, const Tensor *b) {
    float *x = tensor_values(a), *y = tensor_values(b);
    bool same = same_shape(a, b) && memcmp(x, y, tensor_bytes(a)) == 0;
    free(x);
    free(y);
    return same;
}

static bool all_replicas_equal(Tensor *const data[], int k) {
    for (int i = 1; i < k; i++)
        if (!same_bits(data[0], data[i])) return false;
    return true;
}

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

    get_params(params, 2, try_gpu(0), new_params);
    tensor_print("b1 weight", new_params[1]);
    tensor_print("b1 grad", new_params[1]->grad);

    Tensor *zeros = tensor_zeros_like(W1);
    check(same_bits(new_params[0], W1) && same_bits(new_params[1], b1),
          "the copies have the same bits");
    check(same_bits(new_params[0]->grad, zeros), "nothing was computed yet, so gradients are zero");
    tensor_fill(new_params[0], 1);
    check(!same_bits(new_params[0], W1),
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
    tensor_print("before allreduce, data[0]", data[0]);
    tensor_print("before allreduce, data[1]", data[1]);
    allreduce(data, 2);
    tensor_print("after allreduce,  data[0]", data[0]);
    tensor_print("after allreduce,  data[1]", data[1]);

    Tensor *three = tensor_new(host(), 1, 2);
    tensor_fill(three, 3);
    check(same_bits(data[0], three) && same_bits(data[1], three), "both devices have 1 + 2 = 3");
    tensor_free(three);
    free_params(data, 2);
}

// ## A mistake: a new tensor in place of a sum
//
// The last line of the book's allreduce writes into data[i]. Its PyTorch version once said instead
// data[i] = data[0].to(data[i].device), which looks the same and makes a new tensor. The caller's
// list then has the sum, but the list was made for this call; the parameter's own gradient is still
// the old one. So device 0 takes a step with the whole gradient, and each other device with that of
// its own shard. Nothing fails, no message appears: the replicas just drift apart.
//
// In C the same mistake does not get past the compiler if the parameter is declared as in
// allreduce.h: `Tensor *const data[]` says that the tensors may be written into and the pointers
// may not.

static void allreduce_rebinding(Tensor *data[], int k) {
    for (int i = 1; i < k; i++) {
        Tensor *received = tensor_to(data[i], data[0]->device);
        launch(data[0]->device, add, .y = data[0]->data, .x = received->data, .n = numel(received));
        tensor_free(received);
    }
    for (int i = 1; i < k; i++) data[i] = tensor_to(data[0], data[i]->device); // the mistake
}

// One step of training on two devices, with gradients 1 and 2. Returns whether the replicas agree
// after it.
static bool step_with(void (*sum_over_devices)(Tensor *data[], int k)) {
    Tensor *W[2], *grads[2];
    for (int i = 0; i < 2; i++) {
        W[i] = tensor_new(try_gpu(i), 1, 2);
        tensor_fill(W[i], 1);
        attach_grad(W[i]);
        tensor_fill(W[i]->grad, (float)(i + 1));
        grads[i] = W[i]->grad; // the list that is made for this call
    }
    sum_over_devices(grads, 2);
    tensor_print("  in the list, grads[1]", grads[1]);
    tensor_print("  used in the step, W[1].grad", W[1]->grad);
    for (int i = 0; i < 2; i++) sgd(&W[i], 1, 0.1f, 1);
    tensor_print("  after the step, W[0]", W[0]);
    tensor_print("  after the step, W[1]", W[1]);
    bool agree = all_replicas_equal(W, 2);
    if (grads[1] != W[1]->grad) tensor_free(grads[1]);
    free_params(W, 2);
    return agree;
}

static void allreduce_as_it_should(Tensor *data[], int k) { allreduce(data, k); }

static void show_rebinding(void) {
    printf("\nA mistake: data[i] = a new tensor with the sum, instead of writing into data[i]\n");
    check(!step_with(allreduce_rebinding),
          "the mistake is noticed: after one step the replicas differ");
    printf("The same step with allreduce()\n");
    check(step_with(allreduce_as_it_should), "after the step all replicas have the same bits");
}

// ## Another mistake: two devices, one buffer
//
// "Both logical devices are on the same GPU, so device 1 needs no copy of its own." PyTorch's
// p.to(device) thinks so too: where p is on that device already it returns p itself, which is why
// the book's get_params says p.clone().to(device). Now what one device writes, the other reads as
// its own.
//
// On CPU devices, even where there are GPUs: two real GPUs cannot get at the same buffer.

static void show_sharing(void) {
    printf("\nAnother mistake: two devices that share one buffer\n");
    Tensor *data[2] = {tensor_new(cpu_device(0), 1, 2)};
    Tensor same_memory = *data[0];
    same_memory.device = cpu_device(1); // what a get_params that saves the copy would return
    data[1] = &same_memory;
    tensor_fill(data[0], 1);
    synchronize(cpu_device(0));
    tensor_fill(data[1], 2);
    tensor_print("  data[0], where 1 was written", data[0]);
    tensor_print("  data[1], where 2 was written", data[1]);

    const char *mistake = allreduce_mistake(data, 2);
    printf("  allreduce() refuses them: \"%s\"\n", mistake ? mistake : "");
    check(mistake != NULL, "the mistake is noticed before it does harm");

    allreduce_star(data, 2); // goes round that
    tensor_print("  what it would have done: the sum, which should be 3", data[0]);
    float *sums = tensor_values(data[0]);
    check(sums[0] == 4, "the sum would be wrong, and nothing later would notice");
    free(sums);
    tensor_free(data[0]);
}

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
    float *values = xcalloc((unsigned long)n + 1, sizeof(float));
    float *sums = xcalloc((unsigned long)n + 1, sizeof(float));
    for (int i = 0; i < k; i++) {
        for (int j = 0; j < n; j++) sums[j] += values[j] = whole_number(i, j);
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
        for (int b = 0; b < 5; b++)
            for (int c = 0; c < 5; c++)
                exact = exact && sums_exactly(&allreduces[a], ks[b], sizes[c]);
        char *what = xprintf("%s sums exactly: k = 1,2,3,5,8 devices, n = 0,1,7,1000,12345 numbers",
                             allreduces[a].name);
        check(exact, what);
        free(what);
    }
}

// ## Bytes
//
// Every copy between devices is entered in a ledger, so that we need not believe a formula. The
// vector has as many elements as LeNet has parameters, and real numbers this time. N is its size in
// bytes.

enum { LENET_FLOATS = 129068 };

typedef struct Counted {
    uint64_t busiest, total; // bytes sent by the device that sends most, and by all
    bool as_formula;         // on each device, sent and received
} Counted;

static Counted count_bytes(const Allreduce *algorithm, Tensor *const data[], int k) {
    Counted counted = {.as_formula = true};
    for (int i = 0; i < k; i++) {
        uint64_t sent = 0, received = 0;
        for (int j = 0; j < k; j++) {
            sent += ledger_bytes(data[i]->device, data[j]->device);
            received += ledger_bytes(data[j]->device, data[i]->device);
        }
        Traffic formula = allreduce_bytes(algorithm, numel(data[i]), k, i);
        counted.as_formula =
            counted.as_formula && sent == formula.sent && received == formula.received;
        counted.total += sent;
        if (sent > counted.busiest) counted.busiest = sent;
    }
    return counted;
}

static size_t busiest_by_formula(const Allreduce *algorithm, size_t n, int k) {
    size_t most = 0;
    for (int i = 0; i < k; i++) {
        size_t sent = allreduce_bytes(algorithm, n, k, i).sent;
        if (sent > most) most = sent;
    }
    return most;
}

static bool compare_bytes_of(const Allreduce *algorithm, int k) {
    Tensor *data[MAX_DEVICES];
    vectors_on_devices(data, k, LENET_FLOATS);
    float *values = xmalloc(sizeof(float) * LENET_FLOATS);
    for (int i = 0; i < k; i++) {
        fill_normal(values, LENET_FLOATS, 1, flags.seed, STREAM_TEST + (uint32_t)i);
        tensor_write(data[i], values);
        begin_step(data[i]->device);
    }
    ledger_reset();
    algorithm->run(data, k);
    synchronize_all();

    Counted counted = count_bytes(algorithm, data, k);
    size_t formula = busiest_by_formula(algorithm, LENET_FLOATS, k);
    bool same = all_replicas_equal(data, k);
    printf("  %d  %-9s %2d of %-4s %9llu %9zu %5.2f N  %9llu   %s\n", k, algorithm->name,
           algorithm->steps(k), algorithm->in_parts ? "N/k" : "N",
           (unsigned long long)counted.busiest, formula,
           (double)formula / (LENET_FLOATS * sizeof(float)), (unsigned long long)counted.total,
           same ? "yes" : "NO");
    free(values);
    free_params(data, k);
    return same && counted.as_formula &&
           counted.total == 2 * (uint64_t)(k - 1) * LENET_FLOATS * sizeof(float);
}

static void compare_bytes(void) {
    printf("\nWhy it is slow: bytes for a vector of N = %zu bytes (LeNet's gradients)\n",
           LENET_FLOATS * sizeof(float));
    printf("                            sent by the busiest device    sent by  replicas\n"
           "  k  algorithm steps       counted   formula                  all  equal\n");
    bool right = true;
    for (int k = 2; k <= 8; k *= 2)
        for (int a = 0; a < NUM_ALLREDUCES; a++)
            right = compare_bytes_of(&allreduces[a], k) && right;
    check(right, "each device sends and receives the formula's bytes; replicas have the same bits");
    printf("  All send 2 (k-1) N bytes in total. But the star's device 0 sends (k-1) N of them,\n"
           "  more with each device that is added; sharded or in a ring no device sends more\n"
           "  than 2 N, however many there are. The tree is in between, with the fewest steps.\n");
}

// What that means in time, if nothing counts but the bytes: steps times the time of one transfer.
// The book's example has 160 MB of gradients on four GPUs with links of 16 GB/s.
static void predict(void) {
    const double bytes = 160e6, link = 16e9;
    const int k = 4;
    printf("  Predicted, not measured: 160 MB on 4 GPUs with links of 16 GB/s, the book's\n"
           "  example:");
    for (int a = 0; a < NUM_ALLREDUCES; a++) {
        double transfer = bytes / (allreduces[a].in_parts ? k : 1) / link;
        printf(" %s %.0f ms%s", allreduces[a].name, 1e3 * transfer * allreduces[a].steps(k),
               a + 1 < NUM_ALLREDUCES ? "," : "\n");
    }
    printf("  The star's is for one step after the other. Our star sends the sum back while the\n"
           "  rest still comes in; links that do both at once then need half of that.\n");
}

// ## Time
//
// The formulas count bytes and steps. What those cost on this machine is measured in times.c.

static void measure_times(FILE *csv) {
    write_times_header(csv);
    if (flags.devices > 0) {
        compare_times(flags.devices, flags.steps, csv);
    } else {
        compare_times(2, flags.steps, csv);
        compare_times(4, flags.steps, csv);
    }
    explain_times();
}

// ## The program

static void draw(const char *csv, const char *png) {
    bool readable = !is_written_directly(csv); // what went into a pipe cannot be drawn
    if (readable && plot_draw(png, "allreduce.gp", csv))
        printf("\ntimes: %s, figures: %s\n", png, csv);
    else if (readable)
        printf("\nfigures: %s\n", csv);
}

int main(int argc, char *argv[]) {
    flags = parse_flags(argc, argv,
                        "Shows get_params and allreduce; compares four ways to do an allreduce.\n"
                        "Times are taken on 2 and on 4 devices, or with --devices K on K.",
                        "devices seed steps allreduce csv", default_flags);
    if (flags.devices == 1) die_usage("--devices 2 or more", "one device has nothing to sum up");
    choose_allreduce(flags.allreduce);
    char *csv = flags.csv ? xstrdup(flags.csv) : out_file(flags.out, ".csv");
    char *png = out_file(flags.out, ".png");
    make_directory(flags.out);
    check_outputs((const char *const[]){csv, png}, 2);
    OutputFile file = output_open(csv); // if that fails, then before the measuring

    demonstrate_get_params();
    demonstrate_allreduce();
    show_rebinding();
    show_sharing();
    check_sums();
    compare_bytes();
    predict();
    measure_times(file.stream);

    output_close(&file);
    draw(csv, png);
    free(csv);
    free(png);
    devices_close();
    check_stdout();
    return EXIT_SUCCESS;
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
//   many devices a tree is best.
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
