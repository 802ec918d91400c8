// rank_training.c: see rank_training.h.
#include "rank_training.h"

#include "common/base/platform.h"
#include "common/base/error.h"
#include "common/program/interrupt.h"
#include "common/program/say.h"
#include "hierarchical.h"
#include "rank_checkpoint.h"
#include "rank_data.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ## Faults, planted

static const char *const fault_names[] = {"", "kill", "stop", "exit", "memory", "nan"};

Fault fault_of(const char *text) {
    char name[16];
    Fault f = {0};
    int end = 0;
    if (!text) return f;
    if (sscanf(text, "%15[a-z]:%d@%ld%n", name, &f.rank, &f.step, &end) == 3 && !text[end])
        for (int kind = FAULT_KILL; kind <= FAULT_NAN; kind++)
            if (strcmp(name, fault_names[kind]) == 0) f.kind = kind;
    if (!f.kind || f.rank < 0 || f.step < 1)
        die_usage("kill, stop, exit, memory or nan, a rank and its step, such as stop:2@5",
                  "--plant: not a possible value: '%s'", text);
    return f;
}

static void go_wrong(const Fault *fault, long step, Tensor *X) {
    if (fault->kind == NO_FAULT || fault->step != step || fault->rank != dist_get_rank()) return;
    if (fault->kind == FAULT_KILL) raise(SIGKILL);
    if (fault->kind == FAULT_STOP) raise(SIGSTOP);
    if (fault->kind == FAULT_EXIT) _exit(EXIT_SUCCESS);
    if (fault->kind == FAULT_MEMORY) xmalloc((size_t)1 << 60);
    if (fault->kind == FAULT_NAN) tensor_fill(X, NAN);
}

// ## An epoch
//
// After each step all ranks say what their loss is, and whether somebody has asked them to stop. So
// all stop in the same step: a rank that left alone would leave the others waiting.

typedef struct Run {
    const RankLesson *lesson;
    RankNet *net;
    RankData train;
    long step, steps_of_epoch; // all steps so far, also those before a resume
    double loss, rows;         // of this epoch
    bool stopped;
} Run;

// Warm-up takes the part of a training that Goyal et al. gave it: 5 epochs of 90.
static float lr_now(const Run *run) {
    const RankLesson *l = run->lesson;
    long warm_up = l->epochs * run->steps_of_epoch * 5 / 90;
    return (float)rule_lr(l->rule, (double)l->lr, dist_num_devices(), run->step, warm_up);
}

static void end_step(Run *run, Tensor *const losses[], int rows) {
    float values[MAX_LOCAL_DEVICES];
    double said[2] = {0, interrupted()};
    items(losses, dist_local_devices(), values); // waits for this rank
    for (int i = 0; i < dist_local_devices(); i++) said[0] += (double)values[i];
    dist_note("after step %ld", run->step + 1);
    dist_sum(NULL, said, 2);
    run->step++;
    if (!isfinite(said[0]))
        die("start again with a smaller --lr", "the loss became %s at step %ld",
            isnan(said[0]) ? "nan" : "infinite", run->step);
    run->loss += said[0];
    run->rows += rows;
    run->stopped = said[1] > 0;
}

static bool may_go_on(const Run *run) {
    return !run->stopped && (run->lesson->steps < 0 || run->step < run->lesson->steps);
}

// Returns the mean loss.
static double train_one_epoch(Run *run, int epoch) {
    Tensor *X[MAX_LOCAL_DEVICES], *y[MAX_LOCAL_DEVICES], *losses[MAX_LOCAL_DEVICES];
    int rows;
    run->loss = run->rows = 0;
    rank_data_start(&run->train, epoch);
    while (may_go_on(run) && (rows = rank_data_next(&run->train, X, y)) > 0) {
        dist_note("step %ld", run->step + 1);
        go_wrong(&run->lesson->fault, run->step + 1, X[0]);
        rank_net_step(run->net, X, y, lr_now(run), rows, losses);
        end_step(run, losses, rows);
    }
    rank_net_share_buffers(run->net);
    return run->loss / run->rows;
}

// ## An exact accuracy: each rank counts for its own images

static double accuracy(const Run *run) {
    Tensor *X[MAX_LOCAL_DEVICES], *y[MAX_LOCAL_DEVICES], *y_hat[MAX_LOCAL_DEVICES];
    Tensor *correct[MAX_LOCAL_DEVICES];
    RankData test;
    float values[MAX_LOCAL_DEVICES];
    double count = 0;
    int devices = dist_local_devices();
    Module *net = run->net->net;
    rank_data_open(&test, run->lesson->test_data, 256, false, 0);
    set_training(net, false);
    set_grad_enabled(false);
    for (int i = 0; i < devices; i++) {
        correct[i] = tensor_new(dist_device(i), 1);
        tensor_fill(correct[i], 0);
    }
    rank_data_start(&test, 0);
    while (rank_data_next(&test, X, y) > 0) {
        forward_all(net, X, devices, y_hat);
        for (int i = 0; i < devices; i++) count_correct(correct[i], y_hat[i], y[i]);
    }
    items(correct, devices, values);
    for (int i = 0; i < devices; i++) {
        count += (double)values[i];
        tensor_free(correct[i]);
    }
    set_grad_enabled(true);
    set_training(net, true);
    rank_data_close(&test);
    dist_note("evaluation");
    dist_sum(NULL, &count, 1);
    return count / run->lesson->test_data->count;
}

// ## From start to end

static long steps_in_all(const Run *run) {
    const RankLesson *l = run->lesson;
    long steps = l->epochs * run->steps_of_epoch;
    return l->steps >= 0 && l->steps < steps ? l->steps : steps;
}

// A fault that never comes would show nothing.
static void check_fault(const Run *run) {
    const Fault *fault = &run->lesson->fault;
    long steps = steps_in_all(run);
    if (fault->kind != NO_FAULT && (fault->rank >= dist_get_world_size() || fault->step > steps))
        die_usage("a rank from 0 on, and a step from 1 on",
                  "--plant %s:%d@%ld: there are %d ranks and %ld steps", fault_names[fault->kind],
                  fault->rank, fault->step, dist_get_world_size(), steps);
}

static void begin_run(Run *run, Module *net, const RankLesson *l) {
    *run = (Run){.lesson = l};
    dist_note("the start of the training");
    if (l->net.hosts_first) hierarchical_begin();
    run->net = rank_net_new(net, l->net);
    rank_data_open(&run->train, l->train_data, l->rows, l->shuffle, l->seed);
    run->steps_of_epoch = rank_data_steps(&run->train);
    check_fault(run);
    dist_reset_traffic();
}

static void end_run(Run *run) {
    rank_data_close(&run->train);
    rank_net_free(run->net);
    if (run->lesson->net.hosts_first) hierarchical_end();
}

static void print_epoch(const RankLesson *l, const RankResult *r, double seconds) {
    if (l->quiet) return;
    printf("  epoch %d: train loss %.3f, test acc %.4f, %.1f sec\n", r->epochs, r->train_loss,
           r->test_acc, seconds);
}

RankResult train_on_ranks(const RankLesson *l) {
    RankResult r = {.test_acc = NAN};
    Run run;
    Module *net = l->network->make(FASHION_MNIST_CLASSES);
    initialize(net, l->seed);
    begin_run(&run, net, l);
    if (l->resume) rank_checkpoint_load(l, &run.train, steps_in_all(&run), run.net, &r);
    run.step = run.net->steps = r.steps;
    if (r.epochs == l->epochs && !l->quiet)
        say("  All %d epochs are done already: a larger --epochs goes on.", r.epochs);
    while (r.epochs < l->epochs && may_go_on(&run)) {
        double start = seconds_now();
        double loss = train_one_epoch(&run, r.epochs), seconds = seconds_now() - start;
        r.seconds += seconds;
        r.steps = run.step;
        r.traffic = dist_traffic();
        r.stopped = run.stopped;
        if (r.stopped) break;
        r.train_loss = loss;
        r.test_acc = accuracy(&run);
        r.epochs++;
        print_epoch(l, &r, seconds);
        bool whole = run.train.step == run.steps_of_epoch; // --steps may end within an epoch
        if (l->checkpoint && whole) rank_checkpoint_save(l->checkpoint, l->settings, run.net, &r);
    }
    r.checksum = rank_net_checksum(run.net);
    end_run(&run);
    module_free(net);
    return r;
}
