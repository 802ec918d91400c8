// test_allreduce.c: the four allreduces of chapter 2, and the book's own lines: sums to the bit,
// bytes and copies as the formulas say, and queues that wait for each other where they have to. (In
// training: test_trainers.c.)
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "common/device/trace.h"
#include "common/tensor/autograd.h"
#include "cases.h"

static const int ks[] = {1, 2, 3, 4, 5, 7, 8}, sizes[] = {0, 1, 2, 3, 7, 8, 29, 1000, 4099};
enum { MOST_K = 8 };

// The two halves of the sharded one, with sums of their own. What a half has read may be
// overwritten at once.
static void by_halves(Tensor *const data[], int k) {
    Tensor *sums[MAX_COMPUTING] = {NULL}, *received[MAX_COMPUTING] = {NULL};
    for (int j = 0; j < k; j++) {
        int own = (int)equal_range((long)numel(data[j]), k, j).count;
        sums[j] = arena_tensor(data[j]->device, 1, &own, false);
        received[j] = arena_tensor(data[j]->device, 2, (int[]){k - 1, own}, false);
    }
    reduce_scatter(sums, data, received, k);
    for (int j = 0; j < k; j++) tensor_fill(data[j], NAN);
    all_gather(data, sums, k);
    for (int j = 0; j < k; j++) tensor_fill(sums[j], NAN);
}

// Number a of the table; behind its end are these halves, and the lines with which allreduce_star.c
// begins.
enum { ALGORITHMS = NUM_ALLREDUCES + 2 };
static const Allreduce *algorithm(int a) {
    static const Allreduce halves = {.name = "two halves",
                                     .run = by_halves,
                                     .floats = allreduce_sharded_floats,
                                     .in_parts = true};
    static const Allreduce book = {
        .name = "the book's lines", .run = allreduce_book, .floats = allreduce_star_floats};
    return a < NUM_ALLREDUCES ? &allreduces[a] : a == NUM_ALLREDUCES ? &halves : &book;
}

// As many as there can be are CPU devices: they are too many for the memory of a small GPU.
static void open_vectors(Tensor *data[], int k, int n) {
    for (int i = 0; i < k; i++) {
        data[i] = tensor_new(k > MOST_K ? cpu_device(i) : try_gpu(i), n);
        begin_step(data[i]->device);
    }
}

// ---- mistakes: first, because they fork, and there are no other threads yet --------------------

static void unknown_name(void *unused) {
    (void)unused;
    choose_allreduce("butterfly");
}

// allreduce() of two tensors: arg is 0 different shapes, 1 the same device, 2 memory that overlaps.
static void bad_tensors(void *arg) {
    devices_init(BACKEND_CPU, 1); // a GPU cannot be used on both sides of a fork
    int kind = *(int *)arg;
    Tensor *a = tensor_new(cpu_device(0), 10),
           *b = tensor_new(cpu_device(kind == 1 ? 0 : 1), kind == 0 ? 9 : 10);
    if (kind == 2) b->data = a->data + 9;
    allreduce((Tensor *[]){a, b}, 2);
}

TEST(mistakes_are_refused) {
    expect_death(1, "no allreduce 'butterfly'", unknown_name, NULL);
    expect_death(1, "differ in shape", bad_tensors, &(int){0});
    expect_death(1, "on the same device", bad_tensors, &(int){1});
    expect_death(1, "share one buffer", bad_tensors, &(int){2});
    for (int n = 0; n <= 64; n += 16) { // 64 bytes each: they may lie one right behind the other
        Tensor *data[MOST_K];
        open_vectors(data, MOST_K, n);
        assert_null(allreduce_mistake(data, MOST_K));
        free_params(data, MOST_K);
    }
}

// ---- sums, bytes, copies -----------------------------------------------------------------------

// The sum of x[0..k-1], in the algorithm's order, if it is in part number `part` of the vector.
static float sum_in_order(const Allreduce *how, float x[], int k, int part) {
    if (how->run == allreduce_tree) {
        for (int distance = 1; distance < k; distance *= 2)
            for (int i = 0; i + distance < k; i += 2 * distance) x[i] += x[i + distance];
        return x[0];
    }
    int first = how->run == allreduce_ring ? part : 0;
    float sum = x[first];
    for (int i = 1; i < k; i++) sum += x[(first + i) % k];
    return sum;
}

// Random numbers of very different sizes; on one device, in the middle, one that is none.
static float value_of(int device, int k, int j, int n) {
    if (device == k / 2 && j == n / 2) return NAN;
    double uniform = random_uniform((uint64_t)device, STREAM_TEST, (uint64_t)j);
    return (float)ldexp(2 * uniform - 1, (device * 5 + j) % 12);
}

static void assert_sums(const Allreduce *how, Tensor *const data[], int k, int n) {
    float *sums = calloc((size_t)n + 1, sizeof(float)), x[MAX_COMPUTING];
    for (int j = 0, part = 0; j < n; j++) {
        Range range = equal_range(n, k, part);
        if (j == range.first + range.count) part++;
        for (int i = 0; i < k; i++) x[i] = value_of(i, k, j, n);
        sums[j] = sum_in_order(how, x, k, part);
    }
    for (int i = 0; i < k; i++) {
        float *got = tensor_values(data[i]);
        for (int j = 0; j < n; j++)
            if (!(j == n / 2 ? isnan(got[j]) : memcmp(&got[j], &sums[j], sizeof *got) == 0))
                fail_msg("%s, k %d, n %d, device %d: element %d is %.9g, expected %.9g", how->name,
                         k, n, i, j, (double)got[j], (double)sums[j]);
        free(got);
    }
    free(sums);
}

static void assert_traffic(const Allreduce *how, Tensor *const data[], int k, int n) {
    for (int i = 0; i < k; i++) {
        uint64_t sent = 0, received = 0;
        for (int j = 0; j < k; j++) {
            sent += ledger_bytes(data[i]->device, data[j]->device);
            received += ledger_bytes(data[j]->device, data[i]->device);
        }
        Traffic formula = allreduce_bytes(how, (size_t)n, k, i);
        assert_int_equal(sent, formula.sent);
        assert_int_equal(received, formula.received);
    }
    assert_int_equal(ledger_bytes_between_devices(), 2 * (size_t)(k - 1) * (size_t)n * 4);
}

// Each part (that is not empty) goes to k-1 devices, and so does its sum. (Copies within a device
// are no bytes in the ledger, but they take time. The halves have two for each part.)
static void assert_copies(const Allreduce *how, int k, int n) {
    int count, copies = 0, parts = !how->in_parts ? n > 0 : n < k ? n : k;
    TraceSpan *spans = trace_end(&count);
    for (int s = 0; s < count; s++) copies += strcmp(spans[s].work, "copy") == 0;
    free(spans);
    if (how->run == by_halves) copies -= 2 * parts;
    if (n <= PIECE && copies != 2 * (k - 1) * parts)
        fail_msg("%s, k %d, n %d: %d copies", how->name, k, n, copies);
}

static void check_allreduce(const Allreduce *how, int k, int n) {
    Tensor *data[MAX_COMPUTING];
    float *values = malloc(sizeof *values * ((size_t)n + 1));
    open_vectors(data, k, n);
    for (int i = 0; i < k; i++) {
        for (int j = 0; j < n; j++) values[j] = value_of(i, k, j, n);
        tensor_write(data[i], values);
    }
    choose_this_allreduce(how);
    ledger_reset();
    trace_begin();
    allreduce(data, k);
    assert_copies(how, k, n);
    assert_traffic(how, data, k, n);
    assert_sums(how, data, k, n);
    choose_allreduce("star");
    free_params(data, k);
    free(values);
}

TEST(sums_have_the_bits_of_their_order) {
    for (int a = 0; a < ALGORITHMS; a++)
        for (size_t b = 0; b < COUNT(ks); b++)
            for (size_t c = 0; c < COUNT(sizes); c++)
                check_allreduce(algorithm(a), ks[b], sizes[c]);
    check_allreduce(&allreduces[0], 3, PIECE + 5); // star and tree receive a piece at a time
    check_allreduce(&allreduces[3], 4, PIECE + 5);
}

TEST(steps_are_those_of_the_header) {
    const int steps_of_tree[] = {0, 2, 4, 4, 6, 6, 6, 6, 8};
    for (int k = 1; k <= 9; k++) {
        for (int a = 0; a < 3; a++) assert_int_equal(allreduces[a].steps(k), 2 * (k - 1));
        assert_int_equal(allreduces[3].steps(k), steps_of_tree[k - 1]);
    }
}

TEST_UNLESS_SIMULATED(most_devices) {
    for (int a = 0; a < NUM_ALLREDUCES; a++) check_allreduce(algorithm(a), MAX_COMPUTING, 50);
}

// ---- order of the queues ---------------------------------------------------------------------

// (In the simulator devices are late without being busy.)
enum { CALLS = SIMULATED ? 8 : 60, BUSY_FLOATS = SIMULATED ? 1 : 60000 };

// Holds a device up, so that the others come first where nothing makes them wait.
static void delay(Tensor *const busy[], int i, int times) {
    while (times-- > 0) tensor_fill(busy[i], (float)times);
}

// Many calls one after the other (a: of this algorithm; behind the halves: now of this one, now of
// that), without the host ever waiting. Before each, every device writes a new value into its
// vector, right behind the call before; after it, adds the sum to a total. Devices are held up in
// turn. Where a wait is missing somebody reads a value too early or too late.
static void call_often(int a, int k, int n) {
    Tensor *data[MOST_K], *totals[MOST_K], *busy[MOST_K];
    float expected = 0;
    open_vectors(data, k, n);
    for (int i = 0; i < k; i++) {
        totals[i] = tensor_zeros_like(data[i]);
        busy[i] = tensor_new(data[i]->device, BUSY_FLOATS);
    }
    // Held up until the host has enqueued the first calls. The host takes the lock of each queue in
    // turn, and that is an order that a program must not rely on (and that would hide its lack from
    // TSan).
    for (int i = 0; i < k; i++) delay(busy, i, 100);
    for (int call = 0; call < CALLS; call++) {
        for (int i = 0; i < k && call % 10 == 0; i++)
            begin_step(data[i]->device); // the arena's memory is used again
        delay(busy, call % k, call % 4);
        for (int i = 0; i < k; i++) {
            float value = (float)((call * 3) % 11 + i);
            tensor_fill(data[i], value);
            expected += value;
        }
        algorithm(a <= NUM_ALLREDUCES ? a : call * 7 / 3 % NUM_ALLREDUCES)->run(data, k);
        for (int i = 0; i < k; i++)
            launch(data[i]->device, add, .y = totals[i]->data, .x = data[i]->data, .n = (size_t)n);
    }
    for (int i = 0; i < k; i++) {
        float *values = tensor_values(totals[i]);
        for (int j = 0; j < n; j++)
            if (!(values[j] == expected))
                fail_msg("algorithm %d, k %d, n %d, device %d: element %d is %g, expected %g", a, k,
                         n, i, j, (double)values[j], (double)expected);
        free(values);
    }
    free_params(data, k);
    free_params(totals, k);
    free_params(busy, k);
}

TEST(calls_one_after_the_other) {
    const int often_ks[] = {2, 3, 5, 8}, lengths[] = {3, SIMULATED ? 1000 : 9001};
    for (int a = 0; a <= NUM_ALLREDUCES + 1; a++)
        for (int b = 0; b < 4; b++)
            for (int c = 0; c < 2; c++) call_often(a, often_ks[b], lengths[c]);
}

int main(void) { return run_all("allreduce", NULL, devices_end); }
