// test_servers.c: chapter 7: schedules, parameter servers against a replay by hand, towers, Adam
// against PyTorch's figures, and what must hold when workers come as they like.
#include "common/base/error.h"
#include "common/tensor/adam.h"
#include "chapters/03_split_batch/split_batch.h"
#include "chapters/07_parameter_servers/real.h"
#include "chapters/07_parameter_servers/replay.h"
#include "chapters/07_parameter_servers/towers.h"
#include "cases.h"

static Dataset *images;
static Tensor *X, *y; // a minibatch on the host, or a worker's part of one

// (Its accuracy is taken on the way, which changes nothing.)
static PsLesson lesson_of(int W, int S) {
    return (PsLesson){images, images, W, S, .batch_size = 28, .lr = 0.1f, .seed = 3, .points = 3};
}

static const Tensor *load(const PsLesson *l, long clock, int w) {
    X->shape[0] = y->shape[0] = ps_rows(l, w);
    ps_load(l, clock, w, X, y);
    return X;
}

static double slow[MOST_WORKERS];
static Pace even_pace(int W) {
    Pace pace = {.W = W, .slow = slow, .compute = 1, .jitter = 0.3, .stall = 4, .transfer = 0.1};
    for (int w = 0; w < W; w++) slow[w] = 1;
    pace.busy = 0.05, pace.timeout = INFINITY, pace.dies = -1, pace.seed = 1;
    return pace;
}

static Schedule made(const Pace *pace, Discipline how, long clocks) {
    Schedule s = schedule_make(pace, how, clocks);
    keep_memory(s.list), keep_memory(s.made_from);
    return s;
}

// ---- schedules ---------------------------------------------------------------------------------

// What must hold in every schedule: the time goes on, each pull is followed by one push, drop or
// loss of the same step, nobody is ahead of the slowest by more than the bound when it pulls. Who
// dies is noticed when it was to be, and only synchronous training ends then.
static void check_schedule(const Schedule *s, const Pace *pace, Discipline how, long clocks) {
    long pushes[MOST_WORKERS] = {0}, step[MOST_WORKERS], all = 0,
         most = (s->W - how.backup) * clocks;
    bool computes[MOST_WORKERS] = {false}, lost[MOST_WORKERS] = {false};
    double pulled[MOST_WORKERS];
    for (int i = 0; i < s->count; i++) {
        const Happening *e = &s->list[i];
        int w = e->worker;
        assert_true(i == 0 || e->time >= s->list[i - 1].time);
        assert_false(lost[w]);
        assert_true(computes[w] == (e->kind != EVENT_PULL));
        computes[w] = e->kind == EVENT_PULL;
        if (e->kind == EVENT_PULL) pulled[w] = e->time;
        if (e->kind != EVENT_PULL) assert_int_equal(e->clock, step[w]);
        step[w] = e->clock;
        lost[w] = e->kind == EVENT_LOST;
        if (lost[w])
            assert_true(w == pace->dies && fabs(e->time - pulled[w] - pace->timeout) < 1e-9);
        all += e->kind == EVENT_PUSH;
        if (e->kind == EVENT_PUSH) pushes[w]++;
        for (int v = 0; v < s->W && e->kind == EVENT_PULL && how.backup == 0; v++)
            assert_true(lost[v] || pushes[w] - pushes[v] <= how.staleness);
    }
    assert_true(pace->dies < 0 || lost[pace->dies]);
    if (pace->dies >= 0 && (s->W == 1 || (how.staleness == 0 && how.backup == 0)))
        assert_true(all < most && s->list[s->count - 1].kind == EVENT_LOST);
    else
        assert_int_equal(all, most);
}

static void assert_same_events(const Schedule *a, const Schedule *b) {
    assert_int_equal(a->count, b->count);
    for (int i = 0; i < a->count; i++) {
        const Happening *e = &a->list[i], *f = &b->list[i];
        assert_true(e->kind == f->kind && e->worker == f->worker && e->clock == f->clock);
        assert_true(fabs(e->time - f->time) <= 1e-8 * e->time); // a file has 9 digits
    }
}

CASE(test_schedules) {
    const Discipline hows[] = {{0, 0}, {1, 0}, {3, 0}, {NO_BOUND, 0}, {0, 1}, {0, 2}};
    for (int W = 1; W <= 7; W++)
        for (int h = 0; h < 6; h++)
            for (int trouble = 0; trouble < 4 && hows[h].backup < W; trouble++) {
                Pace pace = even_pace(W);
                if (trouble == 1) slow[0] = 4;
                if (trouble == 2) pace.odds = 0.2;
                if (trouble == 3) pace.dies = W / 2, pace.at = 5, pace.timeout = 10;
                Schedule s = made(&pace, hows[h], 50), again = made(&pace, hows[h], 50);
                check_schedule(&s, &pace, hows[h], 50);
                assert_same_events(&s, &again);
            }
}

static double seconds_of_schedule(Discipline how) {
    Pace pace = even_pace(4);
    slow[3] = 4;
    Schedule s = made(&pace, how, 200);
    return s.list[s.count - 1].time;
}

CASE(test_a_straggler) {
    double sync = seconds_of_schedule((Discipline){0, 0});
    assert_true(sync > 3 * seconds_of_schedule((Discipline){NO_BOUND, 0})); // 4.2 against 4 / 3.25
    assert_true(seconds_of_schedule((Discipline){0, 1}) < 0.4 * sync); // it is never waited for
    assert_true(seconds_of_schedule((Discipline){3, 0}) > 0.9 * sync); // it sets the pace, later
}

// Between two transfers a worker computes, with odds of a quarter for 4 times as long.
CASE(test_stalls) {
    enum { CLOCKS = 2000 };
    Pace pace = even_pace(1);
    Schedule calm = made(&pace, (Discipline){0, 0}, CLOCKS);
    pace.odds = 0.25;
    Schedule s = made(&pace, (Discipline){0, 0}, CLOCKS);
    double stalled = 0;
    for (int i = 0; i < s.count; i += 2) {
        double took = s.list[i + 1].time - s.list[i].time - 0.2,
               one = calm.list[i + 1].time - calm.list[i].time - 0.2;
        assert_true(fabs(one - 1) <= 0.3 && fabs(took - (took > 2 ? 4 : 1) * one) < 1e-9);
        stalled += took > 2;
    }
    assert_true(fabs(stalled / CLOCKS - 0.25) < 0.04); // 4 standard deviations
}

// ---- files ---------------------------------------------------------------------------------------

typedef struct Reading {
    const char *file, *error;
    Discipline how;
    long clocks;
    int W;
    double slow;
} Reading;

static Schedule just_read;
static void read_as(void *reading) {
    const Reading *r = reading;
    Pace pace = even_pace(r->W);
    slow[0] = r->slow;
    just_read = schedule_read(in_test_folder(r->file), &pace, r->how, r->clocks);
}

// A file of another run is refused, and it is said what differs.
CASE(test_files) {
    Pace pace = even_pace(3);
    Schedule s = made(&pace, (Discipline){2, 0}, 10);
    schedule_write(&s, in_test_folder("run"));
    read_as(&(Reading){"run", NULL, {2, 0}, 10, 3, 1});
    assert_string_equal(just_read.made_from, s.made_from);
    assert_same_events(&s, &just_read);
    schedule_free(&just_read);
    pace = even_pace(2);
    s = made(&pace, (Discipline){0, 0}, 1);
    write_bytes(in_test_folder("line"), "0 pull 0 0\n", 11);
    write_bytes(in_test_folder("empty"), "", 0);
    Reading wrong[] = {
        {"run", "made with staleness 2, and this run has 1", {1, 0}, 10, 3, 1},
        {"run", "made with staleness 2, and this run has none", {NO_BOUND, 0}, 10, 3, 1},
        {"run", "made with staleness 2, and this run has 0", {0, 1}, 10, 3, 1},
        {"run", "made with steps 10, and this run has 11", {2, 0}, 11, 3, 1},
        {"run", "made with workers 3, and this run has 4", {2, 0}, 10, 4, 1},
        {"run", "made with slow 1,1,1, and this run has 5,1,1", {2, 0}, 10, 3, 5},
        {"line", "line:1: not the first line", {0, 0}, 1, 2, 1},
        {"empty", "empty: cannot be read, or empty", {0, 0}, 1, 2, 1},
    };
    const char *const lines[][2] = {
        // behind the right first line
        {"0 pull 0 0\n", "bad: 0 pushes, and not 2"},
        {"0 pull 0\n", "bad:2: not four fields"},
        {"0 pull 0 0\n1 push 0 1\n", "bad:3: this is not the step"},
        {"0 pull 0 0\n1 pull 0 0\n", "bad:3: this worker has pulled already"},
        {"0 push 1 0\n", "bad:2: this worker has not pulled"},
        {"0 pull 2 0\n", "bad:2: no such worker"},
        {"0 pull 0 1\n1 push 0 1\n1 pull 0 1\n", "bad:4: this worker has made this step"},
        {"1 pull 0 0\n0 pull 1 0\n", "bad:3: the time goes back"},
        {"nan pull 0 0\n", "bad:2: a number below 0"},
        {"0 pulls 0 0\n", "bad:2: no such event"},
        {"# nothing\n", "no events"}};
    for (size_t i = 0; i < COUNT(wrong); i++) expect_death(1, wrong[i].error, read_as, &wrong[i]);
    for (size_t i = 0; i < COUNT(lines); i++) {
        const char *text = keep_memory(xprintf("%s\n%s", s.made_from, lines[i][0]));
        write_bytes(in_test_folder("bad"), text, strlen(text));
        expect_death(1, lines[i][1], read_as, &(Reading){"bad", NULL, {0, 0}, 1, 2, 1});
    }
}

// ---- replays, against one by hand ----------------------------------------------------------------

// One device, one vector of parameters, and the gradients of pushes that were not applied yet.
static Tensor *pushed[MOST_WORKERS];

// Of the oldest step first; of the workers of a step the sum, as of one minibatch.
static void apply_before(PsResult *x, const PsLesson *l, Push pushes[], Worker *server,
                         long before) {
    Tensor *sum = server->grads;
    size_t n = numel(sum);
    for (long clock = 0; clock < before; clock++) {
        long applied = x->applied;
        for (int w = 0; w < l->W; w++) {
            if (!pushes[w].waits || pushes[w].clock != clock) continue;
            long stale = applied - pushes[w].based_on;
            float part = l->lr_by_staleness && stale > 1 ? 1 / (float)stale : 1;
            launch(sum->device, scale, .x = pushed[w]->data, .factor = part, .n = n);
            launch(sum->device, add, .y = sum->data, .x = pushed[w]->data, .n = n);
            x->staleness[stale]++, x->applied++;
            pushes[w].waits = false;
        }
        if (x->applied > applied)
            launch(sum->device, sgd, .param = server->params->data, .grad = sum->data, .lr = l->lr,
                   .batch_size = l->batch_size, .n = n);
    }
}

// What is expected of ps_replay(): its parameters, pushes, drops, and staleness.
static PsResult by_hand(const PsLesson *l, const Schedule *s, long clocks) {
    PsResult x = {0};
    Device *device = try_gpu(0);
    Worker server = worker_new(device, l->seed), worker = worker_new(device, l->seed);
    Tensor *on_device[2];
    Push pushes[MOST_WORKERS] = {{.waits = false}};
    for (int w = 0; w < l->W; w++) pushed[w] = keep(tensor_zeros_like(server.params));
    for (int i = 0; i < s->count; i++) {
        const Happening *e = &s->list[i];
        Push *mine = &pushes[e->worker];
        x.dropped += e->kind == EVENT_DROP;
        if (e->kind == EVENT_PUSH) mine->waits = true, mine->clock = e->clock;
        if (e->kind != EVENT_PULL) continue;
        apply_before(&x, l, pushes, &server, s->how.staleness == 0 ? e->clock : clocks);
        mine->based_on = x.applied;
        load(l, e->clock, e->worker);
        begin_step(device);
        split_batch(X, y, &device, 1, &on_device[0], &on_device[1]);
        tensor_copy(worker.params, server.params);
        tensor_fill(worker.grads, 0);
        worker_gradients(&worker, on_device[0], on_device[1]);
        tensor_copy(pushed[e->worker], worker.grads);
        synchronize_all();
    }
    apply_before(&x, l, pushes, &server, clocks);
    x.params = values_of(server.params);
    worker_free(&server);
    worker_free(&worker);
    return x;
}

// `late`: over links that are slower than the workers a push arrives before all have pulled; and a
// backup worker that was late pulls in the middle of a round. Neither may get what belongs to the
// round.
static const struct {
    int W, S;
    Discipline how;
    bool late, lr_by_staleness;
} replays[] = {
    {1, 1, {0, 0}, false, false},        {2, 2, {0, 0}, false, false},
    {3, 3, {0, 0}, false, false},        {4, 2, {0, 0}, true, false},
    {7, 1, {0, 0}, true, true},          {4, 1, {0, 1}, true, false},
    {8, 1, {0, 2}, true, false},         {3, 2, {0, 1}, false, false},
    {1, 2, {NO_BOUND, 0}, false, true},  {3, 2, {1, 0}, false, false},
    {3, 1, {NO_BOUND, 0}, false, false}, {4, 3, {NO_BOUND, 0}, true, true},
    {5, 2, {2, 0}, true, true},
};

CASE(test_replays) {
    enum { STEPS = 5 };
    for (size_t r = 0; r < (SANITIZED ? 9 : COUNT(replays)); r++) {
        int W = replays[r].W;
        PsLesson l = lesson_of(W, replays[r].S);
        Pace pace = even_pace(W);
        l.lr_by_staleness = replays[r].lr_by_staleness;
        pace.seed = r; // in another order of arrival each time
        if (replays[r].late) pace.busy = pace.transfer = 2, pace.odds = 0.3, slow[0] = 4;
        Schedule s = made(&pace, replays[r].how, STEPS);
        PsResult got = ps_replay(&l, &s), expected = by_hand(&l, &s, W * STEPS);
        assert_int_equal(got.applied, expected.applied);
        assert_int_equal(got.dropped, expected.dropped);
        assert_memory_equal(got.staleness, expected.staleness, sizeof got.staleness);
        long sum = 0, most = 0;
        for (long t = 0; t <= MOST_STALE; t++) {
            sum += t * got.staleness[t];
            if (got.staleness[t] > 0) most = t;
        }
        assert_int_equal(got.most_staleness, most);
        assert_true(got.mean_staleness == (double)sum / (double)got.applied);
        assert_memory_equal(got.params, expected.params, lenet_floats() * sizeof(float));
        assert_true(replays[r].how.staleness > 0 || got.most_staleness == 0);
        ps_result_free(&got);
    }
}

// A push that has missed more than the histogram has room for counts in the mean and in the
// maximum as it is.
CASE(test_very_stale) {
    enum { PUSHES = MOST_STALE + 44 };
    Device *device = try_gpu(0);
    Servers *v = servers_new(&device, 1, 2, 1, 0);
    Worker worker = worker_new(device, 1);
    for (long step = 0; step <= PUSHES; step++) { // the last one is the other worker's first
        long based_on = step < PUSHES ? v->applied : 0;
        servers_push(v, step == PUSHES, &worker, (Push){.rows = 1, .based_on = based_on});
        servers_apply(v, ALL_CLOCKS);
    }
    assert_int_equal(v->applied, PUSHES + 1);
    assert_int_equal(v->stale_most, PUSHES);
    assert_int_equal(v->stale_sum, PUSHES);
    assert_int_equal(v->staleness[MOST_STALE], 1);
    worker_free(&worker);
    servers_free(v);
}

// What is loaded follows from the lesson alone, whatever was loaded before; and workers get parts
// of the minibatch, in their order.
CASE(test_orders) {
    enum { LATER = 12 }; // in the second epoch
    PsLesson l = lesson_of(1, 1), other = l, fewer = l, many = lesson_of(5, 1);
    Dataset *few = fashion_mnist_open(NULL, true, 28);
    other.seed = l.seed + 1;
    fewer.train_data = few;
    const float *first = values_of(load(&l, LATER, 0)), *labels = values_of(y);
    const size_t bytes = tensor_bytes(X);
    assert_memory_not_equal(first, load(&l, LATER - 10, 0)->data, bytes); // of the first epoch
    assert_memory_not_equal(first, load(&other, LATER, 0)->data, bytes);
    load(&fewer, 0, 0); // all of its 28 images, and none beyond
    assert_memory_equal(first, load(&l, LATER, 0)->data, bytes);
    int row = 0;
    for (int w = 0; w < 5; row += y->shape[0], w++) {
        load(&many, LATER, w);
        assert_memory_equal(first + 784 * row, X->data, tensor_bytes(X));
        assert_memory_equal(labels + row, y->data, tensor_bytes(y));
    }
    assert_int_equal(row, 28);
    dataset_free(few);
}

// ---- towers and Adam ---------------------------------------------------------------------------

static const float *by_towers(int k, Combine combine, float lr) {
    Device *devices[MOST_WORKERS];
    size_t n;
    PsLesson l = lesson_of(1, 1);
    open_devices(devices, k);
    Towers *t = towers_new(devices, k, l.seed, combine, false);
    load(&l, 0, 0);
    towers_step(t, X, y, lr);
    const float *params = keep_memory(values_of_all(t->vars, LENET_PARAMS, &n));
    towers_free(t);
    return params;
}

CASE(test_towers) {
    const float *one = by_towers(1, TOWERS_SUM, 0.2f), *mean = by_towers(4, TOWERS_MEAN, 0.2f),
                *sum = by_towers(4, TOWERS_SUM, 0.05f); // a sum of 4 is 4 times the mean
    assert_true(relative_difference(one, mean, NULL, lenet_floats()) < 1e-7);
    assert_true(relative_difference(one, sum, NULL, lenet_floats()) < 1e-7);
}

// torch.optim.Adam: four steps with lr 0.1, with its own betas and eps, and with others.
// Made by tests/reference/make_adam.py.
#include "reference/adam.h"

static void test_adam(void **state) {
    const AdamOptions options[] = {{0}, {.beta1 = 0.5f, .beta2 = 0.75f, .eps = 1e-3f}};
    const float *expected[] = {adam_expected, adam_expected_other};
    Device *device = device_under_test(state);
    for (int o = 0; o < 2; o++) {
        Tensor *p = trained(keep(tensor_new(device, ADAM_N)));
        tensor_write(p, adam_start);
        Adam *adam = adam_new(&p, 1, options[o]);
        for (int step = 0; step < ADAM_STEPS; step++) {
            float grads[ADAM_N];
            for (int i = 0; i < ADAM_N; i++) grads[i] = 4 * adam_grads[step][i]; // over 4 rows
            tensor_write(p->grad, grads);
            adam_step(adam, 0.1f, 4);
        }
        double wanted[ADAM_N];
        for (int i = 0; i < ADAM_N; i++) wanted[i] = expected[o][i];
        assert_all_close(values_of(p), wanted, ADAM_N, 2e-6, "Adam");
        assert_all_close(values_of(p->grad), (double[ADAM_N]){0}, ADAM_N, 0, "its gradient");
        adam_free(adam);
    }
}

// ---- for real ----------------------------------------------------------------------------------

// With `ones` every gradient is 1, so however workers meet: at the end every number has gone down
// by the same, and nobody has ever seen two numbers of a range that differ. Who is lost is noticed
// in time, and the others make all pushes, if there are others. Who is slow, and alive, is not
// given up, though each of its steps takes longer than the timeout.
CASE(test_real) {
    enum { CLOCKS = SANITIZED ? 10 : 25, SLOW_CLOCKS = SANITIZED ? 20 : 100 };
    static const double uneven[] = {1, SANITIZED ? 20 : 100};
    const struct {
        int W, S;
        RealOptions options; // clocks, slow, dies, at, timeout, ones
        long pushes;
    } rows[] = {
        {4, 1, {CLOCKS, NULL, -1, 0, 60, true}, 4 * CLOCKS},
        {4, 3, {CLOCKS, NULL, -1, 0, 60, true}, 4 * CLOCKS},
        {3, 2, {8, NULL, 1, 3, 1, false}, 3 * 8},
        {1, 1, {8, NULL, 0, 3, 1, false}, 3},
        {2, 1, {SLOW_CLOCKS, uneven, -1, 0, SANITIZED ? 1 : 0.1, false}, 2 * SLOW_CLOCKS},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        PsLesson l = lesson_of(rows[i].W, rows[i].S);
        l.lr = 28.0f / 1024; // 1/1024 for each push: exact
        l.test_data = NULL;
        RealResult r = real_run(&l, &rows[i].options);
        assert_int_equal(r.pushes, rows[i].pushes);
        assert_int_equal(r.torn, 0);
        for (int s = 0; s < l.S; s++) assert_int_equal(r.applied[s], r.pushes);
        for (size_t n = 0; n < lenet_floats() && rows[i].options.ones; n++)
            assert_true(r.params[n] == -(float)r.pushes / 1024);
        assert_int_equal(r.lost_worker, rows[i].options.dies);
        if (r.lost_worker >= 0)
            assert_true(r.noticed >= 1 && r.noticed < 1 + (SANITIZED ? 60 : 10));
        real_result_free(&r);
    }
}

// ---- main --------------------------------------------------------------------------------------

static int open_all(void **state) {
    images = fashion_mnist_open(NULL, true, 28 * 10);
    X = keep(tensor_new(host(), 28, 1, 28, 28));
    y = keep(tensor_new(host(), 28));
    return make_test_folder(state);
}

static int close_all(void **state) {
    dataset_free(images);
    return close_kept(state) + remove_test_folder(state);
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
        UNLESS_SIMULATED(test_files),
        UNLESS_RACED(test_replays),
        UNLESS_RACED(test_very_stale),
        UNLESS_RACED(test_orders),
        UNLESS_RACED(test_towers),
        ON_BOTH(test_adam),
        UNLESS_SIMULATED(test_real),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
