// traced.c: see traced.h.
#include "traced.h"

#include "common/program/say.h"
#include "common/program/table.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const gradient_names[LENET_PARAMS] = {"W1", "b1", "W2", "b2", "W3", "b3", "W4", "b4"};

// Links are slow enough for the exchange to outlast backward, and launches take no time: so all
// that is not waited for begins too early.
void traced_step(Traced *t, int k, int rows, int slow) {
    static Machine machine;
    machine = *machine_find("cluster-10gbe");
    machine.launch = 0;
    const Tensor X = {.ndim = 4, .shape = {rows, 1, 28, 28}, .device = host()};
    const Tensor y = {.ndim = 1, .shape = {rows}, .device = host()};
    Tensor *losses[MAX_COMPUTING];
    int none;
    t->run = (ModelledRun){.machine = &machine, .k = k, .traced = true};
    modelled_begin(&t->run);
    device_set_slowdown(t->run.devices[slow], 2);
    t->o = overlap_open(t->run.devices, k, 0);
    trace_begin_models();
    overlap_step(t->o, &X, &y, 0, losses);
    free(trace_end(&none)); // nothing was computed
    t->spans = trace_modelled(&t->count);
    device_set_slowdown(t->run.devices[slow], 1);
}

void traced_close(Traced *t) {
    free(t->spans);
    overlap_close(t->o);
    modelled_end(&t->run);
}

int number_in(const TraceSpan *span, const char *what) {
    size_t length = strlen(what);
    return strncmp(span->label, what, length) == 0 ? atoi(span->label + length) : -1;
}

double final_at(const Traced *t, int i, int p) {
    double at = 0;
    for (const TraceSpan *s = t->spans; s < t->spans + t->count; s++) {
        int calls = number_in(s, "backward ");
        if (calls < 0 || calls >= t->o->call[i][p] || s->device != t->o->devices[i]) continue;
        at = fmax(at, s->end);
    }
    return at;
}

typedef struct Piece {
    double from, to; // NAN: there is none
} Piece;
static void add_span(Piece *piece, const TraceSpan *s) {
    piece->from = fmin(piece->from, s->start);
    piece->to = fmax(piece->to, s->end);
}

// A row for each parameter, in the order of backward, and one for the update.
void print_trace(void) {
    enum { K = 2, ROWS = 1024, UPDATE = -1 };
    Traced t;
    choose_allreduce("star");
    traced_step(&t, K, ROWS, 0);
    say("A step with %d images on %d devices, of which device 0 is half as fast, summed by the "
        "star; in us: from when to when either device computes each gradient (\"-\": together with "
        "the one before), and exchanges it. The last line is the update.",
        ROWS, K);
    Table table = TABLE(NULL, WORDS("", 6), WHOLE("0: computes"), WHOLE("until"),
                        WHOLE("exchanges"), WHOLE("until"), WHOLE("1: computes"), WHOLE("until"),
                        WHOLE("exchanges"), WHOLE("until"));
    double before[K] = {0};
    for (int p = LENET_PARAMS - 1; p >= UPDATE; p--) {
        table_text(&table, "%s", p == UPDATE ? "update" : gradient_names[p]);
        for (int i = 0; i < K; i++) {
            Piece computes = {NAN, NAN}, exchanges = {NAN, NAN};
            double there = p == UPDATE ? INFINITY : final_at(&t, i, p);
            for (const TraceSpan *s = t.spans; s < t.spans + t.count; s++) {
                if (s->device != t.o->devices[i]) continue;
                bool now = s->start >= before[i] && s->end <= there;
                if (now && (p == UPDATE ? strcmp(s->label, "update") == 0
                                        : number_in(s, "backward ") >= 0))
                    add_span(&computes, s);
                if (p != UPDATE && number_in(s, "exchange ") == p) add_span(&exchanges, s);
            }
            before[i] = there;
            table_numbers(&table, 1e6 * computes.from, 1e6 * computes.to, 1e6 * exchanges.from,
                          1e6 * exchanges.to);
        }
    }
    traced_close(&t);
}
