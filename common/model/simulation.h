// simulation.h: when would work be done, on queues that run side by side and ways that it shares?
//
// A discrete-event simulation: it knows queues, pieces of work, waits between queues, and ports,
// and nothing of devices, kernels or bytes (those are modelled_clock.c's). Work of a queue is done
// one piece after the other. A piece begins when it has been issued, when the one before it is
// done, when what its queue was told to wait for is done, and when all its ports are free. It holds
// each port for its share of `seconds`, and is done `latency` after the last of them. A port is
// given to the piece that has been ready for longest, of two with the same time to the one that was
// added first; a piece whose ports are not all free lets others pass. So the times are exact, and
// the same in every run.
//
// Real links are shared more evenly, and this is what the simulation leaves out:
// - All bytes of a copy pass a fast port at the beginning, one copy after the other, though a slow
//   port further on makes them trickle. So no port ever carries more than it can, but a copy can be
//   late by the shares of those before it, and early by what still trickles beside it.
// - A copy that needs two ports can wait as long as others, each with one of them, take turns.
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
    double share; // of the work's `seconds`, from their beginning: 0 to 1
} PortUse;

typedef struct Work {
    double issued;        // time before which nobody knows of it
    double seconds;       // how long it keeps its queue, and at most its ports
    double latency;       // and its queue alone, after that
    const PortUse *ports; // num_ports different ones; must stay valid
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
