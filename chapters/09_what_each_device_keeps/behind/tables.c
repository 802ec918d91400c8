// tables.c: what each device keeps and sends.
#include "behind.h"

#include "common/book.h"

static double mb(size_t bytes) { return (double)bytes / 1e6; }

// A row of numbers, the last one of which may be missing (NAN).
static void add_part(Table *t, const char *name, size_t counted, double formula, const char *each) {
    table_text(t, "%s", name);
    table_numbers(t, mb(counted), formula / 1e6);
    table_text(t, "%s", each);
}

void print_one_device(const ZeroRun *run) {
    const ZeroMemory *m = &run->memory;
    double n = (double)run->num_values;
    printf("\n");
    Table t = TABLE(NULL, WORDS("one device, MB", 14), FIXED("counted", 1), FIXED("formula", 1),
                    WORDS("bytes per parameter", 19));
    add_part(&t, "parameters", m->parameters, 4 * n, "4");
    add_part(&t, "gradients", m->gradients, 4 * n, "4");
    add_part(&t, "moments", m->moments, 8 * n, "8");
    add_part(&t, "activations", run->activations, NAN, "-");
    add_part(&t, "all", run->peak, NAN, "-");
}

void print_zero1(const ZeroRun runs[]) {
    const ZeroMemory *ddp = &runs[STAGE_DDP].memory, *m = &runs[ZERO_1].memory;
    printf("\n");
    say("ZeRO-1 keeps %.1f + %.1f + %.1f = %.1f MB, where DDP keeps %.1f MB.", mb(m->parameters),
        mb(m->gradients), mb(m->moments), mb(m->parameters + m->gradients + m->moments),
        mb(ddp->parameters + ddp->gradients + ddp->moments));
}

void print_stages(const ZeroRun runs[]) {
    char title[32];
    snprintf(title, sizeof title, "%d devices, MB", runs->plan.k);
    printf("\n");
    Table t = TABLE(NULL, WORDS(title, 13), FIXED("parameters", 1), FIXED("gradients", 1),
                    FIXED("moments", 1), FIXED("temporary", 1), FIXED("all", 1),
                    WORDS("exchanges", 9), FIXED("sent", 1), WHOLE("differ"));
    for (const ZeroRun *run = runs; run < runs + NUM_STAGES; run++) {
        const ZeroMemory *m = &run->memory;
        table_text(&t, "%s", zero_stages[run->plan.stage].name);
        table_numbers(&t, mb(m->parameters), mb(m->gradients), mb(m->moments), mb(m->temporary),
                      mb(run->peak));
        table_text(&t, run->plan.stage == ZERO_3 ? "G + G + R" : "R + G");
        table_numbers(&t, mb(run->sent), run == runs ? NAN : num_different(run, runs));
    }
}

void print_losses(const ZeroRun *ddp, const ZeroRun *limited, double limit) {
    char title[48];
    snprintf(title, sizeof title, "%s, %.0f MB", zero_stages[limited->plan.stage].name,
             limit / 1e6);
    printf("\n");
    Table t = TABLE(NULL, WORDS("loss of step", 12), DIGITS("DDP, no limit", 9), DIGITS(title, 9),
                    WHOLE("parameters that differ"));
    for (int s = 0; s < NUM_STEPS; s++) {
        table_text(&t, "%d", s + 1);
        table_numbers(&t, ddp->losses[s], limited->losses[s],
                      s < NUM_STEPS - 1 ? NAN : num_different(limited, ddp));
    }
}

static void print_memory(const ZeroRun *run) {
    const ZeroMemory *m = &run->memory;
    char title[32];
    snprintf(title, sizeof title, "%d devices, MB", run->plan.k);
    printf("\n");
    Table t = TABLE(NULL, WORDS(title, run->plan.recompute ? 18 : 13), FIXED("parameters", 1),
                    FIXED("gradients", 1), FIXED("moments", 1), FIXED("temporary", 1),
                    FIXED("activations", 1), FIXED("all", 1), FIXED("sent", 1));
    table_text(&t, "%s%s", zero_stages[run->plan.stage].name,
               run->plan.recompute ? ", recomputed" : "");
    table_numbers(&t, mb(m->parameters), mb(m->gradients), mb(m->moments), mb(m->temporary),
                  mb(run->activations), mb(run->peak), mb(run->sent));
}

void print_one_run(const ZeroRun *run) {
    print_memory(run);
    printf("\n");
    Table t = TABLE(NULL, WORDS("loss of step", 12), DIGITS("loss", 9));
    for (int s = 0; s < run->plan.steps; s++) {
        table_text(&t, "%d", run->first_step + s + 1);
        table_numbers(&t, run->losses[s]);
    }
}

void print_recomputed(const ZeroRun *without, const ZeroRun *with, int batch_size) {
    char title[48];
    snprintf(title, sizeof title, "%d devices, %d images", with->plan.k, batch_size);
    printf("\n");
    Table t = TABLE(NULL, WORDS(title, 21), FIXED("activations", 1, .unit = "MB"),
                    FIXED("all", 1, .unit = "MB"), WHOLE("parameters that differ"));
    table_text(&t, "%s", zero_stages[without->plan.stage].name);
    table_numbers(&t, (double)without->activations, (double)without->peak, NAN);
    table_text(&t, "with recomputation");
    table_numbers(&t, (double)with->activations, (double)with->peak, num_different(with, without));
}

void print_resumed(const ZeroRun *never_stopped, const ZeroRun *stopped, const ZeroRun resumed[],
                   int n) {
    printf("\n");
    Table t = TABLE(NULL, WORDS("continued on", 12), WHOLE("differ after loading"),
                    DIGITS("loss of step 5", 9), WHOLE("differ after step 5"));
    for (const ZeroRun *run = resumed; run < resumed + n; run++) {
        table_text(&t, "%d device%s", run->plan.k, run->plan.k == 1 ? "" : "s");
        table_numbers(&t, num_different_after_loading(run, stopped), run->losses[1],
                      num_different(run, never_stopped));
    }
}

// One stage on each of two machines.
typedef struct Costs {
    double memory, sent, seconds[2]; // [machine]
} Costs;

static Costs costs_of(const Plan *plan, int rows, const Machine *const machines[2]) {
    Costs costs = {.sent = 0};
    for (int m = 0; m < 2; m++) {
        ZeroRun run = model_stage(plan, rows, machines[m], false);
        costs.memory = (double)run.peak;
        costs.sent = (double)run.sent;
        costs.seconds[m] = run.seconds;
        zero_run_free(&run);
    }
    return costs;
}

double print_machines(int rows) {
    enum { K = 8 };
    const Machine *machines[2] = {NULL};
    double seconds[2][NUM_STAGES] = {0}; // [recompute][stage]
    if (modelled_machine()) {
        machines[0] = machine_find("dgx-a100");
        machines[1] = machine_find("cluster-10gbe");
    }
    printf("\n");
    Table t = TABLE(NULL, WORDS("8 devices", 21), FIXED("sent", 1, .unit = "MB"),
                    FIXED("memory", 1, .unit = "MB"),
                    FIXED("dgx-a100", 1, .unit = "ms", .modelled = true),
                    FIXED("cluster-10gbe", 1, .unit = "ms", .modelled = true));
    for (int recompute = 0; recompute < 2; recompute++)
        for (Stage stage = STAGE_DDP; stage < NUM_STAGES; stage++) {
            Plan plan = {.stage = stage, .k = K, .recompute = recompute};
            Costs c = costs_of(&plan, rows, machines);
            seconds[recompute][stage] = c.seconds[1];
            table_text(&t, "%s%s", zero_stages[stage].name, recompute ? ", recomputation" : "");
            table_numbers(&t, c.sent, c.memory, c.seconds[0], c.seconds[1]);
        }
    return seconds[0][ZERO_3] / seconds[0][STAGE_DDP];
}
