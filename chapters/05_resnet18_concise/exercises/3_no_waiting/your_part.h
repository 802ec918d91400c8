// your_part.h: what the files of this exercise know of each other: first your part.
#ifndef YOUR_PART_H
#define YOUR_PART_H

#include "common/program/exercise.h"
#include "chapters/05_resnet18_concise/exercises/networks.h"
#include "loader.h"

void train_ahead(DataParallel *dp, Loader *loader, int steps, int ahead, float lr, double losses[]);
double predict(int steps, int ahead, const double host_seconds[], double device_seconds);

// check.c: is it right?
extern const CheckPart check_parts[];
// train_ahead(), watched. Returns how many steps were under way, at most, when prepare() began with
// another one.
int trace_run(DataParallel *dp, Loader *loader, int steps, int ahead, float lr, double losses[]);

#endif
