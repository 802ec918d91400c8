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

// ---- on other machines ----------------------------------------------------------------------------

enum { SHAPES = 5, SIZES = 2, WIDE = 1024 };
static const int shapes[SHAPES][2] = {{1, 1}, {8, 1}, {4, 2}, {2, 4}, {1, 8}};
static const int images_of[SIZES] = {64, 512};

#define MESH_TABLE()                                                                               \
    TABLE(NULL, WORDS("ms of a step on", 19), WHOLE("images"), FIXED("formula's t", 1),            \
          FIXED("1 x 1", 1), FIXED("8 x 1", 1), FIXED("4 x 2", 1), FIXED("2 x 4", 1),              \
          FIXED("1 x 8", 1))

static void add_row(Table *t, const char *name, int images, const double seconds[]) {
    table_text(t, "%s", name);
    table_numbers(t, images, sqrt(3.0 * WIDE * 8 / (images * TOKENS)));
    for (int s = 0; s < SHAPES; s++) table_numbers(t, 1e3 * seconds[s]);
}

// `hidden`: what is computed, and exchanged within a network, cannot overlap; at best, the
// gradients do completely.
static void model_shapes(const Machine *machine, int images, bool hidden, double seconds[]) {
    for (int s = 0; s < SHAPES; s++) {
        VitPlan plan = {
            .data = shapes[s][0], .tensor = shapes[s][1], .width = WIDE, .batch_size = images};
        seconds[s] = model_step(&plan, machine, false).seconds;
        if (!hidden) continue;
        plan.batch_size /= plan.data;
        plan.data = 1;
        double of_one_network = model_step(&plan, machine, false).seconds;
        seconds[s] = fmax(of_one_network, seconds[s] - of_one_network);
    }
}

double print_best_mesh(void) {
    static const char *const names[] = {"dgx-a100", "rtx4090-pcie", "p100-25gbe"};
    int best = 1; // of the first row
    printf("\n");
    Table t = MESH_TABLE();
    for (size_t m = 0; m < sizeof names / sizeof *names; m++)
        for (int i = 0; i < SIZES; i++) {
            double seconds[SHAPES];
            model_shapes(machine_find(names[m]), images_of[i], false, seconds);
            add_row(&t, names[m], images_of[i], seconds);
            for (int s = 1; s < SHAPES && m == 0 && i == 0; s++)
                if (seconds[s] < seconds[best]) best = s;
        }
    return shapes[best][1];
}

// All numbers take half the bytes, and products are computed by tensor cores.
static Machine in_sixteen_bits(const Machine *machine) {
    Machine m = *machine;
    m.fp32 = machine->fp16;
    m.efficiency[COST_PRODUCT] = machine->fp16_efficiency;
    m.memory_bandwidth *= 2;
    m.link.bandwidth *= 2;
    return m;
}

void print_best_hidden(void) {
    const Machine *dgx = machine_find("dgx-a100");
    Machine bfloat16 = in_sixteen_bits(dgx);
    printf("\n");
    Table t = MESH_TABLE();
    for (int r = 0; r < 2 * SIZES; r++) {
        double seconds[SHAPES];
        model_shapes(r < SIZES ? dgx : &bfloat16, images_of[r % SIZES], true, seconds);
        add_row(&t, r < SIZES ? "dgx-a100" : "dgx-a100, bfloat16", images_of[r % SIZES], seconds);
    }
}

void draw_mesh_step(const char *png) {
    VitPlan plan = {.data = 2, .tensor = 4, .width = WIDE, .batch_size = 512};
    VitRun run = model_step(&plan, machine_find("p100-25gbe"), true);
    double end = 0;
    for (int i = 0; i < run.num_spans; i++) end = fmax(end, run.spans[i].end);
    Timeline t = {.title = xprintf("one step: %.3g ms", 1e3 * run.seconds),
                  .set = {"modelled", run.spans, run.num_spans, true},
                  .start = end - run.seconds,
                  .end = end};
    timelines_draw(png, "A mesh of 2 x 4: two hosts of p100-25gbe, width 1024, 512 images",
                   "the step began", &t, 1);
    free(t.title);
    vit_run_free(&run);
}
