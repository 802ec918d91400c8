// crowd.c: see crowd.h.
#include "crowd.h"

#include "common/base/error.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

// Of the cross-entropy of the outputs: softmax, less 1 at the label.
static void add_gradient(const float *params, const float *pixels, int label, float *grads) {
    float out[CLASSES], most = 0, sum = 0;
    outputs_of(params, pixels, out);
    for (int c = 0; c < CLASSES; c++) most = c == 0 ? out[c] : fmaxf(most, out[c]);
    for (int c = 0; c < CLASSES; c++) sum += out[c] = expf(out[c] - most);
    for (int c = 0; c < CLASSES; c++) out[c] = out[c] / sum - (c == label);
    for (int p = 0; p <= PIXELS; p++) {
        float x = p < PIXELS ? pixels[p] : 1;
        if (x == 0) continue;
        for (int c = 0; c < CLASSES; c++) grads[p * CLASSES + c] += x * out[c];
    }
}

static double accuracy_of(const float *params, const Dataset *test) {
    float pixels[PIXELS], out[CLASSES];
    int right = 0;
    for (int i = 0; i < test->count; i++) {
        int best = 0;
        for (int p = 0; p < PIXELS; p++)
            pixels[p] = test->images[(size_t)i * PIXELS + (size_t)p] / 255.0f;
        outputs_of(params, pixels, out);
        for (int c = 1; c < CLASSES; c++)
            if (out[c] > out[best]) best = c;
        right += best == test->labels[i];
    }
    return (double)right / test->count;
}

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
    long applied;
    CrowdResult *sum;
} Crowd;

// The staleness of a push counts those of earlier steps only: as chapter 7's servers count.
static void apply(Crowd *c, Member *m, long before) {
    const PsLesson *l = c->lesson;
    int pushes = l->W - c->schedule->how.backup;
    float lr = l->lr / (float)(l->batch_size / l->W * pushes);
    for (int i = 0; i < FLOATS; i++) c->params[i] -= lr * m->grads[i];
    m->waits = false;
    c->sum->stale += (double)(before - m->based_on);
    c->sum->applied++;
    c->applied++;
}

// In rounds the pushes of the present one wait until it is over.
static void apply_until(Crowd *c, long clock) {
    for (;;) {
        long oldest = clock, before = c->applied;
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
    apply_until(c, in_rounds(c->schedule->how) ? e->clock : LONG_MAX);
    m->based_on = c->applied;
    m->clock = e->clock;
    ps_load(c->lesson, e->clock, e->worker, c->X, c->y);
    memset(m->grads, 0, sizeof m->grads);
    for (int r = 0; r < ps_rows(c->lesson, e->worker); r++)
        add_gradient(c->params, c->X->data + (size_t)r * PIXELS, (int)c->y->data[r], m->grads);
}

static void add_point(const Crowd *c, int p, double time) {
    PsPoint *point = &c->sum->points[p];
    point->pushes += c->applied;
    point->time += time;
    point->accuracy += accuracy_of(c->params, c->lesson->test_data);
}

void crowd_replay(const PsLesson *l, const Schedule *s, CrowdResult *sum) {
    Crowd *c = xcalloc(1, sizeof *c);
    int every = (s->count + l->points - 1) / l->points, p = 0;
    CHECK(l->batch_size % l->W == 0 && l->points < 25, "shards of one size, and room for points");
    *c = (Crowd){.lesson = l, .schedule = s, .sum = sum};
    c->members = xcalloc((size_t)l->W, sizeof *c->members);
    c->X = tensor_new(host(), ps_rows(l, 0), PIXELS);
    c->y = tensor_new(host(), ps_rows(l, 0));
    for (int i = 0; i < s->count; i++) {
        const Happening *e = &s->list[i];
        if (e->kind == EVENT_PULL) pull_and_compute(c, e);
        if (e->kind == EVENT_PUSH) c->members[e->worker].waits = true;
        sum->dropped += e->kind == EVENT_DROP;
        if ((i + 1) % every == 0 || i + 1 == s->count) add_point(c, p++, e->time);
    }
    sum->count = sum->count > 0 && sum->count < p ? sum->count : p;
    sum->seconds += s->list[s->count - 1].time;
    apply_until(c, LONG_MAX);
    tensor_free(c->X);
    tensor_free(c->y);
    free(c->members);
    free(c);
}
