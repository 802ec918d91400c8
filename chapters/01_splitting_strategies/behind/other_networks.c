// other_networks.c: the chapter's other networks as tables of layers.
#include "../network.h"

// ## Two networks with equal layers
//
// They are made to be cut into equal stages: a narrow one to be computed here, and a wide one for
// machines that compute faster. In the narrow one the first layer has more inputs, the pixels of an
// image. But no gradient with respect to the image is computed, so its work, forward and backward
// together, is about the same as the work of the other layers. In the wide one all layers do
// exactly the same work: the images have one pixel for each unit of a layer, their gradient is
// computed, too, and the last layer has a ReLU as well.
// clang-format off
#define EQUAL(name, in, width, ops_) {name, LINEAR, in, width, 1, 1, 1, .ops = ops_}
#define EIGHT(in, width, last_ops)                                                                 \
    {EQUAL("linear1", in, width, 3), EQUAL("linear2", width, width, 3),                            \
     EQUAL("linear3", width, width, 3), EQUAL("linear4", width, width, 3),                         \
     EQUAL("linear5", width, width, 3), EQUAL("linear6", width, width, 3),                         \
     EQUAL("linear7", width, width, 3), EQUAL("linear8", width, width, last_ops)}
const Network equal_network = {"eight equal layers", 1, 28, 8, EIGHT(784, 512, 2), false};
const Network wide_network = {"eight equal layers", 1, 64, 8, EIGHT(4096, 4096, 3), true};

// ## AlexNet and ResNet-18
//
// AlexNet: most of its parameters are in the first fully connected layer. Shapes as in
// torchvision's alexnet, which has 61,100,840 parameters.
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

// ResNet-18: hardly any fully connected part, but many large activations. Shapes as in
// torchvision's resnet18, which has 11,689,512 parameters. A residual block has two convolutions;
// the first one of a group halves the side and has a third, 1x1, on its shortcut. A block is not
// cut in two. Kept are the outputs of convolution, normalization and ReLU; of a block's last
// convolution also the sum with the shortcut.
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
    {{"conv1", CONV, 3, 64, 7, 112, 56, .stride = 2, .padding = 3, .ops = 3, .norm = true},
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
