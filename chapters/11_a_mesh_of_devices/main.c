// main.c: the story of chapter 11. README.md says how to run it and what to read.
#include "common/base/launcher.h"
#include "common/book.h"
#include "behind/behind.h"

typedef struct Notebook {
    Flags flags;
    int width, data, tensor; // the mesh's
    const char *mesh;        // "2x4", or NULL
    bool sequence;
    bool has_values; // not with --backend model
    Dataset *train_data, *test_data;
    DataIter *test_iter;
    Curves *curves;
} Notebook;

// ## Images and layers
//
// Data parallelism splits the images, and chapter 10 split the layers of a transformer. With eight
// devices, you need not choose between the two. You can make two copies of the network, split each
// over four devices, and give each half of the images. (From here on, such a copy is called a
// *network*.) The devices form a *mesh* of 2 x 4, in PyTorch `init_device_mesh("cuda", (2, 4))`:
//
// ```
//               part 0     part 1     part 2     part 3    of each layer
//
// network 0     device 0   device 1   device 2   device 3    has images 0 to 127
// network 1     device 4   device 5   device 6   device 7    has images 128 to 255
// ```
//
// In a row of the mesh, devices exchange the sums of the blocks, as in chapter 10. In a column,
// they have the same part of the parameters, and exchange its gradients. We number the devices so
// that those of a network are neighbours. Then they are usually in the same host. (This is `mesh.c`
// in chapter 10's folder. Chapter 10 compared with data parallelism, which is a mesh of k x 1.)
//
// 10_a_transformer/mesh.c:mesh_new
//
// A step begins with a forward and a backward pass in each network. Then the gradients are summed
// over each column, and every device updates its part:
//
// 10_a_transformer/mesh.c:mesh_train_batch
//
// 10_a_transformer/mesh.c:sum_over_networks
//
// So 8 x 1 devices are data parallelism, and 1 x 8 devices split one network. We train the
// transformer of chapter 10 for ten steps in all ways. *Tokens split* is sequence parallelism:
//
// behind/tables.c:print_meshes
//
// With more devices for each network, a device sends more within its network. But it has fewer
// parameters, so it sends less to other networks. (If the tokens are split, it sends 5/4 as much
// within its network, as chapter 10 explains.)
//
// All meshes compute the same bits. Chapter 10's tree orders only the sums that split layers cut,
// and this is not enough. The gradient of a weight is a sum over all tokens of the minibatch, and a
// mesh cuts this sum, too. So it is also added in groups, halves to halves. There are 32 of them. A
// network with a quarter of the images has 8. (The same holds for devices that split the tokens.)
//
// The mesh can also consist of chapter 8's ranks, with one device each (`over_ranks.c`). If a host
// has as many ranks as a network has devices, the sums of the blocks stay inside the host, and only
// gradients go to other hosts. `mpirun -n 4 build/11_a_mesh_of_devices --mesh 2x2` makes 20 steps
// with four ranks, and then finds no parameter that differs from one device's.
//
// ### A mesh in PyTorch
//
// In PyTorch, the network stays an ordinary one, and a plan says how each layer is split. Save this
// program for four ranks as `mesh.py`, and start it with `torchrun --nproc-per-node 4 mesh.py`:
//
// ```python
// import copy, torch
// from torch import distributed as dist, nn
// from torch.distributed.fsdp import fully_shard
// from torch.distributed.tensor import DTensor, Replicate, Shard, parallel as tp
// mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))  # or "cuda"
// torch.set_default_device(mesh.device_type)
// torch.set_default_dtype(torch.float64)  # so that a difference is not rounding
//
// class Net(nn.Module):
//     def __init__(self):
//         super().__init__()
//         self.norm, self.head = nn.LayerNorm(64), nn.Linear(64, 10)
//         self.up, self.gelu, self.down = nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)
//     def forward(self, X):  # (images,tokens,64)
//         return self.head(X + self.down(self.gelu(self.up(self.norm(X))))).mean(1)
//
// torch.manual_seed(0)  # every rank draws everything, and then uses its part
// whole, X, y = Net(), torch.randn(32, 16, 64), torch.randint(10, (32,))
// split = tp.parallelize_module(copy.deepcopy(whole), mesh["tensor"], {
//     "norm": tp.SequenceParallel(),  # its input is cut along dimension 1, the tokens
//     "up": tp.ColwiseParallel(input_layouts=Shard(1)),
//     "down": tp.RowwiseParallel(output_layouts=Shard(1)),
//     "head": tp.ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())})
// fully_shard(split, mesh=mesh["data"])
// d, t = mesh.get_coordinate()
// own_X, own_y = X.chunk(2)[d].chunk(2, 1)[t], y.chunk(2)[d]  # its network's images, its tokens
// for net, X, y in (split, own_X, own_y), (whole, X, y):
//     optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
//     for step in range(3):
//         optimizer.zero_grad()
//         nn.functional.cross_entropy(net(X), y).backward()
//         optimizer.step()
// split.unshard()  # joins what "data" cut; full_tensor() joins what "tensor" cut
// for p, q in zip(split.parameters(), whole.parameters()):
//     torch.testing.assert_close(p.full_tensor() if isinstance(p, DTensor) else p, q)
// print(f"rank {dist.get_rank()} has up {tuple(split.up.weight.to_local().shape)}: as one process")
// dist.destroy_process_group()
// ```
//
// `ColwiseParallel` gathers the tokens in front of a pair, like `enter()`, and `RowwiseParallel`
// ends like `leave()`. `fully_shard()` takes the mean of the gradients of all networks, because
// each loss is a mean. (It also divides what each rank keeps, like ZeRO-3.) You do not have to sum
// the gradients of layer norms yourself. PyTorch marks them as `Partial()`, parts of a sum, and
// adds the parts. Now leave out the line of the norm. The program still trains, but the comparison
// fails.
//
// `in_pytorch.py` in this folder does the same with the whole transformer. (The plan is beside
// `mesh_new()`, in the tab.) Queries, keys and values are three layers there, so that a rank's
// columns of each are whole heads. On eight GPUs, start it with `torchrun --nproc-per-node 8
// in_pytorch.py --mesh 2x4 --bf16 --save FOLDER`, and put your data into `minibatch()`.
//
// ## Which mesh is the fastest?
//
// In a minibatch of $b$ images with $T$ tokens of width $D$, if k devices form networks of t
// devices each, a device sends about $8 L \cdot b T D \cdot t / k$ numbers within its network, and
// $24 L D^2 / t$ numbers to others. (A network has $b t / k$ images. Each block has four sums, and
// each sends about twice the size of the network's tokens. A device has $12 L D^2 / t$ parameters,
// and sends about twice as many gradients. With exact factors, such as $2 (t-1)/t$, both terms are
// smaller by amounts that do not depend on t.) The sum is smallest if
//
// $$t = \sqrt{\frac{3 D k}{b T}}$$
//
// Below 1, this means: do not split the layers. For width 1024, 64 images and eight devices, it
// gives $\sqrt{3 \cdot 1024 \cdot 8 / 1024} = 4.9$. But it counts bytes, not time. Here are
// modelled times, in float32:
//
// main.c:ask_which_mesh
//
// behind/tables.c:print_best_mesh
//
// On the DGX and on the PCIe cards, the fastest mesh is the one next to the formula's t. The last
// machine has four GPUs in each host. There, 8 x 1 must send all gradients from host to host, and 1
// x 8 all sums. With 2 x 4, each network is inside a host, and each device sends only its quarter
// of the gradients to the other host. It is the fastest of the meshes, even with 512 images, where
// the formula says 1.7. This is the mesh that people use: split layers inside a host, and split
// images across hosts.
//
// ![A step of 2 x 4 devices on two hosts with one network card each, modelled. The four columns of
// the mesh share the cards.](plots/11_a_mesh_of_devices_step.png "Eight lanes over 171
// milliseconds. Up to 102, all devices compute and exchange sums in turn. Then pairs of devices,
// one of each host, exchange gradients one after the other, and update.")
//
// With 64 images, though, a single GPU is faster than all meshes on these two hosts. There are so
// few tokens that with 4 x 2, a device sends 17 MB of sums, but 152 MB of gradients. So it is the
// gradients that should stay inside a host: number the devices column by column. Then a step on 4 x
// 2 takes 42 ms instead of 147.6, less than on one GPU. (In lab 11, you do this with 2 x 4.) In
// both cases, the rule is to keep the larger exchange inside a host.
//
// The exchange of gradients can overlap with the backward pass (chapter 6), and the sums of a block
// cannot. In the next table, gradients are hidden as well as possible. In the rows of bfloat16,
// products are computed by tensor cores, and everything takes half the bytes, even what should stay
// in float32 (more about this below):
//
// behind/tables.c:print_best_hidden
//
// Both make splitting the layers less attractive, because the sums are now a larger part of a step.
// In bfloat16, 8 x 1 is the fastest with 512 images, and with 64, it is nearly as fast as 4 x 2. (4
// x 2 has sums that 8 x 1 does not have, and updates twice as many parameters as 2 x 4. So it can
// be slower than both.) On the other two machines, hidden gradients do not change which mesh is the
// fastest.
//
// ## Another number of devices
//
// A training that was stopped may have to continue on fewer devices. The parts that four devices
// keep must then be joined and cut again. `vit_save()` joins the parameters and both moments of
// Adam:
//
// 10_a_transformer/checkpoint.c:vit_save
//
// `vit_resume()` cuts them for the devices that there are. Here, a training on four devices stops
// after ten of its twenty steps, and continues on one or two devices:
//
// behind/tables.c:print_resharded
//
// PyTorch's `torch.distributed.checkpoint` reaches the same with files that have the parts and
// their places, so that no process ever needs the whole network.
//
// ## For a language model
//
// A model of text needs three more things. Its first layer looks up a row for each word, and its
// last one computes a logit for each word. Both are large, so each device keeps the rows of some
// words. (The softmax of the loss then needs the largest logit and a sum over all devices.) Dropout
// comes from a random generator. Outside the pairs, all devices must draw the same numbers, and
// inside, each must draw its own. Finally, attention masks later tokens, which changes nothing
// about the exchanges.
//
// ## Sixteen bits
//
// In a large mesh, gradients are added over hundreds of networks. What does rounding do to such a
// sum? On GPUs, transformers are usually trained in *bfloat16*, the upper half of a float32. It
// takes half the bytes, and the tensor cores of an A100 compute 312 TFLOP/s with it, instead
// of 19.5 in float32 without them. Its exponent has 8 bits, as in float32, so small gradients do
// not become 0 as in float16, and the loss needs no scaling. But it has only 7 bits after the
// point. Between 256 and 512, neighbours are 2 apart, and 256 + 1 is rounded to 256:
//
// sixteen_bits.c:round_to_bfloat16
//
// We give each of up to 1,024 devices the gradient of one image, rounded to bfloat16. (One CPU
// device computes them all, in float32. To save time, only every 17th number of each gradient is
// added.) Along a ring, each device rounds the sum that it passes on. Up a tree, the sum of each
// pair is rounded. The third sum is kept in float32 and rounded once:
//
// sixteen_bits.c:sum_along_ring
//
// main.c:ask_about_sums
//
// ![The error of the sum, compared with the exact sum of the rounded gradients. Along the ring, it
// grows about ninefold from 128 to 1,024 devices.](plots/11_a_mesh_of_devices_bf16.png "Three
// curves over 2 to 1,024 devices, both axes logarithmic. Along a ring, the error rises from 0.2 to
// 12 percent. Up a tree, it stays below 0.5 percent, and with a sum in float32 below 0.2 percent.")
//
// With 1,024 devices, the ring's error is 44 times as large as the tree's. As the sum grows, more
// and more numbers are too small to change it, like the 1 above. A sum in float32 need not cost
// bytes. In chapter 2's sharded allreduce, a device receives the bfloat16 numbers of all others for
// its part, and can add them in float32. (NCCL chooses between rings and trees, so you may not
// know which error you get.) One project's training was stable on 96 GPUs but not on
// 384, until gradients were no longer [added in
// bfloat16](https://github.com/pytorch/pytorch/issues/106395).
//
// An update of a weight is a sum, too. We train 100 steps with rounded weights, and the update is
// added either to a float32 copy or to the rounded weights. (All else is in float32.) The table
// counts how many of the 204,938 parameters, rounded to bfloat16, end where they started:
//
// behind/bfloat16.c:print_unmoved
//
// The 576 weights of layer norms start at 1, and the next bfloat16 below 1 is $1 - 1/256$. An
// update smaller than half of that step, 0.002, is rounded away, and Adam's updates are rarely
// larger than the learning rate of 0.001. In the float32 copy, they add up. Without it, all of them
// are lost. With the smaller rate, most other parameters do not move either. The loss hardly shows
// the first (0.773 instead of 0.760), but it does show the second (1.638 instead of 1.075).
//
// In PyTorch, `torch.autocast` keeps weights in float32, so their gradients, which DDP adds, are
// float32, too. After `net.bfloat16()`, there is no copy, and DDP adds in bfloat16. FSDP keeps its
// shards in the type that the network has (leave it in float32), and gathers them in `param_dtype`.
// Name the type in which it adds gradients, too: without `reduce_dtype`, it is bfloat16 up to
// PyTorch 2.14, and the network's own type from 2.15 on. (The library's reduce-scatter adds in the
// type that it sends. So gradients in float32 take twice as many bytes, and FSDP's three exchanges
// together 4/3 as many, unlike the sharded allreduce above.)
//
// ```python
// policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
// fully_shard(block, mp_policy=policy)
// ```

// ## Summary
//
// - In a mesh, layers are split over neighbours, and images over networks. Sums of a block stay in
//   a network, and gradients go from network to network.
// - About $\sqrt{3 D k / (b T)}$ devices for each network send the fewest bytes. Keep the larger
//   exchange inside a host. Usually, these are the sums of split layers.
// - If all sums are added in the same tree, then all meshes compute the same bits.
// - From a checkpoint of whole tensors, a training can continue on any number of devices.
// - In bfloat16, a number that is added to a large sum can be lost. So gradients are summed in
//   float32, and weights have a float32 copy.
//
// ## Questions
//
// 1. In a mesh of 2 x 4, which devices does device 5 exchange the sums of a block with, and which
//    ones the gradients?
// 2. With 4 x 2, a device sends 0.63 MB to other networks, and with 8 x 1, 1.43 MB. Why is it less
//    than half?
// 3. Sixteen devices in two hosts train a network of width 4096 with 32 sequences of 2048 tokens in
//    a step. Which t does the formula give, and which mesh would you try first?
// 4. Would a mesh of 3 x 1 have the bits of one device, with 24 images in a minibatch?
// 5. In `mesh_train_batch()`, delete the loop that sums over the networks, and run the program with
//    `--mesh 2x2 --steps 20 --epochs 1`. What notices it? Which numbers that you would look at
//    first say nothing?
// 6. Each of 1,024 devices has the same gradient 1 in bfloat16. What is the sum along the ring, and
//    what is it up the tree?
// 7. The weights of layer norms start at 1. With which learning rates would they move in bfloat16
//    without a float32 copy, if each update of Adam is at most as large as the learning rate?

// ## Exercises
//
// `make exercise-11-1` (four mistakes on a mesh) checks your part.

// ## The program

static double training_loop(Notebook *nb, Mesh *m, DataIter *train_iter) {
    Tensor *X, *y, *losses[MAX_DEVICES];
    int times = nb->sequence ? 1 : nb->tensor; // devices that have the same loss
    Timer timer = {0};
    double acc = NAN;
    for (int epoch = 0; epoch < nb->flags.epochs && curves_more(nb->curves); epoch++) {
        double loss = 0;
        int images = 0;
        timer_start(&timer);
        data_iter_start(train_iter, epoch);
        while (curves_next(nb->curves, train_iter, &X, &y)) {
            mesh_train_batch(m, X, y, nb->flags.lr, losses);
            loss += curves_loss(nb->curves, losses, times * X->shape[0]);
            images += times * X->shape[0];
        }
        timer_stop(&timer);
        if (interrupted()) break; // Ctrl-C: whole epochs are kept
        acc = vit_accuracy(m->nets[0], nb->test_iter);
        curves_epoch(nb->curves, loss / images, acc, &timer);
    }
    return acc;
}

static void train(Notebook *nb) {
    const Flags *flags = &nb->flags;
    int k = nb->data * nb->tensor;
    Device *devices[MAX_DEVICES];
    open_devices(devices, k);
    DataIter *train_iter =
        data_iter_new(nb->train_data, flags->batch_size, flags->shuffle, flags->seed);
    long steps = curves_begin(nb->curves, train_iter, devices, k, flags->lr);
    printf("training on %s: width %d, batch size %d, %ld minibatches\n", device_names(devices, k),
           nb->width, flags->batch_size, steps);
    float *start = nb->has_values ? vit_start(nb->width, flags->seed) : NULL;
    VitOptions options = {.width = nb->width, .sequence = nb->sequence};
    Mesh *m = mesh_new(options, devices, nb->data, nb->tensor, start);
    double acc = training_loop(nb, m, train_iter);
    if (steps == 0) acc = vit_accuracy(m->nets[0], nb->test_iter);
    const char *diverged = curves_end(nb->curves, acc);
    if (nb->has_values && !interrupted()) book_result("accuracy %.3f%s", acc, diverged);
    free(start);
    mesh_free(m);
    data_iter_free(train_iter);
}

static VitPlan plan_of(const Notebook *nb, int data, int tensor, bool sequence) {
    return vit_plan(&nb->flags, nb->width, nb->train_data->count, data, tensor, sequence);
}

static void train_and_compare(Notebook *nb) {
    VitPlan plans[] = {plan_of(nb, 1, 1, false), plan_of(nb, nb->data, nb->tensor, nb->sequence)};
    VitRun runs[2] = {0};
    train(nb);
    if (nb->flags.memory) {
        say("(One device is not compared, because --memory limits it, too.)");
        return;
    }
    run_all(plans, 2, nb->train_data, runs);
    if (!interrupted()) print_meshes(runs, 2);
    if (!nb->has_values && !interrupted())
        book_result("a device sends %.2f MB in a step", (double)runs[1].sent / 1e6);
    vit_runs_free(runs, 2);
}

static void compare_meshes(const Notebook *nb) {
    enum { MESHES = 8 };
    VitPlan plans[MESHES] = {plan_of(nb, 1, 1, false), plan_of(nb, 8, 1, false)};
    VitRun runs[MESHES] = {0};
    if (plans->batch_size % 8 != 0) {
        say("(Meshes need a --batch-size that 8 divides.)");
        return;
    }
    for (int r = 2; r < MESHES; r++) plans[r] = plan_of(nb, 8 >> r / 2, 1 << r / 2, r % 2);
    for (int r = 0; r < MESHES; r++) plans[r].steps = (plans[r].steps + 1) / 2;
    run_all(plans, MESHES, nb->train_data, runs);
    if (!interrupted()) print_meshes(runs, MESHES);
    vit_runs_free(runs, MESHES);
}

// Half of the steps on four devices, and then all others on one or two.
static void resume_on_others(const Notebook *nb) {
    enum { TIMES = 4 };
    VitPlan plans[TIMES];
    VitRun runs[TIMES] = {0};
    const char *file = book_output("_half.safetensors");
    if (!safetensors_built_in()) return;
    for (int r = 0; r < TIMES; r++) {
        plans[r] = plan_of(nb, 1, r < 2 ? 4 : 1 << (r - 2), false);
        plans[r].resume = r < 2 ? NULL : file;
    }
    plans[1].checkpoint = file;
    plans[1].steps /= 2;
    run_all(plans, TIMES, nb->train_data, runs);
    remove(file);
    if (!interrupted()) print_resharded(runs, TIMES);
    vit_runs_free(runs, TIMES);
}

static Prediction ask_which_mesh(void) {
    return predict_first("Eight GPUs of a DGX A100 train the network of width 1024 with 64 images "
                         "in a minibatch. Over how many devices is each network split in the "
                         "fastest mesh: 1, 2, 4 or 8?");
}

static Prediction ask_about_sums(void) {
    return predict_first(
        "Each of 1,024 devices has a gradient in bfloat16. Along a ring, 1,023 "
        "additions follow each other, up a tree only 10. How many times as large is "
        "the error of the sum along the ring?");
}

static void round_to_sixteen_bits(const Notebook *nb) {
    VitPlan plan = plan_of(nb, 1, 1, false);
    Prediction times = nb->train_data->count >= 1024 ? ask_about_sums() : (Prediction){0};
    predict_compare(times, draw_sums(&plan, nb->train_data), "times");
    print_unmoved(plan, nb->train_data);
}

static void tell_the_story(Notebook *nb) {
    const char *png = book_timeline("_step.png");
    if (book_can_use_devices(8)) compare_meshes(nb); // of the modelled clock's machine
    if (!interrupted() && modelled_machine()) {
        draw_mesh_step(png);
        Prediction best = ask_which_mesh();
        predict_compare(best, print_best_mesh(), "devices");
        print_best_hidden();
    }
    if (!interrupted() && book_can_use_devices(4) && nb->has_values) resume_on_others(nb);
    if (!interrupted() && nb->has_values) round_to_sixteen_bits(nb);
}

static void read_mesh(Notebook *nb) {
    char end;
    bool valid = !nb->mesh || sscanf(nb->mesh, "%dx%d%c", &nb->data, &nb->tensor, &end) == 2;
    if (!valid || nb->data < 1 || nb->tensor < 1 || nb->data > MOST_SPLIT)
        die_usage("networks x devices, such as 2x4", "--mesh %s is no mesh", nb->mesh);
    if (nb->sequence && !nb->mesh)
        die_usage("such as --mesh 2x4 --sequence", "--sequence without --mesh");
    if (nb->tensor > MOST_SPLIT)
        die_usage("at most 8 devices for a network", "%d devices: the layers have 8 heads",
                  nb->tensor);
    if (nb->sequence) check_equal_parts(&nb->flags, nb->data * nb->tensor);
}

static void read_flags(Notebook *nb, int argc, char *argv[]) {
    const Flag own_flags[] = {
        {"width", FLAG_INTEGER, &nb->width, "D", .help = "numbers of a token, a multiple of 8",
         .standard = "64", .least = 8, .most = 2048},
        {"mesh", FLAG_TEXT, &nb->mesh, "DxT",
         .help = "train D networks, each on T devices, and compare"},
        {"sequence", FLAG_ON, &nb->sequence, .help = "split the tokens, too"},
        {0},
    };
    nb->flags =
        book_begin(argc, argv,
                   "Trains a vision transformer for a few steps on meshes of eight devices, "
                   "and adds gradients in bfloat16.\n"
                   "mpirun -n 4 with --mesh 2x2: 20 steps on a mesh of four ranks (chapter "
                   "8), which are compared with one device's.",
                   "batch-size lr=0.001 epochs=5 seed train-size test-size steps no-shuffle "
                   "data csv live",
                   (Program){.own = own_flags,
                             .quick_means = "--epochs 1 --train-size 8192",
                             .next = "make exercise-11-1",
                             .of_ranks = true});
    nb->data = nb->tensor = 1;
    nb->has_values = nb->flags.backend != BACKEND_MODEL;
    read_mesh(nb);
    if (nb->width % HEADS != 0)
        die_usage("a multiple of 8, such as 64",
                  "--width %d: each of 8 heads needs as many numbers", nb->width);
}

// A launcher started several processes, which have one device each.
static int compare_ranks(Notebook *nb, int ranks) {
    const char *hint = "--mesh 2x2 with 4 ranks; they only compare 20 steps with one device's";
    if (nb->sequence || nb->flags.memory || !nb->has_values)
        die_usage(hint, "--sequence, --memory or --backend model with %d ranks", ranks);
    if (!nb->mesh || nb->data * nb->tensor != ranks)
        die_usage(hint, "%d ranks, but %s%s", ranks, nb->mesh ? "--mesh " : "no --mesh",
                  nb->mesh ? nb->mesh : "");
    nb->train_data = fashion_mnist_open(nb->flags.data, true, nb->flags.train_size);
    VitPlan plan = plan_of(nb, nb->data, nb->tensor, false);
    compare_over_ranks(&plan, nb->train_data, nb->flags.threads);
    dataset_free(nb->train_data);
    return book_end();
}

int main(int argc, char *argv[]) {
    static Notebook nb;
    ranks_before_flags();
    read_flags(&nb, argc, argv);
    int ranks = launch_read().size;
    if (ranks > 1) return compare_ranks(&nb, ranks);
    modelled_clock_use_ranks(true); // each device has its own host thread
    bool trains = nb.mesh && nb.has_values;
    book_outputs("%s%s%s", trains ? ".csv .png" : "", nb.mesh ? "" : " _step.png _step.svg",
                 !nb.mesh && nb.has_values ? " _half.safetensors _bf16.csv _bf16.png" : "");
    nb.curves = curves_new(&nb.flags, trains ? book_output(".csv") : NULL,
                           trains ? book_output(".png") : NULL);
    nb.train_data = fashion_mnist_open(nb.flags.data, true, nb.flags.train_size);
    nb.test_data = fashion_mnist_open(nb.flags.data, false, nb.flags.test_size);
    nb.test_iter = data_iter_new(nb.test_data, nb.flags.batch_size, false, 0);
    if (num_gpus() == 0 && nb.has_values) warn_if_cpu_is_slow();
    if (nb.mesh)
        train_and_compare(&nb);
    else
        tell_the_story(&nb);
    curves_free(nb.curves);
    data_iter_free(nb.test_iter);
    dataset_free(nb.train_data);
    dataset_free(nb.test_data);
    return book_end();
}
