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
// `flat->grad` is one long vector with the gradients of all 76 parameters, and each parameter's
// gradient is a slice of it. This will make the exchange simple. As in the book (*Dive into Deep
// Learning*, or d2l, "Concise Implementation for Multiple GPUs"), we send a few images through the
// network on two devices, and then print the first weights:
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

    for (int i = 0; i < 2; i++) {
        Tensor *all = flat_parameters(net, devices[i]).data;
        Tensor *first = tensor_slice(all, 0, 1, (int[]){3});
        tensor_print("first weights", first);
        tensor_free(first);
    }
    int status = try_in_child(ask_the_host, find_parameter(net, "0.weight"));
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
// exchange per parameter would mean 76 exchanges, most of them tiny. One exchange for all would
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
// gradient. ResNet-18 has 17 batch norms, so a step has 34 more exchanges, each of which makes all
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

static void save(Training *t) {
    Run *run = t->context;
    save_run(&nb.runs, &run->saved);
}

static void begin(Run *run) {
    Training *t = &run->t;
    run->bytes_per_step = step_bytes(&run->dp);
    run->test_iter = data_iter_new(nb.test_data, run->batch_size, false, 0);
    t->iter = data_iter_new(nb.train_data, run->batch_size, nb.flags.shuffle, nb.flags.seed);
    t->devices = run->dp.devices;
    t->context = run;
    print_training(&nb, run);
    run->saved = resumable(&nb, run);
    resume_run(&nb.runs, &run->saved);
}

static void end(Run *run) {
    print_stopped(&nb.runs);
    share_statistics(&run->dp); // Ctrl-C may have come before evaluation did.
    if (nb.flags.save) save_parameters(nb.net, run->dp.devices[0], nb.flags.save);
    data_iter_free(run->t.iter);
    data_iter_free(run->test_iter);
    free(run->saved.settings);
}

static void train(Run *run) {
    Device *devices[MAX_DEVICES] = {NULL};
    int k = run->t.k;
    open_devices(devices, k);
    restart(nb.net); // back to the initial values
    run->dp = data_parallel(nb.net, devices, k, batch_norm_mode(nb.bn));
    begin(run);
    train_epochs(&run->t);
    end(run);
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

// After --resume, a run that was over before is not trained again.
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
// The two curves differ. Why? The second run has twice the batch size, twice the learning rate, and
// two devices. With `--bn rank0`, as in PyTorch, it would also evaluate with the statistics of one
// device only. And d2l's second run does not begin as its first one did. d2l gives the same network
// to `train()` again, which draws new weights, but leaves the biases and all of batch norm as the
// first run left them.
//
// `--experiment` trains in seven ways, each from ten seeds. Each way differs from another in one
// thing. So that a laptop can do it, this ResNet-18 has an eighth of the channels, the images have
// half the size, and there are 5 epochs of 4,096 images. The picture and the table below are not
// from the run of this page. They were recorded once, on two cores of an AMD EPYC, with
// `build/05_resnet18_concise --experiment --threads 1`.
//
// ![Each dot is one training, each diamond the mean of
// ten.](plots/05_resnet18_concise_factors.png "Seven rows of ten dots each over the test accuracy,
// with a line from the lowest to the highest dot and a diamond at the mean. All rows overlap; the
// four lower means with twice the batch size and learning rate are left of the first one.")
//
// Look at the widths first. Nothing but the seed differs between the dots of one row. d2l's first
// run can end with 0.675 or with 0.779. The widest row goes from 0.552 to 0.757, and it is on one
// device. If you compare two single trainings, you can get any answer that you like.
//
// The table compares means of ten trainings from the same seeds. In 95 of 100 such tables, all true
// effects lie within the +- of their rows.
//
// behind/factors.c:show_recorded_experiment
//
// The fourth row is the control. Apart from rounding, two devices with `sync` compute what one
// computes, so its true effect is nearly zero. Yet its +- is more than 0.05, because rounding is
// enough to send a training another way. Most other effects are smaller than their +-, too. Twice
// the batch size or twice the learning rate alone cannot be told from noise. Both together can,
// with the mean of all four ways that have both: they cost about 0.04. The last row is more
// precise, because it evaluates the same trainings twice. It acquits `rank0`. So what costs the
// accuracy is not the second device. It is what we changed along with it.
//
// We fell for the noise ourselves. In an earlier recording, with a version of the program that
// rounds differently, the first five seeds said that twice both loses 0.058 ± 0.019. The next five
// said 0.019 ± 0.061. And this is a small network and a short training. It shows what such changes
// can do, and not what they do in ten epochs on all of the data.

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
// behind/modelled_steps.c:print_epochs_on_gpus
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

// The two runs, and after them what needs no training.
static void tell_the_story(const char *factors, const char *modelled) {
    train_on_one_and_on_two();
    if (factors && !interrupted()) show_recorded_experiment(factors, !nb.flags.quick);
    if (!modelled || interrupted()) return;
    Prediction two = ask_about_two_gpus();
    predict_compare(two, print_epochs_on_gpus(&nb, modelled), "times as fast");
}

int main(int argc, char *argv[]) {
    read_flags(argc, argv);
    const Flags *flags = &nb.flags;
    if (nb.experiment) {
        run_experiment(flags);
        return book_end();
    }
    bool story = flags->devices == 0, values = flags->backend != BACKEND_MODEL;
    bool on_gpus = story && !flags->quick && modelled_machine();
    const char *csv = book_csv(".csv"), *png = book_output(".png");
    const char *factors = story && values ? book_output("_factors.png") : NULL;
    const char *modelled = on_gpus ? book_output("_modelled.csv") : NULL;
    book_check_outputs();
    open_notebook(csv, png);
    if (num_gpus() == 0 && values) warn_if_cpu_is_slow();
    print_size(&nb);
    if (book_can_use_devices(2)) show_where_parameters_are(nb.net);
    Run alone = new_run(0, flags->devices, 1);
    if (story)
        tell_the_story(factors, modelled);
    else
        train(&alone);
    animator_close(nb.animator);
    loss_log_write(&nb.loss_log, flags->log_loss);
    close_notebook();
    return book_end();
}
