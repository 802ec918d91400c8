// trace.h: which device computed what, and when. Each piece of work has a start and an end.
//
//     trace_begin();
//     trace_label("forward");
//     ... = lenet(X, params);          // what is enqueued from here on carries the label
//     int count;
//     TraceSpan *spans = trace_end(&count);
//
// A CPU device's worker reads the clock before and after each task, a GPU puts a timed event before
// and after it into its stream. While nothing is traced neither happens.
//
// Traces nest as brackets do, and what is done in an inner one belongs to the outer one, too. So a
// part of a program may trace what it does, whether or not the whole program is being traced
// (--trace, --timeline).
#pragma once

#include "device.h"

typedef struct TraceSpan {
    const Device *device;    // whose queue did it
    bool communicates;       // its communication queue, and not its compute queue
    const char *work;        // the kernel's name in kernels.h, "copy" or "call"; waiting is no work
    const char *label;       // of trace_label() when it was enqueued; "" if there was none
    double start, end;       // seconds since trace_begin()
    const Device *from, *to; // the two sides of a copy, as in the ledger; NULL for other work
    size_t bytes;            // of a copy; 0 for other work
    int training;            // of trace_step(): which training of the program, from 1,
    long step;               // and which of its steps, from 1; both are 0 outside steps
    int number;              // in the order in which the spans were recorded
} TraceSpan;

// Waits until all devices are idle, then starts recording. An inner trace begins without a label;
// at its end the outer one has again the label that it had.
void trace_begin(void);
// As trace_begin(), but only the first `most` pieces of work that are enqueued will be kept.
void trace_begin_at_most(int most);
// As trace_begin(), but for trace_modelled() only, and of devices without values only. What is done
// in it is in no outer trace, because an outer trace has what the program itself did.
void trace_begin_models(void);
// What is enqueued while a trace is paused is not recorded. For work that is not part of what the
// program does, such as the same steps once more on another machine.
void trace_pause(bool paused);
// The label of all work that is enqueued from now on. The text is copied. Returns the label before.
// Without a trace it does nothing and returns "".
const char *trace_label(const char *text);
// What is enqueued from now on belongs to this step of a training, counted from 1, or to none if it
// is 0. A number that is not larger than the one before begins another training.
void trace_step(long step);
// Waits until all devices are idle and stops recording. Returns what was recorded, as
// trace_order() leaves it. free() it. Work and label stay valid.
TraceSpan *trace_end(int *count);
// The spans of the trace that ended last, as trace_end() returns them, in the time of the modelled
// clock's machine (modelled_clock.h) when the outermost trace began. Spans of model_device() are
// there only after trace_begin_models(). NULL and 0 without a machine.
TraceSpan *trace_modelled(int *count);
// Whether the trace that ended last was full, so that something was left out.
bool trace_left_out(void);

// Orders spans by device, queue (first the one that computes), start, end and number.
void trace_order(TraceSpan spans[], int count);
