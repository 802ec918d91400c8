// main.c: the story of chapter 0. README.md says how to run it and what to read.
#include "common/book.h"
#include "behind/behind.h"

enum { SIDE = 1024, PRODUCTS = 4 };

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

// ## Enqueuing is not computing
//
// `mm()` launches a product of two matrices and returns a tensor that has no values yet. It does
// not wait for the product. The book's `run()` launches several products, one after the other:
//
// main.c:run
//
// If you read `Y` on the next line, you read it too early, because the products have hardly begun.
// The next function does not read `Y`. It asks at once whether an event enqueued after the products
// has been reached. It asks again after `synchronize()`, which makes the host wait until the
// device's queues are empty. (Every number in the 1024 x 1024 matrix is 1/1024, so each product is
// the same matrix again. Its numbers add up to 1024.)
//
// main.c:ask_too_early
//
// Functions that return values to the host (`tensor_read()`, `tensor_print()`, `item()`) wait
// automatically. They are convenient, but the host enqueues nothing while it waits.

static Tensor *run(Tensor *x) {
    Tensor *Y = x;
    for (int i = 0; i < PRODUCTS; i++) Y = mm(x, Y);
    return Y;
}

static void ask_too_early(Device *device, Tensor *x) {
    begin_step(device);
    Tensor *Y = run(x);
    Event end = device_record(device);
    bool at_once = event_reached(end);
    synchronize(device);
    bool after = event_reached(end);

    printf("%d products on %s, and an event behind them\n", PRODUCTS, device_name(device));
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
// of them are no faster than one. No two runs give the same times. The other clock is *modelled*. A
// simulation follows everything that the program enqueues, and computes when each kernel, copy and
// launch would finish on a machine that you need not own. Its times are the same in every run. The
// machine here is `dgx-a100`, an NVIDIA DGX A100 with eight GPUs (`--machine` chooses another).
//
// behind/times.c:show_both_times
//
// Once the host has enqueued the products, it can do other work that does not need the result. From
// here on, all times on this page are modelled.
//
// ## Side by side, or one after the other
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
    const Way ways[] = {{"device 0 alone", on_device_0},
                        {"all, side by side", side_by_side},
                        {"all, one after the other", one_after_the_other}};
    Prediction expected = ask_how_long();
    double times = show_ways(book_timeline(".png"), ways, 3, job);
    predict_compare(expected, times, "times");
    CHECK(is_in_order(job), "when the last device is done, those that it waited for are, too");
    book_result("side by side, %d times the work took %.2f times as long (%s)", job->k, times,
                modelled_machine() ? "modelled" : "measured");
}

// ## A copy counts
//
// A device computes only on data in its own memory. `tensor_copy()` copies between two
// devices, or between a device and the host. Like a kernel, a copy is enqueued. It waits for the
// earlier work on both sides. For each pair of devices, the **ledger** counts the bytes that cross
// from one to the other. Later chapters compare the ledger with their formulas.
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

// ## Tape and arena
//
// If you need gradients, each operation is recorded on the **tape** of its device. (PyTorch's
// counterpart is the *autograd graph*.) `backward()` goes through the tape in reverse. For each
// operation, it launches the kernels that compute its gradient.
//
// The results of operations need the same amount of memory in each training step. This memory comes
// from the device's **arena**. `begin_step()` discards the tape and all results, and the next
// results reuse their memory. So a step allocates nothing, and a result is valid until the next
// `begin_step()` of its device. Tensors made by `tensor_new()`, such as parameters, live until
// `tensor_free()`.
//
// main.c:take_two_steps
//
// (Each result begins at a multiple of 256 bytes, so five small ones take 1,280.)

static void take_two_steps(Device *device, Tensor *x, Tensor *W) {
    const float *h_before = NULL;
    for (int step = 1; step <= 2; step++) {
        begin_step(device);
        Tensor *h = relu(mm(x, W)), *loss = sum(h);
        backward(loss);
        printf("step %d: loss %g, %zu bytes of the arena%s\n", step, (double)item(loss),
               arena_used_bytes(device), h->data == h_before ? ", h in the same place" : "");
        tensor_print("  gradient of W", W->grad);
        sgd(&W, 1, 0.1f, 1); // W -= 0.1 times the gradient, which then is zero again
        h_before = h->data;
    }
}

// ## Which GPUs?
//
// `CUDA_VISIBLE_DEVICES` in the environment lists the GPUs that a program can see. With
// `CUDA_VISIBLE_DEVICES=2,0`, device 0 is the machine's GPU 2 and device 1 is its GPU 0. TensorFlow
// reserves nearly all the memory of every GPU that it can see, unless you tell it otherwise. With k
// devices, a program in this book uses the first k GPUs that it can see, and only the memory that
// it needs.

// ## Summary
//
// - The host enqueues. Each device works in the order of its queue, and all devices work at the
//   same time.
// - An event makes one queue wait for another. A result is not ready until its event has been
//   reached. But unnecessary waits leave devices idle that could work side by side.
// - The ledger counts the bytes that cross between devices. Even a short copy takes time.
// - The tape records operations for `backward()`. The arena gives each step the same memory.
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
// 5. After step 2, may the program still print the `h` of step 1? What would it print?

// ## The program

static void open_the_devices(Job *job, int k) {
    job->k = k;
    open_devices(job->devices, k);
    for (int i = 0; i < k; i++) {
        job->X[i] = tensor_new(job->devices[i], SIDE, SIDE);
        tensor_fill(job->X[i], 1.0f / SIDE);
    }
}

static void show_tape_and_arena(Device *device) {
    Tensor *x = tensor_new(device, 1, 2), *W = tensor_new(device, 2, 2);
    putchar('\n');
    tensor_write(x, (float[]){1, 2});
    tensor_write(W, (float[]){1, -1, 1, -1});
    attach_grad(W); // as requires_grad_() in PyTorch: the tape is kept for it
    take_two_steps(device, x, W);
    tensor_free(x);
    tensor_free(W);
}

int main(int argc, char *argv[]) {
    Flags defaults = default_flags;
    defaults.devices = 2;
    defaults.next = "make run-01";
    Flags flags =
        book_begin(argc, argv, "Enqueues work on devices: side by side, ordered by events, copies.",
                   "devices", defaults);
    bool has_values = flags.backend != BACKEND_MODEL;
    book_needs_devices(flags.devices);
    book_outputs(".png .svg");

    Job job;
    open_the_devices(&job, flags.devices);
    trace_label("compute"); // in a --timeline: the products are part of no training
    if (has_values)
        ask_too_early(job.devices[0], job.X[0]);
    else
        puts("The devices compute nothing and have no values: there are modelled times and bytes.");
    show_both_times(on_device_0, &job);
    compare_ways(&job);
    copy_three_times(&job);
    trace_label("");
    if (has_values) show_tape_and_arena(job.devices[0]);
    for (int i = 0; i < job.k; i++) tensor_free(job.X[i]);
    return book_end();
}
