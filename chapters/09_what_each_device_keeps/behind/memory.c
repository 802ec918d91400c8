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

// By arithmetic, in float64, because in WebAssembly n does not fit in a size_t: n parameters in
// equal blocks, each of which is a unit. A minibatch is one sequence of TOKENS on each device.
enum { TOKENS = 2048 };
typedef struct Transformer {
    const char *name;
    double n, blocks, width, heads;
} Transformer;
static const Transformer transformers[] = {
    {"1b", 1e9, 20, 2048, 16},   {"3b", 3e9, 32, 2560, 32},   {"7b", 7e9, 32, 4096, 32},
    {"13b", 13e9, 40, 5120, 40}, {"30b", 30e9, 60, 6656, 52},
};

static const Transformer *transformer_named(const char *name) {
    const Transformer *t = transformers;
    while (strcmp(t->name, name) != 0) t++; // the flag has refused any other
    return t;
}

// Korthikanti et al., 2022, count numbers of 2 bytes, and dropout's masks of one: 34 = 16 * 2 + 2
// and 5 = 2 * 2 + 1. A recomputed block keeps its input, and one block at a time has everything.
static double activations_of(const Transformer *t, double bytes, bool recompute) {
    double scores = t->heads * TOKENS / t->width;
    double block = TOKENS * t->width * (16 * bytes + 2 + (2 * bytes + 1) * scores);
    return recompute ? t->blocks * TOKENS * t->width * bytes + block : t->blocks * block;
}

// (The temporary memory is that of formulas.c.)
static Need need_of_transformer(const Transformer *t, Stage stage, int k, bool mixed,
                                bool recompute) {
    const StageKind *s = &zero_stages[stage];
    double n = t->n, own = n / k, block = n / t->blocks, others = (k - 1.0) / k;
    double bytes = mixed ? 2 : 4, of_adam = mixed ? 12 : 8;
    const double temporary[NUM_STAGES] = {others * n, others * n, (2 + others) * block,
                                          (4 + others) * block};
    Need need = {.parameters = bytes * (s->divides_parameters ? own : n),
                 .gradients = bytes * (s->divides_gradients ? own : n),
                 .moments = of_adam * (s->divides_moments ? own : n),
                 .temporary = bytes * temporary[stage],
                 .activations = activations_of(t, bytes, recompute),
                 .seconds = NAN};
    need.all = need.parameters + need.gradients + need.moments + need.temporary + need.activations;
    return need;
}

enum { FORMATS = 4 }; // float32 and mixed precision, each without and with recomputation

static void add_transformer(Table *table, const Transformer *t, Stage stage, int k) {
    double all[FORMATS];
    for (int f = 0; f < FORMATS; f++) all[f] = need_of_transformer(t, stage, k, f / 2, f % 2).all;
    table_text(table, "%d GPU%s, %s", k, k == 1 ? "" : "s", zero_stages[stage].name);
    table_numbers(table, all[0], all[1], all[2], all[3]);
}

static int gpus_needed(const Transformer *t, double memory, bool mixed, bool recompute) {
    int k = 1;
    while (need_of_transformer(t, ZERO_3, k, mixed, recompute).all > memory) k++;
    return k;
}

double print_transformer(void) {
    const Transformer *t = transformer_named("7b");
    double activations[FORMATS];
    int needed[FORMATS];
    for (int f = 0; f < FORMATS; f++) {
        activations[f] = activations_of(t, f / 2 ? 2 : 4, f % 2);
        needed[f] = gpus_needed(t, 80e9, f / 2, f % 2);
    }
    printf("\n");
    Table table = TABLE(NULL, WORDS("7 billion parameters", 20), FIXED("float32", 1, .unit = "GB"),
                        FIXED("recomputed", 1, .unit = "GB"), FIXED("mixed", 1, .unit = "GB"),
                        FIXED("recomputed", 1, .unit = "GB"));
    table_text(&table, "activations of a GPU");
    table_numbers(&table, activations[0], activations[1], activations[2], activations[3]);
    add_transformer(&table, t, STAGE_DDP, 1);
    for (int k = 2; k <= 8; k += 6)
        for (Stage s = STAGE_DDP; s < NUM_STAGES; s++) add_transformer(&table, t, s, k);
    say("With GPUs of 80 GB, ZeRO-3 needs %d, %d, %d and %d of them, from left to right.",
        needed[0], needed[1], needed[2], needed[3]);
    return needed[0];
}

// ## The table and the picture

static Need need_of(const char *network, Stage stage, int k, int rows, bool recompute) {
    if (strcmp(network, "resnet-18") == 0) return need_of_resnet18(stage, k, rows, recompute);
    return need_of_transformer(transformer_named(network), stage, k, false, recompute);
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
    if (!is_counted) rows = 1; // a sequence
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
