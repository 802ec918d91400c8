// experiment.c: LeNet's and ResNet-18's gradients, exchanged by the chapter's fusion.c with
// thresholds from 0 to 128 MiB: predicted from times of single messages, and measured on ranks of
// this machine. modelled.c has machines with up to 512 ranks.
#include "common/base/cores.h"
#include "common/base/error.h"
#include "common/base/statistics.h"
#include "common/program/exercise.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "chapters/08_many_machines/exercises/start_ranks.h"
#include "your_part.h"

// ## Figures

void write_rows(FILE *csv, const char *part, int ranks, const char *network, const Row rows[]) {
    for (int t = 0; t < NUM_THRESHOLDS; t++)
        fprintf(csv, "%s,%d,%s,%zu,%d,%.6g,%.6g,%.6g,%.6g\n", part, ranks, network,
                rows[t].threshold, rows[t].messages, 1e3 * rows[t].said, 1e3 * rows[t].took,
                1e3 * rows[t].low, 1e3 * rows[t].high);
}

typedef struct Here {
    const char *title;
    size_t bytes; // of all gradients
    int n;        // gradients
    Costs costs;
    Row rows[NUM_THRESHOLDS];
} Here;

static Here predict_here(const MeasuredNetwork *m, const NetworkKind *kind) {
    Here h = {.title = kind->title};
    Cycle c = {.ranks = 1};
    h.n = c.n = gradient_bytes(kind, c.bytes);
    for (int p = 0; p < c.n; p++) {
        c.ready[0][p] = true;
        h.bytes += c.bytes[p];
    }
    h.costs = (Costs){fit_line(m->sums, m->num_sizes), fit_line(m->copies, m->num_sizes),
                      median(m->talk.seconds, m->talk.n)};
    for (int t = 0; t < NUM_THRESHOLDS; t++) {
        int message_of[MOST_GRADIENTS];
        Quartiles q = quartiles(m->fused[t].seconds, m->fused[t].n);
        int messages = fuse(&c, thresholds[t], message_of);
        CHECK(messages == m->messages[t], "fusion.c sends as many messages as the rule says");
        h.rows[t] = (Row){thresholds[t], messages, predict(&c, thresholds[t], &h.costs),
                          q.median,      q.low,    q.high};
    }
    return h;
}

static void print_here(const Here *h) {
    Line sum = h->costs.sum, copy = h->costs.copy;
    say("\n  %s: by your lines a message takes %.3g us and %.3g ns for each byte, a copy %.3g us "
        "and "
        "%.3g ns; talking %.0f us",
        h->title, 1e6 * sum.latency, 1e9 * sum.per_byte, 1e6 * copy.latency, 1e9 * copy.per_byte,
        1e6 * h->costs.talk);
    say("  %d gradients, %.3g MB; measured: the median, and the middle half", h->n,
        1e-6 * (double)h->bytes);
    Table t =
        TABLE(NULL, {"threshold", .bytes = true}, WHOLE("messages"),
              DIGITS("predicted", 3, .unit = "ms"), DIGITS("measured", 3, .unit = "ms"),
              DIGITS("from", 3, .unit = "ms"), DIGITS("to", 3, .unit = "ms"), FIXED("ratio", 2));
    for (int i = 0; i < NUM_THRESHOLDS; i++) {
        const Row *r = &h->rows[i];
        table_numbers(&t, (double)r->threshold, r->messages, r->said, r->took, r->low, r->high,
                      r->said / r->took);
    }
}

// ## The experiment

static void show_here(const Measured *m, FILE *csv) {
    Here here[NUM_NETWORKS];
    for (int i = 0; i < NUM_NETWORKS; i++) {
        here[i] = predict_here(&m->of[i], &networks[i]);
        print_here(&here[i]);
        write_rows(csv, "measured", m->ranks, here[i].title, here[i].rows);
    }
}

static void experiment(const Flags *flags, FILE *csv) {
    static Measured m;
    int ranks = num_cores() >= 4 ? 4 : 2;
    (void)flags;
    say("Question: how large should fused messages be, and can that be computed?");
    fprintf(csv, "part,ranks,network,threshold,messages,predicted_ms,ms,low_ms,high_ms\n");
    say("Measured: %d ranks on %d core%s of this machine, sums by ring, all gradients ready at "
        "once, rounds in turns.",
        ranks, num_cores(), num_cores() > 1 ? "s" : "");
    const char *why_not = measure_exchanges(ranks, &m);
    if (why_not)
        say("Left out: %s.", why_not);
    else
        show_here(&m, csv);
    show_modelled(csv);
}

int main(int argc, char *argv[]) {
    if (case_of(argc, argv)) return measure_as_rank();
    return exercise_main(
        argc, argv,
        &(Exercise){.about = "Exercise 3: how large should fused messages be?\nStarted by hand, it "
                             "starts ranks of its own to measure with.",
                    .flags = "-predict",
                    .defaults = default_flags,
                    .parts = check_parts,
                    .passed = "messages are those of all ranks, lines and predictions right",
                    .experiment = experiment,
                    .plot = "exercise_fusion.gp"});
}
