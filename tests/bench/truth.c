// truth.c: is the modelled time true? What others have measured, beside what the modelled clock
// says of the same, on the machines in common/model/machines.
//
//     make truth                      the same, built first
//     build/tests/bench/truth
//     build/tests/bench/truth readme  the rows that README.md here has, as Markdown
//
// It needs no GPU, nothing that it prints is measured here, and nothing was fitted to come out
// right but for what the machines' files say was. A ratio is modelled / published.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chapters/08_many_machines/modelled_scaling.h"
#include "common/base/error.h"
#include "common/program/say.h"
#include "tests/published/book_epochs.h"
#include "tests/published/synthetic_step.h"

// ---- the table -------------------------------------------------------------------------------

static bool as_markdown;

static void print_head(const char *title) {
    if (as_markdown) return;
    printf("\n%s\n  %-58s %10s %10s %7s\n", title, "", "published", "modelled", "ratio");
}

// `in_readme`: what README.md calls this row, with its unit; NULL: it has none.
static void print_row(const char *what, const char *in_readme, double published, double modelled) {
    double ratio = modelled / published;
    if (as_markdown && in_readme)
        printf("| %s | %.4g | %.4g | %.2f |\n", in_readme, published, modelled, ratio);
    if (!as_markdown) printf("  %-58s %10.5g %10.4g %7.2f\n", what, published, modelled, ratio);
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

// A run of the book. Its English edition does not say which GPUs it had; its Chinese one does.
typedef struct BookRun {
    const char *what, *in_readme;
    BookTraining *training;
    int gpus, batch_size;
    double english, chinese; // seconds per epoch
} BookRun;

static const BookRun book_runs[] = {
    {"LeNet, 1 GPU", NULL, train_lenet, 1, 256, 2.5, 2.7},
    {"LeNet, 2 GPUs", "the book's LeNet on 2 GPUs (modelled: V100), seconds per epoch", train_lenet,
     2, 256, 2.6, 3.6},
    {"ResNet-18, 1 GPU", NULL, train_resnet18, 1, 256, 14.0, 12.2},
    {"ResNet-18, 2 GPUs", "the book's ResNet-18 on 2 GPUs (modelled: V100), seconds per epoch",
     train_resnet18, 2, 512, 9.1, 7.4},
};
enum { BOOK_RUNS = sizeof book_runs / sizeof *book_runs };

static void print_book_run(const BookRun *run, const char *machine, const char *in_readme,
                           double measured) {
    char text[96];
    snprintf(text, sizeof text, "%s, %s", run->what, machine);
    print_row(text, in_readme, measured,
              book_epoch_seconds(machine_find(machine), run->training, run->gpus, run->batch_size));
}

static void books_epochs(void) {
    static const char *const machines[] = {"colab-t4", "p100-25gbe", "dgx-a100", "dgx-h100"};
    print_head("Seconds per epoch in the book's Chinese edition, in PyTorch; modelled: V100 [1]");
    for (int r = 0; r < BOOK_RUNS; r++)
        print_book_run(&book_runs[r], "dgx-v100", book_runs[r].in_readme, book_runs[r].chinese);
    print_head("In its English edition, on GPUs that it does not name, so beside several");
    for (int r = 0; r < BOOK_RUNS; r++)
        for (int m = 0; m < 4 && !as_markdown; m++)
            if (machine_has_devices(machine_find(machines[m]), book_runs[r].gpus))
                print_book_run(&book_runs[r], machines[m], NULL, book_runs[r].english);
    explain("  [1] github.com/d2l-ai/d2l-zh-pytorch-colab, use-gpu.ipynb, another notebook of it, "
            "shows V100-SXM2. [2] "
            "github.com/d2l-ai/d2l-pytorch-colab, image-classification-dataset.ipynb.");
    explain("  LeNet does not fit. Modelled are launches and kernels, with the images at hand; the "
            "book's clock includes its data loader, and to read the training images alone takes "
            "3.69 seconds there [2] (in smaller minibatches): more than the epoch. So the second "
            "GPU could not help. Nor would it if the images were at hand: one Python program "
            "launches for both, and the modelled time doubles, whatever the machine. ResNet-18 "
            "computes long enough to hide the loader. One V100 is faster than modelled: most of "
            "its convolutions are 3x3, for which cuDNN has algorithms with fewer multiplications "
            "than are counted. From one GPU to two the book gains less than modelled: "
            "torch.nn.DataParallel also copies all parameters to the second one in each step.");
}

// ---- allreduce -------------------------------------------------------------------------------

static const double GB = 1e9, LARGE = 1 << 30;
// Each neighbour at two NVLinks; in the order 0, 1, ... there is none between 3 and 4, and 7 and 0.
static const int nvlink_order[8] = {0, 3, 2, 1, 5, 6, 7, 4};

static double ring_busbw(const char *machine, const int order[], int k, double bytes) {
    return busbw(bytes, ring_seconds(machine_find(machine), order, k, bytes, true), k) / GB;
}

static void switches(void) {
    print_row("DGX A100, 8 GPUs [3]",
              "an allreduce by NCCL on a DGX A100 (modelled: our ring), busbw, GB/s", 230,
              ring_busbw("dgx-a100", NULL, 8, LARGE));
    print_row("DGX H100, 8 GPUs, NCCL_ALGO=RING [4]", NULL, 370,
              ring_busbw("dgx-h100", NULL, 8, LARGE));
}

static void other_links(void) {
    Machine four_cards = *machine_find("dgx-a100");
    four_cards.cards = 4;
    const double bytes = 133169160, mesh = 120;
    double hosts = ring_seconds(&four_cards, NULL, 24, bytes, true);
    double both = two_rings_seconds(machine_find("dgx-v100"), nvlink_order, 8, LARGE);
    print_row("8 RTX 4090 without peer-to-peer, 128 MiB [5]", "the same on 8 RTX 4090", 14.45,
              ring_busbw("rtx4090-pcie", NULL, 8, 134217728));
    print_row("DGX-1 V100, a ring in the order of devices [6]", NULL, mesh,
              ring_busbw("dgx-v100", NULL, 8, LARGE));
    print_row("DGX-1 V100, a ring in the order of NVLinks [6]", NULL, mesh,
              ring_busbw("dgx-v100", nvlink_order, 8, LARGE));
    print_row("DGX-1 V100, that and one the other way round [6]", NULL, mesh,
              busbw(LARGE, both, 8) / GB);
    print_row("3 hosts of 8 A100, 4 cards of 200 Gb/s each, 127 MiB [7]",
              "the same on 24 A100 of 3 hosts with 4 cards each", 95.74,
              busbw(bytes, hosts, 24) / GB);
}

static void large_vectors(void) {
    print_head("Bus bandwidth of an allreduce by NCCL (nccl-tests); modelled: our ring; GB/s");
    switches();
    other_links();
    explain(
        "  [3] github.com/NVIDIA/nccl-tests/issues/149: what NCCL's author says is reached. [4] "
        "nccl-tests/issues/212, the same; with NVLink SHARP, which adds in the switch, 480. [5] "
        "blog.chlc.cc/p/rtx4090-gpudirect-p2p-unlocked. [6] not measured: 6 NVLinks of 20 GB/s, "
        "as NCCL reckons, github.com/NVIDIA/nccl, src/graph/topo.h. [7] nccl-tests/issues/119.");
    explain(
        "  Behind a switch it fits to a fifth, by two differences against each other: a copy by "
        "the driver uses the links better (packets of 256 bytes, NCCL's kernels send 128 [3]), "
        "but our ring adds when a part has arrived, NCCL while it arrives. On the RTX 4090s "
        "each GPU sends and receives at once, for which the path by way of the host had not "
        "twice but 1.1 times the rate [5]; the model has two ports there, one each way. On the "
        "DGX-1 our ring takes the devices in their order, and from 3 to 4 and from 7 to 0 there "
        "is only PCIe. In the order 0 3 2 1 5 6 7 4 it has two NVLinks at each step, but a "
        "device has six: NCCL runs several rings at once. A second one the other way round, on "
        "the other queue of each device, doubles the bandwidth. And of three hosts, one ring "
        "uses one card each, NCCL's four rings all four.");
}

static void small_vectors(void) {
    const Machine *pcie = machine_find("rtx4090-pcie"), *a100 = machine_find("dgx-a100");
    print_head("Time of a short allreduce by NCCL; modelled: our ring; microseconds");
    print_row("8 RTX 4090, 8 bytes [5]", NULL, 38.83, 1e6 * ring_seconds(pcie, NULL, 8, 8, false));
    print_row("  the same if its launches took no time", NULL, 38.83,
              1e6 * ring_seconds(pcie, NULL, 8, 8, true));
    print_row("2 A100, 32 bytes [8]", NULL, 10.14, 1e6 * ring_seconds(a100, NULL, 2, 32, false));
    print_row("  the same if its launches took no time", NULL, 10.14,
              1e6 * ring_seconds(a100, NULL, 2, 32, true));
    explain("  [8] github.com/NVIDIA/nccl/issues/583. Our ring is 2 (k-1) copies one after the "
            "other, each with the latency of a copy by the driver, and additions between them. "
            "NCCL's is one kernel on each device, which polls flags in memory and so needs a "
            "fraction of that. The clock tells the time of our ring, and that is no NCCL.");
}

// ---- training --------------------------------------------------------------------------------

// PyTorch's DistributedDataParallel closes a bucket at 25 MiB; Horovod's fusion buffer had 64.
static const double DDP_BUCKET = 25 << 20, HOROVOD_BUCKET = 64 << 20;

static void resnet50_rows(void) {
    NetworkTable network = resnet50();
    Step step = {&network, 1, 128, IN_BUCKETS, DDP_BUCKET, false, false};
    const Machine *dgx1 = machine_find("dgx-v100"), *a100 = machine_find("dgx-a100");
    print_head("Training ResNet-50 in PyTorch, images per second");
    print_row("DGX-1 V100, FP32, 1 GPU [9]", NULL, 367, images_per_second(dgx1, &step));
    step.devices = 8;
    print_row("DGX-1 V100, FP32, 8 GPUs [9]", NULL, 2855, images_per_second(dgx1, &step));
    step.exchange = AFTER_BACKWARD;
    print_row("  the same, gradients exchanged after backward", NULL, 2855,
              images_per_second(dgx1, &step));
    step = (Step){&network, 1, 256, IN_BUCKETS, DDP_BUCKET, true, false};
    print_row("DGX A100, TF32, 1 GPU [9]", NULL, 938, images_per_second(a100, &step));
    step.devices = 8;
    print_row("DGX A100, TF32, 8 GPUs [9]", "ResNet-50 on 8 A100, TF32, images/s", 7248,
              images_per_second(a100, &step));
}

static void dlperf_rows(void) {
    enum { RUNS = 5 };
    static const int devices[RUNS] = {1, 4, 8, 16, 32};
    static const double measured[RUNS] = {367.29, 1449.48, 2887.65, 5716.79, 10917.09};
    double modelled[RUNS];
    NetworkTable network = resnet50();
    Machine one_card = *machine_find("dgx-v100");
    one_card.cards = 1;
    for (int i = 0; i < RUNS; i++) {
        char what[64];
        Step step = {&network, devices[i], 128, IN_BUCKETS, DDP_BUCKET, false, false};
        modelled[i] = images_per_second(&one_card, &step);
        snprintf(what, sizeof what, "V100, 8 and a card of 100 Gb/s per host, FP32, %d in all [10]",
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
    explain("  [9] github.com/NVIDIA/DeepLearningExamples, PyTorch/Classification/ConvNets/"
            "resnet50v1.5; here with 128 images on each V100, 256 on each A100. [10] "
            "github.com/Oneflow-Inc/DLPerf, NVIDIADeepLearningExamples/PyTorch/resnet50v1.5 (one "
            "card is what its ibstat shows).");
    explain("  That one V100 fits says little: what its convolutions reach is an estimate from the "
            "first of these figures. How it scales says more: 8 GPUs and 32 fit within a tenth, "
            "modelled a little too well, for there all steps are equal and the images are at "
            "hand. With TF32 the A100 of the model is too fast, although those measured had faster "
            "memory (80 GB, 2039 GB/s): products take little time there, so what is left counts, "
            "and 75 % of the peak for convolutions is known to be too much (dgx-a100.machine).");
}

static Machine with_convolutions_times(const Machine *machine, double times) {
    Machine faster = *machine;
    for (int form = 0; form < NUM_FORMS; form++)
        for (int pass = 0; pass < NUM_PASSES; pass++) faster.convolution[form][pass] *= times;
    return faster;
}

// The machine with convolutions as fast as it takes to make so many images per second. More than
// the peak is possible: Winograd's algorithm needs fewer multiplications than are counted.
static Machine with_convolutions_for(const Machine *machine, const Step *one, double images) {
    double low = 0.01, high = 100;
    for (int i = 0; i < 40; i++) {
        Machine middle = with_convolutions_times(machine, sqrt(low * high));
        if (images_per_second(&middle, one) < images)
            low = sqrt(low * high);
        else
            high = sqrt(low * high);
    }
    return with_convolutions_times(machine, high);
}

static void horovod_scaling(const NetworkTable *network, double measured, const char *in_readme) {
    static const int devices[] = {4, 32, 128};
    const Machine *p100 = machine_find("p100-25gbe");
    char what[64];
    for (int i = 0; i < 3; i++) {
        Step step = {network, devices[i], 64, IN_BUCKETS, HOROVOD_BUCKET, false, false};
        snprintf(what, sizeof what, "%s, %d P100, efficiency", network->name, devices[i]);
        if (!as_markdown) print_modelled(what, scaling_efficiency(p100, &step));
    }
    Step step = {network, 512, 64, IN_BUCKETS, HOROVOD_BUCKET, false, false};
    snprintf(what, sizeof what, "%s, 512 P100, efficiency [12]", network->name);
    print_row(what, in_readme, measured, scaling_efficiency(p100, &step));
}

static double one_p100(const NetworkTable *network, double images) {
    Step one = {network, 1, 64, IN_BUCKETS, HOROVOD_BUCKET, false, false};
    char what[64];
    snprintf(what, sizeof what, "%s, 1 P100, images per second [11]", network->name);
    double modelled = images_per_second(machine_find("p100-25gbe"), &one);
    print_row(what, NULL, images, modelled);
    return modelled;
}

// VGG-16 has convolutions of 3x3 only, the ones that Winograd's algorithm is for.
static void vgg_with_winograd(const NetworkTable *vgg, double images, double efficiency) {
    Step step = {vgg, 1, 64, IN_BUCKETS, HOROVOD_BUCKET, false, false};
    Machine faster = with_convolutions_for(machine_find("p100-25gbe"), &step, images);
    step.devices = 512;
    print_row("  the same, if one P100 were as fast as in [11]",
              "the same, if one P100 were as fast as measured", efficiency,
              scaling_efficiency(&faster, &step));
}

static void explain_vgg(const NetworkTable *vgg, double images) {
    if (as_markdown) return;
    double counted = 6 * table_macs(vgg) * images / 1e12; // forward, and backward twice as much
    say("  Two of the three fit. VGG-16 does not, because one P100 is more than twice as fast as "
        "the model says: %.0f images per second are %.1f TFLOP/s as they are counted here, above "
        "the card's peak of %.1f. cuDNN computes 3x3 convolutions with fewer multiplications, by "
        "Winograd's algorithm. Where computing takes twice as long, more of "
        "the exchange hides behind it. With one GPU as fast as measured, most of the difference "
        "is gone; what is left has other causes: here no link is shared with others, and no GPU "
        "is late.",
        images, counted, machine_find("p100-25gbe")->fp32 / 1e12);
}

static void horovod(void) {
    NetworkTable fifty = resnet50(), inception = inception_v3(false), deep = resnet101(),
                 vgg = vgg16();
    const PublishedScaling *p = published_scalings; // of these three; chapter 8 explains them
    print_head("TensorFlow with Horovod, 4 P100 and a card of 25 Gb/s per host");
    one_p100(&fifty, 219);
    one_p100(&inception, 142);
    one_p100(&vgg, 154);
    horovod_scaling(&inception, p[0].efficiency_512,
                    "Inception V3 on 512 P100 of 128 hosts, scaling efficiency");
    horovod_scaling(&deep, p[1].efficiency_512, NULL);
    horovod_scaling(&vgg, p[2].efficiency_512,
                    "VGG-16 on 512 P100 of 128 hosts, scaling efficiency");
    vgg_with_winograd(&vgg, 154, p[2].efficiency_512);
    explain("  [11] github.com/tensorflow/docs, site/en/r1/guide/performance/benchmarks.md: a P100 "
            "of a DGX-1, which is a little faster than the PCIe card of this machine. [12] "
            "github.com/horovod/horovod, docs/benchmarks.rst. Modelled with 64 images on each GPU, "
            "buckets of 64 MiB, and one flat ring over all GPUs, as NCCL had it then: each card "
            "sends and receives each byte twice, whatever the number of hosts, and what grows with "
            "it are 2 (k-1) latencies.");
    explain_vgg(&vgg, 154);
}

int main(int argc, char *argv[]) {
    set_program_name(argv[0]);
    as_markdown = argc > 1 && strcmp(argv[1], "readme") == 0;
    if (argc > 2 || (argc > 1 && !as_markdown))
        die("tests/bench/truth [readme]", "what is to be printed?");
    if (as_markdown)
        printf("| | published by others | modelled | ratio |\n|---|---|---|---|\n");
    else
        printf("Modelled time beside what others measured. Nothing here is measured.\n");
    books_epochs();
    large_vectors();
    small_vectors();
    training();
    horovod();
    return 0;
}
