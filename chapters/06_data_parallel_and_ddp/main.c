// main.c: the story of chapter 6. README.md says how to run it and what to read.
#include "common/book.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "behind/behind.h"

// ## In PyTorch
//
// In chapter 5 a page of code trains a network on k devices. PyTorch has two wrappers that do this.
// Most users meet the older one first, because it takes only one line:
//
// ```python
// net = nn.DataParallel(net)
// ```
//
// **DataParallel** (DP) is one program. Its device 0 is the head, and the other devices work for it
// in each step. **DistributedDataParallel** (DDP) has no head. `torchrun --nproc_per_node=2
// train.py` starts the same program twice, once for each GPU. Such a process is called a *rank*:
//
// ```python
// dist.init_process_group("nccl")                # "gloo" without GPUs
// device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
// net = DistributedDataParallel(net.to(device))
// sampler = DistributedSampler(images)           # which images this rank loads
// for epoch in range(epochs):
//     sampler.set_epoch(epoch)                   # a new order in each epoch
//     for X, y in DataLoader(images, batch_size, sampler=sampler):
//         optimizer.zero_grad()
//         F.cross_entropy(net(X.to(device)), y.to(device)).backward()
//         optimizer.step()
// ```
//
// Nothing in the loop says that there are other ranks. They meet inside `backward()`. What the two
// wrappers do in each step:
//
// |                    | DP                        | DDP                           |
// |:-------------------|:--------------------------|:------------------------------|
// | minibatch          | on device 0               | each rank loads its own part  |
// | parameters         | from device 0 to all      | stay where they are           |
// | loss               | on device 0               | on each rank                  |
// | gradients          | summed on device 0        | summed on all ranks           |
// | exchanged          | after backward            | during backward               |
// | update             | on device 0               | on each rank                  |
// | running statistics | device 0's are kept       | rank 0's are sent to all      |
// | processes          | one                       | one for each device           |
//
// (Running statistics are batch norm's, chapter 5. What chapter 5 calls `DataParallel` is the
// book's wrapper, which is neither of the two.) Here the ranks of DDP are devices of one program.
// In chapter 8 they are processes.
//
// ## A step of DataParallel
//
// ```
// scatter      0 --> 1, 2, ..   the rows of the minibatch
// replicate    0 --> 1, 2, ..   all parameters, and the running statistics
// forward      all
// gather       1, 2, .. --> 0   the outputs
// loss         0 alone, and its gradient by the outputs
// scatter      0 --> 1, 2, ..   the gradients of their outputs
// backward     all
// reduce       1, 2, .. --> 0   the sum of all gradients
// update       0 alone
// ```
//
// dp.c:scatter
//
// Only device 0 makes the update, so afterwards the other devices hold old parameters. In the next
// step each one becomes a new *replica*:
//
// dp.c:replicate
//
// `broadcast()` sends pieces along a chain, as NCCL does. Device 0 sends a piece to device 1, which
// passes it on to device 2 while it receives the next piece. The gradients come back along the
// same chain, and each device adds its own:
//
// dp.c:reduce
//
// (Without NCCL, PyTorch copies from device 0 to one device after another, and sums on device 0.)
// Nothing divides by k here, because the loss is computed from all outputs, on device 0. In the
// backward pass all devices work side by side, and each has its own host thread.
//
// ## What moves
//
// Let P be the size of all parameters in bytes. In the chain, each device except the last sends P
// bytes of parameters, and each except device 0 sends P bytes of gradients. So a device in the
// middle sends 2P and receives 2P bytes per step. DDP sends no parameters. In a ring (chapter 2),
// each rank sends and receives $2 (k-1)/k \cdot P$ bytes of gradients. Here are the bytes of a step
// of LeNet, whose P is 516,272, with 64 images on each device. They are counted, and the program
// stops if a phase moves more or less than its formula says.
//
// behind/tables.c:print_traffic
//
// "Another" is the device that moves most, apart from device 0. Device 0 also sends images, because
// the whole minibatch is there. A device of DP moves little more than a rank of DDP. So bytes alone
// do not make DDP faster. (Without NCCL, device 0 would send k-1 times the parameters.)
//
// ## Who holds what
//
// Device 0 of DP holds the whole minibatch, all outputs, and the gradients of all outputs. LeNet
// has ten classes, so its outputs are small. But what if there were 10,000 classes, as in the last
// layer of a language model? Then a row of outputs has 10,000 numbers. The wider last layer also
// has more parameters, on every device.
//
// main.c:ask_about_memory
//
// behind/tables.c:print_memory
//
// All ranks of DDP need the same memory. DP's device 0 runs out of memory first. The usual remedy
// is to compute the loss inside `forward`. Then only losses are gathered. Claim 6 below looks at
// that.
//
// ## A step in time
//
// The parameters of ResNet-18 are 44.7 MB. Before DP can go forward, they have to arrive on all
// devices, and before it can update, the same number of bytes of gradients have to come back. In
// the meantime no device computes. On this machine, eight RTX 4090 cards on PCIe without direct
// access to each other, a link moves 19.5 GB/s. DDP exchanges only gradients, and most of them
// while backward still computes others.
//
// main.c:ask_about_time
//
// behind/timelines.c:compare_timelines
//
// ![A step by DP, by DDP with one bucket, and by DDP with buckets of 4 MiB. A copy between two
// devices is drawn in both lanes, because it occupies both
// links.](plots/06_data_parallel_and_ddp_modelled.png "Three timelines of one step of ResNet-18 on
// four modelled devices, milliseconds from left to right. DP has four lanes: parameters on all
// devices, then forward and backward on all at the same time, then gradients on all. DDP has a
// compute and a communication lane for each device: with one bucket, all communication lanes are
// busy after backward; with small buckets, most of their bars are under backward. DP takes longest,
// DDP with small buckets is shortest.")
//
// In all three steps, device 0 computes for the same time. DP's step is longer because both
// exchanges happen while no device computes. DDP has a second queue on each device, for
// communication. With one bucket, its exchange also starts after backward. With buckets of 4 MiB,
// nearly all of it happens under backward, so the step is hardly longer than what has to be
// computed.
//
// ## Exchange under backward
//
// The backward pass begins with the last layer. So the gradients of the last layers are complete
// while those of the first are still to be computed. DDP sends them in *buckets*, some gradients
// at a time. A bucket goes through four stages. The functions below are in the order in which they
// are called.
//
// *A gradient is final.* When the network is wrapped, each parameter gets a hook, which autograd
// calls when the gradient is complete:
//
// ddp.c:hook_all
//
// *Its bucket is full.* The hook counts. When the last gradient of a bucket has arrived, it marks
// that point in the compute queue with an event (chapter 0):
//
// ddp.c:mark_final
//
// ddp.c:next_is_ready
//
// *The exchange starts.* An allreduce is a meeting, and all ranks must come to the same one. If
// rank 0 came with bucket 1 and rank 1 with bucket 0, as processes they would wait for each other
// forever, or add up numbers that do not belong together. So buckets start in one order on all
// ranks, even if a later bucket is full first. The exchange waits for the event, not for the end
// of backward:
//
// ddp.c:start_bucket
//
// *The step waits.* The compute queue has continued with backward. The update must not start before
// the last sum has arrived:
//
// ddp.c:wait_for_sums
//
// That is all of DDP's idea. PyTorch's code has the same stages, in C++. A gradient's memory is
// part of its bucket here, as with PyTorch's `gradient_as_bucket_view=True`. By default PyTorch
// copies each gradient into its bucket, and the sum back.
//
// ## How large a bucket?
//
// This is PyTorch's rule. It goes through the gradients from the last parameter to the first:
//
// buckets.c:buckets_of
//
// A bucket is closed when it has *reached* its size, so it may be larger, and no gradient is cut in
// two. By default the first bucket has 1 MiB, so that something is sent soon, and the others have
// 25 MiB. (In PyTorch's first step, all gradients are in one bucket. After that step the buckets
// are filled once more, in the order in which the gradients arrived, unless
// `find_unused_parameters` is set.)
//
// Small buckets start early, but each exchange has a fixed cost for launches and latency, however
// few bytes it moves. A ring on four devices makes six steps, one after the other, and a copy on
// this machine takes 12.4 µs even if it is empty. Large buckets start late. The last bucket can
// never be hidden, because it is full only when backward ends. LeNet's backward pass is short, and
// all its gradients together have 516 KB.
//
// main.c:ask_about_buckets
//
// behind/bucket_sizes.c:sweep_bucket_sizes
//
// For LeNet, two buckets are best, but the difference is small. With four buckets, the fixed costs
// are more than what they hide. ResNet-18's backward pass is long enough to hide many exchanges.
// There, any size up to 10 MiB is good, and one bucket for all makes the step a quarter longer.
//
// ![How much longer a step is than a step without any exchange. The best size is drawn
// large.](plots/06_data_parallel_and_ddp_buckets.png "Two panels, LeNet and ResNet-18, each with a
// curve for GPUs on PCIe and one for a DGX A100. Sizes of buckets from 4 KiB to one bucket for all
// on the horizontal axis; times as long as without exchange on the vertical one. LeNet on PCIe
// falls, has its lowest point at 256 KiB, and rises again. ResNet-18 on PCIe is flat and close to 1
// up to some MiB, then rises steeply. Both curves of the DGX A100 are nearly flat.")
//
// On fast links, such as a DGX A100's, the size hardly matters. PyTorch's authors measured a
// ResNet-50 on 32 GPUs, also with NCCL. With the exchange under backward, its step was 38.0 %
// shorter than without [@li2020].
//
// ## Its own images
//
// In DDP each rank loads its own part of the data. All ranks compute the same random order, from
// the seed and the number of the epoch, and rank r takes the places r, r + k, r + 2k, ... of it:
//
// sampler.c:sampler_indices
//
// Each allreduce needs all ranks, so all ranks must make the same number of steps. If k does not
// divide the number of images, PyTorch's sampler *pads* (the first images of the order are taken
// once more) or *drops* (the last ones are left out). The third mode here is *exact*, which takes
// each image once. Then some ranks have one image more. Our sum over rows, divided once, allows
// that (chapter 3).
//
// behind/tables.c:print_samplers
//
// In training, one image more or less does not matter. But a test accuracy should count each image
// once. The last column shows how many images three ranks count in a test set of 10,000. With
// padding, two images count twice.
//
// ## Six claims
//
// These sentences, or similar ones, are in many tutorials. Decide for each one whether it is true
// before you look at the table.
//
// 1. DataParallel computes in parallel only in forward. Gradients are computed on one GPU.
// 2. In DDP, at each layer all GPUs average their gradients, then pass the same gradient on to the
//    next layer.
// 3. The gradients are averaged, and then rank 0 broadcasts the result to all ranks.
// 4. Between the ranks of DDP, only gradients are exchanged.
// 5. With DataParallel, GPU 0 is the first to run out of memory.
// 6. If the loss is computed inside `forward`, that problem is solved, and the result is the same.
//
// behind/claims.c:print_claims
//
// (1) to (4) are about ResNet-18, except that (2) compares what arrives at the images of LeNet
// after all its layers: gradients by activations stay on their rank, only gradients by parameters
// are exchanged. (4) is half true because rank 0's running statistics are also sent, in each step.
// (5) and (6) are about LeNet with 10,000 classes. In (6), device 0 has three quarters of the rows,
// and the mean of the two mean losses weighs each row on the other device three times as much.
//
// ## Five mistakes
//
// Each is made on purpose, in `mistakes.c`. Mistakes 1 to 3 end the program, so they are made in a
// child process. `ddp.c` checks every bucket before it is exchanged:
//
// mistakes.c:make_mistakes
//
// PyTorch also reports mistake 3, in the next forward pass, unless you set
// `find_unused_parameters`. It does not notice 4 and 5. In 5, nothing is wrong with the direction
// of the update, so the network still learns, but slowly.

// ## Summary
//
// - DP sends all parameters from device 0 and all gradients back to it, in each step, while no
//   device computes.
// - DDP sends no parameters after its start. All ranks get the same sums and make the same updates.
// - A bucket is exchanged when the last of its gradients is final, in one order on all ranks, while
//   backward continues. The last bucket cannot be hidden.
// - The fixed cost of an exchange makes many small buckets slow. A long backward pass hides them.
// - In DP, device 0 needs the most memory. A loss inside `forward` helps, but a mean of means is
//   right for equal shards only.
// - Each rank loads its own images. Tell the sampler the epoch, and test without padding.
//
// ## Questions
//
// 1. DP and DDP compute the same gradients from the same rows. Why does DP send all parameters in
//    each step, and DDP never after its start?
// 2. In DP's timeline, why do the devices begin their forward pass at slightly different times, but
//    their backward pass together?
// 3. Bucket 1 may be full before bucket 0. Why does it wait? What would happen on two ranks that
// are
//    processes?
// 4. On GPUs on PCIe, the best buckets save more of ResNet-18's step than of LeNet's. What makes
// the
//    difference?
// 5. Two shards have 15 rows and 1 row, and the loss is a mean of means inside `forward`. How many
//    times as much does the row on the second device count as a row on the first?
// 6. Which of the six claims are false, and how would the wrapper have to work for them to be true?

// ## Exercises
//
// Each has a folder in `exercises/`, with a place for your part and a check: `make exercise-06-1`,
// and so on.
//
// 1. Write PyTorch's bucket rule, and predict from it how long backward takes with the exchange
//    under it. Which size is best, and when is the prediction wrong?
// 2. Let each stage of chapter 1's pipeline go backward as soon as it can: one forward, one
//    backward (1F1B). How do the memory and the bubble change, and what happens over slow links?
// 3. Exchange each gradient of chapter 4's LeNet as soon as it is final. When does that not help,
//    and what does the step wait for then?
// 4. Go through a minibatch in m parts and exchange once (PyTorch's `no_sync`). When are the bits
//    the same as with the whole minibatch, and how does batch norm change?

// ## The program

enum { ROWS = 64 }; // of each device in the modelled parts

static Prediction ask_about_memory(int k) {
    if (k != 4) return (Prediction){0};
    return predict_first("LeNet with 10,000 classes is trained by DataParallel on 4 devices, with "
                         "64 images on each. How many times as much memory as another device does "
                         "device 0 need?");
}

static Prediction ask_about_time(void) {
    return predict_first("ResNet-18 is trained on GPUs on PCIe (or on the machine that you chose), "
                         "with 64 images on each. How many times as long is a step of DP as a "
                         "step of DDP with buckets of 4 MiB?");
}

static Prediction ask_about_buckets(void) {
    return predict_yes_no("DDP sends LeNet's gradients in four buckets, instead of one for all. "
                          "Does that make its step shorter?");
}

static void compare_times(int k) {
    if (!modelled_machine()) return;
    Prediction ratio = ask_about_time();
    double longer = compare_timelines(k, ROWS, 4 << 20);
    predict_compare(ratio, longer, "times as long");
    book_result("a step of DataParallel takes %.2f times as long as a step of DDP", longer);
    Prediction shorter = ask_about_buckets();
    predict_compare_yes_no(shorter, sweep_bucket_sizes(k, ROWS));
}

static void tell(int k, DataIter *batches) {
    Tensor *X, *y;
    data_iter_first(batches, &X, &y);
    print_traffic(ROWS);
    Prediction memory = ask_about_memory(k);
    predict_compare(memory, print_memory(k, ROWS), "times as much");
    compare_times(k);
    print_samplers();
    print_claims(k, ROWS, X, y);
    make_mistakes(batches);
}

int main(int argc, char *argv[]) {
    const char *overlap = "none";
    int bucket = 4096;
    const Flag own_flags[] = {
        {"overlap", FLAG_CHOICE, &overlap, "N",
         .help = "only model a step of DDP of this network (CSV and SVG)",
         .choices = overlap_names},
        {"bucket", FLAG_INTEGER, &bucket, "K", .help = "its buckets, in KiB", .least = 1,
         .most = 1 << 20},
        {0},
    };
    Flags defaults = default_flags;
    defaults.machine = "rtx4090-pcie";
    defaults.allreduce = "ring";
    defaults.own = own_flags;
    defaults.next = "make exercise-06-1, or make run-07";
    Flags flags = book_begin(
        argc, argv,
        "Compares DataParallel with DistributedDataParallel: bytes, memory, and time on k\n"
        "modelled devices.",
        "devices seed batch-size train-size allreduce data", defaults);
    choose_allreduce(flags.allreduce);
    const Machine *machine = modelled_machine();
    int k = book_devices(flags.devices, 4, machine ? machine->devices : 4);
    if (k < 2 || k > MOST_RECORDED)
        die_usage("--devices 2 to 64, on a --machine that has them",
                  "%d devices: gradients are exchanged between at least 2", k);
    bool is_figure = strcmp(overlap, "none") != 0;
    if (is_figure) book_needs_machine("--overlap");
    const char *csv = is_figure ? book_output("_overlap.csv") : book_csv("_buckets.csv");
    const char *svg = is_figure ? book_timeline("_overlap.svg") : book_timeline("_modelled.png");
    if (!is_figure) book_output("_buckets.png");
    book_check_outputs();
    if (is_figure) {
        model_one_overlap(overlap, k, ROWS, (size_t)bucket << 10, csv, svg);
        return book_end();
    }
    Dataset *train_data = fashion_mnist_open(flags.data, true, flags.train_size);
    DataIter *batches = data_iter_new(train_data, flags.batch_size, true, flags.seed);
    tell(k, batches);
    data_iter_free(batches);
    dataset_free(train_data);
    return book_end();
}
