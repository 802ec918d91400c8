// modelled_clock.h: how long the same work would take on a machine that need not be there.
//
// Values are computed here, or not at all (--backend model); time is told beside. All that a
// program enqueues is entered in a simulation (simulation.h): a kernel takes what its launches,
// FLOP and bytes need on that machine (kernels/cost.h, machine.h) on its queue; a copy takes its
// route's latency and its bytes over the slowest port's bandwidth, and each port that it passes is
// taken for as long as the bytes need there. Device i of the program is device i of the machine.
//
// The host has a clock, too: each launch, copy and wait takes its time to enqueue, and whoever
// waits for a device goes on when that is done. A machine with several hosts runs the program once
// on each, for its own devices, so each enqueues only their work; all wait where the program waits.
// Each host has the data set. What the host itself computes (choosing the images of a minibatch)
// takes no time.
//
// The times follow from the program's work and the machine's figures alone: they are the same in
// every run and on every computer.
#ifndef MODELLED_CLOCK_H
#define MODELLED_CLOCK_H

#include <stdbool.h>
#include "common/device/device.h"
#include "machine.h"

// From now on time is told on this machine, which must stay there, from zero. Waits until all
// devices are idle. NULL: no longer. die()s if more devices are open than the machine can have; to
// open one more then die()s, too. (Model devices may be left from a larger machine: to use them
// takes no time.)
void modelled_clock_start(const Machine *machine);
// Whether launches take as long as in a framework written in Python, and kernels as its libraries'
// on that machine; else, and after each start, they are ours.
void modelled_clock_use_framework(bool framework);
// Whether there is one host thread per device, as where each device has a process (a rank of
// torch.distributed), and all launch side by side; else, and after each start, one thread
// launches for all devices of a host. All of them still wait where the program waits.
void modelled_clock_use_ranks(bool ranks);
// The machine as it was given, which must still be there to be looked at; NULL if no time is told.
const Machine *modelled_machine(void);

// Seconds since the start, on the clock of the hosts, the latest of them: to be asked when the
// program has waited for what it wants to know, for example by synchronize_all(). NAN if no time is
// told.
double modelled_seconds(void);

// Seconds for which the device's compute queue was at work so far (that is what all waited for).
double modelled_busy(const Device *device);

// Device i of those that compute nothing, beside the others: to tell how long something would take.
Device *model_device(int i);

// For device_model.c, the devices that compute nothing: whether the clock of the event's host has
// come to it. Each question takes a launch's time, so asking again and again comes to an end.
bool modelled_reached(Event event);
extern const struct Backend model_backend;

#endif
