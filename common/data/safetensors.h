// safetensors.h: named tensors in a file, in the format that PyTorch users know
// (huggingface/safetensors). A file has three parts: 8 bytes with the little-endian length of the
// header; the header in JSON, {"name": {"dtype": "F32", "shape": [..], "data_offsets": [begin,
// end]}, ..}; and the raw numbers.
//
// To write tensors, call safetensors_save(); to read them back, safetensors_load(). To look into a
// file that you know nothing about, call safetensors_open(). For a network, call save_parameters()
// and load_parameters() instead (checkpoints.h).
#pragma once

#include <stddef.h>
#include <stdint.h>
#include "common/tensor/tensor.h"

// Writes n named tensors (t->name), in this order, whole or not at all; die()s if that fails. Waits
// for the tensors' devices.
void safetensors_save(const char *path, Tensor *const tensors[], int n);

// Reads a file that must hold exactly these n tensors (by name, with the same shapes, F32) into
// them. Nothing is changed unless the whole file is good. Otherwise die()s and says what is wrong
// in which tensor. A prefix that PyTorch's wrappers put before all names ("module.", "_orig_mod.")
// is taken away, with a warning.
void safetensors_load(const char *path, Tensor *const tensors[], int n);

// A file may also hold integers (I64) without dimensions, such as PyTorch's num_batches_tracked,
// and texts by key (__metadata__), which other programs ignore.
typedef struct SafetensorsExtras {
    NamedCount *counts;
    int num_counts;
    const struct SafetensorsText { const char *key, *value; } * texts;
    int num_texts;
    // When reading, tensors whose names begin with one of these (NULL at the end) are ignored.
    const char *const *others;
} SafetensorsExtras;
void safetensors_save_with(const char *path, Tensor *const tensors[], int n,
                           const SafetensorsExtras *extras);
// Sets the value of each count that the file has. Other counts stay as they are. Reads no texts.
void safetensors_load_with(const char *path, Tensor *const tensors[], int n,
                           SafetensorsExtras *extras);

// A whole file, on the host. safetensors_open() die()s if it is not a good one.
typedef struct SafetensorsEntry {
    char *name;
    const char *dtype; // "F32" or "I64"
    int ndim, shape[8];
    size_t count;      // numbers
    size_t begin, end; // its bytes in the data of the file
    float *values;     // one of these two points into the file's data; the other is NULL
    int64_t *integers;
} SafetensorsEntry;
typedef struct SafetensorsFile {
    int n;
    SafetensorsEntry *entries;
    void *data;
    int num_texts;
    struct SafetensorsText *texts;
} SafetensorsFile;
SafetensorsFile safetensors_open(const char *path);
const SafetensorsEntry *safetensors_find(const SafetensorsFile *file,
                                         const char *name);                 // NULL: none
const char *safetensors_text(const SafetensorsFile *file, const char *key); // NULL: none
void safetensors_close(SafetensorsFile *file);

// false if this program was built without libjansson. Then all other functions here die().
bool safetensors_built_in(void);
