// pipeline.c: see pipeline.h.
#include "pipeline.h"

#include "common/base/error.h"
#include "chapters/01_splitting_strategies/costs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ## Orders

int fill_drain(int i, int k, int m, Turn turns[]) {
    int n = 0;
    (void)i;
    (void)k;
    for (int j = 0; j < m; j++) turns[n++] = (Turn){.j = j};
    for (int j = m - 1; j >= 0; j--) turns[n++] = (Turn){.backward = true, .j = j};
    return n;
}

// What the stages have done so far.
typedef struct Game {
    int k, m, n[MOST_STAGES], at[MOST_STAGES];
    Turn turns[MOST_STAGES][MOST_TURNS];
    int done[MOST_STAGES][2][MOST_MICROBATCHES]; // [stage][backward][microbatch]: when; 0: not yet
    int now[MOST_STAGES];                        // when the stage has done its last turn
} Game;

static Game *game_new(Order *order, int k, int m) {
    Game *g = xcalloc(1, sizeof *g);
    CHECK(k <= MOST_STAGES && m <= MOST_MICROBATCHES, "room for stages and microbatches");
    g->k = k;
    g->m = m;
    for (int i = 0; i < k; i++) g->n[i] = order(i, k, m, g->turns[i]);
    return g;
}

static const Turn *next_turn(const Game *g, int i) {
    return g->at[i] < g->n[i] ? &g->turns[i][g->at[i]] : NULL;
}

static bool can_go(const Game *g, int i) {
    const Turn *t = next_turn(g, i);
    if (!t) return false;
    if (!t->backward) return i == 0 || g->done[i - 1][0][t->j];
    return g->done[i][0][t->j] && (i == g->k - 1 || g->done[i + 1][1][t->j]);
}

static void take_turn(Game *g, int i) {
    const Turn *t = next_turn(g, i);
    int from = t->backward ? i + 1 : i - 1;
    if (from >= 0 && from < g->k && g->done[from][t->backward][t->j] > g->now[i])
        g->now[i] = g->done[from][t->backward][t->j];
    g->done[i][t->backward][t->j] = g->now[i] += t->backward ? 2 : 1;
    g->at[i]++;
}

// The stage that goes next: of those that can, the one that has done least; -1: nobody can.
static int who_goes(const Game *g) {
    int who = -1;
    for (int i = 0; i < g->k; i++)
        if (can_go(g, i) && (who < 0 || g->at[i] < g->at[who])) who = i;
    return who;
}

int play(Order *order, int k, int m, int at[MOST_STAGES]) {
    Game *g = game_new(order, k, m);
    int end = 0;
    for (int i; (i = who_goes(g)) >= 0;) {
        take_turn(g, i);
        if (g->now[i] > end) end = g->now[i];
    }
    memcpy(at, g->at, sizeof g->at);
    free(g);
    return end;
}

// ## Memory
//
// A microbatch that has gone backward needs its activations no more. So a stage has a *slot* for
// each one that is under way: a piece of the device's arena that it goes back to with
// arena_move_to(), when it is free, for the next one. On the compute queue the order of work is
// that of the turns, so what is overwritten has been used.

typedef struct Slot {
    ArenaPosition begin;
    bool taken;
    Event free; // when what was in it before has been used,
    Event sent; // and when the gradient of its input has come to the stage before
} Slot;

typedef struct Stage {
    Device *device;
    Range layers;
    Slot slots[MOST_MICROBATCHES];
    int num_slots;
    ArenaPosition top;                  // behind all of them
    Event begun;                        // when the step before has used the arena
    size_t most_lent;                   // bytes of gradients between operations
    int slot_number[MOST_MICROBATCHES]; // of microbatch j
    Tensor *in[MOST_MICROBATCHES], *out[MOST_MICROBATCHES];
    Tensor *dY[MOST_MICROBATCHES];    // the gradient of `out`, from the next stage
    Event gone[MOST_MICROBATCHES][2]; // when microbatch j had gone forward, and backward
} Stage;

static size_t peaks[MOST_STAGES];
size_t pipeline_peak(const Spread *s, int i) {
    CHECK(i < s->k, "one of its stages");
    return peaks[i];
}

static Slot *slot_of(Stage *stage, int j) { return &stage->slots[stage->slot_number[j]]; }

static void enter_slot(Stage *stage, int j) {
    int r = 0;
    while (r < stage->num_slots && stage->slots[r].taken) r++;
    if (r == stage->num_slots)
        stage->slots[stage->num_slots++] = (Slot){.begin = stage->top, .free = stage->begun};
    stage->slots[r].taken = true;
    stage->slot_number[j] = r;
    arena_move_to(stage->device, stage->slots[r].begin);
}

static void leave_slot(Stage *stage, int j) {
    bool is_last = stage->slot_number[j] == stage->num_slots - 1;
    ArenaPosition now = arena_position(stage->device);
    if (is_last && now.step_bytes > stage->top.step_bytes) stage->top = now;
    arena_move_to(stage->device, stage->top);
}

// ## A step
//
// What goes from stage to stage goes on the communication queues: so a stage that computes need not
// stop for what another one wants to have.

typedef struct Step {
    Spread *s;
    const Tensor *X, *y;
    Stage stages[MOST_STAGES];
} Step;

static void label(const char *what, int j) {
    char number[16];
    snprintf(number, sizeof number, "%d", j + 1);
    spread_label(what, number);
}

// Into the slot of microbatch j on stage `to`. That waits until the slot is free, and for nothing
// else that the stage has to do.
static void send(Step *step, int from, Event ready, int to, int j, Tensor *dst, const Tensor *src) {
    Spread *s = step->s;
    Stage *stage = &step->stages[to];
    const Slot *slot = slot_of(stage, j);
    queue_wait(comm_queue(stage->device), slot->free);
    queue_wait(comm_queue(stage->device), slot->sent);
    spread_label("exchange", NULL);
    communicate_begin();
    spread_send(s, from, ready, to, dst, src);
    communicate_end();
    device_wait(stage->device, s->arrived[from * s->k + to]);
    s->syncs++;
}

static void go_forward(Step *step, int i, int j) {
    Spread *s = step->s;
    Stage *stage = &step->stages[i];
    Range rows = equal_range(step->X->shape[0], s->microbatches, j);
    enter_slot(stage, j);
    device_wait(stage->device, slot_of(stage, j)->sent);
    spread_label("load", NULL);
    if (i == 0)
        stage->in[j] = spread_rows(s, 0, step->X, rows);
    else {
        const Tensor *sent = step->stages[i - 1].out[j];
        stage->in[j] = arena_tensor(stage->device, sent->ndim, sent->shape, true);
        send(step, i - 1, step->stages[i - 1].gone[j][0], i, j, stage->in[j], sent);
    }
    spread_label("load", NULL);
    Tensor *labels = i == s->k - 1 ? spread_rows(s, i, step->y, rows) : NULL;
    label("forward", j);
    stage->out[j] = layers_forward(s->network, stage->layers, stage->in[j], s->params[i]);
    if (labels) {
        stage->out[j] = sum(cross_entropy(stage->out[j], labels));
        tensor_copy(s->losses[j], stage->out[j]); // into memory that stays
    } else
        stage->dY[j] =
            arena_tensor(stage->device, stage->out[j]->ndim, stage->out[j]->shape, false);
    stage->gone[j][0] = device_record(stage->device);
    leave_slot(stage, j);
}

static void go_backward(Step *step, int i, int j) {
    Spread *s = step->s;
    Stage *stage = &step->stages[i];
    if (i < s->k - 1) {
        Stage *next = &step->stages[i + 1];
        send(step, i + 1, next->gone[j][1], i, j, stage->dY[j], next->in[j]->grad);
        slot_of(next, j)->sent = s->arrived[(i + 1) * s->k + i];
    }
    label("backward", j);
    if (i == s->k - 1)
        backward(stage->out[j]);
    else
        backward_from(stage->out[j], stage->dY[j]);
    size_t lent = arena_position(stage->device).most_lent;
    if (lent > stage->most_lent) stage->most_lent = lent;
    stage->gone[j][1] = device_record(stage->device);
    slot_of(stage, j)->taken = false;
    slot_of(stage, j)->free = stage->gone[j][1];
}

static void open_stages(Step *step) {
    Spread *s = step->s;
    int first[MAX_LAYERS + 1], one = 1;
    stages_of(s->network, s->k, first);
    spread_begin(s, s->microbatches);
    for (int j = 0; j < s->microbatches; j++)
        s->losses[j] = arena_tensor(s->devices[s->k - 1], 1, &one, false);
    for (int i = 0; i < s->k; i++)
        step->stages[i] = (Stage){.device = s->devices[i],
                                  .layers = {first[i], first[i + 1] - first[i]},
                                  .top = arena_position(s->devices[i]),
                                  .begun = device_record(s->devices[i])};
}

static Order *chosen_order = fill_drain;

static void gradients(Spread *s, const Tensor *X, const Tensor *y) {
    Game *g = game_new(chosen_order, s->k, s->microbatches);
    Step *step = xcalloc(1, sizeof *step);
    CHECK(X->shape[0] % s->microbatches == 0, "slots are for microbatches of one size");
    step->s = s;
    step->X = X;
    step->y = y;
    open_stages(step);
    for (int i; (i = who_goes(g)) >= 0; take_turn(g, i)) {
        const Turn *t = next_turn(g, i);
        if (t->backward)
            go_backward(step, i, t->j);
        else
            go_forward(step, i, t->j);
    }
    for (int i = 0; i < s->k; i++) {
        CHECK(g->at[i] == g->n[i], "an order that does not stop half way");
        peaks[i] = step->stages[i].top.step_bytes + step->stages[i].most_lent;
    }
    spread_settle(s);
    free(step);
    free(g);
}

const Strategy *pipeline_in_order(Order *order) {
    static Strategy strategy;
    chosen_order = order;
    strategy = across_layers;
    strategy.gradients = gradients;
    return &strategy;
}
