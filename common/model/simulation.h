// simulation.h: when would work be done, on queues that run side by side and ways that it shares?
//
// A discrete-event simulation: it knows queues, pieces of work, waits between queues, and ports,
// and nothing of devices, kernels or bytes (those are modelled_clock.c's). Work of a queue is done
// one piece after the other. A piece is ready when it has been issued, when the one before it is
// done, and when what its queue was told to wait for is done. Then it goes through its ports in
// their order. A port serves one piece after the other, in the order in which they come to it (of
// two at the same time, first the one that was ready first, then the one that was added first),
// each for its share of `seconds`. A piece comes to the next port when a port begins to serve it:
// the first byte does not wait for the last. It is done `latency` after the last port has served
// it. Alone, it takes seconds + latency. So the times are exact, and the same in every run.
//
// No port ever carries more than it can, and none is idle while something waits for it. What is
// left out is how real links share: copies that meet go one after the other here, not side by side
// at part of the speed, so the first is done earlier than it would be, the last at the same time.
// All bytes of a copy pass a fast port in one go, though a slow one makes them trickle. And what
// has to wait between two ports has room to wait there.
//
// It is evaluated in order of time and only as far as somebody asks: what is added later may be
// ready before what is still waiting, if it is issued at that time.
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
    double issued;        // time before which nobody knows of it
    double seconds;       // how long it keeps its queue, if no port makes it wait
    double latency;       // and its queue alone, after that
    const PortUse *ports; // num_ports of them; must stay valid
    int num_ports;
    void *tag; // for the observer
} Work;

Simulation *simulation_new(int num_ports);
void simulation_free(Simulation *s);
int simulation_add_queue(Simulation *s); // gives its number: 0, 1, 2, ...

// Adds work at the end of a queue. CHECKs that `issued` is not before any time that was asked for,
// here and below: what was told of that time stays true.
Moment simulation_add(Simulation *s, int queue, const Work *work);
// What is added to the queue from now on begins after that moment, and after `issued`.
void simulation_wait(Simulation *s, int queue, double issued, Moment moment);
// The end of what the queue has now.
Moment simulation_last(const Simulation *s, int queue);

// When it is, in seconds; 0 if simulation_forget() forgot it. CHECKs that it comes at all: nobody
// can wait for himself.
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
