// fashion_mnist.h: the data set, and minibatches from it. Book: "The Image Classification Dataset",
// `load_data_fashion_mnist`.
//
// To read the data set, call fashion_mnist_open(). To go through it in minibatches, call
// data_iter_new(), then for each epoch data_iter_start() and data_iter_next() until that returns
// false. To choose the images of a step yourself (as a rank or a worker does), call dataset_read().
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "common/tensor/tensor.h"

// Images as they are in the file, count x rows x cols bytes, each with a label 0..9.
typedef struct Dataset {
    int count, rows, cols;
    uint8_t *images, *labels;
} Dataset;

enum { FASHION_MNIST_CLASSES = 10 };
extern const char *const fashion_mnist_names[FASHION_MNIST_CLASSES]; // "t-shirt", "trouser", ..

// Reads <directory>/train-images-idx3-ubyte[.gz] and its labels, or t10k-* if not `train`. Finds
// them under other usual names, too, and in the folders where other libraries keep them. If the
// directory is NULL, FASHION_MNIST_DIR in the environment says it, or else it is the folder of
// Debian's package dataset-fashion-mnist. die()s if a file is missing or not what it claims to be.
// With `limit` > 0 keeps only that many images, and die()s if there are fewer.
Dataset *fashion_mnist_open(const char *directory, bool train, int limit);
void dataset_free(Dataset *data);
// Writes the n images with these numbers, in this order, to host memory: X (n,1,rows,cols) in 0..1,
// and y (n).
void dataset_read(const Dataset *data, const int order[], int n, float *X, float *y);
// A checksum of its images and labels, to tell data sets apart.
uint32_t dataset_checksum(const Dataset *data);
// die()s if one of these outputs (NULL: none) would replace a file of the data set.
void fashion_mnist_keep(const char *directory, const char *const outputs[], int n);

// Minibatches (X (n,1,rows,cols) in 0..1, y (n)) in host memory, prepared by a thread while devices
// compute. The last minibatch of an epoch may be smaller.
typedef struct DataIter DataIter;
// With shuffle, each epoch has its own order, made from seed and epoch alone.
DataIter *data_iter_new(const Dataset *data, int batch_size, bool shuffle, uint64_t seed);
// Call this before the first data_iter_next() of each epoch. Epochs count from 0. The rest of an
// epoch that was not finished is dropped.
void data_iter_start(DataIter *iter, int epoch);
// Gets the next minibatch, or returns false at the end of the epoch. X and y belong to the iterator
// and stay valid until the next call, which waits for copies still being made from them
// (device_copy()).
bool data_iter_next(DataIter *iter, Tensor **X, Tensor **y);
// Begins epoch 0 and gets its first minibatch.
void data_iter_first(DataIter *iter, Tensor **X, Tensor **y);
int data_iter_batches(const DataIter *iter); // per epoch
void data_iter_free(DataIter *iter);
