// main.c: the story of chapter 6. README.md says how to run it and what to read.
#include "common/base/error.h"
#include "common/model/modelled_clock.h"
#include "common/program/book.h"
#include "common/program/interrupt.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "agreement.h"
#include "bucket_sizes.h"
#include "claims.h"
#include "planted.h"
#include "sampling.h"
#include "step_record.h"
#include "too_large.h"
#include "traffic_tables.h"
#include "wrapper_timelines.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static Flags flags;
static Dataset *train_data, *test_data;
static DataIter *batches; // of the whole minibatch, for those who split it
static int modelled_k;    // devices in the modelled parts

// Rows of each device in the modelled parts: minibatches grow with the devices, as they do in use.
enum { ROWS = 64 };

// ## Two wrappers
//
// In chapter 5 a page of code trained any network on k devices. PyTorch has two such wrappers, and
// most of its users meet the older one first, because it takes one line:
//
// ```python
// net = nn.DataParallel(net)
// ```
//
// **DataParallel** is one program, and its device 0 is the head of all: the minibatch is there, the
// parameters, the outputs, the loss, the update. In *each* step it sends the others their rows and
// a fresh copy of all parameters, and they send back outputs, and later gradients.
//
// dp.c:replicate
//
// **DistributedDataParallel** (DDP) has no head. Each device belongs to a process of its own, a
// *rank* of k. Each rank loads its own images, computes, and takes part in an allreduce of the
// gradients. After that all make the same update (`ddp.c`). Here the ranks are still devices of one
// program, and the host goes through the lines of all of them; in chapter 8 they are processes.
//
// | in each step               | chapter 4      | chapter 5      | DP               | DDP              |
// |:---------------------------|:---------------|:---------------|:-----------------|:-----------------|
// | who has the minibatch      | the host       | the host       | device 0         | each rank a part |
// | parameters go              | nowhere        | nowhere        | to all           | nowhere          |
// | the loss is computed       | by all         | by all         | on device 0      | by all           |
// | gradients are exchanged    | one by one     | 25 MiB at a time | all, to device 0 | in buckets     |
// | and when                   | after backward | after backward | after backward   | during backward  |
// | who updates                | all            | all            | device 0         | all              |
// | running statistics         | there are none | as `--bn` says | device 0's       | rank 0's, to all |
// | host threads that launch   | one            | one            | k in backward    | one a rank       |
//
// (Chapter 5's `DataParallel` is the book's wrapper, not PyTorch's of that name, which is `Dp`
// here.)

static void compare_four_ways(void) {
    say("One step of each of the four ways on %d devices, %d rows on each: bytes, kernels and "
        "copies "
        "are counted%s%s. (Others: the one that sends most.)",
        modelled_k, ROWS, modelled_machine() ? "; time modelled on " : "",
        modelled_machine() ? modelled_machine()->name : "");
    print_four_ways(modelled_k, ROWS);
}

// ## What moves
//
// A step of DP has these phases; the arrows say who sends to whom:
//
//     scatter     0 --> 1, 2, ..   the rows of the minibatch
//     replicate   0 --> 1, 2, ..   all parameters and buffers (batch norm's running statistics)
//     forward     all
//     gather      1, 2, .. --> 0   the outputs
//     loss        0 alone, and its gradient by the outputs
//     scatter     0 --> 1, 2, ..   the gradients of their outputs
//     backward    all
//     reduce      1, 2, .. --> 0   all gradients, and device 0 sums them
//     update      0 alone
//
// Every byte between two devices is in the ledger. Below it is counted in each phase of a step, for
// device 0 and for the one of the others that sends and receives most, and must be what the formula
// says: with P bytes of parameters, device 0 of DP sends $(k-1) P$ and receives $(k-1) P$, and in a
// ring (chapter 2) each rank of DDP sends and receives $2 (k-1)/k \cdot P$, but for a number more
// or less where k does not divide them. For LeNet, P is 516,272 bytes. "DP, the loss inside
// forward" is the text's remedy for what the next section is about.

static void count_bytes(void) {
    say("\nBytes of a step of LeNet, %d rows in the minibatch: counted, and equal to the formulas",
        flags.batch_size);
    for (int k = 2; k <= 8; k *= 2) {
        const Machine *machine = modelled_machine();
        if (!machine || machine_has_devices(machine, k)) print_wrapper_traffic(k, flags.batch_size);
    }
}

// ## Who holds what
//
// Device 0 of DP needs more memory than the others: for the whole minibatch, for all outputs and
// their gradients, and for a place where gradients come in. With ten classes that is little. With
// 10,000 classes, as in a language model's last layer, it is most of its memory. (The wider last
// layer has more parameters, too.) The text's remedy is to compute the loss inside `forward`, so
// that only losses are gathered. "DDP, with copies" has buckets of their own, into which gradients
// are copied (`ddp.c`).

static void compare_memory(void) {
    Prediction expected =
        predict_first("LeNet with 10,000 classes is trained by DataParallel on 8 devices, with 256 "
                      "images on each. "
                      "How many times as much memory as another device does device 0 need?");
    print_wrapper_memory(flags.batch_size);
    Way way = {.network = &networks[0], .classes = 10000, .k = 8, .kind = WAY_DP};
    if (modelled_machine() && !machine_has_devices(modelled_machine(), 8)) return;
    StepRecord *r = model_step(&way, 8 * flags.batch_size, modelled_machine());
    predict_compare(expected, (double)r->memory[0] / (double)r->memory[1], "times");
    step_record_free(r);
}

// ## They compute what one device computes
//
// Each way is run for 8 steps on 1, 2 and 3 devices. After each step, one device makes the same
// step from the same parameters. The table has the largest difference, as a part of the largest
// change of the step: rounding, or nothing at all. (Whole trainings drift apart sooner or later, on
// any number of devices: a last digit decides on which side of zero some ReLU is. So steps are
// compared.)
//
// Where is there no difference, to the bit? Where the same numbers are added in the same order. A
// CPU device sums the images of a minibatch as a tree, and two devices with 128 images each compute
// the two halves of that tree (chapter 4). Three devices do not, nor do parts of a minibatch one
// after the other. With the ring the order also depends on where in its bucket a number is; with
// the star it does not, and then all buckets, with and without copies, give the same bits on any
// number of devices.
//
// With `no_sync` a minibatch goes through the network in parts, and gradients are exchanged after
// the last part only: for minibatches that do not fit into memory, or links that are slow.

static void check_agreement(void) {
    enum { STEPS = 8 };
    if (!has_values(try_gpu(0))) return;
    say("\nEach of %d steps, compared with one device's step from the same parameters", STEPS);
    compare_with_one_device(batches, STEPS, flags.lr);
}

// ## A step in time
//
// Now look at who is at work when. Each device of DDP has two queues, one that computes and one
// that communicates; in DP all is in the first. Device 0 of DP sends its parameters to one device
// after the other, and goes forward last. Later it receives gradients from one after the other, and
// the others wait.
//
// ![A step by DP, and by DDP with one bucket and with several: compare where the exchange is. A
// copy is drawn in the queue of the device that *receives* it, so device 0 of DP, grey at first, is
// sending.](plots/06_data_parallel_and_ddp_modelled.png "Three timelines of one step of ResNet-18
// on four modelled devices, milliseconds from left to right. DP has four lanes: parameters arrive
// on devices 1, 2 and 3 one after the other, device 0 goes forward last, all go backward together,
// then only device 0 has a bar, the gradients it receives. DDP has a compute and a communication
// lane for each device: with one bucket, all communication lanes are busy after backward; with
// small buckets, most of their bars lie under backward. DP takes longest, DDP with several buckets
// is shortest.")
//
// In DDP with one bucket all ranks exchange at the same time, after backward. With smaller buckets
// most of the exchange is under backward: the last layers' gradients travel while those of the
// first layers are still computed. That, and a host thread for each rank, is why DDP is faster than
// chapter 5's wrapper in the first table, with the same bytes, kernels and copies.
//
// ddp.c:start_bucket

enum { SMALL_BUCKET = 4 << 20 };

static void show_timelines(void) {
    Prediction expected = {0};
    if (modelled_machine())
        expected = predict_first("ResNet-18 is trained by DataParallel on several GPUs on PCIe, 64 "
                                 "images on each. For how "
                                 "much of a step is only device 0 at work, in percent?");
    double alone = draw_modelled_wrappers(modelled_k, ROWS, SMALL_BUCKET);
    predict_compare(expected, 100 * alone, "percent");
    if (modelled_machine())
        book_result("in DataParallel only device 0 is at work for %.0f %% of a step", 100 * alone);
}

// Where devices are workers on the same cores, an exchange is a copy in one memory, which takes
// hardly any time; and while it runs, it takes a core from those who compute. So nothing is to be
// gained here.
//
// ![The same, measured here with LeNet on two devices. Look at the order of things only: how long
// each of the three took says more about what else this computer was
// doing.](plots/06_data_parallel_and_ddp_measured.png "Three timelines of one step of LeNet on two
// devices of this computer, in the order of the picture before. The bars of communication are thin
// lines: after backward with one bucket, between parts of backward with small ones.")

static void measure_timelines(void) {
    Tensor *X, *y;
    if (!has_values(try_gpu(0))) return;
    data_iter_first(batches, &X, &y);
    draw_measured_wrappers(2, X, y, 64 << 10);
}

// ## How large should a bucket be?
//
// Small buckets begin early, and there are many of them; each costs launches and latency, however
// few bytes it has. Large ones are few, and begin late. Between the two there is a best size,
// unless backward is long enough to hide even the smallest ones. It depends on the links and on the
// network. PyTorch's default is 1 MiB for the first and 25 MiB
// for the others; all of LeNet is smaller than the first.
//
// How much does it save? For ResNet-50 on 32 GPUs with NCCL, steps were 38.0 % shorter with the
// exchange under backward than without, as quoted from PyTorch's authors [@li2020]. Of our
// figures that is to be compared with the part of the step that is saved; how much of the exchange
// is hidden is another question, and has another answer.
//
// ![How much longer a step is than without any exchange; the best size of a bucket is drawn large.
// LeNet on PCIe has it in between, while ResNet-18's backward takes long enough to hide even many
// small buckets.](plots/06_data_parallel_and_ddp_buckets.png "Two panels, LeNet and ResNet-18, each
// with a curve for GPUs on PCIe and one for a DGX A100. Sizes of buckets from 4 KiB to one bucket
// for all on the horizontal axis; times as long as without exchange on the vertical one. LeNet on
// PCIe falls, has its lowest point between 64 KiB and 1 MiB, and rises again. ResNet-18 on PCIe is
// flat and close to 1 up to some MiB, then rises steeply. Both curves of the DGX A100 are nearly
// flat.")

static void find_bucket_size(void) {
    Prediction expected = {0};
    if (!modelled_machine()) return;
    expected =
        predict_first("ResNet-18 has 45 MB of gradients. On GPUs on PCIe (or on the machine that "
                      "you chose with --machine), which size of buckets is best, in MB?");
    say("\nModelled: a step of DDP with buckets of many sizes, %d rows on each device, ring", ROWS);
    double best = sweep_bucket_sizes(modelled_k, ROWS);
    predict_compare(expected, best, "MB");
}

// ## Each rank loads its own
//
// Nobody scatters minibatches to the ranks of DDP: each loads its own images, and a *sampler* sees
// to it that no two load the same (`sampler.c`). If k does not divide their number, PyTorch's pads
// or drops. The third mode here does neither, so an epoch has each image once, and an accuracy is
// exact, for any k.

static void load_on_each_rank(void) {
    show_samplers();
    if (!has_values(try_gpu(0))) return;
    enum { MINIBATCH = 48 }; // the same for 1 rank and for 3
    say("\nLeNet, trained by DDP, each rank loading its own part of %d images; minibatches of %d",
        train_data->count, MINIBATCH);
    Lesson lesson = {.train_data = train_data,
                     .test_data = test_data,
                     .k = 3,
                     .batch_size = MINIBATCH,
                     .epochs = flags.epochs,
                     .lr = flags.lr,
                     .seed = flags.seed};
    double on_three = train_with_samplers(&lesson);
    lesson.k = 1;
    double on_one = train_with_samplers(&lesson);
    if (!interrupted())
        say("  On 3 ranks %.4f, on 1 rank %.4f. Both had the same images in the same steps, but "
            "one "
            "seed each is too little to compare accuracies: the steps are compared, above.",
            on_three, on_one);
}

// ## What the text says
//
// Six sentences about DP and DDP, from the text that this chapter follows; many others say the
// same. Read each, decide whether it is true, and only then look at the figures. (`claims.c`)

static void ask_the_claims(void) {
    Tensor *X, *y;
    data_iter_first(batches, &X, &y);
    say("\nSix claims of the text, put to the test");
    claim_parallel_only_forward(modelled_k, ROWS);
    claim_same_gradient_passed_on(X, y);
    claim_rank_0_broadcasts(modelled_k, ROWS);
    claim_only_gradients_cross(modelled_k, ROWS);
    claim_device_0_is_full_first(modelled_k, ROWS);
    claim_loss_inside_forward_fixes_it(modelled_k, ROWS, X, y);
}

// ## Five mistakes
//
// Made on purpose, each with what notices it. The first two show why a bucket is sent when its last
// gradient is final and not before, and why all ranks send their buckets in one order: an allreduce
// is a meeting. In processes of their own, ranks that come to different meetings wait for each
// other forever, or add up what does not belong together. Our ranks are in one program, so the
// wrapper sees what each of them is about to do, and says so. (`planted.c`)

static void make_mistakes(void) {
    say("\nFive mistakes, planted");
    plant_mistakes(batches, flags.lr);
}

// ## Model parallel or data parallel
//
// "When a model is so large that one GPU cannot hold it, use model parallelism", says the text.
// Both wrappers keep all parameters on each device, so more devices do not help them. Chapter 1's
// ways to split the network itself do. (`too_large.c`)

static void outgrow_a_device(void) {
    try_too_large(modelled_k, flags.memory ? machine_bytes(flags.memory) : 0);
}

// ## Summary
//
// - DP is one line, and in each step it sends all parameters from device 0 and all gradients to it.
//   Copied to one device after the other, as here and in PyTorch without NCCL, that takes longer
//   with more devices; with NCCL it is a broadcast and a reduce.
// - DDP sends no parameters after the start. Its allreduce has no head, it begins while backward
//   goes on, and updates are made by all.
// - A bucket is sent when the last of its gradients is final, in one order on all ranks. Its best
//   size follows from what an exchange costs at least, and from how long backward goes on.
// - On fast links, and for networks that compute much for each parameter, all of this matters
//   little. On slow links DP spends most of a step on it.
// - In DP device 0 needs more memory than the others, most of all with many classes. A loss inside
//   forward helps, but a mean of means is right for equal shards only.
// - Each rank loads its own images. Tell the sampler the epoch, and evaluate without padding.
//
// ## Questions
//
// 1. DP and DDP make the same gradients from the same rows. Why does DP send all parameters in each
//    step, and DDP never after the start?
// 2. In the timeline of DP, the devices begin forward one after the other, and backward together.
//    Why?
// 3. A bucket's exchange may not begin before that of the bucket before it, even if its gradients
//    are there. What would happen otherwise, on two ranks that are processes?
// 4. On GPUs on PCIe the best buckets save more of ResNet-18's step than of LeNet's. What makes the
//    difference?
// 5. Shards of 15 and of 1 rows, the loss inside forward, a mean of means: how many times as much
//    does the row on the second device count as one on the first?
// 6. Which of the six claims are false, and what would have to be done differently for them to be
//    true?

// ## Exercises
//
// Each has a folder in `exercises/`, with a place for your part and a check: `make exercise-06-1`,
// and so on.
//
// 1. Write PyTorch's bucket rule, and predict from it how long backward takes with the exchange
//    under it. Which size is best, and when is the prediction wrong?
// 2. Let each stage of chapter 1's pipeline go backward as soon as it can: one forward, one
//    backward (1F1B). What becomes of the memory, of the bubble, and what over slow links?
// 3. Exchange each gradient of chapter 4's LeNet as soon as it is final. When does that not help,
//    and what does the step wait for then?
// 4. Go through a minibatch in m parts and exchange once. When are the bits those of the whole
//    minibatch, and what does batch norm make of it?

// ## The program

static Flags read_flags(int argc, char *argv[]) {
    Flags defaults = default_flags;
    defaults.machine = "rtx4090-pcie";
    defaults.allreduce = "ring";
    defaults.train_size = 16384;
    defaults.epochs = 2;
    defaults.next = "make exercise-06-1, or make run-07";
    defaults.quick_means = "--train-size 12288 --test-size 1000";
    Flags f = book_begin(
        argc, argv,
        "Compares DataParallel with DistributedDataParallel: bytes, memory, time on k "
        "modelled devices, and what one device computes.",
        "devices seed batch-size lr epochs train-size test-size allreduce data", defaults);
    choose_allreduce(f.allreduce);
    devices_limit_memory(INFINITY); // --memory is for the last part alone
    return f;
}

// 4 devices, or as many as the machine has.
static int choose_devices(void) {
    const Machine *machine = modelled_machine();
    if (flags.devices == 1)
        die_usage("give --devices 2 or more", "one device has nobody to exchange gradients with");
    if (machine && !machine_has_devices(machine, 2))
        die_usage("another --machine, or --machine none",
                  "%s has one device, and nobody to exchange gradients with", machine->name);
    if (flags.devices > MOST_RECORDED)
        die_usage("this chapter's tables have a row for each of up to 64", "--devices %d",
                  flags.devices);
    if (flags.devices > 0) {
        book_needs_devices(flags.devices);
        return flags.devices;
    }
    return !machine || machine_has_devices(machine, 4) ? 4 : machine->devices;
}

static void prepare(void) {
    train_data = fashion_mnist_open(flags.data, true, flags.train_size);
    test_data = fashion_mnist_open(flags.data, false, flags.test_size);
    batches = data_iter_new(train_data, flags.batch_size, true, flags.seed);
    if (modelled_machine()) {
        book_timeline("_modelled.png");
        book_output("_modelled.json");
        book_csv("_buckets.csv");
        book_output("_buckets.png");
    }
    if (has_values(try_gpu(0))) book_timeline("_measured.png");
    book_check_outputs();
}

static void clean_up(void) {
    step_records_end();
    data_iter_free(batches);
    dataset_free(train_data);
    dataset_free(test_data);
}

int main(int argc, char *argv[]) {
    flags = read_flags(argc, argv);
    modelled_k = choose_devices();
    prepare();
    compare_four_ways();
    count_bytes();
    compare_memory();
    check_agreement();
    show_timelines();
    measure_timelines();
    find_bucket_size();
    load_on_each_rank();
    ask_the_claims();
    make_mistakes();
    outgrow_a_device();
    clean_up();
    return book_end();
}
