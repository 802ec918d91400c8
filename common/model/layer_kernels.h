// layer_kernels.h: the kernels that a layer of a table would launch in a step: the book's own, with
// the layer's shapes. Whoever asks says what is to be done with each: launch it on a device that
// computes nothing, or add up what it costs.
#pragma once

#include "kernels/kernels.h"
#include "layer_tables.h"

typedef struct KernelTaker {
    // Is given each kernel, in order, with its arguments (struct NAME_args, of `size` bytes).
    void (*take)(void *context, KernelId kernel, const void *args, size_t size);
    void *context;
    float *anywhere; // stands for all that kernels read and write; not NULL
} KernelTaker;

// For so many images on one device. The images have no gradient, so the first layer (`is_first`)
// passes none on.
void table_layer_forward(const KernelTaker *to, const TableLayer *l, int images);
void table_layer_backward(const KernelTaker *to, const TableLayer *l, int images, bool is_first);
// The cross-entropy at the end of forward, and its gradient.
void table_loss(const KernelTaker *to, const NetworkTable *network, int images);
// A step of SGD by gradients that are sums over so many images.
void table_update(const KernelTaker *to, const NetworkTable *network, int images);
