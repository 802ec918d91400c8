// resnet18.h: the network of this chapter. Book: "Concise Implementation for Multiple GPUs",
// section "A Toy Network".
#pragma once

#include "common/tensor/nn.h"

// A slightly modified ResNet-18 (He et al., "Deep residual learning for image recognition", 2016):
// X (n,in_channels,28,28) -> scores (n,num_classes). Its parameters have the same names as in the
// book's PyTorch model. It has 11.2 million parameters with one input channel and ten classes.
Module *resnet18(int num_classes, int in_channels);

// A small version for experiments with many training runs: X (n,1,28,28) -> (n,num_classes). Its
// blocks are like those in resnet18(), with 8 channels instead of 64 in the first, and so on.
// Images are used at half their resolution.
Module *narrow_resnet18(int num_classes);
