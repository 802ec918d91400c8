// test_servers.c: chapter 7: schedules, parameter servers against a replay by hand, towers, Adam,
// and what must hold when workers push whenever they are ready.
#include "common/base/error.h"
#include "common/device/ledger.h"
#include "common/tensor/adam.h"
#include "chapters/03_split_batch/split_batch.h"
#include "chapters/07_parameter_servers/asynchronous.h"
#include "chapters/07_parameter_servers/replay.h"
#include "chapters/07_parameter_servers/towers.h"
#include "cases.h"

// The race detector takes minutes for what the queues do in any test; the workers of the real run
// are what it is to look at.
#ifdef __SANITIZE_THREAD__
#define UNLESS_RACED(test)                                                                         \
    { NULL, test, NULL, NULL, NULL }
#else
#define UNLESS_RACED UNLESS_SIMULATED
#endif
#define TEST_UNLESS_RACED(name) TEST_AS(name, UNLESS_RACED(name))

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
    pace.busy = 0.05, pace.seed = 1;
    return pace;
}

static Schedule made(const Pace *pace, Discipline how, long clocks) {
    Schedule s = schedule_make(pace, how, clocks);
    keep_memory(s.list);
    return s;
}

// ---- schedules ---------------------------------------------------------------------------------

// What must hold in every schedule: the time never goes back, each pull is followed by one push or
// drop of the same step, after its gradients were computed, and no worker is ahead of the slowest
// by more than the bound when it pulls.
static void check_schedule(const Schedule *s, Discipline how, long clocks) {
    long pushes[MOST_WORKERS] = {0}, step[MOST_WORKERS], all = 0;
    bool computes[MOST_WORKERS] = {false};
    double pulled[MOST_WORKERS];
    for (int i = 0; i < s->count; i++) {
        const Happening *e = &s->list[i];
        int w = e->worker;
        assert_true(i == 0 || e->time >= s->list[i - 1].time);
        assert_true(computes[w] == (e->kind != EVENT_PULL));
        computes[w] = e->kind == EVENT_PULL;
        if (e->kind == EVENT_PULL) pulled[w] = e->time;
        if (e->kind != EVENT_PULL) {
            assert_int_equal(e->clock, step[w]);
            assert_true(pulled[w] < e->computed && e->computed < e->time);
        }
        step[w] = e->clock;
        all += e->kind == EVENT_PUSH;
        if (e->kind == EVENT_PUSH) pushes[w]++;
        for (int v = 0; v < s->W && e->kind == EVENT_PULL && how.backup == 0; v++)
            assert_true(pushes[w] - pushes[v] <= how.staleness);
    }
    assert_int_equal(all, (s->W - how.backup) * clocks);
    assert_int_equal(all, schedule_events(s, EVENT_PUSH));
    assert_true(schedule_seconds(s) == s->list[s->count - 1].time);
}

static void assert_same_events(const Schedule *a, const Schedule *b) {
    assert_int_equal(a->count, b->count);
    for (int i = 0; i < a->count; i++) {
        const Happening *e = &a->list[i], *f = &b->list[i];
        assert_true(e->kind == f->kind && e->worker == f->worker && e->clock == f->clock);
        assert_true(e->time == f->time && e->computed == f->computed);
    }
}

TEST_UNLESS_SIMULATED(test_schedules) {
    const Discipline hows[] = {{0, 0}, {1, 0}, {3, 0}, {NO_BOUND, 0}, {0, 1}, {0, 2}};
    for (int W = 1; W <= 7; W++)
        for (int h = 0; h < 6; h++)
            for (int trouble = 0; trouble < 3 && hows[h].backup < W; trouble++) {
                Pace pace = even_pace(W);
                if (trouble == 1) slow[0] = 4;
                if (trouble == 2) pace.odds = 0.2;
                Schedule s = made(&pace, hows[h], 50), again = made(&pace, hows[h], 50);
                check_schedule(&s, hows[h], 50);
                assert_same_events(&s, &again);
            }
}

// Between two transfers a worker computes, with odds of a quarter for 4 times as long.
TEST_UNLESS_SIMULATED(test_stalls) {
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

// ---- replays, against one by hand ----------------------------------------------------------------

// One device, one vector of parameters, and the gradients of pushes that were not applied yet.
static Tensor *pushed[MOST_WORKERS];

typedef struct ByHand {
    const PsLesson *lesson;
    PsResult x; // what is expected
    Worker server;
    long based_on[MOST_WORKERS];
    bool waits[MOST_WORKERS];
} ByHand;

// The sum of those that wait, in the order of the workers, as of one minibatch.
static void apply_all(ByHand *h) {
    const PsLesson *l = h->lesson;
    Tensor *sum = h->server.grads;
    long before = h->x.applied;
    for (int w = 0; w < l->W; w++) {
        if (!h->waits[w]) continue;
        long stale = before - h->based_on[w];
        float part = l->lr_by_staleness && stale > 1 ? 1 / (float)stale : 1;
        launch(sum->device, scale, .x = pushed[w]->data, .factor = part, .n = numel(sum));
        launch(sum->device, add, .y = sum->data, .x = pushed[w]->data, .n = numel(sum));
        h->x.staleness.pushes[stale]++, h->x.applied++;
        h->waits[w] = false;
    }
    launch(sum->device, sgd, .param = h->server.params->data, .grad = sum->data, .lr = l->lr,
           .batch_size = l->batch_size, .n = numel(sum));
}

static void compute_by_hand(ByHand *h, Worker *worker, const Happening *e) {
    Device *device = worker->device;
    Tensor *on_device[2];
    h->based_on[e->worker] = h->x.applied;
    load(h->lesson, e->clock, e->worker);
    begin_step(device);
    split_batch(X, y, &device, 1, &on_device[0], &on_device[1]);
    tensor_copy(worker->params, h->server.params);
    tensor_fill(worker->grads, 0);
    worker_gradients(worker, on_device[0], on_device[1]);
    tensor_copy(pushed[e->worker], worker->grads);
    synchronize_all();
}

// What is expected of ps_replay(): its parameters, pushes, drops, and staleness. In rounds, what
// was pushed is applied when no worker may push for this round any more: before the first event of
// the next one, which is a pull with a higher number.
static PsResult by_hand(const PsLesson *l, const Schedule *s) {
    ByHand h = {.lesson = l, .server = worker_new(try_gpu(0), l->seed)};
    Worker worker = worker_new(try_gpu(0), l->seed);
    long round = 0;
    for (int w = 0; w < l->W; w++) pushed[w] = keep(tensor_zeros_like(h.server.params));
    for (int i = 0; i < s->count; i++) {
        const Happening *e = &s->list[i];
        if (s->how.staleness == 0 && e->kind == EVENT_PULL && e->clock > round) {
            apply_all(&h);
            round = e->clock;
        }
        if (e->kind == EVENT_PULL) compute_by_hand(&h, &worker, e);
        if (e->kind == EVENT_PUSH) h.waits[e->worker] = true;
        if (e->kind == EVENT_PUSH && s->how.staleness > 0) apply_all(&h);
        h.x.dropped += e->kind == EVENT_DROP;
    }
    if (s->how.staleness == 0) apply_all(&h);
    h.x.params = values_of(h.server.params);
    worker_free(&h.server);
    worker_free(&worker);
    return h.x;
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

TEST_UNLESS_RACED(test_replays) {
    enum { STEPS = 5 };
    for (size_t r = 0; r < (SANITIZED ? 9 : COUNT(replays)); r++) {
        int W = replays[r].W;
        PsLesson l = lesson_of(W, replays[r].S);
        Pace pace = even_pace(W);
        l.lr_by_staleness = replays[r].lr_by_staleness;
        pace.seed = r; // in another order of arrival each time
        if (replays[r].late) pace.busy = pace.transfer = 2, pace.odds = 0.3, slow[0] = 4;
        Schedule s = made(&pace, replays[r].how, STEPS);
        PsResult got = ps_replay(&l, &s), expected = by_hand(&l, &s);
        assert_int_equal(got.applied, expected.applied);
        assert_int_equal(got.dropped, expected.dropped);
        const Staleness *stale = &got.staleness;
        assert_memory_equal(stale->pushes, expected.staleness.pushes, sizeof stale->pushes);
        long sum = 0, most = 0;
        for (long t = 0; t <= MOST_STALE; t++) {
            sum += t * stale->pushes[t];
            if (stale->pushes[t] > 0) most = t;
        }
        assert_int_equal(stale->most, most);
        assert_true(staleness_mean(stale) == (double)sum / (double)got.applied);
        assert_memory_equal(got.params, expected.params, lenet_floats() * sizeof(float));
        assert_true(replays[r].how.staleness > 0 || got.staleness.most == 0);
        ps_result_free(&got);
    }
}

// Each worker pushes and pulls once: what each device sends and receives is what the formulas say,
// with S servers, and with servers on the workers' own devices.
static size_t bytes_of(int W, int S, bool shared, int who) {
    Device *devices[MAX_COMPUTING];
    Worker workers[MOST_WORKERS];
    size_t bytes = 0;
    int n = shared ? W : W + S;
    open_devices(devices, n);
    Servers *v = servers_new(devices + n - S, S, W, 1);
    for (int w = 0; w < W; w++) workers[w] = worker_new(devices[w], 1);
    ledger_reset();
    for (int w = 0; w < W; w++) servers_push(v, w, &workers[w]);
    for (int w = 0; w < W; w++) servers_pull(v, &workers[w]);
    synchronize_all();
    for (int i = 0; i < n; i++)
        if (i != who)
            bytes +=
                ledger_bytes(devices[who], devices[i]) + ledger_bytes(devices[i], devices[who]);
    for (int w = 0; w < W; w++) worker_free(&workers[w]);
    servers_free(v);
    return bytes;
}

TEST_UNLESS_RACED(test_bytes) {
    size_t P = lenet_floats() * sizeof(float), W = 4; // both divide it
    for (int S = 1; S <= 4; S *= 2) {
        assert_int_equal(bytes_of(4, S, false, 0), 2 * P);
        assert_int_equal(bytes_of(4, S, false, 4), 2 * W * P / (size_t)S);
    }
    assert_int_equal(bytes_of(4, 4, true, 0), 4 * (W - 1) * P / W);
}

// A push that has missed more than the histogram has room for counts in the mean and in the
// maximum as it is.
TEST_UNLESS_RACED(test_very_stale) {
    enum { PUSHES = MOST_STALE + 44 };
    Device *device = try_gpu(0);
    Servers *v = servers_new(&device, 1, 2, 1);
    Worker worker = worker_new(device, 1);
    v->per_update = 1;
    for (long step = 0; step <= PUSHES; step++) { // the last one is the other worker's first
        worker.based_on = step < PUSHES ? v->applied : 0;
        servers_push(v, step == PUSHES, &worker);
    }
    assert_int_equal(v->applied, PUSHES + 1);
    assert_int_equal(v->staleness.most, PUSHES);
    assert_int_equal(v->staleness.sum, PUSHES);
    assert_int_equal(v->staleness.pushes[MOST_STALE], 1);
    worker_free(&worker);
    servers_free(v);
}

// What is loaded follows from the lesson alone, whatever was loaded before; and workers get parts
// of the minibatch, in their order.
TEST_UNLESS_RACED(test_orders) {
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

// The gradients of k towers, which are sums of means. All variables go to each tower, and all
// gradients come back.
static const float *by_towers(int k) {
    Worker towers[4], fetched[4], vars = worker_new(cpu_device(k), 3);
    PsLesson l = lesson_of(1, 1);
    size_t bytes = 0;
    for (int i = 0; i < k; i++) towers[i] = worker_new(try_gpu(i), 3);
    for (int i = 0; i < k; i++) fetched[i] = worker_new(vars.device, 3);
    load(&l, 0, 0);
    synchronize_all();
    ledger_reset();
    towers_gradients(&vars, towers, fetched, k, X, y);
    for (int i = 0; i < k; i++)
        bytes += ledger_bytes(vars.device, try_gpu(i)) + ledger_bytes(try_gpu(i), vars.device);
    assert_int_equal(bytes, 2 * (size_t)k * lenet_floats() * sizeof(float));
    const float *grads = values_of(vars.grads);
    for (int i = 0; i < k; i++) worker_free(&towers[i]);
    for (int i = 0; i < k; i++) worker_free(&fetched[i]);
    worker_free(&vars);
    return grads;
}

TEST_UNLESS_RACED(test_towers) {
    const float *one = by_towers(1);
    float *sum = (float *)by_towers(4);
    for (size_t i = 0; i < lenet_floats(); i++) sum[i] /= 4;
    assert_true(relative_difference(one, sum, NULL, lenet_floats()) < 1e-6);
}

// The first step moves by lr g / (|g| + eps), whatever the averages keep. (What more steps make of
// it, and PyTorch: test_zero_reference.c.)
TEST_ON_BOTH(test_adam) {
    Tensor *p = trained(vector_of(device_under_test(state), 2, 0));
    Adam *adam = adam_new(&p, 1, (AdamOptions){0});
    tensor_write(p->grad, (const float[]){4e-8f, -8}); // of 4 rows
    adam_step(adam, 0.1f, 4);
    assert_all_close(values_of(p), (const double[]){-0.05, 0.1}, 2, 1e-6, "Adam");
    adam_free(adam);
}

// ---- for real ----------------------------------------------------------------------------------

// With `ones` every gradient is 1. So in any order of pushes, every number has gone down by the
// same at the end, and no worker has ever pulled two different numbers from one server. Others come
// in between the visits to two servers: that must be found.
static long torn_with_ones(int W, int S, long clocks, int together) {
    PsLesson l = lesson_of(W, S);
    l.lr = 28.0f / 1024; // 1/1024 for each push: exact
    l.test_data = NULL;
    AsyncResult r = async_run(&l, &(AsyncOptions){.clocks = clocks, .ones = together});
    assert_int_equal(r.pushes, W * clocks);
    assert_int_equal(r.staleness.count, r.pushes);
    for (size_t n = 0; n < lenet_floats(); n++) assert_true(r.params[n] == -(float)r.pushes / 1024);
    async_result_free(&r);
    return r.torn;
}

TEST_UNLESS_SIMULATED(test_torn_pulls) {
    enum { CLOCKS = SANITIZED ? 30 : 250 };
    for (int S = 1; S <= 4; S++) {
        assert_int_equal(torn_with_ones(4, S, CLOCKS, 1), 0);
        bool at_once = !getenv("TEST_INLINE"); // else a worker visits all servers before the next
        // On a busy machine, threads may take turns for a while, too.
        long torn = S == 1 || !at_once;
        for (int run = 0; run < 20 && torn == 0; run++) torn = torn_with_ones(4, S, CLOCKS, S);
        assert_true(torn > 0);
    }
}

// A worker alone has no stale push, and the parameters of the same training by a schedule.
TEST_UNLESS_SIMULATED(test_alone) {
    PsLesson l = lesson_of(1, 2);
    Pace pace = even_pace(1);
    Schedule s = made(&pace, (Discipline){NO_BOUND, 0}, 8);
    PsResult replayed = ps_replay(&l, &s);
    AsyncResult r = async_run(&l, &(AsyncOptions){.clocks = 8});
    assert_int_equal(r.staleness.most, 0);
    assert_true(relative_difference(replayed.params, r.params, NULL, lenet_floats()) < 1e-5);
    async_result_free(&r);
    ps_result_free(&replayed);
}

// A slow worker makes fewer pushes, and the others make the rest.
TEST_UNLESS_SIMULATED(test_uneven) {
    static const double uneven[] = {1, 20};
    if (num_gpus() > 0 || getenv("TEST_INLINE")) return; // they cannot be slowed down
    PsLesson l = lesson_of(2, 1);
    AsyncResult r = async_run(&l, &(AsyncOptions){.clocks = 20, .slow = uneven});
    assert_int_equal(r.pushes, 40);
    assert_true(r.staleness.most > 1);
    async_result_free(&r);
}

// ---- main --------------------------------------------------------------------------------------

static int open_all(void **state) {
    images = fashion_mnist_open(NULL, true, 28 * 10);
    X = keep(tensor_new(host(), 28, 1, 28, 28));
    y = keep(tensor_new(host(), 28));
    (void)state;
    return 0;
}

static int close_all(void **state) {
    dataset_free(images);
    return close_kept(state);
}

int main(void) {
    devices_init(BACKEND_AUTO, 0);
    return run_all("servers", open_all, close_all);
}
