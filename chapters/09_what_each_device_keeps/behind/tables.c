// tables.c: what each device keeps and sends.
#include "behind.h"

#include "common/book.h"

static double mb(size_t bytes) { return (double)bytes / 1e6; }

void print_where_memory_goes(const ZeroRun *t) {
    const ZeroMemory *m = &t->memory;
    size_t n = t->num_values;
    printf("\n");
    Table table = TABLE(NULL, WORDS("one device, MB", 14), FIXED("counted", 1), FIXED("formula", 1),
                        WORDS("bytes a parameter", 17));
    table_text(&table, "parameters");
    table_numbers(&table, mb(m->parameters), mb(4 * n));
    table_text(&table, "4");
    table_text(&table, "gradients");
    table_numbers(&table, mb(m->gradients), mb(4 * n));
    table_text(&table, "4");
    table_text(&table, "moments");
    table_numbers(&table, mb(m->moments), mb(8 * n));
    table_text(&table, "8");
    table_text(&table, "activations");
    table_numbers(&table, mb(t->activations), NAN);
    table_text(&table, "");
    table_text(&table, "all");
    table_numbers(&table, mb(t->peak), NAN);
    table_text(&table, "");
}

void print_stages(const ZeroRun *const trainings[], int n, const ZeroRun *ddp) {
    char title[32];
    snprintf(title, sizeof title, "%d devices, MB", ddp->k);
    printf("\n");
    Table table = TABLE(NULL, WORDS(title, 13), FIXED("parameters", 1), FIXED("gradients", 1),
                        FIXED("moments", 1), FIXED("passing", 1), FIXED("activations", 1),
                        FIXED("all", 1), FIXED("sent", 1), WHOLE("differ"));
    for (const ZeroRun *const *each = trainings; each < trainings + n; each++) {
        const ZeroRun *t = *each;
        const ZeroMemory *m = &t->memory;
        table_text(&table, "%s", stage_names[t->stage]);
        table_numbers(&table, mb(m->parameters), mb(m->gradients), mb(m->moments), mb(m->passing),
                      mb(t->activations), mb(t->peak), mb(t->sent),
                      t == ddp ? NAN : num_different(t, ddp));
    }
}

void print_losses(const ZeroRun *ddp, const ZeroRun *limited, double limit) {
    char title[48];
    snprintf(title, sizeof title, "%s, %.0f MB", stage_names[limited->stage], limit / 1e6);
    printf("\n");
    Table table = TABLE(NULL, WORDS("step", 16), DIGITS("DDP, no limit", 9), DIGITS(title, 9));
    for (int s = 0; s < NUM_STEPS; s++) {
        table_text(&table, "%d", s + 1);
        table_numbers(&table, ddp->losses[s], limited->losses[s]);
    }
    table_text(&table, "parameters");
    table_numbers(&table, (double)ddp->num_values, (double)limited->num_values);
    table_text(&table, "that differ");
    table_numbers(&table, NAN, num_different(ddp, limited));
}

double print_machines(int rows) {
    enum { K = 8, MACHINES = 2 };
    const Machine *machines[MACHINES] = {NULL};
    double seconds[NUM_STAGES][MACHINES];
    char title[48];
    if (modelled_machine()) {
        machines[0] = machine_find("dgx-a100");
        machines[1] = machine_find("cluster-10gbe");
    }
    snprintf(title, sizeof title, "%d devices, %d images each", K, rows);
    printf("\n");
    Table table =
        TABLE(NULL, WORDS(title, 25), FIXED("memory", 1, .unit = "MB"),
              FIXED("sent", 1, .unit = "MB"), FIXED("dgx-a100", 1, .unit = "ms", .modelled = true),
              FIXED("cluster-10gbe", 1, .unit = "ms", .modelled = true));
    for (Stage stage = STAGE_DDP; stage < NUM_STAGES; stage++) {
        ZeroRun t;
        for (int m = 0; m < MACHINES; m++) {
            t = model(stage, K, rows, machines[m]);
            seconds[stage][m] = t.seconds;
            zero_run_free(&t);
        }
        table_text(&table, "%s", stage_names[stage]);
        table_numbers(&table, (double)t.peak, (double)t.sent, seconds[stage][0], seconds[stage][1]);
    }
    return seconds[ZERO_3][1] / seconds[STAGE_DDP][1];
}
