// main.c: the story of chapter 10. README.md says how to run it and what to read.
#include "common/book.h"
#include "behind/behind.h"

typedef struct Notebook {
    Flags flags;
    int width, k;
    bool has_values; // not with --backend model
    Dataset *train_data, *test_data;
    DataIter *test_iter;
    Curves *curves;
} Notebook;

static double evaluate(const Vit *v, DataIter *iter);

// ## A transformer for images
//
// A transformer computes with *tokens*. A token is a row of D numbers, and in a text it stands for
// a word or a part of one. For an image, it stands for a *patch*, a small square of pixels
// [@dosovitskiy2021]. We cut each image of Fashion-MNIST into 16 patches of 7 x 7 pixels. A matrix
// product turns the 49 pixels of a patch into a token of D = 64 numbers. Then each token gets a
// learned vector added that depends on its position, because nothing else tells the network where
// the patch was.
//
// Four equal *blocks* change the tokens, one block after the other. At the end, the mean over the
// 16 tokens of an image goes through a linear layer, which gives ten logits:
//
// vit.c:vit_forward
//
// All tokens of the minibatch are rows of one matrix. With 256 images, it has $256 \cdot 16 = 4096$
// rows. `X[i]` and `H[i]` are on device i. For now, think of one device. What several devices do
// comes after the training.
//
// ## A block
//
// A block has two halves. Each half normalizes the tokens, computes something from them, and adds
// the result to the tokens:
//
// vit.c:vit_block
//
// *Layer norm* gives each token mean 0 and variance 1, followed by a learned scale and shift.
// Unlike batch norm (chapter 5), it looks at one token at a time. So the rows of a minibatch do not
// depend on each other.
//
// The second half is the *MLP* (multilayer perceptron). It also treats each token by itself. A
// linear layer makes 256 numbers of its 64, GELU is applied to each of them, and a second linear
// layer goes back to 64 numbers. *GELU* is a smooth variant of ReLU. It multiplies x by the
// probability that a normally distributed random number is smaller than x. (Ignore `enter()`,
// `leave()` and the groups until the next section.)
//
// vit.c:vit_mlp
//
// The first half is *attention*, and it is the only place where tokens meet. It has 8 *heads*. For
// each head, a linear layer makes three vectors from each token, with $d = 64 / 8 = 8$ numbers
// each: a query $q$, a key $k$ and a value $v$. The result for token i is a weighted mean of the
// values of all tokens j of the same image. The weights are the softmax of $q_i \cdot k_j /
// \sqrt{d}$. Each head computes this without the others, and the last linear layer combines all
// heads:
//
// vit.c:vit_attention
//
// The network has 204,938 parameters, and 98 % of them are in the four blocks. Apart from biases
// and layer norms, a block has $3 D^2 + D^2 + 4 D^2 + 4 D^2 = 12 D^2$ of them.
//
// ## Training
//
// The loop is the same as in chapter 4. The optimizer is Adam, because transformers train poorly
// with plain gradient descent.
//
// vit.c:vit_train_batch
//
// `vit_load()` copies the whole minibatch to every device. `backward_all()` goes back through the
// tapes of all devices together, operation by operation (chapter 5 used it for batch norm).
//
// main.c:training_loop
//
// ![Training loss and test accuracy, on four devices that split every
// block.](plots/10_a_transformer.png "Two panels over five epochs: the training loss falls
// from 0.65 to 0.31, the test accuracy rises from 0.82 to 0.86.")
//
// ## Split a block
//
// In data parallelism, each device has all parameters and some of the images. Here we do the
// opposite. Each device gets all images, and keeps only a part of each large matrix. This is
// *tensor parallelism* [@shoeybi2019], the pairs of layers from chapter 1.
//
// There are two ways to cut a product $X W$. If a device has some *columns* of W, it computes these
// columns of the result, and it needs all of X. If a device has some *rows* of W, it needs only the
// same columns of X. But its result, although it has full size, contains only some of the terms of
// each sum. The results of all devices must be added.
//
// The trick is to cut the first matrix of a pair by columns, and the second by rows:
//
// ```
//              device 0               device 1
//
// X            whole                  whole
// X up         columns 0 to 127       columns 128 to 255
// GELU         the same columns       the same columns
// times down   rows 0 to 127          rows 128 to 255
//              a part of each sum     the other part
//                       \                 /
//                        ---- leave() ----
//                       the sum, on both devices
// ```
//
// The columns that a device computes are exactly the columns of the input that its rows of the
// second matrix need. GELU works on one number at a time. So the devices have to meet only once, at
// the end. In attention, the columns are heads. A device with four of the eight heads computes
// their queries, keys and values, and attention for these heads, without the others.
//
// exchange.c:leave
//
// What does the backward pass of `leave()` have to do? Let $y = y_0 + y_1$ be the sum. The
// derivative of $y$ with respect to $y_0$ is 1. So the gradient of $y_0$ is the gradient of $y$,
// which each device already has. There is nothing to do.
//
// At the beginning of the pair, it is the other way around. In the forward pass, each device
// already has X, and `enter()` does nothing. But X affects the loss through the columns of all
// devices, and in the backward pass, each device knows only what its own columns contribute to the
// gradient of X. These contributions must be added:
//
// exchange.c:enter
//
// exchange.c:enter_backward
//
// So a block has two sums in the forward pass and two in the backward pass. Everything outside
// these pairs, such as layer norms, patches and the last layer, is computed by every device. All
// devices have the same numbers there, get the same gradients, and make the same updates. Also, the
// last bias of a pair is added after `leave()`. Otherwise, the sum would contain it once for each
// device.
//
// A matrix is stored as `linear()` needs it, (out, in). Here is which part a device keeps:
//
// shards.c:list_block
//
// ## Equal to the last bit
//
// Do devices that split the layers compute the same bits as one device? The columns of a product
// do not depend on each other, so cutting by columns changes no bit. But cutting by rows cuts sums.
// A sum of floating-point numbers depends on the order of the additions, and normally one device
// would simply add all products from first to last.
//
// So we give all devices the same order. Each sum is added in 8 groups. In attention, group g
// contains the products of head g. Then the groups are added halves to halves:
//
// ```
// group         0   1   2   3   4   5   6   7
//                \ /     \ /     \ /     \ /
//                 +       +       +       +
//                  \     /         \     /
//                   --+--           --+--
//                      \             /
//                       ------+------
//
// one device    -----------------------------
// two           -------------   -------------
// four          -----   -----   -----   -----
// ```
//
// Each of two devices computes one half of this tree, and the exchange makes the last addition.
// Each of four devices computes a quarter, and the exchange makes the last two levels. The kernel
// takes the number of groups as an argument, and adds them while they are in registers and in the
// first cache. This costs a training step less than 5 % of its time. The exchange is chapter 2's
// sharded allreduce, except that the owner of a part adds halves to halves:
//
// exchange.c:add_parts
//
// Three devices have 3, 3 and 2 heads. Each of them adds in the usual order, because three parts
// are not halves of anything. We train for 20 steps, each time from the same start:
//
// main.c:ask_how_many
//
// behind/tables.c:print_bits
//
// This equality is not only elegant. It turns "the two losses look similar" into a test that
// catches every mistake below. Frameworks test with a tolerance, because their kernels add in
// whichever order is fastest.
//
// ## What it costs
//
// Each of the four sums of a block adds up a matrix of all tokens, $b$ images of $T$ tokens with D
// numbers. For one matrix, a device sends $2 (k-1)/k$ times its size (chapter 2). With data
// parallelism, it sends $2 (k-1)/k$ times the size of the gradients, once.
//
// main.c:ask_about_bytes
//
// behind/tables.c:print_sent
//
// With $L$ blocks, the quotient is about
//
// $$\frac{4 L \cdot b T D}{12 L \cdot D^2} = \frac{b T}{3 D} = \frac{256 \cdot 16}{3 \cdot 64} =
// 21.3$$
//
// The counted value is a little smaller, because not all parameters are in the matrices of the
// blocks. The formula says when splitting the layers is cheap: when the network is wide and a step
// has few tokens. Splitting the images costs the same for any number of images.
//
// Moreover, an exchange of gradients can overlap with the backward pass (chapter 6). The sums of a
// split layer cannot, because the very next operation needs the result:
//
// ![One block of width 1024 on four GPUs of a modelled DGX A100, with 64
// images.](plots/10_a_transformer_block.png "Two timelines with four lanes each, forward and
// backward. All four devices compute, exchange, compute and exchange at the same times. The
// exchanges take a seventh of the forward pass and a fourteenth of the backward pass.")
//
// ### Memory
//
// Splitting the layers has an advantage that neither data parallelism nor ZeRO has. It also divides
// activations. We try this with a wider network, of width 256, and 64 images. The limit is 100 MB
// for each device. One device does not have enough memory:
//
// recorded:one
//
// Here is what it needs without a limit, and what four devices need, with the limit:
//
// behind/tables.c:print_split_memory
//
// What is *kept* are parameters, gradients and moments. It is almost divided by four. Of the
// activations, only those between `enter()` and `leave()` are. Every device keeps the tokens
// themselves and what layer norms need. (The next step would be to divide these, too. This is
// called *sequence parallelism*.) Again, no bit is different, so a network that does not fit on one
// of these devices was trained on four.
//
// ## When does it pay?
//
// The next table has modelled times of a step of a network of width 1024, with 50 million
// parameters. In `dgx-a100`, NVLink connects the four GPUs. In `rtx4090-pcie`, four consumer cards
// exchange everything over PCIe, and in `cluster-10gbe`, each GPU is in another host.
//
// main.c:ask_when
//
// behind/tables.c:print_when_it_pays
//
// On the DGX, splitting the layers is the fastest way with 8 and 32 images. There is little to
// compute, but with data parallelism, the devices must still exchange all gradients, and each of
// them must update all parameters. With 128 images, both ways take about the same time, and with
// 512, it is better to split the images. (By the formula, both send the same number of bytes if
// $b T = 3 D$, which means 192 images here.) On the PCIe cards, four cards that split the layers
// are hardly faster than one. Over Ethernet, neither way is faster than one device.
//
// This has also been measured. On eight H100 GPUs connected by NVLink, a language model with
// 16 layers of width 2048 processed 40,150 tokens per second and GPU with data parallelism. When
// its layers were split over 2, 4 or 8 of the GPUs, it was 37,628, 33,597 and 28,101
// [@nanotron2025].
//
// So the usual advice is:
//
// - If the network fits, split the images.
// - If it does not fit, split the layers over devices with fast links, usually within a host, and
//   the images between hosts.
// - Without fast links, use ZeRO-3 (chapter 9) instead.
//
// ## Four mistakes
//
// People have made all of these mistakes in real projects. None of them crashes, and with each of
// them the loss falls. Here are four devices again, with the same start and the same minibatches:
//
// behind/tables.c:print_mistakes
//
// *The last bias on every device.* If the MLP's last bias is added before `leave()`, the sum
// contains it four times. Biases start at 0, so the first loss is right, and so is the first
// update. The second loss is not.
//
// *No sum in the backward pass.* Without `enter()`, the forward pass is right. But everything below
// this point gets only the gradient from the device's own columns. This gradient is different on
// each device, so even the parameters that all devices should have in common drift apart.
//
// *q, k and v cut as one block.* In many checkpoints, the rows of `qkv_weight` are the queries of
// all heads, then all keys, then all values. If you cut this matrix into k blocks of consecutive
// rows, the first of four devices gets nothing but queries. It uses a third of them as keys, and
// another third as values. So sort the rows by heads before you cut.
//
// *Shards drawn with one seed.* If each device draws its own shards with the same seed, they are
// all equal. Four devices then have only a quarter of the different columns. Draw the whole matrix
// and cut it, as `vit_start()` and `vit_new()` do.
//
// After 20 steps, the losses are between 0.896 and 1.008. If you did not know the right one, would
// you suspect any of them? Compare a few steps with one device, bit by bit, and you find all four.

// ## Summary
//
// - A transformer block consists of attention and an MLP. Both have a pair of matrices.
// - Cut the first matrix of a pair by columns and the second one by rows. Then one sum per pair
//   suffices in each pass, forward after the pair and backward before it.
// - Cutting by columns keeps all bits, but cutting by rows cuts sums. If one device adds in the
//   same groups, halves to halves, then k devices compute the same bits.
// - Compared with data parallelism, splitting the layers sends about $b T / (3 D)$ times as many
//   bytes, and no computation can hide them.
// - It divides parameters, gradients, moments and most activations. It pays over fast links, if the
//   network is wide and a step has few tokens.
//
// ## Questions
//
// 1. Which parameters of a block does every device keep? Which share of a block of width 64 are
//    they?
// 2. Why are columns cut first and rows second? What would have to be exchanged if `up_weight` were
//    cut by rows and `down_weight` by columns?
// 3. All devices compute the layer norms. How do you know, without any exchange, that all of them
//    make the same update to `norm1_weight`?
// 4. A language model has D = 8192 and gets 4 sequences of 2048 tokens per step. How many times as
//    many bytes does splitting the layers send, compared with data parallelism? And with 1
//    sequence?
// 5. With 16 devices and 8 heads, what could you still split, and what would you have to exchange?
// 6. Three devices do not have the bits of one device. In which order would one device have to add,
//    so that they had them? What would this mean for two, four and eight devices?
// 7. Someone tests the split layers with `allclose`, after one step, with biases that start at 0.
//    Which of the four mistakes pass this test?

static double training_loop(Notebook *nb, Vit *v, DataIter *train_iter) {
    Tensor *X, *y, *losses[MOST_SPLIT];
    Timer timer = {0};
    double acc = NAN;
    for (int epoch = 0; epoch < nb->flags.epochs && curves_more(nb->curves); epoch++) {
        double loss = 0;
        int images = 0; // each device computes the loss of all of them
        timer_start(&timer);
        data_iter_start(train_iter, epoch);
        while (curves_next(nb->curves, train_iter, &X, &y)) {
            vit_train_batch(v, X, y, nb->flags.lr, losses);
            loss += curves_loss(nb->curves, losses, nb->k * X->shape[0]);
            images += nb->k * X->shape[0];
        }
        timer_stop(&timer);
        if (interrupted()) break; // Ctrl-C: whole epochs are kept
        acc = evaluate(v, nb->test_iter);
        curves_epoch(nb->curves, loss / images, acc, &timer);
    }
    return acc;
}

// ## The program

// The steps that are compared have whole minibatches.
static VitPlan plan_of(const Notebook *nb, int k) {
    int images = nb->train_data->count;
    int rows = nb->flags.batch_size < images ? nb->flags.batch_size : images;
    int steps = images / rows < COMPARED_STEPS ? images / rows : COMPARED_STEPS;
    return (VitPlan){
        .k = k, .width = nb->width, .batch_size = rows, .steps = steps, .seed = nb->flags.seed};
}

// The part of the test images that is classified correctly. All devices compute, and device 0
// counts.
static double evaluate(const Vit *v, DataIter *iter) {
    Tensor *X, *y, *images[MOST_SPLIT], *labels[MOST_SPLIT], *y_hat[MOST_SPLIT];
    Accuracy a = accuracy_begin(v->devices, 1);
    data_iter_start(iter, 0);
    while (data_iter_next(iter, &X, &y)) {
        vit_load(v, X, y, images, labels);
        vit_forward(v, images, y_hat);
        accuracy_count(&a, y_hat, labels);
    }
    return accuracy_end(&a);
}

static void train(Notebook *nb) {
    const Flags *flags = &nb->flags;
    Device *devices[MOST_SPLIT];
    open_devices(devices, nb->k);
    DataIter *train_iter =
        data_iter_new(nb->train_data, flags->batch_size, flags->shuffle, flags->seed);
    long steps = curves_begin(nb->curves, train_iter, devices, nb->k, flags->lr);
    printf("training on %s: width %d, batch size %d, %ld minibatches\n",
           device_names(devices, nb->k), nb->width, flags->batch_size, steps);
    float *start = nb->has_values ? vit_start(nb->width, flags->seed) : NULL;
    Vit *v = vit_new(nb->width, devices, nb->k, start, (AdamOptions){0});
    double acc = training_loop(nb, v, train_iter);
    const char *diverged = curves_end(nb->curves, acc);
    if (nb->has_values && !interrupted()) book_result("accuracy %.3f%s", acc, diverged);
    free(start);
    vit_free(v);
    data_iter_free(train_iter);
}

// ## What k devices compute, send and keep

static Prediction ask_how_many(void) {
    return predict_first("One device makes 20 steps of training, and so do 2, 3, 4 and 8 devices "
                         "that split every layer. In how many of these four cases are all "
                         "parameters equal to those of one device, to the last bit?");
}

static Prediction ask_about_bytes(void) {
    return predict_first("The network has 204,938 parameters. A minibatch has 256 images of 16 "
                         "tokens with 64 numbers each. How many times as many bytes does a device "
                         "send in a step if the layers are split, compared with data parallelism?");
}

static void compare_devices(const Notebook *nb, const int counts[], int n) {
    VitRun runs[MOST_COMPARED];
    int equal = 0;
    Prediction expected = n > 2 ? ask_how_many() : (Prediction){0};
    for (int r = 0; r < n; r++) {
        VitPlan plan = plan_of(nb, counts[r]);
        runs[r] = run_steps(&plan, nb->train_data);
        if (r > 0) equal += num_different_numbers(&runs[r], &runs[0]) == 0;
    }
    print_bits(runs, n);
    predict_compare(expected, equal, "cases");
    const VitRun *four = &runs[n > 3 ? 3 : n - 1];
    Prediction times = n > 2 ? ask_about_bytes() : (Prediction){0};
    predict_compare(times, print_sent(four), "times");
    if (n == 2) print_split_memory(&runs[0], four, INFINITY);
    for (int r = 0; r < n; r++) vit_run_free(&runs[r]);
}

// A wider network, with fewer images.
static void train_within_limit(const Notebook *nb) {
    const double limit = 100e6;
    VitPlan plan = plan_of(nb, 1);
    plan.width = 256;
    if (plan.batch_size > 64) plan.batch_size = 64;
    VitRun one = run_steps(&plan, nb->train_data);
    double before = devices_limit_memory(limit);
    plan.k = 4;
    VitRun four = run_steps(&plan, nb->train_data);
    devices_limit_memory(before);
    print_split_memory(&one, &four, limit);
    vit_run_free(&one);
    vit_run_free(&four);
}

static void make_mistakes(const Notebook *nb) {
    VitRun runs[1 + NUM_MISTAKES], first[1 + NUM_MISTAKES]; // 20 steps; one step
    for (int m = 0; m <= NUM_MISTAKES; m++) {
        VitPlan plan = plan_of(nb, nb->k);
        plan.mistake = m == 0 ? NULL : &mistakes[m - 1];
        runs[m] = run_steps(&plan, nb->train_data);
        plan.steps = 1;
        first[m] = run_steps(&plan, nb->train_data);
    }
    print_mistakes(runs, first);
    for (int m = 0; m <= NUM_MISTAKES; m++) {
        vit_run_free(&runs[m]);
        vit_run_free(&first[m]);
    }
}

static Prediction ask_when(void) {
    return predict_first("A network of width 1024 is trained on four GPUs of a DGX A100, with 8, "
                         "32, 128 or 512 images in a minibatch. What is the largest of these "
                         "numbers for which splitting the layers is faster than splitting the "
                         "images?");
}

static void tell_the_story(Notebook *nb) {
    static const int counts[] = {1, 2, 3, 4, 8};
    train(nb);
    if (interrupted()) return;
    compare_devices(nb, counts, sizeof counts / sizeof *counts);
    draw_block(book_timeline("_block.png"));
    train_within_limit(nb);
    if (modelled_machine()) {
        Prediction when = ask_when();
        predict_compare(when, print_when_it_pays(), "images");
    }
    if (nb->has_values) make_mistakes(nb);
}

static void read_flags(Notebook *nb, int argc, char *argv[], bool *costs) {
    const Flag own_flags[] = {
        {"width", FLAG_INTEGER, &nb->width, "D", .help = "numbers of a token, a multiple of 8",
         .standard = "64", .least = 8, .most = 2048},
        {"costs", FLAG_ON, costs, .help = "only model a step, split in both ways (CSV)"},
        {0},
    };
    nb->flags = book_begin(argc, argv,
                           "Trains a vision transformer on four devices that split its layers.\n"
                           "With --devices K: only on K devices.",
                           "devices batch-size lr=0.001 epochs=5 seed train-size test-size steps "
                           "no-shuffle data csv live",
                           (Program){.own = own_flags,
                                     .quick_means = "--epochs 1 --train-size 16384",
                                     .next = "make book"});
    nb->k = book_devices(nb->flags.devices, 4, 1);
    nb->has_values = nb->flags.backend != BACKEND_MODEL;
    if (nb->width % HEADS != 0)
        die_usage("a multiple of 8, such as 64",
                  "--width %d: each of 8 heads needs as many numbers", nb->width);
    if (nb->k > MOST_SPLIT)
        die_usage("--devices 2, 4 or 8", "--devices %d: the layers have 8 heads", nb->k);
}

int main(int argc, char *argv[]) {
    static Notebook nb;
    bool costs = false;
    read_flags(&nb, argc, argv, &costs);
    if (costs) {
        book_outputs("_costs.csv");
        tell_costs(&(VitPlan){.k = nb.k, .width = nb.width, .batch_size = nb.flags.batch_size});
        return book_end();
    }
    bool story = nb.flags.devices == 0;
    modelled_clock_use_ranks(true); // each device has its own host thread
    book_outputs("%s%s", nb.has_values ? ".csv .png" : "", story ? " _block.png _block.svg" : "");
    nb.curves = curves_new(&nb.flags, nb.has_values ? book_output(".csv") : NULL,
                           nb.has_values ? book_output(".png") : NULL);
    nb.train_data = fashion_mnist_open(nb.flags.data, true, nb.flags.train_size);
    nb.test_data = fashion_mnist_open(nb.flags.data, false, nb.flags.test_size);
    nb.test_iter = data_iter_new(nb.test_data, nb.flags.batch_size, false, 0);
    if (num_gpus() == 0 && nb.has_values) warn_if_cpu_is_slow();
    if (story)
        tell_the_story(&nb);
    else
        train(&nb);
    if (!story && nb.k > 1 && !nb.flags.memory && !interrupted())
        compare_devices(&nb, (const int[]){1, nb.k}, 2);
    curves_free(nb.curves);
    data_iter_free(nb.test_iter);
    dataset_free(nb.train_data);
    dataset_free(nb.test_data);
    return book_end();
}
