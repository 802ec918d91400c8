// schedule.c: the order of events, from the speeds of the workers.
//
// The servers' links carry one transfer at a time in each direction. The same pace and seed give
// the same order on every computer, in every run.
#include "schedule.h"

#include "common/base/error.h"
#include "common/tensor/random.h"

#include <math.h>
#include <stdlib.h>

bool in_rounds(Discipline how) { return how.staleness == 0; }

char *discipline_name(Discipline how) {
    if (how.backup > 0) return xprintf("%d backup", how.backup);
    if (how.staleness == 0) return xstrdup("synchronous");
    return how.staleness == NO_BOUND ? xstrdup("asynchronous") : xprintf("SSP %d", how.staleness);
}

// A worker may begin a step if it is at most `staleness` steps ahead of the slowest worker.
static bool within_bound(long mine, const long steps[], int n, int staleness) {
    long slowest = mine;
    for (int i = 0; i < n; i++)
        if (steps[i] < slowest) slowest = steps[i];
    return mine - slowest <= staleness;
}

typedef enum { PUSH_DROPPED, PUSH_TAKEN, PUSH_COMPLETES } PushFate;

// A push is dropped if its update is already done. Push number W - backup completes an update.
static PushFate fate_in_round(long step, long updates, int taken, int W, int backup) {
    if (step < updates) return PUSH_DROPPED;
    return taken + 1 < W - backup ? PUSH_TAKEN : PUSH_COMPLETES;
}

// What a worker does until `next`. WAITS: until others let it continue.
typedef enum { WANTS, PULLS, COMPUTES, PUSHES, WAITS } Doing;

typedef struct Life {
    Doing doing;
    double next, computed;
    long clock, pushes; // the number of its step; pushes of all kinds
} Life;

typedef struct World {
    const Pace *pace;
    Discipline how;
    Life lives[MOST_WORKERS];
    double in_free, out_free; // when the servers' links are free again
    long updates, pushes;     // rounds that are over, with backup workers; pushes taken
    int in_round;             // pushes of the present round
    Schedule schedule;
} World;

static void happens(World *v, EventKind kind, int w) {
    Schedule *s = &v->schedule;
    const Life *life = &v->lives[w];
    if (s->count == s->room) {
        s->room = s->room ? 2 * s->room : 1024;
        s->list = xgrow(s->list, (size_t)s->room, sizeof *s->list);
    }
    s->list[s->count++] = (Happening){life->next, kind, w, life->clock, life->computed};
}

// With backup workers, a worker waits for the update (`clock`) that its last push was for.
static bool may_pull(const World *v, const Life *life) {
    long steps[MOST_WORKERS];
    if (v->how.backup > 0) return life->pushes == 0 || life->clock < v->updates;
    for (int w = 0; w < v->pace->W; w++) steps[w] = v->lives[w].pushes;
    return within_bound(life->pushes, steps, v->pace->W, v->how.staleness);
}

// A worker's n-th step takes the same time in every discipline.
static double computing(const World *v, int w) {
    const Pace *p = v->pace;
    uint32_t pace = STREAM_PACE + (uint32_t)w, stalls = STREAM_STALLS + (uint32_t)w;
    uint64_t step = (uint64_t)v->lives[w].pushes;
    double seconds = p->compute * (p->slow ? p->slow[w] : 1) *
                     (1 + p->jitter * (2 * random_uniform(p->seed, pace, step) - 1));
    bool stalled = p->odds > 0 && random_uniform(p->seed, stalls, step) < p->odds;
    return stalled ? p->stall * seconds : seconds;
}

static double transferring(const Pace *p, int w) {
    return p->transfer * (p->slow && !p->even_links ? p->slow[w] : 1);
}

static void wants_to_pull(World *v, int w) {
    Life *life = &v->lives[w];
    bool may = may_pull(v, life);
    life->next = may ? fmax(life->next, v->out_free) : INFINITY;
    if (may) v->out_free = life->next + v->pace->busy;
    life->doing = may ? PULLS : WAITS;
}

static void pulls(World *v, int w) {
    Life *life = &v->lives[w];
    life->clock = v->how.backup > 0 ? v->updates : life->pushes;
    happens(v, EVENT_PULL, w);
    life->next += transferring(v->pace, w) + computing(v, w);
    life->doing = COMPUTES;
}

static void has_computed(World *v, int w) {
    Life *life = &v->lives[w];
    double start = fmax(life->next, v->in_free);
    life->computed = life->next;
    v->in_free = start + v->pace->busy;
    life->next = start + transferring(v->pace, w);
    life->doing = PUSHES;
}

static void has_pushed(World *v, int w) {
    Life *life = &v->lives[w];
    PushFate fate = PUSH_COMPLETES;
    if (v->how.backup > 0)
        fate = fate_in_round(life->clock, v->updates, v->in_round, v->pace->W, v->how.backup);
    happens(v, fate == PUSH_DROPPED ? EVENT_DROP : EVENT_PUSH, w);
    life->pushes++;
    life->doing = WANTS;
    if (fate == PUSH_DROPPED) return;
    v->pushes++;
    v->in_round++;
    if (fate != PUSH_COMPLETES) return;
    v->in_round = 0;
    v->updates++;
    for (Life *other = v->lives; other < v->lives + v->pace->W; other++)
        if (other->doing == WAITS)
            *other = (Life){WANTS, life->next, 0, other->clock, other->pushes};
}

// The worker with the next event. If there are two, the one with the lower number.
static int first_of(const World *v) {
    int first = 0;
    for (int w = 1; w < v->pace->W; w++)
        if (v->lives[w].next < v->lives[first].next) first = w;
    CHECK(isfinite(v->lives[first].next), "a worker is always at work");
    return first;
}

Schedule schedule_make(const Pace *pace, Discipline how, long clocks) {
    World v = {.pace = pace, .how = how, .schedule = {.W = pace->W, .how = how}};
    CHECK(pace->W <= MOST_WORKERS && how.backup < pace->W && (how.backup == 0 || in_rounds(how)),
          "backup workers are a form of synchronous training, and some are left");
    while (v.pushes < (pace->W - how.backup) * clocks) {
        static void (*const next[])(World *, int) = {wants_to_pull, pulls, has_computed,
                                                     has_pushed};
        int w = first_of(&v);
        next[v.lives[w].doing](&v, w);
    }
    return v.schedule;
}

void schedule_free(Schedule *s) {
    free(s->list);
    *s = (Schedule){0};
}

double schedule_seconds(const Schedule *s) { return s->count > 0 ? s->list[s->count - 1].time : 0; }

long schedule_events(const Schedule *s, EventKind kind) {
    long n = 0;
    for (int i = 0; i < s->count; i++) n += s->list[i].kind == kind;
    return n;
}
