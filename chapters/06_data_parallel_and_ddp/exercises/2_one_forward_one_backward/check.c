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

// ---- the usual mistakes ------------------------------------------------------------------------

typedef struct Mistake {
    int more_warm_up;     // forwards than there should be
    bool by_stage;        // i of them
    bool not_cut_off;     // as many, even if there are fewer microbatches
    bool backward_first;  // of the two
    bool last_back_first; // backwards: of those under way, the last one
    bool no_end;          // the backwards that are left are left
    bool fill_drain;
    bool nothing;
    const char *hint;
} Mistake;

static const Mistake mistakes[] = {
    {.fill_drain = true, .hint = "this is chapter 1's order: backward begins after the warm-up"},
    {.more_warm_up = CHECKED_MICROBATCHES,
     .hint = "a warm-up of all m makes this order, as chapter 1's: it is k - 1 - i forwards"},
    {.more_warm_up = 1,
     .hint = "a warm-up of k - i forwards makes this order: the forward that follows is the first "
             "of the pairs, so it is one less"},
    {.more_warm_up = -1,
     .hint = "a warm-up of k - 2 - i forwards makes this order: there are k - 1 - i stages behind "
             "stage i, and each needs one"},
    {.by_stage = true,
     .hint = "a warm-up of i forwards makes this order: the first stage is the one that waits "
             "longest for a gradient, so it has the longest warm-up"},
    {.backward_first = true,
     .hint = "a backward before the forward makes this order: after the warm-up it is one forward, "
             "then one backward; the last stage has no warm-up, and nothing to go back with"},
    {.last_back_first = true,
     .hint = "backwards that begin with the last microbatch under way make this order: the first "
             "to come is the first to go back, as its memory is needed next"},
    {.no_end = true,
     .hint = "without the last backwards this is the order: when all have gone forward, those of "
             "the warm-up are still to go back"},
    {.not_cut_off = true,
     .hint = "a warm-up of k - 1 - i forwards even if there are fewer microbatches makes this "
             "order: it is m then"},
    {.nothing = true,
     .hint = "there are no turns: write each microbatch's forward and backward into turns[], and "
             "return how many turns these are"},
};

static int with_mistake(const Mistake *x, int i, int k, int m, Turn turns[]) {
    int warm_up = (x->by_stage ? i : k - 1 - i) + x->more_warm_up, n = 0, back = 0, under_way = 0;
    if (x->nothing) return 0;
    if (x->fill_drain) return fill_drain(i, k, m, turns);
    if (warm_up < 0) warm_up = 0;
    if (warm_up > m && !x->not_cut_off) warm_up = m;
    for (int j = 0; j < warm_up; j++) turns[n++] = (Turn){.j = j};
    for (int j = warm_up; j < m; j++) {
        Turn forward = {.j = j};
        Turn backward = {true, x->last_back_first ? j : back};
        turns[n++] = x->backward_first ? backward : forward;
        turns[n++] = x->backward_first ? forward : backward;
        back++;
    }
    under_way = warm_up;
    for (; back < m && !x->no_end; back++)
        turns[n++] = (Turn){true, x->last_back_first ? --under_way : back};
    return n;
}

static bool same_turns(const Turn a[], const Turn b[], int n) {
    for (int t = 0; t < n; t++)
        if (a[t].backward != b[t].backward || a[t].j != b[t].j) return false;
    return true;
}

// Whether the mistake makes the reader's order, in every case.
static bool explains(const Mistake *x) {
    Turn came[MOST_TURNS], theirs[MOST_TURNS];
    for (int k = 1; k <= CHECKED_STAGES; k++)
        for (int m = 1; m <= CHECKED_MICROBATCHES; m++)
            for (int i = 0; i < k; i++) {
                int n = one_forward_one_backward(i, k, m, came);
                if (n != with_mistake(x, i, k, m, theirs) || !same_turns(came, theirs, n))
                    return false;
            }
    return true;
}

static const char *suspect(const char *otherwise) {
    for (size_t x = 0; x < sizeof mistakes / sizeof *mistakes; x++)
        if (explains(&mistakes[x])) return mistakes[x].hint;
    return otherwise;
}

// ---- orders ------------------------------------------------------------------------------------

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

static void check_turn(const Turn turns[], int t, int i, int k, int m) {
    int before = turn_before(turns, t), j = turns[t].j;
    int expected = before < 0 ? 0 : turns[before].j + 1;
    EXPECT(j == expected && j < m,
           suspect("microbatches count from 0, and go in the order 0, 1, 2, .., each once"),
           "stage %d of %d, m = %d: %s, where turn %d is %d %s, expected %d", i, k, m,
           order_text(turns, 2 * m), t, j, turns[t].backward ? "backward" : "forward", expected);
}

static void check_stage(int i, int k, int m) {
    Turn turns[MOST_TURNS] = {{0}};
    int n = one_forward_one_backward(i, k, m, turns), under_way = 0;
    EXPECT(n == 2 * m, suspect("each of the m microbatches goes forward once and backward once"),
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
        EXPECT(n[i] == 2 * m,
               suspect("each of the m microbatches goes forward once and backward once"),
               "k = %d, m = %d: stage %d (%s) has no more to do after %d turns, expected %d", k, m,
               i, order_text(turns[i], n[i]), n[i], 2 * m);
}

static void check_under_way(int k, int m) {
    for (int i = 0; i < k; i++) {
        Turn turns[MOST_TURNS];
        int n = playable_order(i, k, m, turns), most = most_under_way(turns, n);
        int expected = k - i < m ? k - i : m;
        EXPECT(most <= expected, suspect("a microbatch goes back before another one comes"),
               "stage %d of %d, m = %d: %s, up to %d microbatches under way, expected at most %d",
               i, k, m, order_text(turns, n), most, expected);
        EXPECT(most == expected,
               suspect("the warm-up is k - 1 - i forwards: with fewer, stages wait for each other"),
               "stage %d of %d, m = %d: %s, up to %d microbatches under way, expected %d", i, k, m,
               order_text(turns, n), most, expected);
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
        size_t n = numel(problem->params[p]);
        float *zeros = xcalloc(n, sizeof *zeros);
        double apart = relative_difference(grad, one->grads[p], zeros, n);
        free(grad);
        free(zeros);
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
