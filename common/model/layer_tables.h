// layer_tables.h: networks that others have published training times of, as tables of layers, with
// shapes enough to tell what each layer computes, moves and has to learn. They are for the modelled
// clock only: nothing here can be trained. (The networks of chapter 1 can, and are chains of
// layers; Inception V3 is none.)
//
//     book_resnet18         any number of pixels: chapter 5's network, for one channel and ten
//                           classes, without the biases before batch normalization, which do
//                           nothing
//     resnet50, resnet101   224 x 224 pixels: He et al., arXiv 1512.03385, with the stride in the
//                           3x3 convolution ("v1.5"), as in torchvision and in NVIDIA's
//                           DeepLearningExamples
//     vgg16                 224 x 224: Simonyan and Zisserman, arXiv 1409.1556, without batch
//                           normalization
//     inception_v3          299 x 299: Szegedy et al., arXiv 1512.00567, without the auxiliary
//                           classifier, which helps to train and is then left out
//
// All others have 1000 classes. Their shapes are torchvision's, and the test compares parameters
// and multiplications with those that it publishes.
#pragma once

#include <stdbool.h>

typedef enum { TABLE_CONVOLUTION, TABLE_LINEAR, TABLE_POOLING, TABLE_ADDITION } TableKind;

// Part of an image that one output pixel sees, and how far apart these are.
typedef struct Window {
    int h, w, stride, pad_h, pad_w;
} Window;

typedef struct TableLayer {
    TableKind kind;
    int in, out;        // channels; of TABLE_LINEAR, units
    int side, out_side; // of the square images that go in and come out; of TABLE_LINEAR 1
    Window window;      // of TABLE_CONVOLUTION and TABLE_POOLING
    bool norm;          // batch normalization (two numbers for each channel) in place of a bias
    bool relu;          // follows
} TableLayer;

enum { MOST_TABLE_LAYERS = 160 };

typedef struct NetworkTable {
    const char *name;
    int num_layers;
    TableLayer layers[MOST_TABLE_LAYERS]; // in the order of forward
} NetworkTable;

NetworkTable book_resnet18(int side);
NetworkTable resnet50(void);
NetworkTable resnet101(void);
NetworkTable vgg16(void);
NetworkTable inception_v3(void);

// Numbers to learn.
double table_layer_params(const TableLayer *l);
double table_params(const NetworkTable *network);
