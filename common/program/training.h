// training.h: what every training does besides training. It counts steps and epochs, waits for the
// losses, logs them and stops if one is not finite, shows how far it is, prints a line and adds a
// point to the curves after each epoch, tells a trace where steps begin, and comes to an orderly
// end when it is interrupted. To train, write two functions, a step and the accuracy, and call
// train_epochs().
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
    // To be given:
    const Flags *flags; // --epochs, --steps, --log-loss
    Animator *animator;
    LossLog *log;
    DataIter *iter; // of the training set
    Device *const *devices;
    int k;
    float lr;
    // Enqueues the work of a minibatch: losses[i] is the summed loss on device i.
    void (*step)(struct Training *t, const Tensor *X, const Tensor *y, Tensor *losses[]);
    // Of an epoch that has been trained; NaN if that was interrupted.
    double (*accuracy)(struct Training *t);
    void (*whole_epoch)(struct Training *t); // when a whole one has ended; or NULL
    void *context;                           // for these three
    // Where it begins, if not at the start of the first epoch; then, where it is:
    int epoch;  // the one that is trained, from 0
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
    double fastest, slowest;       // seconds of a whole epoch, measured; 0 if there was none
    // For training.c:
    long total;                       // steps in all
    double seconds, modelled_seconds; // of this epoch
    Tensor *losses;                   // of a minibatch: (k), on the host
    Timer timer;
    Progress progress;
} Training;

// The number of minibatches of a whole training of --epochs and --steps, with so many per epoch.
long training_steps(const Flags *flags, int batches);

// Each epoch trains with all minibatches, is evaluated, and prints its line; --steps may end within
// one, and with --steps 0 the network is only evaluated. At the end, or if interrupted(), prints
// what there is to say. If the mean loss of a minibatch is not finite, writes the log of the losses
// before it and die()s.
void train_epochs(Training *t);

// Prints how many times as long an epoch took in the second of two runs as in the first, measured,
// and returns it. If the epochs of a run differ by more than the runs, or there are fewer than
// five epochs, it says that this is too noisy to compare, and returns NAN.
double compare_epochs(const Training *one, const Training *two);

#endif
