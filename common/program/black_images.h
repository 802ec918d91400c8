// black_images.h: images that are 0 in all pixels, for the checks of exercises.
//
// Where a network's biases begin with 0, a black image lets each layer put out 0, whatever its
// weights are; ReLU stays shut, and no gradient passes the last layer. So all that such a network
// can learn from black images are the biases of its last layer, the scores of the ten classes.
// These can be worked out without any network, from the labels alone, and they tell to the last
// digits which labels were in which minibatch, and in which order minibatches came.
#ifndef BLACK_IMAGES_H
#define BLACK_IMAGES_H

#include "common/data/fashion_mnist.h"

// So many images of side x side pixels; image i has the label i * i / 10 modulo 10, so that some
// labels come more often than others, and not in turn.
Dataset *black_images(int side, int count);

// The labels of all images, in the order of an epoch: shuffled by the seed.
void shuffled_labels(const Dataset *data, uint64_t seed, int epoch, uint8_t labels[]);

// What one update makes of the biases of the last layer, if a minibatch has these n labels.
void learn_labels(double biases[FASHION_MNIST_CLASSES], const uint8_t labels[], int n, double lr);

// The cross entropy of a label.
double loss_of_label(const double biases[FASHION_MNIST_CLASSES], int label);

#endif
