// test_allreduce.c: the four allreduces of chapter 2: right sums, the same bits on all replicas,
// bytes as the formula says, and queues that wait for each other where they have to. Under
// ThreadSanitizer, too.
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "chapters/04_lenet_multi_gpu/lenet.h"
#include "common/tensor/random.h"
#include "dies.h"

static const int ks[] = {1, 2, 3, 4, 5, 7, 8};
static const int sizes[] = {0, 1, 2, 3, 7, 8, 29, 1000, 4099};
enum { NUM_KS = sizeof ks / sizeof ks[0], NUM_SIZES = sizeof sizes / sizeof sizes[0], MOST_K = 8 };

static void open_vectors(Tensor *data[], int k, int n) {
    Device *devices[MAX_COMPUTING];
    open_devices(devices, k);
    for (int i = 0; i < k; i++) {
        data[i] = tensor_new(devices[i], n);
        begin_step(devices[i]);
    }
}

static void assert_replicas_equal(Tensor *const data[], int k) {
    float *first = tensor_values(data[0]);
    for (int i = 1; i < k; i++) {
        float *other = tensor_values(data[i]);
        assert_memory_equal(first, other, tensor_bytes(data[0]));
        free(other);
    }
    free(first);
}

// The book's own lines, with which allreduce_star.c begins: in all the same as the star.
static const Allreduce book = {
    .name = "the book's lines", .run = allreduce_book, .floats = allreduce_star_floats};

// Calls test(algorithm, k, n) for all of them.
static void for_all(void (*test)(const Allreduce *algorithm, int k, int n)) {
    for (int a = 0; a < NUM_ALLREDUCES; a++)
        for (int b = 0; b < NUM_KS; b++)
            for (int c = 0; c < NUM_SIZES; c++) test(&allreduces[a], ks[b], sizes[c]);
}

// ---- formulas --------------------------------------------------------------------------------

static void all_send_the_same_in_total(void **state) {
    (void)state;
    for (int a = 0; a < NUM_ALLREDUCES; a++)
        for (size_t n = 0; n < 100; n++)
            for (int k = 1; k <= MAX_COMPUTING; k++) {
                size_t sent = 0, received = 0, most = 0;
                for (int i = 0; i < k; i++) {
                    Traffic bytes = allreduce_bytes(&allreduces[a], n, k, i);
                    sent += bytes.sent;
                    received += bytes.received;
                    if (bytes.sent > most) most = bytes.sent;
                }
                assert_true((size_t)k * most >= 2 * (size_t)(k - 1) * n * sizeof(float)); // busbw
                assert_int_equal(sent, 2 * (size_t)(k - 1) * n * sizeof(float));
                assert_int_equal(received, sent);
            }
}

// The figures of the declarations in allreduce.h, for a vector that 4 and 8 divide.
static void formulas_are_those_of_the_header(void **state) {
    (void)state;
    const size_t n = 8000, N = n * sizeof(float);
    const Allreduce *star = &allreduces[0], *tree = &allreduces[3];
    for (int k = 2; k <= 8; k *= 2) {
        assert_int_equal(allreduce_bytes(star, n, k, 0).sent, (size_t)(k - 1) * N);
        assert_int_equal(allreduce_bytes(star, n, k, 1).sent, N);
        for (int a = 1; a <= 2; a++) // sharded, ring
            for (int i = 0; i < k; i++)
                assert_int_equal(allreduce_bytes(&allreduces[a], n, k, i).sent,
                                 2 * (size_t)(k - 1) * N / (size_t)k);
    }
    assert_int_equal(allreduce_bytes(tree, n, 8, 0).sent, 3 * N);
    assert_int_equal(allreduce_bytes(tree, n, 8, 7).sent, N);
    const int steps_of_tree[] = {0, 2, 4, 4, 6, 6, 6, 6, 8};
    for (int k = 1; k <= 9; k++) {
        for (int a = 0; a < 3; a++) assert_int_equal(allreduces[a].steps(k), 2 * (k - 1));
        assert_int_equal(tree->steps(k), steps_of_tree[k - 1]);
    }
}

// ---- sums and bytes --------------------------------------------------------------------------

static void assert_ledger_is_formula(const Allreduce *algorithm, Tensor *const data[], int k) {
    for (int i = 0; i < k; i++) {
        uint64_t sent = 0, received = 0;
        for (int j = 0; j < k; j++) {
            sent += ledger_bytes(data[i]->device, data[j]->device);
            received += ledger_bytes(data[j]->device, data[i]->device);
        }
        Traffic formula = allreduce_bytes(algorithm, numel(data[i]), k, i);
        assert_int_equal(sent, formula.sent);
        assert_int_equal(received, formula.received);
    }
}

static void whole_numbers(const Allreduce *algorithm, int k, int n) {
    Tensor *data[MOST_K];
    float *values = malloc(sizeof(float) * (size_t)n + 1),
          *sums = calloc((size_t)n + 1, sizeof(float));
    assert_non_null(values);
    assert_non_null(sums);
    open_vectors(data, k, n);
    for (int i = 0; i < k; i++) {
        for (int j = 0; j < n; j++)
            sums[j] += values[j] = (float)((j * 31 + i * i * 17) % 1001 - 500);
        tensor_write(data[i], values);
    }
    ledger_reset();
    algorithm->run(data, k);
    synchronize_all();
    assert_ledger_is_formula(algorithm, data, k);
    for (int i = 0; i < k; i++) {
        tensor_read(data[i], values);
        for (int j = 0; j < n; j++)
            if (!(values[j] == sums[j]))
                fail_msg("%s, k %d, n %d, device %d: element %d is %g, expected %g",
                         algorithm->name, k, n, i, j, (double)values[j], (double)sums[j]);
    }
    free_params(data, k);
    free(values);
    free(sums);
}

static void whole_numbers_are_summed_exactly(void **state) {
    (void)state;
    for_all(whole_numbers);
}

// Star and tree receive 4 MiB at a time.
static void long_vectors_are_summed_in_pieces(void **state) {
    (void)state;
    whole_numbers(&allreduces[0], 3, (1 << 20) + 5);
    whole_numbers(&allreduces[3], 4, (1 << 20) + 5);
}

// Fills with normal numbers of very different sizes, and computes the sums and the sums of
// magnitudes.
static void write_reals(Tensor *const data[], int k, int n, double *sums, double *magnitudes) {
    float *values = malloc(sizeof(float) * (size_t)n + 1);
    assert_non_null(values);
    for (int j = 0; j < n; j++) sums[j] = magnitudes[j] = 0;
    for (int i = 0; i < k; i++) {
        fill_normal(values, (size_t)n, 1, 3, STREAM_TEST + (uint32_t)i);
        for (int j = 0; j < n; j++) {
            values[j] *= expf((float)((i * 5 + j) % 9));
            sums[j] += (double)values[j];
            magnitudes[j] += fabs((double)values[j]);
        }
        tensor_write(data[i], values);
    }
    free(values);
}

static void reals(const Allreduce *algorithm, int k, int n) {
    Tensor *data[MOST_K];
    double *sums = malloc(2 * sizeof(double) * (size_t)n + 1), *magnitudes = sums + n;
    assert_non_null(sums);
    open_vectors(data, k, n);
    write_reals(data, k, n, sums, magnitudes);
    algorithm->run(data, k);
    float *first = tensor_values(data[0]);
    for (int j = 0; j < n; j++) // k-1 roundings of at most half a unit in the last place each
        if (!(fabs((double)first[j] - sums[j]) <= k * 6e-8 * magnitudes[j]))
            fail_msg("%s, k %d, n %d: element %d is %.9g, expected %.9g", algorithm->name, k, n, j,
                     (double)first[j], sums[j]);
    assert_replicas_equal(data, k);

    // The same again, and by the star.
    write_reals(data, k, n, sums, magnitudes);
    algorithm->run(data, k);
    float *again = tensor_values(data[k - 1]);
    assert_memory_equal(first, again, tensor_bytes(data[0]));
    if (strcmp(algorithm->name, "sharded") == 0 || algorithm == &book || k <= 2) {
        write_reals(data, k, n, sums, magnitudes);
        allreduce_star(data, k);
        float *star = tensor_values(data[0]);
        assert_memory_equal(first, star, tensor_bytes(data[0]));
        free(star);
    }
    free_params(data, k);
    free(first);
    free(again);
    free(sums);
}

static void reals_are_summed_to_the_same_bits(void **state) {
    (void)state;
    for_all(reals);
}

static void the_books_lines_are_the_star(void **state) {
    (void)state;
    for (int b = 0; b < NUM_KS; b++)
        for (int c = 0; c < NUM_SIZES; c++) {
            whole_numbers(&book, ks[b], sizes[c]);
            reals(&book, ks[b], sizes[c]);
        }
}

// A NaN or an infinity on one device is one on all, at that element and nowhere else.
static void not_a_number(const Allreduce *algorithm, int k, int n) {
    if (n == 0) return;
    Tensor *data[MOST_K];
    int where = n / 2;
    float *values = calloc((size_t)n, sizeof(float));
    assert_non_null(values);
    open_vectors(data, k, n);
    for (int i = 0; i < k; i++) {
        values[where] = i == k / 2 ? NAN : 1;
        tensor_write(data[i], values);
    }
    algorithm->run(data, k);
    assert_replicas_equal(data, k);
    for (int i = 0; i < k; i++) {
        tensor_read(data[i], values);
        for (int j = 0; j < n; j++) assert_true(j == where ? isnan(values[j]) : values[j] == 0);
    }
    free_params(data, k);
    free(values);
}

static void nan_is_not_lost(void **state) {
    (void)state;
    for_all(not_a_number);
}

// As many devices as there can be, more than there are elements. On CPU devices: so many are too
// many for the memory of a small GPU.
static void most_devices(void **state) {
    (void)state;
    for (int a = 0; a < NUM_ALLREDUCES; a++) {
        Tensor *data[MAX_COMPUTING];
        for (int i = 0; i < MAX_COMPUTING; i++) {
            data[i] = tensor_new(cpu_device(i), 50);
            begin_step(data[i]->device);
            tensor_fill(data[i], (float)(i + 1));
        }
        allreduces[a].run(data, MAX_COMPUTING);
        assert_replicas_equal(data, MAX_COMPUTING);
        float *values = tensor_values(data[MAX_COMPUTING - 1]);
        for (int j = 0; j < 50; j++)
            assert_true(values[j] == MAX_COMPUTING * (MAX_COMPUTING + 1) / 2);
        free(values);
        free_params(data, MAX_COMPUTING);
    }
}

// ---- order of the queues ---------------------------------------------------------------------

// (In the simulator devices are late without being busy.)
enum { CALLS = SIMULATED ? 8 : 100, BUSY_FLOATS = SIMULATED ? 1 : 60000 };

// Holds a device up, so that the others come first where nothing makes them wait.
static void delay(Tensor *const busy[], int i, int times) {
    while (times-- > 0) tensor_fill(busy[i], (float)times);
}

// Many calls one after the other, by `algorithm_of(call)`, without the host ever waiting. Before
// each, every device writes a new value into its vector, right behind the call before; after it,
// adds the sum to a total. Devices are held up in turn. Where a wait is missing somebody reads a
// value too early or too late.
static void call_often(const Allreduce *(*algorithm_of)(int call), int k, int n) {
    Tensor *data[MOST_K], *totals[MOST_K], *busy[MOST_K];
    open_vectors(data, k, n);
    for (int i = 0; i < k; i++) {
        totals[i] = tensor_zeros_like(data[i]);
        busy[i] = tensor_new(data[i]->device, BUSY_FLOATS);
    }
    // Held up until the host has enqueued the first calls. The host takes the lock of each queue in
    // turn, and that is an order that a program must not rely on (and that would hide its lack from
    // TSan).
    for (int i = 0; i < k; i++) delay(busy, i, 100);

    float expected = 0;
    for (int call = 0; call < CALLS; call++) {
        if (call % 10 == 0)
            for (int i = 0; i < k; i++)
                begin_step(data[i]->device); // the arena's memory is used again
        delay(busy, call % k, call % 4);
        for (int i = 0; i < k; i++) {
            tensor_fill(data[i], (float)((call * 3) % 11 + i));
            expected += (float)((call * 3) % 11 + i);
        }
        algorithm_of(call)->run(data, k);
        for (int i = 0; i < k; i++)
            launch(data[i]->device, add, .y = totals[i]->data, .x = data[i]->data, .n = (size_t)n);
    }
    for (int i = 0; i < k; i++) {
        float *values = tensor_values(totals[i]);
        for (int j = 0; j < n; j++)
            if (!(values[j] == expected))
                fail_msg("k %d, n %d, device %d: element %d is %g, expected %g", k, n, i, j,
                         (double)values[j], (double)expected);
        free(values);
    }
    free_params(data, k);
    free_params(totals, k);
    free_params(busy, k);
}

static int the_one;
static const Allreduce *one_algorithm(int call) {
    (void)call;
    return &allreduces[the_one];
}
static const Allreduce *any_algorithm(int call) {
    return &allreduces[call * 7 / 3 % NUM_ALLREDUCES];
}

static void calls_one_after_the_other(void **state) {
    (void)state;
    const int lengths[] = {3, 5001, SIMULATED ? 1000 : 40000};
    for (int b = 1; b < NUM_KS; b++)
        for (int c = 0; c < 3; c++) {
            for (the_one = 0; the_one < NUM_ALLREDUCES; the_one++)
                call_often(one_algorithm, ks[b], lengths[c]);
            call_often(any_algorithm, ks[b], lengths[c]);
        }
}

// ---- in training -----------------------------------------------------------------------------

enum { STEPS = SIMULATED ? 4 : 20, BATCH = 30 };

static const size_t counts[LENET_PARAMS] = {180, 20, 25000, 50, 102400, 128, 1280, 10};

// Bright stripes whose place depends on the class.
static void minibatch(int step, Tensor *X, Tensor *y) {
    X->shape[0] = y->shape[0] = step % 4 == 3 ? 5 : BATCH; // sometimes too few for all devices
    for (int n = 0; n < X->shape[0]; n++) {
        int label = (n * 7 + step) % 10;
        y->data[n] = (float)label;
        for (int i = 0; i < 784; i++) {
            double noise = random_uniform(9, STREAM_TEST, (uint64_t)((step * BATCH + n) * 784 + i));
            X->data[n * 784 + i] = (float)(0.3 * noise + (i / 28 / 2 == label + 2 ? 0.7 : 0.0));
        }
    }
}

// The parameters after 20 steps on k devices, one behind the other. Never synchronised between the
// steps but where X, in host memory, is written anew.
static float *train_on(int k) {
    Device *devices[MAX_COMPUTING];
    Tensor *params[LENET_PARAMS], *device_params[MAX_COMPUTING][LENET_PARAMS],
        *losses[MAX_COMPUTING];
    open_devices(devices, k);
    lenet_init(params, 1);
    for (int p = 0; p < LENET_PARAMS; p++) // far enough from zero that they move in 20 steps
        for (size_t i = 0; i < counts[p]; i++) params[p]->data[i] *= p == 0 ? 30.0f : 8.0f;
    for (int i = 0; i < k; i++) get_params(params, LENET_PARAMS, devices[i], device_params[i]);

    Tensor *X = tensor_new(host(), BATCH, 1, 28, 28), *y = tensor_new(host(), BATCH);
    for (int step = 0; step < STEPS; step++) {
        synchronize_host_reads();
        minibatch(step, X, y);
        train_batch(X, y, device_params, devices, k, 0.2f, losses);
    }
    float *trained = malloc(sizeof(float) * 129068), *next = trained;
    assert_non_null(trained);
    for (int p = 0; p < LENET_PARAMS; next += counts[p++]) {
        Tensor *replicas[MAX_COMPUTING] = {NULL};
        for (int i = 0; i < k; i++) replicas[i] = device_params[i][p];
        assert_replicas_equal(replicas, k);
        tensor_read(replicas[0], next);
    }
    for (int i = 0; i < k; i++) free_params(device_params[i], LENET_PARAMS);
    free_params(params, LENET_PARAMS);
    tensor_free(X);
    tensor_free(y);
    return trained;
}

static void training_is_that_of_one_device(void **state) {
    (void)state;
    float *one = train_on(1), *start;
    Tensor *params[LENET_PARAMS];
    lenet_init(params, 1); // that training moves at all
    start = malloc(sizeof(float) * 129068);
    assert_non_null(start);
    float *next = start;
    for (int p = 0; p < LENET_PARAMS; next += counts[p++])
        for (size_t i = 0; i < counts[p]; i++)
            next[i] = params[p]->data[i] * (p == 0 ? 30.0f : 8.0f);
    assert_true(relative_difference(one, start, NULL, 129068) > 0.05);

    const int train_ks[] = {2, 4, 7};
    for (int a = 0; a < NUM_ALLREDUCES; a++)
        for (int b = 0; b < 3; b++) {
            choose_allreduce(allreduces[a].name);
            assert_ptr_equal(chosen_allreduce(), &allreduces[a]);
            float *other = train_on(train_ks[b]);
            double difference = relative_difference(other, one, start, 129068);
            if (!(difference <= 1e-3)) // a pixel near zero may be on the other side of ReLU
                fail_msg("%s, k %d: parameters differ by %g of the change", allreduces[a].name,
                         train_ks[b], difference);
            free(other);
        }
    choose_allreduce("star");
    free_params(params, LENET_PARAMS);
    free(start);
    free(one);
}

// ---- mistakes --------------------------------------------------------------------------------

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

static void mistakes_are_refused(void **state) {
    (void)state;
    expect_death(1, "no allreduce 'butterfly'", unknown_name, NULL);
    expect_death(1, "differ in shape", bad_tensors, &(int){0});
    expect_death(1, "on the same device", bad_tensors, &(int){1});
    expect_death(1, "share one buffer", bad_tensors, &(int){2});
}

static void good_tensors_are_not_refused(void **state) {
    (void)state;
    for (int n = 0; n <= 64; n += 16) { // 64 bytes each: they may lie one right behind the other
        Tensor *data[MOST_K];
        open_vectors(data, MOST_K, n);
        assert_null(allreduce_mistake(data, MOST_K));
        free_params(data, MOST_K);
    }
}

static int close_all(void **state) {
    (void)state;
    devices_close();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_are_refused), // forks: before there are other threads
        cmocka_unit_test(good_tensors_are_not_refused),
        cmocka_unit_test(all_send_the_same_in_total),
        cmocka_unit_test(formulas_are_those_of_the_header),
        cmocka_unit_test(whole_numbers_are_summed_exactly),
        cmocka_unit_test(long_vectors_are_summed_in_pieces),
        cmocka_unit_test(reals_are_summed_to_the_same_bits),
        cmocka_unit_test(the_books_lines_are_the_star),
        cmocka_unit_test(nan_is_not_lost),
        UNLESS_SIMULATED(most_devices),
        cmocka_unit_test(calls_one_after_the_other),
        UNLESS_SIMULATED(training_is_that_of_one_device),
    };
    return cmocka_run_group_tests_name("allreduce", tests, NULL, close_all);
}
