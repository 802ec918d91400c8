// main.c: the story of chapter 6. README.md says how to run it and what to read.
#include "common/book.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "behind/behind.h"
#include "mistakes.h"

// ## In PyTorch
//
// PyTorch has two wrappers that train a network on k devices. Most users meet the older one first,
// because it takes only one line:
//
// ```python
// net = nn.DataParallel(net)
// ```
//
// **DataParallel** (DP) is one program. Device 0 is the head, and in each step the other devices
// work for it. **DistributedDataParallel** (DDP) has no head. `torchrun --nproc_per_node=2
// train.py` starts the same program twice, once for each GPU. Each of these processes is a *rank*,
// and this is its program:
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
// `batch_size` is the number of rows on each rank. Nothing in the loop mentions the other ranks.
// The ranks exchange gradients inside `backward()`. This is what the two wrappers do in each step:
//
// |                    | DP                        | DDP                           |
// |:-------------------|:--------------------------|:------------------------------|
// | minibatch          | on device 0               | each rank loads its own part  |
// | parameters         | from device 0 to all      | stay where they are           |
// | gradients          | summed on device 0        | summed on all ranks           |
// | exchanged          | after backward            | during backward               |
// | update             | on device 0               | on each rank                  |
// | running statistics | device 0's are kept       | rank 0's are sent to all      |
//
// (Running statistics belong to batch norm; see chapter 5, whose `DataParallel` is the book's.) In
// this chapter, one program plays all ranks of DDP, one on each device. In chapter 8, each rank is
// a process, and its `in_pytorch.py` is a complete program with the loop above.
//
// ## A step of DataParallel
//
// ```
// scatter      0 --> 1, 2, ..   the rows of the minibatch
// replicate    0 --> 1, 2, ..   all parameters, and the running statistics
// forward      all
// gather       1, 2, .. --> 0   the outputs
// loss         0 alone, and the gradients of all outputs
// scatter      0 --> 1, 2, ..   the gradients of their outputs
// backward     all
// reduce       1, 2, .. --> 0   the sum of all gradients
// update       0 alone
// ```
//
// Only device 0 updates its parameters. The other devices still have the old ones, so in each step
// they get new *replicas* (copies) of device 0's parameters. As in NCCL's broadcast, these travel
// along a chain, in pieces. Device 1 passes a piece on to device 2 while it receives the next one
// from device 0, so the whole chain takes little longer than one copy. The gradients come back
// along the same chain. Each device adds its own, and device 0 ends up with the sum. (Without NCCL,
// PyTorch copies from device 0 to one device after another and sums on device 0.)
//
// ## A step in time
//
// ResNet-18 has 44.7 MB of parameters. With DP, they have to reach all devices before the forward
// pass, and gradients of the same size have to come back before the update. No device computes
// meanwhile. DDP exchanges only gradients, in *buckets*, most of them during the backward pass.
//
// We model four RTX 4090 cards on PCIe, with 64 images on each. A step without any exchange takes
// 13.9 ms. A copy from one card to another goes through the host's memory at 19.5 GB/s, which was
// measured on a server with eight of these cards. (`common/model/machines/rtx4090-pcie.machine`
// names the source.)
// <!-- figure: 13.9 = run-06: without[network=ResNet-18, machine=rtx4090-pcie, best=1] x1000 -->
//
// main.c:ask_about_time
//
// behind/timelines.c:compare_timelines
// ![A step of DP, of DDP with one bucket, and of DDP with buckets of 4 MiB, on the ideal links of
// the model. A copy between two devices is drawn in both lanes, because it occupies both
// links.](plots/06_data_parallel_and_ddp_modelled.png "Three timelines of one step of ResNet-18 on
// four modelled devices. DP: parameters on all devices, then forward and backward, then gradients
// on all. DDP has two lanes for each device. With one bucket, all communication is after backward,
// with small buckets most of it is during backward.")
//
// With DP, device 0 waits longest, because both exchanges happen while no device computes. With
// DDP, each device has a second queue for communication (the last two columns). With one bucket,
// the exchange starts after the backward pass. With buckets of 4 MiB, nearly all of it happens
// during the backward pass. The last layers have most parameters, so most buckets are full early.
//
// 94 % is the ideal case. In the model, a card sends and receives at full speed at the same time.
// On two real RTX 4090 cards, NCCL took 30.5 ms to sum 64 MiB (chapter 5), so 20 ms for ResNet-18's
// gradients. In a ring of four, each card sends 1.5 times as much, which takes 30 ms. The backward
// pass takes only 8.8 ms (claim 1 below), so less than a third of the exchange could be hidden, and
// a step of DDP would take about 35 ms. DP hides nothing, so its two exchanges of 20 ms would make
// it about 54 ms.
// <!-- figure: 94 = run-06: "DDP, buckets of 4" --> <!-- figure: 8.8 = run-06: "1 DP" -->
//
// ## Exchange under backward
//
// When a rank wraps its network, DDP does three things. It sends rank 0's parameters and buffers
// (batch norm's running statistics) to all ranks. It puts the parameters into buckets, from the
// last layer to the first. And it gives each parameter a *hook*, a function that autograd calls
// when the parameter's gradient is final.
//
// ddp.c:broadcast
//
// So the replicas stay equal. Only the buffers are sent again, before each forward pass.
//
// The backward pass begins with the last layer, so the gradients of later layers are complete long
// before those of earlier ones. Here is a network with four layers and two buckets, and then the
// functions that follow a bucket from its first gradient to the update, in calling order.
//
// ```
// compute      | backward 4 | backward 3 | backward 2 | backward 1 |            | update |
//                                        |                         |            |
// communicate                            | exchange 0 |            | exchange 1 |
//                                        |                         |
//                                bucket 0 is full          bucket 1 is full
//                                (layers 4 and 3)          (layers 2 and 1)
// ```
//
// *A gradient is final.* Autograd calls the hook. (`Arrival` tells it which gradient this is, and
// on which rank.) A parameter that the loss does not depend on gets no gradient, and its bucket
// would wait forever. With `find_unused_parameters=True`, DDP searches for such parameters in each
// step and counts them as final.
//
// ddp.c:hook_all
//
// *A bucket is full.* The hook counts the gradients. When the last gradient of a bucket is final,
// it records an event in the compute queue (chapter 0):
//
// ddp.c:mark_final
//
// An allreduce is like a meeting that all ranks must attend. If two processes brought different
// buckets, they would wait for each other forever or add up the wrong numbers. So all ranks
// exchange the buckets in the same order, even if a later bucket is full first.
//
// ddp.c:next_is_ready
//
// *The exchange starts.* It waits only for the event, not for the end of the backward pass.
// Everything enqueued between `exchange_begin()` and `exchange_end()` goes into the communication
// queues:
//
// ddp.c:start_bucket
//
// *The step waits.* Meanwhile, the compute queues continue with the backward pass. But the update
// must wait until the last sum has arrived:
//
// ddp.c:wait_for_sums
//
// In C, each gradient is stored in its bucket from the beginning, as with PyTorch's
// `gradient_as_bucket_view=True`. By default, PyTorch copies it there and copies the sum back, as
// the Python in the tabs does. The programs also divide in different places:
//
// |                     | a rank's loss      | the sum is divided by | right for    |
// |:--------------------|:-------------------|:----------------------|:-------------|
// | here                | sum over its rows  | all ranks' rows       | all shards   |
// | PyTorch's DDP       | mean over its rows | k, by DDP             | equal shards |
// | Python in the tabs  | mean over its rows | k, by your own code   | equal shards |
// | PyTorch's DP        | mean over all rows, on device 0 | nothing | all shards  |
//
// Without batch norm, and with equal shards, all of them make the same update as one device, except
// for rounding (`tests/test_trainers.c`).
//
// ## How large a bucket?
//
// Here is PyTorch's rule. `order` lists the parameters from the last to the first:
//
// buckets.c:buckets_of
//
// A bucket is closed when it has *reached* its size. It may be larger, because no gradient is cut
// in two. By default, the first bucket is closed at 1 MiB, so that the first exchange starts early.
// The others are closed at 25 MiB. If you set `bucket_cap_mb`, the newest PyTorch uses that size
// for all buckets, and so do our tables. (By default, DDP makes new buckets after its first step,
// in the order in which the gradients arrived.)
//
// Large buckets are full only late, and the exchange of the last one is never hidden. Small buckets
// are soon full, but each exchange has a fixed cost. A ring on four devices takes six steps, one
// after the other, and even an empty copy takes 12.4 µs between these cards (same source). All of
// LeNet's gradients in one exchange take 129 µs. (The table is for these four cards. Its last
// column is for the next section.)
// <!-- figure: 129 = run-06 --overlap lenet: exchange x1000000 -->
//
// main.c:ask_about_buckets
//
// behind/bucket_sizes.c:sweep_bucket_sizes
//
// For LeNet, two buckets are best, but they do not save much. Four cost more time than they save.
// ResNet-18's backward pass is long enough for many exchanges, and all sizes up to 10 MiB are about
// equally good. (At 10 MiB the last bucket has 0.6 MB, at 4 MiB 2.1 MB.) One bucket for all
// gradients makes its step a quarter longer.
//
// ## Why 25 MiB?
//
// In a ring on k devices, each of the $2 (k-1)$ steps moves a k-th of the bucket. If an empty copy
// takes the time a, and a link carries B bytes per second, the exchange of a bucket of b bytes
// takes
//
// $$2 (k-1) \left(a + \frac{b}{k B}\right)$$
//
// In "A step in time", one bucket took 3.64 ms and seven took 4.16 ms, so each of the six
// additional exchanges cost 87 µs. Six empty copies make 74 µs of this. The rest is three
// additions, each in a kernel of at least 4.4 µs.
// <!-- figure: 3.64 = run-06: "DDP, one bucket" --> <!-- figure: 4.16 = run-06: "DDP, buckets of 4"
// -->
//
// The fixed part and the moving part are equal at $b = k a B$. On four RTX 4090 cards that is 4 x
// 12.4 µs x 19.5 GB/s, about 1 MB. In a ring of 100 such cards it is 24 MB. At the rate that NCCL
// really reached (2.2 GB/s), both are a ninth of that. So 25 MiB is a size for many devices, fast
// links and large networks. On four cards it leaves ResNet-18 with two buckets.
//
// The table's last column is for ResNet-18 on 64 P100 cards in 16 hosts (`p100-25gbe`). Between
// hosts a is 14 µs and B is 3 GB/s, so $k a B$ is 2.7 MB. One bucket takes 31.7 ms to exchange.
// With 4 KiB, 27 buckets of 1.7 MB on average take 84.7 ms, so each additional one costs 2.0 ms,
// and two thirds of the exchange are fixed costs. The step is longer than with one bucket. 10 MiB
// is best, and with 25 MiB a step takes 1.04 times as long.
// <!-- figure: 31.7 = run-06: exchange[machine=p100-25gbe, bucket_bytes=nan] x1000 -->
// <!-- figure: 84.7 = run-06: exchange[machine=p100-25gbe, bucket_bytes=4096] x1000 -->
// <!-- figure: 1.04 = run-06: seconds[machine=p100-25gbe, bucket_bytes=26214400] /
// [bucket_bytes=10485760] -->
//
// ![How much longer a step takes than one without any exchange. A large point marks the best
// size.](plots/06_data_parallel_and_ddp_buckets.png "Two panels, LeNet and ResNet-18, each with a
// curve for four GPUs on PCIe and one for four of a DGX A100. LeNet on PCIe is lowest at 256 KiB.
// ResNet-18 on PCIe is close to 1 up to 10 MiB, then rises. Both curves of the DGX A100 are nearly
// flat. The curve of ResNet-18 on 64 P100 is lowest at 10 MiB and highest at 4 KiB.")
//
// On the fast links of a DGX A100, the size hardly matters. When PyTorch's authors trained
// ResNet-50 on 32 GPUs with NCCL, hiding the exchange made a step 38.0 % shorter [@li2020]. For
// larger models, [developers discuss](https://github.com/pytorch/pytorch/issues/118421) 100 MB.
//
// ## What moves
//
// Let P be the size of all parameters in bytes (LeNet: 516,272). In DP's chain, a device in the
// middle sends P bytes of parameters on and P bytes of gradients back, and receives as much. In
// DDP's ring (chapter 2), each rank sends and receives $2 (k-1)/k \cdot P$ bytes of gradients. The
// program counts the bytes of each step and stops if they differ from the formulas.
//
// behind/traffic_and_memory.c:print_traffic
//
// Device 1 of DP sends 34 % more than a rank of DDP. Device 0 also sends the images, receives the
// outputs, and sends their gradients back. (Without NCCL, it would send k-1 times P.)
//
// ## Who holds what
//
// With DP, device 0 holds the whole minibatch, all outputs, and their gradients. LeNet has ten
// classes, so its outputs are small. But what if there were 10,000 classes, as in the last layer of
// a language model? The last layer would also have more parameters, on every device.
//
// main.c:ask_about_memory
//
// behind/traffic_and_memory.c:print_memory
//
// The usual remedy is to compute the loss inside `forward`, so that only losses are gathered (claim
// 6 below).
//
// ## Each rank's images
//
// In DDP each rank loads its own part of the data. All ranks compute the same random order from the
// seed and the epoch number. Rank r takes the images at positions r, r + k, r + 2k, ... of this
// order:
//
// sampler.c:sampler_indices
//
// An allreduce needs all ranks, so all must take the same number of steps. If k does not divide the
// number of images, PyTorch's sampler *pads* (it takes the first images of the order again) or
// *drops* (it leaves out the last ones). Our third mode, *exact*, takes each image once. Some ranks
// may then have one more image than others, and none for the last step, but they still take part in
// its exchange. That is right here, where we divide by the number of rows. (For DDP, use
// `net.join()`, and scale the loss as in chapter 3.)
//
// behind/traffic_and_memory.c:print_samplers
//
// A test accuracy should count each image once. With padding, three ranks count two of 10,000 test
// images twice.
//
// ## Six claims
//
// Which of these claims, from an article on the two wrappers, are true? Decide, then see the table.
//
// 1. DataParallel is parallel only in the forward pass. It computes the gradients on one GPU.
// 2. In DDP, all GPUs average their gradients at each layer, then pass the same gradient on to the
//    next layer.
// 3. The gradients are averaged, and then rank 0 broadcasts the result to all ranks.
// 4. Between the ranks of DDP, only gradients are exchanged.
// 5. With DataParallel, GPU 0 is the first to run out of memory.
// 6. If the loss is computed inside `forward`, that problem is solved, and the result is the same.
//
// behind/claims.c:print_claims
//
// Claims 1 and 4 are about ResNet-18, the others about LeNet, on four devices with 64 images on
// each if nothing else is said. The memory is that of LeNet with 10,000 classes. Claim 3 is false
// because in a ring all ranks do the same.
//
// Claim 2 confuses two kinds of gradients. Those with respect to parameters are summed over the
// ranks. Those with respect to activations, which pass from layer to layer, stay on their rank. The
// table compares the pixels' gradients on two ranks with 128 images each, without the pixels whose
// gradient is zero on both.
//
// In claim 4, rank 0 also sends buffers, which are small, to each of the other three ranks.
//
// In claim 6, suppose the last minibatch has two rows on device 0 and one on device 1. The mean of
// the two mean losses then gives the row on device 1 twice the weight of each of the others. The
// percentage is the largest error, relative to the largest number in the update.
//
// ## Five mistakes
//
// `mistakes.c` makes five mistakes on purpose, the first three in child processes, which they end.
// The fifth divides first by k, as PyTorch's DDP does, and then by the number of rows, as ours
// does:
//
// mistakes.c:divide_twice
//
// mistakes.c:make_mistakes
//
// PyTorch's DDP makes neither mistake 1 nor 2, but code that exchanges by hand can. PyTorch also
// reports mistake 3, in the next forward pass. It does not notice mistakes 4 and 5. With mistake 5,
// the network still learns, but more slowly.

// ## Summary
//
// - In each step, DP sends all parameters from device 0 and all gradients back to it, while no
//   device computes.
// - DDP sends parameters only once, at the beginning. All ranks get the same sums and make the same
//   updates.
// - The exchange of a bucket starts when its last gradient is final. All ranks exchange the buckets
//   in the same order. All exchanges except the last can be hidden, but each has a fixed cost, so
//   the best buckets are larger on many devices.
// - In DP, device 0 needs the most memory. A loss inside `forward` helps, but a mean of means is
//   right only for equal shards.
// - Each rank loads its own images. Tell the sampler the epoch, and test without padding.
//
// ## Questions
//
// 1. DP and DDP compute the same gradients from the same rows. Why does DP send all parameters in
//    each step, but DDP only once, at its start?
// 2. In DP's timeline, why do the devices begin their forward passes at slightly different times,
//    but their backward passes together?
// 3. Bucket 1 may be full before bucket 0. Why does it wait? What could happen if it did not wait
//    and the ranks were processes?
// 4. On PCIe, the best bucket size saves a larger part of ResNet-18's step than of LeNet's. What
//    makes the difference?
// 5. Suppose device 0 has 15 rows, device 1 has 1 row, and the loss is a mean of means inside
//    `forward`. By what factor does the row on device 1 count more than a row on device 0?
// 6. Which of the six claims are false, and how would the wrapper have to work for them to be true?

// ## Exercises
//
// Each has a folder in `exercises/`, with a check (`make exercise-06-1`).
//
// 1. Predict how long a step with buckets takes, then choose buckets that beat PyTorch's rule.
// 2. Let each stage of chapter 1's pipeline keep fewer microbatches, and take no longer (one
//    forward, one backward: 1F1B). How do the memory and the bubble change?
// 3. LeNet exchanges each gradient as soon as it is final, but three waits are wrong. Find them.
//    When does the overlap not help?
// 4. Process a minibatch in m parts of unequal numbers of tokens and exchange the gradients once
//    (PyTorch's `no_sync`). What does a mean of means do?

// ## The program

enum { ROWS = 64 }; // of each device in the modelled parts

static Prediction ask_about_memory(int k) {
    if (k != 4) return (Prediction){0};
    return predict_first("LeNet with 10,000 classes is trained by DataParallel on 4 devices, with "
                         "64 images on each. Device 0 needs more memory than device 1. How "
                         "many times as much?");
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
    compare_times(k);
    print_traffic(k, ROWS);
    Prediction memory = ask_about_memory(k);
    predict_compare(memory, print_memory(k, ROWS), "times as much");
    print_samplers();
    print_claims(k, ROWS, X, y);
    printf("\n");
    make_mistakes(batches);
}

int main(int argc, char *argv[]) {
    const char *overlap;
    int bucket;
    const Flag own_flags[] = {
        {"overlap", FLAG_CHOICE, &overlap, "N",
         .help = "only model a step of DDP of this network (CSV and SVG)", .choices = overlap_names,
         .standard = "none"},
        {"bucket", FLAG_INTEGER, &bucket, "K", .help = "its buckets, in KiB", .least = 1,
         .most = 1 << 20, .standard = "4096"},
        {0},
    };
    Flags flags =
        book_begin(argc, argv, "Compares DataParallel with DDP: bytes, memory, and modelled time.",
                   "devices machine=rtx4090-pcie seed batch-size train-size allreduce=ring data",
                   (Program){.own = own_flags, .next = "make exercise-06-1, or make run-07"});
    choose_allreduce(flags.allreduce);
    int k = book_devices(flags.devices, 4, modelled_machine() ? modelled_machine()->devices : 4);
    if (k < 2 || k > MOST_RECORDED)
        die_usage("--devices 2 to 64, on a --machine that has them",
                  "%d devices: gradients are exchanged between at least 2", k);
    if (strcmp(overlap, "none") != 0) {
        book_needs_machine("--overlap");
        book_outputs("_overlap.csv _overlap.svg");
        model_one_overlap(overlap, k, ROWS, (size_t)bucket << 10, book_output("_overlap.csv"),
                          book_output("_overlap.svg"));
        return book_end();
    }
    book_outputs("_modelled.png _modelled.svg _buckets.csv _buckets.png");
    Dataset *train_data = fashion_mnist_open(flags.data, true, flags.train_size);
    DataIter *batches = data_iter_new(train_data, flags.batch_size, true, flags.seed);
    tell(k, batches);
    data_iter_free(batches);
    dataset_free(train_data);
    return book_end();
}
