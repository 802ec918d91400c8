// mesh.h: a mesh of devices. Each of `data` networks gets a part of the images, and is split over
// `tensor` devices. As in PyTorch's DeviceMesh, device d tensor + t is number t of network d.
#pragma once

#include "vit.h"

typedef struct Mesh {
    int data, tensor;
    Vit *nets[MOST_SPLIT]; // `data` of them
} Mesh;

// options.data is set. `start` is what vit_new() gets.
Mesh *mesh_new(VitOptions options, Device *const devices[], int data, int tensor,
               const float *start);
void mesh_free(Mesh *m);
// One step of Adam. losses[i] (1) is the summed loss of the rows that device i has.
void mesh_train_batch(Mesh *m, const Tensor *X, const Tensor *y, float lr, Tensor *losses[]);
// Whether devices with the same parameters have the same bits. Waits.
bool mesh_copies_are_equal(const Mesh *m);

// The formula: the bytes that device i sends in a step, to its own network and to the others.
size_t mesh_bytes(const Mesh *m, int i, int images);
