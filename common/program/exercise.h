// exercise.h: what the exercises of all chapters share: EXPECT() for their checks, and the plot at
// the end. What they train is in the file experiment.h of their chapter.
#ifndef EXERCISE_H
#define EXERCISE_H

#include <stddef.h>

// EXPECT(sum == 3, "the sum is %g, not 3", sum): in the check of an exercise. Ends the program with
// that message and status 1. Written so that a NaN fails: EXPECT(x <= limit, ..), not !(x > limit).
#define EXPECT(condition, ...)                                                                     \
    do {                                                                                           \
        if (!(condition)) check_failed(__VA_ARGS__);                                               \
    } while (0)
_Noreturn void check_failed(const char *format, ...) __attribute__((format(printf, 1, 2)));

// How far two trainings of n parameters that began at `start` ended from each other: the largest
// difference, as a part of the largest change from start to b. 0: equal to the bit. INFINITY if
// there is a NaN.
double relative_difference(const float *a, const float *b, const float *start, size_t n);

// Draws plots/SCRIPT with this CSV to PNG, and says where both are.
void draw_plot(const char *script, const char *csv, const char *png);

#endif
