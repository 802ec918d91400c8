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

static double rounded(double x) { return x; }

// `in_readme`: one of the few rows that README.md has, too.
static void print_row(const char *what, double measured, double modelled, bool in_readme) {
    if (as_markdown && in_readme)
        printf("| %s | %.4g | %.4g | %.2f |\n", what, measured, rounded(modelled),
               modelled / measured);
    if (!as_markdown)
        printf("  %-58s %10.4g %10.4g %7.2f\n", what, measured, modelled, modelled / measured);
    fflush(stdout);
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
static void book_row(const char *what, LastStep *last_step, int k, int batch_size, double book) {
    static const char *const machines[] = {"colab-t4", "p100-25gbe", "dgx-v100", "dgx-a100",
                                           "dgx-h100"};
    char text[96];
    for (int m = 0; m < 5; m++) {
        if (!machine_has_devices(machine_find(machines[m]), k)) continue;
        double seconds = epoch_seconds(machines[m], last_step, k, batch_size);
        snprintf(text, sizeof text, "%s, %s", what, machines[m]);
        print_row(text, book, seconds, strcmp(machines[m], "dgx-v100") == 0);
    }
}

static void books_epochs(void) {
    print_head("Seconds per epoch in the book (PyTorch, median of its published runs)");
    choose_graph("off"); // the book's PyTorch launches kernel by kernel
    book_row("LeNet, 1 GPU", last_lenet_step, 1, 256, 2.5);
    book_row("LeNet, 2 GPUs", last_lenet_step, 2, 256, 2.6);
    book_row("ResNet-18, 1 GPU", last_resnet18_step, 1, 256, 14.0);
    book_row("ResNet-18, 2 GPUs", last_resnet18_step, 2, 512, 9.1);
    explain("  LeNet does not fit, and cannot: its GPUs need a tenth of a second, and what the "
            "book's clock shows is its data loader, which turns 60000 images into tensors in four "
            "processes. The modelled clock takes the images to be there. So the book's second GPU "
            "could not help. ResNet-18 computes long enough to hide the loader: one GPU fits a "
            "V100, and two fit as far as the exchange does (the book's PyTorch copies all "
            "parameters to GPU 1 in each step, too).");
}

// ---- allreduce -------------------------------------------------------------------------------

static const double GB = 1e9, LARGE = 1 << 30;
// Each neighbour at two NVLinks; in the order 0, 1, ... there is none between 3 and 4, and 7 and 0.
static const int nvlink_order[8] = {0, 3, 2, 1, 5, 6, 7, 4};

static double ring_busbw(const char *machine, const int order[], int k, double bytes) {
    return busbw(bytes, ring_seconds(machine_find(machine), order, k, bytes, true), k) / GB;
}

static void large_vectors(void) {
    print_head("Bus bandwidth of an allreduce by NCCL (nccl-tests), beside that of our ring, GB/s");
    print_row("DGX A100, 8 GPUs [1]", 230, ring_busbw("dgx-a100", NULL, 8, LARGE), true);
    print_row("DGX H100, 8 GPUs, NCCL_ALGO=RING [2]", 370, ring_busbw("dgx-h100", NULL, 8, LARGE),
              true);
    double bytes = 134217728;
    print_row("8 RTX 4090 without peer-to-peer, 128 MiB [3]", 14.45,
              ring_busbw("rtx4090-pcie", NULL, 8, bytes), true);
    double both = two_rings_seconds(machine_find("dgx-v100"), nvlink_order, 8, LARGE);
    print_row("DGX-1 V100, ring in the order of devices [4]", 120,
              ring_busbw("dgx-v100", NULL, 8, LARGE), true);
    print_row("DGX-1 V100, ring in the order of NVLinks [4]", 120,
              ring_busbw("dgx-v100", nvlink_order, 8, LARGE), false);
    print_row("DGX-1 V100, that and one the other way round [4]", 120, busbw(LARGE, both, 8) / GB,
              true);
    Machine four_cards = *machine_find("dgx-a100");
    four_cards.cards = 4;
    bytes = 133169160;
    double hosts = busbw(bytes, ring_seconds(&four_cards, NULL, 24, bytes, true), 24) / GB;
    print_row("3 hosts of 8 A100, 4 cards of 200 Gb/s each, 127 MiB [5]", 95.74, hosts, true);
}

static void explain_large_vectors(void) {
    explain(
        "  [1] github.com/NVIDIA/nccl-tests/issues/149, NCCL's author: what should be reached. "
        "[2] nccl-tests/issues/212, the same; with NVLink SHARP, which sums in the switch, NCCL "
        "reaches 480, and we have no such algorithm. [3] "
        "blog.chlc.cc/p/rtx4090-gpudirect-p2p-unlocked. [4] not measured: 6 NVLinks of 20 "
        "GB/s, as NCCL reckons, github.com/NVIDIA/nccl, src/graph/topo.h. [5] "
        "nccl-tests/issues/119.");
    explain("  Switches fit. The machine's links are as copy engines find them, with 256 bytes in "
            "a packet; NCCL copies by kernels, with 128 [1], so on an A100 it is slower than our "
            "ring. RTX 4090: the file has 22 GB/s each way, of two GPUs; here eight go through "
            "two processors' memory, and sending and receiving at once had 21 GB/s together [3]. "
            "The model has no port for that. DGX-1: our ring takes the devices in their order, "
            "and from 3 to 4 there is only PCIe. In the order 0 3 2 1 5 6 7 4 it goes by NVLink, "
            "but by one of the ways that NCCL uses at once; two rings, as many as a device has "
            "queues, use two thirds of the links. Three hosts: one ring leaves a host by one card, "
            "NCCL's four rings by four.");
}

static void small_vectors(void) {
    const Machine *pcie = machine_find("rtx4090-pcie"), *a100 = machine_find("dgx-a100");
    print_head("Time of a short allreduce, microseconds");
    print_row("8 RTX 4090, 8 bytes [3]", 38.83, 1e6 * ring_seconds(pcie, NULL, 8, 8, false), false);
    print_row("  the same as one launch", 38.83, 1e6 * ring_seconds(pcie, NULL, 8, 8, true), true);
    print_row("2 A100, 32 bytes [6]", 10.14, 1e6 * ring_seconds(a100, NULL, 2, 32, false), false);
    print_row("  the same as one launch", 10.14, 1e6 * ring_seconds(a100, NULL, 2, 32, true), true);
    explain("  [6] github.com/NVIDIA/nccl/issues/583. Our ring is 2 (k-1) copies and k-1 additions "
            "on each device, one after the other, and each begins with the latency of a copy by "
            "the driver; NCCL's is one kernel on each device, which polls flags in its "
            "neighbour's memory. So a short allreduce of ours is several times slower than NCCL's, "
            "and that is no error of the clock.");
}

// ---- training --------------------------------------------------------------------------------

// PyTorch's DistributedDataParallel closes a bucket at 25 MiB; Horovod's fusion buffer had 64.
static const double DDP_BUCKET = 25 << 20, HOROVOD_BUCKET = 64 << 20;

static void resnet50_rows(void) {
    Network network = resnet50();
    Step step = {&network, 1, 128, IN_BUCKETS, DDP_BUCKET, false};
    const Machine *dgx1 = machine_find("dgx-v100"), *a100 = machine_find("dgx-a100");
    print_head("Training ResNet-50 (PyTorch), images per second");
    print_row("DGX-1 V100, FP32, 1 GPU [7] (the file's efficiency is from it)", 367,
              images_per_second(dgx1, &step), true);
    step.devices = 8;
    print_row("DGX-1 V100, FP32, 8 GPUs [7]", 2855, images_per_second(dgx1, &step), true);
    step.exchange = AFTER_BACKWARD;
    print_row("  the same, exchange after backward", 2855, images_per_second(dgx1, &step), false);
    step = (Step){&network, 1, 256, IN_BUCKETS, DDP_BUCKET, true};
    print_row("DGX A100, TF32, 1 GPU [7]", 938, images_per_second(a100, &step), true);
    step.devices = 8;
    print_row("DGX A100, TF32, 8 GPUs [7]", 7248, images_per_second(a100, &step), true);
}

static void dlperf_rows(void) {
    static const int devices[] = {1, 4, 8, 16, 32};
    static const double measured[] = {367.29, 1449.48, 2887.65, 5716.79, 10917.09};
    Network network = resnet50();
    Machine one_card = *machine_find("dgx-v100");
    one_card.cards = 1;
    for (int i = 0; i < 5; i++) {
        char what[64];
        Step step = {&network, devices[i], 128, IN_BUCKETS, DDP_BUCKET, false};
        snprintf(what, sizeof what, "8 V100 and a card of 100 Gb/s a host, %d GPUs [8]",
                 devices[i]);
        print_row(what, measured[i], images_per_second(&one_card, &step), devices[i] == 32);
    }
    explain("  [7] github.com/NVIDIA/DeepLearningExamples, PyTorch/Classification/ConvNets/"
            "resnet50v1.5, with 128 images on a V100 and 256 on an A100. [8] "
            "github.com/Oneflow-Inc/DLPerf, NVIDIADeepLearningExamples/PyTorch/resnet50v1.5.");
    explain("  V100: one GPU fits because the machine's file was made to fit it; what is told here "
            "is the scaling, up to 32 GPUs. What is missing in the model: data loading, which had "
            "all of a host's GPUs to feed, and steps that differ in length. A100 in TF32 does not "
            "fit: FLOP are no longer what takes time, and our model has each batch normalization, "
            "ReLU and addition read and write memory once, while TF32's convolutions reach "
            "less of their peak than the 75 % of FP32 that the file has for both.");
}

// A network with one device; and its scaling to many.
static void horovod_rows(Network network, double images, double efficiency) {
    const Machine *p100 = machine_find("p100-25gbe");
    char what[64];
    if (images > 0) {
        Step one = {&network, 1, 64, IN_BUCKETS, HOROVOD_BUCKET, false};
        snprintf(what, sizeof what, "%s, 1 P100, images per second [9]", network.name);
        print_row(what, images, images_per_second(p100, &one), true);
    }
    if (efficiency > 0) {
        static const int devices[] = {4, 32, 128, 512};
        for (int i = 0; i < 4; i++) {
            Step step = {&network, devices[i], 64, IN_BUCKETS, HOROVOD_BUCKET, false};
            double modelled = scaling_efficiency(p100, &step);
            snprintf(what, sizeof what, "%s, %d P100, scaling efficiency [10]", network.name,
                     devices[i]);
            if (devices[i] == 512)
                print_row(what, efficiency, modelled, true);
            else if (!as_markdown)
                printf("  %-58s %10s %10.3f\n", what, "-", modelled);
        }
    }
}

static void horovod(void) {
    print_head("Training with TensorFlow and Horovod, 4 P100 and a card of 25 Gb/s a host");
    horovod_rows(resnet50(), 219, 0);
    horovod_rows(inception_v3(), 142, 0.90);
    horovod_rows(resnet101(), 0, 0.90);
    horovod_rows(vgg16(), 154, 0.68);
    explain("  [9] tensorflow.org/performance/benchmarks (2017), a P100 of a DGX-1, whose clock is "
            "higher than that of the PCIe card here. [10] github.com/horovod/horovod, "
            "docs/benchmarks.rst, 512 GPUs; 64 images each, buckets of 64 MiB, one flat ring over "
            "all GPUs, as NCCL had then.");
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
    explain_large_vectors();
    small_vectors();
    resnet50_rows();
    dlperf_rows();
    horovod();
    return 0;
}
