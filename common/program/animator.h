// animator.h: d2l's Animator: the curves of training, drawn anew after each epoch. To have curves,
// call animator_new(), animator_add() after each epoch, and animator_close(); train_epochs()
// (training.h) does the second.
//
// The figures go to a CSV file, from which gnuplot draws a PNG while the training goes on. Without
// gnuplot there is one warning, and the CSV.
#ifndef ANIMATOR_H
#define ANIMATOR_H

#include <stdbool.h>

typedef struct Animator Animator;

// Curves go to `csv` and to `png`. The gnuplot script is plots/`script`, beside the program's
// folder. With `live` they are also shown while training: in a window of gnuplot where there is a
// display, as text on stdout where there is none.
Animator *animator_new(const char *csv, const char *png, const char *script, bool live);

// One point of the curves; epoch need not be whole. Writes the CSV
// (devices,epoch,train_loss,test_acc, seconds), whole, and has the picture drawn.
void animator_add(Animator *animator, int devices, double epoch, double train_loss, double test_acc,
                  double seconds);

// The points so far, as the rows of the CSV without its head. free() it.
char *animator_rows(const Animator *animator);
// Adds the points of such a text, for a training that goes on. They are drawn with the next point.
// Returns whether the text was good.
bool animator_restore(Animator *animator, const char *rows);

// The last row of a number of devices, and the mean seconds of its rows; false if there is none.
bool animator_last(const Animator *animator, int devices, double *train_loss, double *test_acc,
                   double *seconds);

// Waits for the last picture.
void animator_close(Animator *animator);

#endif
