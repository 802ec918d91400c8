// animator.h: the curves of training, drawn anew after each epoch, as d2l's Animator does. Call
// animator_new(), then animator_add() after each epoch (train_epochs() does that), and
// animator_close().
//
// The figures go to a CSV file, from which gnuplot draws a PNG (plots/training_curves.gp) while the
// training goes on. Without gnuplot you get a warning and the CSV.
#ifndef ANIMATOR_H
#define ANIMATOR_H

#include <stdbool.h>

typedef struct Animator Animator;

// Curves go to `csv` and to `png`. With `live` they are also shown while training: in a gnuplot
// window if there is a display, and otherwise as text on stdout.
Animator *animator_new(const char *csv, const char *png, bool live);

// Adds a point to the curves; `epoch` may be a fraction. Writes the whole CSV
// (devices,epoch,train_loss,test_acc,seconds) and starts to draw the picture.
void animator_add(Animator *animator, int devices, double epoch, double train_loss, double test_acc,
                  double seconds);

// The points so far, as rows of the CSV without its head. free() it.
char *animator_rows(const Animator *animator);
// Adds the points of such a text when a training goes on. They are drawn with the next point.
// Returns false if the text is damaged.
bool animator_restore(Animator *animator, const char *rows);

// The last row with this number of devices, and the mean seconds of all such rows. Returns false if
// there is none.
bool animator_last(const Animator *animator, int devices, double *train_loss, double *test_acc,
                   double *seconds);

// Waits for the last picture.
void animator_close(Animator *animator);

#endif
