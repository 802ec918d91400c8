// test_servers.c: chapter 7: schedules, parameter servers and towers against chapter 4, Adam
// against PyTorch's figures, and what must hold when workers come as they like.
#include "common/base/error.h"
#include "common/tensor/adam.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "chapters/07_parameter_servers/real.h"
#include "chapters/07_parameter_servers/replay.h"
#include "chapters/07_parameter_servers/towers.h"
#include "dies.h"

static Dataset *images;

static PsLesson lesson_of(int W,
                          int S) { // whose accuracy is taken on the way, which changes nothing
    return (PsLesson){.train_data = images,
                      .test_data = images,
                      .W = W,
                      .S = S,
                      .batch_size = 28,
                      .lr = 0.1f,
                      .seed = 3,
                      .points = 7};
}

static Pace even_pace(int W, double slow[]) {
    for (int w = 0; w < W; w++) slow[w] = 1;
    return (Pace){.W = W,
                  .compute = 1,
                  .slow = slow,
                  .jitter = 0.3,
                  .transfer = 0.1,
                  .busy = 0.05,
                  .timeout = INFINITY,
                  .dies = -1,
                  .seed = 1};
}

// ---- schedules ---------------------------------------------------------------------------------

// What must hold in every schedule: the time goes on, each pull is followed by one push, drop or
// loss of the same step, nobody is ahead of the slowest by more than the bound when it pulls.
static void check_schedule(const Schedule *s, Discipline how, long clocks) {
    long pushes[MOST_WORKERS] = {0}, step[MOST_WORKERS], all = 0;
    bool computes[MOST_WORKERS] = {false}, lost[MOST_WORKERS] = {false};
    for (int i = 0; i < s->count; i++) {
        const Happening *e = &s->list[i];
        int w = e->worker;
        assert_true(i == 0 || e->time >= s->list[i - 1].time);
        assert_false(lost[w]);
        assert_true(computes[w] == (e->kind != EVENT_PULL));
        computes[w] = e->kind == EVENT_PULL;
        if (e->kind != EVENT_PULL) assert_int_equal(e->clock, step[w]);
        step[w] = e->clock;
        lost[w] = e->kind == EVENT_LOST;
        all += e->kind == EVENT_PUSH;
        if (e->kind == EVENT_PUSH) pushes[w]++;
        for (int v = 0; v < s->W && e->kind == EVENT_PULL && how.backup == 0; v++)
            assert_true(lost[v] || pushes[w] - pushes[v] <= how.staleness);
    }
    assert_int_equal(all, (s->W - how.backup) * clocks);
}

static void test_schedules(void **state) {
    (void)state;
    const Discipline hows[] = {{0, 0}, {1, 0}, {3, 0}, {NO_BOUND, 0}, {0, 1}, {0, 2}};
    for (int W = 1; W <= 7; W++)
        for (int h = 0; h < 6; h++)
            for (int straggler = 0; straggler < 3; straggler++) {
                double slow[MOST_WORKERS];
                Pace pace = even_pace(W, slow);
                if (hows[h].backup >= W) continue;
                if (straggler == 1) slow[0] = 4;
                if (straggler == 2) pace.odds = 0.2;
                pace.stall = 4;
                Schedule s = schedule_make(&pace, hows[h], 50);
                Schedule again = schedule_make(&pace, hows[h], 50);
                check_schedule(&s, hows[h], 50);
                assert_int_equal(s.count, again.count);
                assert_memory_equal(s.list, again.list, sizeof *s.list * (size_t)s.count);
                schedule_free(&s);
                schedule_free(&again);
            }
}

static double seconds_of_schedule(Discipline how, double slowest) {
    double slow[MOST_WORKERS];
    Pace pace = even_pace(4, slow);
    slow[3] = slowest;
    Schedule s = schedule_make(&pace, how, 200);
    double seconds = s.list[s.count - 1].time;
    schedule_free(&s);
    return seconds;
}

static void test_a_straggler(void **state) {
    (void)state;
    double sync = seconds_of_schedule((Discipline){0, 0}, 4);
    double async = seconds_of_schedule((Discipline){NO_BOUND, 0}, 4);
    double backup = seconds_of_schedule((Discipline){0, 1}, 4);
    assert_true(sync > 3 * async);    // 4.2 against 4 / 3.25 + ..
    assert_true(backup < 0.4 * sync); // the slow one is never waited for
    assert_true(seconds_of_schedule((Discipline){3, 0}, 4) >
                0.9 * sync); // in the long run it sets the pace
}

// Who stalls in every step is a slow worker; and so often is who stalls in some.
static void test_stalls(void **state) {
    (void)state;
    enum { CLOCKS = 2000 };
    double slow[MOST_WORKERS], stalled = 0, pulled = 0;
    Pace always = even_pace(3, slow), some = even_pace(1, slow);
    always.odds = 1;
    always.stall = 4;
    Schedule a = schedule_make(&always, (Discipline){1, 0}, 20);
    always.odds = 0;
    always.compute = 4;
    Schedule b = schedule_make(&always, (Discipline){1, 0}, 20);
    assert_int_equal(a.count, b.count);
    assert_memory_equal(a.list, b.list, sizeof *a.list * (size_t)a.count);
    schedule_free(&a);
    schedule_free(&b);
    some.odds = 0.25;
    some.stall = 4;
    a = schedule_make(&some, (Discipline){0, 0}, CLOCKS);
    for (int i = 0; i < a.count; i++) {
        if (a.list[i].kind == EVENT_PULL) pulled = a.list[i].time;
        stalled += a.list[i].kind == EVENT_PUSH && a.list[i].time - pulled > 2;
    }
    assert_true(fabs(stalled / CLOCKS - 0.25) < 0.04); // 4 standard deviations
    schedule_free(&a);
}

static void test_a_lost_worker(void **state) {
    (void)state;
    const Discipline hows[] = {{0, 0}, {1, 0}, {NO_BOUND, 0}, {0, 1}};
    for (int h = 0; h < 4; h++) {
        double slow[MOST_WORKERS];
        Pace pace = even_pace(3, slow);
        pace.dies = 1;
        pace.at = 5;
        pace.timeout = 10;
        Schedule s = schedule_make(&pace, hows[h], 20);
        double pulled = 0, lost = 0;
        int after = 0;
        for (int i = 0; i < s.count; i++) {
            const Happening *e = &s.list[i];
            if (e->worker == 1 && e->kind == EVENT_PULL) pulled = e->time;
            if (e->kind == EVENT_LOST) {
                assert_int_equal(e->worker, 1);
                lost = e->time;
            }
            after += lost > 0 && e->kind == EVENT_PUSH;
        }
        assert_true(fabs(lost - pulled - 10) < 1e-9);  // noticed when it was to be
        assert_true(h == 0 ? after == 0 : after > 10); // only the synchronous training ends
        schedule_free(&s);
    }
}

static void test_files(void **state) {
    (void)state;
    double slow[MOST_WORKERS];
    Pace pace = even_pace(3, slow);
    Schedule s = schedule_make(&pace, (Discipline){NO_BOUND, 0}, 10);
    schedule_write(&s, in_test_folder("schedule"));
    Schedule read = schedule_read(in_test_folder("schedule"), &pace, (Discipline){NO_BOUND, 0}, 10);
    assert_string_equal(read.made_from, s.made_from);
    assert_int_equal(read.count, s.count);
    for (int i = 0; i < s.count; i++) {
        assert_int_equal(read.list[i].kind, s.list[i].kind);
        assert_int_equal(read.list[i].worker, s.list[i].worker);
        assert_int_equal(read.list[i].clock, s.list[i].clock);
    }
    schedule_free(&s);
    schedule_free(&read);
}

// Behind the right first line.
static void read_text(void *text) {
    double slow[MOST_WORKERS];
    Pace pace = even_pace(2, slow);
    Schedule s = schedule_make(&pace, (Discipline){0, 0}, 1);
    char *all = xprintf("%s\n%s", s.made_from, (const char *)text);
    write_bytes(in_test_folder("bad"), all, strlen(all));
    free(all);
    schedule_free(&s);
    schedule_read(in_test_folder("bad"), &pace, (Discipline){0, 0}, 1);
}

typedef struct Reading {
    const char *file;
    Discipline how;
    long clocks;
    int W; // 0: 2
    double slow;
} Reading;

static void read_as(void *reading) {
    const Reading *r = reading;
    double slow[MOST_WORKERS];
    Pace pace = even_pace(r->W > 0 ? r->W : 2, slow);
    slow[0] = r->slow;
    schedule_read(in_test_folder(r->file), &pace, r->how, r->clocks);
}

static void test_bad_files(void **state) {
    (void)state;
    const char *const bad[][2] = {
        {"0 pull 0\n", "bad:2: not four fields"},
        {"0 pull 0 0\n1 push 0 1\n", "bad:3: this is not the step"},
        {"0 pull 0 0\n1 pull 0 0\n", "bad:3: this worker has pulled already"},
        {"0 push 1 0\n", "bad:2: this worker has not pulled"},
        {"0 pull 2 0\n", "bad:2: no such worker"},
        {"0 pull 0 1\n1 push 0 1\n1 pull 0 1\n", "bad:4: this worker has made this step"},
        {"1 pull 0 0\n0 pull 1 0\n", "bad:3: the time goes back"},
        {"nan pull 0 0\n", "bad:2: a number below 0"},
        {"0 pulls 0 0\n", "bad:2: no such event"},
        {"0 pull 0 0\n1 push 0 0\n", "bad: 1 pushes, and not 2"},
        {"# nothing\n", "no events"}};
    for (int i = 0; i < 11; i++) expect_death(1, bad[i][1], read_text, (void *)bad[i][0]);
    write_bytes(in_test_folder("bad"), "0 pull 0 0\n", 11);
    expect_death(1, "bad:1: not the first line", read_as, &(Reading){"bad", {0, 0}, 1, 0, 1});
    write_bytes(in_test_folder("bad"), "", 0);
    expect_death(1, "bad: cannot be read, or empty", read_as, &(Reading){"bad", {0, 0}, 1, 0, 1});
    expect_death(1, ": cannot be read, or empty", read_as, &(Reading){".", {0, 0}, 1, 0, 1});
}

// A file of another run is refused, and it is said what differs.
static void test_files_of_other_runs(void **state) {
    (void)state;
    double slow[MOST_WORKERS];
    Pace pace = even_pace(3, slow);
    Schedule s = schedule_make(&pace, (Discipline){2, 0}, 10);
    schedule_write(&s, in_test_folder("run"));
    schedule_free(&s);
    const struct {
        Reading reading;
        const char *difference;
    } others[] = {
        {{"run", {1, 0}, 10, 3, 1}, "made with staleness 2, and this run has 1"},
        {{"run", {NO_BOUND, 0}, 10, 3, 1}, "made with staleness 2, and this run has none"},
        {{"run", {0, 1}, 10, 3, 1}, "made with staleness 2, and this run has 0"},
        {{"run", {2, 0}, 11, 3, 1}, "made with steps 10, and this run has 11"},
        {{"run", {2, 0}, 10, 4, 1}, "made with workers 3, and this run has 4"},
        {{"run", {2, 0}, 10, 3, 5}, "made with slow 1,1,1, and this run has 5,1,1"},
    };
    for (int i = 0; i < 6; i++)
        expect_death(1, others[i].difference, read_as, (void *)&others[i].reading);
}

// ---- synchronous: chapter 4 --------------------------------------------------------------------

enum { STEPS = 5 };

static float *by_chapter_4(const PsLesson *l, int steps, size_t *n) {
    Device *devices[MOST_WORKERS];
    Tensor *start[LENET_PARAMS], *device_params[MOST_WORKERS][LENET_PARAMS], *losses[MAX_DEVICES];
    Tensor *X = tensor_new(host(), l->batch_size, 1, 28, 28),
           *y = tensor_new(host(), l->batch_size);
    PsLesson alone = *l;
    alone.W = 1;
    open_devices(devices, l->W);
    choose_allreduce("star");
    lenet_init(start, l->seed);
    for (int w = 0; w < l->W; w++) get_params(start, LENET_PARAMS, devices[w], device_params[w]);
    for (int step = 0; step < steps; step++) {
        ps_load(&alone, step, 0, X, y);
        train_batch(X, y, device_params, devices, l->W, l->lr, losses);
        synchronize_all();
    }
    float *params = values_of_all(device_params[0], LENET_PARAMS, n);
    for (int w = 0; w < l->W; w++) free_params(device_params[w], LENET_PARAMS);
    free_params(start, LENET_PARAMS);
    tensor_free(X);
    tensor_free(y);
    return params;
}

static float *by_servers(const PsLesson *l, Discipline how, int steps, uint64_t seed) {
    double slow[MOST_WORKERS];
    Pace pace = even_pace(l->W, slow);
    pace.seed = seed;
    Schedule s = schedule_make(&pace, how, steps);
    PsResult r = ps_replay(l, &s);
    float *params = r.params;
    assert_int_equal(r.applied, (l->W - how.backup) * steps);
    free(r.points);
    schedule_free(&s);
    return params;
}

static void test_synchronous(void **state) {
    (void)state;
    const int Ws[] = {1, 2, 3, 4, 7};
    for (int i = 0; i < (SANITIZED ? 3 : 5); i++) {
        size_t n;
        PsLesson l = lesson_of(Ws[i], 1);
        float *expected = by_chapter_4(&l, STEPS, &n);
        for (l.S = 1; l.S <= 3; l.S++) { // in another order of arrival each time
            float *params = by_servers(&l, (Discipline){0, 0}, STEPS, (uint64_t)l.S);
            assert_memory_equal(params, expected, n * sizeof *params);
            free(params);
        }
        free(expected);
    }
}

// Over links that are slower than the workers a push arrives before all have pulled; and a backup
// worker that was late pulls in the middle of a round. Neither may get what belongs to the round.
static void test_rounds_have_one_update(void **state) {
    (void)state;
    size_t n;
    for (int W = 2; W <= 8; W *= 2) {
        PsLesson l = lesson_of(W, 1);
        float *expected = by_chapter_4(&l, STEPS, &n);
        for (int backup = 0; backup < 3 && backup < W; backup++) {
            double slow[MOST_WORKERS];
            Pace pace = even_pace(W, slow);
            pace.busy = pace.transfer = 2;
            pace.odds = 0.3;
            pace.stall = 4;
            Schedule s = schedule_make(&pace, (Discipline){0, backup}, STEPS);
            PsResult r = ps_replay(&l, &s);
            assert_int_equal(r.most_staleness, 0);
            assert_true(r.mean_staleness == 0);
            if (backup == 0) assert_memory_equal(r.params, expected, n * sizeof *expected);
            ps_result_free(&r);
            schedule_free(&s);
        }
        free(expected);
    }
}

// A push that has missed more than the histogram has room for counts in the mean and in the
// maximum as it is.
static void test_very_stale(void **state) {
    (void)state;
    enum { PUSHES = MOST_STALE + 44 };
    Device *device = try_gpu(0);
    Servers *v = servers_new(&device, 1, 2, 1, 0);
    Worker fast = worker_new(device, 1), late = worker_new(device, 1);
    for (long step = 0; step < PUSHES; step++) {
        servers_push(v, 0, &fast, (Push){.clock = step, .rows = 1, .based_on = v->applied});
        servers_apply(v, ALL_CLOCKS);
    }
    servers_push(v, 1, &late, (Push){.clock = 0, .rows = 1, .based_on = 0});
    servers_apply(v, ALL_CLOCKS);
    assert_int_equal(v->applied, PUSHES + 1);
    assert_int_equal(v->stale_most, PUSHES);
    assert_int_equal(v->stale_sum, PUSHES);
    assert_int_equal(v->staleness[MOST_STALE], 1);
    worker_free(&fast);
    worker_free(&late);
    servers_free(v);
}

// What a push of gradients that are all 1 changes, if so many others (of gradients that are 0) were
// applied since its worker pulled.
static float change_by(long others, bool lr_by_staleness) {
    Device *device = try_gpu(0);
    Servers *v = servers_new(&device, 1, 2, 1, 0.5f);
    Worker fast = worker_new(device, 1), late = worker_new(device, 1);
    float *before = tensor_values(v->params[0]);
    v->lr_by_staleness = lr_by_staleness;
    for (long step = 0; step < others; step++) {
        servers_push(v, 0, &fast, (Push){.clock = step, .rows = 1, .based_on = v->applied});
        servers_apply(v, ALL_CLOCKS);
    }
    tensor_fill(late.grads, 1);
    servers_push(v, 1, &late, (Push){.clock = 0, .rows = 1, .based_on = 0});
    servers_apply(v, ALL_CLOCKS);
    float *after = tensor_values(v->params[0]), change = before[0] - after[0];
    free(before);
    free(after);
    worker_free(&fast);
    worker_free(&late);
    servers_free(v);
    return change;
}

// --staleness-lr: a push of staleness t counts 1/t, and in full if t is 0 or 1.
static void test_staleness_lr(void **state) {
    (void)state;
    for (long t = 0; t <= 5; t++) {
        assert_float_equal(change_by(t, false), 0.5f, 1e-6f);
        assert_float_equal(change_by(t, true), t > 1 ? 0.5f / (float)t : 0.5f, 1e-6f);
    }
}

// What is loaded follows from the lesson alone, whatever was loaded before.
static void test_orders(void **state) {
    (void)state;
    Tensor *X = tensor_new(host(), 28, 1, 28, 28), *y = tensor_new(host(), 28);
    Tensor *X_other = tensor_new(host(), 28, 1, 28, 28);
    PsLesson l = lesson_of(1, 1), other = lesson_of(1, 1), fewer = lesson_of(1, 1);
    Dataset *few = fashion_mnist_open(NULL, true, 28);
    other.seed = l.seed + 1;
    fewer.train_data = few;
    ps_load(&l, 0, 0, X, y);
    ps_load(&other, 0, 0, X_other, y);
    assert_memory_not_equal(X->data, X_other->data, tensor_bytes(X));
    ps_load(&fewer, 0, 0, X_other, y); // all of its 28 images, and none beyond
    ps_load(&l, 0, 0, X_other, y);
    assert_memory_equal(X->data, X_other->data, tensor_bytes(X));
    dataset_free(few);
    tensor_free(X);
    tensor_free(X_other);
    tensor_free(y);
}

static void test_one_worker(void **state) {
    (void)state;
    size_t n;
    PsLesson l = lesson_of(1, 2);
    float *expected = by_chapter_4(&l, STEPS, &n); // on one device: plain gradient descent
    float *params = by_servers(&l, (Discipline){NO_BOUND, 0}, STEPS, 1);
    assert_memory_equal(params, expected, n * sizeof *params);
    free(params);
    free(expected);
}

static void test_same_schedule_same_bits(void **state) {
    (void)state;
    PsLesson l = lesson_of(3, 2);
    const Discipline hows[] = {{1, 0}, {NO_BOUND, 0}, {0, 1}};
    for (int h = 0; h < 3; h++) {
        float *a = by_servers(&l, hows[h], 6, 1), *b = by_servers(&l, hows[h], 6, 1);
        float *c = by_servers(&l, hows[h], 6, 2);
        assert_memory_equal(a, b, lenet_floats() * sizeof *a);
        assert_memory_not_equal(a, c,
                                lenet_floats() * sizeof *a); // another order is another result
        free(a);
        free(b);
        free(c);
    }
}

// ---- towers and Adam ---------------------------------------------------------------------------

static float *by_towers(int k, Combine combine, bool adam, float lr, int steps) {
    Device *devices[MOST_WORKERS];
    size_t n;
    PsLesson l = lesson_of(1, 1);
    Tensor *X = tensor_new(host(), l.batch_size, 1, 28, 28), *y = tensor_new(host(), l.batch_size);
    open_devices(devices, k);
    Towers *t = towers_new(devices, k, l.seed, combine, adam);
    for (int step = 0; step < steps; step++) {
        ps_load(&l, step, 0, X, y);
        towers_step(t, X, y, lr);
    }
    float *params = values_of_all(t->vars, LENET_PARAMS, &n);
    towers_free(t);
    tensor_free(X);
    tensor_free(y);
    return params;
}

static void test_towers(void **state) {
    (void)state;
    float *one = by_towers(1, TOWERS_SUM, false, 0.2f, 1);
    float *mean = by_towers(4, TOWERS_MEAN, false, 0.2f, 1);
    float *sum = by_towers(4, TOWERS_SUM, false, 0.05f, 1); // a sum of 4 is 4 times the mean
    assert_true(relative_difference(one, mean, NULL, lenet_floats()) < 1e-7);
    assert_true(relative_difference(one, sum, NULL, lenet_floats()) < 1e-7);
    free(one);
    free(mean);
    free(sum);
}

// torch.optim.Adam: four steps with lr 0.1, with its own betas and eps, and with others.
// Made by tests/reference/make_adam.py.
#include "reference/adam.h"

static void check_adam(Device *device, AdamOptions options, const float *expected) {
    Tensor *p = tensor_new(device, ADAM_N);
    tensor_write(p, adam_start);
    attach_grad(p);
    Adam *adam = adam_new(&p, 1, options);
    for (int step = 0; step < ADAM_STEPS; step++) {
        float grads[ADAM_N];
        for (int i = 0; i < ADAM_N; i++) grads[i] = 4 * adam_grads[step][i]; // sums over 4 rows
        tensor_write(p->grad, grads);
        adam_step(adam, 0.1f, 4);
    }
    float got[ADAM_N], zero[ADAM_N];
    double wanted[ADAM_N];
    tensor_read(p, got);
    tensor_read(p->grad, zero);
    for (int i = 0; i < ADAM_N; i++) {
        wanted[i] = expected[i];
        assert_true(zero[i] == 0);
    }
    assert_all_close(got, wanted, ADAM_N, 2e-6, "Adam");
    adam_free(adam);
    tensor_free(p);
}

static void test_adam(void **state) {
    Device *device = device_under_test(state);
    check_adam(device, (AdamOptions){0}, adam_expected);
    check_adam(device, (AdamOptions){.beta1 = 0.5f, .beta2 = 0.75f, .eps = 1e-3f},
               adam_expected_other);
}

// ---- for real ----------------------------------------------------------------------------------

// Every gradient is 1, so however workers meet: at the end every number has gone down by the same,
// and nobody has ever seen two numbers of a range that differ.
static void test_real(void **state) {
    (void)state;
    for (int S = 1; S <= 3; S++) {
        PsLesson l = lesson_of(4, S);
        l.lr = 28.0f / 1024; // 1/1024 for each push: exact
        l.test_data = NULL;
        RealOptions options = {
            .clocks = SANITIZED ? 10 : 40, .dies = -1, .timeout = 60, .ones = true};
        RealResult r = real_run(&l, &options);
        assert_int_equal(r.pushes, 4 * options.clocks);
        assert_int_equal(r.torn, 0);
        for (int s = 0; s < S; s++) assert_int_equal(r.applied[s], r.pushes);
        for (size_t i = 0; i < lenet_floats(); i++)
            assert_true(r.params[i] == -(float)r.pushes / 1024);
        assert_int_equal(r.lost_worker, -1);
        real_result_free(&r);
    }
}

static void test_real_lost(void **state) {
    (void)state;
    PsLesson l = lesson_of(3, 2);
    l.test_data = NULL;
    RealOptions options = {.clocks = 8, .dies = 1, .at = 3, .timeout = 1};
    RealResult r = real_run(&l, &options);
    assert_int_equal(r.lost_worker, 1);
    assert_true(r.noticed >= 1 && r.noticed < 1 + (SANITIZED ? 60 : 10));
    assert_int_equal(r.pushes, 3 * 8); // the others make them all
    for (int s = 0; s < 2; s++) assert_int_equal(r.applied[s], r.pushes);
    real_result_free(&r);
    l.W = 1;
    options.dies = 0;
    r = real_run(&l, &options);
    assert_int_equal(r.lost_worker, 0);
    assert_int_equal(r.pushes, 3); // there are no others
    real_result_free(&r);
}

// Who is slow, and alive, is not given up, though each of its steps takes longer than the timeout.
static void test_real_slow(void **state) {
    (void)state;
    double slow[] = {1, SANITIZED ? 20 : 100};
    PsLesson l = lesson_of(2, 1);
    l.test_data = NULL;
    RealOptions options = {
        .clocks = SANITIZED ? 20 : 100, .slow = slow, .dies = -1, .timeout = SANITIZED ? 1 : 0.1};
    RealResult r = real_run(&l, &options);
    assert_int_equal(r.lost_worker, -1);
    assert_int_equal(r.pushes, 2 * options.clocks);
    real_result_free(&r);
}

// ---- main --------------------------------------------------------------------------------------

static int open_all(void **state) {
    images = fashion_mnist_open(NULL, true, 28 * 10);
    return make_test_folder(state);
}

static int close_all(void **state) {
    dataset_free(images);
    devices_close();
    return remove_test_folder(state);
}

// The race detector takes minutes for what the queues do in any test; the workers of the real run
// are what it is to look at.
#ifdef __SANITIZE_THREAD__
#define UNLESS_RACED(test)                                                                         \
    { NULL, test, NULL, NULL, NULL }
#else
#define UNLESS_RACED UNLESS_SIMULATED
#endif

int main(void) {
    devices_init(BACKEND_AUTO, 0);
    const struct CMUnitTest tests[] = {
        UNLESS_SIMULATED(test_schedules),
        UNLESS_SIMULATED(test_a_straggler),
        UNLESS_SIMULATED(test_stalls),
        UNLESS_SIMULATED(test_a_lost_worker),
        UNLESS_SIMULATED(test_files),
        UNLESS_SIMULATED(test_bad_files),
        UNLESS_SIMULATED(test_files_of_other_runs),
        UNLESS_RACED(test_synchronous),
        UNLESS_RACED(test_rounds_have_one_update),
        UNLESS_RACED(test_very_stale),
        UNLESS_RACED(test_staleness_lr),
        UNLESS_RACED(test_orders),
        UNLESS_RACED(test_one_worker),
        UNLESS_RACED(test_same_schedule_same_bits),
        UNLESS_RACED(test_towers),
        ON_BOTH(test_adam),
        UNLESS_SIMULATED(test_real),
        UNLESS_SIMULATED(test_real_lost),
        UNLESS_SIMULATED(test_real_slow),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
