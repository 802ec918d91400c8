// experiment.c: LeNet's and ResNet-18's gradients, exchanged by the chapter's fusion.c with
// thresholds from 0 to 128 MiB: measured on ranks of this machine and predicted (exchange_times.c),
// and modelled on Horovod's machines (p100-25gbe: 4 GPUs each, 25 Gb/s between them).
#include "common/base/platform.h"
#include "common/model/many_ranks.h"
#include "common/program/exercise.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "chapters/08_many_machines/exercises/start_ranks.h"
#include "chapters/08_many_machines/ranks.h"
#include "exchange_times.h"

#include <stdlib.h>
#include <string.h>

static void measure(FILE *csv, int ranks) {
    static char said[SAID_BYTES];
    if (!dist_is_mpi_available() || system("command -v mpirun >/dev/null 2>&1") != 0) {
        say("Left out: there is no MPI to start ranks with: make setup installs it.\n");
    } else if (run_as_ranks(ranks, "measure", said, sizeof said, 300) != EXIT_SUCCESS) {
        fputs(said, stderr);
        say("Left out: the ranks did not come to an end.\n");
    } else {
        for (char *rest = said, *line; (line = strsep(&rest, "\n"));)
            fprintf(strncmp(line, "measured,", 9) == 0 ? csv : stdout, "%s\n", line);
    }
}

enum { NUM_WORLDS = 3 };
static const int worlds[NUM_WORLDS] = {16, 128, 512};

// By the chapter's ring, all gradients ready at once. Copies read and write the GPU's own memory.
// What talking takes is left out: it is the same for all thresholds.
static double modelled_ms(const Machine *m, int ranks, const Message messages[], int n) {
    double seconds = copy_seconds(messages, n, (Line){m->kernel, 2 / m->memory_bandwidth});
    for (int i = 0; i < n; i++)
        seconds += ring_seconds(m, ranks, 1, m->devices, (double)messages[i].bytes);
    return 1e3 * seconds;
}

// Returns how many times as long gradients take on the most ranks if each goes alone.
static double model_network(FILE *csv, const Machine *machine, const NetworkKind *kind) {
    double alone = 0, ms = 0;
    Message messages[MOST_MESSAGES];
    Module *net = kind->make(10);
    initialize(net, 1);
    say("\n  %s: exchange in ms", kind->title);
    Table t = TABLE(NULL, {"threshold", .bytes = true}, WHOLE("messages"),
                    DIGITS("%d ranks", 4, .count = NUM_WORLDS, .of = worlds));
    for (int i = 0; i < NUM_THRESHOLDS; i++) {
        int n = fuse(net, thresholds[i], messages);
        table_numbers(&t, (double)thresholds[i], n);
        for (int w = 0; w < NUM_WORLDS; w++) {
            ms = modelled_ms(machine, worlds[w], messages, n);
            table_numbers(&t, ms);
            fprintf(csv, "modelled,%d,%s,%zu,%d,,%.6g,,\n", worlds[w], kind->title, thresholds[i],
                    n, ms);
        }
        if (thresholds[i] == 0) alone = ms;
    }
    module_free(net);
    return alone / ms;
}

static void experiment(const Flags *flags, FILE *csv) {
    const Machine *machine = machine_find("p100-25gbe");
    int ranks = num_cores() >= 4 ? 4 : 2;
    double times = 0;
    (void)flags;
    Prediction alone = predict_first(
        "ResNet-18 has 76 gradients. On 512 ranks in one ring, how many times as long as one "
        "message with all of them do messages of one gradient each take?");
    fprintf(csv, "part,ranks,network,threshold,messages,predicted_ms,ms,low_ms,high_ms\n");
    say("Measured: %d ranks on %d core%s of this machine, sums by ring, all gradients ready at "
        "once, rounds in turns.",
        ranks, num_cores(), num_cores() > 1 ? "s" : "");
    measure(csv, ranks);
    say("Modelled: one ring of many ranks on %s (%s).", machine->name, machine->about);
    for (int i = 0; i < NUM_NETWORKS; i++) times = model_network(csv, machine, &networks[i]);
    predict_compare(alone, times, "times as long");
}

int main(int argc, char *argv[]) {
    if (case_of(argc, argv)) return measure_as_rank();
    return exercise_main(
        argc, argv,
        &(Exercise){.about = "Exercise 3: how large should fused messages be?\nStarted by hand, it "
                             "starts ranks of its own to measure with.",
                    .flags = "",
                    .experiment = experiment,
                    .plot = "exercise_fusion.gp"});
}
