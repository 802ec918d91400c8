// step_pictures.h: recorded steps as pictures.
#ifndef STEP_PICTURES_H
#define STEP_PICTURES_H

#include "record.h"

// Draws the steps below each other, a lane for each device: to the PNG book_timeline(suffix). Those
// that were measured have one scale of time, those that were modelled another. Prints the heading
// and where the picture is.
void draw_steps(const char *suffix, const char *heading, const Recorded steps[], int n);

// Such a picture of the three ways, each on k devices: of one problem measured, of another (a
// problem_to_model()) modelled. A way that cannot use so many is left out. Says how long each
// modelled step took, and how idle its devices were. The PNG is book_timeline("_timeline_K.png").
void show_timeline(const Problem *measured, const Problem *modelled, int k);

#endif
