// pair.h: two devices that train one network, and how long a step takes them: measured on devices
// that compute, or modelled on those of a machine that need not be there.
#ifndef PAIR_H
#define PAIR_H

#include "common/program/flags.h"
#include "chapters/05_resnet18_concise/exercises/small_networks.h"

enum { K = 2 };

// Two devices and one minibatch. Each device has its own number of cores.
typedef struct Pair {
    Module *net;
    DataParallel both, first; // on both devices; on the first alone
    Tensor X, y;
    float lr;
    int rounds;    // of each measurement; the fastest counts
    bool modelled; // all times are
} Pair;
// X and y, its first minibatch, stay with the iterator.
Pair pair_of(const Flags *flags, Module *net, Device *const devices[K], const int threads[K],
             DataIter *iter);
// Model devices 0 and 1, and so many images of the book's size: shapes without values.
Pair modelled_pair(const Flags *flags, Module *net, int batch_size);

// What a step on n images takes the two with equal shards, with shards_for() their speeds, and the
// first one alone.
typedef struct Result {
    double slowdown; // what was asked for
    int n, rows[K];  // in proportion
    double speed[K], exchange;
    double equal, proportional, alone;    // seconds per step, measured or modelled
    double said_equal, said_proportional; // predicted
} Result;
// `slowdown` is only noted; speeds (images per second) and seconds of the exchange are known.
Result measure(Pair *p, int n, double slowdown, const double speed[K], double exchange);
// The same, after measuring those two.
Result measure_all(Pair *p, int n, double slowdown);

#endif
