// main.c: the story of chapter 0. README.md says how to run it and what to read.
#include "common/book.h"
#include "behind/behind.h"

enum { SIDE = 1024 };

// ## Host, devices, queues
//
// The **host** is the computer's own processor and memory. Our program runs there, and the data set
// is stored there. A **device** has its own memory and computes on the data in it. It is a GPU
// (`cuda:0`) or, on a computer without one, a thread that stands in for a GPU (`cpu:0`). As in the
// book (*Dive into Deep Learning*, "Automatic Parallelism"), `try_gpu(i)` returns device `i`. A
// **tensor** is an array of numbers in the memory of one device.
//
// A **kernel** is a function that runs on a device, such as a product of two matrices. To
// **launch** it, the host appends the kernel and its arguments to the device's **queue** and
// continues without waiting. The device takes work from its queue one piece at a time, in order. On
// a GPU, such a queue is a CUDA stream.
//
//     HOST                    QUEUE, done from left to right           DEVICE
//
//     launch, launch, ... --> [ mm ][ mm ][ mm ][ mm ] event ------> device 0, its memory
//                                                        |                     |
//                                          waits for it  |                     | copy (the ledger
//                                                        v                     v counts its bytes)
//     launch, launch, ... -->                          wait [ mm ] -> device 1, its memory
//
// Queues are independent of each other, so devices can work at the same time. If one device has to
// wait for another, we use an **event**, a point in a queue. It is reached when all work before it
// is done, and another queue can be told to wait for it.

// ## Side by side, or one after the other
//
// `mm()` launches a product of two matrices. The book's `run()` launches several products, one
// after the other:
//
// main.c:run
//
// Now every device gets four products. Here no device waits for another:
//
// main.c:side_by_side
//
// And here each device waits for an event in the previous device's queue:
//
// main.c:one_after_the_other
//
// Both functions launch the same kernels. Calling `synchronize()` after each `run()` would also
// make the devices take turns, but then the host would wait, too. Devices also take turns if each
// one needs the previous one's result.
//
// The times are *modelled*. A simulation follows everything that the program enqueues, and computes
// when each kernel, copy and launch would finish on a machine that you need not own ([How true is
// the clock?](../how_true.md)). The machine here is `dgx-a100`, an NVIDIA DGX A100 with eight GPUs
// (`--machine` chooses another).
//
// main.c:ask_how_long
//
// behind/times.c:show_ways
//
// ![The three rows of the table. Each lane is a queue, and each bar is a matrix product. Side
// by side, the lanes are busy at the same time. One after the other, one device is idle while the
// other works.](plots/00_devices_and_queues.png "Three timelines on one scale, in modelled
// milliseconds, with four bars of work in each lane. On device 0 alone, and side by side on two
// devices, the work ends after 1 millisecond. One after the other, the second device begins where
// the first one ends, and all is done after 2 milliseconds.")

static Prediction ask_how_long(void) {
    return predict_first(
        "Every device is a separate GPU and gets four products, as device 0 did alone. No device "
        "waits for another. How long does it take until all devices are done, as a multiple of "
        "the time of device 0 alone?");
}

static Tensor *run(Tensor *x) {
    Tensor *Y = x;
    for (int i = 0; i < PRODUCTS; i++) Y = mm(x, Y);
    return Y;
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

// If the events do what they should, the other devices are done when the last one is.
static bool is_in_order(Job *job) {
    for (int i = 0; i < job->k; i++) begin_step(job->devices[i]);
    one_after_the_other(job);
    event_synchronize(job->done[job->k - 1]);
    for (int i = 0; i < job->k; i++)
        if (!event_reached(job->done[i])) return false;
    return true;
}

static void compare_ways(Job *job) {
    const char *all = job->k == 2 ? "both" : "all";
    char *side = xprintf("%s devices, side by side", all);
    char *after = xprintf("%s devices, one after the other", all);
    const Way ways[] = {
        {"device 0 alone", on_device_0}, {side, side_by_side}, {after, one_after_the_other}};
    Prediction expected = ask_how_long();
    double times = show_ways(book_timeline(".png"), "Four products on each device", ways, 3, job);
    predict_compare(expected, times, "times");
    CHECK(is_in_order(job), "when the last device is done, those that it waited for are, too");
    book_result("side by side, %d times the work took %.2f times as long (%s)", job->k, times,
                modelled_machine() ? "modelled" : "measured");
    free(side);
    free(after);
}

// ## Enqueuing is not computing
//
// `mm()` returns a tensor that has no values yet. It does not wait for the product. If you call
// `run()` and read `Y` on the next line, you read it too early, because the products have hardly
// begun. The next function does not read `Y`. It asks at once whether an event enqueued after the
// products has been reached. It asks again after `synchronize()`, which makes the host wait until
// the device's queues are empty. (Every number in the 1024 x 1024 matrix is 1/1024, so each product
// is the same matrix again. Its numbers add up to 1024.)
//
// main.c:ask_too_early
//
// Functions that return values to the host (`tensor_read()`, `tensor_print()`, `item()`) wait
// automatically. They are convenient, but the host enqueues nothing while it waits.
//
// (`begin_step()` frees the memory of all results so far, the device's **arena**. It also empties
// the **tape**, on which operations are recorded if you need gradients. Chapter 4 uses both.)

static void ask_too_early(Device *device, Tensor *x) {
    begin_step(device);
    Tensor *Y = run(x);
    Event end = device_record(device);
    bool at_once = event_reached(end);
    synchronize(device);
    bool after = event_reached(end);

    printf("\n%d products on %s, and an event behind them\n", PRODUCTS, device_name(device));
    printf("  reached, asked at once:             %s\n", at_once ? "yes" : "no");
    printf("  reached, asked after synchronize(): %s\n", after ? "yes" : "no");
    say_checked(after, "after waiting, the work is done");
    say_checked(item(sum(Y)) == SIDE, "and the numbers add up to 1024");
}

// ## How to time it
//
// If you read a clock, launch a kernel and read the clock again, you have measured only how fast
// the host can enqueue. To time the work itself, wait before each reading:
//
// time_by.c:time_by
//
// We have two clocks. One *measures* the time on this computer. CPU devices share its cores, so two
// of them are no faster than one. No two runs give the same times. The other clock is *modelled*,
// and its times are the same in every run.
//
// behind/times.c:show_both_times
//
// Once the host has enqueued the products, it can do other work that does not need the result.
//
// ## A copy counts
//
// A device computes only on data in its own memory. `tensor_copy()` copies between two
// devices, or between a device and the host. Like a kernel, a copy is enqueued. It waits for the
// earlier work in the queues of both sides. For each pair of devices, the **ledger** counts the
// bytes that cross from one to the other. Later chapters compare the ledger with their formulas.
//
// We copy the result of `run()` to another device and to the host, and then only the sum of its
// numbers to the host. (The times include only the copies.)
//
// main.c:copy_and_count
//
// In a DGX A100, NVLink connects the GPUs to each other. PCIe, which is slower, connects them to
// the host. Even a copy of a single number takes several microseconds, because it has to be
// launched and the link has a latency.

static void copy_and_count(Table *t, Device *to, const Tensor *original) {
    Tensor *copy = tensor_of_shape(to, original->ndim, original->shape);
    ledger_reset();
    tensor_copy(copy, original);
    uint64_t bytes = ledger_bytes(original->device, to);
    add_copy(t, copy, original, bytes);
    tensor_free(copy);
}

static void copy_three_times(Job *job) {
    Table t = table_of_copies();
    begin_step(job->devices[0]);
    Tensor *product = run(job->X[0]), *their_sum = sum(product);
    copy_and_count(&t, job->devices[job->k - 1], product);
    copy_and_count(&t, host(), product);
    copy_and_count(&t, host(), their_sum);
}

// ## Copy while you compute
//
// Every device has a second queue, for communication. What is enqueued between
// `communicate_begin()` and `communicate_end()` goes there, so a copy does not hold up the products
// behind it. Suppose that the host needs the result of every product. You can copy them when all
// products are done:
//
// main.c:copy_afterwards
//
// Or you copy each result while the next product is computed. The second queue waits for an event
// after the product, so it does not copy too early:
//
// main.c:copy_meanwhile
//
// main.c:compare_copies
//
// ![Four products on device 0 and four copies, modelled: above in one queue, below in two. Below,
// three of the copies take no extra time, because the next product is computed
// meanwhile.](plots/00_devices_and_queues_copies.png "Two timelines on one scale. Above, four
// products in one lane, followed by four copies in the same lane. Below, four products in one lane,
// and in a second lane below it four copies, each of which begins when a product ends.")
//
// From chapter 6 on, gradients travel in this queue while others are still being computed.

static void copy_afterwards(Job *job) {
    Tensor *Y[PRODUCTS];
    for (int i = 0; i < PRODUCTS; i++) Y[i] = mm(job->X[0], i ? Y[i - 1] : job->X[0]);
    for (int i = 0; i < PRODUCTS; i++) tensor_copy(job->on_host[i], Y[i]);
}

static void copy_meanwhile(Job *job) {
    Device *device = job->devices[0];
    Tensor *Y = job->X[0];
    for (int i = 0; i < PRODUCTS; i++) {
        Y = mm(job->X[0], Y);
        queue_wait(comm_queue(device), device_record(device));
        communicate_begin();
        tensor_copy(job->on_host[i], Y);
        communicate_end();
    }
}

static void compare_copies(Job *job) {
    const Way ways[] = {{"copies after the products", copy_afterwards},
                        {"copies meanwhile", copy_meanwhile}};
    show_ways(book_timeline("_copies.png"), "Four products on device 0, copied to the host", ways,
              2, job);
}

// ## Which GPUs?
//
// `CUDA_VISIBLE_DEVICES` in the environment lists the GPUs that a program can see. With
// `CUDA_VISIBLE_DEVICES=2,0`, device 0 is the machine's GPU 2 and device 1 is its GPU 0. With
// k devices, a program in this book uses the first k GPUs that it can see.

// ## Summary
//
// - The host enqueues. Each device works in the order of its queue, and all devices work at the
//   same time.
// - An event makes one queue wait for another. A result is not ready until its event has been
//   reached. But unnecessary waits leave devices idle that could work side by side.
// - The ledger counts the bytes that cross between devices. Even a short copy takes time.
// - A device can copy in a second queue while it computes in the first.
//
// ## Questions
//
// 1. You read a clock, call `run()` and read the clock again. Which column of the table of times
//    have you measured? What must you call before the second reading to measure the other?
// 2. On a machine with four GPUs, other people are using GPU 0 and GPU 1. How do you start chapter
//    4 on the other two, and what does it call them? What happens with `CUDA_VISIBLE_DEVICES=4`?
// 3. You need the sum of a matrix on the host. You can copy the matrix and add there, or add on the
//    device and copy the sum. How many bytes does each method move? The second moves about one
//    millionth of the bytes. Is its copy a million times faster?
// 4. Run the program with `--devices 8`. On the modelled machine each device is a separate GPU, but
//    "side by side" takes a little longer than device 0 alone. Why?
// 5. In `copy_meanwhile()`, what could go wrong without the line with `queue_wait()`? And how long
//    would both functions take if a product took a tenth of the time of a copy?

// ## The program

static void open_the_devices(Job *job, int k) {
    job->k = k;
    open_devices(job->devices, k);
    for (int i = 0; i < k; i++) {
        job->X[i] = tensor_new(job->devices[i], SIDE, SIDE);
        tensor_fill(job->X[i], 1.0f / SIDE);
    }
    for (int i = 0; i < PRODUCTS; i++) job->on_host[i] = tensor_new(host(), SIDE, SIDE);
}

int main(int argc, char *argv[]) {
    Flags flags =
        book_begin(argc, argv, "Enqueues work on devices: side by side, ordered by events, copies.",
                   "devices=2", (Program){.next = "make run-01"});
    bool has_values = flags.backend != BACKEND_MODEL;
    book_needs_devices(flags.devices);
    book_outputs(".png .svg _copies.png _copies.svg");

    Job job;
    open_the_devices(&job, flags.devices);
    trace_label("compute"); // in a --timeline: the products are part of no training
    if (!has_values)
        puts("The devices compute nothing and have no values: there are modelled times and bytes.");
    compare_ways(&job);
    if (has_values) ask_too_early(job.devices[0], job.X[0]);
    show_both_times(on_device_0, &job);
    copy_three_times(&job);
    compare_copies(&job);
    trace_label("");
    for (int i = 0; i < job.k; i++) tensor_free(job.X[i]);
    for (int i = 0; i < PRODUCTS; i++) tensor_free(job.on_host[i]);
    return book_end();
}
