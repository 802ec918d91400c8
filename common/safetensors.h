// safetensors.h: parameters in a file, in the format that PyTorch users know
// (huggingface/safetensors): 8 bytes of little-endian header length, a JSON header {"name":
// {"dtype": "F32", "shape": [..], "data_offsets": [begin, end]}, ..}, then the raw numbers.
#ifndef SAFETENSORS_H
#define SAFETENSORS_H

#include <stddef.h>
#include "tensor.h"

// Writes n named tensors (t->name), in this order, whole or not at all; die()s if that fails. Waits
// for the tensors' devices.
void safetensors_save(const char *path, Tensor *const tensors[], int n);

// Reads a file that must hold exactly these n tensors (by name, with the same shapes, F32) into
// them. Nothing is changed unless the whole file is good; else die()s and says what is wrong in
// which tensor.
void safetensors_load(const char *path, Tensor *const tensors[], int n);

// For tests and tools that do not know what a file holds: all of it, on the host. die()s on a bad
// file.
typedef struct SafetensorsEntry {
    char *name;
    int ndim, shape[8];
    size_t count;  // numbers
    float *values; // points into the file's data
} SafetensorsEntry;
typedef struct SafetensorsFile {
    int n;
    SafetensorsEntry *entries;
    void *data;
} SafetensorsFile;
SafetensorsFile safetensors_open(const char *path);
const SafetensorsEntry *safetensors_find(const SafetensorsFile *file,
                                         const char *name); // NULL: none
void safetensors_close(SafetensorsFile *file);

#endif
