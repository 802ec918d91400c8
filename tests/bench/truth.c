// truth.c: is the modelled time true? What was published or measured, beside what the modelled
// clock says of the same, on the machines in common/model/machines. Printed are the tables of
// chapters/how_true.md, which says what they show.
//
//     make truth         (make truth-page: the same, and writes them into the page)
//
// It needs no GPU, and nothing is measured here: tests/published/ has the figures, each with its
// source. All are times. A ratio is modelled / published; the error of a row is |ratio - 1|. Rows
// to `calibrate` could be looked at when a machine's file was written; those held out were not.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "chapters/02_get_params_and_allreduce/behind/nccl_model.h"
#include "chapters/04_lenet_multi_gpu/lenet.h"
#include "chapters/05_resnet18_concise/data_parallel.h"
#include "chapters/05_resnet18_concise/resnet18.h"
#include "common/model/many_ranks.h"
#include "common/base/error.h"
#include "common/base/number.h"
#include "common/program/modelled_run.h"
#include "common/tensor/autograd.h"
#include "tests/published/csv.h"
#include "tests/published/transformer.h"

typedef struct Row {
    char what[200];
    const char *source, *why; // why: NULL where the error is small
    int source_number;        // equal sources have one
    bool held_out;
    double published, modelled;
    double ideal; // of several GPUs: what it would be if more took no time
} Row;

enum { MOST_ROWS = 64, NUM_KINDS = 4 };
typedef struct Kind {
    const char *name, *title, *unit;
    void (*model)(const Csv *csv, int r, Row *row);
    Csv csv;
    Row rows[MOST_ROWS];
} Kind;

static const double MILLI = 1e3, MICRO = 1e6, MIB = 1 << 20;

// ---- what is modelled --------------------------------------------------------------------------

// How long a framework takes to sum a vector of this size over all GPUs.
static double exchange_seconds(const Machine *machine, int gpus, double bytes) {
    return nccl_allreduce_seconds(machine, gpus, bytes, NULL);
}

static NetworkTable resnet18_64(void) { return book_resnet18(64); }

static NetworkTable network_of(const Csv *csv, int r) {
    static const char *const names[] = {"ResNet-50",    "ResNet-101",       "VGG-16",
                                        "Inception V3", "ResNet-18, 64x64", NULL};
    static NetworkTable (*const networks[])(void) = {resnet50, resnet101, vgg16, inception_v3,
                                                     resnet18_64};
    return networks[csv_word(csv, r, "network", names)]();
}

// ---- the chapters' own steps -------------------------------------------------------------------

static const char *const ways[] = {"ours", "our graph", "a framework's", "a framework's graph",
                                   NULL}; // every other one is launched as one graph

// LeNet on k GPUs, and ResNet-18 on one. The chapters' own code trains.
static void time_lenet(ModelledRun *run, const Tensor *X, const Tensor *y, bool as_graph) {
    Tensor *params[LENET_PARAMS], *device_params[MAX_DEVICES][LENET_PARAMS], *losses[MAX_DEVICES];
    lenet_init(params, 1);
    for (int i = 0; i < run->k; i++)
        get_params(params, LENET_PARAMS, run->devices[i], device_params[i]);
    while (modelled_run(run))
        (as_graph ? train_batch_as_graph : train_batch)(X, y, device_params, run->devices, run->k,
                                                        0.2f, losses);
    for (int i = 0; i < run->k; i++) free_params(device_params[i], LENET_PARAMS);
    free_params(params, LENET_PARAMS);
}

static void time_resnet18(ModelledRun *run, const Tensor *X, const Tensor *y) {
    Tensor *losses[1];
    Module *net = resnet18(10, 1);
    initialize(net, 0);
    DataParallel dp = data_parallel(net, run->devices, 1, BN_RANK0);
    while (modelled_run(run)) train_step(&dp, X, y, 0.1f, losses);
    module_free(net);
}

typedef struct BookStep {
    bool lenet; // or ResNet-18
    int images, side, way;
    bool tf32;
} BookStep;

// A step of chapter 4's LeNet or chapter 5's ResNet-18, when memory is no longer new, on k devices
// that compute nothing.
static double book_step_seconds(const Machine *machine, BookStep step, int k) {
    // The first step finds memory, the second is recorded as a graph.
    ModelledRun run = {.machine = machine, .k = k, .framework = step.way >= 2, .warm_up = 2};
    devices_close(); // they are opened with TF32, or without it
    allow_tf32(step.tf32);
    modelled_begin(&run);
    Tensor *X = tensor_new(host(), step.images, 1, step.side, step.side);
    Tensor *y = tensor_new(host(), step.images);
    tensor_fill(X, 0);
    tensor_fill(y, 0);
    if (step.lenet)
        time_lenet(&run, X, y, step.way % 2);
    else
        time_resnet18(&run, X, y);
    tensor_free(X);
    tensor_free(y);
    modelled_end(&run);
    devices_close();
    return run.seconds;
}

// ---- steps of one GPU --------------------------------------------------------------------------

static void model_step(const Csv *csv, int r, Row *row) {
    static const char *const precisions[] = {"float32", "tf32", NULL};
    const char *name = csv_text(csv, r, "network");
    Machine machine = *machine_find(csv_text(csv, r, "machine"));
    int images = (int)csv_number(csv, r, "batch"), way = csv_word(csv, r, "way", ways);
    bool tf32 = csv_word(csv, r, "precision", precisions) == 1, lenet = strcmp(name, "LeNet") == 0;
    snprintf(row->what, sizeof row->what, "%s, %d images, %s, %s; %s", name, images,
             csv_text(csv, r, "precision"), machine.name, csv_text(csv, r, "software"));
    row->published = csv_number(csv, r, "ms");
    if (lenet || strncmp(name, "ResNet-18", 9) == 0) {
        int side = strstr(name, "64x64") ? 64 : 28;
        row->modelled =
            MILLI * book_step_seconds(&machine, (BookStep){lenet, images, side, way, tf32}, 1);
        return;
    }
    NetworkTable network = network_of(csv, r);
    machine.launch = machine.framework;
    RankStep rank = rank_step(&machine, &network, images, tf32);
    row->modelled = MILLI * rank_seconds(&rank);
}

// How long LeNet's step takes on this number of GPUs, in TF32.
static double lenet_ms(const Machine *machine, int images, int way, int gpus) {
    return MILLI * book_step_seconds(machine, (BookStep){true, images, 28, way, true}, gpus);
}

// ---- scaling -----------------------------------------------------------------------------------

typedef struct Scaling {
    Machine machine;
    NetworkTable network;
    double gradient_bytes; // of one number
    double bucket_bytes; // gradients are sent when there are this many, and the last after backward
} Scaling;

// A step of all GPUs: buckets are exchanged one after the other, beside backward.
static double scaled_seconds(const Scaling *s, const RankStep *rank, int gpus) {
    double bytes = 0, arrived = 0;
    for (int l = s->network.num_layers - 1; l >= 0 && gpus > 1; l--) {
        bytes += s->gradient_bytes * table_layer_params(&s->network.layers[l]);
        if (bytes == 0 || (bytes < s->bucket_bytes && l > 0)) continue;
        arrived = fmax(arrived, rank->ready[l]) + exchange_seconds(&s->machine, gpus, bytes);
        bytes = 0;
    }
    return fmax(rank->backward, arrived) + rank->update;
}

// How many times as fast as modelled each GPU was, by a step on few of them that was published,
// too.
static double published_speed(const Scaling *s, const Csv *csv, int r) {
    int gpus = (int)csv_number(csv, r, "base_gpus"), images = (int)csv_number(csv, r, "base_batch");
    RankStep rank = rank_step(&s->machine, &s->network, images, s->gradient_bytes < sizeof(float));
    double speed = 1, seconds = csv_number(csv, r, "base_ms") / MILLI;
    for (int i = 0; i < 8; i++) { // (each time nearer; with one GPU the first is exact)
        RankStep faster = faster_rank(&rank, speed);
        speed *= scaled_seconds(s, &faster, gpus) / seconds;
    }
    return speed;
}

// A network that is a table of layers, whose gradients NCCL sums.
static void model_table_scaling(const Csv *csv, int r, Row *row) {
    Scaling s = {*machine_find(csv_text(csv, r, "machine")), network_of(csv, r),
                 csv_number(csv, r, "gradient_bytes"), MIB * csv_number(csv, r, "bucket_MiB")};
    int gpus = (int)csv_number(csv, r, "gpus"), images = (int)csv_number(csv, r, "batch");
    if (*csv_text(csv, r, "cards")) s.machine.cards = (int)csv_number(csv, r, "cards");
    RankStep rank = rank_step(&s.machine, &s.network, images, s.gradient_bytes < sizeof(float));
    rank = faster_rank(&rank, published_speed(&s, csv, r));
    row->modelled = MILLI * scaled_seconds(&s, &rank, gpus);
    row->ideal = MILLI * rank_seconds(&rank);
}

// Chapter 4's LeNet, with its star. Most of its published step is not the GPU's: loading, and a
// framework's calls. So here the GPU is no slower than modelled, and the rest stays as it is.
static void model_lenet_scaling(const Csv *csv, int r, Row *row) {
    const Machine *machine = machine_find(csv_text(csv, r, "machine"));
    int gpus = (int)csv_number(csv, r, "gpus"), images = (int)csv_number(csv, r, "batch");
    int way = csv_word(csv, r, "way", ways), base_images = (int)csv_number(csv, r, "base_batch");
    double rest = csv_number(csv, r, "base_ms") - lenet_ms(machine, base_images, way, 1);
    row->modelled = rest + lenet_ms(machine, gpus * images, way, gpus);
    row->ideal = rest + lenet_ms(machine, images, way, 1);
}

static void model_scaling(const Csv *csv, int r, Row *row) {
    const char *name = csv_text(csv, r, "network");
    snprintf(row->what, sizeof row->what, "%s, %d GPUs of %s, %d images each; %s", name,
             (int)csv_number(csv, r, "gpus"), csv_text(csv, r, "machine"),
             (int)csv_number(csv, r, "batch"), csv_text(csv, r, "software"));
    row->published = csv_number(csv, r, "ms");
    (strcmp(name, "LeNet") == 0 ? model_lenet_scaling : model_table_scaling)(csv, r, row);
}

// ---- allreduce ---------------------------------------------------------------------------------

// Chapter 2's star as the book writes it: whole vectors go to device 0, and the sum comes back.
static double star_seconds(const Machine *machine, int gpus, double bytes) {
    ModelledRun run = {.machine = machine, .k = gpus, .framework = true, .warm_up = 1};
    Tensor *data[MAX_DEVICES];
    devices_close();
    modelled_begin(&run);
    for (int i = 0; i < gpus; i++)
        data[i] = tensor_new(run.devices[i], (int)(bytes / sizeof(float)));
    while (modelled_run(&run)) {
        for (int i = 0; i < gpus; i++) begin_step(run.devices[i]);
        allreduce_book(data, gpus);
    }
    for (int i = 0; i < gpus; i++) tensor_free(data[i]);
    modelled_end(&run);
    devices_close();
    return run.seconds;
}

static void model_allreduce(const Csv *csv, int r, Row *row) {
    static const char *const by[] = {"NCCL", "our star", NULL};
    Machine machine = *machine_find(csv_text(csv, r, "machine"));
    int gpus = (int)csv_number(csv, r, "gpus"), hosts = (int)csv_number(csv, r, "nodes");
    double bytes = csv_number(csv, r, "bytes");
    machine.devices = gpus / hosts;
    if (hosts > 1) machine.cards = (int)csv_number(csv, r, "cards");
    snprintf(row->what, sizeof row->what, "%s bytes, %d GPUs of %d %s; %s",
             grouped((uint64_t)bytes).text, gpus, hosts, machine.name,
             csv_text(csv, r, "software"));
    row->published = csv_number(csv, r, "time_us");
    bool star = csv_word(csv, r, "way", by) == 1;
    row->modelled = MICRO * (star ? star_seconds : exchange_seconds)(&machine, gpus, bytes);
}

// ---- transformers ------------------------------------------------------------------------------

typedef struct SplitRow {
    Machine machine;
    Transformer network;
    Split split;
    TransformerStep step;
    double published; // seconds
    bool overlaps;    // exchanges, in part
} SplitRow;

static double number_or_0(const Csv *csv, int r, const char *column) {
    return *csv_text(csv, r, column) ? csv_number(csv, r, column) : 0;
}

static SplitRow split_row(const Csv *csv, int r) {
    static const char *const layers[] = {"GPT", "Llama", NULL},
                             *const units[] = {"ms", "TFLOP/s", NULL},
                             *const again[] = {"none", "attention", "all", NULL},
                             *const splits[] = {"tensor", "sequence", "sequence overlapped", NULL};
    SplitRow row = {.machine = *machine_find(csv_text(csv, r, "machine"))};
    double value = csv_number(csv, r, "value"), memory = 1e9 * number_or_0(csv, r, "memory_GBps");
    int split = csv_word(csv, r, "split", splits);
    if (memory > 0) row.machine.memory_bandwidth = memory;
    row.overlaps = split == 2;
    row.network = (Transformer){.hidden = csv_number(csv, r, "hidden"),
                                .heads = csv_number(csv, r, "heads"),
                                .layers = csv_number(csv, r, "layers"),
                                .ffn = csv_number(csv, r, "ffn"),
                                .vocab = number_or_0(csv, r, "vocab"),
                                .sequence = csv_number(csv, r, "sequence"),
                                .llama = csv_word(csv, r, "layer", layers) == 1,
                                .recompute = (Recompute)csv_word(csv, r, "recompute", again)};
    row.split = (Split){.tensor = (int)csv_number(csv, r, "tensor"),
                        .data = (int)csv_number(csv, r, "data"),
                        .sequence = split > 0,
                        .microbatch = csv_number(csv, r, "microbatch"),
                        .accumulation = csv_number(csv, r, "accumulation"),
                        .gradient_bytes = csv_number(csv, r, "gradient_bytes")};
    row.step = transformer_step(&row.machine, &row.network, &row.split);
    row.published = value / MILLI;
    if (csv_word(csv, r, "unit", units) == 1) // of each GPU
        row.published = device_flop(&row.network, &row.split) / (1e12 * value);
    return row;
}

static double exchanging(const TransformerStep *t) { return t->tensor + t->data; }

// How many times as fast as modelled products are, by the row to calibrate of the same set. 1 if
// the set has none: then they reach the part of the peak that the machine's file says.
static double products_speed(const Csv *csv, int r) {
    for (int base = 0; base < csv->num_rows; base++) {
        if (strcmp(csv_text(csv, base, "set"), csv_text(csv, r, "set")) != 0 ||
            strcmp(csv_text(csv, base, "use"), "calibrate") != 0)
            continue;
        SplitRow row = split_row(csv, base);
        return row.step.products / (row.published - row.step.elements - exchanging(&row.step));
    }
    return 1;
}

static void model_transformer(const Csv *csv, int r, Row *row) {
    SplitRow s = split_row(csv, r);
    double speed = products_speed(csv, r);
    s.step.products /= speed;
    double exchange = MILLI * exchanging(&s.step);
    const char *more = "";
    row->published = MILLI * s.published;
    row->ideal = MILLI * (s.step.products + s.step.elements);
    row->modelled = row->ideal + exchange;
    if (!row->held_out)
        more = xprintf("; products reach %.0f %% of the peak",
                       100 * speed * s.machine.fp16_efficiency);
    else if (s.overlaps)
        more = xprintf("; if all overlaps: %.5g", fmax(row->ideal, exchange));
    snprintf(row->what, sizeof row->what, "%s, %d x %d GPUs of %s%s", csv_text(csv, r, "what"),
             s.split.data, s.split.tensor, s.machine.name, more);
}

// ---- rows --------------------------------------------------------------------------------------

static Kind kinds[NUM_KINDS] = {
    {.name = "steps", .title = "Steps of one GPU", .unit = "ms", .model = model_step},
    {.name = "scaling", .title = "Steps of several GPUs", .unit = "ms", .model = model_scaling},
    {.name = "allreduce", .title = "An allreduce", .unit = "us", .model = model_allreduce},
    {.name = "transformers",
     .title = "Split transformers",
     .unit = "ms",
     .model = model_transformer},
};

static double error_of(double modelled, const Row *row) {
    return fabs(modelled / row->published - 1);
}

static void read_kind(Kind *kind) {
    static const char *const uses[] = {"calibrate", "heldout", NULL};
    int sources = 0;
    kind->csv = csv_read(xprintf("tests/published/%s.csv", kind->name));
    CHECK(kind->csv.num_rows <= MOST_ROWS, "raise MOST_ROWS");
    for (int r = 0; r < kind->csv.num_rows; r++) {
        Row *row = &kind->rows[r];
        row->held_out = csv_word(&kind->csv, r, "use", uses) == 1;
        row->source = csv_text(&kind->csv, r, "source");
        for (int same = 0; !row->source_number; same++)
            if (same == r)
                row->source_number = ++sources;
            else if (strcmp(kind->rows[same].source, row->source) == 0)
                row->source_number = kind->rows[same].source_number;
        row->why = csv_text(&kind->csv, r, "why");
        kind->model(&kind->csv, r, row);
        CHECK(row->modelled > 0 && row->modelled < INFINITY, "a modelled time is a number");
        if (error_of(row->modelled, row) <= 0.15)
            row->why = NULL;
        else if (!*row->why)
            row->why = "beyond 15 %, and no cause named";
    }
}

// ---- tables ------------------------------------------------------------------------------------

static void print_kind(const Kind *kind) {
    printf("\n### %s\n\n| published, %s | modelled | ratio |            | what |\n", kind->title,
           kind->unit);
    printf("|--------------:|---------:|------:|------------|--------------------------------|\n");
    for (int r = 0; r < kind->csv.num_rows; r++) {
        const Row *row = &kind->rows[r];
        printf("| %13.5g | %8.5g | %5.2f | %s | %s [%d]%s%s |\n", row->published, row->modelled,
               row->modelled / row->published, row->held_out ? "held out  " : "calibrated",
               row->what, row->source_number, row->why ? ": " : "", row->why ? row->why : "");
    }
    for (int r = 0, printed = 0; r < kind->csv.num_rows; r++)
        if (kind->rows[r].source_number > printed)
            printf("%s[%d] `%s`", printed++ ? ", " : "\nSources: ", kind->rows[r].source_number,
                   kind->rows[r].source);
    printf("\n");
}

static void print_errors(const Kind *kind, const char *title, bool held_out, bool ideal) {
    int rows = 0, within_10 = 0, within_30 = 0;
    double sum = 0, worst = 0;
    for (int r = 0; r < kind->csv.num_rows; r++) {
        const Row *row = &kind->rows[r];
        if (row->held_out != held_out) continue;
        double error = error_of(ideal ? row->ideal : row->modelled, row);
        rows++;
        sum += error;
        worst = fmax(worst, error);
        within_10 += error <= 0.1;
        within_30 += error <= 0.3;
    }
    printf("| %-22s | %s | %4d | %4.0f %% | %4.0f %% | %4d | %4d |\n", title,
           held_out ? "held out  " : "calibrated", rows, 100 * sum / rows, 100 * worst, within_10,
           within_30);
}

static void print_all_errors(void) {
    printf("\n| error                  |            | rows |   mean |  worst | within 10 %% | "
           "within 30 %% |\n");
    printf("|------------------------|------------|-----:|-------:|-------:|-----:|-----:|\n");
    for (int k = 0; k < NUM_KINDS; k++) {
        print_errors(&kinds[k], kinds[k].title, false, false);
        print_errors(&kinds[k], kinds[k].title, true, false);
        if (kinds[k].rows[0].ideal > 0)
            print_errors(&kinds[k], "(if more took no time)", true, true);
    }
}

int main(int argc, char *argv[]) {
    set_program_name(argv[0]);
    if (argc > 1) die_usage("tests/bench/truth", "there are no flags, but %s", argv[1]);
    for (int k = 0; k < NUM_KINDS; k++) read_kind(&kinds[k]);
    print_all_errors();
    for (int k = 0; k < NUM_KINDS; k++) print_kind(&kinds[k]);
    check_stdout();
    return 0;
}
