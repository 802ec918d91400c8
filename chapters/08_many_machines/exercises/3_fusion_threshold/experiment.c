// experiment.c: LeNet's and ResNet-18's gradients, exchanged by the chapter's fusion.c with
// thresholds from 0 to 128 MiB: predicted from times of single messages, and measured on ranks of
// this machine. modelled.c has machines with up to 512 ranks.
#include "common/base/cores.h"
#include "common/base/error.h"
#include "common/base/statistics.h"
#include "common/program/exercise.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "chapters/08_many_machines/exercises/start_ranks.h"
#include "your_part.h"

#include <string.h>

// ## Figures

const char *threshold_text(size_t bytes) {
    static char text[4][32];
    static int turn;
    char *t = text[turn = (turn + 1) % 4];
    if (bytes == 0) return "0";
    if (bytes < 1 << 20)
        snprintf(t, sizeof text[0], "%zu KiB", bytes >> 10);
    else
        snprintf(t, sizeof text[0], "%zu MiB", bytes >> 20);
    return t;
}

const Row *best_row(const Row rows[], bool took) {
    const Row *best = &rows[0];
    for (int t = 1; t < NUM_THRESHOLDS; t++)
        if (took ? rows[t].took < best->took : rows[t].said < best->said) best = &rows[t];
    return best;
}

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

// How far the line is from the middle time of a size: the largest factor.
static double line_misses(const Timings sizes[], int n, Line line) {
    double most = 1;
    for (int s = 0; s < n; s++) {
        double times = line_at(line, sizes[s].bytes) / median(sizes[s].seconds, sizes[s].n);
        most = fmax(most, fmax(times, 1 / times));
    }
    return most;
}

static void print_here(const Here *h) {
    printf("\n  %s, %d gradients, %.3g MB     measured: median\n"
           "  threshold   messages   predicted   (and the middle half), ms    ratio\n",
           h->title, h->n, 1e-6 * (double)h->bytes);
    for (int t = 0; t < NUM_THRESHOLDS; t++) {
        const Row *r = &h->rows[t];
        printf("  %-10s %9d %11.3g %10.3g  (%.3g to %.3g)%*s %5.2f\n", threshold_text(r->threshold),
               r->messages, 1e3 * r->said, 1e3 * r->took, 1e3 * r->low, 1e3 * r->high, 4, "",
               r->said / r->took);
    }
}

// ## What they say

static void explain_costs(const Here *h, const MeasuredNetwork *m) {
    Line sum = h->costs.sum, copy = h->costs.copy;
    say("- %s: a message takes %.3g us and %.3g ns for each byte (%.2g GB/s), a copy %.2g us and "
        "%.2g ns, talking %.0f us. The line misses the times it was laid through by a factor of up "
        "to %.2g.",
        h->title, 1e6 * sum.latency, 1e9 * sum.per_byte, 1e-9 / sum.per_byte, 1e6 * copy.latency,
        1e9 * copy.per_byte, 1e6 * h->costs.talk, line_misses(m->sums, m->num_sizes, sum));
    double saved = sum.latency - 2 * copy.latency;
    if (!(saved > 0 && copy.per_byte > 0)) {
        say("  Two copies cost more than the latency that they save: fusing cannot pay here.");
        return;
    }
    double most = saved / (2 * copy.per_byte);
    int fewer = 0;
    size_t bytes[MOST_GRADIENTS];
    int n = gradient_bytes(&networks[strcmp(h->title, networks[0].title) != 0], bytes);
    for (int p = 0; p < n; p++) fewer += (double)bytes[p] < most;
    say("  To travel with others saves a gradient one latency and costs it two copies: that pays "
        "up to %.3g KB. %d of %d gradients are smaller.",
        1e-3 * most, fewer, n);
}

// "4 KiB to 64 KiB": those beside the best that take at most a tenth longer.
static const char *as_good(const Row rows[], const Row *best, bool took) {
    static char text[64];
    const Row *first = best, *last = best;
    double most = 1.1 * (took ? best->took : best->said);
    while (first > rows && (took ? first[-1].took : first[-1].said) <= most) first--;
    while (last < rows + NUM_THRESHOLDS - 1 && (took ? last[1].took : last[1].said) <= most) last++;
    if (first == last) return "no other";
    snprintf(text, sizeof text, "%s to %s", threshold_text(first->threshold),
             threshold_text(last->threshold));
    return text;
}

static void explain_best(const Here *h) {
    const Row *said = best_row(h->rows, false), *took = best_row(h->rows, true);
    const Row *all = &h->rows[NUM_THRESHOLDS - 1];
    say("- %s: predicted best is a threshold of %s, %.3g ms (within a tenth: %s). Measured with "
        "it: %.3g ms; each alone %.3g, all in %d message%s %.3g.",
        h->title, threshold_text(said->threshold), 1e3 * said->said, as_good(h->rows, said, false),
        1e3 * said->took, 1e3 * h->rows[0].took, all->messages, all->messages > 1 ? "s" : "",
        1e3 * all->took);
    if (said == took) {
        say("  It is the measured best, too.");
        return;
    }
    say("  The measured best is %s with %.3g ms (within a tenth: %s). %s",
        threshold_text(took->threshold), 1e3 * took->took, as_good(h->rows, took, true),
        took->high >= said->low ? "The middle halves of the two overlap: these rounds do not tell "
                                  "them apart."
                                : "The middle halves of the two do not overlap.");
}

static void explain_misses(const Here *h) {
    double ratio[NUM_THRESHOLDS];
    const Row *worst = &h->rows[0];
    for (int t = 0; t < NUM_THRESHOLDS; t++) {
        const Row *r = &h->rows[t];
        ratio[t] = r->said / r->took;
        if (fabs(log(ratio[t])) > fabs(log(worst->said / worst->took))) worst = r;
    }
    double times = worst->said / worst->took;
    say("- %s: predicted over measured is %.2f (median of %d thresholds), at worst %.2f, with %s. "
        "%s",
        h->title, median(ratio, NUM_THRESHOLDS), NUM_THRESHOLDS, times,
        threshold_text(worst->threshold),
        fabs(log(times)) < log(1.25) ? "The line knows enough of this machine."
        : times > 1                  ? "It took less than its parts did one by one."
                                     : "It took longer: the line knows nothing of caches, and of "
                                       "other programs that want the same cores and memory.");
}

// ## The experiment

static void show_here(const Measured *m, FILE *csv) {
    Here here[NUM_NETWORKS];
    for (int i = 0; i < NUM_NETWORKS; i++) {
        here[i] = predict_here(&m->of[i], &networks[i]);
        print_here(&here[i]);
        write_rows(csv, "measured", m->ranks, here[i].title, here[i].rows);
    }
    say("\nAnswer, for %d ranks on this machine", m->ranks);
    for (int i = 0; i < NUM_NETWORKS; i++) explain_costs(&here[i], &m->of[i]);
    for (int i = 0; i < NUM_NETWORKS; i++) explain_best(&here[i]);
    for (int i = 0; i < NUM_NETWORKS; i++) explain_misses(&here[i]);
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
                    .flags = "",
                    .defaults = default_flags,
                    .parts = check_parts,
                    .passed = "messages are those of all ranks, lines and predictions right",
                    .experiment = experiment,
                    .plot = "exercise_fusion.gp"});
}
