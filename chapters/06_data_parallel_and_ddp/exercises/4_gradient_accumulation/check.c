// check.c: updates from parts must be those of the whole minibatch on one rank, but for rounding,
// with the bytes of one exchange. What differs is taken apart: how often does each row count?
#include "common/base/error.h"
#include "common/program/exercise.h"
#include "chapters/06_data_parallel_and_ddp/networks.h"
#include "your_part.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHECKED_BATCH = 24, CHECKED_STEPS = 2 };
static const float CHECKED_LR = 0.2f;
static const double TOLERANCE = 1e-4; // of what training changed; mistakes are a tenth and more

// ---- trainings ---------------------------------------------------------------------------------

typedef struct Case {
    const char *name;
    Plan plan;
    Module *net;
    const Tensor *X, *y;
} Case;

typedef struct Result {
    float *values[MOST_RANKS];    // of each rank
    size_t n, held[MOST_RANKS];   // and bytes of activations that it holds at the end
    uint64_t bytes, one_exchange; // between devices, of all steps; of that many exchanges
} Result;

// The parameters from the start, on as many ranks as the plan has.
static Ddp *ranks_of(const Case *c, const Plan *plan) {
    Device *devices[MOST_RANKS];
    initialize(c->net, 1);
    open_devices(devices, plan->k);
    Ddp *ddp = ddp_new(c->net, devices, plan->k, (DdpOptions){.bucket_bytes = 64 << 10});
    synchronize_all();
    return ddp;
}

// Ends a training of so many updates.
static Result result_of(Ddp *ddp, int steps) {
    Result r = {0};
    synchronize_all();
    for (int i = 0; i < ddp->k; i++) {
        r.held[i] = arena_used_bytes(ddp->devices[i]);
        r.values[i] = ddp_values(ddp, i, &r.n);
        r.one_exchange += (uint64_t)steps * ddp_gradient_bytes(ddp, i).sent;
    }
    ddp_free(ddp);
    return r;
}

static void result_free(Result *r) {
    for (int i = 0; i < MOST_RANKS; i++) free(r->values[i]);
}

// Your part.
static Result train(const Case *c, int steps) {
    Ddp *ddp = ranks_of(c, &c->plan);
    uint64_t before = ledger_bytes_between_devices();
    for (int step = 0; step < steps; step++) {
        step_in_parts(ddp, &c->plan, c->X, c->y, CHECKED_LR);
        synchronize_all();
    }
    uint64_t bytes = ledger_bytes_between_devices() - before;
    Result r = result_of(ddp, steps);
    r.bytes = bytes;
    return r;
}

// Chapter 6's whole steps, without parts: with these rows, and no others, on each rank. Their
// gradient is divided by the rows of the minibatch.
static Result train_whole(const Case *c, const Plan *one_part, int steps) {
    Tensor *X_shards[MOST_RANKS], *y_shards[MOST_RANKS], *losses[MOST_RANKS];
    Ddp *ddp = ranks_of(c, one_part);
    for (int step = 0; step < steps; step++) {
        load_part(ddp, one_part, 0, c->X, c->y, X_shards, y_shards);
        ddp_step(ddp, X_shards, y_shards, CHECKED_LR, CHECKED_BATCH, losses);
    }
    return result_of(ddp, steps);
}

// What a single rank ends with that knows only these rows; free() it.
static float *train_alone(const Case *c, Range rows, int steps) {
    return train_whole(c, &(Plan){.k = 1, .m = 1, .rows = {{rows}}}, steps).values[0];
}

static const Range all_rows = {0, CHECKED_BATCH};

// ---- how often each row counts -----------------------------------------------------------------
//
// The gradient is a sum. So what one update changes is what each rank's rows of each part change
// alone, times how often they count: once, if all is right. These weights are found by least
// squares: there are far more parameters than weights.

enum { MOST_PIECES = 24 }; // of a minibatch of 24 rows
typedef struct Weights {
    double of[MOST_RANKS][MOST_PARTS];
    double rest; // what no weights explain, as a part of what changed
} Weights;

// The change of a single rank that knows only a piece; free() it.
static double *change_of(const Case *c, Range rows, const float *start, size_t n) {
    float *end = train_alone(c, rows, 1);
    double *change = xmalloc(n * sizeof *change);
    for (size_t q = 0; q < n; q++) change[q] = (double)end[q] - (double)start[q];
    free(end);
    return change;
}

static double product(const double *a, const double *b, size_t n) {
    double sum = 0;
    for (size_t q = 0; q < n; q++) sum += a[q] * b[q];
    return sum;
}

// Gauss: the last column of each row becomes the solution. (Normal equations need no pivots.)
static void solve(double a[MOST_PIECES][MOST_PIECES + 1], int pieces) {
    for (int p = 0; p < pieces; p++)
        for (int row = 0; row < pieces; row++) {
            double factor = row == p ? 1 - 1 / a[p][p] : a[row][p] / a[p][p];
            for (int q = pieces; q >= p; q--) a[row][q] -= factor * a[p][q];
        }
}

static Weights weights_of(const Case *c, const float *start, const float *came, size_t n) {
    static double a[MOST_PIECES][MOST_PIECES + 1];
    int m = c->plan.m, pieces = c->plan.k * m;
    double *changes[MOST_PIECES], *rest = xmalloc(n * sizeof *rest);
    Weights w;
    CHECK(pieces <= MOST_PIECES, "room for all pieces");
    for (size_t q = 0; q < n; q++) rest[q] = (double)came[q] - (double)start[q];
    double square = product(rest, rest, n);
    for (int p = 0; p < pieces; p++)
        changes[p] = change_of(c, c->plan.rows[p / m][p % m], start, n);
    for (int p = 0; p < pieces; p++) {
        for (int q = 0; q < pieces; q++) a[p][q] = product(changes[p], changes[q], n);
        a[p][pieces] = product(changes[p], rest, n);
    }
    solve(a, pieces);
    for (int p = 0; p < pieces; p++) {
        w.of[p / m][p % m] = a[p][pieces];
        for (size_t q = 0; q < n; q++) rest[q] -= a[p][pieces] * changes[p][q];
        free(changes[p]);
    }
    w.rest = sqrt(product(rest, rest, n) / square);
    free(rest);
    return w;
}

// ---- what is wrong with it ---------------------------------------------------------------------

static bool is_about(double a, double b) { return fabs(a - b) <= 0.02 * fmax(1, fabs(b)); }

// Whether what these ranks have in these parts counts so often.
static bool count(const Weights *w, Range ranks, Range parts, double times) {
    for (long i = ranks.first; i < ranks.first + ranks.count; i++)
        for (long j = parts.first; j < parts.first + parts.count; j++)
            if (!is_about(w->of[i][j], times)) return false;
    return true;
}

// Whether, on rank d, what the other ranks have in these parts counts for nothing.
static bool others_are_missing(const Weights *w, const Plan *plan, int d, Range parts) {
    for (int i = 0; i < plan->k; i++)
        if (i != d && !count(w, (Range){i, 1}, parts, 0)) return false;
    return plan->k > 1;
}

// Whether some part counts for nothing.
static bool is_left_out(const Weights *w, const Plan *plan) {
    for (int j = 0; j < plan->m; j++)
        if (count(w, (Range){0, plan->k}, (Range){j, 1}, 0)) return true;
    return false;
}

static const char *hint_for_divisor(double times) {
    static char text[256];
    snprintf(text, sizeof text,
             "all rows count, but their sum is divided by %.3g instead of %d: ddp_update() divides "
             "once, by all rows; parts and shards may be unequal, so count the rows of the "
             "minibatch itself",
             CHECKED_BATCH / times, CHECKED_BATCH);
    return text;
}

// Of what rank d ended with.
static const char *hint_for_weights(const Weights *w, const Plan *plan, int d) {
    const Range ranks = {0, plan->k}, parts = {0, plan->m};
    const Range first = {0, 1}, later = {1, plan->m - 1}, last = {plan->m - 1, 1};
    if (!(w->rest <= 1e-3))
        return "what changed is no sum of the parts' gradients; an update after each part ends "
               "with these parameters: the parts after it should have the same parameters; update "
               "once, when all parts have added theirs";
    if (count(w, ranks, parts, w->of[0][0])) return hint_for_divisor(w->of[0][0]);
    if (is_left_out(w, plan))
        return "a part is left out: they count from 0 to m - 1, and the last one belongs to the "
               "update, too";
    if (others_are_missing(w, plan, d, parts))
        return "no exchange at all ends with these parameters: ddp_no_sync(ddp, false) before the "
               "last part, so that its backward exchanges the sum";
    if (count(w, ranks, first, 1) && others_are_missing(w, plan, d, later))
        return "an exchange with the first part ends with these parameters: it belongs to the "
               "last, when all have added theirs";
    if (plan->k > 1 && count(w, ranks, last, 1) && w->of[0][0] > 1.5)
        return "an exchange after each part ends with these parameters: what is summed over the "
               "ranks once is summed again with the next part; ddp_no_sync(ddp, true) for all but "
               "the last";
    return "suspects: all parts, each once; one update at the end, by lr and all rows of the "
           "minibatch; ddp_no_sync() for all parts but the last";
}

// "; rows 4 to 7, part 1 of rank 0, count 2 times in the first update, expected once", or nothing.
// The text is replaced by the next call.
static const char *weights_text(const Weights *w, const Plan *plan) {
    static char text[128];
    text[0] = '\0';
    for (int i = plan->k - 1; i >= 0 && w->rest <= 1e-3; i--)
        for (int j = plan->m - 1; j >= 0; j--)
            if (!is_about(w->of[i][j], 1))
                snprintf(text, sizeof text,
                         "; rows %ld to %ld, part %d of rank %d, count %.2f times in the first "
                         "update, expected once",
                         plan->rows[i][j].first,
                         plan->rows[i][j].first + plan->rows[i][j].count - 1, j, i,
                         fabs(w->of[i][j]) < 0.005 ? 0 : w->of[i][j]);
    return text;
}

// ---- the check ---------------------------------------------------------------------------------

// Says what is wrong with the parameters of rank d, which are too far apart.
static void fail(const Case *c, const float *start, int d, double apart) {
    Result once = train(c, 1);
    bool changed = memcmp(once.values[d], start, once.n * sizeof *start) != 0;
    Weights w = weights_of(c, start, once.values[d], once.n);
    EXPECT(false,
           changed
               ? hint_for_weights(&w, &c->plan, d)
               : "nothing was updated: load_part(), forward, losses and backward for each part, "
                 "then ddp_update()",
           "%d updates on k = %d from %s: the parameters of device %d differ from those of the "
           "whole minibatch by %.2g of what training changed, expected at most %g%s",
           CHECKED_STEPS, c->plan.k, c->name, d, apart, TOLERANCE,
           changed ? weights_text(&w, &c->plan) : "");
}

static Plan largest_parts(const Plan *plan) {
    Plan largest = {.k = plan->k, .m = 1};
    for (int i = 0; i < plan->k; i++)
        for (int j = 0; j < plan->m; j++)
            if (plan->rows[i][j].count > largest.rows[i][0].count)
                largest.rows[i][0] = plan->rows[i][j];
    return largest;
}

// A minibatch that does not fit into memory must not be there as a whole.
static void check_memory(const Case *c, const Result *came) {
    Plan largest = largest_parts(&c->plan);
    Result one_part = train_whole(c, &largest, 1);
    for (int i = 0; i < c->plan.k; i++)
        EXPECT(came->held[i] <= one_part.held[i],
               "load_part() with the plan that is given, and forward and backward with each of its "
               "parts: it makes room for the next",
               "%d updates on k = %d from %s: device %d holds %zu bytes of activations at the end, "
               "expected at most those of its largest part, %zu",
               CHECKED_STEPS, c->plan.k, c->name, i, came->held[i], one_part.held[i]);
    result_free(&one_part);
}

static void check_values(const Case *c, const float *start) {
    float *right = train_alone(c, all_rows, CHECKED_STEPS);
    Result came = train(c, CHECKED_STEPS);
    for (int i = 0; i < c->plan.k; i++) {
        double apart = relative_difference(came.values[i], right, start, came.n);
        if (!(apart <= TOLERANCE)) fail(c, start, i, apart);
    }
    check_memory(c, &came);
    result_free(&came);
    free(right);
}

static const char *hint_for_bytes(const Result *came) {
    if (came->bytes == 0)
        return "who sends nothing? ddp_no_sync(ddp, false) before the last part, so that its "
               "backward exchanges the sum";
    if (came->bytes > came->one_exchange)
        return "who sends more? ddp_no_sync(ddp, true) for all parts but the last";
    return "one exchange for each update: ddp_no_sync() for all parts but the last";
}

static void check_bytes(const Case *c) {
    Result came = train(c, CHECKED_STEPS);
    EXPECT(came.bytes == came.one_exchange, hint_for_bytes(&came),
           "%d updates on k = %d from %s: %llu bytes between devices, expected %llu, one exchange "
           "for each update",
           CHECKED_STEPS, c->plan.k, c->name, (unsigned long long)came.bytes,
           (unsigned long long)came.one_exchange);
    result_free(&came);
}

// ---- which parts -------------------------------------------------------------------------------

static bool is_equal(const Plan *plan) {
    for (int i = 0; i < plan->k; i++)
        for (int j = 0; j < plan->m; j++)
            if (plan->rows[i][j].count != plan->rows[0][0].count) return false;
    return true;
}

enum { NUM_CASES = 14 };

// The minibatch on 1, 2 and 3 ranks, in 1, 2, 3 and 8 parts: of some of them k and m are divisors,
// of others not. And two plans that nobody would choose.
static void make_cases(Case cases[NUM_CASES], Case of) {
    static const char *const names[] = {"1 part", "2 parts", "3 parts", "8 parts"};
    const int parts[] = {1, 2, 3, 8}, n = CHECKED_BATCH;
    for (int k = 1; k <= 3; k++)
        for (int p = 0; p < 4; p++) {
            of.name = names[p];
            of.plan = p % 2 ? parts_in_shards(n, k, parts[p]) : shards_in_parts(n, k, parts[p]);
            *cases++ = of;
        }
    of.name = "3 unequal parts";
    of.plan = (Plan){.k = 1, .m = 3, .rows = {{{0, 1}, {1, 18}, {19, 5}}}};
    *cases++ = of;
    of.plan =
        (Plan){.k = 2, .m = 3, .rows = {{{0, 1}, {1, 6}, {7, 4}}, {{11, 9}, {20, 3}, {23, 1}}}};
    *cases = of;
}

// What a part of the check looks at.
typedef enum { ONE_RANK, EQUAL, UNEQUAL, BYTES } Looked;

static void check_case(const Case *c, const float *start, Looked at) {
    if (at == BYTES)
        check_bytes(c);
    else if (at == (is_equal(&c->plan) ? c->plan.k == 1 ? ONE_RANK : EQUAL : UNEQUAL))
        check_values(c, start);
}

static void check_cases(const Flags *flags, Looked at) {
    Dataset *data = fashion_mnist_open(flags->data, true, CHECKED_BATCH);
    DataIter *iter = data_iter_new(data, CHECKED_BATCH, false, 0);
    Tensor *X, *y;
    Case c = {.net = lenet_modules(10)}, cases[NUM_CASES];
    data_iter_first(iter, &X, &y);
    c.X = X;
    c.y = y;
    make_cases(cases, c);
    float *start = train_alone(&c, all_rows, 0);
    for (int i = 0; i < NUM_CASES; i++) check_case(&cases[i], start, at);
    free(start);
    module_free(c.net);
    data_iter_free(iter);
    dataset_free(data);
}

static void check_one_rank(const Flags *flags) { check_cases(flags, ONE_RANK); }
static void check_ranks(const Flags *flags) { check_cases(flags, EQUAL); }
static void check_unequal(const Flags *flags) { check_cases(flags, UNEQUAL); }
static void check_all_bytes(const Flags *flags) { check_cases(flags, BYTES); }

const CheckPart check_parts[] = {
    {"m parts on one rank make the update of the whole minibatch", 3, check_one_rank},
    {"m parts on 2 and 3 ranks make the update of the whole minibatch", 2, check_ranks},
    {"each update sends the bytes of one exchange", 3, check_all_bytes},
    {"parts and shards of unequal size make the update of the whole minibatch", 2, check_unequal},
    {0}};
