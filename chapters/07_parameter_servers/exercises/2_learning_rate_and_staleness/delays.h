// delays.h: asynchronous training on which every push is as stale as it is said to be.
#ifndef DELAYS_H
#define DELAYS_H

#include "chapters/07_parameter_servers/replay.h"

// Adds a push, gradients that are `staleness` updates old, to the sum that is then applied. May
// change the push.
typedef void AddPush(Tensor *sum, Tensor *push, long staleness);
// As if it were not stale: they are summed.
void add_as_is(Tensor *sum, Tensor *push, long staleness);

// W workers that are equally fast and pull and push in turns, `pushes` times in all. But for the
// first round each push has a staleness of W - 1. For schedule_free().
Schedule schedule_in_turns(int W, long pushes);

typedef struct DelayedResult {
    double loss; // of an image, mean over the last quarter of pushes; INFINITY: it diverged
    long staleness[MOST_STALE + 1]; // pushes that were so stale
    float *params;                  // at the end, lenet_floats() of them; free() them
} DelayedResult;

// Carries out a schedule as ps_replay() does, but with one server and all workers on one device,
// and adds pushes like that. It starts from these lenet_floats() parameters; NULL: from
// lenet_init(seed).
DelayedResult train_delayed(const PsLesson *lesson, const Schedule *schedule, AddPush *how,
                            const float *start);

#endif
