// factors.c: d2l's second run differs from its first in more than the number of devices. Here a
// small network is trained in six ways, each of which differs from another in one thing.
#include "behind.h"

#include "common/book.h"
#include "chapters/05_resnet18_concise/resnet18.h"

typedef struct Way {
    const char *name;
    int devices, times_batch, times_lr; // of --batch-size and --lr
    BatchNormMode bn;
} Way;

enum { FIRST, TWICE_BATCH, TWICE_LR, TWICE_BOTH, TWO_DEVICES, SYNCHRONISED, NUM_WAYS };
static const Way ways[NUM_WAYS] = {
    [FIRST] = {"d2l's first run", 1, 1, 1, BN_RANK0},
    [TWICE_BATCH] = {"twice the batch size", 1, 2, 1, BN_RANK0},
    [TWICE_LR] = {"twice the learning rate", 1, 1, 2, BN_RANK0},
    [TWICE_BOTH] = {"twice both", 1, 2, 2, BN_RANK0},
    [TWO_DEVICES] = {"twice both on 2 devices", 2, 2, 2, BN_RANK0},
    [SYNCHRONISED] = {"twice both with sync", 2, 2, 2, BN_SYNC},
};

// Test accuracies after the last epoch, with the running statistics that the way says, and, from
// the same training, with the mean of all devices' statistics.
enum { SEEDS = 10 };
static double acc[NUM_WAYS][SEEDS], acc_averaged[NUM_WAYS][SEEDS];

static void evaluate(DataParallel *dp, DataIter *iter, double *as_trained, double *averaged) {
    Tensor *last = flat_parameters(dp->net, dp->devices[dp->k - 1]).buffers;
    Tensor *kept = tensor_to(last, host());
    *as_trained = evaluate_accuracy_gpus(dp, iter);
    tensor_copy(last, kept); // device 0's statistics may have replaced it
    dp->bn = BN_AVERAGED;
    *averaged = evaluate_accuracy_gpus(dp, iter);
    tensor_free(kept);
}

static void train(Module *net, const Flags *flags, Dataset *const images[2], int w, int s) {
    enum { TEST_BATCH = 250 };
    const Way *way = &ways[w];
    int batch_size = way->times_batch * flags->batch_size;
    DataIter *iter =
        data_iter_new(images[0], batch_size, flags->shuffle, flags->seed + (unsigned)s);
    DataIter *test_iter = data_iter_new(images[1], TEST_BATCH, false, 0);
    Device *devices[MAX_DEVICES] = {NULL};
    Tensor *X, *y, *losses[MAX_DEVICES];
    open_devices(devices, way->devices);
    restart(net);
    DataParallel dp = data_parallel(net, devices, way->devices, way->bn);
    for (int epoch = 0; epoch < flags->epochs; epoch++) {
        data_iter_start(iter, epoch);
        while (!interrupted() && data_iter_next(iter, &X, &y)) {
            train_step(&dp, X, y, (float)way->times_lr * flags->lr, losses);
            synchronize_all();
        }
    }
    evaluate(&dp, test_iter, &acc[w][s], &acc_averaged[w][s]);
    data_iter_free(iter);
    data_iter_free(test_iter);
}

static void train_all(const Flags *flags) {
    Dataset *images[2] = {fashion_mnist_open(flags->data, true, flags->train_size),
                          fashion_mnist_open(flags->data, false, flags->test_size)};
    Module *net = narrow_resnet18(FASHION_MNIST_CLASSES);
    Progress progress = progress_start((long)NUM_WAYS * SEEDS);
    for (int s = 0; s < SEEDS; s++)
        for (int w = 0; w < NUM_WAYS && !interrupted(); w++) {
            initialize(net, flags->seed + (unsigned)s);
            train(net, flags, images, w, s);
            progress_step(&progress, ways[w].name);
        }
    progress_clear(&progress);
    module_free(net);
    dataset_free(images[0]);
    dataset_free(images[1]);
}

static void write_outcomes(const char *path, const Flags *flags) {
    OutputFile csv = output_open(path);
    fprintf(csv.stream, "way,devices,batch_size,lr,seed,test_acc,test_acc_averaged\n");
    for (int w = 0; w < NUM_WAYS; w++)
        for (int s = 0; s < SEEDS; s++)
            fprintf(csv.stream, "%s,%d,%d,%g,%llu,%.4f,%.4f\n", ways[w].name, ways[w].devices,
                    ways[w].times_batch * flags->batch_size, ways[w].times_lr * (double)flags->lr,
                    (unsigned long long)flags->seed + (unsigned)s, acc[w][s], acc_averaged[w][s]);
    output_close(&csv);
}

static void read_outcomes(const char *path) {
    FILE *csv = fopen(path, "r");
    if (!csv) die("it belongs to the repository", "cannot read %s", path);
    bool whole = fscanf(csv, "%*[^\n]") == 0;
    for (int w = 0; w < NUM_WAYS; w++)
        for (int s = 0; s < SEEDS; s++)
            whole = whole && fscanf(csv, " %*[^,],%*d,%*d,%*f,%*d,%lf,%lf", &acc[w][s],
                                    &acc_averaged[w][s]) == 2;
    fclose(csv);
    if (!whole) die("run --experiment again", "%s: does not hold all runs", path);
}

// From one way to others (1 << way), in the mean; or, with `averaged`, from one evaluation to the
// other.
typedef struct Change {
    const char *name;
    int from, to;
    bool averaged;
} Change;
enum { TWICE = 1 << TWICE_BOTH | 1 << TWO_DEVICES | 1 << SYNCHRONISED, CHANGES = 6 };
static const Change changes[CHANGES] = {
    {"twice the batch size", FIRST, 1 << TWICE_BATCH, false},
    {"twice the learning rate", FIRST, 1 << TWICE_LR, false},
    {"twice both", FIRST, TWICE, false},
    {"a second device (rank0)", TWICE_BOTH, 1 << TWO_DEVICES, false},
    {"a second device (sync)", TWICE_BOTH, 1 << SYNCHRONISED, false},
    {"averaged statistics", TWO_DEVICES, 1 << TWO_DEVICES, true},
};

// In 5 of 100 such tables, one of the rows is further from the true effect than MARGIN standard
// errors (Student's t with SEEDS - 1 degrees of freedom, for 0.05 / CHANGES, after Bonferroni).
static const double MARGIN = 3.36;

// What the change does to the accuracy from one seed.
static double effect(const Change *change, int seed) {
    double to = 0;
    int n = 0;
    for (int w = 0; w < NUM_WAYS; w++) {
        if (!(change->to & 1 << w)) continue;
        to += change->averaged ? acc_averaged[w][seed] : acc[w][seed];
        n++;
    }
    return to / n - acc[change->from][seed];
}

// Prints the changes with their intervals, and draws them.
static void show_changes(const char *csv, const char *png) {
    OutputFile file = output_open(csv);
    Table t = TABLE(file.stream, WORDS("change", 24, .csv = "change"),
                    FIXED("accuracy", 3, .csv = "accuracy"), FIXED("+-", 3, .csv = "margin"));
    for (int c = 0; c < CHANGES; c++) {
        double by[SEEDS], squares = 0;
        for (int s = 0; s < SEEDS; s++) by[s] = effect(&changes[c], s);
        for (int s = 0; s < SEEDS; s++) squares += pow(by[s] - mean(by, SEEDS), 2);
        table_text(&t, "%s", changes[c].name);
        table_numbers(&t, mean(by, SEEDS), MARGIN * sqrt(squares / (SEEDS - 1) / SEEDS));
    }
    output_close(&file);
    plot_draw(png, "resnet18_effects.gp", csv);
}

void run_experiment(const Flags *flags) {
    if (flags->backend == BACKEND_MODEL || flags->devices > 0)
        die_usage("leave the other one out", "--experiment takes 1 and 2 devices that compute; not "
                                             "with --devices or --backend model");
    book_outputs("_factors.csv _effects.csv _effects.png");
    const char *runs = book_output("_factors.csv"), *csv = book_output("_effects.csv");
    const char *png = book_output("_effects.png");
    say("%d runs: %d ways from %d seeds, %d epoch%s of %d images", NUM_WAYS * SEEDS, NUM_WAYS,
        SEEDS, flags->epochs, flags->epochs > 1 ? "s" : "", flags->train_size);
    train_all(flags);
    if (interrupted()) return;
    write_outcomes(runs, flags);
    show_changes(csv, png);
}

void show_recorded_experiment(const char *csv, const char *png) {
    char *runs = plot_script("recorded/resnet18_factors.csv");
    read_outcomes(runs);
    double least = acc[FIRST][0], most = least;
    for (int s = 1; s < SEEDS; s++) least = fmin(least, acc[FIRST][s]);
    for (int s = 1; s < SEEDS; s++) most = fmax(most, acc[FIRST][s]);
    say("--experiment, as recorded: %s, %d seeds: test acc %.3f to %.3f", ways[FIRST].name, SEEDS,
        least, most);
    show_changes(csv, png);
    free(runs);
}
