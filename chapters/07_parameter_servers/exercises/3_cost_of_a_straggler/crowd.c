// crowd.c: see crowd.h.
#include "crowd.h"

#include "common/base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ## The network
//
// Row p of the parameters belongs to pixel p, the last one is the bias. Most pixels are black: what
// they are multiplied with is left out.

enum { PIXELS = 28 * 28, CLASSES = 10, FLOATS = (PIXELS + 1) * CLASSES };

static void outputs_of(const float *params, const float *pixels, float out[CLASSES]) {
    memcpy(out, params + (size_t)PIXELS * CLASSES, sizeof *out * CLASSES);
    for (int p = 0; p < PIXELS; p++) {
        if (pixels[p] == 0) continue;
        for (int c = 0; c < CLASSES; c++) out[c] += pixels[p] * params[p * CLASSES + c];
    }
}

// Makes of the outputs the gradient of their cross-entropy: softmax, less 1 at the label.
static void outputs_gradient(float out[CLASSES], int label) {
    float most = out[0], sum = 0;
    for (int c = 1; c < CLASSES; c++) most = fmaxf(most, out[c]);
    for (int c = 0; c < CLASSES; c++) sum += out[c] = expf(out[c] - most);
    for (int c = 0; c < CLASSES; c++) out[c] /= sum;
    out[label] -= 1;
}

static void add_gradient(const float *params, const float *pixels, int label, float *grads) {
    float out[CLASSES];
    outputs_of(params, pixels, out);
    outputs_gradient(out, label);
    for (int p = 0; p <= PIXELS; p++) {
        float x = p < PIXELS ? pixels[p] : 1;
        if (x == 0) continue;
        for (int c = 0; c < CLASSES; c++) grads[p * CLASSES + c] += x * out[c];
    }
}

static bool is_right(const float *params, const float *pixels, int label) {
    float out[CLASSES];
    outputs_of(params, pixels, out);
    for (int c = 0; c < CLASSES; c++)
        if (c != label && !(out[c] < out[label])) return false;
    return true;
}

static double accuracy_of(const float *params, const Dataset *test) {
    float pixels[PIXELS];
    int right = 0;
    for (int i = 0; i < test->count; i++) {
        for (int p = 0; p < PIXELS; p++)
            pixels[p] = test->images[(size_t)i * PIXELS + (size_t)p] / 255.0f;
        right += is_right(params, pixels, test->labels[i]);
    }
    return (double)right / test->count;
}

// ## Its workers and their server

typedef struct Member {
    float grads[FLOATS];
    bool waits;           // its push, to be applied
    long clock, based_on; // updates of others that it had seen
} Member;

typedef struct Crowd {
    const PsLesson *lesson;
    const Schedule *schedule;
    Member *members;
    Tensor *X, *y;
    float params[FLOATS];
    double stale;
    CrowdResult result;
} Crowd;

// The staleness of a push counts those of earlier steps only: as chapter 7's servers count.
static void apply(Crowd *c, Member *m, long before) {
    const PsLesson *l = c->lesson;
    int pushes = l->W - c->schedule->how.backup;
    float lr = l->lr / (float)(l->batch_size / l->W * pushes);
    long stale = before - m->based_on;
    for (int i = 0; i < FLOATS; i++) c->params[i] -= lr * m->grads[i];
    m->waits = false;
    c->stale += (double)stale;
    if (stale > c->result.most_staleness) c->result.most_staleness = stale;
    c->result.applied++;
}

// In rounds the pushes of the present one wait until it is over.
static void apply_until(Crowd *c, long clock) {
    for (;;) {
        long oldest = clock, before = c->result.applied;
        for (int w = 0; w < c->lesson->W; w++)
            if (c->members[w].waits && c->members[w].clock < oldest) oldest = c->members[w].clock;
        if (oldest == clock) return;
        for (int w = 0; w < c->lesson->W; w++)
            if (c->members[w].waits && c->members[w].clock == oldest)
                apply(c, &c->members[w], before);
    }
}

static void pull_and_compute(Crowd *c, const Happening *e) {
    Member *m = &c->members[e->worker];
    apply_until(c, in_rounds(c->schedule->how) ? e->clock : ALL_CLOCKS);
    m->based_on = c->result.applied;
    m->clock = e->clock;
    ps_load(c->lesson, e->clock, e->worker, c->X, c->y);
    memset(m->grads, 0, sizeof m->grads);
    for (int r = 0; r < ps_rows(c->lesson, e->worker); r++)
        add_gradient(c->params, c->X->data + (size_t)r * PIXELS, (int)c->y->data[r], m->grads);
}

static Crowd *crowd_new(const PsLesson *l, const Schedule *s) {
    Crowd *c = xcalloc(1, sizeof *c);
    CHECK(l->batch_size % l->W == 0, "shards of one size");
    CHECK(l->train_data->rows * l->train_data->cols == PIXELS && l->points < 64, "room for it");
    *c = (Crowd){.lesson = l, .schedule = s};
    c->members = xcalloc((size_t)l->W, sizeof *c->members);
    c->X = tensor_new(host(), ps_rows(l, 0), PIXELS);
    c->y = tensor_new(host(), ps_rows(l, 0));
    return c;
}

static void crowd_free(Crowd *c) {
    tensor_free(c->X);
    tensor_free(c->y);
    free(c->members);
    free(c);
}

CrowdResult crowd_replay(const PsLesson *l, const Schedule *s) {
    Crowd *c = crowd_new(l, s);
    CrowdResult *r = &c->result;
    int every = (s->count + l->points - 1) / l->points;
    for (int i = 0; i < s->count; i++) {
        const Happening *e = &s->list[i];
        if (e->kind == EVENT_PULL) pull_and_compute(c, e);
        if (e->kind == EVENT_PUSH) c->members[e->worker].waits = true;
        r->dropped += e->kind == EVENT_DROP;
        r->seconds = e->time;
        if ((i + 1) % every == 0 || i + 1 == s->count)
            r->points[r->count++] =
                (PsPoint){r->applied, e->time, accuracy_of(c->params, l->test_data)};
    }
    apply_until(c, ALL_CLOCKS);
    r->mean_staleness = c->stale / (double)r->applied;
    CrowdResult result = *r;
    crowd_free(c);
    return result;
}
