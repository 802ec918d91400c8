// experiment.c: LeNet's and ResNet-18's gradients, exchanged by the chapter's fusion.c with
// thresholds from 0 to 128 MiB: predicted from times of single messages, and measured on ranks of
// this machine. modelled.c has machines with up to 512 ranks.
#include "common/base/platform.h"
#include "common/base/error.h"
#include "common/program/exercise.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "chapters/08_many_machines/exercises/start_ranks.h"
#include "modelled.h"
#include "your_part.h"

void write_rows(FILE *csv, const char *part, int ranks, const char *network, const Row rows[]) {
    for (int t = 0; t < NUM_THRESHOLDS; t++)
        fprintf(csv, "%s,%d,%s,%zu,%d,%.6g,%.6g,%.6g,%.6g\n", part, ranks, network,
                rows[t].threshold, rows[t].messages, 1e3 * rows[t].said, 1e3 * rows[t].took,
                1e3 * rows[t].low, 1e3 * rows[t].high);
}

Cycle whole_network(const NetworkKind *kind) {
    Cycle c = {.ranks = 1};
    c.n = gradient_bytes(kind, c.bytes);
    for (int p = 0; p < c.n; p++) c.ready[0][p] = true;
    return c;
}

static void fill_rows(const MeasuredNetwork *m, const Cycle *c, const Costs *costs, Row rows[]) {
    for (int t = 0; t < NUM_THRESHOLDS; t++) {
        int message_of[MOST_GRADIENTS], messages = fuse(c, thresholds[t], message_of);
        Quartiles q = quartiles(m->fused[t].seconds, m->fused[t].n);
        CHECK(messages == m->messages[t], "fusion.c sends as many messages as the rule says");
        rows[t] = (Row){thresholds[t], messages, predict(c, thresholds[t], costs),
                        q.median,      q.low,    q.high};
    }
}

static void print_rows(const Row rows[]) {
    Table t =
        TABLE(NULL, {"threshold", .bytes = true}, WHOLE("messages"),
              DIGITS("predicted", 3, .unit = "ms"), DIGITS("measured", 3, .unit = "ms"),
              DIGITS("from", 3, .unit = "ms"), DIGITS("to", 3, .unit = "ms"), FIXED("ratio", 2));
    for (int i = 0; i < NUM_THRESHOLDS; i++)
        table_numbers(&t, (double)rows[i].threshold, rows[i].messages, rows[i].said, rows[i].took,
                      rows[i].low, rows[i].high, rows[i].said / rows[i].took);
}

static void show_network(FILE *csv, const MeasuredNetwork *m, const NetworkKind *kind, int ranks) {
    Row rows[NUM_THRESHOLDS];
    Cycle c = whole_network(kind);
    Line sum = fit_line(m->sums, m->num_sizes), copy = fit_line(m->copies, m->num_sizes);
    Costs costs = {sum, copy, median(m->talk.seconds, m->talk.n)};
    fill_rows(m, &c, &costs, rows);
    say("\n  %s: by your lines a message takes %.3g us and %.3g ns for each byte, a copy %.3g us "
        "and %.3g ns; talking %.0f us",
        kind->title, 1e6 * sum.latency, 1e9 * sum.per_byte, 1e6 * copy.latency, 1e9 * copy.per_byte,
        1e6 * costs.talk);
    say("  %d gradients; measured: the median, and the middle half", c.n);
    print_rows(rows);
    write_rows(csv, "measured", ranks, kind->title, rows);
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
    if (why_not) say("Left out: %s.", why_not);
    for (int i = 0; i < NUM_NETWORKS && !why_not; i++)
        show_network(csv, &m.of[i], &networks[i], ranks);
    show_modelled(csv);
}

int main(int argc, char *argv[]) {
    const char *path = case_of(argc, argv);
    if (path) return measure_as_rank(path);
    return exercise_main(
        argc, argv,
        &(Exercise){.about = "Exercise 3: how large should fused messages be?\nStarted by hand, it "
                             "starts ranks of its own to measure with.",
                    .flags = "-predict",
                    .defaults = default_flags,
                    .experiment = experiment,
                    .plot = "exercise_fusion.gp"});
}
