// simulation.h: a discrete-event simulation of queues that run side by side and share ports. It
// knows nothing about devices, kernels or bytes, but modelled_clock.c does.
//
// To enqueue work, call simulation_add(); to let a queue wait for another, simulation_wait(); to
// learn when something is done, simulation_time(). Do not add work that is issued before a time
// that you have asked about.
//
// A queue does one piece of work after the other. A piece is ready when it has been issued, the
// piece before it is done, and everything is done that its queue was told to wait for. Then it
// passes its ports in their order. A port serves one piece after the other, each for its share of
// `seconds`, in the order in which they arrive. (If two arrive at the same time, the port first
// serves the piece that was ready first, and if they were ready at the same time, the one that was
// added first.) When a port begins to serve a piece, the piece arrives at its next port, because
// the first byte does not wait for the last. The piece is done `latency` after the last port has
// served it. If nothing is in its way, it takes seconds + latency. The times are exact, and are the
// same in every run.
//
// No port carries more than it can, and none is idle while something waits for it. But real links
// are shared in other ways. Here, copies that meet are served one after the other, not side by side
// at part of the speed, so the first ends earlier than on a real link, and the last at the same
// time. All bytes of a copy pass a fast port in one go, even if a slow port makes them trickle. And
// there is always room to wait between two ports.
//
// Events are evaluated in order of time, and only as far as the caller asks, because what is added
// later may be ready before what is still waiting.
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct Simulation Simulation;

// The end of a queue's n-th piece of work (a wait is a piece, too). {any, 0} is always past.
typedef struct Moment {
    int queue;
    uint64_t number;
} Moment;

typedef struct PortUse {
    int port;     // 0, 1, ...
    double share; // the part of the work's `seconds` that it takes, 0 to 1
} PortUse;

typedef struct Work {
    double issued;        // when the host enqueued it; it cannot begin before that
    double seconds;       // how long it occupies its queue, if no port makes it wait
    double latency;       // how much longer it occupies its queue, without any port
    const PortUse *ports; // (num_ports), which must stay valid
    int num_ports;
    void *tag; // for the observer
} Work;

Simulation *simulation_new(int num_ports);
void simulation_free(Simulation *s);
int simulation_add_queue(Simulation *s); // returns its number: 0, 1, 2, ...

// Adds work at the end of a queue. This and simulation_wait() CHECK that `issued` is not before any
// time that was asked about, because the answers must stay true.
void simulation_add(Simulation *s, int queue, const Work *work);
// What is added to the queue from now on begins after this moment, and after `issued`.
void simulation_wait(Simulation *s, int queue, double issued, Moment moment);
// The end of what the queue has now.
Moment simulation_last(const Simulation *s, int queue);

// The moment's time in seconds; 0 if simulation_forget() forgot it. CHECKs that no queue waits for
// itself.
double simulation_time(Simulation *s, Moment moment);
// Whether the moment is at `now` or before. Evaluates no further than `now`.
bool simulation_is_past(Simulation *s, Moment moment, double now);
// Promises that nothing will be issued before `now`, so what was done by then can be forgotten.
void simulation_forget(Simulation *s, double now);

// Is called for each piece of work (not for waits) when its times are known.
typedef void SimulationObserver(void *tag, int queue, double start, double end);
void simulation_observe(Simulation *s, SimulationObserver *observer);
