// memory.c: what each device needs in every stage, for the figure to move.
#include "behind.h"

#include "common/book.h"

const char memory_networks[] = "none|resnet-18|1b|3b|7b|13b|30b";

// Bytes on one device, and the seconds of a step. NAN: left out.
typedef struct Need {
    double parameters, gradients, moments, temporary, activations, all, seconds;
} Need;

// ## ResNet-18

static Need need_of_resnet18(Stage stage, int k, int rows, bool recompute) {
    Plan plan = {.stage = stage, .k = k, .recompute = recompute};
    ZeroRun run = model_stage(&plan, rows, modelled_machine(), false);
    const ZeroMemory *m = &run.memory;
    Need need = {.parameters = (double)m->parameters,
                 .gradients = (double)m->gradients,
                 .moments = (double)m->moments,
                 .temporary = (double)m->temporary,
                 .activations = (double)run.activations,
                 .all = (double)run.peak,
                 .seconds = run.seconds};
    zero_run_free(&run);
    return need;
}

// ## A transformer

// By arithmetic: n parameters in equal blocks, each of which is a unit. (These are the formulas of
// formulas.c in float64, because in WebAssembly n does not fit in a size_t.)
static Need need_of_transformer(Stage stage, int k, double n) {
    enum { BLOCKS = 32 };
    const StageKind *s = &zero_stages[stage];
    double own = n / k, block = n / BLOCKS, others = (k - 1.0) / k;
    const double temporary[NUM_STAGES] = {others * n, others * n, (2 + others) * block,
                                          (4 + others) * block};
    Need need = {.parameters = 4 * (s->divides_parameters ? own : n),
                 .gradients = 4 * (s->divides_gradients ? own : n),
                 .moments = 8 * (s->divides_moments ? own : n),
                 .temporary = 4 * temporary[stage],
                 .activations = NAN,
                 .seconds = NAN};
    need.all = need.parameters + need.gradients + need.moments + need.temporary;
    return need;
}

// ## The table and the picture

static Need need_of(const char *network, Stage stage, int k, int rows, bool recompute) {
    if (strcmp(network, "resnet-18") == 0) return need_of_resnet18(stage, k, rows, recompute);
    return need_of_transformer(stage, k, 1e9 * atof(network));
}

static void write_row(FILE *csv, const char *network, Stage stage, int k, int rows, bool recompute,
                      const Need *n) {
    fprintf(csv, "%s,%d,%d,%s,%s,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.9g\n", network, k, rows,
            recompute ? "yes" : "no", zero_stages[stage].name, n->parameters, n->gradients,
            n->moments, n->temporary, n->activations, n->all, n->seconds);
}

static OutputFile begin_csv(void) {
    OutputFile csv = output_open(book_output("_memory.csv"));
    fprintf(csv.stream, "network,devices,rows,recompute,stage,parameters,gradients,moments,"
                        "temporary,activations,all,seconds\n");
    return csv;
}

void tell_memory(const char *network, int k, int rows, bool recompute) {
    bool is_counted = strcmp(network, "resnet-18") == 0;
    const char *unit = is_counted ? "MB" : "GB";
    double scale = is_counted ? 1e6 : 1e9;
    char title[32];
    snprintf(title, sizeof title, "%d devices, %s", k, unit);
    book_needs_machine("--memory-of");
    book_outputs("_memory.csv");
    OutputFile csv = begin_csv();
    printf("\n");
    Table t = TABLE(NULL, WORDS(title, 13), FIXED("parameters", 1), FIXED("gradients", 1),
                    FIXED("moments", 1), FIXED("temporary", 1), FIXED("activations", 1),
                    FIXED("all", 1), FIXED("a step", 1, .unit = "ms"));
    for (Stage s = STAGE_DDP; s < NUM_STAGES; s++) {
        Need n = need_of(network, s, k, rows, recompute);
        table_text(&t, "%s", zero_stages[s].name);
        table_numbers(&t, n.parameters / scale, n.gradients / scale, n.moments / scale,
                      n.temporary / scale, n.activations / scale, n.all / scale, n.seconds);
        write_row(csv.stream, network, s, k, rows, recompute, &n);
        if (s == ZERO_3) book_result("with ZeRO-3, a device needs %.1f %s", n.all / scale, unit);
    }
    output_close(&csv);
}

void draw_memory(int k, int rows) {
    const char *png = book_output("_memory.png");
    if (!modelled_machine()) return;
    OutputFile csv = begin_csv();
    for (int recompute = 0; recompute < 2; recompute++)
        for (Stage s = STAGE_DDP; s < NUM_STAGES; s++) {
            Need n = need_of("resnet-18", s, k, rows, recompute);
            write_row(csv.stream, "resnet-18", s, k, rows, recompute, &n);
        }
    output_close(&csv);
    plot_draw(png, "memory.gp", book_output("_memory.csv"));
}
