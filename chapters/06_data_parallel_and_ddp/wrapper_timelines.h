// wrapper_timelines.h: who is at work when, in a step of DP and of DDP.
#ifndef WRAPPER_TIMELINES_H
#define WRAPPER_TIMELINES_H

#include "common/tensor/tensor.h"

// A step of DP, of DDP with one bucket and of DDP with buckets of bucket_bytes, of ResNet-18 with
// `rows` rows on each of k devices, modelled: a picture, book_timeline("_modelled.png"), a Chrome
// trace, book_output("_modelled.json"), and what they show in words. Nothing without a machine.
// Returns the share of DP's step in which only device 0 is at work, 0..1; NAN without a machine.
double draw_modelled_wrappers(int k, int rows, size_t bucket_bytes);

// The same with LeNet and this minibatch on k devices here, measured:
// book_timeline("_measured.png").
void draw_measured_wrappers(int k, const Tensor *X, const Tensor *y, size_t bucket_bytes);

#endif
