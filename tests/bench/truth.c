// truth.c: is the modelled time true? What others have measured, beside what the modelled clock
// says of the same, on the machines in common/device/machines.
//
//     make truth                      the same, built first
//     build/tests/bench/truth
//     build/tests/bench/truth readme  the rows that README.md has, as Markdown
//
// It needs no GPU, nothing that it prints is measured here, and nothing was fitted to come out
// right but for what the machines' files say was. A ratio is modelled / measured.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "chapters/04_lenet_multi_gpu/lenet.h"
#include "chapters/05_resnet18_concise/data_parallel.h"
#include "chapters/05_resnet18_concise/resnet18.h"
#include "common/base/error.h"
#include "common/device/modelled_clock.h"
#include "common/program/say.h"
#include "common/tensor/step_graph.h"
#include "tests/published/synthetic_step.h"

// ---- the table -------------------------------------------------------------------------------

static bool as_markdown;

static void print_head(const char *title) {
    if (as_markdown) return;
    printf("\n%s\n  %-58s %10s %10s %7s\n", title, "", "measured", "modelled", "ratio");
}

// `in_readme`: what README.md calls this row, with its unit; NULL: it has none.
static void print_row(const char *what, const char *in_readme, double measured, double modelled) {
    double ratio = modelled / measured;
    if (as_markdown && in_readme)
        printf("| %s | %.4g | %.4g | %.2f |\n", in_readme, measured, modelled, ratio);
    if (!as_markdown) printf("  %-58s %10.5g %10.4g %7.2f\n", what, measured, modelled, ratio);
    fflush(stdout);
}

// Nobody has measured it.
static void print_modelled(const char *what, double modelled) {
    if (!as_markdown) printf("  %-58s %10s %10.4g\n", what, "", modelled);
}

static void explain(const char *text) {
    if (!as_markdown) say("%s", text);
}

// ---- the book's epochs -----------------------------------------------------------------------

enum { TRAINING_IMAGES = 60000, STEPS = 3 };

static Tensor *no_images(int n) {
    Tensor *X = tensor_new(host(), n, 1, 28, 28);
    tensor_fill(X, 0);
    return X;
}

static Tensor *no_labels(int n) {
    Tensor *y = tensor_new(host(), n);
    tensor_fill(y, 0);
    return y;
}

typedef double LastStep(Device *const devices[], int k, Tensor *X, Tensor *y);

// Modelled seconds of the last of some steps: in the first one, memory is new.
static double last_lenet_step(Device *const devices[], int k, Tensor *X, Tensor *y) {
    Tensor *params[LENET_PARAMS], *device_params[MAX_DEVICES][LENET_PARAMS], *losses[MAX_DEVICES];
    double begin = 0;
    lenet_init(params, 1);
    for (int i = 0; i < k; i++) get_params(params, LENET_PARAMS, devices[i], device_params[i]);
    for (int step = 0; step < STEPS; step++) {
        synchronize_all();
        begin = modelled_seconds();
        train_batch(X, y, device_params, devices, k, 0.2f, losses);
    }
    synchronize_all();
    double seconds = modelled_seconds() - begin;
    for (int i = 0; i < k; i++) free_params(device_params[i], LENET_PARAMS);
    free_params(params, LENET_PARAMS);
    return seconds;
}

static double last_resnet18_step(Device *const devices[], int k, Tensor *X, Tensor *y) {
    Tensor *losses[MAX_DEVICES];
    double begin = 0;
    Module *net = resnet18(10, 1);
    initialize(net, 0);
    DataParallel dp = data_parallel(net, devices, k, BN_RANK0);
    for (int step = 0; step < STEPS; step++) {
        synchronize_all();
        begin = modelled_seconds();
        train_step(&dp, X, y, 0.1f, losses);
    }
    synchronize_all();
    double seconds = modelled_seconds() - begin;
    module_free(net);
    return seconds;
}

static double epoch_seconds(const char *machine, LastStep *last_step, int k, int batch_size) {
    Device *devices[MAX_DEVICES];
    devices_close();
    modelled_clock_start(machine_find(machine));
    modelled_clock_use_framework(true);
    devices_init(BACKEND_MODEL, 0);
    open_devices(devices, k);
    Tensor *X = no_images(batch_size), *y = no_labels(batch_size);
    double steps = ceil((double)TRAINING_IMAGES / batch_size);
    double seconds = steps * last_step(devices, k, X, y);
    tensor_free(X);
    tensor_free(y);
    devices_close();
    modelled_clock_start(NULL);
    return seconds;
}

// The book does not say which GPUs it had, so this is a range.
static void book_rows(const char *what, LastStep *last_step, int k, int batch_size, double book) {
    static const char *const machines[] = {"colab-t4", "p100-25gbe", "dgx-v100", "dgx-a100",
                                           "dgx-h100"};
    char text[96], in_readme[96];
    snprintf(in_readme, sizeof in_readme, "the book's %s, s per epoch (modelled: V100)", what);
    for (int m = 0; m < 5; m++) {
        if (!machine_has_devices(machine_find(machines[m]), k)) continue;
        bool is_one = k == 2 && strcmp(machines[m], "dgx-v100") == 0;
        snprintf(text, sizeof text, "%s, on %s", what, machines[m]);
        print_row(text, is_one ? in_readme : NULL, book,
                  epoch_seconds(machines[m], last_step, k, batch_size));
    }
}

static void books_epochs(void) {
    print_head("Seconds per epoch in the book, in PyTorch, on GPUs that it does not name");
    choose_graph("off"); // the book's PyTorch launches kernel by kernel
    book_rows("LeNet, 1 GPU", last_lenet_step, 1, 256, 2.5);
    book_rows("LeNet, 2 GPUs", last_lenet_step, 2, 256, 2.6);
    book_rows("ResNet-18, 1 GPU", last_resnet18_step, 1, 256, 14.0);
    book_rows("ResNet-18, 2 GPUs", last_resnet18_step, 2, 512, 9.1);
    explain("  LeNet does not fit. Modelled are launches and kernels, with the images at hand; the "
            "book's clock includes its data loader, which makes 60000 images into tensors one by "
            "one, and takes several times as long as any of these GPUs. That, and launches by one "
            "Python program for both GPUs (the modelled time doubles, whatever the machine), is "
            "why the second GPU did not help. ResNet-18 computes for long enough to hide the "
            "loader: the book's times are those of GPUs between a V100 and an A100 in FP32, and "
            "the step from one to two GPUs, 1.54 times as fast, is smaller than the modelled one, "
            "as torch.nn.DataParallel also copies all parameters to the second GPU in each step.");
}

// ---- allreduce -------------------------------------------------------------------------------

static const double GB = 1e9, LARGE = 1 << 30;
// Each neighbour at two NVLinks; in the order 0, 1, ... there is none between 3 and 4, and 7 and 0.
static const int nvlink_order[8] = {0, 3, 2, 1, 5, 6, 7, 4};

static double ring_busbw(const char *machine, const int order[], int k, double bytes) {
    return busbw(bytes, ring_seconds(machine_find(machine), order, k, bytes, true), k) / GB;
}

static void switches(void) {
    print_row("DGX A100, 8 GPUs [1]",
              "an allreduce by NCCL on a DGX A100 (modelled: our ring), busbw, GB/s", 230,
              ring_busbw("dgx-a100", NULL, 8, LARGE));
    print_row("DGX H100, 8 GPUs, NCCL_ALGO=RING [2]", NULL, 370,
              ring_busbw("dgx-h100", NULL, 8, LARGE));
}

static void other_links(void) {
    Machine four_cards = *machine_find("dgx-a100");
    four_cards.cards = 4;
    const double bytes = 133169160, mesh = 120;
    double hosts = ring_seconds(&four_cards, NULL, 24, bytes, true);
    double both = two_rings_seconds(machine_find("dgx-v100"), nvlink_order, 8, LARGE);
    print_row("8 RTX 4090 without peer-to-peer, 128 MiB [3]", "the same on 8 RTX 4090", 14.45,
              ring_busbw("rtx4090-pcie", NULL, 8, 134217728));
    print_row("DGX-1 V100, a ring in the order of devices [4]", NULL, mesh,
              ring_busbw("dgx-v100", NULL, 8, LARGE));
    print_row("DGX-1 V100, a ring in the order of NVLinks [4]", NULL, mesh,
              ring_busbw("dgx-v100", nvlink_order, 8, LARGE));
    print_row("DGX-1 V100, that and one the other way round [4]", NULL, mesh,
              busbw(LARGE, both, 8) / GB);
    print_row("3 hosts of 8 A100, 4 cards of 200 Gb/s each, 127 MiB [5]",
              "the same on 24 A100 of 3 hosts with 4 cards each", 95.74,
              busbw(bytes, hosts, 24) / GB);
}

static void large_vectors(void) {
    print_head("Bus bandwidth of an allreduce by NCCL (nccl-tests); modelled: our ring; GB/s");
    switches();
    other_links();
    explain(
        "  [1] github.com/NVIDIA/nccl-tests/issues/149: what NCCL's author says is reached. [2] "
        "nccl-tests/issues/212, the same; with NVLink SHARP, which adds in the switch, 480. [3] "
        "blog.chlc.cc/p/rtx4090-gpudirect-p2p-unlocked. [4] not measured: 6 NVLinks of 20 GB/s, "
        "as NCCL reckons, github.com/NVIDIA/nccl, src/graph/topo.h. [5] nccl-tests/issues/119.");
    explain(
        "  Behind a switch it fits to a fifth, by two differences against each other: a copy by "
        "the driver uses the links better (packets of 256 bytes, NCCL's kernels send 128 [1]), "
        "but our ring adds when a part has arrived, NCCL while it arrives. On the RTX 4090s "
        "each GPU sends and receives at once, for which the path by way of the host had not "
        "twice but 1.1 times the rate [3]; the model has two ports there, one each way. On the "
        "DGX-1 our ring takes the devices in their order, and from 3 to 4 and from 7 to 0 there "
        "is only PCIe. In the order 0 3 2 1 5 6 7 4 it has two NVLinks at each step, but a "
        "device has six: NCCL runs several rings at once. A second one the other way round, on "
        "the other queue of each device, doubles the bandwidth. And of three hosts, one ring "
        "uses one card each, NCCL's four rings all four.");
}

static void small_vectors(void) {
    const Machine *pcie = machine_find("rtx4090-pcie"), *a100 = machine_find("dgx-a100");
    print_head("Time of a short allreduce by NCCL; modelled: our ring; microseconds");
    print_row("8 RTX 4090, 8 bytes [3]", NULL, 38.83, 1e6 * ring_seconds(pcie, NULL, 8, 8, false));
    print_row("  the same if its launches took no time", NULL, 38.83,
              1e6 * ring_seconds(pcie, NULL, 8, 8, true));
    print_row("2 A100, 32 bytes [6]", NULL, 10.14, 1e6 * ring_seconds(a100, NULL, 2, 32, false));
    print_row("  the same if its launches took no time", NULL, 10.14,
              1e6 * ring_seconds(a100, NULL, 2, 32, true));
    explain("  [6] github.com/NVIDIA/nccl/issues/583. Our ring is 2 (k-1) copies one after the "
            "other, each with the latency of a copy by the driver, and additions between them. "
            "NCCL's is one kernel on each device, which polls flags in memory and so needs a "
            "fraction of that. The clock tells the time of our ring, and that is no NCCL.");
}

// ---- training --------------------------------------------------------------------------------

// PyTorch's DistributedDataParallel closes a bucket at 25 MiB; Horovod's fusion buffer had 64.
static const double DDP_BUCKET = 25 << 20, HOROVOD_BUCKET = 64 << 20;

static void resnet50_rows(void) {
    Network network = resnet50();
    Step step = {&network, 1, 128, IN_BUCKETS, DDP_BUCKET, false};
    const Machine *dgx1 = machine_find("dgx-v100"), *a100 = machine_find("dgx-a100");
    print_head("Training ResNet-50 in PyTorch, images per second");
    print_row("DGX-1 V100, FP32, 1 GPU [7]", NULL, 367, images_per_second(dgx1, &step));
    step.devices = 8;
    print_row("DGX-1 V100, FP32, 8 GPUs [7]", NULL, 2855, images_per_second(dgx1, &step));
    step.exchange = AFTER_BACKWARD;
    print_row("  the same, gradients exchanged after backward", NULL, 2855,
              images_per_second(dgx1, &step));
    step = (Step){&network, 1, 256, IN_BUCKETS, DDP_BUCKET, true};
    print_row("DGX A100, TF32, 1 GPU [7]", NULL, 938, images_per_second(a100, &step));
    step.devices = 8;
    print_row("DGX A100, TF32, 8 GPUs [7]", "ResNet-50 on 8 A100, TF32, images/s", 7248,
              images_per_second(a100, &step));
}

static void dlperf_rows(void) {
    enum { RUNS = 5 };
    static const int devices[RUNS] = {1, 4, 8, 16, 32};
    static const double measured[RUNS] = {367.29, 1449.48, 2887.65, 5716.79, 10917.09};
    double modelled[RUNS];
    Network network = resnet50();
    Machine one_card = *machine_find("dgx-v100");
    one_card.cards = 1;
    for (int i = 0; i < RUNS; i++) {
        char what[64];
        Step step = {&network, devices[i], 128, IN_BUCKETS, DDP_BUCKET, false};
        modelled[i] = images_per_second(&one_card, &step);
        snprintf(what, sizeof what, "V100, 8 and a card of 100 Gb/s per host, FP32, %d in all [8]",
                 devices[i]);
        print_row(what, NULL, measured[i], modelled[i]);
    }
    for (int i = 2; i < RUNS; i += 2) {
        char what[64];
        snprintf(what, sizeof what, "  times as fast as one: %d", devices[i]);
        print_row(what,
                  devices[i] == 32 ? "ResNet-50 on 32 V100 of 4 hosts, times as fast as on one"
                                   : NULL,
                  measured[i] / measured[0], modelled[i] / modelled[0]);
    }
}

static void training(void) {
    resnet50_rows();
    dlperf_rows();
    explain("  [7] github.com/NVIDIA/DeepLearningExamples, PyTorch/Classification/ConvNets/"
            "resnet50v1.5; here with 128 images on each V100, 256 on each A100. [8] "
            "github.com/Oneflow-Inc/DLPerf, NVIDIADeepLearningExamples/PyTorch/resnet50v1.5 (one "
            "card is what its ibstat shows).");
    explain("  That one V100 fits says little: what its convolutions reach is an estimate from the "
            "first of these figures. How it scales says more: 8 GPUs and 32 fit within a few per "
            "cent, modelled a little too well, for there all steps are equal and the images are at "
            "hand. With TF32 the A100 of the model is too fast, although those measured had faster "
            "memory (80 GB, 2039 GB/s): products take little time there, so what is left counts, "
            "and 75 % of the peak for convolutions is known to be too much (dgx-a100.machine).");
}

// The machine with convolutions as fast as it takes to make so many images per second. More than
// the peak is possible: Winograd's algorithm needs fewer multiplications than are counted.
static Machine with_convolutions_for(const Machine *machine, const Step *one, double images) {
    Machine faster = *machine;
    double *efficiency = &faster.efficiency[COST_CONVOLUTION], low = 0.01, high = 100;
    for (int i = 0; i < 40; i++) {
        *efficiency = sqrt(low * high);
        if (images_per_second(&faster, one) < images)
            low = *efficiency;
        else
            high = *efficiency;
    }
    return faster;
}

static void horovod_scaling(const Network *network, double measured, const char *in_readme) {
    static const int devices[] = {4, 32, 128};
    const Machine *p100 = machine_find("p100-25gbe");
    char what[64];
    for (int i = 0; i < 3; i++) {
        Step step = {network, devices[i], 64, IN_BUCKETS, HOROVOD_BUCKET, false};
        snprintf(what, sizeof what, "%s, %d P100, efficiency", network->name, devices[i]);
        if (!as_markdown) print_modelled(what, scaling_efficiency(p100, &step));
    }
    Step step = {network, 512, 64, IN_BUCKETS, HOROVOD_BUCKET, false};
    snprintf(what, sizeof what, "%s, 512 P100, efficiency [10]", network->name);
    print_row(what, in_readme, measured, scaling_efficiency(p100, &step));
}

static double one_p100(const Network *network, double images) {
    Step one = {network, 1, 64, IN_BUCKETS, HOROVOD_BUCKET, false};
    char what[64];
    snprintf(what, sizeof what, "%s, 1 P100, images per second [9]", network->name);
    double modelled = images_per_second(machine_find("p100-25gbe"), &one);
    print_row(what, NULL, images, modelled);
    return modelled;
}

// VGG-16 has convolutions of 3x3 only, the ones that Winograd's algorithm is for.
static void vgg_with_winograd(const Network *vgg, double images, double efficiency) {
    Step step = {vgg, 1, 64, IN_BUCKETS, HOROVOD_BUCKET, false};
    Machine faster = with_convolutions_for(machine_find("p100-25gbe"), &step, images);
    step.devices = 512;
    print_row("  the same, if one P100 were as fast as in [9]",
              "the same, if one P100 were as fast as measured", efficiency,
              scaling_efficiency(&faster, &step));
}

static void horovod(void) {
    Network fifty = resnet50(), inception = inception_v3(), deep = resnet101(), vgg = vgg16();
    print_head("TensorFlow with Horovod, 4 P100 and a card of 25 Gb/s per host");
    one_p100(&fifty, 219);
    one_p100(&inception, 142);
    one_p100(&vgg, 154);
    horovod_scaling(&inception, 0.90, "Inception V3 on 512 P100 of 128 hosts, scaling efficiency");
    horovod_scaling(&deep, 0.90, NULL);
    horovod_scaling(&vgg, 0.68, "VGG-16 on the same");
    vgg_with_winograd(&vgg, 154, 0.68);
    explain("  [9] github.com/tensorflow/docs, site/en/r1/guide/performance/benchmarks.md: a P100 "
            "of a DGX-1, which is a little faster than the PCIe card of this machine. [10] "
            "github.com/horovod/horovod, docs/benchmarks.rst. Modelled with 64 images on each GPU, "
            "buckets of 64 MiB, and one flat ring over all GPUs, as NCCL had it then: each card "
            "sends and receives each byte twice, whatever the number of hosts, and what grows with "
            "it are 2 (k-1) latencies.");
    explain("  Two of the three fit. VGG-16 does not, because one P100 is more than twice as fast "
            "as the model says: cuDNN computes its 3x3 convolutions by Winograd's algorithm, with "
            "fewer multiplications than are counted. Where computing takes twice as long, more of "
            "the exchange hides behind it. With convolutions as fast as measured, most of the "
            "difference is gone; what is left has other causes: here, no network is ever shared "
            "with others, and no GPU late.");
}

int main(int argc, char *argv[]) {
    set_program_name(argv[0]);
    as_markdown = argc > 1 && strcmp(argv[1], "readme") == 0;
    if (argc > 2 || (argc > 1 && !as_markdown))
        die("tests/bench/truth [readme]", "what is to be printed?");
    if (as_markdown)
        printf("| | measured by others | modelled | ratio |\n|---|---|---|---|\n");
    else
        printf("Modelled time beside what others measured. Nothing here is measured.\n");
    books_epochs();
    large_vectors();
    small_vectors();
    training();
    horovod();
    return 0;
}
