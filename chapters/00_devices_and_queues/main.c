// main.c: the story of chapter 0. README.md says how to run it and what to read.
#include "common/book.h"
#include "behind/behind.h"

// ## The host, the devices, their queues
//
// The **host** is the computer's own processor and memory. Our program runs there, and the data set
// lies there. A **device** is a place to compute with memory of its own: a GPU (`cuda:0`) or, where
// there is none, a thread on some of the cores that stands in for a GPU (`cpu:0`). As in the book,
// `try_gpu(i)` gives device `i`. A **tensor** is an array of numbers in the memory of one device.
//
// A **kernel** is a function that a device computes, such as a product of matrices. The host
// **launches** it: it puts the kernel and its arguments at the end of the device's **queue** and
// goes on at once. The device takes from its queue one piece of work after the other, in the order
// in which they were put there. On a GPU such a queue is a CUDA stream.
//
//     HOST                    QUEUE, done from left to right           DEVICE
//
//     launch, launch, ... --> [ mm ][ mm ][ mm ][ mm ] event ------> device 0, its memory
//                                                        |                     |
//                                          waits for it  |                     | copy (the ledger
//                                                        v                     v counts its bytes)
//     launch, launch, ... -->                          wait [ mm ] -> device 1, its memory
//
// Two queues know nothing of each other. So the devices work at the same time, unless we order them
// by **events**: an event is a point in a queue, reached when all work before it is done, and
// another queue can be told to wait for it.

enum { SIDE = 1024, PRODUCTS = 4 };

struct Job {
    int k;
    Device *devices[MAX_DEVICES];
    Tensor *X[MAX_DEVICES];  // a matrix of SIDE x SIDE on each device
    Event done[MAX_DEVICES]; // the end of each device's products, if one waits for the other
    const Tensor *original;  // what copy_once() copies, and where to
    Tensor *copy;
};

static void open_the_devices(Job *job, int k) {
    job->k = k;
    open_devices(job->devices, k);
    for (int i = 0; i < k; i++) {
        job->X[i] = tensor_new(job->devices[i], SIDE, SIDE);
        tensor_fill(job->X[i], 1.0f / SIDE); // so that X X = X, and no number grows
    }
    printf("The host opened %d device%s: %s\n", k, k > 1 ? "s" : "", device_names(job->devices, k));
}

// ## To enqueue is not to compute
//
// The book's `run()`: some products of matrices, one after the other. `mm` launches a kernel and
// returns a tensor that has no values yet. It waits for nothing.

static Tensor *run(Tensor *x) {
    Tensor *Y = x;
    for (int i = 0; i < PRODUCTS; i++) Y = mm(x, Y);
    return Y;
}

// Who reads `Y` in the next line reads too early: the products have hardly begun. Here we do not
// read. We ask whether an event behind them is reached, at once and again after `synchronize()`, in
// which the host waits until the device's queues are empty. (Functions that hand values to the
// host wait by themselves: `tensor_read()`, `tensor_print()`, `item()`. So does the book's `Timer`:
// a clock that is read without waiting only tells how fast the host can enqueue.)

static void ask_too_early(Device *device, Tensor *x) {
    begin_step(device);
    Tensor *Y = run(x);
    Event end = device_record(device);
    bool at_once = event_reached(end);
    synchronize(device);
    bool after = event_reached(end);

    printf("\nThe host enqueued %d products on %s and an event behind them\n", PRODUCTS,
           device_name(device));
    printf("  reached, asked at once:             %s\n", at_once ? "yes" : "no");
    printf("  reached, asked after synchronize(): %s\n", after ? "yes" : "no");
    say_checked(after, "whoever waits finds the work done");
    say_checked(item(sum(Y)) == SIDE, "and the right numbers: their sum is 1024");
}

// ## Side by side, or one after the other
//
// The same products in three ways: on device 0 alone; on all devices; and on all devices, where
// each waits for an event in the queue of the one before it. (A program that calls `synchronize()`
// after each device has the same effect, and so has one that needs the result of each device for
// the next.) In the second way and in the third, the host launches the same kernels.

static void begin_steps(Job *job) { // the arena is used anew, see below
    for (int i = 0; i < job->k; i++) begin_step(job->devices[i]);
}

static void on_device_0(Job *job) { run(job->X[0]); }

static void side_by_side(Job *job) {
    for (int i = 0; i < job->k; i++) run(job->X[i]);
}

static void one_after_the_other(Job *job) {
    for (int i = 0; i < job->k; i++) {
        if (i > 0) device_wait(job->devices[i], job->done[i - 1]);
        run(job->X[i]);
        job->done[i] = device_record(job->devices[i]);
    }
}

// If the events do what they should, the other devices are done when the last one is:

static bool is_in_order(Job *job) {
    begin_steps(job);
    one_after_the_other(job);
    event_synchronize(job->done[job->k - 1]);
    for (int i = 0; i < job->k; i++)
        if (!event_reached(job->done[i])) return false;
    return true;
}

// Times are of two kinds. **Measured** is what this computer needed. Of k CPU devices each has a
// k-th of the cores (at least one), also while the others have nothing to do; and several devices
// may share one GPU. **Modelled** is what a stated machine would need, one with a GPU for each
// device: calculated from the very work that the program enqueues, and the same in every run. The
// table names the machine: `dgx-a100`, an NVIDIA DGX A100 with eight GPUs, unless `--machine`
// chooses another.

void enqueue_in_three_ways(Job *job) {
    Prediction expected = predict_first(
        "Every device gets as much work as device 0 has alone, and no device waits for another. "
        "How many times as long as on device 0 alone does it take until all are done, if each "
        "device is a GPU of its own?");
    WorkTimes alone = time_work(job, begin_steps, on_device_0);
    WorkTimes all = time_work(job, begin_steps, side_by_side);
    WorkTimes ordered = time_work(job, begin_steps, one_after_the_other);

    printf("\n%d products on each device\n", PRODUCTS);
    Table t = times_table();
    add_times(&t, "device 0 alone", &alone);
    add_times(&t, "all, side by side", &all);
    add_times(&t, "all, one after the other", &ordered);
    double times = times_as_long(&alone, &all);
    if (!isnan(times)) {
        predict_compare(expected, times, "times");
        book_result("side by side, %d times the work took %.2f times as long (%s)", job->k, times,
                    isnan(all.done.modelled) ? "measured" : "modelled");
    }
    say_times_as_long(job->k, &alone, &all, &ordered);
    say_checked(is_in_order(job),
                "by events: when the last device is done, all before it are, too");
}

// ![The same as a picture. Each lane is a queue, each bar a product of matrices (`gemm`, as BLAS
// libraries call it; the legend counts it as forward): side by side the lanes are busy at the same
// time, ordered by events one is idle while the other works.](plots/00_devices_and_queues.png "Four
// timelines with a lane for each of two devices and milliseconds from left to right: measured here
// and modelled, side by side and one after the other. Each lane has four bars of work. Side by
// side, both lanes begin at the left. One after the other, device 1 begins where device 0 ends, so
// the timeline is twice as long on the modelled machine.")

void draw_the_queues(Job *job) {
    const Shown shown[] = {{"side by side", side_by_side},
                           {"one after the other", one_after_the_other}};
    const char *path = book_timeline(".png");
    draw_queues(path, job, begin_steps, shown, 2);
    printf("\nWhich queue did what, and when: %s\n", path);
}

// ## A copy counts
//
// A device computes with what is in its own memory only. `tensor_copy()` copies between two
// devices, or a device and the host; it is enqueued like a kernel and ordered behind the work of
// both sides. The **ledger** counts the bytes that cross from each device to each other. Later
// chapters compare it with their formulas. A copy within one device crosses nothing.
//
// The table has the times of the copies alone: product and sum are computed before the clock
// starts. In a DGX A100 the GPUs are linked by NVLink, the host by PCIe: so a copy to the host is
// slower.

static void copy_once(Job *job) { tensor_copy(job->copy, job->original); }

// This makes a row of the table. It returns the bytes of one copy, as the ledger counts them.
static uint64_t copy_to(Device *to, const Tensor *original, Table *t) {
    const Device *from = original->device;
    Job job = {.original = original, .copy = tensor_of_shape(to, original->ndim, original->shape)};
    WorkTimes times = time_work(&job, NULL, copy_once);
    ledger_reset();
    copy_once(&job);
    uint64_t bytes = ledger_bytes(from, to);
    CHECK(bytes == (from == to ? 0 : tensor_bytes(original)), "the ledger counts the bytes");
    char *label =
        xprintf("%s to %s: %s bytes", device_name(from), device_name(to), grouped(bytes).text);
    add_times(t, label, &times);
    free(label);
    tensor_free(job.copy);
    return bytes;
}

void copy_and_count(Job *job) {
    Prediction expected = predict_first(
        "A matrix of 1024 x 1024 numbers (float32) is copied from a device to the host. How many "
        "megabytes (millions of bytes) does the ledger count?");
    begin_step(job->devices[0]);
    Tensor *product = run(job->X[0]), *their_sum = sum(product);
    printf("\nA copy of %d x %d numbers, and a copy of nothing but their sum\n", SIDE, SIDE);
    Table t = times_table();
    copy_to(job->devices[job->k - 1], product, &t);
    uint64_t bytes = copy_to(host(), product, &t);
    copy_to(host(), their_sum, &t);
    predict_compare(expected, 1e-6 * (double)bytes, "MB");
}

// ## The tape and its arena
//
// What an operation did is written on the **tape** of its device (PyTorch calls it the autograd
// graph), if a gradient is wanted. `backward()` reads the tape from its end and launches, for each
// operation, the kernel that computes its gradient. All this is enqueued, too.
//
// The results of operations need memory, and as much in each step of a training. It comes from the
// device's **arena**: `begin_step()` forgets the tape and all results, and the next results take
// the same memory again. (Each begins at a multiple of 256 bytes, so even one number takes so
// many.) So a step allocates nothing, and a result lasts until the next `begin_step()` of its
// device. Tensors made by `tensor_new()`, such as parameters, last until `tensor_free()`.

static Tensor *matrix(Device *device, int rows, int cols, const float values[]) {
    Tensor *t = tensor_new(device, rows, cols);
    tensor_write(t, values);
    return t;
}

static void go_backward(Device *device) {
    Tensor *x = matrix(device, 1, 3, (float[]){1, 2, 3});
    Tensor *W = matrix(device, 3, 2, (float[]){1, -1, 1, -1, 1, -1});
    attach_grad(W); // as requires_grad_() in PyTorch: the tape is kept for it
    const float *first_h = NULL;
    printf("\nloss = sum(relu(x W)), its gradient by W, and an update of W, twice\n");
    for (int step = 1; step <= 2; step++) {
        begin_step(device);
        Tensor *h = relu(mm(x, W)), *loss = sum(h);
        backward(loss);
        if (step == 1) first_h = h->data;
        CHECK(h->data == first_h, "each step has the same memory");
        printf("step %d: the arena gave %zu bytes%s\n", step, arena_used_bytes(device),
               step > 1 ? ", and h is where it was in step 1" : "");
        printf("  loss %g\n", (double)item(loss));
        tensor_print("  gradient by W", W->grad);
        sgd(&W, 1, 0.1f, 1); // W -= 0.1 times the gradient, which then is zero again
    }
    tensor_free(x);
    tensor_free(W);
}

// ## Summary
//
// - The host enqueues. Each device computes in the order of its queue, and all at the same time.
// - Events order one queue after another. What is read before its event is reached is not there
//   yet; but whoever waits without need gives up what devices could do side by side.
// - The ledger counts the bytes that cross between devices. A copy takes time even if it is short.
// - The tape remembers operations for `backward()`; the arena gives each step the same memory.
//
// ## Questions
//
// 1. You read a clock, call `run()` and read the clock again. Which column of the first table have
//    you measured, and what do you have to call before the second reading to measure the other?
// 2. "Side by side" and "one after the other" launch the same kernels, and the host is done with
//    enqueueing as early. Why does one of them take `k` times as long on the modelled machine?
// 3. You need the sum of a matrix on the host. Compare two ways by the table of copies: copy the
//    matrix and add there, or add on the device and copy the sum. How many bytes does each move? Is
//    the second as many times faster, on the modelled machine, as it moves fewer bytes?
// 4. Run it with `--devices 8`. On the modelled machine each device is a GPU of its own, and yet
//    "side by side" takes a little longer than device 0 alone. Why?
// 5. After step 2, may the program still print the `h` of step 1? What would it see there?

// ## The program

int main(int argc, char *argv[]) {
    Flags defaults = default_flags;
    defaults.devices = 2;
    defaults.next = "make run-01";
    Flags flags =
        book_begin(argc, argv, "Enqueues work on devices: side by side, ordered by events, copies.",
                   "devices", defaults);
    book_needs_devices(flags.devices);
    book_timeline(".png");
    book_check_outputs();

    Job job;
    open_the_devices(&job, flags.devices);
    if (flags.backend == BACKEND_MODEL) {
        queues_without_values(&job);
    } else {
        ask_too_early(job.devices[0], job.X[0]);
        enqueue_in_three_ways(&job);
        draw_the_queues(&job);
        copy_and_count(&job);
        go_backward(job.devices[0]);
    }
    for (int i = 0; i < job.k; i++) tensor_free(job.X[i]);
    return book_end();
}
