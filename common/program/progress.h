// progress.h: a progress bar with the time left. Call progress_start(), and progress_step() for
// each step. Where stderr is not a terminal, nothing is shown.
#pragma once

typedef struct Progress {
    long done, total;      // steps
    double started, shown; // seconds_now()
} Progress;

Progress progress_start(long total);
// One more step. The text is shown before the bar.
void progress_step(Progress *progress, const char *text);
// Removes the bar, to print something else. It comes back with the next step.
void progress_clear(Progress *progress);
