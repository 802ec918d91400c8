// checks.c: see behind.h.
#include "behind.h"

#include "common/book.h"
#include "common/tensor/adam.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "../asynchronous.h"
#include "../towers.h"

// Parameters after some steps of chapter 4; free() them.
static float *trained_by_chapter_4(const PsLesson *l, int steps, size_t *n) {
    Device *devices[MAX_COMPUTING];
    Tensor *start[LENET_PARAMS], *device_params[MAX_COMPUTING][LENET_PARAMS], *losses[MAX_DEVICES];
    PsLesson alone = *l;
    alone.W = 1; // whose shard is the whole minibatch
    Station all = station_new(&alone, 0);
    open_devices(devices, l->W);
    choose_allreduce("star");
    lenet_init(start, l->seed);
    for (int w = 0; w < l->W; w++) get_params(start, LENET_PARAMS, devices[w], device_params[w]);
    for (int step = 0; step < steps; step++) {
        ps_load(&alone, step, 0, all.X, all.y);
        train_batch(all.X, all.y, device_params, devices, l->W, l->lr, losses);
        synchronize_all();
    }
    station_free(&all);
    float *params = values_of_all(device_params[0], LENET_PARAMS, n);
    for (int w = 0; w < l->W; w++) free_params(device_params[w], LENET_PARAMS);
    free_params(start, LENET_PARAMS);
    return params;
}

void show_synchronous(const PsLesson *l, int steps) {
    size_t n;
    // Transfers take as long as the computation, so some push before others have pulled.
    Pace pace = {.W = l->W, .compute = 1, .transfer = 1, .busy = 1, .jitter = 0.5};
    Schedule schedule = schedule_make(&pace, (Discipline){0, 0}, steps);
    PsResult r = ps_replay(l, &schedule);
    float *expected = trained_by_chapter_4(l, steps, &n);
    bool equal = memcmp(expected, r.params, n * sizeof *expected) == 0;
    say("\n%d synchronous steps, %d workers, %d servers: %s parameters, %s chapter 4's on %d "
        "devices",
        steps, l->W, l->S, grouped(n).text, equal ? "bit-identical to" : "not", l->W);
    CHECK(equal, "synchronous training is chapter 4's");
    free(expected);
    ps_result_free(&r);
    schedule_free(&schedule);
}

// Each push takes 1/1024 from every parameter, for which floats have room. So a number that is not
// the number of pushes over 1024 was given a push twice, or not at all.
void check_ones(const PsLesson *lesson) {
    PsLesson l = *lesson;
    l.lr = (float)l.batch_size / 1024;
    l.test_data = NULL;
    printf("\n");
    Table t = TABLE(NULL, WORDS("gradients are 1", 20), WHOLE("pushes"), WHOLE("wrong parameters"),
                    WHOLE("pulls"), WHOLE("torn"));
    for (int all = 0; all < 2 && !interrupted(); all++) {
        int together = all ? l.S : 1;
        AsyncResult r = async_run(&l, &(AsyncOptions){.clocks = 256, .ones = together});
        long wrong = 0;
        for (size_t i = 0; i < lenet_floats(); i++) wrong += r.params[i] != -(float)r.pushes / 1024;
        table_text(&t, all ? "all servers together" : "one server");
        table_numbers(&t, (double)r.pushes, (double)wrong, (double)(r.pushes * l.S / together),
                      (double)r.torn);
        CHECK(wrong == 0 && (all || r.torn == 0),
              "every push is applied once, and pulled from a server as a whole");
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
                    WHOLE("max"));
    table_text(&t, "%d workers", l.W);
    table_numbers(&t, (double)r.pushes, staleness_mean(&r.staleness), (double)r.staleness.most);
    free(start);
    async_result_free(&r);
}

// What one step with the sum of k towers has changed; free() it.
static float *learned_by_towers(const PsLesson *l, int k, bool by_adam) {
    Worker vars = worker_new(cpu_device(k), l->seed), towers[MAX_COMPUTING], fetched[MAX_COMPUTING];
    PsLesson alone = *l;
    alone.W = 1; // whose shard is the whole minibatch
    Station all = station_new(&alone, 0);
    Adam *adam = adam_new(vars.list, LENET_PARAMS, (AdamOptions){0});
    float *before = tensor_values(vars.params);
    for (int i = 0; i < k; i++) towers[i] = worker_new(try_gpu(i), l->seed);
    for (int i = 0; i < k; i++) fetched[i] = worker_new(vars.device, l->seed);
    ps_load(&alone, 0, 0, all.X, all.y);
    towers_gradients(&vars, towers, fetched, k, all.X, all.y);
    if (by_adam)
        adam_step(adam, 1e-3f, 1);
    else
        launch(vars.device, sgd, .param = vars.params->data, .grad = vars.grads->data, .lr = l->lr,
               .batch_size = 1, .n = numel(vars.params));
    station_free(&all);
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
    printf("\n");
    Table t = TABLE(NULL, WORDS("sum of 4 towers", 16), FIXED("moved", 3));
    for (int adam = 0; adam < 2; adam++) {
        float *one = learned_by_towers(l, 1, adam), *many = learned_by_towers(l, K, adam);
        double product = 0, square = 0; // how far they moved in the direction of one tower
        for (size_t i = 0; i < lenet_floats(); i++) {
            product += (double)one[i] * (double)many[i];
            square += (double)one[i] * (double)one[i];
        }
        table_text(&t, adam ? "Adam" : "SGD");
        table_numbers(&t, product / square);
        CHECK(l->batch_size % K != 0 || fabs(product / square - (adam ? 1 : K)) < 0.2,
              "a sum is K times the mean, and Adam divides by the size of the gradient");
        free(one);
        free(many);
    }
}
