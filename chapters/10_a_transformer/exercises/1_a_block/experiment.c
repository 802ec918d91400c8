// experiment.c: how long your block takes on 1 to 16 devices of two machines, with few and many
// tokens, narrow and wide, without sequence parallelism and with it. All times are modelled.
#include "common/program/exercise.h"
#include "common/program/modelled_run.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "your_part.h"

#include <math.h>
#include <string.h>

enum { MOST_MACHINES = 3, NUM_TOKENS = 3, NUM_WIDTHS = 3, NUM_TS = 5, HEAD = 64 };
static const char *machines[MOST_MACHINES] = {"dgx-a100", "cluster-10gbe"};
static int num_machines = 2; // --machine adds one
static const int all_tokens[NUM_TOKENS] = {128, 512, 2048}, widths[NUM_WIDTHS] = {1024, 2048, 4096};
static const int ts[NUM_TS] = {1, 2, 4, 8, 16};

// A forward and a backward pass.
typedef struct Run {
    double seconds, sent, kept; // sent: bytes, by device 0; kept: bytes between the passes
} Run;

static Run model(const Machine *machine, Sizes sizes, int t, bool sequence) {
    ModelledRun run = {.machine = machine, .k = t, .warm_up = 1, .ranks = true};
    Run r = {0};
    modelled_begin(&run);
    Block *b = block_new(sizes, t, sequence, run.devices, 0);
    while (modelled_run(&run)) {
        ledger_reset();
        block_forward(b);
        r.kept = (double)(tokens_on(b, 0) * sizeof(float));
        block_backward(b);
        r.sent = 0;
        for (int j = 1; j < t; j++) r.sent += (double)ledger_bytes(b->devices[0], b->devices[j]);
    }
    block_free(b);
    modelled_end(&run);
    r.seconds = run.seconds;
    return r;
}

static void add_rows(Table *t, FILE *csv, const Machine *machine, Sizes sizes) {
    for (int sequence = 0; sequence < 2; sequence++) {
        table_numbers(t, sizes.tokens, sizes.d);
        table_text(t, sequence ? "yes" : "no");
        for (int n = 0; n < NUM_TS; n++) {
            if (!machine_has_devices(machine, ts[n])) {
                table_numbers(t, NAN);
                continue;
            }
            Run r = model(machine, sizes, ts[n], sequence);
            table_numbers(t, 1e3 * r.seconds);
            fprintf(csv, "%s,%d,%d,%s,%d,%.9g,%.0f,%.0f\n", machine->name, sizes.tokens, sizes.d,
                    sequence ? "yes" : "no", ts[n], r.seconds, r.sent, r.kept);
        }
    }
}

static void experiment(const Flags *flags, FILE *csv) {
    if (strcmp(flags->machine, "none") != 0) machines[num_machines++] = flags->machine;
    fprintf(csv, "machine,tokens,width,sequence,devices,seconds,sent,kept\n");
    for (int m = 0; m < num_machines; m++) {
        const Machine *machine = machine_find(machines[m]);
        say("%sOne block, forward and backward, modelled on %s, in ms; without sequence "
            "parallelism and with it.",
            m > 0 ? "\n" : "", machine->name);
        Table t = TABLE(NULL, WHOLE("tokens"), WHOLE("width"), WORDS("sequence", 8),
                        {"t = %d", .digits = 3, .count = NUM_TS, .of = ts});
        for (int w = 0; w < NUM_WIDTHS; w++)
            for (int n = 0; n < NUM_TOKENS; n++)
                add_rows(&t, csv, machine, (Sizes){all_tokens[n], widths[w], widths[w] / HEAD});
    }
}

int main(int argc, char *argv[]) {
    return exercise_main(argc, argv,
                         &(Exercise){.about = "Exercise 1: one transformer block on t devices.",
                                     .flags = "machine=none",
                                     .experiment = experiment,
                                     .plot = "exercise_block.gp"});
}
