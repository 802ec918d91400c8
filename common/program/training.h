// training.h: the loop over epochs and minibatches. It waits for the losses, logs them, and stops
// if one is not finite. It shows how far it is, and tells a trace where steps begin. After each
// epoch it prints a line and adds a point to the curves. When interrupted, it comes to an orderly
// end. To train, write two functions, a step and the accuracy, and call train_epochs().
//
//     Training t = {.flags = &flags, .iter = train_iter, .devices = devices, .k = k, .lr = lr,
//                   .step = step, .accuracy = accuracy, .context = &what_both_need, ..};
//     train_epochs(&t);
#ifndef TRAINING_H
#define TRAINING_H

#include "animator.h"
#include "flags.h"
#include "loss_log.h"
#include "progress.h"
#include "common/data/fashion_mnist.h"
#include "common/device/timer.h"

typedef struct Training {
    // Given by the caller:
    const Flags *flags; // --epochs, --steps, --log-loss
    Animator *animator;
    LossLog *log;
    DataIter *iter; // of the training set
    Device *const *devices;
    int k;
    float lr;
    // Enqueues the work of a minibatch: losses[i] is the summed loss on device i.
    void (*step)(struct Training *t, const Tensor *X, const Tensor *y, Tensor *losses[]);
    // Evaluates after each epoch; NaN if that was interrupted.
    double (*accuracy)(struct Training *t);
    void (*whole_epoch)(struct Training *t); // after each epoch that is complete; may be NULL
    void *context;                           // for these three
    // Where the training is. A training that goes on begins elsewhere than at 0.
    int epoch;  // from 0
    long steps; // minibatches done
    // What is known so far:
    bool no_values; // the devices only tell the time
    int batches;    // of an epoch
    int first_epoch;
    int epochs_ended; // evaluated, too, and in the curves
    // Of the last epoch that ended:
    double train_loss, test_acc;
    double sec_per_epoch;          // of training alone, the mean; 0 if there was none
    double modelled_sec_per_epoch; // the same on the modelled clock; NAN without one
    // For training.c:
    long total;                       // steps in all
    double seconds, modelled_seconds; // of this epoch
    Tensor *losses;                   // of a minibatch: (k), on the host
    Timer timer;
    Progress progress;
} Training;

// The number of minibatches that --epochs and --steps ask for, with `batches` in each epoch.
long training_steps(const Flags *flags, int batches);

// Each epoch trains with all minibatches, evaluates, and prints a line. --steps may end within an
// epoch, and --steps 0 only evaluates. At the end, or if interrupted(), prints the result. If the
// mean loss of a minibatch is not finite, writes the log of the losses before it and die()s.
void train_epochs(Training *t);

#endif
