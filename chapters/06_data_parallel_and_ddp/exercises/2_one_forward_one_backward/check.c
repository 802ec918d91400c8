// check.c: orders are played through before anything is computed; so what would wait forever is
// found at once. Then the pipeline runs: gradients are those of one device, in less memory.
#include "common/base/error.h"
#include "common/program/exercise.h"
#include "common/tensor/random.h"
#include "chapters/01_splitting_strategies/parity.h"
#include "your_part.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHECKED_STAGES = 8, CHECKED_MICROBATCHES = 16 };

// ---- orders ------------------------------------------------------------------------------------

// How many turns go the one way.
static int count_turns(const Turn turns[], int n, bool backward) {
    int count = 0;
    for (int t = 0; t < n && t < MOST_TURNS; t++) count += turns[t].backward == backward;
    return count;
}

// How often stage i goes forward before it goes backward for the first time.
static int forwards_first(int i) {
    Turn turns[MOST_TURNS] = {{0}};
    int n = one_forward_one_backward(i, CHECKED_STAGES, CHECKED_MICROBATCHES, turns), t = 0;
    while (t < n && t < MOST_TURNS && !turns[t].backward) t++;
    return t;
}

// Of 8 stages and 16 microbatches: how often the first stage and the last one go forward first.
static const struct {
    int first, last;
    const char *hint;
} warm_ups[] = {
    {0, 0,
     "there are no turns: write each microbatch's forward and backward into turns[], and return "
     "how many turns these are"},
    {16, 16,
     "a warm-up of all m makes this order, as chapter 1's: it is k - 1 - i forwards, and then "
     "backwards begin"},
    {9, 2,
     "a warm-up of k - i forwards makes this order: the forward that follows is the first of the "
     "pairs, so it is one less"},
    {7, 1,
     "a warm-up of k - 2 - i forwards makes this order: there are k - 1 - i stages behind stage i, "
     "and each needs one"},
    {1, 8,
     "a warm-up of i forwards makes this order: the first stage is the one that waits longest for "
     "a gradient, so it has the longest warm-up"},
    {7, 0,
     "a backward before the forward makes this order: after the warm-up it is one forward, then "
     "one backward; the last stage has no warm-up, and nothing to go back with"},
};

// What the warm-up tells, if anything.
static const char *suspect(const char *otherwise) {
    int first = forwards_first(0), last = forwards_first(CHECKED_STAGES - 1);
    for (size_t w = 0; w < sizeof warm_ups / sizeof *warm_ups; w++)
        if (first == warm_ups[w].first && last == warm_ups[w].last) return warm_ups[w].hint;
    return otherwise;
}

// "F0 F1 B0 ..", at most 12 of them; the text is replaced by the next call.
static const char *order_text(const Turn turns[], int n) {
    static char text[160];
    int length = 0;
    text[0] = '\0';
    for (int t = 0; t < n && t < 12; t++)
        length += snprintf(text + length, sizeof text - (size_t)length, "%s%c%d", t > 0 ? " " : "",
                           turns[t].backward ? 'B' : 'F', turns[t].j);
    if (n > 12) snprintf(text + length, sizeof text - (size_t)length, " ..");
    return text;
}

// The last turn before t that goes the same way; -1: none.
static int turn_before(const Turn turns[], int t) {
    int before = t - 1;
    while (before >= 0 && turns[before].backward != turns[t].backward) before--;
    return before;
}

static const char *hint_for_number(const Turn turns[], int n, int k, int m) {
    int forward = count_turns(turns, n, false), backward = count_turns(turns, n, true);
    if (m < k && forward > m)
        return "a warm-up of k - 1 - i forwards even if there are fewer microbatches makes this "
               "order: it is m then";
    if (forward == m && backward < m)
        return "some never go back: when all have gone forward, those of the warm-up are still to "
               "go back";
    return "each of the m microbatches goes forward once and backward once";
}

// Turn t is the microbatch after that of turn `before`, which goes the same way.
static void check_turn(const Turn turns[], int t, int i, int k, int m) {
    int before = turn_before(turns, t), j = turns[t].j;
    int expected = before < 0 ? 0 : turns[before].j + 1;
    EXPECT(j == expected && j < m,
           turns[t].backward
               ? "backwards go in the order 0, 1, 2, .., too: the first to come is the first to go "
                 "back, as its memory is needed next"
               : "microbatches count from 0, and go in the order 0, 1, 2, .., each once",
           "stage %d of %d, m = %d: %s, where turn %d is %d %s, expected %d", i, k, m,
           order_text(turns, 2 * m), t, j, turns[t].backward ? "backward" : "forward", expected);
}

static void check_stage(int i, int k, int m) {
    Turn turns[MOST_TURNS] = {{0}};
    int n = one_forward_one_backward(i, k, m, turns), under_way = 0;
    EXPECT(n == 2 * m, suspect(hint_for_number(turns, n, k, m)),
           "stage %d of %d, m = %d: %d turns (%s), expected %d", i, k, m, n,
           order_text(turns, n > MOST_TURNS ? MOST_TURNS : n), 2 * m);
    for (int t = 0; t < n; t++) {
        check_turn(turns, t, i, k, m);
        under_way += turns[t].backward ? -1 : 1;
        EXPECT(
            under_way >= 0, suspect("who has not gone forward cannot go back"),
            "stage %d of %d, m = %d: %s, where %d goes backward before it went forward, expected "
            "after it",
            i, k, m, order_text(turns, n), turns[t].j);
    }
}
static void check_stages(int k, int m) {
    for (int i = 0; i < k; i++) check_stage(i, k, m);
}

// An order that can be played, if not one that is right.
static int playable_order(int i, int k, int m, Turn turns[MOST_TURNS]) {
    memset(turns, 0, MOST_TURNS * sizeof *turns);
    int n = one_forward_one_backward(i, k, m, turns);
    bool known = n >= 0 && n <= MOST_TURNS;
    for (int t = 0; t < n && known; t++) known = turns[t].j >= 0 && turns[t].j < m;
    EXPECT(known, suspect("microbatches count from 0, and each goes each way once"),
           "stage %d of %d, m = %d: %d turns (%s), expected each of 0 to %d once each way", i, k, m,
           n, order_text(turns, n > MOST_TURNS ? MOST_TURNS : n), m - 1);
    return n;
}

static void check_ends(int k, int m) {
    int at[MOST_STAGES], n[MOST_STAGES];
    Turn turns[MOST_STAGES][MOST_TURNS];
    for (int i = 0; i < k; i++) n[i] = playable_order(i, k, m, turns[i]);
    play(one_forward_one_backward, k, m, at);
    for (int i = 0; i < k; i++)
        EXPECT(
            at[i] == n[i], suspect("all forwards and all backwards in the order 0, 1, 2, .."),
            "k = %d, m = %d: all stages wait; stage %d (%s) for what its turn %d needs, expected "
            "an order that goes on",
            k, m, i, order_text(turns[i], n[i]), at[i]);
    for (int i = 0; i < k; i++)
        EXPECT(n[i] == 2 * m, hint_for_number(turns[i], n[i], k, m),
               "k = %d, m = %d: stage %d (%s) has no more to do after %d turns, expected %d", k, m,
               i, order_text(turns[i], n[i]), n[i], 2 * m);
}

// The fewest that are under way between the first backward and the last forward.
static int fewest_under_way(const Turn turns[], int n) {
    int to_come = count_turns(turns, n, false), now = 0, fewest = to_come;
    for (int t = 0; t < n && to_come > 0; t++) {
        now += turns[t].backward ? -1 : 1;
        to_come -= !turns[t].backward;
        if (turns[t].backward && now < fewest) fewest = now;
    }
    return fewest;
}

static void check_under_way(int k, int m) {
    for (int i = 0; i < k; i++) {
        Turn turns[MOST_TURNS];
        int n = playable_order(i, k, m, turns), most = most_under_way(turns, n);
        int expected = k - i < m ? k - i : m, fewest = fewest_under_way(turns, n);
        EXPECT(most <= expected, suspect("a microbatch goes back before another one comes"),
               "stage %d of %d, m = %d: %s, up to %d microbatches under way, expected at most %d",
               i, k, m, order_text(turns, n), most, expected);
        EXPECT(most == expected,
               suspect("the warm-up is k - 1 - i forwards: with fewer, stages wait for each other"),
               "stage %d of %d, m = %d: %s, up to %d microbatches under way, expected %d", i, k, m,
               order_text(turns, n), most, expected);
        EXPECT(fewest >= expected - 1,
               "after the warm-up it is one forward, one backward: for each microbatch that goes "
               "back another one comes, as long as there are any",
               "stage %d of %d, m = %d: %s, only %d microbatches under way while others are still "
               "to come, expected %d at least",
               i, k, m, order_text(turns, n), fewest, expected - 1);
    }
}

// Fewer microbatches than stages: the pipeline is never full, and a warm-up is cut off.
static bool are_few(int k, int m) { return m < k; }

static void check_orders(void (*check)(int k, int m), bool few) {
    for (int k = 1; k <= CHECKED_STAGES; k++)
        for (int m = 1; m <= CHECKED_MICROBATCHES; m++)
            if (are_few(k, m) == few) check(k, m);
}

// ---- the pipeline ------------------------------------------------------------------------------

enum { IMAGES = 16 };
static const double TOLERANCE = 1e-4;

static const char *suspect_of_run(void) {
    return suspect("if each microbatch goes each way once, this is a bug of ours");
}

static void check_gradients(const Spread *s, const Problem *problem, const Reference *one) {
    double loss = spread_loss(s);
    EXPECT(fabs(loss / one->loss - 1) <= TOLERANCE, suspect_of_run(),
           "%s, k = %d, m = %d: loss %.8g, expected %.8g", problem->network->name, s->k,
           s->microbatches, loss, one->loss);
    for (int p = 0; p < num_params(problem->network); p++) {
        float *grad = spread_grad(s, p, problem->params[p]);
        double apart = relative_difference(grad, one->grads[p], NULL, numel(problem->params[p]));
        free(grad);
        EXPECT(apart <= TOLERANCE, suspect_of_run(),
               "%s, k = %d, m = %d: the gradient of %s differs by %.2g of its largest number, "
               "expected at most %g",
               problem->network->name, s->k, s->microbatches, problem->params[p]->name, apart,
               TOLERANCE);
    }
}

// Bytes of each stage's activations in a step with this order.
static void run(const Problem *problem, int k, Order *order, const Reference *one,
                size_t peak[MOST_STAGES]) {
    Spread *s = problem_spread(problem, pipeline_in_order(order), k);
    s->strategy->gradients(s, problem->X, problem->y);
    check_gradients(s, problem, one);
    for (int i = 0; i < k; i++) peak[i] = pipeline_peak(s, i);
    spread_close(s);
    arena_close();
}

static void check_pipeline(Problem *problem, int k, int m, const Reference *one) {
    size_t all[MOST_STAGES], peak[MOST_STAGES];
    check_ends(k, m);
    problem->microbatches = m;
    run(problem, k, fill_drain, one, all);
    run(problem, k, one_forward_one_backward, one, peak);
    for (int i = 0; i < k; i++)
        EXPECT(k - i < m ? peak[i] < all[i] : peak[i] <= all[i], suspect_of_run(),
               "%s, k = %d, m = %d: stage %d held %zu bytes of activations, expected less than the "
               "%zu of all m microbatches",
               problem->network->name, k, m, i, peak[i], all[i]);
}

static Problem problem_of(const Network *network, const Flags *flags) {
    Flags few = *flags;
    few.train_size = few.batch_size = IMAGES;
    few.lr = 0.01f;
    Problem p = problem_of_lenet(&few);
    for (int i = 0; i < num_params(p.network); i++) tensor_free(p.params[i]);
    p.network = network;
    network_init(network, p.params, 0.05, 1);
    return p;
}

static void check_pipelines(const Flags *flags, bool few) {
    const Network *const both[] = {&lenet_network, &equal_network};
    for (int which = 0; which < 2; which++) {
        Problem problem = problem_of(both[which], flags);
        Reference one = one_device_step(&problem);
        for (int k = 1; k <= 4; k++)
            for (int m = 1; m <= 16; m *= 2)
                if (are_few(k, m) == few) check_pipeline(&problem, k, m, &one);
        reference_free(&one, problem.network);
        problem_free(&problem);
    }
}

// ---- parts -------------------------------------------------------------------------------------

static void check_each_way_once(const Flags *flags) {
    (void)flags;
    check_orders(check_stages, false);
}
static void check_nobody_waits_forever(const Flags *flags) {
    (void)flags;
    check_orders(check_ends, false);
}
static void check_most_under_way(const Flags *flags) {
    (void)flags;
    check_orders(check_under_way, false);
}
static void check_few_microbatches(const Flags *flags) {
    check_orders(check_stages, true);
    check_orders(check_ends, true);
    check_orders(check_under_way, true);
    check_pipelines(flags, true);
}
static void check_training(const Flags *flags) { check_pipelines(flags, false); }

const CheckPart check_parts[] = {
    {"microbatches go forward, and back, in the order 0, 1, 2, .., on each stage", 2,
     check_each_way_once},
    {"no stage waits forever", 1, check_nobody_waits_forever},
    {"stage i has up to k - i microbatches under way, no more and no fewer", 3,
     check_most_under_way},
    {"gradients are those of one device, with less memory than in chapter 1's order", 2,
     check_training},
    {"all that with fewer microbatches than stages", 2, check_few_microbatches},
    {0}};
