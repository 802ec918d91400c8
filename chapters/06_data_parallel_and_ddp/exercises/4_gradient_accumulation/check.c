// check.c: updates from parts must be those of the whole minibatch, but for rounding, with the
// bytes of one exchange. What differs is compared with what the usual mistakes end with.
#include "common/program/exercise.h"
#include "common/tensor/functional.h"
#include "chapters/06_data_parallel_and_ddp/networks.h"
#include "your_part.h"

#include <stdlib.h>
#include <string.h>

enum { CHECKED_BATCH = 24, CHECKED_STEPS = 2 };
static const float CHECKED_LR = 0.2f;
static const double TOLERANCE = 1e-4; // of what training changed; mistakes are a tenth and more

// ---- the usual mistakes ------------------------------------------------------------------------

typedef enum { AT_LAST, ALWAYS, NEVER, AT_FIRST } Exchange;
typedef enum {
    ALL_ROWS, // n
    N_OVER_M,
    N_TIMES_M,
    N_OVER_K,
    N_TIMES_K,
    LAST_PART,        // of all ranks
    LAST_PART_OF_ONE, // of rank 0
    M_TIMES_LAST,     // of all ranks
    M_K_TIMES_LAST,   // of rank 0
} Divisor;

typedef struct Mistake {
    bool update_each; // after each part, not at the end
    Exchange exchange;
    Divisor divisor;
    int first; // part
    const char *hint;
} Mistake;

#define EACH_UPDATED                                                                               \
    "an update after each part ends with these parameters: the parts after it should have the "    \
    "same parameters; update once, when all parts have added theirs"
#define TAKEN_FOR_EQUAL                                                                            \
    "a division by what n would be if all parts were as large as the last one ends with these "    \
    "parameters: parts and shards may be unequal, so count the rows of the minibatch itself"
#define ROWS_OF_LAST                                                                               \
    "division by the rows of the last part ends with these parameters: the sum is one over all "   \
    "rows of the minibatch"
static const Mistake mistakes[] = {
    {.update_each = true, .divisor = LAST_PART, .exchange = ALWAYS, .hint = EACH_UPDATED},
    {.update_each = true, .divisor = LAST_PART, .hint = EACH_UPDATED},
    {.update_each = true, .exchange = ALWAYS, .hint = EACH_UPDATED},
    {.update_each = true, .hint = EACH_UPDATED},
    {.divisor = N_OVER_K,
     .hint = "division by n / k ends with these parameters: the sum is one over the rows of all "
             "ranks"},
    {.divisor = N_TIMES_K,
     .hint = "division by n * k ends with these parameters: n rows are those of all ranks, and "
             "nothing is to be divided by k"},
    {.divisor = LAST_PART, .hint = ROWS_OF_LAST},
    {.divisor = LAST_PART_OF_ONE, .hint = ROWS_OF_LAST},
    {.divisor = N_OVER_M,
     .hint = "division by n / m ends with these parameters: the sum is one over all n rows"},
    {.divisor = N_TIMES_M,
     .hint =
         "division by n * m ends with these parameters: ddp_update() divides once, by all rows, "
         "and nothing else is to be divided by m"},
    {.divisor = M_TIMES_LAST, .hint = TAKEN_FOR_EQUAL},
    {.divisor = M_K_TIMES_LAST, .hint = TAKEN_FOR_EQUAL},
    {.exchange = ALWAYS,
     .hint =
         "an exchange after each part ends with these parameters: what is summed over the ranks "
         "once is summed again with the next part; ddp_no_sync(ddp, true) for all but the last"},
    {.exchange = NEVER,
     .hint = "no exchange at all ends with these parameters: ddp_no_sync(ddp, false) before the "
             "last part, so that its backward exchanges the sum"},
    {.exchange = AT_FIRST,
     .hint = "an exchange with the first part ends with these parameters: it belongs to the last, "
             "when all have added theirs"},
    {.first = 1, .hint = "all parts but the first end with these parameters: they count from 0"},
};

static bool is_exchanged(const Mistake *m, int j, int parts) {
    switch (m->exchange) {
    case ALWAYS:
        return true;
    case NEVER:
        return false;
    case AT_FIRST:
        return j == 0;
    default:
        return j == parts - 1;
    }
}

static int divisor_of(const Mistake *m, const Plan *plan, int j, int n) {
    long rows = 0;
    for (int i = 0; i < plan->k; i++) rows += plan->rows[i][j].count;
    switch (m->divisor) {
    case N_OVER_M:
        return n / plan->m;
    case N_TIMES_M:
        return n * plan->m;
    case N_OVER_K:
        return n / plan->k;
    case N_TIMES_K:
        return n * plan->k;
    case LAST_PART:
        return (int)rows;
    case LAST_PART_OF_ONE:
        return (int)plan->rows[0][j].count;
    case M_TIMES_LAST:
        return (int)rows * plan->m;
    case M_K_TIMES_LAST:
        return (int)plan->rows[0][j].count * plan->m * plan->k;
    default:
        return n;
    }
}

static void step_with(const Mistake *m, Ddp *ddp, const Plan *plan, const Tensor *X,
                      const Tensor *y) {
    Tensor *X_shards[MOST_RANKS], *y_shards[MOST_RANKS], *y_hat[MOST_RANKS], *losses[MOST_RANKS];
    int n = X->shape[0];
    for (int j = m->first; j < plan->m; j++) {
        load_part(ddp, plan, j, X, y, X_shards, y_shards);
        ddp_no_sync(ddp, !is_exchanged(m, j, plan->m));
        ddp_forward(ddp, X_shards, y_hat);
        for (int i = 0; i < ddp->k; i++) losses[i] = sum(cross_entropy(y_hat[i], y_shards[i]));
        ddp_backward(ddp, losses);
        if (m->update_each || j == plan->m - 1)
            ddp_update(ddp, CHECKED_LR, divisor_of(m, plan, j, n));
    }
}

// ---- trainings ---------------------------------------------------------------------------------

typedef struct Case {
    const char *name;
    Plan plan;
    Module *net;
    const Tensor *X, *y;
} Case;

typedef struct Result {
    float *values[MOST_RANKS]; // of each rank
    size_t n;
    uint64_t bytes, one_exchange; // between devices, of all steps; of that many exchanges
} Result;

// From the start, with a mistake; NULL: your part.
static Result train(const Case *c, const Mistake *m) {
    Device *devices[MOST_RANKS];
    Result r = {0};
    initialize(c->net, 1);
    open_devices(devices, c->plan.k);
    Ddp *ddp = ddp_new(c->net, devices, c->plan.k, (DdpOptions){.bucket_bytes = 64 << 10});
    synchronize_all();
    uint64_t before = ledger_bytes_between_devices();
    for (int step = 0; step < CHECKED_STEPS; step++) {
        if (m)
            step_with(m, ddp, &c->plan, c->X, c->y);
        else
            step_in_parts(ddp, &c->plan, c->X, c->y, CHECKED_LR);
        synchronize_all();
    }
    r.bytes = ledger_bytes_between_devices() - before;
    for (int i = 0; i < c->plan.k; i++) {
        r.values[i] = ddp_values(ddp, i, &r.n);
        r.one_exchange += CHECKED_STEPS * ddp_gradient_bytes(ddp, i).sent;
    }
    ddp_free(ddp);
    return r;
}

static void result_free(Result *r) {
    for (int i = 0; i < MOST_RANKS; i++) free(r->values[i]);
}

static const char *suspect_of(const Case *c, const Result *came, const float *start) {
    if (memcmp(came->values[0], start, came->n * sizeof(float)) == 0)
        return "nothing was updated: load_part(), forward, losses and backward for each part, then "
               "ddp_update()";
    for (size_t m = 0; m < sizeof mistakes / sizeof *mistakes; m++) {
        bool same = true;
        Result r = train(c, &mistakes[m]);
        for (int i = 0; i < c->plan.k && same; i++)
            same = memcmp(r.values[i], came->values[i], r.n * sizeof(float)) == 0;
        result_free(&r);
        if (same) return mistakes[m].hint;
    }
    return "suspects: all parts, each once; one update at the end, by lr and all rows of the "
           "minibatch; ddp_no_sync() for all parts but the last; no single one explains it";
}

// ---- the check ---------------------------------------------------------------------------------

static float *start_of(Module *net) {
    Device *devices[1];
    size_t n;
    initialize(net, 1);
    open_devices(devices, 1);
    Ddp *ddp = ddp_new(net, devices, 1, (DdpOptions){0});
    float *start = ddp_values(ddp, 0, &n);
    ddp_free(ddp);
    return start;
}

static void check_values(const Case *c, const float *start) {
    static const Mistake none = {0};
    Case whole = *c;
    whole.plan = shards_in_parts(CHECKED_BATCH, c->plan.k, 1);
    Result right = train(&whole, &none), came = train(c, NULL);
    for (int i = 0; i < c->plan.k; i++) {
        double apart = relative_difference(came.values[i], right.values[0], start, came.n);
        EXPECT(apart <= TOLERANCE, suspect_of(c, &came, start),
               "%d updates on k = %d from %s: the parameters of device %d differ from those of the "
               "whole minibatch by %.2g of what training changed, expected at most %g",
               CHECKED_STEPS, c->plan.k, c->name, i, apart, TOLERANCE);
    }
    result_free(&right);
    result_free(&came);
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
    Result came = train(c, NULL);
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
    float *start = start_of(c.net);
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
