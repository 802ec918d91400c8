// test_simulation.c: the discrete-event simulation against a slow and simple one, on random
// programs, and a few that can be told by hand.
#include "common/model/simulation.h"
#include "cases.h"

enum { MOST_QUEUES = 6, NUM_PORTS = 5, PIECES = 60, PROGRAMS = 3000 };

typedef struct Step {
    int queue;
    bool waits;
    int after; // the step it waits for
    Work work; // but for where its ports are
    PortUse ports[NUM_PORTS];
} Step;

typedef struct Program {
    int num_queues;
    Step steps[PIECES];
} Program;

static uint64_t seed, drawn; // of this program; what was drawn already

static int below(int n) { return (int)(n * random_uniform(seed, STREAM_TEST, drawn++)); }

// Times are multiples of 1/8, so that sums are exact and ties are frequent.
static Program random_program(void) {
    drawn = 0;
    Program p = {.num_queues = 1 + below(MOST_QUEUES)};
    double issued = 0;
    for (int i = 0; i < PIECES; i++) {
        Step *step = &p.steps[i];
        issued += below(3) / 8.0;
        *step = (Step){.queue = below(p.num_queues), .work.issued = issued};
        step->waits = i > 0 && below(3) == 0;
        if (step->waits) {
            step->after = below(i);
            continue;
        }
        step->work.seconds = below(20) / 8.0;
        step->work.latency = below(4) / 8.0;
        step->work.num_ports = below(4);
        int first = below(NUM_PORTS), stride = 1 + below(NUM_PORTS - 1); // no port twice
        for (int j = 0; j < step->work.num_ports; j++)
            step->ports[j] = (PortUse){(first + j * stride) % NUM_PORTS, below(5) / 4.0};
    }
    return p;
}

// Where the first step of a queue that is not done is: on its way to port number `passed` of its
// ports, there at `time`; those before have served it until `end`.
typedef struct Place {
    double ready, time, end;
    int passed;
} Place;

// The step that comes next to a port, or is ready and needs none.
static int next_step(const Program *p, const double queue_free[], const double done[],
                     Place places[PIECES]) {
    int best = -1;
    bool seen[MOST_QUEUES] = {false};
    for (int i = 0; i < PIECES; i++) {
        const Step *s = &p->steps[i];
        Place *at = &places[i];
        if (!isnan(done[i]) || seen[s->queue]) continue;
        seen[s->queue] = true;
        if (s->waits && isnan(done[s->after])) continue;
        if (at->passed == 0) {
            at->ready = fmax(queue_free[s->queue], s->work.issued);
            if (s->waits) at->ready = fmax(at->ready, done[s->after]);
            at->time = at->ready;
            at->end = at->ready + s->work.seconds;
        }
        const Place *b = &places[best < 0 ? i : best];
        if (best < 0 || at->time < b->time || (at->time == b->time && at->ready < b->ready))
            best = i;
    }
    return best;
}

static void slow_times(const Program *p, double done[PIECES]) {
    double queue_free[MOST_QUEUES] = {0}, port_free[NUM_PORTS] = {0};
    Place places[PIECES] = {{0}};
    for (int i = 0; i < PIECES; i++) done[i] = NAN;
    for (int left = PIECES; left > 0;) {
        int next = next_step(p, queue_free, done, places);
        const Step *s = &p->steps[next];
        Place *at = &places[next];
        if (at->passed < s->work.num_ports) {
            const PortUse *use = &s->ports[at->passed++];
            at->time = fmax(at->time, port_free[use->port]);
            port_free[use->port] = at->time + use->share * s->work.seconds;
            at->end = fmax(at->end, port_free[use->port]);
        }
        if (at->passed < s->work.num_ports) continue;
        done[next] = queue_free[s->queue] = at->end + s->work.latency;
        left--;
    }
}

// Enqueues a step in simulation.c; moments[] has the ends of the steps before it.
static Moment add_step(Simulation *s, const Step *step, const Moment moments[]) {
    Work work = step->work;
    work.ports = step->ports;
    if (step->waits)
        simulation_wait(s, step->queue, step->work.issued, moments[step->after]);
    else
        simulation_add(s, step->queue, &work);
    return simulation_last(s, step->queue);
}

// If the host asks early, it waits now and then, and issues the rest later: what it is told stays
// true.
static void run_both(bool asks_early) {
    Program p = random_program();
    Simulation *s = simulation_new(NUM_PORTS);
    Moment moments[PIECES];
    double told[PIECES], slow[PIECES], now = 0;
    for (int q = 0; q < p.num_queues; q++) assert_int_equal(simulation_add_queue(s), q);
    for (int i = 0; i < PIECES; i++) {
        Step *step = &p.steps[i];
        step->work.issued = fmax(step->work.issued, now);
        told[i] = NAN;
        moments[i] = add_step(s, step, moments);
        int asked = below(i + 1);
        if (!asks_early || below(5) > 0 || step->waits || p.steps[asked].waits) continue;
        told[asked] = simulation_time(s, moments[asked]);
        if (told[asked] == 0) told[asked] = NAN; // forgotten
        now = fmax(now, told[asked]);
        simulation_forget(s, now);
        assert_true(simulation_is_past(s, moments[asked], now));
    }
    slow_times(&p, slow);
    for (int i = 0; i < PIECES; i++) {
        if (!asks_early) told[i] = simulation_time(s, moments[i]);
        if (p.steps[i].waits || (asks_early && isnan(told[i]))) continue; // it was not asked for
        if (!(told[i] == slow[i]))
            fail_msg("program %d, step %d: %g, not %g", (int)seed, i, told[i], slow[i]);
    }
    simulation_free(s);
}

TEST(it_is_what_the_slow_one_says) {
    for (seed = 0; seed < PROGRAMS; seed++) {
        run_both(false);
        run_both(true);
    }
}

static void add(Simulation *s, int queue, double issued, double seconds, double latency,
                const PortUse *port) {
    const Work work = {issued, seconds, latency, port, port != NULL, NULL};
    simulation_add(s, queue, &work);
}

static Simulation *with_two_queues(int ports) {
    Simulation *s = simulation_new(ports);
    for (int i = 0; i < 2; i++) simulation_add_queue(s);
    return s;
}

static double end_of(Simulation *s, int queue) {
    return simulation_time(s, simulation_last(s, queue));
}

// Whole programs can become slower by a faster port (R. L. Graham, "Bounds for certain
// multiprocessing anomalies", 1966). Queue 0 has a copy by port 0 and a long one by port 1. Queue 1
// has a short one by port 1 and then much to compute. If port 0 is twice as fast, the long copy is
// ready first, and all that queue 1 has to do comes later.
static double with_port_0_at(double speed) {
    static const PortUse ports[] = {{0, 1}, {1, 1}};
    Simulation *s = with_two_queues(2);
    add(s, 0, 0, 2 / speed, 0, &ports[0]);
    add(s, 0, 0, 4, 0, &ports[1]);
    add(s, 1, 0, 1.5, 0, NULL);
    add(s, 1, 0, 1, 0, &ports[1]);
    add(s, 1, 0, 5, 0, NULL);
    double end = fmax(end_of(s, 0), end_of(s, 1));
    simulation_free(s);
    return end;
}

TEST(a_faster_port_can_make_a_program_slower) {
    assert_true(with_port_0_at(1) == 1.5 + 1 + 5);
    assert_true(with_port_0_at(2) == 1 + 4 + 1 + 5);
}

// A queue of work that ends at 3, and somebody who asks so, in one of three ways.
static Simulation *asked(int way) {
    Simulation *s = with_two_queues(1);
    add(s, 0, 0, 3, 0, NULL);
    if (way == 0) assert_true(end_of(s, 0) == 3);
    if (way == 1) assert_true(simulation_is_past(s, simulation_last(s, 0), 3));
    if (way == 2) simulation_forget(s, 3);
    return s;
}

TEST(what_was_told_stays_true) {
    expect_deaths(state);
    for (int way = 0; way < 3; way++) {
        Simulation *s = asked(way);
        add(s, 1, 3, 1, 0, NULL);
        assert_true(end_of(s, 1) == 4);
        assert_true(simulation_time(s, (Moment){0, 0}) == 0);  // what is always past
        assert_true(simulation_is_past(s, (Moment){3, 0}, 4)); // needs no queue
        simulation_free(s);
    }
}

#define TOLD "check failed: piece.work.issued >= s->asked"
DIES(TOLD, add(asked(0), 1, 2.9, 1, 0, NULL))
DIES(TOLD, add(asked(1), 1, 2.9, 1, 0, NULL))
DIES(TOLD, add(asked(2), 1, 2.9, 1, 0, NULL))
DIES(TOLD, Simulation *s = asked(0); simulation_wait(s, 1, 2.9, simulation_last(s, 0)))

int main(void) { return run_all("simulation", NULL, NULL); }
