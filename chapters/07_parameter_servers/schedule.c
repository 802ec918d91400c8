// schedule.c: the order of events, from the speeds of the workers.
//
// Nothing is computed here. A worker pulls, computes, pushes, and perhaps waits; each takes a time
// that is stated. The servers' links carry one transfer at a time in each direction. So it is known
// when each push arrives, and in which order, and the same pace and seed give the same order on
// every computer, in every run.
#include "schedule.h"

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/tensor/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const event_names[] = {"pull", "push", "drop", "lost"};

bool in_rounds(Discipline how) { return how.staleness == 0; }

// ## A worker's life

// DOOMED: it will be given up, and nobody knows yet. GONE: it was.
typedef enum { WANTS, WAITS, PULLS, COMPUTES, PUSHES, DOOMED, GONE } Doing;

typedef struct Life {
    Doing doing;
    double next;   // when that ends, or begins; INFINITY: when others let it
    double pulled; // when it pulled last
    long clock;    // the number of its step
    long pushes;
} Life;

typedef struct World {
    const Pace *pace;
    Discipline how;
    const Rules *rules;
    Life *lives;
    long *steps;              // of those that were not given up
    double in_free, out_free; // when the servers' links are free again
    long version;             // rounds that ended, and pushes in the present one (backup workers)
    int in_round, lost;
    long pushes, most; // all pushes; when there are so many, it ends
    bool over;
    Schedule schedule;
} World;

static void add_happening(Schedule *s, Happening e) {
    if (s->count == s->room) {
        s->room = s->room ? 2 * s->room : 1024;
        s->list = xgrow(s->list, (size_t)s->room, sizeof *s->list);
    }
    s->list[s->count++] = e;
}

static void happens(World *v, double time, EventKind kind, int w) {
    add_happening(&v->schedule, (Happening){time, kind, w, v->lives[w].clock});
}

// ## Who may go on
//
// A worker that has made n pushes begins step n. It may, if the slowest is not too far behind. With
// backup workers it may when the round that it took part in has ended, with or without it: the
// round ends when all but the backup's pushes are there, and what comes later is dropped.

static bool within_bound(long mine, const long steps[], int n, int staleness) {
    long slowest = mine;
    for (int i = 0; i < n; i++)
        if (steps[i] < slowest) slowest = steps[i];
    return mine - slowest <= staleness;
}

static PushFate fate_in_round(long step, long updates, int taken, int W, int backup) {
    if (step < updates) return PUSH_DROPPED;
    return taken + 1 < W - backup ? PUSH_TAKEN : PUSH_COMPLETES;
}

// Whoever was given up is not waited for.
static bool may_pull(World *v, const Life *life) {
    int n = 0;
    if (v->how.backup > 0) return life->pushes == 0 || life->clock < v->version;
    for (int w = 0; w < v->pace->W; w++)
        if (v->lives[w].doing != GONE) v->steps[n++] = v->lives[w].pushes;
    return v->rules->may_begin(life->pushes, v->steps, n, v->how.staleness);
}

static void let_waiting_go(World *v, double now) {
    for (int w = 0; w < v->pace->W; w++)
        if (v->lives[w].doing == WAITS) {
            v->lives[w].doing = WANTS;
            v->lives[w].next = now;
        }
}

// ## What happens when

// A worker's n-th step stalls in every discipline, or in none.
static bool stalls(const World *v, int w) {
    const Pace *p = v->pace;
    uint32_t stream = STREAM_STALLS + (uint32_t)w;
    return random_uniform(p->seed, stream, (uint64_t)v->lives[w].pushes) < p->odds;
}

static double computing(const World *v, int w) {
    const Pace *p = v->pace;
    double chance =
        2 * random_uniform(p->seed, STREAM_PACE + (uint32_t)w, (uint64_t)v->lives[w].pushes) - 1;
    double seconds = p->compute * p->slow[w] * (1 + p->jitter * chance);
    return stalls(v, w) ? p->stall * seconds : seconds;
}

static void wants_to_pull(World *v, Life *life) {
    if (!may_pull(v, life)) {
        life->doing = WAITS;
        life->next = INFINITY;
        return;
    }
    life->next = fmax(life->next, v->out_free);
    v->out_free = life->next + v->pace->busy;
    life->doing = PULLS;
}

static void pulls(World *v, Life *life, int w) {
    const Pace *p = v->pace;
    life->clock = v->how.backup > 0 ? v->version : life->pushes;
    happens(v, life->next, EVENT_PULL, w);
    life->pulled = life->next;
    life->doing = COMPUTES;
    bool dies = w == p->dies && life->clock >= p->at;
    life->next += dies ? INFINITY : p->transfer * p->slow[w] + computing(v, w);
    if (life->next > life->pulled + p->timeout) { // nobody knows whether it is dead or only slow
        life->next = life->pulled + p->timeout;
        life->doing = DOOMED;
    }
}

static void has_computed(World *v, Life *life, int w) {
    double start = fmax(life->next, v->in_free);
    v->in_free = start + v->pace->busy;
    life->doing = PUSHES;
    life->next = start + v->pace->transfer * v->pace->slow[w];
}

// A push of the round that is not over.
static void is_taken(World *v, PushFate fate) {
    v->over = ++v->pushes == v->most;
    v->in_round = fate == PUSH_COMPLETES ? 0 : v->in_round + 1;
    if (fate == PUSH_COMPLETES) v->version++;
}

static void has_pushed(World *v, Life *life, int w) {
    int W = v->pace->W, backup = v->how.backup;
    PushFate fate = backup > 0 ? v->rules->fate(life->clock, v->version, v->in_round, W, backup)
                               : PUSH_COMPLETES;
    happens(v, life->next, fate == PUSH_DROPPED ? EVENT_DROP : EVENT_PUSH, w);
    life->pushes++;
    life->doing = WANTS;
    if (fate != PUSH_DROPPED) is_taken(v, fate);
    if (fate == PUSH_COMPLETES) let_waiting_go(v, life->next);
}

// Whoever cannot do without it stops; the others go on.
static void is_given_up(World *v, Life *life, int w) {
    happens(v, life->next, EVENT_LOST, w);
    v->lost++;
    life->doing = GONE;
    if (v->lost == v->pace->W || (in_rounds(v->how) && v->lost > v->how.backup)) v->over = true;
    let_waiting_go(v, life->next);
    life->next = INFINITY;
}

static void go_on(World *v, int w) {
    Life *life = &v->lives[w];
    switch (life->doing) {
    case WANTS:
        wants_to_pull(v, life);
        break;
    case PULLS:
        pulls(v, life, w);
        break;
    case COMPUTES:
        has_computed(v, life, w);
        break;
    case PUSHES:
        has_pushed(v, life, w);
        break;
    case DOOMED:
        is_given_up(v, life, w);
        break;
    case WAITS:
    case GONE:
        break;
    }
}

// The worker to whom something happens first; of two at the same time, the one with the lower
// number.
static int first_of(const World *v) {
    int first = 0;
    for (int w = 1; w < v->pace->W; w++)
        if (v->lives[w].next < v->lives[first].next) first = w;
    CHECK(isfinite(v->lives[first].next), "somebody always goes on");
    return first;
}

// Pushes after which it ends.
static long most_pushes(const Pace *pace, Discipline how, long clocks) {
    return (long)(pace->W - how.backup) * clocks;
}

// "none": there is no such bound.
static char *number_or_none(double number) {
    return isinf(number) ? xstrdup("none") : xprintf("%.6g", number);
}

// All that the order follows from, in pairs of a word and a value.
static char *made_from(const Pace *p, Discipline how, long clocks) {
    char *bound = number_or_none(how.staleness == NO_BOUND ? INFINITY : how.staleness);
    char *timeout = number_or_none(p->timeout), *slow = xprintf("%.6g", p->slow[0]);
    for (int w = 1; w < p->W; w++) {
        char *more = xprintf("%s,%.6g", slow, p->slow[w]);
        free(slow);
        slow = more;
    }
    char *line = xprintf(
        "workers %d staleness %s backup %d steps %ld seed %llu slow %s compute %.6g transfer %.6g "
        "busy %.6g jitter %.6g odds %.6g stall %.6g timeout %s dies %d at %d",
        p->W, bound, how.backup, clocks, (unsigned long long)p->seed, slow, p->compute, p->transfer,
        p->busy, p->jitter, p->odds, p->stall, timeout, p->dies, p->at);
    free(bound);
    free(timeout);
    free(slow);
    return line;
}

Schedule schedule_by_rules(const Pace *pace, Discipline how, long clocks, const Rules *rules) {
    World v = {.pace = pace, .how = how, .rules = rules, .schedule = {.W = pace->W, .how = how}};
    CHECK(how.backup < pace->W && (how.backup == 0 || how.staleness == 0),
          "backup workers are a form of synchronous training, and some are left");
    v.most = most_pushes(pace, how, clocks);
    v.schedule.made_from = made_from(pace, how, clocks);
    v.lives = xcalloc((size_t)pace->W, sizeof *v.lives);
    v.steps = xcalloc((size_t)pace->W, sizeof *v.steps);
    v.over = v.most == 0;
    while (!v.over) go_on(&v, first_of(&v));
    free(v.lives);
    free(v.steps);
    return v.schedule;
}

Schedule schedule_make(const Pace *pace, Discipline how, long clocks) {
    static const Rules rules = {within_bound, fate_in_round};
    return schedule_by_rules(pace, how, clocks, &rules);
}

void schedule_free(Schedule *s) {
    free(s->list);
    free(s->made_from);
    *s = (Schedule){0};
}

// ## Files
//
// The first line says what the order was made from. Who replays the file must ask for the same, or
// would train something else than was recorded, and call it by a wrong name.

void schedule_write(const Schedule *s, const char *path) {
    OutputFile out = output_open(path);
    fprintf(out.stream, "%s\n# seconds, event, worker, its step\n", s->made_from);
    for (int i = 0; i < s->count; i++)
        fprintf(out.stream, "%.9g %s %d %ld\n", s->list[i].time, event_names[s->list[i].kind],
                s->list[i].worker, s->list[i].clock);
    output_close(&out);
}

// The words of two such lines, pair by pair.
static void check_made_from(char *line, const char *expected, const char *path) {
    char *copy = xstrdup(expected), *at = NULL, *wanted_at = NULL;
    char *key = strtok_r(line, " \n", &at), *wanted_key = strtok_r(copy, " ", &wanted_at);
    while (wanted_key) {
        char *value = strtok_r(NULL, " \n", &at), *wanted = strtok_r(NULL, " ", &wanted_at);
        if (!key || !value || strcmp(key, wanted_key) != 0)
            die("the first line says what it was made from, as --schedule writes it",
                "%s:1: not the first line of a schedule", path);
        if (strcmp(value, wanted) != 0)
            die("give the same flags as when it was written, or the name of a new file",
                "%s:1: it was made with %s %s, and this run has %s", path, key, value, wanted);
        key = strtok_r(NULL, " \n", &at);
        wanted_key = strtok_r(NULL, " ", &wanted_at);
    }
    free(copy);
}

static _Noreturn void die_in_line(const char *path, int line, const char *what) {
    die("a line is: seconds pull|push|drop|lost worker step, as --schedule writes it", "%s:%d: %s",
        path, line, what);
}

// A worker pulls, then pushes (or is too late, or lost), and so on.
static void check_next(const Schedule *s, const Happening *e, const char *path, int line) {
    const Happening *before = NULL;
    for (int i = s->count - 1; i >= 0 && !before; i--)
        if (s->list[i].worker == e->worker) before = &s->list[i];
    if (s->count > 0 && e->time < s->list[s->count - 1].time)
        die_in_line(path, line, "the time goes back");
    if (before && before->kind == EVENT_LOST) die_in_line(path, line, "this worker was lost");
    bool pulled = before && before->kind == EVENT_PULL;
    if (pulled == (e->kind == EVENT_PULL))
        die_in_line(path, line,
                    pulled ? "this worker has pulled already" : "this worker has not pulled");
    if (pulled && before->clock != e->clock)
        die_in_line(path, line, "this is not the step it pulled for");
    if (before && !pulled && e->clock <= before->clock)
        die_in_line(path, line, "this worker has made this step, or a later one");
}

static Happening parse_line(const char *text, const char *path, int line, int W) {
    Happening e = {0};
    char name[16];
    int end = 0, kind = 0;
    if (sscanf(text, "%lf %15s %d %ld %n", &e.time, name, &e.worker, &e.clock, &end) != 4 ||
        text[end])
        die_in_line(path, line, "not four fields");
    while (kind < 4 && strcmp(name, event_names[kind]) != 0) kind++;
    if (kind == 4) die_in_line(path, line, "no such event");
    if (!(e.time >= 0) || !isfinite(e.time) || e.clock < 0)
        die_in_line(path, line, "a number below 0");
    if (e.worker < 0 || e.worker >= W)
        die_in_line(path, line, "no such worker: --workers says how many");
    e.kind = (EventKind)kind;
    return e;
}

static void check_whole(const Schedule *s, long most, const char *path, int line) {
    long pushes = 0;
    if (s->count == 0) die_in_line(path, line, "no events");
    for (int i = 0; i < s->count; i++) pushes += s->list[i].kind == EVENT_PUSH;
    bool ended = in_rounds(s->how) && s->list[s->count - 1].kind == EVENT_LOST;
    if (pushes != most && !ended)
        die("it was cut off, or lines were added: write it anew", "%s: %ld pushes, and not %ld",
            path, pushes, most);
}

Schedule schedule_read(const char *path, const Pace *pace, Discipline how, long clocks) {
    Schedule s = {.W = pace->W, .how = how, .made_from = made_from(pace, how, clocks)};
    char *text = NULL;
    size_t room = 0;
    int line = 1;
    FILE *file = fopen(path, "r");
    if (!file || getline(&text, &room, file) < 0)
        die("--schedule names a file that --schedule has written", "%s: cannot be read, or empty",
            path);
    check_made_from(text, s.made_from, path);
    while (getline(&text, &room, file) >= 0) {
        line++;
        if (text[0] == '#' || text[0] == '\n') continue;
        Happening e = parse_line(text, path, line, pace->W);
        check_next(&s, &e, path, line);
        add_happening(&s, e);
    }
    free(text);
    fclose(file);
    check_whole(&s, most_pushes(pace, how, clocks), path, line);
    return s;
}
