// training.h: what every training does besides training. It counts steps and epochs, waits for the
// losses, logs them and stops where there is none any more, shows how far it is, prints a line and
// adds a point to the curves after each epoch, tells a trace where steps begin, and comes to an
// orderly end when it is interrupted.
// The loop itself stays with the algorithm:
//
//     Training t = {.flags = &flags, .animator = animator, .log = &loss_log, .iter = train_iter,
//                   .k = k, .lr = lr, .hint = "start again with a smaller --lr"};
//     training_start(&t);
//     while (next_epoch(&t)) {
//         while (next_batch(&t, &X, &y)) {
//             train_batch(X, y, device_params, devices, k, lr, losses);
//             end_batch(&t, losses);
//         }
//         if (interrupted()) break;
//         end_epoch(&t, evaluate_accuracy_gpu(lenet, device_params[0], test_iter, devices[0]));
//     }
//     training_end(&t, devices);
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
    DataIter *iter;   // of the training set
    int k;            // devices
    float lr;         // for the message when the loss is lost,
    const char *hint; // and what to do then
    // Where it begins, if not at the start of the first epoch; then, where it is:
    int epoch;  // the one that is trained, from 0
    long steps; // minibatches done
    // What is known so far, of the last epoch that ended:
    double train_loss, test_acc;
    double sec_per_epoch;          // of training alone, the mean; 0 if there was none
    double modelled_sec_per_epoch; // the same on the modelled clock; NAN without one
    double fastest, slowest;       // seconds of a whole epoch, measured; 0 if there was none
    // For training.c:
    int batches, first_epoch, epochs_ended; // the last: evaluated, too, and in the curves
    long total;                             // steps in all
    bool begun, over;
    double loss_sum, seconds; // of this epoch
    double modelled_seconds;
    bool no_values; // the devices only tell the time
    long images;
    int rows;       // of this minibatch
    Tensor *losses; // (k), on the host
    Timer timer;
    Progress progress;
} Training;

// The number of minibatches of a whole training of --epochs and --steps, with so many per epoch.
long training_steps(const Flags *flags, int batches);

void training_start(Training *t);

// Begins an epoch, if there is one left. With --steps 0 there is one without minibatches.
bool next_epoch(Training *t);

// The next minibatch of the epoch. At its end (or that of --steps, or when interrupted()) waits for
// all devices and returns false.
bool next_batch(Training *t, Tensor **X, Tensor **y);

// To be called when the minibatch's work is enqueued: losses[i] is the summed loss on device i.
// Waits for all k devices. If the mean loss is not finite, writes the log of the losses before it
// and die()s.
void end_batch(Training *t, Tensor *const losses[]);

// The epoch has been trained and evaluated; the accuracy is NaN if that was interrupted, or if the
// devices have no values. Prints the line of the epoch and draws the curves. Returns whether a
// whole epoch has ended: --steps may end within one.
bool end_epoch(Training *t, double test_acc);

// Prints the book's last line; if interrupted(), after which epoch that was, and what is kept.
void training_end(Training *t, Device *const devices[]);

// Prints how many times as long an epoch took in the second of two runs as in the first, measured,
// and returns it. If the epochs of a run differ by more than the runs, or there is but one whole
// epoch, it says that this is too noisy to compare, and returns NAN.
double compare_epochs(const Training *one, const Training *two);

#endif
