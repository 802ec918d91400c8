// step_graph.c: keeps the last few kinds of steps and their graphs. A kind is known by a key, which
// has everything that must be the same for the graph to be right.
#include "step_graph.h"
#include "autograd.h"
#include "common/base/error.h"
#include "common/device/graph.h"
#include "common/device/spans.h"

#include <stdlib.h>
#include <string.h>

// ---- what a step is known by -------------------------------------------------------------------

// Everything in a StepWork, as words.
typedef struct Key {
    uint64_t *words;
    size_t n, room;
} Key;

static Key asked; // of the step that begins

static void add_word(Key *key, uint64_t word) {
    key->words = xroom(key->words, key->n, &key->room, sizeof *key->words);
    key->words[key->n++] = word;
}

static void add_address(Key *key, const void *address) { add_word(key, (uintptr_t)address); }

static void add_number(Key *key, double number) {
    uint64_t word;
    memcpy(&word, &number, sizeof word);
    add_word(key, word);
}

static void add_tensor(Key *key, const Tensor *t) {
    add_address(key, t->data);
    add_address(key, t->grad ? t->grad->data : NULL);
    add_word(key, (uint64_t)t->ndim);
    for (int d = 0; d < t->ndim; d++) add_word(key, (uint64_t)t->shape[d]);
}

static void make_key(Key *key, const StepWork *work) {
    key->n = 0;
    add_word(key, (uint64_t)work->k);
    for (int i = 0; i < work->k; i++) add_address(key, work->devices[i]);
    for (int p = 0; p < work->num_params; p++) add_tensor(key, work->params[p]);
    for (int i = 0; i < STEP_NUMBERS; i++) add_number(key, work->numbers[i]);
    add_address(key, work->algorithm);
}

static bool same_key(const Key *a, const Key *b) {
    return a->n == b->n && memcmp(a->words, b->words, a->n * sizeof *a->words) == 0;
}

static Key copy_of(const Key *key) {
    Key copy = {.n = key->n, .room = key->n};
    copy.words = xmalloc(key->n * sizeof *key->words);
    memcpy(copy.words, key->words, key->n * sizeof *key->words);
    return copy;
}

// ---- steps -------------------------------------------------------------------------------------

typedef struct Step {
    Key key; // what it is known by
    int k, seen;
    MemoryStamp memory;               // there when it was recorded
    Graph *graph;                     // NULL: not recorded yet
    Tensor losses[MAX_DEVICES];       // headers of their own: the arena's are used again
    ArenaPosition after[MAX_DEVICES]; // where the step leaves the arenas
} Step;

// A training has two: a full minibatch, and the last one of an epoch.
enum { STEPS = 4 };
static Step steps[STEPS];
static int next;      // which of them is forgotten next
static Step *current; // from begin to launch or done; NULL if no graph is used
static bool enabled = true;

void choose_graph(const char *name) { enabled = strcmp(name, "on") == 0; }

static void forget(Step *step) {
    graph_free(step->graph);
    free(step->key.words);
    *step = (Step){0};
}

static void forget_all(void) {
    for (int i = 0; i < STEPS; i++) forget(&steps[i]);
    free(asked.words);
    asked = (Key){0};
}

static Step *step_with(const StepWork *work) {
    before_devices_close(forget_all);
    make_key(&asked, work);
    for (int i = 0; i < STEPS; i++)
        if (steps[i].key.words && same_key(&steps[i].key, &asked)) return &steps[i];
    Step *step = &steps[next++ % STEPS];
    forget(step);
    *step = (Step){.key = copy_of(&asked), .k = work->k};
    return step;
}

bool step_graph_begin(const StepWork *work) {
    if (!enabled || !has_graphs(work->devices[0]) || trace_has_room()) return false;
    Step *step = step_with(work);
    // A graph that was recorded before memory was freed may write to what is something else now.
    if (step->graph && !memory_still_there(step->memory)) {
        graph_free(step->graph);
        step->graph = NULL;
        step->seen = 0;
    }
    if (!step->graph && step->seen++ == 0) return false;
    current = step;
    if (step->graph) return true;
    graph_begin(work->devices, work->k);
    return false;
}

void step_graph_launch(Tensor *losses[]) {
    graph_launch(current->graph);
    for (int i = 0; i < current->k; i++) {
        losses[i] = &current->losses[i];
        arena_move_to(losses[i]->device, current->after[i]);
    }
    current = NULL;
}

void step_graph_done(Tensor *const losses[]) {
    if (!current) return;
    current->graph = graph_end();
    current->memory = memory_stamp();
    for (int i = 0; i < current->k; i++) {
        Tensor *loss = &current->losses[i];
        *loss = *losses[i];
        loss->grad = NULL; // the tape's: others have it in the next step
        loss->requires_grad = false;
        current->after[i] = arena_position(loss->device);
    }
    graph_launch(current->graph);
    current = NULL;
}
