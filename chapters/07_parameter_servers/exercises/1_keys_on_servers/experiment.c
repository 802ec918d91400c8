// experiment.c: keys on 1 to 32 servers, in four ways: how long W workers then take to push.
#include "common/base/error.h"
#include "common/model/modelled_clock.h"
#include "common/program/exercise.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "your_part.h"

#include <math.h>

// A push of everybody: a worker's link carries all pieces once, a server's W times those that it
// has. All have bandwidth B; a message takes its latency besides, counted as the bytes that could
// have been sent meanwhile. With L for the load of all servers and l for that of the busiest, it
// takes max(L/B, W l/B) seconds. A pull takes as long.
typedef struct Setting {
    int W;
    double bandwidth; // bytes/s
    size_t overhead;  // bytes, for each message
} Setting;

typedef struct NetworkKeys {
    const char *title;
    int n;
    size_t sizes[MOST_KEYS], floats; // of all keys, too
    size_t loads[MOST_KEYS], all;    // the same in bytes with overhead
} NetworkKeys;

typedef enum { IN_TURNS, RANGES, LARGEST_FIRST, CUT, NUM_WAYS } Way;
static const char *const way_names[] = {"round robin", "ranges of keys", "largest first", "cut"};

typedef struct Outcome {
    int S, pieces;
    size_t busiest, most; // bytes with overhead; floats of a piece, 0: keys are whole
    double seconds;
} Outcome;

static Outcome outcome_of(const Setting *s, Way way, size_t most, const size_t loads[], int n,
                          int S) {
    int server_of[MOST_PIECES];
    if (way == IN_TURNS) round_robin(n, S, server_of);
    if (way == RANGES) ranges_of_keys(n, S, server_of);
    if (way >= LARGEST_FIRST) place_keys(loads, n, S, server_of);
    Loads l = loads_of(loads, n, S, server_of);
    return (Outcome){S, n, l.busiest, most,
                     fmax((double)l.all, s->W * (double)l.busiest) / s->bandwidth};
}

static Outcome cut_into(const Setting *s, const NetworkKeys *net, int S, size_t most) {
    static Piece pieces[MOST_PIECES];
    size_t loads[MOST_PIECES];
    int n = cut_keys(net->sizes, net->n, most, pieces);
    CHECK(n <= MOST_PIECES, "room for the pieces");
    for (int p = 0; p < n; p++) loads[p] = 4 * (size_t)pieces[p].range.count + s->overhead;
    return outcome_of(s, CUT, most, loads, n, S);
}

// The best of pieces of 1/16 of what a server would have if all had as much, of 2/16, and so on;
// larger ones, if they do as well: they are fewer.
static Outcome best_cut(const Setting *s, const NetworkKeys *net, int S) {
    Outcome best = {.seconds = INFINITY};
    for (int sixteenths = 1; sixteenths <= 64; sixteenths++) {
        size_t most = net->floats * (size_t)sixteenths / (16 * (size_t)S) + 1;
        Outcome o = cut_into(s, net, S, most);
        if (o.seconds <= best.seconds) best = o;
    }
    return best;
}

static void read_keys(const Setting *s, const NetworkKind *kind, NetworkKeys *net) {
    Module *module = kind->make(10);
    initialize(module, 1);
    net->title = kind->title;
    net->n = sizes_of_keys(module, net->sizes);
    for (int i = 0; i < net->n; i++) {
        net->loads[i] = 4 * net->sizes[i] + s->overhead;
        net->floats += net->sizes[i];
        net->all += net->loads[i];
    }
    module_free(module);
}

static void write_row(FILE *csv, const Setting *s, const NetworkKeys *net, const char *part,
                      Way way, Outcome o) {
    fprintf(csv, "%s,%d,%s,%s,%s,%d,%d,%.6g,%.6g,%.6g,%.6g\n", modelled_machine()->name, s->W,
            net->title, part, way_names[way], o.S, o.pieces, 4e-3 * (double)o.most,
            1e-3 * (double)o.busiest, 1e3 * o.seconds, 1e3 * (double)net->all / s->bandwidth);
}

static void try_network(FILE *csv, const Setting *s, const NetworkKind *kind, NetworkKeys *net) {
    static const int servers[] = {1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32};
    read_keys(s, kind, net);
    say("\n  %s: %d keys, %.4g MB; ms for a push of %d workers", net->title, net->n,
        4e-6 * (double)net->floats, s->W);
    Table t = TABLE(NULL, WHOLE("servers"), DIGITS("round robin", 4), DIGITS("ranges of keys", 4),
                    DIGITS("largest first", 4), DIGITS("cut, largest first", 4), WHOLE("pieces"),
                    DIGITS("of at most, MB", 3));
    for (size_t j = 0; j < sizeof servers / sizeof *servers; j++) {
        table_numbers(&t, servers[j]);
        for (Way way = IN_TURNS; way < NUM_WAYS; way++) {
            Outcome o = way < CUT ? outcome_of(s, way, 0, net->loads, net->n, servers[j])
                                  : best_cut(s, net, servers[j]);
            table_numbers(&t, 1e3 * o.seconds);
            if (way == CUT) table_numbers(&t, o.pieces, 4e-6 * (double)o.most);
            write_row(csv, s, net, "servers", way, o);
        }
    }
    for (int halved = 10; halved >= 0; halved--) // pieces of twice the size each time
        write_row(csv, s, net, "sizes", CUT, cut_into(s, net, 16, (net->floats >> halved) + 1));
}

static int workers = 16;
static void experiment(const Flags *flags, FILE *csv) {
    (void)flags;
    const Machine *machine = modelled_machine();
    Link link = machine_route(machine, 0, machine->devices).link;
    Setting s = {workers, link.bandwidth, (size_t)(link.latency * link.bandwidth)};
    NetworkKeys nets[NUM_NETWORKS] = {0};
    say("Question: which server should have which keys, and is it worth cutting them?\n"
        "%d workers, links of %s: %.4g MB/s, and %.3g us for each message, in which %.3g kB could "
        "have been sent. Times are modelled, in milliseconds, of a push of all workers.",
        s.W, machine->name, 1e-6 * s.bandwidth, 1e6 * link.latency, 1e-3 * (double)s.overhead);
    Prediction turns = predict_first("ResNet-18's tensors are given to 16 servers in turns. How "
                                     "many times the mean does the busiest server have?");
    fputs("machine,workers,network,part,way,servers,pieces,piece_kb,busiest_kb,ms,bound_ms\n", csv);
    for (int i = 0; i < NUM_NETWORKS; i++) try_network(csv, &s, &networks[i], &nets[i]);
    Outcome o = outcome_of(&s, IN_TURNS, 0, nets[1].loads, nets[1].n, 16);
    predict_compare(turns, (double)o.busiest * 16 / (double)nets[1].all, "times the mean");
}

static void prepare(const Flags *flags) {
    (void)flags;
    if (!modelled_machine() || modelled_machine()->cards == 0)
        die_usage("--machine cluster-10gbe, say", "servers need a machine that has a network");
}

int main(int argc, char *argv[]) {
    static const Flag own_flags[] = {
        {"workers", FLAG_INTEGER, &workers, "W", .help = "use W workers", .least = 2, .most = 32},
        {0}};
    Exercise exercise = {.about = "Exercise 1: which server has which keys?",
                         .flags = "",
                         .defaults = default_flags,
                         .prepare = prepare,
                         .experiment = experiment,
                         .plot = "exercise_keys.gp"};
    exercise.defaults.machine = "cluster-10gbe";
    exercise.defaults.own = own_flags;
    return exercise_main(argc, argv, &exercise);
}
