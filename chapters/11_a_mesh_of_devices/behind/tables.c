// tables.c: what the runs on meshes computed and sent, and how long their steps are on other
// machines.
#include "behind.h"

#include "common/book.h"

void print_meshes(const VitRun runs[], int n) {
    printf("\n");
    Table t =
        TABLE(NULL, WORDS("mesh", 19), WHOLE("parameters that differ"),
              FIXED("sent within a network", 2, .unit = "MB"), FIXED("to others", 2, .unit = "MB"));
    for (const VitRun *run = runs; run < runs + n; run++) {
        table_text(&t, "%d x %d%s", run->plan.data, run->plan.tensor,
                   run->plan.sequence ? ", tokens split" : "");
        table_numbers(&t, num_different_numbers(run, runs),
                      (double)(run->sent - run->sent_to_others), (double)run->sent_to_others);
    }
}

void print_resharded(const VitRun runs[], int n) {
    int last = runs->plan.steps - 1;
    char title[48];
    snprintf(title, sizeof title, "loss of step %d", last + 1);
    printf("\n");
    Table t = TABLE(NULL, WORDS("four devices, stopped", 25), DIGITS(title, 6),
                    WHOLE("parameters that differ"));
    for (int r = 0; r < n; r++) {
        if (r == 1) continue;
        if (r == 0)
            table_text(&t, "never");
        else
            table_text(&t, "at step %d, then %d", runs[1].plan.steps, runs[r].plan.tensor);
        table_numbers(&t, runs[r].losses[last], num_different_numbers(&runs[r], runs));
    }
}

// What is exchanged within a network, and computed, cannot overlap; gradients at best do
// completely.
static double seconds_if_hidden(VitPlan plan, double seconds, const Machine *machine) {
    plan.batch_size /= plan.data;
    plan.data = 1;
    double of_one_network = model_step(&plan, machine, false).seconds;
    return fmax(of_one_network, seconds - of_one_network);
}

double print_best_mesh(void) {
    enum { SHAPES = 5, MACHINES = 3, SIZES = 2, WIDE = 1024 };
    static const int shapes[SHAPES][2] = {{1, 1}, {8, 1}, {4, 2}, {2, 4}, {1, 8}};
    static const char *const names[MACHINES] = {"dgx-a100", "rtx4090-pcie", "p100-25gbe"};
    static const int images[SIZES] = {64, 512};
    int best = 0; // of the first row
    printf("\n");
    Table t = TABLE(NULL, WORDS("ms of a step on", 21), WHOLE("images"), FIXED("formula's t", 1),
                    FIXED("1 x 1", 1), FIXED("8 x 1", 1), FIXED("4 x 2", 1), FIXED("2 x 4", 1),
                    FIXED("1 x 8", 1));
    for (int row = 0; row < MACHINES * SIZES; row++) {
        const Machine *machine = machine_find(names[row / SIZES]);
        int n = images[row % SIZES];
        double ms[SHAPES], hidden[SHAPES];
        for (int s = 0; s < SHAPES; s++) {
            VitPlan plan = {
                .data = shapes[s][0], .tensor = shapes[s][1], .width = WIDE, .batch_size = n};
            double seconds = model_step(&plan, machine, false).seconds;
            ms[s] = 1e3 * seconds;
            hidden[s] = 1e3 * seconds_if_hidden(plan, seconds, machine);
            if (row == 0 && s > 0 && (best == 0 || ms[s] < ms[best])) best = s;
        }
        double t_of_formula = sqrt(3.0 * WIDE * 8 / (n * TOKENS));
        table_text(&t, "%s", names[row / SIZES]);
        table_numbers(&t, n, t_of_formula, ms[0], ms[1], ms[2], ms[3], ms[4]);
        table_text(&t, "  gradients hidden");
        table_numbers(&t, n, t_of_formula, hidden[0], hidden[1], hidden[2], hidden[3], hidden[4]);
    }
    return shapes[best][1];
}
