// modelled_clock.h: how long a program's work would take on another machine.
//
// To model a machine's time, call modelled_clock_start(); to read it, wait for the devices and call
// modelled_seconds(). To leave out the arithmetic, use model_device(). Do not free the machine
// while the clock runs.
//
// All that a program enqueues is entered in a simulation (simulation.h). A kernel occupies its
// queue for as long as its launches, FLOP and bytes take on that machine (kernels/cost.h,
// machine.h). A copy takes its route's latency plus its bytes over the slowest port's bandwidth,
// and occupies each port for as long as the bytes take there. Device i of the program is device i
// of the machine.
//
// The host has a clock, too. Each launch, copy and wait takes time to enqueue, and a host that
// waits for a device goes on when the device is done. If a machine has several hosts, each runs the
// program for its own devices and enqueues only their work, but all of them wait where the program
// waits. Each host has the data set. What the host itself computes (it chooses the images of a
// minibatch) takes no time.
//
// The times depend only on the program's work and the machine's figures, so they are the same in
// every run and on every computer.
#pragma once

#include <stdbool.h>
#include "common/device/device.h"
#include "machine.h"

// Waits until all devices are idle, and starts this machine's clock at zero. NULL stops the clock.
// die()s if more devices are open than the machine can have, and later if one more is opened.
// (Model devices may be left from a larger machine. Work on those takes no time.)
void modelled_clock_start(const Machine *machine);
// Whether launches take as long as in a framework written in Python, and kernels as long as in its
// libraries. After each start of the clock, false: launches and kernels are ours.
void modelled_clock_use_framework(bool framework);
// Whether each device has its own host thread, as ranks of torch.distributed do, so that all launch
// side by side. After each start of the clock, false: one thread launches for all devices of a
// host. All threads still wait where the program waits.
void modelled_clock_use_ranks(bool ranks);
// The machine that the clock was started with; NULL if there is no clock.
const Machine *modelled_machine(void);
// Its name, to be printed; "not modelled" if there is no clock.
const char *modelled_machine_name(void);

// Seconds since the start, on the latest of the hosts' clocks. Wait for what you want to time
// before you call it, for example with synchronize_all(). NAN if there is no clock.
double modelled_seconds(void);

// Device i that computes nothing (device_model.c), to model how long something would take.
Device *model_device(int i);

// For device_model.c: whether the clock of the event's host has reached the event. Each call takes
// the time of a launch, so that a loop that asks again and again comes to an end.
bool modelled_reached(Event event);
extern const struct Backend model_backend;
