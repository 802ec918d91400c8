// main.c: the story of chapter 10. README.md says how to run it and what to read.
#include "common/book.h"
#include "behind/behind.h"
#include "vit.h"

// ## The program

typedef struct Notebook {
    Flags flags;
    int width, k;
    Dataset *train_data, *test_data;
    DataIter *test_iter;
    Curves *curves;
} Notebook;

// The part of the test images that is classified correctly. All devices compute, and device 0
// counts.
static double evaluate(const Vit *v, DataIter *iter) {
    Tensor *X, *y, *images[MOST_SPLIT], *labels[MOST_SPLIT], *y_hat[MOST_SPLIT];
    Accuracy a = accuracy_begin(v->devices, 1);
    data_iter_start(iter, 0);
    while (data_iter_next(iter, &X, &y)) {
        vit_load(v, X, y, images, labels);
        vit_forward(v, images, y_hat);
        accuracy_count(&a, y_hat, labels);
    }
    return accuracy_end(&a);
}

static double training_loop(Notebook *nb, Vit *v, DataIter *train_iter) {
    Tensor *X, *y, *losses[MOST_SPLIT];
    Timer timer = {0};
    double acc = NAN;
    for (int epoch = 0; epoch < nb->flags.epochs && curves_more(nb->curves); epoch++) {
        double loss = 0;
        int images = 0;
        timer_start(&timer);
        data_iter_start(train_iter, epoch);
        while (curves_next(nb->curves, train_iter, &X, &y)) {
            vit_train_batch(v, X, y, nb->flags.lr, losses);
            loss += curves_loss(nb->curves, losses, X->shape[0]);
            images += X->shape[0];
        }
        timer_stop(&timer);
        if (interrupted()) break; // Ctrl-C: whole epochs are kept
        acc = evaluate(v, nb->test_iter);
        curves_epoch(nb->curves, loss / images, acc, &timer);
    }
    return acc;
}

static void train(Notebook *nb) {
    const Flags *flags = &nb->flags;
    Device *devices[MOST_SPLIT];
    open_devices(devices, nb->k);
    bool values = has_values(devices[0]);
    float *start = values ? vit_start(nb->width, flags->seed) : NULL;
    DataIter *train_iter =
        data_iter_new(nb->train_data, flags->batch_size, flags->shuffle, flags->seed);
    nb->test_iter = data_iter_new(nb->test_data, 256, false, 0);
    nb->curves =
        curves_new(flags, values ? book_output(".csv") : NULL, values ? book_output(".png") : NULL);
    curves_begin(nb->curves, train_iter, devices, 1, flags->lr);
    Vit *v = vit_new(nb->width, devices, nb->k, start, (AdamOptions){0});
    free(start);
    double acc = training_loop(nb, v, train_iter);
    curves_end(nb->curves, acc);
    curves_free(nb->curves);
    vit_free(v);
    data_iter_free(nb->test_iter);
    data_iter_free(train_iter);
}

// ## The comparisons

static VitPlan plan_of(const Notebook *nb, int k) {
    return (VitPlan){.k = k,
                     .width = nb->width,
                     .batch_size = nb->flags.batch_size,
                     .steps = COMPARED_STEPS,
                     .seed = nb->flags.seed};
}

static void compare_devices(const Notebook *nb) {
    static const int counts[] = {1, 2, 3, 4, 8};
    enum { RUNS = sizeof counts / sizeof *counts, ONE = 0, FOUR = 3 };
    VitRun runs[RUNS];
    int n = 0;
    for (; n < RUNS && book_can_use_devices(counts[n]); n++) {
        VitPlan plan = plan_of(nb, counts[n]);
        runs[n] = run_steps(&plan, nb->train_data);
    }
    print_bits(runs, n);
    if (n > FOUR) {
        double times = print_sent(&runs[FOUR]);
        (void)times;
        print_split_memory(&runs[ONE], &runs[FOUR]);
    }
    for (int i = 0; i < n; i++) vit_run_free(&runs[i]);
}

static void make_mistakes(const Notebook *nb) {
    VitRun runs[1 + NUM_MISTAKES], first[1 + NUM_MISTAKES];
    for (int m = 0; m <= NUM_MISTAKES; m++) {
        VitPlan plan = plan_of(nb, 4);
        plan.mistake = m == 0 ? NULL : &mistakes[m - 1];
        runs[m] = run_steps(&plan, nb->train_data);
        plan.steps = 1;
        first[m] = run_steps(&plan, nb->train_data);
    }
    print_mistakes(runs, first);
    for (int m = 0; m <= NUM_MISTAKES; m++) {
        vit_run_free(&runs[m]);
        vit_run_free(&first[m]);
    }
}

int main(int argc, char *argv[]) {
    static Notebook nb;
    bool costs = false;
    const Flag own_flags[] = {
        {"width", FLAG_INTEGER, &nb.width, "D", .help = "numbers in each token, a multiple of 8",
         .standard = "64", .least = 8, .most = 1024},
        {"costs", FLAG_ON, &costs, .help = "only model a step (CSV)"},
        {0},
    };
    nb.flags = book_begin(argc, argv, "Trains a vision transformer whose layers are split.",
                          "devices batch-size lr=0.001 epochs=5 seed train-size test-size steps "
                          "no-shuffle data live",
                          (Program){.own = own_flags, .next = "make book"});
    nb.k = book_devices(nb.flags.devices, 4, 1);
    book_outputs(".csv .png _block.png _block.svg");
    nb.train_data = fashion_mnist_open(nb.flags.data, true, nb.flags.train_size);
    nb.test_data = fashion_mnist_open(nb.flags.data, false, nb.flags.test_size);
    if (costs) {
        VitPlan plan = plan_of(&nb, nb.k);
        tell_costs(&plan);
        return book_end();
    }
    train(&nb);
    compare_devices(&nb);
    make_mistakes(&nb);
    print_when_it_pays();
    draw_block();
    dataset_free(nb.train_data);
    dataset_free(nb.test_data);
    return book_end();
}
