// step_graph.c: keeps the last few kinds of steps and their graphs. A kind is known by its key,
// which contains everything that must be the same for the graph to be right.
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

static void add_word(uint64_t word) {
    asked.words = xroom(asked.words, asked.n, &asked.room, sizeof *asked.words);
    asked.words[asked.n++] = word;
}

static void ask_for(const StepWork *work) {
    asked.n = 0;
    add_word((uint64_t)work->k);
    for (int i = 0; i < work->k; i++) add_word((uintptr_t)work->devices[i]);
    for (int p = 0; p < work->num_params; p++) {
        const Tensor *t = work->params[p];
        add_word((uintptr_t)t->data);
        add_word(t->grad ? (uintptr_t)t->grad->data : 0);
        add_word((uint64_t)t->ndim);
        for (int d = 0; d < t->ndim; d++) add_word((uint64_t)t->shape[d]);
    }
    for (int i = 0; i < STEP_NUMBERS; i++) {
        uint64_t word;
        memcpy(&word, &work->numbers[i], sizeof word);
        add_word(word);
    }
    add_word((uintptr_t)work->algorithm);
}

// ---- steps -------------------------------------------------------------------------------------

typedef struct Step {
    Key key; // what it is known by
    int k, seen;
    MemoryStamp memory;               // when it was recorded
    Graph *graph;                     // NULL: not recorded yet
    Tensor losses[MAX_DEVICES];       // copies of the headers, because the arena uses its own again
    ArenaPosition after[MAX_DEVICES]; // where the step leaves the arenas
} Step;

// A training has two: a full minibatch, and the last one of an epoch.
enum { STEPS = 4 };
static Step steps[STEPS];
static int next;      // the one to forget next
static Step *current; // between begin and launch or done; NULL if no graph is used

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
    ask_for(work);
    for (Step *step = steps; step < steps + STEPS; step++)
        if (step->key.n == asked.n &&
            memcmp(step->key.words, asked.words, asked.n * sizeof *asked.words) == 0)
            return step;
    Step *step = &steps[next++ % STEPS];
    forget(step);
    *step = (Step){.key = asked, .k = work->k};
    asked = (Key){0};
    return step;
}

bool step_graph_begin(const StepWork *work) {
    if (!has_graphs(work->devices[0]) || trace_has_room()) return false;
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
        loss->grad = NULL; // it belongs to the tape, and the next step uses it for others
        loss->requires_grad = false;
        current->after[i] = arena_position(loss->device);
    }
    graph_launch(current->graph);
    current = NULL;
}
