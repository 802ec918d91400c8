// bfloat16.c: how wrong sums of gradients in bfloat16 are, and which weights move.
#include "behind.h"

#include "common/book.h"
#include "../sixteen_bits.h"

static Vit *new_vit(const VitPlan *plan, Device **device) {
    float *start = vit_start(plan->width, plan->seed);
    Vit *v = vit_new((VitOptions){.width = plan->width}, device, 1, start);
    free(start);
    return v;
}

// ---- sums --------------------------------------------------------------------------------------

// Of each gradient, every 17th number is added, so of a matrix, numbers of all columns.
enum { MOST_SUMMED = 1024, EVERY = 17 };

typedef struct Gradients {
    int k;                  // devices, a power of two
    size_t n;               // numbers on each
    float *of[MOST_SUMMED]; // devices
} Gradients;

// Each device has the gradient of one image.
static Gradients gradients_of_images(const VitPlan *plan, const Dataset *data) {
    Gradients g = {.k = 1};
    Device *device = cpu_device(0);
    Vit *v = new_vit(plan, &device);
    Tensor *X, *y, *loss, *gradient = v->shards[0].flat->grad;
    DataIter *images = data_iter_new(data, 1, false, 0);
    while (g.k < MOST_SUMMED && g.k * 2 <= data->count) g.k *= 2;
    g.n = numel(gradient) / EVERY;
    data_iter_start(images, 0);
    for (int i = 0; i < g.k && data_iter_next(images, &X, &y); i++) {
        tensor_fill(gradient, 0);
        vit_gradients(v, X, y, (Range){0, 1}, &loss);
        g.of[i] = tensor_values(gradient);
        for (size_t j = 0; j < g.n; j++) g.of[i][j] = g.of[i][j * EVERY];
        g.of[i] = xrealloc(g.of[i], g.n * sizeof *g.of[i]);
        round_to_bfloat16(g.of[i], g.n);
    }
    data_iter_free(images);
    vit_free(v);
    return g;
}

// |sum - exact| / |exact| on the first k devices.
static double error_of(SumOfDevices *sum_of, const Gradients *g, int k) {
    double wrong = 0, all = 0;
    float *sum = xmalloc(g->n * sizeof *sum);
    sum_of(g->of, k, g->n, sum);
    for (size_t j = 0; j < g->n; j++) {
        double exact = 0;
        for (int i = 0; i < k; i++) exact += (double)g->of[i][j];
        wrong += pow((double)sum[j] - exact, 2);
        all += exact * exact;
    }
    free(sum);
    return sqrt(wrong / all);
}

double draw_sums(const VitPlan *plan, const Dataset *data) {
    const char *csv = book_output("_bf16.csv");
    double ring = 0, tree = 0, float32 = 0;
    Gradients g = gradients_of_images(plan, data);
    OutputFile file = output_open(csv);
    fprintf(file.stream, "devices,ring,tree,float32\n");
    for (int k = 1; k <= g.k; k *= 2) {
        ring = error_of(sum_along_ring, &g, k);
        tree = error_of(sum_up_tree, &g, k);
        float32 = error_of(sum_in_float32, &g, k);
        fprintf(file.stream, "%d,%.9g,%.9g,%.9g\n", k, ring, tree, float32);
    }
    output_close(&file);
    if (g.k > 1) plot_draw(book_output("_bf16.png"), "bf16_sums.gp", csv);
    printf("\n");
    Table t = TABLE(NULL, WORDS("error of the sum", 30), DIGITS("ring", 2, .unit = "%"),
                    DIGITS("tree", 2, .unit = "%"), DIGITS("float32", 2, .unit = "%"));
    table_text(&t, "%d gradients in bfloat16", g.k);
    table_numbers(&t, ring, tree, float32);
    for (int i = 0; i < g.k; i++) free(g.of[i]);
    return ring / tree;
}

// ---- weights -----------------------------------------------------------------------------------

typedef struct Trained {
    double loss, unmoved, unmoved_ones; // of layer norms: no others start at 1
} Trained;

static Trained train_weights(const VitPlan *plan, const Dataset *data, bool has_float32_copy) {
    Trained t = {0};
    Tensor *X, *y;
    Device *device = cpu_device(0);
    Vit *v = new_vit(plan, &device);
    size_t n = numel(v->shards[0].flat);
    float *start = tensor_values(v->shards[0].flat), *weights = tensor_values(v->shards[0].flat);
    DataIter *batches = data_iter_new(data, plan->batch_size, plan->shuffle, plan->seed);
    data_iter_start(batches, 0);
    for (int s = 0; s < plan->steps && data_iter_next(batches, &X, &y); s++) {
        float loss = train_batch_in_bfloat16(v, weights, has_float32_copy, X, y, plan->lr);
        t.loss = (double)loss / X->shape[0];
    }
    round_to_bfloat16(start, n);
    round_to_bfloat16(weights, n);
    for (size_t j = 0; j < n; j++) {
        t.unmoved += weights[j] == start[j];
        t.unmoved_ones += weights[j] == 1 && start[j] == 1;
    }
    data_iter_free(batches);
    vit_free(v);
    free(weights);
    free(start);
    return t;
}

void print_unmoved(VitPlan plan, const Dataset *data) {
    enum { ROWS = 32, STEPS = 100 };
    if (plan.batch_size > ROWS) plan.batch_size = ROWS;
    plan.steps = data->count / plan.batch_size < STEPS ? data->count / plan.batch_size : STEPS;
    char title[48];
    snprintf(title, sizeof title, "loss of step %d", plan.steps);
    printf("\n");
    Table t = TABLE(NULL, DIGITS("learning rate", 1), WORDS("weights", 19), FIXED(title, 3),
                    WHOLE("not moved"), WHOLE("of layer norms"));
    for (int turn = 0; turn < 4 && !interrupted(); turn++) {
        if (turn == 2) plan.lr /= 10;
        bool has_copy = turn % 2 == 0;
        Trained trained = train_weights(&plan, data, has_copy);
        table_numbers(&t, (double)plan.lr);
        table_text(&t, has_copy ? "with a float32 copy" : "only in bfloat16");
        table_numbers(&t, trained.loss, trained.unmoved, trained.unmoved_ones);
    }
}
