// simulation.h: a discrete-event simulation of queues that run side by side and share ports. It
// knows nothing about devices, kernels or bytes; modelled_clock.c does.
//
// To enqueue work, call simulation_add(); to let a queue wait for another, simulation_wait(); to
// learn when something is done, simulation_time(). Do not add work that is issued before a time
// that you have asked about.
//
// A queue does one piece of work after the other. A piece is ready when it has been issued, when
// the piece before it is done, and when everything is done that its queue was told to wait for.
// Then it passes its ports in their order. A port serves one piece after the other, each for its
// share of `seconds`, in the order in which they arrive. (Of two that arrive at the same time, the
// one that was ready first is served first, then the one that was added first.) A piece arrives at
// the next port when a port begins to serve it, because the first byte does not wait for the last.
// It is done `latency` after the last port has served it. Alone, it takes seconds + latency. The
// times are exact, and the same in every run.
//
// No port carries more than it can, and none is idle while something waits for it. How real links
// are shared is left out: copies that meet are served one after the other, not side by side at part
// of the speed, so the first ends earlier than it would, and the last at the same time. All bytes
// of a copy pass a fast port in one go, even if a slow one makes them trickle. And there is always
// room to wait between two ports.
//
// Events are evaluated in order of time, and only as far as somebody asks, because what is added
// later may be ready before what is still waiting.
#ifndef SIMULATION_H
#define SIMULATION_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Simulation Simulation;

// The end of the n-th piece of work of a queue (a wait is one, too). {any, 0} is always past.
typedef struct Moment {
    int queue;
    uint64_t number;
} Moment;

typedef struct PortUse {
    int port;     // 0, 1, ...
    double share; // its part of the work's `seconds`, 0 to 1
} PortUse;

typedef struct Work {
    double issued;        // when the host enqueued it; it cannot begin before
    double seconds;       // how long it keeps its queue, if no port makes it wait
    double latency;       // and its queue alone, after that
    const PortUse *ports; // num_ports of them; must stay valid
    int num_ports;
    void *tag; // for the observer
} Work;

Simulation *simulation_new(int num_ports);
void simulation_free(Simulation *s);
int simulation_add_queue(Simulation *s); // gives its number: 0, 1, 2, ...

// Adds work at the end of a queue. CHECKs, here and below, that `issued` is not before any time
// that was asked about, because the answers must stay true.
Moment simulation_add(Simulation *s, int queue, const Work *work);
// What is added to the queue from now on begins after that moment, and after `issued`.
void simulation_wait(Simulation *s, int queue, double issued, Moment moment);
// The end of what the queue has now.
Moment simulation_last(const Simulation *s, int queue);

// When it is, in seconds; 0 if simulation_forget() forgot it. CHECKs that no queue waits for
// itself.
double simulation_time(Simulation *s, Moment moment);
// Whether it is at `now` or before; evaluates no further than that.
bool simulation_is_past(Simulation *s, Moment moment, double now);
// Nothing will be issued before `now`: what was done by then may be forgotten.
void simulation_forget(Simulation *s, double now);

// Seconds that a queue or a port was in use up to what has been evaluated.
double simulation_queue_busy(const Simulation *s, int queue);
double simulation_port_busy(const Simulation *s, int port);

// Is told of each piece of work (not of waits) when its times are known.
typedef void SimulationObserver(void *tag, int queue, double start, double end);
void simulation_observe(Simulation *s, SimulationObserver *observer);

#endif
