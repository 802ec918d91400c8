// loader.h: what the host does for a step: it prepares a minibatch, and later reads the losses.
// Each step that is under way has a slot on the host for these. Slots are used in turn.
#pragma once

#include "common/data/fashion_mnist.h"

enum { MOST_STEPS = 128 };

// What a step needs on the host: its minibatch, its losses (one for each device), and the point of
// each device's queue at which the step is done.
typedef struct Slot {
    Tensor *X, *y, *losses[MAX_DEVICES];
    Event done[MAX_DEVICES];
    int prepared, step; // whose minibatch is there, and whose losses
} Slot;

// What was done for a step, for the cases.
typedef struct StepLog {
    int prepared, kept, waited; // how often
    int not_waited_for;         // steps that nobody had waited for when it was prepared
    double began;               // when it was prepared, on the modelled clock
} StepLog;

typedef struct Loader {
    const Dataset *data;
    int batch_size, k, num_slots;
    Slot slots[MOST_STEPS];
    double work[MOST_STEPS]; // seconds that prepare() takes besides, in each step
    StepLog log[MOST_STEPS];
    int most_under_way; // steps that the devices were not done with when another began
} Loader;

Loader *loader_new(const Dataset *data, int batch_size, int k, int num_slots);
void loader_free(Loader *loader);

// Slot of a step; with `ahead` + 1 of them, step n uses that of step n - 1 - ahead again.
Slot *slot_of(Loader *loader, int step);

// Writes minibatch number `step` into its slot, over what is there. This is the host's own work, in
// which a real one would read files and decode pictures; here it may sleep as long.
Slot *prepare(Loader *loader, int step);

// Enqueues copies of the losses to the slot, and notes where in the queues the step ends.
void keep_losses(Loader *loader, Slot *slot, Tensor *const losses[]);

// Waits until the step is done whose losses are kept in the slot. Returns its mean loss.
double wait_for(Loader *loader, const Slot *slot);
