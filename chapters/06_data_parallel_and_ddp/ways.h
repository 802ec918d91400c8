// ways.h: the four ways of this book to train on k devices, behind one face: chapter 4's lines,
// chapter 5's wrapper, DataParallel, and DistributedDataParallel.
#ifndef WAYS_H
#define WAYS_H

#include "chapters/04_lenet_multi_gpu/lenet.h"
#include "chapters/05_resnet18_concise/data_parallel.h"
#include "ddp.h"
#include "dp.h"
#include "networks.h"

typedef enum { WAY_CHAPTER_4, WAY_CHAPTER_5, WAY_DP, WAY_DDP, NUM_WAYS_TO_TRAIN } WayKind;

typedef struct Way {
    WayKind kind;
    const NetworkKind *network; // of chapter 4 only LeNet
    int classes;                // of chapter 4 only 10
    int k;
    DpGathers gathers; // of DP
    DdpOptions ddp;    // of DDP,
    int micro_steps;   // and in how many parts a minibatch goes through it: 0 is one
    Module *net;       // one that is initialize()d already, and stays; NULL: a new one
} Way;

// "chapter 4", "chapter 5", "DP", "DDP"
const char *way_name(WayKind kind);

// A network that is trained in such a way.
typedef struct Trained {
    Way way;
    Device *devices[MAX_DEVICES];
    Module *net;                     // NULL in chapter 4's way,
    Tensor *(*params)[LENET_PARAMS]; // which has these
    DataParallel *wrapper;
    Dp *dp;
    Ddp *ddp;
    Tensor *losses[MAX_DEVICES]; // of the last step, or its last part
    int num_losses;
    // Called when a step has come to the end of a phase, if set: for those who count its bytes.
    // Those of DP are DpPhase; of DDP, 0 when buffers were broadcast and 1 at the end; of the
    // others, 0.
    void (*phase_ends)(int phase, void *context);
    void *context;
} Trained;

// The network from initialize(net, seed), or way->net from its start, on these k devices. For
// trained_free().
Trained *trained_new(const Way *way, Device *const devices[], uint64_t seed);
void trained_free(Trained *t);

// One step on a minibatch, X (n,1,28,28) and y (n) on the host. Enqueued, not waited for.
void trained_step(Trained *t, const Tensor *X, const Tensor *y, float lr);
// The loss of the last step, summed over the rows of all devices (of its last part). Waits.
double trained_loss(const Trained *t);
// All parameters on device i, one behind the other; free() them. Waits.
float *trained_params(const Trained *t, int i, size_t *n);

#endif
