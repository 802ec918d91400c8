// networks.h: the networks that others have published training times of, as lists of layers, with
// shapes enough to tell what each layer computes, moves and has to learn. They are for the modelled
// clock only: nothing here can be trained.
//
//     resnet50, resnet101   He et al., 2016, with the stride in the 3x3 convolution ("v1.5"), as in
//                           torchvision and in NVIDIA's DeepLearningExamples
//     vgg16                 Simonyan and Zisserman, 2014, without batch normalization
//     inception_v3          Szegedy et al., 2015, with the auxiliary classifier, as in torchvision
//
// The test compares their parameters and multiplications with torchvision's.
#ifndef PUBLISHED_NETWORKS_H
#define PUBLISHED_NETWORKS_H

#include <stdbool.h>

typedef enum { CONVOLUTION, LINEAR, POOLING, ADDITION } LayerKind;

// Part of an image that one output pixel sees, and how far apart these are.
typedef struct Window {
    int h, w, stride, pad_h, pad_w;
} Window;

typedef struct Layer {
    LayerKind kind;
    int in, out;        // channels; of LINEAR, units
    int side, out_side; // of the square images that go in and come out; of LINEAR 1
    Window window;      // of CONVOLUTION and POOLING
    bool norm;          // batch normalization (two numbers for each channel) in place of a bias
    bool relu;          // follows
    bool auxiliary;     // of a classifier beside the main path
} Layer;

enum { MOST_LAYERS = 160 };

typedef struct Network {
    const char *name;
    int num_layers;
    Layer layers[MOST_LAYERS]; // in the order of forward
} Network;

Network resnet50(void);
Network resnet101(void);
Network vgg16(void);
Network inception_v3(void);

// Numbers to learn, and multiplications for one image.
double layer_params(const Layer *l);
double layer_macs(const Layer *l);
double network_params(const Network *network);
double network_macs(const Network *network);

#endif
