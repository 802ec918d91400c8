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
};

static int with_mistake(const Mistake *x, int i, int k, int m, Turn turns[]) {
    int warm_up = (x->by_stage ? i : k - 1 - i) + x->more_warm_up, n = 0, back = 0, under_way = 0;
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

static void check_stage(int i, int k, int m) {
    Turn turns[MOST_TURNS];
    int n = one_forward_one_backward(i, k, m, turns), seen[2][MOST_MICROBATCHES] = {{0}};
    EXPECT(n == 2 * m, suspect("each of the m microbatches goes forward once and backward once"),
           "stage %d of %d, m = %d: %d turns (%s), expected %d", i, k, m, n,
           order_text(turns, n > MOST_TURNS ? MOST_TURNS : n), 2 * m);
    for (int t = 0; t < n; t++) {
        bool known = turns[t].j >= 0 && turns[t].j < m;
        EXPECT(
            known && ++seen[turns[t].backward][turns[t].j] == 1,
            suspect("microbatches count from 0, and each goes each way once"),
            "stage %d of %d, m = %d: %s, of which turn %d is one too many, expected each of 0 to "
            "%d once each way",
            i, k, m, order_text(turns, n), t, m - 1);
        EXPECT(
            !turns[t].backward || seen[0][turns[t].j],
            suspect("who has not gone forward cannot go back"),
            "stage %d of %d, m = %d: %s, where %d goes backward before it went forward, expected "
            "after it",
            i, k, m, order_text(turns, n), turns[t].j);
    }
}

static void check_ends(int k, int m) {
    int at[MOST_STAGES];
    play(one_forward_one_backward, k, m, at);
    for (int i = 0; i < k; i++) {
        Turn turns[MOST_TURNS];
        int n = one_forward_one_backward(i, k, m, turns);
        EXPECT(
            at[i] == n, suspect("all forwards and all backwards in the order 0, 1, 2, .."),
            "k = %d, m = %d: all stages wait; stage %d (%s) for what its turn %d needs, expected "
            "an order that goes on",
            k, m, i, order_text(turns, n), at[i]);
    }
}

static void check_under_way(int i, int k, int m) {
    Turn turns[MOST_TURNS];
    int n = one_forward_one_backward(i, k, m, turns), most = most_under_way(turns, n);
    int expected = k - i < m ? k - i : m;
    EXPECT(most <= expected, suspect("a microbatch goes back before another one comes"),
           "stage %d of %d, m = %d: %s, up to %d microbatches under way, expected at most %d", i, k,
           m, order_text(turns, n), most, expected);
    EXPECT(most == expected,
           suspect("the warm-up is k - 1 - i forwards: with fewer, stages wait for each other"),
           "stage %d of %d, m = %d: %s, up to %d microbatches under way, expected %d", i, k, m,
           order_text(turns, n), most, expected);
}

static void check_orders(void) {
    for (int k = 1; k <= CHECKED_STAGES; k++)
        for (int m = 1; m <= CHECKED_MICROBATCHES; m++) {
            for (int i = 0; i < k; i++) check_stage(i, k, m);
            check_ends(k, m);
            for (int i = 0; i < k; i++) check_under_way(i, k, m);
        }
}

// ---- the pipeline ------------------------------------------------------------------------------

enum { IMAGES = 16 };
static const double TOLERANCE = 1e-4;

static void check_gradients(const Spread *s, const Problem *problem, const Reference *one) {
    double loss = spread_loss(s);
    EXPECT(fabs(loss / one->loss - 1) <= TOLERANCE, "the order is right, so this is a bug of ours",
           "%s, k = %d, m = %d: loss %.8g, expected %.8g", problem->network->name, s->k,
           s->microbatches, loss, one->loss);
    for (int p = 0; p < num_params(problem->network); p++) {
        float *grad = spread_grad(s, p, problem->params[p]);
        size_t n = numel(problem->params[p]);
        float *zeros = xcalloc(n, sizeof *zeros);
        double apart = relative_difference(grad, one->grads[p], zeros, n);
        free(grad);
        free(zeros);
        EXPECT(apart <= TOLERANCE, "the order is right, so this is a bug of ours",
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
    problem->microbatches = m;
    run(problem, k, fill_drain, one, all);
    run(problem, k, one_forward_one_backward, one, peak);
    for (int i = 0; i < k; i++)
        EXPECT(k - i < m ? peak[i] < all[i] : peak[i] <= all[i],
               "the order is right, so this is a bug of ours",
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

static void check(const Flags *flags) {
    const Network *const both[] = {&lenet_network, &equal_network};
    check_orders();
    for (int which = 0; which < 2; which++) {
        Problem problem = problem_of(both[which], flags);
        Reference one = one_device_step(&problem);
        for (int k = 1; k <= 4; k++)
            for (int m = 1; m <= 16; m *= 2) check_pipeline(&problem, k, m, &one);
        reference_free(&one, problem.network);
        problem_free(&problem);
    }
}

const CheckPart check_parts[] = {
    {"your order ends, gradients are those of one device, and stages keep fewer activations", 10,
     check},
    {0}};
