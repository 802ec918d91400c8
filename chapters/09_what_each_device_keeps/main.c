// main.c: the story of chapter 9. README.md says how to run it and what to read.
#include "common/book.h"
#include "behind/behind.h"

// ## Where the memory goes
//
// You want to train a transformer with 7 billion parameters. Eight GPUs with 80 GB each have 640 GB
// in total. So why does PyTorch run out of memory at 80 GB? With DDP (chapter 6), every GPU holds a
// complete copy of everything.
//
// Four things need memory. For each *parameter*, a device holds the value and the *gradient*, 4
// bytes each. The optimizer Adam adds two *moments*, 8 bytes in total. They are moving averages of
// the gradient and of its square. So the transformer takes $16 \cdot 7 = 112$ GB, even for the
// smallest minibatch. The *activations* are what the backward pass still needs from the forward
// pass. Our transformer has 32 equal blocks of width $h = 4096$ with $a = 32$ attention heads, and
// each GPU computes $b = 1$ sequence of $s = 2048$ tokens. In float32, their activations take 56.4
// GB (the last section has the formula).
// <!-- figure: 56.4 = run-09: "activations of a GPU" -->
//
// We train a smaller network, ResNet-18, here on one device with 4 images per minibatch. The
// program counts all memory that it allocates on the device:
//
// behind/tables.c:print_one_device
//
// Our *activations* are the images, the outputs of all layers and the gradients of these outputs.
// With DDP, each of k devices still needs all 16 bytes per parameter, and all devices compute the
// same update from the same sums. *ZeRO* (zero redundancy optimizer) removes this redundancy in
// three stages [@rajbhandari2020]:
//
// ```
//          device 0              device 1              device 2              device 3
//          P    G    M           P    G    M           P    G    M           P    G    M
// DDP      #### #### ########    #### #### ########    #### #### ########    #### #### ########
// ZeRO-1   #### #### ##......    #### #### ..##....    #### #### ....##..    #### #### ......##
// ZeRO-2   #### #... ##......    #### .#.. ..##....    #### ..#. ....##..    #### ...# ......##
// ZeRO-3   #... #... ##......    .#.. .#.. ..##....    ..#. ..#. ....##..    ...# ...# ......##
// ```
//
// P stands for parameters, G for gradients and M for moments. Each `#` is one byte per parameter
// that the device keeps. In mixed precision, the 16 bytes are $2 + 2 + 12$, because parameters and
// gradients have 16 bits, and Adam also keeps a float32 copy of the parameters.
//
// ## ZeRO-1: keep a part of the moments
//
// An allreduce has two halves (chapter 2). In the *reduce-scatter*, device i gets part i of every
// device's gradients and adds these parts up. In the *all-gather*, each device collects the other
// sums. With DDP, each device then updates all parameters. But after the first half, device i
// already has everything it needs to update part i. So ZeRO-1 updates at this point, and then
// gathers the new parameters instead of the gradients:
//
// ```
// DDP      reduce-scatter gradients    all-gather gradients    update all parameters
// ZeRO-1   reduce-scatter gradients    update part i           all-gather parameters
// ```
//
// Adam treats each parameter by itself. So device i needs only part i of the moments.
//
// In the program, the parameters are one flat array, and so are the gradients. Device 1 has these
// parts of them:
//
// ```
// full, full_grad   | part 0 | part 1 | part 2 | part 3 |    all parameters, and their gradients
// own, own->grad             | part 1 |                      what device 1 updates, and the sums
// received                   | part 1 | part 1 | part 1 |    gradients of devices 0, 2 and 3
// ```
//
// Here is a whole step. (`tensors_of()` collects these tensors of all devices.)
//
// zero1.c:zero1_step
//
// DDP and ZeRO-1 move the same number of bytes, because both run the same two halves. They also
// compute the same bits, because DDP here uses chapter 2's sharded allreduce. Like ZeRO-1, it adds
// in the order of the devices.
//
// main.c:ask_about_moments
//
// behind/tables.c:print_zero1
//
// On eight GPUs, our transformer takes $28 + 28 + 56 / 8 = 63$ GB with ZeRO-1, plus activations.
// <!-- figure: 28 = run-09 --memory-of 7b --devices 8: parameters[stage=ZeRO-1] x1e-9 -->
//
// ## ZeRO-2: keep a part of the gradients
//
// After the reduce-scatter, device i needs only part i of the gradients. But the backward pass
// computes all of them. To avoid holding them all at once, ZeRO-2 divides the network into *units*.
// ResNet-18 has eleven: a convolution, a batch norm, eight residual blocks and a linear layer. Each
// unit has its own flat arrays and shards. Units replace the buckets of chapter 6.
//
// zero2.c:zero2_step
//
// `backward_until()` runs the backward pass, back to where the forward pass of unit u began.
// `reduce_gradients()` enqueues the reduce-scatter in the communication queues, behind the backward
// pass of unit u. `finish_reducing()` makes the compute queues wait for it, and frees the memory.
// Here G2 are the gradients of unit 2, and R2 is what was received of them:
//
// ```
// compute queue       backward 2 | backward 1   | wait | free G2, R2 | backward 0 ..
// comm. queue                    | reduce-scatter 2 .. |             | reduce-scatter 1 ..
// memory              G2         | G2 R2 G1            |             | G1 R1 G0
// ```
//
// The host calls `finish_reducing()` early, perhaps before the reduce-scatter begins. If the memory
// were freed at once, it could be given to unit 0 and filled with zeros, and the sums of unit 2
// would be wrong. So it is freed *in order*, when the compute queue has waited and reaches this
// point. (CUDA has `cudaFreeAsync()` for this.)
//
// After the update, `gather_updated()` gathers the new parameters, as in ZeRO-1. On eight GPUs, our
// transformer now takes $28 + 3.5 + 7 = 38.5$ GB.
// <!-- figure: 3.5 = run-09 --memory-of 7b --devices 8: gradients[stage=ZeRO-2] x1e-9 -->
//
// ## ZeRO-3: keep a part of the parameters
//
// ZeRO-3 is also called *fully sharded data parallel* (FSDP). PyTorch's function for it is
// `fully_shard`. Now a device keeps 1/k of the parameters of each unit. So before a unit computes,
// all devices gather its parameters. PyTorch calls this `unshard()`:
//
// units.c:unshard
//
// Everything between `exchange_begin()` and `exchange_end()` is enqueued in the communication
// queues (chapter 6), which first wait for the compute queues (question 5 asks why). At the end,
// `queue_record()` records the point at which the parameters are complete. `wait_for_parameters()`
// makes the compute queues wait for it. When the unit has computed, `reshard()` frees the gathered
// parameters, in order.
//
// The forward pass gathers each unit just before the unit computes, and frees it right afterwards.
// The backward pass needs the parameters again, to compute the gradient of each unit's input. So
// each unit is gathered a second time:
//
// zero3.c:zero3_step
//
// While a unit computes, the next one is already being gathered. This is called *prefetching*. The
// other lines are ZeRO-2's (`diff zero2.c zero3.c`). But the new parameters are not gathered after
// the update, because the next forward pass does that. Gathering and reducing belong together,
// because the gradient of an all-gather is a reduce-scatter. On eight GPUs, our transformer now
// takes $112 / 8 = 14$ GB.
//
// main.c:ask_about_bytes
//
// behind/tables.c:print_stages
//
// The table shows device 0 of four, with 16 images per minibatch. *Temporary* memory is used only
// during a part of the step. With DDP and ZeRO-1, it holds gradients that arrive from other
// devices. *All* is the peak of the allocated memory, with 21.4 MB of activations. The *exchanges*
// of each unit are all-gathers (G) and reduce-scatters (R). ZeRO-3 has one more, so it *sends* 1.5
// times as many bytes in a step. (In bfloat16, all stages send half as much.) *Differ* says how
// many of the 11 million parameters differ from DDP's in any bit after five steps.
// <!-- figure: 21.4 = run-09: "activations" -->
//
// ### What is in memory, and when
//
// The temporary memory is largest in the backward pass. While unit u computes, the device holds its
// parameters and gradients, and the prefetched parameters of unit u - 1. The gradients of unit u +
// 1 are being reduced. They also take memory, and so does what arrives from the other devices. If
// unit u has $n_u$ parameters, all of this takes
//
// $$4 \cdot \left(2 n_u + n_{u-1} + n_{u+1} + \tfrac{k-1}{k} n_{u+1}\right)$$
//
// bytes. Here is what device 0 holds while each unit computes:
//
// ![What device 0 of four holds in a step of ZeRO-3, without
// activations.](plots/09_what_each_device_keeps_step.png "A stacked bar for each unit, forward and
// then backward: kept, gathered parameters, gradients not yet reduced, received. The bars are low
// for the first units. The highest bar is block 4.0 in the backward pass.")
//
// The peak is at block 4.0, with $2 \cdot 14.69 + 4.72 + 18.89 + 14.16 = 67.2$ MB of temporary
// memory. So the peak depends on three neighbouring units, not on the largest one (4.1) alone. To
// lower it, choose smaller units.
// <!-- figure: 14.69 18.89 = run-09: parameters[pass=forward, unit=4.0|4.1] x1e-6 -->
// <!-- figure: 14.16 = run-09: received[pass=backward, unit=4.0] x1e-6 -->
// <!-- figure: 4.72 = run-09: parameters[pass=forward, unit=3.1] x1e-6 -->
//
// ![The two queues of device 0 in a step of ZeRO-3, on a modelled DGX
// A100.](plots/09_what_each_device_keeps_modelled.png "A timeline with two lanes. In the
// communication lane, there is one exchange per unit in the forward pass and two in the backward
// pass, most of them while the compute lane is busy.")
//
// When the backward pass begins, the compute queue waits twice. First it waits for the last unit,
// `fc`, which the forward pass has just freed. Then it waits for block 4.1, the largest unit,
// because the computation of `fc` is too short to hide this exchange.
//
// ## It fits
//
// ZeRO-3 needs 133.3 MB on each device, so we set the limit to 140 MB. First we try DDP:
//
// recorded:ddp
//
// The *tensors* are the first moment and batch norm's running statistics. The second moment does
// not fit. So DDP fails before its first step. Neither smaller minibatches nor more devices would
// help. We give ZeRO-3 the same limit:
//
// behind/tables.c:print_losses
//
// ZeRO-3 has the same losses as DDP without a limit. After five steps, no parameter differs in any
// bit. So training that does not fit on one of these devices has run on four.
//
// ## Recomputation
//
// ZeRO does not divide the activations. *Recomputation*, also called *activation checkpointing*,
// keeps only the input of each block of the network. From this input, the backward pass computes
// the block again [@chen2016memory]. In PyTorch, you call `checkpoint(block, X)` instead of
// `block(X)`. Here the blocks are the units of ZeRO-2 and ZeRO-3.
//
// recompute.c:checkpoint
//
// `push_block()` adds one entry to the tape. When the backward pass arrives at this entry, it
// computes the block again, with a tape, and runs the block's backward pass.
//
// The second forward pass computes the same numbers, so all gradients have the same bits. But it
// must not update batch norm's running statistics a second time, or the newest minibatch would have
// a weight of $0.1 + 0.9 \cdot 0.1 = 0.19$ in them instead of 0.1. The training loss would not show
// this mistake, because only evaluation uses the running statistics.
//
// behind/tables.c:print_recomputed
//
// The remaining 32.3 MB hold the inputs of all blocks, gradients, and a piece of 16 MiB for the
// block that is being computed again. (With larger minibatches it saves more, as the next figures
// show.) The price is time. A backward pass takes about twice as long as a forward pass, so a
// second forward pass means a third more computation.
// <!-- figure: 32.3 = run-09: "with recomputation" -->
//
// ## On another number of devices
//
// A long training run that was stopped can continue from a *checkpoint*, which is a file here. With
// ZeRO, each device writes its own parts, and together these files form a *sharded checkpoint*.
// Each also says which parts it holds, so the program can divide all parts among any number of
// devices. If a file is missing, damaged or from another checkpoint, the program names it.
//
// behind/tables.c:print_resumed
//
// Here training on four devices was stopped after three steps, and continued on the number of
// devices in the first column. Every parameter has its saved value. With four devices, the last
// step gives the same bits as without the stop. With a different number, each device's batch norm
// sees more or fewer images, and the sums have different terms. Each device then begins with device
// 0's running statistics, and the others are dropped.
//
// ## When would you use which?
//
// The program models a step on eight GPUs (NVIDIA's A100) with 64 images each. In `dgx-a100`, all
// eight are in one host, connected by NVLink. In `cluster-10gbe`, each is in a different host, and
// the hosts are connected by 10 Gb/s Ethernet.
//
// main.c:ask_about_time
//
// behind/tables.c:print_machines
//
// On NVLink, all stages take about the same time, and a third longer with recomputation. On
// Ethernet, ZeRO-3 takes 1.47 times as long as DDP, because it sends 1.5 times as many bytes.
// ZeRO-1 and ZeRO-2 send no more than DDP, but hide fewer of the bytes behind computation. ZeRO-1
// exchanges all of them after the backward pass. ZeRO-2 gathers the parameters after the update,
// and its backward pass waits until it can free gradients. Recomputation adds 7.4 ms to ZeRO-1,
// which exchanges only when nothing is computed, but 2.2 ms to DDP, which would otherwise wait for
// its exchanges.
//
// If training fits in memory with DDP, use DDP. If not, ZeRO-1 and ZeRO-2 send no more. ZeRO-2
// keeps less, and is faster on Ethernet. If the parameters are also too large, use ZeRO-3. Over
// slow links, a step then takes about 1.5 times as long. In any stage, use recomputation if the
// activations are too large. (Chapter 10 divides the activations, too.)
//
// ## How many devices?
//
// Here is what these eight devices need memory for:
//
// ![Memory of one of eight devices, and the modelled time of a step on a DGX
// A100.](plots/09_what_each_device_keeps_memory.png "Two panels, without and with recomputation,
// with a stacked bar for each stage. The bars become shorter from DDP to ZeRO-3, and recomputation
// makes the activations smaller. A dashed line is at 440 MB.")
//
// Activations are the largest part of each bar, and ZeRO does not divide them. With a limit of 440
// MB (the dashed line), only ZeRO-3 fits without recomputation. With recomputation, all stages fit.
// On Ethernet, DDP with recomputation is faster than ZeRO-3 without it (78.8 and 112.3 ms).
// <!-- figure: 78.8 = run-09: "DDP, recomputation" -->
// <!-- figure: 112.3 = run-09: "ZeRO-3 117.3 427.3" -->
//
// Now back to the transformer and its N = 7 billion parameters. In float32, with ZeRO-3, each of k
// devices needs
//
// $$\frac{16 N}{k} + 4 \left(5 - \frac{1}{k}\right) \frac{N}{32}$$
//
// bytes and 56.4 GB of activations. The first term is what it keeps, and the second is its
// temporary memory. The activations of a block take $s b h \, (34 + 5 a s / h)$ bytes in 16 bits
// [@korthikanti2022]. The 34 are for the inputs of matrix products, normalizations and GELU, and
// the rest is for attention's $s \times s$ scores. Both include dropout's masks, which have one
// byte per element. In float32, only the masks stay the same, so it is $s b h \, (66 + 9 a s / h)$
// bytes. In mixed precision, the second term of the first formula halves, and the activations
// shrink to 30.6 GB. With recomputation, a device has only the inputs of 32 blocks, and the
// activations of the block that it computes again.
// <!-- figure: 56.4 30.6 = run-09: "activations of a GPU" -->
//
// main.c:ask_about_gpus
//
// behind/memory.c:print_transformer
//
// With DDP, no number of GPUs is enough. With ZeRO-3, two GPUs keep only 56 GB each, but have no
// room for the activations without recomputation. With mixed precision and recomputation, ZeRO-1
// just fits on two GPUs, and it sends no more than DDP. (DDP and ZeRO-1 include what our
// reduce-scatter receives, $4 N (k - 1) / k$ bytes in float32. On eight GPUs, these are 24.5 GB. A
// ring needs hardly any, so ZeRO-1 would take about 66 GB in float32 with recomputation, instead
// of 90.3.) *Selective recomputation* computes only attention's scores again, which take 80 of the
// 114 bytes per element of a block [@korthikanti2022]. Fused kernels such as FlashAttention do the
// same.

// ## Summary
//
// - Training with Adam takes 16 bytes per parameter, also in mixed precision. With DDP, every
// device keeps
//   all 16 bytes.
// - ZeRO-1 keeps 1/k of the moments, ZeRO-2 also keeps 1/k of the gradients, and ZeRO-3 (FSDP) also
//   keeps 1/k of the parameters.
// - ZeRO-1 and ZeRO-2 send the same number of bytes as DDP. ZeRO-3 gathers each unit twice in each
//   step, so it sends 1.5 times as many.
// - All stages compute the same bits as DDP if the gradients are added in the same order and the
//   optimizer works element by element.
// - Recomputation keeps only the input of each block. It adds a third to the computation.
// - Training can continue from a sharded checkpoint on any number of devices.
//
// ## Questions
//
// 1. ZeRO-1 updates each part of the parameters on a different device. Why is the result the same?
//    Which property must the optimizer have?
// 2. PyTorch's `ZeroRedundancyOptimizer` works on top of DDP. After DDP's allreduce, each rank
//    updates its part of the parameters and broadcasts it. How does the number of bytes that this
//    moves compare with our `zero1_step()`?
// 3. Which columns of the tables become smaller if you use 64 devices instead of 4? Can ZeRO-3 then
//    train ResNet-18 with a limit of 60 MB?
// 4. How would memory and bytes change if ZeRO-3 did not free a unit between its forward and
//    backward passes? (This is PyTorch's `reshard_after_forward=False`.)
// 5. The line `queue_wait(..)` in `exchange_begin()` (`common/device/device.c`) makes the
//    communication queue wait for the compute queue. What could go wrong in `unshard()` without it?
// 6. A network has 2 billion parameters and is trained with Adam in float32, on GPUs with 24 GB.
//    Leave out activations and temporary memory. How many GPUs do you need with DDP, with ZeRO-1,
//    and with ZeRO-3?
// 7. A block contains dropout, which sets random activations to zero. What must recomputation do to
//    keep the bits the same?

// ## Exercises
//
// `make exercise-09-1` (a step of ZeRO-1 with a limit for the gradient) and `make exercise-09-2`
// (three mistakes in an FSDP) check your part.

// ## The program

enum { MODELLED_ROWS = 64 };
static ZeroRun runs[NUM_STAGES]; // all with the same devices, images and initial values

// Training in one stage. (behind/training.c begins it, and counts memory and bytes at its end.)
static ZeroRun train_stage(const Plan *plan, Dataset *data, int batch_size, uint64_t seed) {
    Tensor *X, *y, *losses[MAX_DEVICES];
    ZeroTraining t = begin_training(plan, data, batch_size, seed);
    for (int step = 0; step < t.run.plan.steps; step++) {
        next_minibatch(&t, &X, &y);
        begin_counting();
        zero_train_batch(t.z, X, y, 1e-4f, losses);
        end_counting();
        t.run.losses[step] = mean_loss(&t, losses, X->shape[0]);
    }
    return end_training(&t);
}

static Prediction ask_about_moments(int k) {
    if (k != 4) return (Prediction){0};
    return predict_first("ResNet-18's parameters take 44.7 MB. Four devices train it with ZeRO-1. "
                         "How many MB of parameters, gradients and moments does each of them "
                         "keep?");
}

static Prediction ask_about_bytes(void) {
    return predict_first("Compared with a step of DDP, how many times as many bytes does a device "
                         "send in a step of ZeRO-3?");
}

static Prediction ask_about_time(void) {
    return predict_first("Eight hosts with one A100 each are connected by 10 Gb/s Ethernet. "
                         "Compared with a step of DDP, how many times as long does a step of "
                         "ZeRO-3 take?");
}

static Prediction ask_about_gpus(void) {
    return predict_first("How many GPUs of 80 GB does the transformer need with ZeRO-3, in float32 "
                         "and without recomputation?");
}

static double kept(const ZeroMemory *m) {
    return (double)(m->parameters + m->gradients + m->moments);
}

static void train_in_all_stages(int k, Dataset *data, int batch_size, uint64_t seed) {
    ZeroRun one = train_stage(&(Plan){.stage = STAGE_DDP, .k = 1}, data, batch_size / k, seed);
    print_one_device(&one);
    for (Stage s = STAGE_DDP; s < NUM_STAGES; s++)
        runs[s] = train_stage(&(Plan){.stage = s, .k = k}, data, batch_size, seed);
    Prediction mb = ask_about_moments(k);
    print_zero1(runs);
    predict_compare(mb, kept(&runs[ZERO_1].memory) / 1e6, "MB");
    Prediction times = ask_about_bytes();
    print_stages(runs);
    predict_compare(times, (double)runs[ZERO_3].sent / (double)runs[STAGE_DDP].sent, "times");
    zero_run_free(&one);
}

// The limit is the peak of ZeRO-3, rounded up to the next 10 MB.
static void train_within_limit(int k, Dataset *data, int batch_size, uint64_t seed) {
    double limit = 10e6 * ceil((double)runs[ZERO_3].peak / 10e6);
    double before = devices_limit_memory(limit);
    ZeroRun limited = train_stage(&(Plan){.stage = ZERO_3, .k = k}, data, batch_size, seed);
    devices_limit_memory(before);
    print_losses(&runs[STAGE_DDP], &limited, limit);
    zero_run_free(&limited);
}

// With more images than above, so that activations matter.
static void train_with_recomputation(int k, Dataset *data, uint64_t seed) {
    Plan plan = {.stage = ZERO_3, .k = k, .steps = 2};
    int batch_size = 8 * k < data->count / 2 ? 8 * k : data->count / 2;
    ZeroRun without = train_stage(&plan, data, batch_size, seed);
    plan.recompute = true;
    ZeroRun with = train_stage(&plan, data, batch_size, seed);
    print_recomputed(&without, &with, batch_size);
    zero_run_free(&without);
    zero_run_free(&with);
}

static void resume_on_others(int k, Dataset *data, int batch_size, uint64_t seed) {
    enum { TIMES = 4 };
    const int others[TIMES] = {k, 1, 3, 8};
    const char *prefix = book_output("_device");
    if (!runs[ZERO_3].values || !safetensors_built_in()) return;
    Plan plan = {.stage = ZERO_3, .k = k, .steps = 3, .checkpoint = prefix};
    ZeroRun stopped = train_stage(&plan, data, batch_size, seed), resumed[TIMES];
    plan = (Plan){.stage = ZERO_3, .steps = 2, .resume = prefix};
    for (int i = 0; i < TIMES; i++) {
        plan.k = num_gpus() > 0 && others[i] > num_gpus() ? num_gpus() : others[i];
        resumed[i] = train_stage(&plan, data, batch_size, seed);
    }
    zero_remove(prefix, k);
    print_resumed(&runs[ZERO_3], &stopped, resumed, TIMES);
    for (int i = 0; i < TIMES; i++) zero_run_free(&resumed[i]);
    zero_run_free(&stopped);
}

static void compare_machines(int rows) {
    Prediction longer = modelled_machine() ? ask_about_time() : (Prediction){0};
    double times = print_machines(rows);
    predict_compare(longer, times, "times as long");
    if (modelled_machine())
        book_result("on 10 Gb/s Ethernet, a step of ZeRO-3 takes %.2f times as long as a step of "
                    "DDP",
                    times);
}

static void train_in_one_stage(const Plan *plan, Dataset *data, int batch_size, uint64_t seed) {
    ZeroRun run = train_stage(plan, data, batch_size, seed);
    print_one_run(&run);
    zero_run_free(&run);
}

static void check_batch(int batch_size, int k) {
    if (batch_size < k)
        die_usage("a larger --batch-size, or fewer --devices",
                  "a minibatch of %d images has none for some of %d devices", batch_size, k);
}

static void check_images(int images, int batch_size) {
    if (images < NUM_STEPS * batch_size)
        die_usage("a smaller --batch-size, or a larger --train-size",
                  "%d steps of %d images need more than %d images", NUM_STEPS, batch_size, images);
}

int main(int argc, char *argv[]) {
    const char *name, *network;
    Plan plan = {0};
    const Flag own_flags[] = {
        {"stage", FLAG_CHOICE, &name, "S", .help = "train in this stage only",
         .choices = "all|ddp|zero-1|zero-2|zero-3", .standard = "all"},
        {"recompute", FLAG_ON, &plan.recompute,
         .help = "keep only the input of each block, with --stage"},
        {"checkpoint", FLAG_TEXT, &plan.checkpoint, "F",
         .help = "with --stage, write F-0.safetensors for device 0, and so on", .otherwise = "no"},
        {"resume", FLAG_TEXT, &plan.resume, "F", .help = "with --stage, continue from these files",
         .otherwise = "no"},
        {"memory-of", FLAG_CHOICE, &network, "N",
         .help = "only the memory of this network in all stages (CSV)", .choices = memory_networks,
         .standard = "none"},
        {0},
    };
    Flags flags =
        book_begin(argc, argv, "Trains ResNet-18 in stages that keep less and less.",
                   "devices seed batch-size=16 train-size data",
                   (Program){.own = own_flags, .next = "make exercise-09-1, or make run-10"});
    choose_allreduce("sharded");
    int k = book_devices(flags.devices, 4, modelled_machine() ? modelled_machine()->devices : 4);
    check_batch(flags.batch_size, k);
    if (strcmp(network, "none") != 0) {
        tell_memory(network, k, flags.batch_size / k, plan.recompute);
        return book_end();
    }
    book_outputs("_step.csv _step.png _modelled.png _modelled.svg _memory.csv _memory.png _device");
    Dataset *data = fashion_mnist_open(flags.data, true, flags.train_size);
    check_images(data->count, flags.batch_size);
    Stage stage = STAGE_DDP;
    while (stage < NUM_STAGES && strcasecmp(name, zero_stages[stage].name) != 0) stage++;
    if (stage < ZERO_3) devices_advise("use --stage zero-3, which keeps less, or more --memory");
    plan.stage = stage;
    plan.k = k;
    if (stage < NUM_STAGES)
        train_in_one_stage(&plan, data, flags.batch_size, flags.seed);
    else {
        if (plan.recompute || plan.checkpoint || plan.resume)
            die_usage("name a --stage", "--recompute, --checkpoint and --resume are for one stage");
        train_in_all_stages(k, data, flags.batch_size, flags.seed);
        train_within_limit(k, data, flags.batch_size, flags.seed);
        train_with_recomputation(k, data, flags.seed);
        resume_on_others(k, data, flags.batch_size, flags.seed);
        compare_machines(MODELLED_ROWS);
        Prediction gpus = ask_about_gpus();
        predict_compare(gpus, print_transformer(), "GPUs");
        draw_step(k, flags.batch_size / k);
        draw_borrowed(k);
        draw_memory(8, MODELLED_ROWS);
        for (Stage s = STAGE_DDP; s < NUM_STAGES; s++) zero_run_free(&runs[s]);
    }
    dataset_free(data);
    return book_end();
}
