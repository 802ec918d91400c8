// main.c: the story of chapter 5. README.md says how to run it and what to read.
#include "common/book.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "behind/behind.h"
#include "resnet18.h"

static Notebook nb = {.bn = "averaged"};

// ## A network from modules
//
// In chapter 4 we wrote out each parameter of LeNet, and its exchange. Here the network consists of
// *modules*, as with `torch.nn`. A module owns its parameters and knows how to compute.
//
// resnet18.c:resnet18
//
// Most of ResNet-18 [@he2016] is *residual blocks*, which add their input to their output, so that
// many layers can be trained. If a block changes the shape, a convolution with a 1 x 1 window
// adapts the input.
//
// resnet18.c:resnet_block
//
// d2l changed the first layer and left out the pooling after it, because our images are small. The
// network has 11.2 million parameters, 87 times as many as LeNet, and it computes much more for
// each of them. So the exchange of gradients should matter less.
//
// ## Where the parameters are
//
// `initialize()` draws the initial values from a seed and keeps them on the host. A device gets a
// copy of all parameters when the first data arrives there:
//
// common/tensor/nn.c:place_on
//
// `flat->grad` is one long vector with the gradients of all 62 parameters, and each parameter's
// gradient is a slice of it. This will make the exchange simple. As in the book (*Dive into Deep
// Learning*, or d2l, "Concise Implementation for Multiple GPUs"), we send a few images through the
// network on two devices, and then ask for the first filter:
//
// main.c:show_where_parameters_are
//
// Both devices made the same copy from the same initial values. The host has only the initial
// values, so asking it for the parameter is an error. The program asks in a child process, a copy
// of itself, and prints the error and its hint.

static void ask_the_host(void *weight) { parameter_data(weight, host()); }

static void show_where_parameters_are(Module *net) {
    Device *devices[2];
    Tensor *X[2], *y_hat[2];
    open_devices(devices, 2);
    for (int i = 0; i < 2; i++) {
        begin_step(devices[i]);
        X[i] = tensor_new(devices[i], 2, 1, 28, 28); // two images
        tensor_fill(X[i], 1);
    }
    forward_all(net, X, 2, y_hat);

    Parameter *weight = find_parameter(net, "0.weight");
    for (int i = 0; i < 2; i++) print_filter(weight, devices[i]);
    CHECK(equal_on_both(weight, devices), "all devices begin with the same parameters");
    int status = try_in_child(ask_the_host, weight);
    CHECK(status == EXIT_FAILURE, "parameters exist only on devices that data went through");
    for (int i = 0; i < 2; i++) tensor_free(X[i]);
}

// ## One wrapper
//
// A `DataParallel` is a network, its k devices, and a replica of the parameters on each device. One
// training step is chapter 4's, for any network. `shards[i]` says which rows of the minibatch
// device i gets.
//
// data_parallel.c:train_step_as
//
// PyTorch's and Gluon's users know the last line as the trainer's `step()`. It exchanges all
// gradients as one vector, then updates each replica.
//
// data_parallel.c:trainer_step
//
// The exchange uses *buckets* of 25 MiB, as PyTorch's `DistributedDataParallel` (DDP) does. One
// exchange per parameter would mean 62 exchanges, most of them tiny. One exchange for all would
// have to wait until the last gradient is computed, whereas a bucket can be sent while the
// gradients of the next one are still being computed. Chapter 6 does that. Here we wait, to keep
// the step simple.
//
// data_parallel.c:allreduce_in_buckets
//
// This is all that k devices need, for any network made of modules. With one exception.
//
// ## Batch norm
//
// After each convolution there is *batch normalization*. In training it subtracts each channel's
// *mean* over the minibatch and divides by the standard deviation. It is the only layer in which
// the images of a minibatch depend on each other. For evaluation it keeps *running statistics*,
// moving averages of the means and variances, and each training step moves them by a tenth of the
// difference.
//
// With k devices there are two questions. Over which images is the mean taken, the device's shard
// or all shards? And which running statistics does the network have, if each device has seen other
// images? Four answers are in use, and `--bn` chooses one:
//
// | `--bn`     | training: mean over | evaluation: statistics of   | found in                       |
// |------------|---------------------|-----------------------------|--------------------------------|
// | `local`    | the device's shard  | each device, its own        | d2l with MXNet                 |
// | `rank0`    | the device's shard  | device 0                    | PyTorch's DataParallel and DDP |
// | `averaged` | the device's shard  | the mean over all devices   | this program, by default       |
// | `sync`     | all shards          | any device, as all are equal| PyTorch's SyncBatchNorm        |
//
// The first three train in the same way. They differ only in what happens before evaluation:
//
// running_statistics.c:share_statistics
//
// Only with `sync` do k devices compute what one device computes. Device i sends each channel's
// count $n_i$, mean $m_i$ and variance $v_i$ to all others, and each device merges them, with $n =
// \sum n_i$:
//
// $$m = \frac{1}{n} \sum_i n_i m_i \qquad v = \frac{1}{n} \sum_i n_i \left(v_i + (m_i -
// m)^2\right)$$
//
// common/tensor/batch_norm.c:sync_batch_norm
//
// That is one small exchange in each batch norm, and another one in backward, for the sums in its
// gradient. ResNet-18 has 20 batch norms, so a step has 40 more exchanges, each of which makes all
// devices wait. The other answers cost nothing in training. They train as if the minibatch were as
// small as a shard, which matters if a shard has only a few images.
//
// ## One device, then two
//
// d2l trains on one GPU with 256 images in a minibatch and a learning rate of 0.1, then on two GPUs
// with 512 images and 0.2. So each GPU has the same number of images in a step as before, and an
// epoch has half as many steps. Without a GPU our program takes 16 and 32 images, and only some of
// the data set. The loop over epochs is chapter 4's. Each step counts the bytes that cross between
// the devices and compares them with the formulas of chapter 2:
//
// main.c:step
//
// main.c:train
//
// main.c:train_on_one_and_on_two
//
// ![Both runs above, epoch by epoch.](plots/05_resnet18_concise.png "Two panels over the epochs:
// training loss on the left, test accuracy on the right, with a thick line for one device and a
// thin one for two. The losses fall, and the two runs differ from each other.")
//
// You can stop either run and resume it later, to the same bits ([Running it](../running_it.md)).

static void step(Training *t, const Tensor *X, const Tensor *y, Tensor *losses[]) {
    Run *run = t->context;
    ledger_reset();
    train_step(&run->dp, X, y, t->lr, losses);
    check_step_bytes(run);
}

static double accuracy(Training *t) {
    Run *run = t->context;
    return evaluate_accuracy_gpus(&run->dp, run->test_iter);
}

// Calls resume_run() or save_run().
static void with_checkpoint(Run *run, void (*what)(Runs *runs, const ResumableRun *run)) {
    char *settings = settings_of(&nb, run);
    what(&nb.runs, &(ResumableRun){.number = run->number,
                                   .t = &run->t,
                                   .replicas = run->dp.bn == BN_LOCAL ? run->dp.k : 1,
                                   .settings = settings,
                                   .images = nb.train_data->count,
                                   .batch_size = run->batch_size});
    free(settings);
}

static void save(Training *t) {
    if (nb.flags.checkpoint) with_checkpoint(t->context, save_run);
}

static void end_of(Run *run) {
    print_stopped(&nb.runs);
    share_statistics(&run->dp); // Ctrl-C may have come before evaluation did.
    if (nb.flags.save) save_parameters(nb.net, run->dp.devices[0], nb.flags.save);
    data_iter_free(run->t.iter);
    data_iter_free(run->test_iter);
}

static void train(Run *run) {
    Training *t = &run->t;
    Device *devices[MAX_DEVICES] = {NULL};
    open_devices(devices, t->k);
    restart(nb.net); // back to the initial values
    run->dp = data_parallel(nb.net, devices, t->k, batch_norm_mode(nb.bn));
    run->bytes_per_step = step_bytes(&run->dp);
    run->test_iter = data_iter_new(nb.test_data, run->batch_size, false, 0);
    t->iter = data_iter_new(nb.train_data, run->batch_size, nb.flags.shuffle, nb.flags.seed);
    t->devices = devices;
    t->context = run;
    print_training(&nb, run);
    with_checkpoint(run, resume_run);
    train_epochs(t);
    end_of(run);
}

static Run new_run(int number, int k, int times) {
    return (Run){.number = number,
                 .batch_size = times * nb.flags.batch_size,
                 .t = {.flags = &nb.flags,
                       .animator = nb.animator,
                       .log = &nb.loss_log,
                       .k = k,
                       .lr = (float)times * nb.flags.lr,
                       .step = step,
                       .accuracy = accuracy,
                       .whole_epoch = save}};
}

static void train_or_recall(Run *run) {
    if (interrupted()) return;
    if (was_over(&nb.runs, run->number))
        recall_run(&nb.runs, &run->t);
    else
        train(run);
}

static void train_on_one_and_on_two(void) {
    Run one = new_run(0, 1, 1);
    Run two = new_run(1, 2, 2); // twice the batch size and learning rate
    train_or_recall(&one);
    train_or_recall(&two);
    if (interrupted() || nb.flags.steps == 0) return;
    print_step_bytes(&two);
    if (!two.t.no_values)
        book_result("test acc %.3f on 1 device and %.3f on 2", one.t.test_acc, two.t.test_acc);
}

// ## One change at a time
//
// Our second run ended with a lower accuracy than our first. What costs the accuracy? The second
// run has twice the batch size, twice the learning rate, and two devices. With `--bn rank0`, as in
// PyTorch, it also evaluates with the statistics of one device only. And d2l's second run does not
// begin as its first one did. d2l gives the same network to `train()` again, which draws new
// weights, but leaves the biases and all of batch norm as the first run left them.
//
// `--experiment` changes one thing at a time, in seven ways to train, each from ten seeds. To make
// that possible on a laptop, the ResNet-18 has an eighth of the channels, the images have half the
// size, and there are 5 epochs of 4,096 images. The figures were recorded with
// `build/05_resnet18_concise --experiment --threads 1` on two cores of an AMD EPYC, before this page
// was made.
//
// ![Each dot is one training, each diamond the mean of ten. All seven ways overlap. (Minibatches of
// 32 and 64 images; the first way has a learning rate of
// 0.1.)](plots/05_resnet18_concise_factors.png "Seven rows of ten dots each over the test accuracy,
// with a line from the lowest to the highest dot and a diamond at the mean. The rows overlap almost
// completely.")
//
// Look at the widths first. Nothing but the seed differs between the dots of a row. d2l's first run
// ends anywhere between 0.667 and 0.800. The widest row, from 0.545 to 0.748, is on one device.
//
// The table compares means of trainings from the same seeds. The last column makes an interval: in
// 95 of 100 such tables, every true effect lies within its +-.
//
// behind/factors.c:show_recorded_experiment
//
// The fourth row is a control. Apart from rounding, two devices with `sync` compute what one
// computes, so the true effect is nearly zero. Yet the means of ten trainings differ by almost
// 0.05. Rounding is enough to send a training another way. No effect in the first three rows is
// larger than its interval, so ten seeds cannot tell us what costs the accuracy, or whether
// anything does. The last row is much more precise, because it evaluates the same ten trainings
// twice. It clears `rank0`, which was a suspect: whose running statistics we take changes almost
// nothing here.
//
// We fell for the noise ourselves. The first five seeds alone "showed" that twice both, in the mean
// of the four ways that do it, loses 0.058 ± 0.019. With the next five it was 0.019 ± 0.061. So the
// one explanation that we could see is the spread of single runs, and it needs no second GPU. But
// this is a small network and a short training. It shows what such changes can do, and not what
// happened in a run with all of the data.
//
// ## On GPUs
//
// How much faster is it on more GPUs? We do not have several, so the times are modelled, for a DGX
// with eight A100 (chapter 2). Each GPU gets 256 images per step. This is *weak scaling*: the
// minibatch grows with the number of GPUs (chapter 4). On one GPU an epoch of 235 steps takes 19.0
// s, so a step takes about 81 ms. On two GPUs with the star, 44.7 MB of gradients go to GPU 0, and
// 44.7 MB go back. NVLink carries 274 GB/s in each direction.
// <!-- figure: 19.0 = run-05: seconds[allreduce=star, devices=1] -->
//
// main.c:ask_about_two_gpus
//
// behind/modelled.c:print_epochs_on_gpus
//
// The two copies take 0.33 ms in total, which hardly shows beside 81 ms. The star's hub has more to
// do with each GPU, so on eight GPUs the ring is faster, by 2 %.
//
// d2l reports 14.0 s per epoch on one GPU, which it does not name, and 9.1 s on two. Why do we take
// 19.0? Not because of loading: d2l's time includes it and ours does not. It is the convolutions.
// Our GPU kernels copy the windows of each image into a matrix and multiply that matrix in float32.
// PyTorch calls cuDNN, whose kernels do not write out the windows. The table's last column gives
// the model the speed of a framework's kernels and changes nothing else, and one A100 then takes
// 12.8 s.
// <!-- figure: 12.8 = run-05: framework_seconds[allreduce=star, devices=1] -->
//
// And on real GPUs? In 2026, d2l's authors trained this network with images of 64 x 64 pixels by
// DDP, in TF32, on four RTX 4090 that cannot reach each other's memory [@d2lneu]. They did both:
// 256 images for each GPU (weak scaling), and 512 images in all (*strong scaling*).
//
// | milliseconds per step     | 1 GPU |       2 GPUs |       4 GPUs |
// |---------------------------|------:|-------------:|-------------:|
// | weak scaling, published   | 121.5 | 137.9 (88 %) | 147.9 (82 %) |
// | modelled                  |       |        122.3 |        122.8 |
// | strong scaling, published | 244.7 | 137.7 (89 %) |  87.0 (70 %) |
// | modelled                  |       |        123.9 |         63.5 |
//
// (In parentheses: the speed-up, as a part of the ideal one. The modelled rows take the published
// step on one GPU, and add only what more GPUs change.)
//
// The model expects almost perfect scaling, and it is wrong. For 64 MiB on two of these GPUs, NCCL
// took 30.5 ms, where its formulas say 3.5 ms. The GPUs cannot reach each other's memory, so NCCL's
// kernels copy everything through the memory of the host. Backward hides little of that: in a test
// without loading, a step took 132 ms with its exchange and 117 ms without. If we give the model
// NCCL's measured rate and hide nothing, it is within 7 % of the published times on four GPUs ([How
// true is the clock?](../how_true.md)). Strong scaling loses more, because the exchange stays the
// same while each GPU's computation shrinks. So before you buy the second GPU, ask how fast the
// first one can reach it.

static Prediction ask_about_two_gpus(void) {
    return predict_first("ResNet-18 is trained on the modelled machine, with 256 images for each "
                         "GPU in a step and the star allreduce. How many times as fast as one GPU "
                         "are two?");
}

// ## Summary
//
// - Modules and a short wrapper are enough to train any network on k devices: split, forward,
//   backward, allreduce, update. A device needs its own copy of the parameters, and gets it when
//   data arrives.
// - Batch norm is the exception. Someone has to decide whose statistics the network is evaluated
//   with. Only with synchronized batch norm do k devices compute what one does.
// - Change one thing at a time, and from many seeds. One run of each kind says very little.
// - The more a network computes for each parameter, the less the exchange matters. On fast links it
//   hardly shows, and on slow ones it can cost a third of the speed-up.
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
    if (nb.flags.load && nb.flags.resume)
        die_usage("leave --load out: the checkpoint holds all that is needed",
                  "--load and --resume");
}

static void open_notebook(void) {
    const Flags *flags = &nb.flags;
    nb.train_data = fashion_mnist_open(flags->data, true, flags->train_size);
    nb.test_data = fashion_mnist_open(flags->data, false, flags->test_size);
    nb.animator = animator_new(book_csv(".csv"), book_output(".png"), flags->live);
    nb.net = resnet18(FASHION_MNIST_CLASSES, 1);
    initialize(nb.net, flags->seed);
    nb.runs = (Runs){.flags = flags,
                     .num_runs = flags->devices ? 1 : 2,
                     .net = nb.net,
                     .animator = nb.animator,
                     .log = &nb.loss_log};
    open_runs(&nb.runs);
}

static void close_notebook(void) {
    close_runs(&nb.runs);
    module_free(nb.net);
    dataset_free(nb.train_data);
    dataset_free(nb.test_data);
    loss_log_free(&nb.loss_log);
}

int main(int argc, char *argv[]) {
    read_flags(argc, argv);
    const Flags *flags = &nb.flags;
    if (nb.experiment) {
        run_experiment(flags);
        return book_end();
    }
    bool two_runs = flags->devices == 0, values = flags->backend != BACKEND_MODEL;
    const char *modelled = two_runs && modelled_machine() ? book_output("_modelled.csv") : NULL;
    const char *factors = two_runs && values ? book_output("_factors.png") : NULL;
    book_csv(".csv");
    book_output(".png");
    book_check_outputs();
    open_notebook();
    if (num_gpus() == 0 && values) warn_if_cpu_is_slow();
    print_size(&nb);
    if (values && book_can_use_devices(2)) show_where_parameters_are(nb.net);
    Run alone = new_run(0, flags->devices, 1);
    if (two_runs)
        train_on_one_and_on_two();
    else
        train(&alone);
    animator_close(nb.animator);
    loss_log_write(&nb.loss_log, flags->log_loss);
    if (factors && !interrupted()) show_recorded_experiment(factors, !flags->quick);
    if (modelled && !interrupted()) {
        Prediction two = ask_about_two_gpus();
        predict_compare(two, print_epochs_on_gpus(&nb, modelled), "times as fast");
    }
    close_notebook();
    return book_end();
}
