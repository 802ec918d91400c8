// program.c: see program.h. First the four functions, each with a mistake.
#include "program.h"

#include "common/base/platform.h"
#include "common/base/error.h"

#include <stdio.h>

const char *const function_names[NUM_FUNCTIONS] = {"report", "train_until", "exchange",
                                                   "train_epoch"};

// ## 1: rank 0 prints the mean of all ranks' losses

void report_as_found(Training *t) {
    if (dist_get_rank() == 0) {
        float sum = my_loss(t);
        sum_over_ranks(&sum, "the loss");
        t->mean_loss = sum / (float)dist_get_world_size();
    }
}

// ## 2: steps, until the mean of all ranks' losses is below the goal

int train_until_as_found(Training *t, float goal) {
    while (my_loss(t) >= goal) {
        float gradient = my_gradient(t, 0, t->rows);
        sum_over_ranks(&gradient, "the gradient");
        t->w += gradient;
        t->step++;
    }
    return t->step;
}

// ## 3: gradients are summed while others are still computed, each bucket as early as can be

void exchange_as_found(Buckets *b) {
    for (int i = 0; i < NUM_BUCKETS; i++) sum_bucket(b, next_arrived(b));
}

// ## 4: one step for each minibatch of this rank's rows, then all have the parameter of rank 0

void train_epoch_as_found(Training *t, int batch) {
    for (int first = 0; first < t->rows; first += batch) {
        int n = t->rows - first < batch ? t->rows - first : batch;
        float gradient = my_gradient(t, first, n);
        sum_over_ranks(&gradient, "the gradient");
        t->w += gradient;
        t->step++;
    }
    copy_from_rank_0(&t->w, "the parameter");
}

// ## What they are made of
//
// A rank says what it begins and what it is through with: so one sees what it is in. From these
// lines the picture is drawn.

static const char *running = "";
static double start;
static int collectives;

static void say_that(const char *what, const char *collective, const char *why) {
    fprintf(stderr, "at %.6f s: rank %d %s %s (%s) in %s\n", seconds_now() - start, dist_get_rank(),
            what, collective, why, running);
}

static void begin(const char *collective, const char *why) {
    enum { MOST = 100 };
    if (collectives++ == MOST)
        die("does its loop end? In train_until() t->step counts the steps, and with it the loss "
            "goes down",
            "a rank made %d collectives in %s(), and went on", MOST, running);
    dist_note("%s", why);
    say_that("begins", collective, why);
}

void before_function(int f) {
    dist_barrier(NULL);
    running = function_names[f];
    if (dist_get_rank() == 0) fprintf(stderr, "running: %s\n", running);
    start = seconds_now();
    collectives = 0;
}

void after_function(void) { wait_for_all("after the function"); }

static void on_device(void (*run)(Tensor *t), float *x) {
    Tensor *one = tensor_new(dist_device(), 1);
    tensor_write(one, x);
    run(one);
    tensor_read(one, x);
    tensor_free(one);
}

static void run_all_reduce(Tensor *t) { dist_all_reduce(NULL, t); }
static void run_broadcast(Tensor *t) { dist_broadcast(NULL, t, 0); }

void sum_over_ranks(float *x, const char *why) {
    begin("all_reduce", why);
    on_device(run_all_reduce, x);
    say_that("ends", "all_reduce", why);
}

void copy_from_rank_0(float *x, const char *why) {
    begin("broadcast", why);
    on_device(run_broadcast, x);
    say_that("ends", "broadcast", why);
}

void wait_for_all(const char *why) {
    begin("barrier", why);
    dist_barrier(NULL);
    say_that("ends", "barrier", why);
}

// A rank's loss goes down by 1 in each step, from more on higher ranks.
float my_loss(const Training *t) {
    return (float)(dist_get_world_size() + 3 * dist_get_rank() - t->step);
}

// Row i of rank r has the gradient 1 + r + i % 3; so one that is left out is noticed.
float my_gradient(const Training *t, int first, int n) {
    float sum = 0;
    if (n != 0 && !(first >= 0 && n > 0 && first + n <= t->rows))
        die("a rank has t->rows rows, and some have fewer than others: is anything left?",
            "a rank asked for rows that it does not have, in %s()", running);
    for (int i = first; i < first + n; i++) sum += (float)(1 + dist_get_rank() + i % 3);
    return sum;
}

// Odd ranks get bucket 1 first, the others bucket 0.
int next_arrived(Buckets *b) {
    if (b->arrived >= NUM_BUCKETS)
        die("each of them arrives once", "a rank waited for more buckets than there are");
    int i = b->arrived++;
    if (dist_get_rank() % 2 == 1 && i < 2) i = 1 - i;
    b->value[i] = b->unit * (float)((1 << 4 * i) * (1 + dist_get_rank()));
    return i;
}

void sum_bucket(Buckets *b, int i) {
    static const char *const names[NUM_BUCKETS] = {"bucket 0", "bucket 1", "bucket 2"};
    if (i < 0 || i >= NUM_BUCKETS)
        die("which bucket comes next?", "a rank summed bucket %d, which is not there", i);
    b->sum_began[i] = b->arrived;
    sum_over_ranks(&b->value[i], names[i]);
}
