// simulation.c: an agenda of the pieces of work that come to a port next, in order of time.
//
// Only work with ports can meet other work, so nothing else is in the agenda, which is a heap. For
// all other work, the time is known as soon as the times of everything it waits for are known.
#include "simulation.h"
#include "common/base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Piece {
    Work work;      // a wait has only `issued`
    bool waits;     // it is a wait, not work,
    Moment after;   // for this
    double done;    // NAN: not known yet
    uint64_t order; // its number among the pieces of all queues, in the order they were added
} Piece;

typedef struct Line {          // a queue
    Piece *pieces;             // from number `forgotten` + 1 on
    size_t count, room, known; // how many pieces; for how many of them the time is known
    uint64_t forgotten;
    double free;       // when the last known piece is done
    int first_waiting; // the first queue that waits for a moment of this one, or -1
    int next_waiting;  // the next queue that waits for the same one as this, or -1
    bool asked;        // its next piece is in the agenda
} Line;

// A time in the agenda: a queue's next piece comes to a port.
typedef struct Entry {
    double time, ready; // ready: when it came to the first one
    uint64_t order;
    int queue, passed; // how many ports it has passed
    double end;        // when these ports have served it, and its `seconds` are over
} Entry;

typedef struct Heap {
    Entry *entries;
    size_t count, room;
} Heap;

struct Simulation {
    Line *lines;
    int num_lines;
    double *port_free; // when each port is free again
    Heap agenda;
    int *woken; // queues that may be able to go on
    size_t num_woken, max_woken;
    uint64_t added;
    double asked; // the latest time that was asked about
    SimulationObserver *observer;
};

// ---- heaps -----------------------------------------------------------------------------------

static bool comes_before(const Entry *a, const Entry *b) {
    if (a->time != b->time) return a->time < b->time;
    if (a->ready != b->ready) return a->ready < b->ready;
    return a->order < b->order;
}

static void heap_put(Heap *heap, Entry entry) {
    heap->entries = xroom(heap->entries, heap->count, &heap->room, sizeof *heap->entries);
    size_t at = heap->count++;
    while (at > 0 && comes_before(&entry, &heap->entries[(at - 1) / 2])) {
        heap->entries[at] = heap->entries[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap->entries[at] = entry;
}

static Entry heap_take(Heap *heap) {
    Entry first = heap->entries[0], last = heap->entries[--heap->count];
    size_t at = 0;
    for (size_t child = 1; child < heap->count; child = 2 * at + 1) {
        if (child + 1 < heap->count &&
            comes_before(&heap->entries[child + 1], &heap->entries[child]))
            child++;
        if (!comes_before(&heap->entries[child], &last)) break;
        heap->entries[at] = heap->entries[child];
        at = child;
    }
    if (heap->count > 0) heap->entries[at] = last;
    return first;
}

// ---- moments ---------------------------------------------------------------------------------

// NAN as long as it is not known.
static double time_of(const Simulation *s, Moment moment) {
    if (moment.number == 0) return 0; // there may be no such queue yet
    const Line *line = &s->lines[moment.queue];
    uint64_t last = line->forgotten + line->count;
    uint64_t number = moment.number < last ? moment.number : last;
    if (number <= line->forgotten) return 0;
    return line->pieces[number - line->forgotten - 1].done;
}

static void wake(Simulation *s, int queue) {
    s->woken = xroom(s->woken, s->num_woken, &s->max_woken, sizeof *s->woken);
    s->woken[s->num_woken++] = queue;
}

// Lets queues go on that waited for a time that is now known.
static void wake_waiting(Simulation *s, Line *line) {
    int *link = &line->first_waiting;
    while (*link >= 0) {
        Line *other = &s->lines[*link];
        if (isnan(time_of(s, other->pieces[other->known].after))) {
            link = &other->next_waiting;
            continue;
        }
        wake(s, *link);
        *link = other->next_waiting;
    }
}

// ---- queues ----------------------------------------------------------------------------------

// (If it had to wait for a port, the observer sees the latest time at which it could have begun.)
static void piece_is_done(Simulation *s, int queue, double done) {
    Line *line = &s->lines[queue];
    Piece *piece = &line->pieces[line->known++];
    double seconds = piece->work.seconds + piece->work.latency;
    piece->done = line->free = done;
    if (!piece->waits && s->observer) s->observer(piece->work.tag, queue, done - seconds, done);
    wake_waiting(s, line);
}

// Finds out when the queue's next piece is done. Returns false if there is none, or if that depends
// on other queues.
static bool try_next_piece(Simulation *s, int queue) {
    Line *line = &s->lines[queue];
    if (line->asked || line->known == line->count) return false;
    const Piece *piece = &line->pieces[line->known];
    const Work *work = &piece->work;
    double ready = fmax(line->free, work->issued);
    if (piece->waits) {
        double after = time_of(s, piece->after);
        if (isnan(after)) {
            Line *other = &s->lines[piece->after.queue];
            line->next_waiting = other->first_waiting;
            other->first_waiting = queue;
            return false;
        }
        piece_is_done(s, queue, fmax(ready, after));
    } else if (work->num_ports == 0) {
        piece_is_done(s, queue, ready + work->seconds + work->latency);
    } else {
        line->asked = true;
        heap_put(&s->agenda, (Entry){ready, ready, piece->order, queue, 0, ready + work->seconds});
        return false;
    }
    return true;
}

static void go_on(Simulation *s, int queue) {
    wake(s, queue);
    while (s->num_woken > 0) {
        int next = s->woken[--s->num_woken];
        while (try_next_piece(s, next)) continue;
    }
}

// ---- ports -----------------------------------------------------------------------------------

// The piece passes ports as long as none makes it wait; then others may come to the next one first.
static void next_entry(Simulation *s) {
    Entry entry = heap_take(&s->agenda);
    Line *line = &s->lines[entry.queue];
    const Work *work = &line->pieces[line->known].work;
    for (double now = entry.time; entry.time == now && entry.passed < work->num_ports;) {
        const PortUse *use = &work->ports[entry.passed++];
        double *port_free = &s->port_free[use->port], seconds = use->share * work->seconds;
        entry.time = fmax(entry.time, *port_free);
        *port_free = entry.time + seconds;
        entry.end = fmax(entry.end, *port_free);
    }
    if (entry.passed < work->num_ports) {
        heap_put(&s->agenda, entry);
        return;
    }
    line->asked = false;
    piece_is_done(s, entry.queue, entry.end + work->latency);
    go_on(s, entry.queue);
}

// ---- for others ------------------------------------------------------------------------------

Simulation *simulation_new(int num_ports) {
    Simulation *s = xcalloc(1, sizeof *s);
    s->port_free = xcalloc((size_t)num_ports + 1, sizeof *s->port_free);
    return s;
}

void simulation_free(Simulation *s) {
    if (!s) return;
    for (int i = 0; i < s->num_lines; i++) free(s->lines[i].pieces);
    free(s->lines);
    free(s->port_free);
    free(s->agenda.entries);
    free(s->woken);
    free(s);
}

int simulation_add_queue(Simulation *s) {
    s->lines = xgrow(s->lines, (size_t)s->num_lines + 1, sizeof *s->lines);
    s->lines[s->num_lines] = (Line){.first_waiting = -1, .next_waiting = -1};
    return s->num_lines++;
}

static void add_piece(Simulation *s, int queue, Piece piece) {
    Line *line = &s->lines[queue];
    CHECK(piece.work.issued >= s->asked,
          "what was told of a time must stay true: nothing is issued before it any more");
    line->pieces = xroom(line->pieces, line->count, &line->room, sizeof *line->pieces);
    piece.done = NAN;
    piece.order = ++s->added;
    line->pieces[line->count++] = piece;
    // (If there are others before it, its turn comes after theirs.)
    if (line->known + 1 == line->count) go_on(s, queue);
}

void simulation_add(Simulation *s, int queue, const Work *work) {
    add_piece(s, queue, (Piece){.work = *work});
}

void simulation_wait(Simulation *s, int queue, double issued, Moment moment) {
    if (moment.queue == queue || moment.number == 0) return;
    add_piece(s, queue, (Piece){.work.issued = issued, .waits = true, .after = moment});
}

Moment simulation_last(const Simulation *s, int queue) {
    return (Moment){queue, s->lines[queue].forgotten + s->lines[queue].count};
}

double simulation_time(Simulation *s, Moment moment) {
    while (isnan(time_of(s, moment))) {
        CHECK(s->agenda.count > 0, "a wait for what comes after it");
        next_entry(s);
    }
    s->asked = fmax(s->asked, time_of(s, moment));
    return time_of(s, moment);
}

bool simulation_is_past(Simulation *s, Moment moment, double now) {
    while (isnan(time_of(s, moment)) && s->agenda.count > 0 && s->agenda.entries[0].time <= now)
        next_entry(s);
    s->asked = fmax(s->asked, now);
    return time_of(s, moment) <= now;
}

void simulation_forget(Simulation *s, double now) {
    // (After this, a piece that still waits for a forgotten moment also waits for something later.)
    while (s->agenda.count > 0 && s->agenda.entries[0].time <= now) next_entry(s);
    s->asked = fmax(s->asked, now);
    for (int i = 0; i < s->num_lines; i++) {
        Line *line = &s->lines[i];
        size_t past = 0;
        while (past < line->known && line->pieces[past].done <= now) past++;
        if (past == 0 || past < line->count / 2) continue; // not worth the moving
        line->count -= past;
        line->known -= past;
        line->forgotten += past;
        memmove(line->pieces, line->pieces + past, line->count * sizeof *line->pieces);
    }
}

void simulation_observe(Simulation *s, SimulationObserver *observer) { s->observer = observer; }
