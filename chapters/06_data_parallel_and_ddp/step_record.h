// step_record.h: a step of one of the four ways as it was recorded: who did what, and when; what
// moved; what each device holds.
#ifndef STEP_RECORD_H
#define STEP_RECORD_H

#include "common/model/machine.h"
#include "common/device/trace.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "ways.h"

enum { MOST_PHASES = NUM_DP_PHASES, MOST_RECORDED = 64 };

typedef struct StepRecord {
    Way way;
    int rows; // of the minibatch, over all devices
    bool modelled;
    TraceSpan *spans;
    int count;
    double seconds; // from the begin of the step to the end of its last piece; NAN if not known
    // Bytes between devices, in each phase (see Trained) and in the whole step; and in the making
    // of the replicas, before the first.
    Traffic phases[MOST_PHASES][MOST_RECORDED], total[MOST_RECORDED], start[MOST_RECORDED];
    // What the formulas say of them; 0 for chapters 4 and 5, which check their own.
    Traffic formula[MOST_PHASES][MOST_RECORDED];
    Device *devices[MOST_RECORDED];
    // Bytes of each device: the most that were in use at a time in the step; and reserved for that,
    // as activations are given memory in large pieces.
    size_t memory[MOST_RECORDED], reserved[MOST_RECORDED];
} StepRecord;

// The second step of such a training, modelled: on model devices, with the clock of `machine` (from
// zero; at the end, that of before is back, at zero). With --machine none, NULL, there are no times
// and no spans, but bytes and memory. For step_record_free().
StepRecord *model_step(const Way *way, int rows, const Machine *machine);
// Measured here: the shortest of some steps with these images, which is the one that other programs
// disturbed least.
StepRecord *measure_step(const Way *way, const Tensor *X, const Tensor *y);
void step_record_free(StepRecord *r);

// Frees what model_step() keeps from one to the next.
void step_records_end(void);

// Only the modelled seconds of such a step, on any machine. Faster.
double model_step_seconds(const Way *way, int rows, const Machine *machine);
// Into how many buckets DDP puts the network's gradients.
int buckets_of_way(const Way *way);

// Of the devices but the first, the one that sends and receives most; and the most memory of them.
int busiest_other(const StepRecord *r);
size_t most_memory_of_others(const StepRecord *r);

// Of a recorded step's spans: how many are kernels, and how many copies.
int kernels_of(const StepRecord *r);
int copies_of(const StepRecord *r);
// Seconds for which a device's compute queue was at work on what has this label, or one that begins
// with it.
double label_seconds(const StepRecord *r, const Device *device, const char *label);

#endif
