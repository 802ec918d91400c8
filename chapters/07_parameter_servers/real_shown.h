// real_shown.h: asynchronous training for real, next to the modelled one.
#ifndef REAL_SHOWN_H
#define REAL_SHOWN_H

#include "schedule.h"
#include "replay.h"

// First with gradients that are all 1, so that it can be seen whether each push was applied once,
// and whether anybody got half an update; CHECKs that. Then a training, W times `clocks` pushes,
// beside the same one by the schedule of `pace`: staleness, accuracy, seconds. On CPU devices
// workers are slowed down as pace->slow has it. die()s if the only worker is lost.
void show_real(const PsLesson *lesson, const Pace *pace, long clocks);

#endif
