// experiment.c: keys on 1 to 32 servers, placed in four ways: how long W workers then take to push.
#include "common/base/error.h"
#include "common/base/range.h"
#include "common/model/modelled_clock.h"
#include "common/program/exercise.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "chapters/06_data_parallel_and_ddp/networks.h"

enum { MOST_PIECES = 2048, MOST_SERVERS = 32 };
static FILE *csv;
static int workers;
static double bandwidth; // of all links, in bytes/s
static size_t overhead;  // of a message: the bytes that could have been sent in its latency
typedef enum { IN_TURNS, RANGES, LARGEST_FIRST, CUT, NUM_WAYS } Way;
static const char *const way_names[] = {"round robin", "ranges of keys", "largest first", "cut"};

// What pieces of at most `most` floats are to their servers: bytes, with a message's overhead. They
// are as few and as equal as can be. Returns how many.
static int cut_keys(const Module *net, size_t most, size_t loads[]) {
    Parameters all = parameters_of(net);
    int n = 0;
    for (int i = 0; i < all.n; i++) {
        size_t floats = numel(all.list[i]->start);
        int parts = (int)((floats + most - 1) / most);
        if (!all.list[i]->trained) continue; // running statistics stay with the workers
        CHECK(n + parts <= MOST_PIECES, "room for the pieces");
        for (int p = 0; p < parts; p++)
            loads[n++] = 4 * (size_t)equal_range((long)floats, parts, p).count + overhead;
    }
    return n;
}

// The largest goes first, to the server that has least by then; and so on. The busiest server has
// at most 4/3 - 1/(3S) times the least that it could have (Graham, 1969).
static void largest_first(const size_t loads[], int n, int S, size_t has[]) {
    bool placed[MOST_PIECES] = {false};
    for (int i = 0; i < n; i++) {
        int largest = -1, least = 0;
        for (int j = 0; j < n; j++)
            if (!placed[j] && (largest < 0 || loads[j] > loads[largest])) largest = j;
        for (int s = 1; s < S; s++)
            if (has[s] < has[least]) least = s;
        placed[largest] = true;
        has[least] += loads[largest];
    }
}

// A push of everybody: a worker's link carries all pieces once, a server's W times those that it
// has. The one that takes longer is the time. A pull takes as long.
typedef struct Outcome {
    int S, pieces;
    size_t most, busiest, all; // floats of a piece; bytes with overhead
    double seconds;
} Outcome;

static Outcome place(const Module *net, Way way, size_t most, int S) {
    size_t loads[MOST_PIECES], has[MOST_SERVERS] = {0};
    Outcome o = {.S = S, .pieces = cut_keys(net, most, loads), .most = most};
    if (way >= LARGEST_FIRST) largest_first(loads, o.pieces, S, has);
    for (int s = 0; s < S; s++) {
        Range keys = equal_range(o.pieces, S, s);
        for (long i = 0; way < LARGEST_FIRST && i < keys.count; i++)
            has[s] += loads[way == RANGES ? keys.first + i : s + i * S];
        if (has[s] > o.busiest) o.busiest = has[s];
        o.all += has[s];
    }
    size_t its_link = (size_t)workers * o.busiest;
    o.seconds = (double)(its_link > o.all ? its_link : o.all) / bandwidth;
    return o;
}

// Whole keys; or the best of pieces of 1/16 of what a server would have if all had as much, of
// 2/16, and so on; larger ones, if they do as well: they are fewer.
static Outcome best_of(const Module *net, Way way, size_t floats, int S) {
    Outcome best = place(net, way, floats, S);
    for (size_t sixteenths = 1; way == CUT && sixteenths <= 64; sixteenths++) {
        Outcome o = place(net, CUT, floats * sixteenths / (16 * (size_t)S) + 1, S);
        if (o.seconds <= best.seconds) best = o;
    }
    return best;
}

static void write_row(const char *network, const char *part, Way way, Outcome o, size_t all) {
    fprintf(csv, "%s,%d,%s,%s,%s,%d,%d,%.6g,%.6g,%.6g,%.6g\n", modelled_machine()->name, workers,
            network, part, way_names[way], o.S, o.pieces, way < CUT ? 0 : 4e-3 * (double)o.most,
            1e-3 * (double)o.busiest, 1e3 * o.seconds, 1e3 * (double)all / bandwidth);
}

// Returns how many times the mean the busiest of 16 servers has if keys are placed in turns.
static double try_network(const NetworkKind *kind) {
    static const int servers[] = {1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32};
    Module *net = kind->make(10);
    initialize(net, 1);
    Outcome turns = place(net, IN_TURNS, SIZE_MAX / 2, 16);
    size_t floats = (turns.all - (size_t)turns.pieces * overhead) / 4;
    say("\n  %s: %d keys, %.4g MB; ms for a push of all workers", kind->title, turns.pieces,
        4e-6 * (double)floats);
    Table t = TABLE(NULL, WHOLE("servers"), DIGITS("round robin", 4), DIGITS("ranges of keys", 4),
                    DIGITS("largest first", 4), DIGITS("cut, largest first", 4), WHOLE("pieces"),
                    DIGITS("of at most, MB", 3));
    for (size_t j = 0; j < sizeof servers / sizeof *servers; j++) {
        table_numbers(&t, servers[j]);
        for (Way way = IN_TURNS; way < NUM_WAYS; way++) {
            Outcome o = best_of(net, way, floats, servers[j]);
            table_numbers(&t, 1e3 * o.seconds);
            if (way == CUT) table_numbers(&t, o.pieces, 4e-6 * (double)o.most);
            write_row(kind->title, "servers", way, o, turns.all);
        }
    }
    for (int h = 10; h >= 0; h--) // pieces of twice the size each time
        write_row(kind->title, "sizes", CUT, place(net, CUT, (floats >> h) + 1, 16), turns.all);
    module_free(net);
    return (double)turns.busiest * 16 / (double)turns.all;
}

static void experiment(const Flags *flags, FILE *file) {
    (void)flags;
    const Machine *machine = modelled_machine();
    Link link = machine_route(machine, 0, machine->devices).link;
    double times = 0;
    csv = file, bandwidth = link.bandwidth, overhead = (size_t)(link.latency * bandwidth);
    say("%d workers, links of %s: %.4g MB/s, and %.3g us for each message, in which %.3g kB could "
        "have been sent. Times are modelled.",
        workers, machine->name, 1e-6 * bandwidth, 1e6 * link.latency, 1e-3 * (double)overhead);
    Prediction turns = predict_first("ResNet-18's tensors are given to 16 servers in turns. How "
                                     "many times the mean does the busiest server have?");
    fputs("machine,workers,network,part,way,servers,pieces,piece_kb,busiest_kb,ms,bound_ms\n", csv);
    for (int i = 0; i < NUM_NETWORKS; i++) times = try_network(&networks[i]);
    predict_compare(turns, times, "times the mean");
}

static void prepare(const Flags *flags) {
    (void)flags;
    if (!modelled_machine() || modelled_machine()->cards == 0)
        die_usage("--machine cluster-10gbe, say", "servers need a machine that has a network");
}

int main(int argc, char *argv[]) {
    static const Flag own_flags[] = {{"workers", FLAG_INTEGER, &workers, "W", "use W workers",
                                      .least = 2, .most = 32, .standard = "16"},
                                     {0}};
    return exercise_main(argc, argv,
                         &(Exercise){"Exercise 1: which server has which keys?",
                                     "machine=cluster-10gbe", .prepare = prepare,
                                     .experiment = experiment, .plot = "exercise_keys.gp",
                                     .program.own = own_flags});
}
