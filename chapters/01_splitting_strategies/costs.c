// costs.c: AlexNet and ResNet-18 as tables of layers, and formulas that need nothing else; see
// costs.h.
#include "costs.h"

#include "common/base/error.h"

#include <math.h>

// ## Two networks of another size
//
// AlexNet: most of its parameters are in the first fully connected layer. Shapes as in
// torchvision's alexnet, which has 61,100,840 parameters.
// clang-format off
const Network alexnet_network = {
    "AlexNet", 3, 224, 8, .layers =
    // name, kind, in, out, kernel, side, side after pooling, outputs kept
    {{"conv1", CONV, 3, 64, 11, 55, 27, .stride = 4, .padding = 2, .ops = 2},
     {"conv2", CONV, 64, 192, 5, 27, 13, .padding = 2, .ops = 2},
     {"conv3", CONV, 192, 384, 3, 13, 13, .padding = 1, .ops = 2},
     {"conv4", CONV, 384, 256, 3, 13, 13, .padding = 1, .ops = 2},
     {"conv5", CONV, 256, 256, 3, 13, 6, .padding = 1, .ops = 2},
     {"linear6", LINEAR, 9216, 4096, 1, 1, 1, .ops = 3},
     {"linear7", LINEAR, 4096, 4096, 1, 1, 1, .ops = 3},
     {"linear8", LINEAR, 4096, 1000, 1, 1, 1, .ops = 2}},
};
// clang-format on

// ResNet-18: hardly any fully connected part, but many large activations. Shapes as in
// torchvision's resnet18, which has 11,689,512 parameters. A residual block has two convolutions;
// the first one of a group halves the side and has a third, 1x1, on its shortcut. A block is not
// cut in two. Kept are the outputs of convolution, normalization and ReLU; of a block's last
// convolution also the sum with the shortcut.
// clang-format off
#define FIRST(name, in, out, side)                                                                 \
    {name "a", CONV, in, out, 3, side, side, .stride = out / in, .padding = 1, .ops = 3,           \
     .norm = true, .joined = true}
#define SHORTCUT(name, in, out, side)                                                              \
    {name "s", CONV, in, out, 1, side, side, .stride = 2, .ops = 2, .norm = true,                  \
     .shortcut = true, .joined = true}
#define LAST(name, out, side, sent)                                                                \
    {name "b", CONV, out, out, 3, side, sent, .padding = 1, .ops = 4, .norm = true}
const Network resnet18_network = {
    "ResNet-18", 3, 224, 21, .layers =
    {{"conv1", CONV, 3, 64, 7, 112, 56, .stride = 2, .padding = 3, .ops = 3,
      .norm = true},
     FIRST("1", 64, 64, 56), LAST("1", 64, 56, 56),
     FIRST("2", 64, 64, 56), LAST("2", 64, 56, 56),
     FIRST("3", 64, 128, 28), SHORTCUT("3", 64, 128, 28), LAST("3", 128, 28, 28),
     FIRST("4", 128, 128, 28), LAST("4", 128, 28, 28),
     FIRST("5", 128, 256, 14), SHORTCUT("5", 128, 256, 14), LAST("5", 256, 14, 14),
     FIRST("6", 256, 256, 14), LAST("6", 256, 14, 14),
     FIRST("7", 256, 512, 7), SHORTCUT("7", 256, 512, 7), LAST("7", 512, 7, 7),
     FIRST("8", 512, 512, 7), LAST("8", 512, 7, 1), // then the mean of each channel
     {"linear", LINEAR, 512, 1000, 1, 1, 1, .ops = 2}},
};
// clang-format on

double network_params(const Network *network) {
    double sum = 0;
    for (int l = 0; l < network->num_layers; l++) sum += layer_params(&network->layers[l]);
    return sum;
}

double network_macs(const Network *network) {
    double sum = 0;
    for (int l = 0; l < network->num_layers; l++) sum += layer_macs(&network->layers[l]);
    return sum;
}

// ---- stages ----------------------------------------------------------------------------------

int network_pieces(const Network *network) {
    int pieces = 0;
    for (int l = 0; l < network->num_layers; l++) pieces += !network->layers[l].joined;
    return pieces;
}

// For each number of stages and each place to cut, the best that the layers before that place can
// do: the largest stage, and where its last stage begins. Each line of the table comes from the one
// before it.
void stages_of(const Network *network, int k, int first[]) {
    int n = network->num_layers, begin[MAX_LAYERS + 1][MAX_LAYERS + 1];
    double best[MAX_LAYERS + 1][MAX_LAYERS + 1]; // [stages][layers]
    CHECK(k >= 1 && k <= network_pieces(network), "a stage has at least one layer");
    for (int l = 0; l <= n; l++) best[0][l] = l == 0 ? 0 : INFINITY;
    for (int stages = 1; stages <= k; stages++)
        for (int end = 0; end <= n; end++) {
            double work = 0;
            best[stages][end] = INFINITY;
            for (int l = end - 1; l >= 0; l--) {
                work += layer_macs(&network->layers[l]);
                bool can_cut = l == 0 || !network->layers[l - 1].joined;
                double largest = fmax(work, best[stages - 1][l]);
                if (!can_cut || largest >= best[stages][end]) continue;
                best[stages][end] = largest;
                begin[stages][end] = l;
            }
        }
    first[k] = n;
    for (int stages = k; stages > 0; stages--) first[stages - 1] = begin[stages][first[stages]];
}

// ---- memory and work -------------------------------------------------------------------------

static double larger_part(int n, int k) { return equal_range(n, k, 0).count; }

static Memory memory_for(double params, double kept) {
    params *= sizeof(float);
    kept *= sizeof(float);
    return (Memory){params, kept, params + kept};
}

// The gradient of what an operation computed is there until it has been passed on: backward, those
// of two operations at a time.
static double gradients_at_once(const Layer *layer) {
    return 2.0 * layer->out * layer->side * layer->side;
}

// A pipeline's stage. All microbatches have gone forward before the first goes back, so all n rows
// are kept. What arrives from the stage before is kept too, and so is its gradient.
static Memory stage_memory(const Network *network, int first, int end, int n) {
    double image = (double)network->channels * network->side * network->side;
    double params = 0, kept = first == 0 ? image : 2 * layer_sent(&network->layers[first - 1]);
    double gradients = 0;
    for (int l = first; l < end; l++) {
        params += 2 * layer_params(&network->layers[l]);
        kept += layer_kept(&network->layers[l]);
        gradients = fmax(gradients, gradients_at_once(&network->layers[l]));
    }
    kept += gradients;
    return memory_for(params, n * kept);
}

// Device 0 has the larger part of the channels of each layer, and all channels after each gather.
static Memory memory_within(const Network *network, int k, int n) {
    double params = 0, kept = (double)network->channels * network->side * network->side;
    double gradients = 0;
    for (int l = 0; l < network->num_layers; l++) {
        const Layer *layer = &network->layers[l];
        double share = larger_part(layer->out, k) / layer->out;
        params += 2 * layer_params(layer) * share;
        kept += layer_kept(layer) * share + 2 * layer_sent(layer);
        gradients = fmax(gradients, gradients_at_once(layer) * share);
    }
    kept += gradients;
    return memory_for(params, n * kept);
}

Memory memory_of(const Strategy *strategy, const Network *network, int k, int n) {
    int first[MAX_LAYERS + 1];
    Memory most = {0, 0, 0};
    if (strategy == &within_layers) return memory_within(network, k, n);
    if (strategy == &across_data)
        return stage_memory(network, 0, network->num_layers, (int)larger_part(n, k));
    stages_of(network, k, first);
    for (int i = 0; i < k; i++) {
        Memory stage = stage_memory(network, first[i], first[i + 1], n);
        most.params = fmax(most.params, stage.params);
        most.activations = fmax(most.activations, stage.activations);
        most.both = fmax(most.both, stage.both);
    }
    return most;
}

static double stage_macs(const Network *network, int first, int end) {
    double macs = 0;
    for (int l = first; l < end; l++) macs += layer_macs(&network->layers[l]);
    return macs;
}

double busiest_share(const Strategy *strategy, const Network *network, int k, int n) {
    int first[MAX_LAYERS + 1];
    double most = 0;
    if (strategy == &across_data) return larger_part(n, k) / n;
    if (strategy == &across_layers) {
        stages_of(network, k, first);
        for (int i = 0; i < k; i++) most = fmax(most, stage_macs(network, first[i], first[i + 1]));
    } else {
        for (int l = 0; l < network->num_layers; l++) {
            const Layer *layer = &network->layers[l];
            most += layer_macs(layer) * larger_part(layer->out, k) / layer->out;
        }
    }
    return most / network_macs(network);
}
