// main.c: the story of chapter 5. README.md says how to run it and what to read.
#include "common/book.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "behind/behind.h"
#include "resnet18.h"

static Notebook nb = {.bn = "averaged"};

// ## A network from modules
//
// In chapter 4 we wrote out each parameter of LeNet, and its exchange. Here the network consists of
// *modules*, as in `torch.nn`. A module owns its parameters and knows how to compute.
//
// resnet18.c:resnet18
//
// ResNet-18 [@he2016] consists mostly of *residual blocks*, which add their input to their output.
// That makes it possible to train many layers. Where the shape changes, the input passes through a
// 1 x 1 convolution before it is added.
//
// resnet18.c:resnet_block
//
// The book (d2l for short) changed the first layer and left out the pooling after it, because its
// images are small. The network has 11.2 million parameters, 87 times as many as LeNet, and it
// computes much more for each of them. So the exchange of gradients should matter less.
//
// ## Where the parameters are
//
// `initialize()` draws the initial values from a seed and keeps them on the host. A device gets its
// copy of all parameters when the first data arrives there.
//
// On each device there are three long vectors: the parameters, their gradients, and *buffers* for
// batch norm (see below). A parameter `p` knows its initial values (`start`) and where its part of
// the vector begins (`first`). `tensor_slice()` returns a tensor in this part of the vector's
// memory. So all 76 gradients can be exchanged as one vector.
//
// common/tensor/nn.c:place_on
//
// As in the book, we send two images through the network on each of two devices, and then print
// the first weights there:
//
// behind/print.c:show_where_parameters_are
//
// Both devices copied the same initial values. The host has no such copy, so a child process that
// asked for one ended with an error.
//
// ## One wrapper
//
// A `DataParallel` is a network, its k devices, and the replicas of the parameters on them. A
// training step is chapter 4's step, for any network. `shards[i]` says which rows of the minibatch
// device i gets. (`train_step()` calls this function with equal shards.)
//
// data_parallel.c:train_step_as
//
// The last call is like `step()` of PyTorch's optimizers. It exchanges all gradients as one vector
// and then updates each replica.
//
// data_parallel.c:trainer_step
//
// The vector travels in *buckets* of 25 MiB, as in PyTorch's `DistributedDataParallel` (DDP). With
// one exchange for each parameter there would be 76, most of them tiny. A single one could not
// begin before the last gradient is computed. A bucket can travel while the gradients of the next
// one are still being computed, as in chapter 6. Here we wait, to keep the step simple.
//
// data_parallel.c:allreduce_in_buckets
//
// This is all that k devices need, with one exception.
//
// ## Batch norm
//
// *Batch normalization* follows each 3 x 3 convolution. In training, it subtracts from each channel
// its mean over the minibatch and divides by the standard deviation. In no other layer does the
// output for one image depend on the others. For evaluation, batch norm keeps *running statistics*:
// moving averages of the means and variances. Each training step gives the new value a weight of
// 0.1 and the old average a weight of 0.9.
//
// With k devices there are two questions. Is the mean taken over the device's shard, or over all
// shards? And which running statistics does the network evaluate with, if each device has seen
// other images? `--bn` chooses one of four answers:
//
// | `--bn`     | training: mean over | evaluation: statistics of | found in                       |
// |------------|---------------------|---------------------------|--------------------------------|
// | `local`    | the device's shard  | each device itself        | d2l with MXNet                 |
// | `rank0`    | the device's shard  | device 0                  | PyTorch's DataParallel and DDP |
// | `averaged` | the device's shard  | the mean over all devices | this program, by default       |
// | `sync`     | all shards          | any device; all are equal | PyTorch's SyncBatchNorm        |
//
// The first three train in the same way. They differ only in what happens before evaluation.
// `average()` is an allreduce, divided by k:
//
// running_statistics.c:share_statistics
//
// Only with `sync` do k devices compute what one device computes. Device i sends each channel's
// count $n_i$, mean $m_i$ and variance $v_i$ to all others. Then each device merges them, with $n =
// \sum n_i$:
//
// $$m = \frac{1}{n} \sum_i n_i m_i \qquad v = \frac{1}{n} \sum_i n_i \left(v_i + (m_i -
// m)^2\right)$$
//
// Take one channel, and two shards with the values 1, 3 and 5, 7. Their means are 2 and 6, and both
// variances are 1. The merged mean is 4, and the merged variance is 1 + 4 = 5, because each mean is
// 2 away from 4. `averaged` would take the mean of the variances, 1.
//
// common/tensor/batch_norm.c:sync_batch_norm
//
// `all_gather()` is one small exchange in each batch norm, and backward needs another one.
// ResNet-18 has 17 batch norms, so a step has 34 more exchanges, and in each of them all devices
// wait. The other answers need no exchange in training. (DDP sends device 0's statistics in each
// step. Because training does not read them, sending them once before evaluation has the same
// result.) But they train as if the minibatch were as small as a shard, which matters if a shard
// has only a few images.
//
// ## One device, then two
//
// d2l trains on one GPU with 256 images in a minibatch and a learning rate of 0.1, then on two GPUs
// with 512 images and 0.2. So each GPU has the same number of images in a step as before, and an
// epoch has half as many steps. Without a GPU, our program uses 16 and 32 images, and only part of
// the data set. The loop over epochs and minibatches is chapter 4's. Each step compares the bytes
// that cross between the devices with the formulas of chapter 2.
//
// main.c:train_on_one_and_on_two
//
// Ignore the measured seconds, because both devices share one computer's cores with whatever else
// runs there.
//
// ![Both runs, epoch by epoch.](plots/05_resnet18_concise.png "Two panels over the epochs: training
// loss on the left, test accuracy on the right, with a thick line for one device and a thin one for
// two. The losses fall, and the two runs differ from each other.")
//
// You can stop these trainings and resume them later ([Running it](../running_it.md)).

static void step(Training *t, const Tensor *X, const Tensor *y, Tensor *losses[]) {
    Run *run = t->context;
    ledger_reset();
    train_step(&run->dp, X, y, t->lr, losses);
    CHECK(ledger_bytes_between_devices() == run->bytes_per_step, "bytes are as the formulas say");
}

static double accuracy(Training *t) {
    Run *run = t->context;
    return evaluate_accuracy_gpus(&run->dp, run->test_iter);
}

static void save(Training *t) {
    Run *run = t->context;
    save_run(&nb.runs, &run->as);
}

static void begin(Run *run) {
    Training *t = &run->t;
    int batch_size = run->as.batch_size;
    run->as.t = t;
    run->as.replicas = run->dp.bn == BN_LOCAL ? run->dp.k : 1;
    run->bytes_per_step = step_bytes(&run->dp);
    run->test_iter = data_iter_new(nb.test_data, batch_size, false, 0);
    t->iter = data_iter_new(nb.train_data, batch_size, nb.flags.shuffle, nb.flags.seed);
    t->devices = run->dp.devices;
    t->context = run;
    print_training(run);
    resume_run(&nb.runs, &run->as);
}

static void end(Run *run) {
    print_stopped(&nb.runs);
    share_statistics(&run->dp); // Ctrl-C may have come before evaluation did.
    if (nb.flags.save) save_parameters(nb.net, run->dp.devices[0], nb.flags.save);
    data_iter_free(run->t.iter);
    data_iter_free(run->test_iter);
}

static void train_anew(Run *run) {
    Device *devices[MAX_DEVICES] = {NULL};
    int k = run->t.k;
    open_devices(devices, k);
    restart(nb.net); // back to the initial values
    run->dp = data_parallel(nb.net, devices, k, batch_norm_mode(nb.bn));
    begin(run);
    train_epochs(&run->t);
    end(run);
}

static Run run_on(int k, int batch_size, float lr) {
    return (Run){.as = {nb.num_runs++, batch_size, .bn = nb.bn},
                 .t = {.flags = &nb.flags,
                       .animator = nb.animator,
                       .log = &nb.loss_log,
                       .k = k,
                       .lr = lr,
                       .step = step,
                       .accuracy = accuracy,
                       .whole_epoch = save}};
}

// After --resume, a run that was over before is not trained again.
static void train(Run *run) {
    if (interrupted()) return;
    if (was_over(&nb.runs, run->as.number))
        recall_run(&nb.runs, &run->t);
    else
        train_anew(run);
}

static void print_both(const Run *one, const Run *two) {
    if (interrupted() || nb.flags.steps == 0) return;
    print_step_bytes(two);
    if (!two->t.no_values)
        book_result("test acc %.3f on 1 device and %.3f on 2", one->t.test_acc, two->t.test_acc);
}

static void train_on_one_and_on_two(void) {
    int batch_size = nb.flags.batch_size;
    float lr = nb.flags.lr;
    Run one = run_on(1, batch_size, lr);
    Run two = run_on(2, 2 * batch_size, 2 * lr);
    train(&one);
    train(&two);
    print_both(&one, &two);
}

// ## One change at a time
//
// The two runs ended with different accuracies. One pair of trainings cannot tell whether that
// means anything. If it does, which change matters? The second run has twice the batch size, twice
// the learning rate, and two devices. With `--bn rank0`, as in PyTorch, it would also evaluate with
// the statistics of one device only. d2l's second run even starts with *leftovers*: new weights,
// but the biases and all of batch norm as the first run left them.
//
// `--experiment` trains in seven ways, each from ten seeds. For each way, another one differs in a
// single setting. To fit a laptop, it uses a ResNet-18 with an eighth of the channels, images of
// half the size, and 5 epochs of 4,096 images. "d2l's first run" has 32 images in a minibatch and a
// learning rate of 0.1 here (16 and 0.025 in the run above, 256 and 0.1 in the book). The picture
// and the table were recorded once, with `--experiment --threads 1`, on two cores of an AMD EPYC.
//
// ![Each dot is one training, each diamond the mean of
// ten.](plots/05_resnet18_concise_factors.png "Seven rows of ten dots each over the test accuracy,
// with a line from the lowest to the highest dot and a diamond at the mean. All rows overlap. The
// means of the four ways with twice both are left of the first one.")
//
// Look at the widths first. Within a row, only the seed differs. d2l's first run can end with 0.675
// or with 0.779. The widest row goes from 0.552 to 0.757, and it uses one device. If you compare
// two single trainings, you can get almost any answer.
//
// So the table compares trainings from the same seeds and takes the mean of the ten differences.
// The first three rows compare with d2l's first run. "3 ways" is the mean of the last three rows of
// the picture, with twice both and no leftovers. The fourth row compares the last of them with the
// first. The fifth, which is not in the picture, evaluates "twice both on 2 devices" again, with
// averaged statistics. The +- is Student's t over the ten differences, widened for five rows
// (Bonferroni): in 95 of 100 such experiments, all five true effects are within it.
//
// behind/factors.c:show_recorded_experiment
//
// The fourth row is the control. Apart from rounding, two devices with `sync` compute what one
// device computes, so the true effect is nearly zero. Yet the +- is more than 0.05, because
// rounding is enough to send a training down another path. Twice the batch size or twice the
// learning rate alone cannot be told from noise either. Both together can. They cost about 0.04.
// The last row has the smallest +-, because it evaluates the same trainings twice. Averaged
// statistics instead of device 0's change the accuracy by less than 0.01. So we see no loss from
// the second device, but one from the larger minibatch and learning rate that came with it.
//
// We fell for the noise ourselves. In an earlier recording, with a version of the program that
// rounds differently, the first five seeds said that twice both costs 0.058 ± 0.019. The next five
// said 0.019 ± 0.061. And a small network, trained for a short time, cannot tell what these changes
// do in ten epochs on all images.
//
// ## On GPUs
//
// Again, times are modelled for a DGX with eight A100 (chapter 2). Each GPU gets 256 images per
// step, so the minibatch grows with the number of GPUs (*weak scaling*, chapter 4). On one GPU, an
// epoch of 235 steps takes 19.0 s, so a step takes about 81 ms. On two GPUs with the star, 44.7 MB
// of gradients go to GPU 0 and come back. NVLink carries 274 GB/s in each direction.
// <!-- figure: 19.0 = run-05: seconds[allreduce=star, devices=1] -->
//
// main.c:ask_about_two_gpus
//
// behind/modelled_steps.c:print_epochs_on_gpus
//
// The two copies take 0.33 ms together, which hardly shows beside 81 ms. Each further GPU gives the
// star's hub more to do, so on eight GPUs the ring is slightly faster. In the runs above, modelled
// times fell less, from 1.04 s to 0.545 s. With 16 images for each device, a step is short, and the
// exchange is a larger part of it.
//
// d2l reports 14.0 s per epoch on one GPU and 9.1 s on two. It does not name the GPUs, so we cannot
// say exactly why our model takes 19.0 s. Loading is not the reason, because only d2l's time
// includes it. But our GPU kernels write the windows of the images into a matrix and multiply that
// matrix in float32. PyTorch calls cuDNN, whose kernels do not need that matrix. For the last
// column, the model has the speed of a framework's kernels and launches. Then an A100 takes 12.8 s.
// <!-- figure: 12.8 = run-05: framework_seconds[allreduce=star, devices=1] -->

static Prediction ask_about_two_gpus(void) {
    return predict_first("ResNet-18 is trained on the modelled machine, with 256 images for each "
                         "GPU in a step and the star allreduce. How many times as fast as one GPU "
                         "are two?");
}

// ## On real GPUs
//
// In 2026, d2l's authors trained this network by DDP, in TF32, with images of 64 x 64 pixels, on
// four RTX 4090 that cannot access each other's memory [@d2lneu]. They measured weak scaling with
// 256 images for each GPU, and *strong scaling* with 512 images in all.
//
// | milliseconds per step     | 1 GPU |       2 GPUs |       4 GPUs |
// |---------------------------|------:|-------------:|-------------:|
// | weak scaling, published   | 121.5 | 137.9 (88 %) | 147.9 (82 %) |
// | modelled                  |       |        122.3 |        122.8 |
// | strong scaling, published | 244.7 | 137.7 (89 %) |  87.0 (70 %) |
// | modelled                  |       |        123.9 |         63.5 |
//
// The percentages compare the speed-up with the ideal one. The modelled rows begin with the
// published step of one GPU and add only what more GPUs change.
//
// The model expects almost perfect scaling, and it is wrong. NCCL took 30.5 ms to sum 64 MiB on two
// of these GPUs, where its formulas say 3.5 ms. Without access to each other's memory, its kernels
// copy everything through the memory of the host. Backward hides little of that. Without loading, a
// step took 132 ms with its exchange and 117 ms without. With the measured rate, and nothing
// hidden, the model is within 7 % of the published times on four GPUs ([How true is the
// clock?](../how_true.md)). Strong scaling loses more, because the exchange stays the same while
// each GPU has less to compute. Before you buy a second GPU, find out how fast the first one can
// reach it.

// ## Summary
//
// - Modules and a short wrapper are enough to train any network on k devices.
// - Batch norm is the exception. You have to decide whose statistics the network evaluates with.
//   Only with synchronized batch norm do k devices compute what one does.
// - Change one thing at a time, and train from many seeds. One run of each kind says very little.
// - The more a network computes for each parameter, the less the exchange matters. On fast links it
//   hardly shows. On slow ones, four GPUs lost almost a third of the ideal speed-up.
//
// ## Questions
//
// 1. How did the two devices get the parameters that they hold, and why are these equal?
// 2. A step of ResNet-18 moves many more bytes between two devices than a step of LeNet. Compare
//    the lines "Bytes" of chapters 4 and 5. Yet on the modelled machine the exchange takes a good
//    part of LeNet's time, and less than a hundredth of ResNet-18's. Why?
// 3. You double the minibatch once more. What happens to the bytes that move between two devices in
//    an epoch?
// 4. Train twice with `--devices 2`, once with `--bn local` and once with `--bn rank0`. The losses
//    are the same to the last digit. With `--bn sync` they are not. Why?
// 5. Someone trains once with `rank0` and once with `sync`, gets 0.70 and 0.74, and recommends
//    `sync`. What does the control in the experiment say about that?

// ## Exercises
//
// They are d2l's, `make exercise-05-1` to `make exercise-05-3`.

// ## The program

static void read_flags(int argc, char *argv[]) {
    static const Flag own_flags[] = {
        {"full", FLAG_ON, &nb.full, .help = "all images and epochs, on any machine"},
        {"bn", FLAG_CHOICE, &nb.bn, "M",
         .help = "batch norm's statistics: local, rank0, averaged or sync",
         .choices = "local|rank0|averaged|sync"},
        {"experiment", FLAG_ON, &nb.experiment,
         .help = "the chapter's experiment, instead of its training"},
        {0},
    };
    Flags defaults = default_flags;
    defaults.own = own_flags;
    defaults.next = "make exercise-05-1, or make run-06";
    defaults.batch_size = defaults.epochs = 0; // choose_size() sets them
    defaults.lr = -1;
    nb.flags =
        book_begin(argc, argv,
                   "Trains d2l's ResNet-18 on k devices: first on 1, then on 2 with twice the "
                   "batch size and learning rate.",
                   "devices quick batch-size lr epochs seed train-size test-size steps "
                   "no-shuffle allreduce data load save checkpoint resume log-loss csv live",
                   defaults);
    choose_size(&nb);
    choose_allreduce(nb.flags.allreduce);
    book_needs_devices(nb.flags.devices ? nb.flags.devices : 2);
}

static void open_notebook(const char *csv, const char *png) {
    const Flags *flags = &nb.flags;
    nb.train_data = fashion_mnist_open(flags->data, true, flags->train_size);
    nb.test_data = fashion_mnist_open(flags->data, false, flags->test_size);
    nb.animator = animator_new(csv, png, flags->live);
    nb.net = resnet18(FASHION_MNIST_CLASSES, 1);
    initialize(nb.net, flags->seed);
    nb.runs = (Runs){.flags = flags,
                     .num_runs = flags->devices ? 1 : 2,
                     .net = nb.net,
                     .train_data = nb.train_data,
                     .test_data = nb.test_data,
                     .animator = nb.animator,
                     .log = &nb.loss_log};
    open_runs(&nb.runs);
}

static void close_notebook(void) {
    animator_close(nb.animator);
    loss_log_write(&nb.loss_log, nb.flags.log_loss);
    close_runs(&nb.runs);
    module_free(nb.net);
    dataset_free(nb.train_data);
    dataset_free(nb.test_data);
    loss_log_free(&nb.loss_log);
}

static void tell_the_story(const char *factors, const char *modelled) {
    train_on_one_and_on_two();
    if (factors && !interrupted()) show_recorded_experiment(factors, !nb.flags.quick);
    if (!modelled || interrupted()) return;
    Prediction two = ask_about_two_gpus();
    predict_compare(two, print_epochs_on_gpus(&nb, modelled), "times as fast");
}

int main(int argc, char *argv[]) {
    read_flags(argc, argv);
    if (nb.experiment) {
        run_experiment(&nb.flags);
        return book_end();
    }
    int k = nb.flags.devices; // 0: the story
    bool values = nb.flags.backend != BACKEND_MODEL, times = !nb.flags.quick && modelled_machine();
    const char *csv = book_csv(".csv"), *png = book_output(".png");
    const char *factors = k == 0 && values ? book_output("_factors.png") : NULL;
    const char *modelled = k == 0 && times ? book_output("_modelled.csv") : NULL;
    book_check_outputs();
    open_notebook(csv, png);
    if (num_gpus() == 0 && values) warn_if_cpu_is_slow();
    print_size(&nb);
    if (book_can_use_devices(2)) show_where_parameters_are(nb.net);
    if (k == 0) {
        tell_the_story(factors, modelled);
    } else {
        Run run = run_on(k, nb.flags.batch_size, nb.flags.lr);
        train_anew(&run);
    }
    close_notebook();
    return book_end();
}
