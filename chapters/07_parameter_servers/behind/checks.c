// checks.c: see behind.h.
#include "behind.h"

#include "common/book.h"
#include "common/tensor/adam.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "../asynchronous.h"
#include "../towers.h"

// Minibatch number `clock` as a whole, on the host; free both.
static void load_minibatch(const PsLesson *l, long clock, Tensor **X, Tensor **y) {
    PsLesson alone = *l;
    alone.W = 1;
    *X = tensor_new(host(), l->batch_size, 1, l->train_data->rows, l->train_data->cols);
    *y = tensor_new(host(), l->batch_size);
    ps_load(&alone, clock, 0, *X, *y);
}

// ---- synchronous -------------------------------------------------------------------------------

// For free().
static float *trained_by_chapter_4(const PsLesson *l, int steps, size_t *n) {
    Device *devices[MAX_COMPUTING];
    Tensor *start[LENET_PARAMS], *device_params[MAX_COMPUTING][LENET_PARAMS], *losses[MAX_DEVICES];
    Tensor *X, *y;
    open_devices(devices, l->W);
    choose_allreduce("star");
    lenet_init(start, l->seed);
    for (int w = 0; w < l->W; w++) get_params(start, LENET_PARAMS, devices[w], device_params[w]);
    for (int step = 0; step < steps; step++) {
        load_minibatch(l, step, &X, &y);
        train_batch(X, y, device_params, devices, l->W, l->lr, losses);
        synchronize_all();
        tensor_free(X);
        tensor_free(y);
    }
    float *params = values_of_all(device_params[0], LENET_PARAMS, n);
    for (int w = 0; w < l->W; w++) free_params(device_params[w], LENET_PARAMS);
    free_params(start, LENET_PARAMS);
    return params;
}

void show_synchronous(const PsLesson *lesson, int steps) {
    PsLesson l = *lesson;
    double slow[MOST_WORKERS];
    size_t n;
    l.points = 0;
    for (int w = 0; w < l.W; w++) slow[w] = 1;
    // Transfers take as long as the computation, so some push before others have pulled.
    Pace pace = {.W = l.W, .compute = 1, .transfer = 1, .busy = 1, .slow = slow, .jitter = 0.5};
    pace.seed = l.seed;
    Schedule schedule = schedule_make(&pace, (Discipline){0, 0}, steps);
    PsResult r = ps_replay(&l, &schedule);
    float *expected = trained_by_chapter_4(&l, steps, &n);
    bool equal = n == r.n && memcmp(expected, r.params, n * sizeof *expected) == 0;
    say("\n%d synchronous steps, %d workers, %d servers: %s parameters, %s chapter 4's on %d "
        "devices",
        steps, l.W, l.S, grouped(n).text, equal ? "bit-identical to" : "not", l.W);
    CHECK(equal, "synchronous training is chapter 4's");
    free(expected);
    ps_result_free(&r);
    schedule_free(&schedule);
}

// ---- for real ----------------------------------------------------------------------------------

// Each push takes 1/1024 from every parameter, for which floats have room. So a number that is not
// the number of pushes over 1024 was given a push twice, or not at all.
void check_ones(const PsLesson *lesson) {
    PsLesson l = *lesson;
    l.lr = (float)l.batch_size / 1024;
    l.test_data = NULL;
    printf("\n");
    Table t = TABLE(NULL, WORDS("gradients are 1", 28), WHOLE("pushes"), WHOLE("wrong parameters"),
                    WHOLE("pulls"), WHOLE("torn"));
    for (int careless = 0; careless < 2 && !interrupted(); careless++) {
        AsyncResult r =
            async_run(&l, &(AsyncOptions){.clocks = 16, .ones = true, .careless = careless});
        long wrong = 0;
        for (size_t i = 0; i < lenet_floats(); i++) wrong += r.params[i] != -(float)r.pushes / 1024;
        table_text(&t, careless ? "visits half a range at a time" : "visits a whole range");
        table_numbers(&t, (double)r.pushes, (double)wrong, (double)(r.pushes * l.S),
                      (double)r.torn);
        CHECK(wrong == 0 && (careless || r.torn == 0),
              "every push is applied once, and pulled as a whole");
        async_result_free(&r);
    }
}

void train_for_real(const PsLesson *lesson, const Pace *pace, long clocks) {
    PsLesson l = *lesson;
    float *start = scaled_params(l.seed);
    l.start = start;
    AsyncResult r = async_run(&l, &(AsyncOptions){.clocks = clocks, .slow = pace->slow});
    printf("\n");
    Table t = TABLE(NULL, WORDS("asynchronous, for real", 22), WHOLE("pushes"), FIXED("stale", 2),
                    WHOLE("max"), FIXED("accuracy", 3));
    table_text(&t, "%d workers", l.W);
    table_numbers(&t, (double)r.pushes, staleness_mean(&r.staleness), (double)r.staleness.most,
                  r.accuracy);
    free(start);
    async_result_free(&r);
}

// ---- towers ------------------------------------------------------------------------------------

// What some steps of k towers have changed: by SGD, or by Adam, with the sum divided by
// `divide_by`. free() it.
static float *learned_by_towers(const PsLesson *l, int k, int steps, bool by_adam, int divide_by) {
    Worker vars = worker_new(cpu_device(k), l->seed), towers[MAX_COMPUTING], fetched[MAX_COMPUTING];
    Adam *adam = adam_new(vars.list, LENET_PARAMS, (AdamOptions){0});
    float *before = tensor_values(vars.params);
    for (int i = 0; i < k; i++) towers[i] = worker_new(try_gpu(i), l->seed);
    for (int i = 0; i < k; i++) fetched[i] = worker_new(vars.device, l->seed);
    for (int step = 0; step < steps; step++) {
        Tensor *X, *y;
        load_minibatch(l, step, &X, &y);
        towers_gradients(&vars, towers, fetched, k, X, y);
        if (by_adam)
            adam_step(adam, 1e-3f, divide_by);
        else
            launch(vars.device, sgd, .param = vars.params->data, .grad = vars.grads->data,
                   .lr = l->lr, .batch_size = divide_by, .n = numel(vars.params));
        tensor_free(X);
        tensor_free(y);
    }
    float *change = tensor_values(vars.params);
    for (size_t i = 0; i < lenet_floats(); i++) change[i] -= before[i];
    for (int i = 0; i < k; i++) worker_free(&towers[i]);
    for (int i = 0; i < k; i++) worker_free(&fetched[i]);
    adam_free(adam);
    worker_free(&vars);
    free(before);
    return change;
}

void show_towers(const PsLesson *l) {
    enum { K = 4 };
    static const struct {
        const char *name;
        int steps, divide_by;
        bool adam;
        double least, most; // how far they move
    } rows[] = {{"SGD, sum", 1, 1, false, 3.99, 4.01},
                {"SGD, mean", 1, K, false, 0.99, 1.01},
                {"Adam, sum", 5, 1, true, 0.8, 1.2},
                {"Adam, mean", 5, K, true, 0.99, 1.01}};
    printf("\n");
    Table t = TABLE(NULL, WORDS("4 towers beside one", 20), WHOLE("steps"), FIXED("moved", 3));
    for (int r = 0; r < 4; r++) {
        float *one = learned_by_towers(l, 1, rows[r].steps, rows[r].adam, 1);
        float *many = learned_by_towers(l, K, rows[r].steps, rows[r].adam, rows[r].divide_by);
        double product = 0, square = 0; // how far they moved in the direction of one tower
        for (size_t i = 0; i < lenet_floats(); i++) {
            product += (double)one[i] * (double)many[i];
            square += (double)one[i] * (double)one[i];
        }
        double moved = product / square;
        table_text(&t, "%s", rows[r].name);
        table_numbers(&t, rows[r].steps, moved);
        // (If K does not divide the minibatch, a mean of the towers' means is not its mean.)
        CHECK(l->batch_size % K != 0 || (moved >= rows[r].least && moved <= rows[r].most),
              "a sum is K times the mean, and Adam divides by the size of the gradient");
        free(one);
        free(many);
    }
}
