// main.c: the story of chapter 5. README.md says how to run it and what to read.
#include "common/book.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "behind/behind.h"
#include "resnet18.h"

static Notebook nb;

// ## A network from modules
//
// In chapter 4 we wrote out each parameter of LeNet and its exchange. Here the network consists of
// *modules*, as in `torch.nn`. A module owns its parameters and knows how to compute its output.
//
// resnet18.c:resnet18
//
// ResNet-18 [@he2016] consists mostly of *residual blocks*, which add their input to their output.
// This makes it possible to train networks with many layers. The book (d2l for short) changes the
// first layer and leaves out the pooling after it, because its images are small. The network has
// 11.2 million parameters, 87 times LeNet's number, and computes much more with each of them. So
// exchanging the gradients should matter less.
//
// `initialize()` draws the initial values from a seed and keeps them on the host. A device gets its
// copy when it first receives data. There, all parameters are one long vector, and so are all
// gradients. So the 76 gradients can be exchanged at once.
//
// ## One wrapper
//
// A `DataParallel` combines a network, its k devices, and their replicas of the parameters. A
// training step has the same parts as in chapter 4 but works with any network. Here `shards[i]`
// says which rows of the minibatch device i gets. (`train_step()` passes equal shards.)
//
// data_parallel.c:train_step_as
//
// The last call corresponds to `Trainer.step()` in MXNet. It exchanges all gradients and then
// updates each replica.
//
// data_parallel.c:trainer_step
//
// The vector of gradients is sent in *buckets* of 25 MiB, as in PyTorch's `DistributedDataParallel`
// (DDP). One exchange per parameter would mean 76 exchanges, most of them tiny. A single exchange
// could not begin until the last gradient was computed. A bucket can be sent while the next one's
// gradients are still being computed, as in chapter 6. Here we wait, to keep the step simple.
//
// data_parallel.c:allreduce_in_buckets
//
// Training on k devices needs nothing else, with one exception.
//
// (PyTorch's DDP does this work with a process per GPU. `chapters/08_many_machines/in_pytorch.py`
// is a complete program for it. Start it with `torchrun --nproc-per-node 2 in_pytorch.py`.)
//
// ## Batch norm
//
// *Batch normalization* follows each 3 x 3 convolution. In training, it subtracts each channel's
// mean over the minibatch and divides by the standard deviation. It is the only layer whose output
// for one image depends on the other images. For evaluation, batch norm keeps *running statistics*:
// moving averages of the means and variances. In each training step, the new value gets weight 0.1
// and the old average weight 0.9.
//
// With k devices, there are two questions. Is the mean taken over each device's shard or over all
// shards? And which running statistics are used for evaluation, if each device has seen different
// images? `--bn` chooses one of four answers:
//
// | `--bn`     | training: mean over | evaluation: statistics of | found in                       |
// |------------|---------------------|---------------------------|--------------------------------|
// | `local`    | the device's shard  | each device itself        | d2l with MXNet                 |
// | `rank0`    | the device's shard  | device 0                  | PyTorch's DataParallel and DDP |
// | `averaged` | the device's shard  | the mean over all devices | this program, by default       |
// | `sync`     | all shards          | any device; all are equal | PyTorch's SyncBatchNorm        |
//
// The first three train identically and differ only in what happens before evaluation. `average()`
// is an allreduce followed by a division by k:
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
// Suppose that in one channel, one shard has the values 1 and 3, and another has 5 and 7. Their
// means are 2 and 6, and both variances are 1. The merged mean is 4, and the merged variance is 1 +
// 4 = 5, because each mean is 2 away from 4. With `averaged`, the variance would be only 1, the
// mean of the two variances. That is the default here nevertheless, because each shard was trained
// with its own variance, and evaluation should use what training used.
//
// In PyTorch, `net = nn.SyncBatchNorm.convert_sync_batchnorm(net)` does this. In C, it is
// `sync_batch_norm()`. Sending the counts, means and variances is one small exchange per batch
// norm, and the backward pass needs another. ResNet-18 has 17 batch norms, so a step has 34 more
// exchanges, and all devices wait in each. The other three answers need no exchange in training.
// But the network then trains as if the minibatch were as small as a shard, which matters if a
// shard has only a few images. (DDP sends device 0's statistics in each step. Training does not
// read them, so sending them once before evaluation has the same effect.)
//
// ## One device, then two
//
// d2l trains on one GPU with 256 images in a minibatch and a learning rate of 0.1, then on two GPUs
// with 512 images and 0.2. So each GPU still gets 256 images per step, and an epoch has half the
// steps. Without a GPU, our program uses 16 and 32 images, rates of 0.025 and 0.05, and 2,048 of
// the 60,000 images. After each step, the program compares the bytes sent between the devices with
// chapter 2's formulas.
//
// main.c:train_on_one_and_on_two
//
// (Without GPUs, both devices share the computer's cores, so these seconds do not show what a
// second GPU would save. "On GPUs" below does.)
//
// ![Both runs, epoch by epoch.](plots/05_resnet18_concise.png "Two panels over the epochs: training
// loss on the left, test accuracy on the right, with a thick line for one device and a thin one for
// two. The losses fall, and the two runs differ from each other.")
//
// You can stop a run and resume it later ([Running it](../running_it.md)).

static void checked_step(Run *run, const Tensor *X, const Tensor *y, Tensor *losses[]) {
    ledger_reset();
    train_step(&run->dp, X, y, run->lr, losses);
    CHECK(ledger_bytes_between_devices() == run->bytes_per_step, "bytes are as the formulas say");
}

static void training_loop(Run *run, int first_epoch) {
    Tensor *X, *y, *losses[MAX_DEVICES];
    Timer timer = {0};
    for (int epoch = first_epoch; epoch < nb.flags.epochs && curves_more(nb.curves); epoch++) {
        double loss = 0;
        int images = 0;
        timer_start(&timer);
        data_iter_start(run->train_iter, epoch);
        while (curves_next(nb.curves, run->train_iter, &X, &y)) {
            checked_step(run, X, y, losses);
            loss += curves_loss(nb.curves, losses, X->shape[0]);
            images += X->shape[0];
        }
        timer_stop(&timer);
        run->acc = evaluate_accuracy_gpus(&run->dp, run->test_iter);
        if (interrupted()) break;
        bool whole = curves_epoch(nb.curves, loss / images, run->acc, &timer);
        if (whole) keep_epoch(&nb, run, epoch + 1);
    }
}

static void train_on(Run *run, Device *const devices[], int k) {
    restart(nb.net); // back to the initial values
    run->dp = data_parallel(nb.net, devices, k, batch_norm_mode(nb.bn));
    run->bytes_per_step = step_bytes(&run->dp);
    run->train_iter =
        data_iter_new(nb.train_data, run->batch_size, nb.flags.shuffle, nb.flags.seed);
    run->test_iter = data_iter_new(nb.test_data, run->batch_size, false, 0);
    print_training(run, nb.bn);
    long steps = curves_begin(nb.curves, run->train_iter, devices, k, run->lr);
    int first_epoch = resume_run(&nb, run, steps);
    if (curves_more(nb.curves))
        training_loop(run, first_epoch);
    else if (!interrupted()) // there is nothing left to train
        run->acc = evaluate_accuracy_gpus(&run->dp, run->test_iter);
    curves_end(nb.curves, run->acc);
    print_stopped(&nb, run);
    share_statistics(&run->dp); // Ctrl-C may have stopped training before evaluation.
    if (nb.flags.save) save_parameters(nb.net, devices[0], nb.flags.save);
    data_iter_free(run->train_iter);
    data_iter_free(run->test_iter);
}

static Run train(int k, int batch_size, float lr) {
    Run run = {.batch_size = batch_size, .lr = lr, .acc = NAN};
    Device *devices[MAX_DEVICES] = {NULL};
    if (interrupted()) return run;
    open_devices(devices, k);
    train_on(&run, devices, k);
    return run;
}

static void print_both(const Run *one, const Run *two) {
    if (interrupted() || nb.flags.steps == 0) return;
    print_step_bytes(two);
    if (nb.flags.backend != BACKEND_MODEL)
        book_result("test acc %.3f on 1 device and %.3f on 2", one->acc, two->acc);
}

static void train_on_one_and_on_two(void) {
    int batch_size = nb.flags.batch_size;
    float lr = nb.flags.lr;
    Run one = train(1, batch_size, lr);
    Run two = train(2, 2 * batch_size, 2 * lr);
    print_both(&one, &two);
}

// ## One change at a time
//
// One of the two runs ended with a higher accuracy. A single pair of runs cannot show whether that
// means anything. And if it does, which change caused the difference? The second run has twice the
// batch size, twice the learning rate, and two devices. With `--bn rank0`, as in PyTorch, it would
// also evaluate with only device 0's statistics.
//
// `--experiment` changes one setting at a time and trains with ten seeds for each. To keep this
// feasible on a laptop, it uses a ResNet-18 with an eighth of the channels, half the image
// resolution, and 5 epochs of 4,096 images. It starts from one device, 32 images in a minibatch and
// a learning rate of 0.1. The results were recorded once, with `--experiment --threads 1`, on two
// cores of an AMD EPYC.
//
// First, look at the noise. Ten trainings with these settings, which differ only in the seed, ended
// anywhere from 0.675 to 0.778. If you compare two single runs, you can get almost any answer. So
// we compare runs from the same seeds. The next figure shows the mean of the ten differences.
//
// ![What each change does to the test accuracy. "Twice both" is the mean of three kinds of run: on
// one device, on two, and on two with `sync`. The bars are computed from ten differences with
// Student's t and widened for six rows (Bonferroni). In 95 of 100 such experiments, all six true
// effects lie within them.](plots/05_resnet18_concise_effects.png "Six rows, each with a point and
// a horizontal bar, and a vertical line at zero. Five bars cross the line. Only the bar of twice
// both is to the left of it. The bar of the averaged statistics is by far the shortest.")
//
// *Control.* Apart from rounding, two devices with `sync` compute what one device computes. So the
// true effect of the fifth row is nearly zero. Yet its bar extends by more than 0.05 to each side,
// because rounding alone can send training down a different path.
//
// *Larger minibatch and rate.* The effects of doubling only one of the two cannot be told from
// noise. Doubling both seems to cost accuracy (0.041 ± 0.031). An epoch then has only half the
// updates. But be careful. In an earlier recording, with a version of the program that rounded
// differently, it cost 0.058 with the first five seeds and 0.019 with the next five.
//
// *Second device.* With each device's own statistics (`rank0`), we see no effect, but the bar could
// hide one of 0.06.
//
// *Statistics.* The last bar is short because both accuracies come from the same training.
// Averaging the statistics instead of using device 0's changes the accuracy by less than 0.01.
//
// ## On GPUs
//
// In 2026, d2l's authors trained this network with DDP, in TF32, on images of 64 x 64 pixels. They
// used four RTX 4090 GPUs that cannot access each other's memory [@d2lneu]. They measured weak
// scaling with 256 images per GPU and *strong scaling* with 512 images in total (chapter 4).
//
// | milliseconds per step     | 1 GPU |       2 GPUs |       4 GPUs |
// |---------------------------|------:|-------------:|-------------:|
// | weak scaling, published   | 121.5 | 137.9 (88 %) | 147.9 (82 %) |
// | modelled                  |       |        122.3 |        122.8 |
// | strong scaling, published | 244.7 | 137.7 (89 %) |  87.0 (70 %) |
// | modelled                  |       |        123.9 |         63.5 |
//
// The percentages compare the speedup with the ideal one. Each modelled row starts from the
// published time on one GPU in the row above it. The model computes only what changes with more
// GPUs.
//
// The model wrongly predicts almost perfect scaling. NCCL took 30.5 ms to sum 64 MiB on two of
// these GPUs, whereas the model's formulas give 3.5 ms. Because the GPUs cannot access each other's
// memory, NCCL's kernels copy everything through host memory. At this rate, 44.7 MB of gradients
// take 20 ms. Without data loading, forward and backward took 132 ms with the exchange and 117 ms
// without it. By this estimate, the backward pass hides only a quarter of it. ([Ten
// lines](../questions.md#why-is-ddp-sometimes-slower-than-no-ddp-at-all) measure this on your
// GPUs.) If the model uses the measured rate and hides nothing, it is within 7 % of the published
// times on four GPUs ([How true is the clock?](../how_true.md)). Strong scaling loses more, because
// the exchange stays the same while each GPU has less to compute.
//
// NCCL can also use the GPUs' copy engines for this (`NCCL_SHM_USE_CUDA_MEMCPY=1`). With that, the
// same sum was five times as fast. But DDP then hung, so they had to do without it. Before you buy
// a second GPU, find out how fast its link to the first would be.
//
// On fast links, the model predicts this for a DGX with eight A100 GPUs, each with 256 images per
// step. On one GPU, an epoch of 235 steps takes 19.0 s, so a step takes about 81 ms. On two GPUs
// with the star, 44.7 MB of gradients are sent to GPU 0 and back. NVLink carries 274 GB/s in each
// direction.
// <!-- figure: 19.0 = run-05: seconds[allreduce=star, devices=1] -->
//
// main.c:ask_about_two_gpus
//
// behind/modelled_steps.c:print_epochs_on_gpus
//
// Together, the two copies take 0.33 ms, which is little compared with 81 ms. Each additional GPU
// gives the star's hub more to do, so on eight GPUs the ring is slightly faster.
//
// d2l's book reports 14.0 s per epoch on one GPU and 9.1 s on two, without naming the GPUs. Our own
// kernels would need the modelled 19.0 s on an A100, because they copy the windows of the images
// into a matrix and multiply it in float32. The last column assumes kernels and launches as fast as
// a framework's. Then it is 12.8 s.
// <!-- figure: 12.8 = run-05: framework_seconds[allreduce=star, devices=1] -->

static Prediction ask_about_two_gpus(void) {
    return predict_first("ResNet-18 is trained on the modelled machine, with 256 images for each "
                         "GPU in a step and the star allreduce. How many times as fast are two "
                         "GPUs as one?");
}

// ## Summary
//
// - Modules and a short wrapper are enough to train any network on k devices.
// - Batch norm is the exception. You have to decide which statistics the network uses for
//   evaluation. Only with synchronized batch norm do k devices compute what one does.
// - Change one thing at a time, and train with many seeds. A single run of each kind tells you very
//   little.
// - The more a network computes for each parameter, the less the exchange matters. On fast links it
//   is hardly noticeable. On slow ones, four GPUs lost almost a third of the ideal speedup.
//
// ## Questions
//
// 1. How did each of the two devices get its parameters, and why are they the same on both?
// 2. A step of ResNet-18 moves many more bytes between two devices than a step of LeNet. (Compare
//    the "Bytes" lines in chapters 4 and 5.) Yet on the modelled machine, the exchange takes less
//    than a hundredth of ResNet-18's time and a large part of LeNet's. Why?
// 3. If you double the minibatch again, what happens to the number of bytes sent between two
//    devices in an epoch?
// 4. Train twice with `--devices 2`, once with `--bn local` and once with `--bn rank0`. The losses
//    are the same to the last digit. Why does `--bn sync` give different ones?
// 5. Someone trains once with `rank0` and once with `sync`, gets 0.70 and 0.74, and recommends
//    `sync`. What does the experiment's control say about this advice?

// ## Exercises
//
// These are d2l's exercises. `make exercise-05-1` and `make exercise-05-2` ask a question and run
// an experiment. `make exercise-05-3` checks the code that you write.

// ## The program

static void read_flags(int argc, char *argv[]) {
    static const Flag own_flags[] = {
        {"full", FLAG_ON, &nb.full, .help = "all images and epochs, on any machine"},
        {"bn", FLAG_CHOICE, &nb.bn, "M",
         .help = "batch norm's statistics: local, rank0, averaged or sync",
         .choices = "local|rank0|averaged|sync", .standard = "averaged"},
        {"experiment", FLAG_ON, &nb.experiment,
         .help = "the chapter's experiment, instead of its training"},
        {0},
    };
    nb.flags =
        book_begin(argc, argv,
                   "Trains d2l's ResNet-18 on k devices: first on 1, then on 2 with twice the "
                   "batch size and learning rate.",
                   "devices quick batch-size= lr= epochs= seed train-size test-size steps "
                   "no-shuffle allreduce data load save checkpoint resume csv live",
                   (Program){.own = own_flags, .next = "make exercise-05-1, or make run-06"});
    if (nb.flags.checkpoint && nb.flags.devices == 0) // (book_begin() sets it for --resume, too.)
        die_usage("add --devices K", "--checkpoint and --resume are for one training run");
    if (nb.flags.resume && nb.flags.load)
        die_usage("leave --load out", "--resume and --load: each gives the parameters");
    choose_size(&nb); // It also sets --batch-size, --lr and --epochs, if they were not given.
    choose_allreduce(nb.flags.allreduce);
    book_needs_devices(nb.flags.devices ? nb.flags.devices : 2);
}

static void open_notebook(const char *csv, const char *png) {
    const Flags *flags = &nb.flags;
    nb.train_data = fashion_mnist_open(flags->data, true, flags->train_size);
    nb.test_data = fashion_mnist_open(flags->data, false, flags->test_size);
    nb.curves = curves_new(flags, csv, png);
    nb.net = resnet18(FASHION_MNIST_CLASSES, 1);
    initialize(nb.net, flags->seed);
    if (flags->load) load_parameters(nb.net, flags->load);
}

static void close_notebook(void) {
    curves_free(nb.curves);
    module_free(nb.net);
    dataset_free(nb.train_data);
    dataset_free(nb.test_data);
}

static void tell_the_story(const char *effects[2], const char *modelled) {
    train_on_one_and_on_two();
    if (effects[0] && !interrupted()) show_recorded_experiment(effects[0], effects[1]);
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
    book_outputs(".csv .png%s%s", k == 0 && values ? " _effects.csv _effects.png" : "",
                 k == 0 && times ? " _modelled.csv" : "");
    const char *csv = book_output(".csv"), *png = book_output(".png");
    const char *effects[2] = {NULL};
    if (k == 0 && values) effects[0] = book_output("_effects.csv");
    if (k == 0 && values) effects[1] = book_output("_effects.png");
    const char *modelled = k == 0 && times ? book_output("_modelled.csv") : NULL;
    open_notebook(csv, png);
    if (num_gpus() == 0 && values) warn_if_cpu_is_slow();
    print_size(&nb);
    if (book_can_use_devices(2)) show_where_parameters_are(nb.net);
    if (k == 0)
        tell_the_story(effects, modelled);
    else
        train(k, nb.flags.batch_size, nb.flags.lr);
    close_notebook();
    return book_end();
}
