// networks.h: the networks of this chapter, made of chapter 5's modules.
#pragma once

#include "common/tensor/nn.h"

// Chapter 4's LeNet: X (n,1,28,28) -> (n,num_classes). W3 and W4 are (out,in) here, as in PyTorch.
Module *lenet_modules(int num_classes);

typedef struct NetworkKind {
    const char *name, *title;         // "lenet", "LeNet"
    Module *(*make)(int num_classes); // for initialize() and module_free()
} NetworkKind;

// LeNet and ResNet-18.
enum { NUM_NETWORKS = 2 };
extern const NetworkKind networks[NUM_NETWORKS];
