// one_step.h: a recorded step of DP or DDP on modelled devices: what moved, what each device holds,
// and which queue did what, and when.
#ifndef ONE_STEP_H
#define ONE_STEP_H

#include "common/device/trace.h"
#include "common/model/machine.h"
#include "../ddp.h"
#include "../dp.h"
#include "../networks.h"

enum { MOST_RECORDED = 64 }; // devices

// Which step.
typedef struct Setup {
    bool is_ddp;
    const NetworkKind *network;
    int classes, k, rows; // rows: of each device
    DpGathers gathers;    // of DP
    DdpOptions options;   // of DDP
} Setup;

// Phases in which bytes move: those of DP, or these two of DDP.
enum { DDP_BUFFERS, DDP_GRADIENTS };

typedef struct StepRecord {
    Setup setup;
    Device *devices[MOST_RECORDED];
    TraceSpan *spans; // none with --machine none
    int count;
    double seconds; // from the begin of the first span to the end of the last; NAN without spans
    // Bytes that device i sends and receives: in each phase, in the whole step, and before the
    // first step. Those of the phases are what the formulas say, or the program ends.
    Traffic phases[NUM_DP_PHASES][MOST_RECORDED], total[MOST_RECORDED], start[MOST_RECORDED];
    size_t memory[MOST_RECORDED]; // the most bytes that device i uses at a time
    int buckets;                  // of DDP
} StepRecord;

// The second step of a training (the first one allocates memory), modelled on `machine`; NULL:
// bytes and memory, but no times. For step_record_free().
StepRecord *record_one_step(const Setup *setup, const Machine *machine);
void step_record_free(StepRecord *r);

// The time in which device i's communication queue is at work, and how much of it its compute queue
// is at work, too.
typedef struct Exchange {
    double seconds, hidden;
} Exchange;
Exchange exchange_of(const StepRecord *r, int i);

// Of the devices except device 0, the one that sends and receives most; and the most memory.
int busiest_other(const StepRecord *r);
size_t most_memory_of_others(const StepRecord *r);

#endif
