// main.c: the story of chapter 10. README.md says how to run it and what to read.
#include "common/book.h"
#include "behind/behind.h"

typedef struct Notebook {
    Flags flags;
    int width, k;
    bool sequence;
    bool has_values; // not with --backend model
    Dataset *train_data, *test_data;
    DataIter *test_iter;
    Curves *curves;
} Notebook;

// ## Split two layers
//
// In data parallelism, each device has all parameters and some of the images. In this chapter, we
// do the opposite. Each device gets all images, and keeps only a part of each large matrix. This is
// *tensor parallelism* [@shoeybi2019]. It uses the pairs of layers described in chapter 1.
//
// There are two ways to cut W in a product $X W$. A device that has some *columns* of W computes
// the same columns of the result, and needs all of X. A device that has some *rows* of W needs only
// the corresponding columns of X. Its result has full size, but each number in it is only a part of
// a sum. So the results of all devices must be added.
//
// The trick is to cut the first of two layers by columns, and the second by rows. Here is an MLP
// (multilayer perceptron) on two devices. Its first layer, `up`, turns each row of 64 numbers into
// 256, and its second layer, `down`, turns them back into 64:
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
// The columns that a device computes are exactly what it needs for its rows of the second matrix.
// *GELU* is a smooth variant of ReLU that works on one number at a time. So the devices have to
// meet only once, at the end:
//
// vit.c:vit_mlp
//
// Device i has `X[i]` and its part of each weight. (`linear_by_columns()` and `linear_by_rows()`
// are `linear()` with a fixed order of additions. Ignore their last argument for now.) The bias of
// the second layer is added after `leave()`, because the sum would otherwise contain it k times.
//
// exchange.c:leave
//
// What does the backward pass of `leave()` have to do? Let $y = y_0 + y_1$ be the sum. The
// derivative of $y$ with respect to $y_0$ is 1. So the gradient of $y_0$ is the gradient of $y$,
// which each device already has. There is nothing to do. (All devices go on to compute the loss
// from $y$, but they compute the same one. If the gradients were added here, they would be those of
// k times the loss.)
//
// At the beginning of the pair, it is the backward pass that needs a sum. In the forward pass, each
// device already has X, and `enter()` does nothing. But X affects the loss through the columns of
// all devices, and in the backward pass, each device knows only what its own columns contribute to
// the gradient of X. These contributions must be added:
//
// exchange.c:enter
//
// exchange.c:enter_backward
//
// `enter()` records an operation that changes nothing on the way forward, so its output is its
// input. On the way back, it replaces the gradient by the sum.
//
// You can try all of this in PyTorch with one small program. Save it as `mlp.py`, and start it with
// `torchrun --nproc-per-node 2 mlp.py`:
//
// ```python
// import torch
// from torch import distributed as dist
// from torch.nn import functional as F
// dist.init_process_group("gloo")  # on GPUs: "nccl", and then, with import os:
// # torch.set_default_device(f"cuda:{os.environ['LOCAL_RANK']}")
// rank, k = dist.get_rank(), dist.get_world_size()
//
// def sum_of_ranks(X):
//     X = X.clone()  # all_reduce() works in place and returns nothing
//     dist.all_reduce(X)
//     return X
//
// class Enter(torch.autograd.Function):
//     forward = staticmethod(lambda ctx, X: X.view_as(X))
//     backward = staticmethod(lambda ctx, grad: sum_of_ranks(grad))
//
// class Leave(torch.autograd.Function):
//     forward = staticmethod(lambda ctx, X: sum_of_ranks(X))
//     backward = staticmethod(lambda ctx, grad: grad)
//
// torch.manual_seed(0)  # every rank draws all numbers, and then uses its part
// torch.set_default_dtype(torch.float64)  # so that a difference is not rounding
// X, up, down = torch.randn(100, 64), torch.randn(256, 64), torch.randn(64, 256)
// tensors = [t.requires_grad_() for t in (X, up, down)]
// own_up, own_down = up.chunk(k, 0)[rank], down.chunk(k, 1)[rank]
// split = Leave.apply(F.linear(F.gelu(F.linear(Enter.apply(X), own_up)), own_down))
// whole = F.linear(F.gelu(F.linear(X, up)), down)
// torch.testing.assert_close(split, whole)
// of_X, of_up, of_down = torch.autograd.grad(split.square().sum(), tensors)
// gradients = [of_X, sum_of_ranks(of_up), sum_of_ranks(of_down)]  # zeros outside its part
// torch.testing.assert_close(gradients, list(torch.autograd.grad(whole.square().sum(), tensors)))
// print(f"rank {rank} has {tuple(own_up.shape)} and {tuple(own_down.shape)}: as one process")
// dist.destroy_process_group()
// ```
//
// As usual in PyTorch, and in our program, a weight is stored as (out, in). So what is cut by
// columns is cut along dimension 0. In training, the gradients of a rank's own parts need no
// exchange. (Here, the sums only put these parts together.) Now leave out `Enter.apply()`. The
// result is still right, and so are the gradients of both weights, but the gradient of X is not.
//
// ## A transformer for images
//
// Now we split a whole network. A transformer works on *tokens*. A token is a row of D numbers. D
// is the *width* of the network. In text, a token stands for a word or a part of a word. In an
// image, it stands for a *patch*, a small square of pixels [@dosovitskiy2021]. We cut each image of
// Fashion-MNIST into 16 patches of 7 x 7 pixels. A matrix product turns the 49 pixels of a patch
// into a token of D = 64 numbers. Then a learned vector, one for each position, is added to the
// token. Nothing else tells the network where the patch was.
//
// Four *blocks* of the same structure transform the tokens, one after the other. Finally, the mean
// over the 16 tokens of each image goes through a linear layer, which gives ten logits:
//
// vit.c:vit_forward
//
// All tokens of the minibatch are rows of one matrix. With 256 images, it has $256 \cdot 16 = 4096$
// rows. *Layer norm* gives each token mean 0 and variance 1, and then applies a learned scale and
// shift. Unlike batch norm (chapter 5), it looks at one token at a time, so its result for one
// token does not depend on the others.
//
// A block has two halves. Each half normalizes the tokens, computes something from them, and adds
// the result to the tokens:
//
// vit.c:vit_block
//
// The second half is the MLP from above (`v->mlp` is `vit_mlp()`). The first half is *attention*,
// and it is the only place where tokens meet. It has 8 *heads*, which work independently. In each
// head:
//
// 1. A linear layer makes three vectors from each token, with $d = 64 / 8 = 8$ numbers each: a
//    query $q$, a key $k$ and a value $v$.
// 2. For token i, the scores $q_i \cdot k_j / \sqrt{d}$ with all tokens j of the same image are
//    computed, and the softmax makes 16 weights of them.
// 3. The result for token i is the mean of the values $v_j$ with these weights.
//
// With only four tokens, it could look like this for token 2:
//
// ```
// token j                        0      1      2      3
//
// score of k_j with q_2       -0.3    0.4    1.5   -0.3
// weight: their softmax       0.10   0.20   0.60   0.10
//
// result for token 2       =  0.10 v_0 + 0.20 v_1 + 0.60 v_2 + 0.10 v_3
// ```
//
// The results of all heads, 64 numbers for each token, go through another linear layer.
//
// So attention can be split in the same way as the MLP, by heads. The columns of the first matrix
// come in heads:
//
// ```
//              device 0                     device 1
//
// X            whole                        whole
// X qkv        q, k, v of heads 0 to 3      q, k, v of heads 4 to 7
// attention    results of heads 0 to 3      results of heads 4 to 7
// times out    rows 0 to 31                 rows 32 to 63
//              a part of each sum           the other part
// ```
//
// vit.c:vit_attention
//
// The rows of our `qkv_weight` are the query, the key and the value of head 0, then those of head
// 1, and so on. PyTorch's `nn.MultiheadAttention` has the queries of all heads first, then all
// keys, then all values. This line sorts them by head, and takes a rank's part (do the same with
// the bias):
//
// ```python
// own = W.unflatten(0, (3, HEADS, -1)).transpose(0, 1).chunk(k)[rank].flatten(0, 2)
// ```
//
// A block has two sums in the forward pass and two in the backward pass. Everything outside the two
// pairs, such as layer norms, patches and the last layer, is computed by every device. All devices
// have the same numbers there, get the same gradients, and make the same updates.
//
// The network has 204,938 parameters, and 98 % of them are in the four blocks. Apart from biases
// and layer norms, a block has $3 D^2 + D^2 + 4 D^2 + 4 D^2 = 12 D^2$ of them.
//
// ## Training
//
// In a training step, every device gets the whole minibatch and computes the same loss.
// `backward_all()` goes back through the tapes of all devices together, operation by operation, so
// that they can meet in `enter_backward()`. The optimizer is Adam, because transformers train
// poorly with plain gradient descent. The loop over these steps is the same as in chapter 4. (At
// the end of this page, see `vit_train_batch()` and `training_loop()`.) Here are five epochs on
// four devices:
//
// ![Training loss and test accuracy, on four devices that split every
// block.](plots/10_a_transformer.png "Two panels over five epochs: the training loss falls from
// 0.65 to 0.31, the test accuracy rises from 0.82 to 0.86.")
//
// ## Equal to the last bit
//
// Do devices that split the layers compute the same bits as one device? In the forward pass,
// cutting by columns changes no bit, because the columns of a product do not depend on each other.
// But cutting by rows cuts sums. (In the backward pass, it is the other way round. The gradient of
// X is a sum over the columns of W, so cutting by columns cuts this sum.) A sum of floating-point
// numbers depends on the order of the additions, and normally one device would simply add all
// products from first to last.
//
// So we give all devices the same order. Each sum is split into 8 groups, on one device, too. In
// attention, group g contains the products of head g, and in the MLP, those of 32 of the 256
// columns. Then the groups are added in pairs, the pairs in pairs, and so on. We call this *halves
// to halves*:
//
// ```
// group         0   1   2   3   4   5   6   7
//               |   |   |   |   |   |   |   |
//               +-+-+   +-+-+   +-+-+   +-+-+
//                 |       |       |       |
//                 +---+---+       +---+---+
//                     |               |
//                     +-------+-------+
//                             |
//                          the sum
//
// one device    -----------------------------
// two           -------------   -------------
// four          -----   -----   -----   -----
// ```
//
// With two devices, each computes half of this tree, and the exchange performs the last addition.
// With four, each computes a quarter, and the exchange performs the last two levels. This is what
// the last argument of `linear_by_rows()` and `linear_by_columns()` is for: it says how many of the
// 8 groups this device has, and the kernel adds them in this order. The exchange is chapter 2's
// sharded allreduce, except that the sums of the devices are added halves to halves, too
// (`sum_in_halves()`).
//
// We train for 20 steps on CPU devices, each time with the same start and the same minibatches.
// (GPUs ignore the groups, and their results agree apart from rounding.)
//
// main.c:ask_how_many
//
// behind/tables.c:print_bits
//
// Three devices have 3, 3 and 2 heads. Three parts do not fit into the tree, so each of these
// devices adds from first to last. Their parameters differ, although the printed losses are equal.
// The equality for 2, 4 and 8 is useful: instead of judging whether two losses look similar, you
// have a test that catches every mistake below. On GPUs, kernels add in whichever order is fastest.
// There, compare a few steps in float64 with a tolerance, as `mlp.py` does. Rounding is then so
// small that no mistake hides in it.
//
// ## What it costs
//
// Each of a block's four sums adds k matrices, one from each device. Such a matrix has a row of D
// numbers for each token. A minibatch of $b$ images has $b T$ tokens. In each sum, a device sends
// $2 (k-1)/k$ times the size of one matrix (chapter 2). With data parallelism, it sends $2 (k-1)/k$
// times the size of all gradients, once in a step. For four devices:
//
// main.c:ask_about_bytes
//
// behind/tables.c:print_sent
//
// With $L$ blocks, the ratio is about
//
// $$\frac{4 L \cdot b T D}{12 L \cdot D^2} = \frac{b T}{3 D} = \frac{256 \cdot 16}{3 \cdot 64} =
// 21.3$$
//
// The counted ratio is 20.5, because not all parameters are in the matrices of the
// blocks. The formula says when splitting the layers is cheap: when the network is wide and a step
// has few tokens. When the images are split, the bytes do not depend on the number of images.
//
// ### Nothing to hide behind
//
// An exchange of gradients can overlap with the backward pass (chapter 6). The sums of a split
// layer do not, because the next operation needs the result. In the figure, they take 9 % of the
// block. (Megatron can hide a part of them: it computes gradients of weights during the exchange.)
//
// ![One block of width 1024 on four GPUs of a modelled DGX A100, with 64
// images.](plots/10_a_transformer_block.png "Two timelines with four lanes each, forward and
// backward. All four devices compute, exchange, compute and exchange at the same times. The
// exchanges take a seventh of the forward pass and a fifteenth of the backward pass.")
//
// ### Memory
//
// Splitting the layers divides the network and most activations of each image. Data parallelism
// divides neither. (ZeRO-3 divides the network, but a device with a single image, or a single long
// text, needs all of its activations.) We try it with a network of width 512 and 16 images, and a
// limit of 100 MB for each device. One device does not have enough memory:
//
// recorded:one
//
// The parameters take 50.6 MB, and their gradients would take as much again. So data parallelism on
// four devices would not help. Here is what one device needs without a limit, and what each of four
// needs with the limit:
//
// behind/tables.c:print_split_memory
//
// (We train with a learning rate of 0.0003 here.) *Kept* are parameters, gradients and moments, and
// each of the four devices has little more than a quarter of them. So four devices have trained a
// network that does not fit on one, and again, no bit differs.
//
// Of the activations, only those inside the pairs are divided. For each token and block, these are
// $19 D + a T$ numbers (a is the number of heads). Another $6 D$ are outside, such as the results
// of layer norms, and every device has them for all tokens. So the column *formula* has $6 D + (19
// D + a T) / k$ numbers for each token and block. (*Activations* is what was allocated. It also has
// the layers outside the blocks, gradients of activations, and what an exchange receives.) The last
// row of the table belongs to the next section.
//
// ## Splitting the tokens, too
//
// Outside the pairs, no operation looks at more than one token. So each device can do this work for
// only a part of the tokens, and keep only that. This is *sequence parallelism* [@korthikanti2022],
// since the tokens of a text are a sequence:
//
// ```
//              device 0               device 1
//
// layer norm   half of the tokens     the other half
// enter()      an all-gather: each device also gets the tokens of the other one
// X            all tokens             all tokens
// up, GELU     columns 0 to 127       columns 128 to 255
// times down   a part of each sum     the other part
// leave()      a reduce-scatter: each device gets the sums of its own tokens
// bias, add    half of the tokens     the other half
// ```
//
// In front of a pair, all devices need all tokens, so `enter()` becomes an all-gather. After it,
// each device needs the sums of its own tokens only, so `leave()` becomes a reduce-scatter. In the
// backward pass, they change roles: the gradient of an all-gather is a reduce-scatter, and the
// other way round. Chapter 2's sharded allreduce is a reduce-scatter and an all-gather. So the same
// two halves are now at two places, and up to here, the bytes stay the same.
//
// What an all-gather collects has full size, so a device gives its memory back after the pair. But
// in the backward pass, the first product of the pair needs all tokens again, for the gradient of
// its weight. So they are gathered a second time. A block then has four reduce-scatters and
// six all-gathers instead of four and four, and sends 5/4 as many bytes. Megatron-LM does the same,
// and hides these two behind products. (The code is in `sequence.c`. In PyTorch,
// `SequenceParallel()` does all of this (chapter 11), but keeps what was gathered.)
//
// There is one more change. A layer norm's weight is on every device, and now each device has seen
// only a part of the tokens, so its gradient is only a part of the sum. After the backward pass,
// `vit_gradients()` sums the gradients of all parameters that are not cut. This is easy to forget.
// [In Megatron-LM](https://github.com/NVIDIA/Megatron-LM/issues/1446), somebody found that the last
// layer norm had different gradients on different devices.
//
// In the table above, four devices that split the tokens, too, need 27 % of the
// activations of one device. By the formula, everything is divided: $(25 D + a T) / k$. (Our rows
// are sorted by image, and each device has the tokens of some of the images. In Megatron-LM, each
// sequence is cut, which works with a single sequence, too.)
//
// ## When does it pay?
//
// The next table has the modelled time of one training step for a network of width 1024, with 50
// million parameters. In `dgx-a100`, NVLink connects the four GPUs. In `rtx4090-pcie`, four
// consumer cards exchange everything over PCIe, and in `cluster-10gbe`, each A100 is in a different
// host. All products are in float32, without tensor cores. (So an RTX 4090 is faster here. With
// tensor cores, computing takes less time, exchanges take the same, and splitting the layers pays
// off less.) When the images are split, the gradients are exchanged after the backward pass. The
// last column shows the shortest possible time: the longer one of computing and exchanging, if they
// overlapped completely.
//
// main.c:ask_when
//
// behind/tables.c:print_when_it_pays
//
// On the DGX, splitting the layers is fastest with 8 and 32 images. There is little to compute, but
// with data parallelism, the devices must still exchange all gradients, and each of them must
// update all parameters. With 128 images, both take about the same time, and with 512, it is better
// to split the images. (By the formula, both send the same number of bytes if $b T = 3 D$, which
// means 192 images here. But when layers are split, there are 16 exchanges to start, and each
// device computes the layer norms of all images.) If the exchange of gradients is hidden well,
// splitting the layers only wins with 8 images. On the PCIe cards, four cards that split the layers
// are barely faster than one, or even slower, and with up to 128 images, those that split the
// images are slower than one. Over Ethernet, neither way is faster than one device.
//
// Measurements show the cost, too. On eight H100 GPUs connected by NVLink, a language model with 16
// layers of width 2048 processed $2^{20}$ tokens in each step. With data parallelism, a step took
// 3.26 seconds, and with layers split over groups of 2, 4 or 8 GPUs, 3.48, 3.90 and 4.66
// [@ultrascale2025]. Our model of the time, given only the first of these four, says 3.44, 3.82 and
// 4.60. On the page [How true is the clock?](../how_true.md) are 29 published steps of
// split transformers. The model is off by 5 % on average, and by 15 % at worst.
//
// What should you do?
//
// - If the network fits, and each device has enough images to compute, split the images.
// - If it does not fit, and each device still has many tokens, use ZeRO-3 (chapter 9). It sends 1.5
//   times as much as data parallelism, and can hide much of it. Splitting the layers sends more if
//   $b T > 4.5 D$, where $b$ counts the images of all devices.
// - If a step has few tokens, or if the activations of a single sequence do not fit, split the
//   layers over devices with fast links, usually within a host. Large models do both, and split the
//   images across hosts (chapter 11).
//
// ## Four mistakes
//
// People have made all of these mistakes in real projects, for example in
// [text-generation-inference](https://github.com/huggingface/text-generation-inference/pull/1036),
// [nanotron](https://github.com/huggingface/nanotron/issues/46),
// [ColossalAI](https://github.com/hpcaitech/ColossalAI/issues/817) and
// [ms-swift](https://github.com/modelscope/ms-swift/issues/7944). None of them causes a crash, and
// in training, the loss falls with each of them. The next table is for four devices, with the same
// minibatches, and for the first two mistakes with the same start. *Copies equal* says whether the
// parameters that every device has, such as layer norms, are still the same on all devices.
//
// behind/tables.c:print_mistakes
//
// *The last bias on every device.* If the MLP's last bias is added before `leave()`, the sum
// contains it four times. Biases start at 0, so the first loss is right, and so is the first
// update. The second loss is not.
//
// *No sum in the backward pass.* Without the `enter()` of each MLP, the forward pass is right. But
// all earlier layers get only the part of its gradient that comes from the device's own columns.
// This part is different on each device, so even the parameters that all devices should have in
// common drift apart. (After one step, only half of all parameters differ. Adam's first update
// depends on little more than the sign of a gradient.)
//
// *Queries, keys and values cut together.* In many checkpoints, the rows of `qkv_weight` are the
// queries of all heads, then all keys, then all values. If you cut this matrix into four pieces of
// consecutive rows, the first device gets nothing but queries. It uses a third of its rows as
// queries, a third as keys and a third as values. (With random weights, this is only another start.
// But a network from a checkpoint is no longer the same.) So sort the rows by head before you cut,
// as shown above.
//
// *Shards drawn with one seed.* If each device draws its own shards with the same seed, all devices
// get the same shards. They then also get the same gradients, so the shards stay equal, and the
// network has only a quarter of its columns. Draw the whole matrix and cut it, as `vit_start()` and
// `vit_new()` do.
//
// After 20 steps, the losses are between 0.896 and 1.008. If you did not know the right one, would
// you suspect any of them? Compare a few steps with one device, bit by bit, and you find all four.

// ## Summary
//
// - Cut the first of two layers by columns and the second one by rows. Then the pair needs only one
//   sum per pass: at its end in the forward pass, and at its beginning in the backward pass.
// - A transformer block consists of attention and an MLP, two such pairs. In attention, the columns
//   are heads.
// - Cutting by rows cuts sums. If one device adds the same groups in the same tree, then 2, 4 or 8
//   devices compute the same bits.
// - Compared with data parallelism, splitting the layers sends about $b T / (3 D)$ times as many
//   bytes, and they are hard to hide behind computation.
// - Splitting the layers divides parameters, gradients, moments, and the activations inside the
//   pairs. It pays off if the links are fast, the network is wide, and a step has few tokens.
// - Sequence parallelism also divides the activations outside the pairs. An allreduce becomes a
//   reduce-scatter and an all-gather, and gradients of parameters that are not cut must be summed.
//
// ## Questions
//
// 1. Which parameters of a block does every device keep? What share of a block's parameters do they
//    make up at width 64?
// 2. Why are columns cut first and rows second? What would have to be exchanged if `up_weight` were
//    cut by rows and `down_weight` by columns?
// 3. All devices compute the layer norms. How do you know, without any exchange, that all of them
//    make the same update to `norm1_weight`?
// 4. A language model has D = 8192 and gets 4 sequences of 2048 tokens per step. By what factor
//    does a device send more or fewer bytes than with data parallelism? And with 1 sequence?
// 5. With 16 devices and 8 heads, what could you still split, and what would you have to exchange?
// 6. Three devices do not get the same bits as one. In which order would one device have to add to
//    match them? What would this mean for two, four and eight devices?
// 7. Someone compares the parameters with `allclose` after one step, with biases that start at 0.
//    Which of the four mistakes pass this test?
// 8. Delete the line of `vit_gradients()` that sums gradients, and run the program with `--devices
//    4 --sequence --steps 20`. What notices it? Which parameters would drift apart, and what would
//    you see without `--sequence`?

// ## Exercises
//
// `make exercise-10-1` (a block on t devices, forward and backward, without a tape) checks your
// part.

// ## The program

static double training_loop(Notebook *nb, Vit *v, DataIter *train_iter) {
    Tensor *X, *y, *losses[MOST_SPLIT];
    int times = nb->sequence ? 1 : nb->k; // devices that have the same loss
    Timer timer = {0};
    double acc = NAN;
    for (int epoch = 0; epoch < nb->flags.epochs && curves_more(nb->curves); epoch++) {
        double loss = 0;
        int images = 0;
        timer_start(&timer);
        data_iter_start(train_iter, epoch);
        while (curves_next(nb->curves, train_iter, &X, &y)) {
            vit_train_batch(v, X, y, nb->flags.lr, losses);
            loss += curves_loss(nb->curves, losses, times * X->shape[0]);
            images += times * X->shape[0];
        }
        timer_stop(&timer);
        if (interrupted()) break; // Ctrl-C: whole epochs are kept
        acc = vit_accuracy(v, nb->test_iter);
        curves_epoch(nb->curves, loss / images, acc, &timer);
    }
    return acc;
}

static void train(Notebook *nb) {
    const Flags *flags = &nb->flags;
    int k = nb->k;
    Device *devices[MOST_SPLIT];
    open_devices(devices, k);
    DataIter *train_iter =
        data_iter_new(nb->train_data, flags->batch_size, flags->shuffle, flags->seed);
    long steps = curves_begin(nb->curves, train_iter, devices, k, flags->lr);
    printf("training on %s: width %d, batch size %d, %ld minibatches\n", device_names(devices, k),
           nb->width, flags->batch_size, steps);
    float *start = nb->has_values ? vit_start(nb->width, flags->seed) : NULL;
    VitOptions options = {.width = nb->width, .sequence = nb->sequence};
    Vit *v = vit_new(options, devices, k, start);
    double acc = training_loop(nb, v, train_iter);
    if (steps == 0) acc = vit_accuracy(v, nb->test_iter);
    const char *diverged = curves_end(nb->curves, acc);
    if (nb->has_values && !interrupted()) book_result("accuracy %.3f%s", acc, diverged);
    free(start);
    vit_free(v);
    data_iter_free(train_iter);
}

static VitPlan plan_of(const Notebook *nb, int k, bool sequence) {
    return vit_plan(&nb->flags, nb->width, nb->train_data->count, 1, k, sequence);
}

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
    VitPlan plans[MOST_COMPARED] = {0};
    VitRun runs[MOST_COMPARED] = {0};
    int equal = 0;
    for (int r = 0; r < n; r++) plans[r] = plan_of(nb, counts[r], counts[r] > 1 && nb->sequence);
    bool usual = plans->steps == COMPARED_STEPS && nb->width == 64 && nb->flags.batch_size == 256 &&
                 nb->has_values && n == MOST_COMPARED;
    Prediction expected = usual ? ask_how_many() : (Prediction){0};
    run_all(plans, n, nb->train_data, runs);
    if (!interrupted()) {
        for (int r = 1; r < n; r++) equal += num_different_numbers(&runs[r], &runs[0]) == 0;
        print_bits(runs, n);
        predict_compare(expected, equal, "cases");
        Prediction times = usual ? ask_about_bytes() : (Prediction){0};
        predict_compare(times, print_sent(&runs[n > 3 ? 3 : n - 1]), "times");
        if (n == 2) print_split_memory(runs, 2, INFINITY);
    }
    vit_runs_free(runs, n);
}

// A wider network, with fewer images.
static void train_within_limit(const Notebook *nb) {
    const double limit = 100e6;
    VitPlan plans[] = {plan_of(nb, 1, false), plan_of(nb, 4, false), plan_of(nb, 4, true)};
    VitRun runs[3] = {0};
    for (int r = 0; r < 3; r++) {
        plans[r].width = 512;
        plans[r].lr = 3e-4f;
        if (plans[r].steps > 10) plans[r].steps = 10;
        if (plans[r].batch_size > 16) plans[r].batch_size = 16;
    }
    int n = plans->batch_size % 4 == 0 ? 3 : 2; // tokens are split into equal parts
    runs[0] = run_steps(&plans[0], nb->train_data);
    double before = devices_limit_memory(limit);
    for (int r = 1; r < n; r++) runs[r] = run_steps(&plans[r], nb->train_data);
    devices_limit_memory(before);
    if (!interrupted()) print_split_memory(runs, n, limit);
    vit_runs_free(runs, 3);
}

static void make_mistakes(const Notebook *nb) {
    VitRun runs[1 + NUM_MISTAKES], first[1 + NUM_MISTAKES]; // 20 steps; one step
    for (int m = 0; m <= NUM_MISTAKES; m++) {
        VitPlan plan = plan_of(nb, nb->k, false);
        plan.mistake = m == 0 ? NULL : &mistakes[m - 1];
        runs[m] = run_steps(&plan, nb->train_data);
        plan.steps = 1;
        first[m] = run_steps(&plan, nb->train_data);
    }
    if (!interrupted()) print_mistakes(runs, first);
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
    static const int counts[MOST_COMPARED] = {1, 2, 3, 4, 8};
    const char *png = book_timeline("_block.png");
    int n = 0; // the machine of the modelled clock may have fewer devices
    while (n < MOST_COMPARED && book_can_use_devices(counts[n])) n++;
    bool has_four = n > 3;
    train(nb);
    if (!interrupted()) compare_devices(nb, counts, n);
    if (!interrupted()) draw_block(png);
    if (!interrupted() && has_four && nb->width == 64) train_within_limit(nb);
    if (!interrupted() && modelled_machine()) {
        Prediction when = ask_when();
        predict_compare(when, print_when_it_pays(), "images");
    }
    if (!interrupted() && has_four && nb->has_values) make_mistakes(nb);
}

static void read_flags(Notebook *nb, int argc, char *argv[], bool *costs) {
    const Flag own_flags[] = {
        {"width", FLAG_INTEGER, &nb->width, "D", .help = "numbers of a token, a multiple of 8",
         .standard = "64", .least = 8, .most = 2048},
        {"sequence", FLAG_ON, &nb->sequence, .help = "split the tokens, too"},
        {"costs", FLAG_ON, costs, .help = "only model a step, split in both ways (CSV)"},
        {0},
    };
    nb->flags = book_begin(argc, argv,
                           "Trains a vision transformer on four devices that split its layers.\n"
                           "With --devices K: only on K devices, compared with one.",
                           "devices batch-size lr=0.001 epochs=5 seed train-size test-size steps "
                           "no-shuffle data csv live",
                           (Program){.own = own_flags,
                                     .quick_means = "--epochs 1 --train-size 5120 --test-size 2000",
                                     .next = "make exercise-10-1, or make run-11"});
    nb->k = book_devices(nb->flags.devices, 4, 1);
    nb->has_values = nb->flags.backend != BACKEND_MODEL;
    if (nb->k > MOST_SPLIT)
        die_usage("at most 8 devices", "--devices %d: the layers have 8 heads", nb->k);
    if (nb->sequence) check_equal_parts(&nb->flags, nb->k);
    if (nb->width % HEADS != 0)
        die_usage("a multiple of 8, such as 64",
                  "--width %d: each of 8 heads needs as many numbers", nb->width);
}

int main(int argc, char *argv[]) {
    static Notebook nb;
    bool costs = false;
    read_flags(&nb, argc, argv, &costs);
    if (costs && nb.flags.memory) die_usage("leave one of them out", "--costs with --memory");
    if (costs) {
        book_outputs("_costs.csv");
        tell_costs(&(VitPlan){
            .data = 1, .tensor = nb.k, .width = nb.width, .batch_size = nb.flags.batch_size});
        return book_end();
    }
    // Else only a training, and a comparison.
    bool story = nb.flags.devices == 0 && !nb.sequence;
    modelled_clock_use_ranks(true); // each device has its own host thread
    book_outputs("%s%s", nb.has_values ? ".csv .png" : "", story ? " _block.png _block.svg" : "");
    nb.curves = curves_new(&nb.flags, nb.has_values ? book_output(".csv") : NULL,
                           nb.has_values ? book_output(".png") : NULL);
    nb.train_data = fashion_mnist_open(nb.flags.data, true, nb.flags.train_size);
    nb.test_data = fashion_mnist_open(nb.flags.data, false, nb.flags.test_size);
    nb.test_iter = data_iter_new(nb.test_data, nb.flags.batch_size, false, 0);
    if (num_gpus() == 0 && nb.has_values) warn_if_cpu_is_slow();
    if (story && !nb.flags.memory)
        tell_the_story(&nb);
    else
        train(&nb);
    if (nb.flags.memory)
        say("(One device is not compared, because --memory limits it, too.)");
    else if (!story && nb.k > 1 && !interrupted())
        compare_devices(&nb, (const int[]){1, nb.k}, 2);
    curves_free(nb.curves);
    data_iter_free(nb.test_iter);
    dataset_free(nb.train_data);
    dataset_free(nb.test_data);
    return book_end();
}
