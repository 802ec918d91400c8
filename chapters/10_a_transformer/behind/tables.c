// tables.c: what the runs computed, sent and kept, and how long a step is on other machines.
#include "behind.h"

#include "common/book.h"

static double mb(size_t bytes) { return (double)bytes / 1e6; }

static void add_device_count(Table *t, const VitPlan *plan) {
    table_text(t, "%d device%s%s", plan->tensor, plan->tensor == 1 ? "" : "s",
               plan->sequence ? ", tokens split" : "");
}

// "3 + 3 + 2"
static void heads_text(int k, char text[48]) {
    int end = 0;
    for (int i = 0; i < k; i++)
        end +=
            snprintf(text + end, 48 - (size_t)end, "%s%ld", i ? " + " : "", vit_groups(k, i).count);
}

void print_bits(const VitRun runs[], int n) {
    char title[48], heads[48];
    snprintf(title, sizeof title, "loss of step %d", runs->plan.steps);
    printf("\n");
    Table t = TABLE(NULL, WORDS("layers split over", 23), WORDS("heads", 30), DIGITS(title, 9),
                    WHOLE("parameters that differ"));
    for (const VitRun *run = runs; run < runs + n; run++) {
        add_device_count(&t, &run->plan);
        heads_text(run->plan.tensor, heads);
        table_text(&t, "%s", heads);
        table_numbers(&t, run->losses[run->plan.steps - 1], num_different_numbers(run, runs));
    }
}

double print_sent(const VitRun *run) {
    int k = run->plan.tensor, width = run->plan.width;
    VitOptions options = {.width = width, .sequence = run->plan.sequence};
    size_t layers = vit_bytes(&options, k, 0, run->plan.batch_size);
    VitRun ddp = model_step(
        &(VitPlan){.data = k, .tensor = 1, .width = width, .batch_size = run->plan.batch_size},
        NULL, false);
    printf("\n");
    Table t = TABLE(NULL, WORDS("a device sends in a step, MB", 28), FIXED("counted", 2),
                    FIXED("formula", 2));
    table_text(&t, "layers split");
    table_numbers(&t, mb(run->sent), mb(layers));
    table_text(&t, "images split (DDP)");
    table_numbers(&t, mb(ddp.sent), mb(vit_bytes_of_ddp(width, k, 0)));
    return (double)run->sent / (double)ddp.sent;
}

// Of the blocks' activations, what backward() needs: for each token, 6 D numbers outside the pairs
// and 19 D + a T inside.
static double formula_of_activations(const VitPlan *p) {
    double outside = 6.0 * p->width, inside = 19.0 * p->width + HEADS * TOKENS;
    if (p->sequence) outside /= p->tensor;
    return 4.0 * BLOCKS * p->batch_size / p->data * TOKENS * (outside + inside / p->tensor);
}

void print_split_memory(const VitRun runs[], int n, double limit) {
    char title[48];
    snprintf(title, sizeof title, "loss of step %d", runs->plan.steps);
    printf("\n");
    Table t = TABLE(NULL, WORDS("each device, MB", 23), WORDS("limit", 5), FIXED("kept", 1),
                    FIXED("activations", 1), FIXED("formula", 1), FIXED("peak", 1),
                    DIGITS(title, 6), WHOLE("differ"));
    for (const VitRun *run = runs; run < runs + n; run++) {
        add_device_count(&t, &run->plan);
        table_text(&t, run == runs || isinf(limit) ? "none" : "%.0f", limit / 1e6);
        table_numbers(&t, mb(run->peak - run->activations), mb(run->activations),
                      formula_of_activations(&run->plan) / 1e6, mb(run->peak),
                      run->losses[run->plan.steps - 1], num_different_numbers(run, runs));
    }
}

void print_mistakes(const VitRun runs[], const VitRun first[]) {
    int last = runs->plan.steps - 1;
    char title[48];
    snprintf(title, sizeof title, "of step %d", runs->plan.steps);
    printf("\n");
    Table t = TABLE(NULL, WORDS("mistake", 34), DIGITS("loss of step 1", 8), DIGITS(title, 8),
                    WHOLE("differ after 1 step"), WORDS("copies equal", 12));
    for (int m = 0; m <= NUM_MISTAKES; m++) {
        table_text(&t, "%s", m == 0 ? "none" : mistakes[m - 1].what);
        table_numbers(&t, runs[m].losses[0], runs[m].losses[last],
                      num_different_numbers(&first[m], &first[0]));
        table_text(&t, "%s", runs[m].equal_copies ? "yes" : "no");
    }
}

// ---- on other machines --------------------------------------------------------------------------

enum { WIDE = 1024, FOUR = 4 };

typedef struct Steps {
    VitRun one, images, layers, hidden; // hidden: one device with its part of the images
} Steps;

static Steps model_steps(VitPlan plan, const Machine *machine) {
    Steps steps = {.layers = model_step(&plan, machine, false)};
    plan.data = plan.tensor, plan.tensor = 1;
    steps.images = model_step(&plan, machine, false);
    plan.data = 1;
    steps.one = model_step(&plan, machine, false);
    plan.batch_size /= steps.images.plan.data;
    steps.hidden = model_step(&plan, machine, false);
    return steps;
}

double print_when_it_pays(void) {
    static const char *const names[] = {"dgx-a100", "rtx4090-pcie", "cluster-10gbe"};
    static const int images[] = {8, 32, 128, 512};
    double most = 0;
    printf("\n");
    Table t =
        TABLE(NULL, WORDS("four devices of", 15), WHOLE("images"),
              FIXED("one device", 2, .unit = "ms"), FIXED("images split", 2, .unit = "ms"),
              FIXED("layers split", 2, .unit = "ms"), FIXED("images, hidden", 2, .unit = "ms"));
    for (size_t m = 0; m < sizeof names / sizeof *names; m++)
        for (size_t i = 0; i < sizeof images / sizeof *images; i++) {
            VitPlan plan = {.data = 1, .tensor = FOUR, .width = WIDE, .batch_size = images[i]};
            Steps s = model_steps(plan, machine_find(names[m]));
            table_text(&t, "%s", names[m]);
            table_numbers(&t, images[i], s.one.seconds, s.images.seconds, s.layers.seconds,
                          fmax(s.hidden.seconds, s.images.seconds - s.hidden.seconds));
            if (m == 0 && s.layers.seconds < s.images.seconds) most = images[i];
        }
    return most;
}

void tell_costs(const VitPlan *plan) {
    const Machine *machine = book_needs_machine("--costs");
    OutputFile csv = output_open(book_output("_costs.csv"));
    Steps s = model_steps(*plan, machine);
    Table t = TABLE(csv.stream, WORDS("a step of four blocks", 24, .csv = "split"),
                    FIXED("a device sends", 2, .unit = "MB", .csv = "bytes"),
                    FIXED("takes", 3, .unit = "ms", .csv = "seconds"));
    table_text(&t, "one device");
    table_numbers(&t, 0, s.one.seconds);
    table_text(&t, "images split");
    table_numbers(&t, (double)s.images.sent, s.images.seconds);
    table_text(&t, "layers split");
    table_numbers(&t, (double)s.layers.sent, s.layers.seconds);
    output_close(&csv);
    book_result("split layers take %.2f times as long as split images",
                s.layers.seconds / s.images.seconds);
}

// ---- a block as a picture -----------------------------------------------------------------------

// When the n-th piece of work of this name began on the first device.
static double begin_of(const VitRun *run, const char *work, int n) {
    for (int i = 0; i < run->num_spans; i++)
        if (strcmp(run->spans[i].work, work) == 0 && n-- == 0) return run->spans[i].start;
    return NAN;
}

void draw_block(const char *png) {
    enum { IMAGES = 64 };
    if (!modelled_machine()) return;
    VitPlan plan = {.data = 1, .tensor = FOUR, .width = WIDE, .batch_size = IMAGES};
    const Machine *machine = machine_find("dgx-a100");
    VitRun run = model_step(&plan, machine, true);
    // Block 1 has layer norms 2 and 3, counted from 0; backward they come in reverse, after the
    // last one of the network.
    double forward = begin_of(&run, "layer_norm_forward", 2);
    double forward_end = begin_of(&run, "layer_norm_forward", 4);
    double backward = begin_of(&run, "layer_norm_backward_input", 4);
    double backward_end = begin_of(&run, "layer_norm_backward_input", 6);
    SpanSet set = {"modelled", run.spans, run.num_spans, true};
    Timeline t[2] = {
        {.title = xprintf("forward: %.3g ms", 1e3 * (forward_end - forward)),
         .set = set,
         .start = forward,
         .end = forward_end},
        {.title = xprintf("backward: %.3g ms", 1e3 * (backward_end - backward)),
         .set = set,
         .start = backward,
         .end = backward_end},
    };
    char *heading =
        xprintf("A block of width %d, split over four GPUs of dgx-a100, %d images", WIDE, IMAGES);
    timelines_draw(png, heading, "the block began", t, 2);
    for (int i = 0; i < 2; i++) free(t[i].title);
    free(heading);
    vit_run_free(&run);
}
