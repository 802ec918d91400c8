// times.h: both kinds of time of the same work: until the host had enqueued it, and until it was
// done.
#ifndef TIMES_OF_WORK_H
#define TIMES_OF_WORK_H

// In seconds. NAN: there is no such time (--backend model measures nothing, --machine none models
// nothing).
typedef struct Seconds {
    double measured, modelled;
} Seconds;

typedef struct WorkTimes {
    Seconds enqueued, done; // since the host began to enqueue
    double slowest;         // done, measured, in the slowest round
} WorkTimes;

// Waits until all devices are idle, calls enqueue(), and waits again. Measured is the fastest of
// some rounds, the one that other programs disturbed least (of long work there is one round);
// modelled times are always the same.
// `prepare` is called before each round, and its time does not count.
WorkTimes time_work(void (*prepare)(void), void (*enqueue)(void));

// How many times as long as a did b take until it was done: modelled if there is a machine, else
// measured; NAN if that is too noisy to compare.
double times_as_long(const WorkTimes *a, const WorkTimes *b);
// What the table says of k devices, in words.
void say_times_as_long(int k, const WorkTimes *alone, const WorkTimes *all,
                       const WorkTimes *ordered);

// A table's head, and a row of it, in milliseconds; at most 80 columns.
void print_times_head(void);
void print_work_times(const char *label, const WorkTimes *times);

#endif
