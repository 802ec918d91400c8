// layer_tables.c: see layer_tables.h. Each function reads like the network's definition: what goes
// in, what comes out, layer by layer.
#include "layer_tables.h"
#include "common/base/error.h"

// What a layer gives to the next one.
typedef struct Images {
    int channels, side;
} Images;

static const Window one_by_one = {.h = 1, .w = 1, .stride = 1};

// A square window; `pad` pixels around the image.
static Window square(int size, int stride, int pad) {
    return (Window){.h = size, .w = size, .stride = stride, .pad_h = pad, .pad_w = pad};
}

// h x w, as many pixels out as in.
static Window same(int h, int w) {
    return (Window){.h = h, .w = w, .stride = 1, .pad_h = h / 2, .pad_w = w / 2};
}

// ## Layers

static TableLayer *append(NetworkTable *network, TableLayer layer) {
    CHECK(network->num_layers < MOST_TABLE_LAYERS,
          "a network has at most MOST_TABLE_LAYERS layers");
    TableLayer *added = &network->layers[network->num_layers++];
    *added = layer;
    return added;
}

static int side_after(int side, Window window) {
    return (side + 2 * window.pad_h - window.h) / window.stride + 1;
}

static TableLayer conv_layer(Images X, int out, Window window, bool norm, bool relu) {
    return (TableLayer){.kind = TABLE_CONVOLUTION,
                        .in = X.channels,
                        .out = out,
                        .side = X.side,
                        .out_side = side_after(X.side, window),
                        .window = window,
                        .norm = norm,
                        .relu = relu};
}

static Images out_of(const TableLayer *l) { return (Images){l->out, l->out_side}; }

// A convolution, batch normalization and ReLU.
static Images conv_norm_relu(NetworkTable *network, Images X, int out, Window window) {
    return out_of(append(network, conv_layer(X, out, window, true, true)));
}

// The same without ReLU: the end of a residual block.
static Images conv_norm(NetworkTable *network, Images X, int out, Window window) {
    return out_of(append(network, conv_layer(X, out, window, true, false)));
}

static Images conv_relu(NetworkTable *network, Images X, int out) {
    return out_of(append(network, conv_layer(X, out, same(3, 3), false, true)));
}

static Images pool(NetworkTable *network, Images X, Window window) {
    TableLayer l = conv_layer(X, X.channels, window, false, false);
    l.kind = TABLE_POOLING;
    return out_of(append(network, l));
}

static TableLayer *linear(NetworkTable *network, int in, int out) {
    return append(
        network,
        (TableLayer){.kind = TABLE_LINEAR, .in = in, .out = out, .side = 1, .out_side = 1});
}

// ## ResNet

// The sum of two branches, and ReLU.
static void addition(NetworkTable *network, Images Y) {
    append(network, (TableLayer){.kind = TABLE_ADDITION,
                                 .in = Y.channels,
                                 .out = Y.channels,
                                 .side = Y.side,
                                 .out_side = Y.side,
                                 .relu = true});
}

// 1x1 to fewer channels, 3x3, 1x1 to four times as many, plus the block's input; where that has
// another shape it goes through a 1x1 convolution.
static Images bottleneck(NetworkTable *network, Images X, int width, int stride) {
    Images Y = conv_norm_relu(network, X, width, one_by_one);
    Y = conv_norm_relu(network, Y, width, square(3, stride, 1));
    Y = conv_norm(network, Y, 4 * width, one_by_one);
    if (X.channels != Y.channels) conv_norm(network, X, 4 * width, square(1, stride, 0));
    addition(network, Y);
    return Y;
}

// They differ in how many blocks the third of four stages has.
static NetworkTable resnet(const char *name, int blocks_in_third) {
    const int blocks[] = {3, 4, blocks_in_third, 3};
    NetworkTable network = {.name = name};
    Images X = {3, 224};
    X = conv_norm_relu(&network, X, 64, square(7, 2, 3));
    X = pool(&network, X, square(3, 2, 1));
    for (int stage = 0; stage < 4; stage++)
        for (int block = 0; block < blocks[stage]; block++)
            X = bottleneck(&network, X, 64 << stage, stage > 0 && block == 0 ? 2 : 1);
    X = pool(&network, X, square(X.side, X.side, 0));
    linear(&network, X.channels, 1000);
    return network;
}

NetworkTable resnet50(void) { return resnet("ResNet-50", 6); }
NetworkTable resnet101(void) { return resnet("ResNet-101", 23); }

// Two of 3x3, plus the block's input; a 1x1 convolution without batch normalization gives that the
// same shape.
static Images basic_block(NetworkTable *network, Images X, int width) {
    int stride = X.channels == width ? 1 : 2;
    Images Y = conv_norm_relu(network, X, width, square(3, stride, 1));
    Y = conv_norm(network, Y, width, same(3, 3));
    if (stride == 2) append(network, conv_layer(X, width, square(1, stride, 0), false, false));
    addition(network, Y);
    return Y;
}

NetworkTable book_resnet18(int side) {
    NetworkTable network = {.name = "ResNet-18"};
    Images X = {1, side};
    X = conv_norm_relu(&network, X, 64, same(3, 3));
    for (int width = 64; width <= 512; width *= 2)
        for (int block = 0; block < 2; block++) X = basic_block(&network, X, width);
    X = pool(&network, X, square(X.side, X.side, 0));
    linear(&network, X.channels, 10);
    return network;
}

// ## VGG

NetworkTable vgg16(void) {
    static const int channels[5] = {64, 128, 256, 512, 512}, convolutions[5] = {2, 2, 3, 3, 3};
    NetworkTable network = {.name = "VGG-16"};
    Images X = {3, 224};
    for (int stage = 0; stage < 5; stage++) {
        for (int i = 0; i < convolutions[stage]; i++) X = conv_relu(&network, X, channels[stage]);
        X = pool(&network, X, square(2, 2, 0));
    }
    linear(&network, X.channels * X.side * X.side, 4096)->relu = true;
    linear(&network, 4096, 4096)->relu = true;
    linear(&network, 4096, 1000);
    return network;
}

// ## Inception V3
//
// Blocks of branches side by side, whose outputs are put one behind the other as channels. The
// letters are torchvision's names of the blocks.

static Images inception_a(NetworkTable *n, Images X, int pooled) {
    conv_norm_relu(n, X, 64, one_by_one);
    Images Y = conv_norm_relu(n, X, 48, one_by_one);
    conv_norm_relu(n, Y, 64, same(5, 5));
    Y = conv_norm_relu(n, X, 64, one_by_one);
    Y = conv_norm_relu(n, Y, 96, same(3, 3));
    conv_norm_relu(n, Y, 96, same(3, 3));
    Y = pool(n, X, same(3, 3));
    Y = conv_norm_relu(n, Y, pooled, one_by_one);
    return (Images){64 + 64 + 96 + pooled, Y.side};
}

static Images inception_b(NetworkTable *n, Images X) {
    conv_norm_relu(n, X, 384, square(3, 2, 0));
    Images Y = conv_norm_relu(n, X, 64, one_by_one);
    Y = conv_norm_relu(n, Y, 96, same(3, 3));
    conv_norm_relu(n, Y, 96, square(3, 2, 0));
    Y = pool(n, X, square(3, 2, 0));
    return (Images){384 + 96 + X.channels, Y.side};
}

static Images inception_c(NetworkTable *n, Images X, int narrow) {
    conv_norm_relu(n, X, 192, one_by_one);
    Images Y = conv_norm_relu(n, X, narrow, one_by_one);
    Y = conv_norm_relu(n, Y, narrow, same(1, 7));
    conv_norm_relu(n, Y, 192, same(7, 1));
    Y = conv_norm_relu(n, X, narrow, one_by_one);
    Y = conv_norm_relu(n, Y, narrow, same(7, 1));
    Y = conv_norm_relu(n, Y, narrow, same(1, 7));
    Y = conv_norm_relu(n, Y, narrow, same(7, 1));
    conv_norm_relu(n, Y, 192, same(1, 7));
    Y = pool(n, X, same(3, 3));
    Y = conv_norm_relu(n, Y, 192, one_by_one);
    return (Images){4 * 192, Y.side};
}

static Images inception_d(NetworkTable *n, Images X) {
    Images Y = conv_norm_relu(n, X, 192, one_by_one);
    conv_norm_relu(n, Y, 320, square(3, 2, 0));
    Y = conv_norm_relu(n, X, 192, one_by_one);
    Y = conv_norm_relu(n, Y, 192, same(1, 7));
    Y = conv_norm_relu(n, Y, 192, same(7, 1));
    conv_norm_relu(n, Y, 192, square(3, 2, 0));
    Y = pool(n, X, square(3, 2, 0));
    return (Images){320 + 192 + X.channels, Y.side};
}

static Images inception_e(NetworkTable *n, Images X) {
    conv_norm_relu(n, X, 320, one_by_one);
    Images Y = conv_norm_relu(n, X, 384, one_by_one);
    conv_norm_relu(n, Y, 384, same(1, 3));
    conv_norm_relu(n, Y, 384, same(3, 1));
    Y = conv_norm_relu(n, X, 448, one_by_one);
    Y = conv_norm_relu(n, Y, 384, same(3, 3));
    conv_norm_relu(n, Y, 384, same(1, 3));
    conv_norm_relu(n, Y, 384, same(3, 1));
    Y = pool(n, X, same(3, 3));
    Y = conv_norm_relu(n, Y, 192, one_by_one);
    return (Images){320 + 2 * 384 + 2 * 384 + 192, Y.side};
}

NetworkTable inception_v3(void) {
    NetworkTable network = {.name = "Inception V3"}, *n = &network;
    Images X = {3, 299};
    X = conv_norm_relu(n, X, 32, square(3, 2, 0));
    X = conv_norm_relu(n, X, 32, square(3, 1, 0));
    X = conv_norm_relu(n, X, 64, same(3, 3));
    X = pool(n, X, square(3, 2, 0));
    X = conv_norm_relu(n, X, 80, one_by_one);
    X = conv_norm_relu(n, X, 192, square(3, 1, 0));
    X = pool(n, X, square(3, 2, 0));
    X = inception_a(n, X, 32);
    X = inception_a(n, X, 64);
    X = inception_a(n, X, 64);
    X = inception_b(n, X);
    X = inception_c(n, X, 128);
    X = inception_c(n, X, 160);
    X = inception_c(n, X, 160);
    X = inception_c(n, X, 192);
    X = inception_d(n, X);
    X = inception_e(n, X);
    X = inception_e(n, X);
    X = pool(n, X, square(X.side, X.side, 0));
    linear(n, X.channels, 1000);
    return network;
}

// ## Totals

double table_layer_params(const TableLayer *l) {
    if (l->kind == TABLE_POOLING || l->kind == TABLE_ADDITION) return 0;
    int window = l->kind == TABLE_CONVOLUTION ? l->window.h * l->window.w : 1;
    return ((double)l->in * window + (l->norm ? 2 : 1)) * l->out;
}

double table_params(const NetworkTable *network) {
    double params = 0;
    for (int l = 0; l < network->num_layers; l++) params += table_layer_params(&network->layers[l]);
    return params;
}
