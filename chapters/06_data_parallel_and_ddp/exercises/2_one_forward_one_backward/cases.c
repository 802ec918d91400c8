// cases.c: the turns of each stage, how far stages come that take them, and a step of training in
// that order: gradients, and what each stage had to keep.
#include "common/program/facts.h"
#include "common/tensor/random.h"
#include "your_part.h"

#include <stdlib.h>
#include <string.h>

enum { IN_ORDER = 1, NO_WAITING, UNDER_WAY, TRAINING, FEW };
const Part parts[] = {
    {"microbatches go forward, and back, in the order 0, 1, 2, .., on each stage", 2},
    {"no stage waits forever", 1},
    {"stage i keeps k - i microbatches at most, and the step is as short as fill-drain's", 3},
    {"gradients are right, with as little memory for activations as 1F1B needs", 2},
    {"all that with fewer microbatches than stages", 2},
    {0}};

// ---- orders ------------------------------------------------------------------------------------

// Those that go the one way: how many, and which microbatches in which order.
static void record_way(int part, const Turn turns[], int n, bool backward, const char *name) {
    int microbatches[MOST_TURNS], count = 0;
    for (int t = 0; t < n; t++)
        if (turns[t].backward == backward) microbatches[count++] = turns[t].j;
    record_ints(part, microbatches, (size_t)count, "%s", name);
}

// (Not the turns themselves: the judge would show the right ones.)
static void stage(int part_of_order, int part_of_kept, int i, int k, int m) {
    Turn turns[MOST_TURNS] = {{0}};
    int kept = 0, most = 0;
    begin_case("stage %d of k = %d, m = %d microbatches", i, k, m);
    int n = one_forward_one_backward(i, k, m, turns);
    record_int(part_of_order, n, "returned");
    if (n < 0 || n > MOST_TURNS) n = 0;
    for (int t = 0; t < n; t++) {
        kept += turns[t].backward ? -1 : 1;
        if (kept > most) most = kept;
    }
    record_at_most(part_of_kept, most, "microbatches kept at a time");
    record_way(part_of_order, turns, n, false, "forward, microbatches");
    record_way(part_of_order, turns, n, true, "backward, microbatches");
}

// The student's order up to the first turn that cannot be played.
static int playable(int i, int k, int m, Turn turns[]) {
    memset(turns, 0, MOST_TURNS * sizeof *turns);
    int n = one_forward_one_backward(i, k, m, turns), t = 0;
    if (n > MOST_TURNS) n = MOST_TURNS;
    while (t < n && turns[t].j >= 0 && turns[t].j < m) t++;
    return t;
}

// The same up to the first turn that is not in its order, which pipeline.c needs.
static int in_order(int i, int k, int m, Turn turns[]) {
    int n = playable(i, k, m, turns), next[2] = {0}, t = 0;
    while (t < n && turns[t].j == next[turns[t].backward]++) t++;
    return t;
}

// Returns whether all stages come to their end. part_of_time: 0 to leave the time out.
static bool record_play(int part, int part_of_time, Order *order, int k, int m) {
    int at[MOST_STAGES], time = play(order, k, m, at);
    bool all = true;
    if (part_of_time) record_int(part_of_time, time, "time, if a forward takes 1 and a backward 2");
    record_ints(part, at, (size_t)k, "turns that stages 0, 1, .. have done when none can go on");
    for (int i = 0; i < k; i++) all = all && at[i] == 2 * m;
    return all;
}

static void orders_of(int part_of_order, int part_of_play, int part_of_short, int k, int m) {
    for (int i = k - 1; i >= 0; i--) stage(part_of_order, part_of_short, i, k, m);
    begin_case("all stages, k = %d, m = %d microbatches", k, m);
    record_play(part_of_play, part_of_short, playable, k, m);
}

static void orders(void) {
    for (int k = 1; k < MOST_STAGES; k++)
        orders_of(IN_ORDER, NO_WAITING, UNDER_WAY, k, (int)draw(k + (k < 4), 2 * k));
}

// The pipeline is never full, and a warm-up is cut off.
static void orders_of_few(void) {
    for (int k = 2; k <= MOST_STAGES; k++) orders_of(FEW, FEW, FEW, k, (int)draw(1, k - 1));
}

// ---- a step of training ------------------------------------------------------------------------

static Problem drawn_problem(const Network *network, int images) {
    Problem p = {.network = network};
    p.X = tensor_new(host(), images, network->channels, network->side, network->side);
    p.y = tensor_new(host(), images);
    for (size_t x = 0; x < numel(p.X); x++) p.X->data[x] = (float)draw(0, 255) / 255;
    for (int row = 0; row < images; row++) p.y->data[row] = (float)draw(0, 9);
    network_init(network, p.params, 0.05, (uint64_t)draw(1, 1000));
    return p;
}

// Of each parameter's gradient a few numbers, from the first to the last: none comes through the
// pipeline by a way of its own.
static void record_gradients(int part, const Spread *s, const Problem *problem) {
    for (int p = 0; p < num_params(problem->network); p++) {
        enum { SOME = 6 };
        const Tensor *param = problem->params[p];
        float *grad = spread_grad(s, p, param), some[SOME];
        for (int j = 0; j < SOME; j++) some[j] = grad[(numel(param) - 1) * (size_t)j / (SOME - 1)];
        record_floats(part, some, SOME, 1e-4, "some of the gradient of %s", param->name);
        free(grad);
    }
}

static void step(int part, Problem *problem, int k, int m) {
    begin_case("a step of %s, k = %d, m = %d microbatches", problem->network->name, k, m);
    if (!record_play(part, 0, in_order, k, m)) return;
    problem->microbatches = m;
    Spread *s = problem_spread(problem, pipeline_in_order(in_order), k);
    s->strategy->gradients(s, problem->X, problem->y);
    record_gradients(part, s, problem);
    for (int i = 0; i < k; i++)
        record_at_most(part, (double)pipeline_peak(s, i), "bytes that stage %d kept", i);
    spread_close(s);
    arena_close();
}

// The first step is that of one device: tests/exercises_test.sh compares the others with it.
static void steps_of(const Network *network) {
    Problem problem = drawn_problem(network, 16);
    step(TRAINING, &problem, 1, 1);
    step(TRAINING, &problem, 2, 4);
    int rows = 8 << draw(0, 1);
    step(TRAINING, &problem, (int)draw(3, 4), rows);
    step(FEW, &problem, (int)draw(3, 4), 2);
    problem_free(&problem);
}

static void equal_layers(void) { steps_of(&equal_network); }
static void lenet(void) { steps_of(&lenet_network); }

const Group groups[] = {{"orders", orders, 5},
                        {"fewer microbatches than stages", orders_of_few, 5},
                        {"training of equal layers", equal_layers, 0},
                        {"training of LeNet", lenet, 0},
                        {0}};
