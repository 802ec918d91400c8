// crowd.h: a network so small that hundreds of trainings by a schedule take seconds: softmax
// regression, one layer of 10 outputs. One training says little about which way is better, as
// accuracies jump; the mean of several says more.
#ifndef CROWD_H
#define CROWD_H

#include "chapters/07_parameter_servers/replay.h"

typedef struct CrowdResult {
    int count;
    PsPoint points[64];
    long applied, dropped, most_staleness;
    double seconds, mean_staleness;
} CrowdResult;

// Carries out a schedule as ps_replay() does, with this network, from parameters that are zero, on
// the host alone. Takes the accuracy lesson->points times, at most 63.
CrowdResult crowd_replay(const PsLesson *lesson, const Schedule *schedule);

#endif
