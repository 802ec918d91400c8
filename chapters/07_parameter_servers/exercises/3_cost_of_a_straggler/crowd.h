// crowd.h: a network so small that hundreds of trainings by a schedule take seconds: softmax
// regression, one layer of 10 outputs. One training says little about which way is better, as
// accuracies jump; the mean of several says more.
#pragma once

#include "chapters/07_parameter_servers/replay.h"

typedef struct CrowdResult {
    int count;
    PsPoint points[25];
    double applied, dropped, seconds, stale; // stale: staleness of all pushes together
} CrowdResult;

// Carries out a schedule as ps_replay() does, with this network, from parameters that are zero, on
// the host alone, and adds what came to `sum`. Takes the accuracy lesson->points times, or once
// more, of at most 24; what has fewer points than others decides how many there are.
void crowd_replay(const PsLesson *lesson, const Schedule *schedule, CrowdResult *sum);
