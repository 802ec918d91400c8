// experiment.c: the keys of LeNet and ResNet-18 on 1 to 32 servers, in four ways: what the busiest
// server has, and how long W workers then take to push; and how large pieces should be.
#include "common/base/error.h"
#include "common/model/modelled_clock.h"
#include "common/program/exercise.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "your_part.h"

#include <math.h>

// ## What is modelled
//
// A push of everybody: a worker's link carries all pieces once, a server's W times those that it
// has. All of them have bandwidth B; a message takes its latency besides, which is counted as the
// bytes that could have been sent meanwhile. So with L for the load of all servers together, and l
// for that of the busiest, it takes max(L/B, W l/B) seconds. A pull takes as long.

typedef struct Setting {
    int W;
    double bandwidth; // bytes/s
    size_t overhead;  // bytes, for each message
} Setting;

typedef enum { IN_TURNS, RANGES, LARGEST_FIRST, CUT, NUM_WAYS } Way;
static const char *const way_names[NUM_WAYS] = {"round robin", "ranges of keys", "largest first",
                                                "cut"};

typedef struct Outcome {
    size_t busiest, most; // bytes with overhead; floats of a piece: 0: keys are whole
    int pieces;
    double seconds;
} Outcome;

static double exchange_seconds(const Setting *s, const Loads *l) {
    return fmax((double)l->all, s->W * (double)l->busiest) / s->bandwidth;
}

static size_t load_of(const Setting *s, size_t floats) {
    return floats * sizeof(float) + s->overhead;
}

static Outcome outcome_of(const Setting *s, Way way, const size_t loads[], int n, int S) {
    int server_of[MOST_PIECES];
    if (way == IN_TURNS) round_robin(n, S, server_of);
    if (way == RANGES) ranges_of_keys(n, S, server_of);
    if (way >= LARGEST_FIRST) place_keys(loads, n, S, server_of);
    Loads l = loads_of(loads, n, S, server_of);
    return (Outcome){.busiest = l.busiest, .pieces = n, .seconds = exchange_seconds(s, &l)};
}

// ## Figures

enum { NUM_SERVERS = 13, NUM_SIZES = 11, SIZES_AT = 9 }; // sizes of pieces: on servers[SIZES_AT]
static const int servers[NUM_SERVERS] = {1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32};

typedef struct Figures {
    const char *title;
    int n;
    size_t sizes[MOST_KEYS], loads[MOST_KEYS], all, largest; // floats; bytes with overhead
    Outcome by_servers[NUM_SERVERS][NUM_WAYS];
    Outcome by_size[NUM_SIZES]; // pieces of twice the size each time
} Figures;

static Outcome cut_into(const Setting *s, const Figures *f, int S, size_t most) {
    static Piece pieces[MOST_PIECES];
    size_t loads[MOST_PIECES];
    int n = cut_keys(f->sizes, f->n, most, pieces);
    CHECK(n <= MOST_PIECES, "room for the pieces");
    for (int p = 0; p < n; p++) loads[p] = load_of(s, (size_t)pieces[p].range.count);
    Outcome o = outcome_of(s, CUT, loads, n, S);
    o.most = most;
    return o;
}

static size_t floats_of(const Figures *f) {
    size_t all = 0;
    for (int i = 0; i < f->n; i++) all += f->sizes[i];
    return all;
}

// The best of pieces of 1/16 of what a server would have if all had as much, of 2/16, and so on;
// larger ones, if they do as well: they are fewer.
static Outcome best_cut(const Setting *s, const Figures *f, int S) {
    Outcome best = {.seconds = INFINITY};
    for (int sixteenths = 1; sixteenths <= 64; sixteenths++) {
        size_t most = floats_of(f) * (size_t)sixteenths / (16 * (size_t)S) + 1;
        Outcome o = cut_into(s, f, S, most);
        if (o.seconds <= best.seconds) best = o;
    }
    return best;
}

static void place_network(const Setting *s, const NetworkKind *kind, Figures *f) {
    Module *net = kind->make(10);
    initialize(net, 1);
    f->title = kind->title;
    f->n = sizes_of_keys(net, f->sizes);
    for (int i = 0; i < f->n; i++) {
        f->loads[i] = load_of(s, f->sizes[i]);
        f->all += f->loads[i];
        if (f->loads[i] > f->largest) f->largest = f->loads[i];
    }
    for (int j = 0; j < NUM_SERVERS; j++) {
        for (Way way = IN_TURNS; way < CUT; way++)
            f->by_servers[j][way] = outcome_of(s, way, f->loads, f->n, servers[j]);
        f->by_servers[j][CUT] = best_cut(s, f, servers[j]);
    }
    for (int j = 0; j < NUM_SIZES; j++)
        f->by_size[j] =
            cut_into(s, f, servers[SIZES_AT], (floats_of(f) >> (NUM_SIZES - 1 - j)) + 1);
    module_free(net);
}

static void print_network(const Setting *s, const Figures *f) {
    const Outcome *alone = &f->by_servers[0][IN_TURNS];
    say("\n  %s: %d keys, %.4g MB, the largest %.3g%% of it; ms for a push of %d workers", f->title,
        f->n, 4e-6 * (double)floats_of(f), 100 * (double)f->largest / (double)f->all, s->W);
    Table t = TABLE(NULL, WHOLE("servers"), DIGITS("round robin", 4), DIGITS("ranges of keys", 4),
                    DIGITS("largest first", 4), DIGITS("cut, largest first", 4), WHOLE("pieces"),
                    DIGITS("of at most, MB", 3));
    for (int j = 0; j < NUM_SERVERS; j++) {
        const Outcome *o = f->by_servers[j], *cut = &o[CUT];
        table_numbers(&t, servers[j], 1e3 * o[0].seconds, 1e3 * o[1].seconds, 1e3 * o[2].seconds,
                      1e3 * cut->seconds, cut->pieces, 4e-6 * (double)cut->most);
    }
    say("  no less: %.4g, what a worker needs to send it all; one server %.4g",
        1e3 * (double)f->all / s->bandwidth, 1e3 * alone->seconds);
}

static void write_csv(FILE *csv, const Setting *s, const char *machine, const Figures f[]) {
    fprintf(csv,
            "machine,workers,network,part,way,servers,pieces,piece_kb,busiest_kb,ms,bound_ms\n");
    for (int i = 0; i < NUM_NETWORKS; i++) {
        double bound = 1e3 * (double)f[i].all / s->bandwidth;
        for (int j = 0; j < NUM_SERVERS * NUM_WAYS; j++) {
            const Outcome *o = &f[i].by_servers[j % NUM_SERVERS][j / NUM_SERVERS];
            fprintf(csv, "%s,%d,%s,servers,%s,%d,%d,%.6g,%.6g,%.6g,%.6g\n", machine, s->W,
                    f[i].title, way_names[j / NUM_SERVERS], servers[j % NUM_SERVERS], o->pieces,
                    4e-3 * (double)o->most, 1e-3 * (double)o->busiest, 1e3 * o->seconds, bound);
        }
        for (int j = 0; j < NUM_SIZES; j++) {
            const Outcome *o = &f[i].by_size[j];
            fprintf(csv, "%s,%d,%s,sizes,%s,%d,%d,%.6g,%.6g,%.6g,%.6g\n", machine, s->W, f[i].title,
                    way_names[CUT], servers[SIZES_AT], o->pieces, 4e-3 * (double)o->most,
                    1e-3 * (double)o->busiest, 1e3 * o->seconds, bound);
        }
    }
}

// ## The experiment

static int workers = 16;
static const Flag own_flags[] = {
    {"workers", FLAG_INTEGER, &workers, "W", .help = "use W workers", .least = 1, .most = 32},
    {0},
};

static Setting setting_of(void) {
    const Machine *machine = modelled_machine();
    Link link = machine_route(machine, 0, machine->devices).link;
    return (Setting){.W = workers,
                     .bandwidth = link.bandwidth,
                     .overhead = (size_t)(link.latency * link.bandwidth)};
}

static void experiment(const Flags *flags, FILE *csv) {
    (void)flags;
    static Figures f[NUM_NETWORKS];
    Setting s = setting_of();
    const char *machine = modelled_machine()->name;
    say("Question: which server should have which keys, and is it worth cutting them?");
    say("%d workers, links of %s: %.4g MB/s, and %.3g us for each message, in which %.3g kB could "
        "have been sent. Times are modelled, in milliseconds, of a push of all workers.",
        s.W, machine, 1e-6 * s.bandwidth, 1e6 * (double)s.overhead / s.bandwidth,
        1e-3 * (double)s.overhead);
    Prediction turns = predict_first(
        "ResNet-18's tensors, whole, are given to 16 servers in turns. How many times as much as "
        "the mean does the busiest server have?");
    for (int i = 0; i < NUM_NETWORKS; i++) {
        place_network(&s, &networks[i], &f[i]);
        print_network(&s, &f[i]);
    }
    predict_compare(turns,
                    (double)f[1].by_servers[SIZES_AT][IN_TURNS].busiest * servers[SIZES_AT] /
                        (double)f[1].all,
                    "times the mean");
    write_csv(csv, &s, machine, f);
}

static void prepare(const Flags *flags) {
    (void)flags;
    const Machine *machine = modelled_machine();
    if (!machine || machine->cards == 0)
        die_usage("--machine cluster-10gbe, say", "servers need a machine that has a network");
    if (workers < 2) die_usage("--workers 2 or more", "one worker needs no servers");
}

int main(int argc, char *argv[]) {
    Flags defaults = default_flags;
    defaults.machine = "cluster-10gbe";
    defaults.own = own_flags;
    return exercise_main(
        argc, argv,
        &(Exercise){.about = "Exercise 1: which server has which keys?",
                    .flags = "",
                    .defaults = defaults,
                    .prepare = prepare,
                    .parts = check_parts,
                    .passed = "each key is on one server, the busiest has no more than the bound, "
                              "and pieces are what keys were",
                    .experiment = experiment,
                    .plot = "exercise_keys.gp"});
}
