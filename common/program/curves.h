// curves.h: what a training loop shows and keeps: its progress within an epoch, a line and a point
// of the curves after each epoch, as d2l's Animator does, and the result. The chapter writes the
// loop; chapter 4's training_loop() is an example.
//
// The curves go to a CSV file, from which gnuplot draws a PNG (plots/training_curves.gp) while the
// training goes on. Without gnuplot you get a warning and the CSV.
#pragma once

#include "flags.h"
#include "common/data/fashion_mnist.h"
#include "common/device/timer.h"

typedef struct Curves Curves;

// For all training runs of a program. With --live, the curves are also drawn as text. csv and png
// are NULL if there is nothing to draw (--backend model).
Curves *curves_new(const Flags *flags, const char *csv, const char *png);
void curves_free(Curves *curves); // waits for the last picture, and writes --log-loss

// A run begins. Returns how many minibatches --epochs and --steps ask for.
long curves_begin(Curves *curves, const DataIter *iter, Device *const devices[], int k, float lr);
// --resume: the run begins after this epoch instead, and the curves have these rows already.
void curves_go_on(Curves *curves, int epoch, const char *rows);

// Whether there are minibatches left to train: not after --steps, and not when interrupted().
bool curves_more(const Curves *curves);
// The next minibatch of the epoch, if curves_more() and data_iter_next(). Tells a trace that a step
// begins.
bool curves_next(Curves *curves, DataIter *iter, Tensor **X, Tensor **y);
// Waits for all devices, and returns the sum of their losses of this minibatch, which has so many
// rows. Shows it. If it is not finite, die()s; the curves of the epochs before are kept.
double curves_loss(Curves *curves, Tensor *const losses[], int rows);
// After each epoch: prints a line, and adds a point (devices,epoch,train_loss,test_acc,seconds).
// The seconds are those that have been added to the timer since the last epoch. `epoch` is a
// fraction if --steps ended within one. Returns whether all of the epoch was trained.
bool curves_epoch(Curves *curves, double loss, double acc, const Timer *timer);
// Prints the result, or where the run was interrupted. Returns ": diverged, .." if it has, else "".
const char *curves_end(const Curves *curves, double acc);

long curves_steps(const Curves *curves); // of this run, so far

// For checkpoints: all points so far, as rows of the CSV without its head.
const char *curves_rows(const Curves *curves);
