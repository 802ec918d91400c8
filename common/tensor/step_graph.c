// step_graph.c: the last few steps that were seen, and their graphs.
#include "step_graph.h"
#include "autograd.h"
#include "common/base/error.h"
#include "common/device/graph.h"
#include "common/device/spans.h"

#include <stdlib.h>
#include <string.h>

typedef struct Step {
    void *key;
    size_t bytes;
    int k, seen;
    MemoryStamp memory;               // there when it was recorded
    Graph *graph;                     // NULL: not recorded yet
    Tensor losses[MAX_DEVICES];       // headers of their own: the arena's are used again
    ArenaPosition after[MAX_DEVICES]; // where the step leaves the arenas
} Step;

// A training has two: a full minibatch, and the last one of an epoch.
enum { STEPS = 4 };
static Step steps[STEPS];
static int next;        // which of them is forgotten next
static Step *recording; // between replay and done
static bool enabled = true;

void choose_graph(const char *name) { enabled = strcmp(name, "on") == 0; }

static void forget(Step *step) {
    graph_free(step->graph);
    free(step->key);
    *step = (Step){0};
}

static void forget_all(void) {
    for (int i = 0; i < STEPS; i++) forget(&steps[i]);
}

static Step *step_with(const void *key, size_t bytes, int k) {
    for (int i = 0; i < STEPS; i++)
        if (steps[i].bytes == bytes && steps[i].k == k && memcmp(steps[i].key, key, bytes) == 0)
            return &steps[i];
    before_devices_close(forget_all);
    Step *step = &steps[next++ % STEPS];
    forget(step);
    *step = (Step){.key = xmalloc(bytes), .bytes = bytes, .k = k};
    memcpy(step->key, key, bytes);
    return step;
}

// What was recorded before memory was freed may write to what now is somebody else's.
static void check_memory(Step *step) {
    if (!step->graph || memory_still_there(step->memory)) return;
    graph_free(step->graph);
    step->graph = NULL;
    step->seen = 0;
}

static void replay(Step *step, Device *const devices[], Tensor *losses[]) {
    graph_launch(step->graph);
    for (int i = 0; i < step->k; i++) {
        losses[i] = &step->losses[i];
        arena_move_to(devices[i], step->after[i]);
    }
}

bool step_graph_replay(Device *const devices[], int k, const void *key, size_t bytes,
                       Tensor *losses[]) {
    if (!enabled || !has_graphs(devices[0]) || trace_label_now()) return false;
    Step *step = step_with(key, bytes, k);
    check_memory(step);
    if (step->graph) {
        replay(step, devices, losses);
        return true;
    }
    if (step->seen++ == 0) return false;
    recording = step;
    graph_begin(devices, k);
    return false;
}

void step_graph_done(Tensor *const losses[]) {
    if (!recording) return;
    recording->graph = graph_end();
    recording->memory = memory_stamp();
    for (int i = 0; i < recording->k; i++) {
        Tensor *loss = &recording->losses[i];
        *loss = *losses[i];
        loss->grad = NULL; // the tape's: others have it in the next step
        loss->requires_grad = false;
        recording->after[i] = arena_position(loss->device);
    }
    graph_launch(recording->graph);
    recording = NULL;
}
