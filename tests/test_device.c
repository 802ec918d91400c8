// test_device.c: queues, events, copies, the ledger. Also built with TSan, which looks for races in
// the queues; so it uses kernels that need no library.
#include "test.h"

#include "common/device/device.h"
#include "common/tensor/tensor.h"
#include "common/base/clock.h"
#include "common/device/timer.h"

#include <time.h>

enum { N = 100000 };

static Device *device(int i) { return try_gpu(i); }

static void assert_all(const Tensor *t, float value) {
    float *values = malloc(tensor_bytes(t));
    tensor_read(t, values);
    for (size_t i = 0; i < numel(t); i++) assert_true(values[i] == value);
    free(values);
}

static void work_is_done_in_order(void **state) {
    (void)state;
    Tensor *x = tensor_new(device(0), N), *one = tensor_new(device(0), N);
    tensor_fill(x, 0);
    tensor_fill(one, 1);
    for (int i = 0; i < 3000; i++) { // more than the queue holds: the host waits for room
        launch(device(0), add, .y = x->data, .x = one->data, .n = 10);
        if (i % 1000 == 999) launch(device(0), fill, .x = x->data, .value = (float)i, .n = 5);
    }
    float values[N];
    tensor_read(x, values);
    for (int i = 0; i < 5; i++) assert_true(values[i] == 2999);
    for (int i = 5; i < 10; i++) assert_true(values[i] == 3000);
    assert_true(values[10] == 0);
    tensor_free(x);
    tensor_free(one);
}

// x = 1, 2, 3, .. on device 0, each sent to device 1 before the next overwrites it: a copy that did
// not wait, or was not waited for, would show in the sum.
static void copies_wait_for_both_sides(void **state) {
    (void)state;
    Tensor *x = tensor_new(device(0), N), *received = tensor_new(device(1), N),
           *total = tensor_new(device(1), N);
    tensor_fill(total, 0);
    for (int i = 1; i <= 200; i++) {
        tensor_fill(x, (float)i);
        tensor_copy(received, x);
        launch(device(1), add, .y = total->data, .x = received->data, .n = N);
    }
    assert_all(total, 200 * 201 / 2);
    tensor_free(x);
    tensor_free(received);
    tensor_free(total);
}

// A ring of devices, each waiting for the one before by events alone.
static void events_order_queues(void **state) {
    (void)state;
    enum { K = 5, ROUNDS = 300 };
    Tensor *x = tensor_new(device(0), 1), *one[K];
    tensor_fill(x, 0);
    for (int i = 0; i < K; i++) {
        one[i] = tensor_new(device(i), 1);
        tensor_fill(one[i], 1);
        synchronize(device(i));
    }
    // All add to the same number. Only the CPU lets a device write another's memory; on GPUs the
    // peers do.
    if (num_gpus() == 0)
        for (int round = 0; round < ROUNDS; round++)
            for (int i = 0; i < K; i++) {
                launch(device(i), add, .y = x->data, .x = one[i]->data, .n = 1);
                device_wait(device((i + 1) % K), device_record(device(i)));
            }
    synchronize_all();
    if (num_gpus() == 0) assert_all(x, K * ROUNDS);
    tensor_free(x);
    for (int i = 0; i < K; i++) tensor_free(one[i]);
}

// Each device's memory is its own: writing one leaves the others.
static void memory_is_separate(void **state) {
    (void)state;
    enum { K = 7 };
    Tensor *x[K];
    for (int i = 0; i < K; i++) x[i] = tensor_new(device(i), 33);
    for (int i = 0; i < K; i++) tensor_fill(x[i], (float)i);
    for (int i = 0; i < K; i++) assert_all(x[i], (float)i);
    for (int i = 0; i < K; i++)
        for (int j = 0; j < i; j++) assert_ptr_not_equal(x[i]->data, x[j]->data);
    for (int i = 0; i < K; i++) tensor_free(x[i]);
}

static void copies_go_between_any_two_devices(void **state) {
    (void)state;
    Device *all[] = {host(), device(0), device(1), device(2), cpu_device(3)};
    enum { K = sizeof all / sizeof all[0] };
    for (int i = 0; i < K; i++)
        for (int j = 0; j < K; j++) {
            Tensor *from = tensor_new(all[i], 1001), *to = tensor_new(all[j], 1001);
            tensor_fill(from, (float)(10 * i + j));
            tensor_fill(to, -1);
            tensor_copy(to, from);
            assert_all(to, (float)(10 * i + j));
            tensor_free(from);
            tensor_free(to);
        }
}

static void ledger_counts_what_crosses(void **state) {
    (void)state;
    Tensor *a = tensor_new(device(0), 10), *b = tensor_new(device(1), 10),
           *c = tensor_new(device(1), 10);
    Tensor *h = tensor_new(host(), 10),
           *empty[2] = {tensor_new(device(0), 0, 3), tensor_new(device(1), 0, 3)};
    tensor_fill(a, 1);
    tensor_fill(b, 1);
    ledger_reset();
    tensor_copy(b, a);
    tensor_copy(b, a);
    tensor_copy(a, b);
    tensor_copy(c, b); // within a device: crosses nothing
    tensor_copy(h, a);
    tensor_copy(a, h);
    tensor_copy(empty[1], empty[0]);
    assert_int_equal(ledger_bytes(device(0), device(1)), 80);
    assert_int_equal(ledger_bytes(device(1), device(0)), 40);
    assert_int_equal(ledger_bytes(device(1), device(1)), 0);
    assert_int_equal(ledger_bytes(device(0), host()), 40);
    assert_int_equal(ledger_bytes_between_devices(), 120);
    assert_int_equal(ledger_bytes_host(), 80);
    ledger_reset();
    assert_int_equal(ledger_bytes_between_devices() + ledger_bytes_host(), 0);
    synchronize_all();
    Tensor *all[] = {a, b, c, h, empty[0], empty[1]};
    for (int i = 0; i < 6; i++) tensor_free(all[i]);
}

static void memory_is_accounted_for(void **state) {
    (void)state;
    size_t before = device_bytes(device(3));
    Tensor *a = tensor_new(device(3), 1000), *b = tensor_new(device(3), 50, 2);
    assert_int_equal(device_bytes(device(3)), before + 4400);
    tensor_free(a);
    assert_int_equal(device_bytes(device(3)), before + 400);
    tensor_free(b);
    assert_int_equal(device_bytes(device(3)), before);
    assert_true(device_peak_bytes(device(3)) >= before + 4400);
}

static void host_memory_is_read_before_it_is_reused(void **state) {
    (void)state;
    Tensor *h = tensor_new(host(), N), *total = tensor_new(device(0), N),
           *x = tensor_new(device(0), N);
    tensor_fill(total, 0);
    for (int i = 1; i <= 100; i++) {
        synchronize_host_reads(); // without it, the next line would change what is still being
                                  // copied
        tensor_fill(h, (float)i);
        tensor_copy(x, h);
        launch(device(0), add, .y = total->data, .x = x->data, .n = N);
    }
    assert_all(total, 5050);
    tensor_free(h);
    tensor_free(total);
    tensor_free(x);
}

static double cpu_seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// A slower device computes the same, and sleeps for three quarters of the time. Other programs make
// a run longer, sleeps too, but never its time on the cores: so that is what it is compared with.
// (Kernels so long that the queue's work beside them is nothing; one thread, since threads of
// OpenMP that wait for each other are on their cores too.)
static void a_device_can_be_made_slower(void **state) {
    (void)state;
    enum { LARGE = 1000000 };
    const double LONG = 0.2; // other threads, those of OpenMP, are busy for a while at the start
    Device *cpu = cpu_device(0);
    Tensor *x = tensor_new(cpu, LARGE), *one = tensor_new(cpu, LARGE);
    Timer timer = {0};
    tensor_fill(x, 0);
    tensor_fill(one, 1);
    device_set_threads(cpu, 1);
    device_set_slowdown(cpu, 4);
    timer_start(&timer);
    double begin = cpu_seconds_now(), busy = 0;
    int times = 0;
    for (; busy < LONG; busy = cpu_seconds_now() - begin, times++) {
        launch(cpu, add, .y = x->data, .x = one->data, .n = LARGE);
        synchronize(cpu);
    }
    double seconds = timer_stop(&timer);
    device_set_slowdown(cpu, 1);
    share_cores(&cpu, 1);
    assert_true(seconds > 2 * busy);
    assert_all(x, (float)times);
    tensor_free(x);
    tensor_free(one);
}

static void names_are_the_books(void **state) {
    (void)state;
    Device *devices[] = {cpu_device(0), cpu_device(1)};
    assert_string_equal(device_names(devices, 2), "[cpu:0, cpu:1]");
    assert_string_equal(device_name(host()), "host");
    assert_ptr_equal(try_gpu(0), try_gpu(0));
    Device *all[MAX_DEVICES];
    int n = try_all_gpus(all);
    assert_int_equal(n, num_gpus() ? num_gpus() : 1);
    assert_ptr_equal(all[0], try_gpu(0));
}

static void items_of_several_devices_are_read_together(void **state) {
    (void)state;
    enum { K = 3 };
    Tensor *x[K];
    float values[K];
    for (int i = 0; i < K; i++) x[i] = tensor_new(device(i), 1);
    for (int i = 0; i < K; i++) tensor_fill(x[i], (float)(10 + i));
    items(x, K, values);
    for (int i = 0; i < K; i++) assert_true(values[i] == (float)(10 + i));
    for (int i = 0; i < K; i++) tensor_free(x[i]);
}

#if defined(_OPENMP) && defined(__linux__)
static int threads_of_this_process(void) {
    char line[256];
    int threads = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) sscanf(line, "Threads: %d", &threads);
    if (status) fclose(status);
    return threads;
}
#endif

// A loop that is long enough has a thread for each core that its device was given.
static void kernels_use_their_cores(void **state) {
    (void)state;
#if defined(_OPENMP) && defined(__linux__)
    enum { CORES = 9 }; // more than any test before
    Tensor *x = tensor_new(device(0), N);
    device_set_threads(device(0), CORES);
    int before = threads_of_this_process();
    launch(device(0), scale, .x = x->data, .factor = 1, .n = N);
    synchronize(device(0));
    assert_true(threads_of_this_process() >= CORES && threads_of_this_process() > before);
    share_cores((Device *[]){device(0)}, 1);
    tensor_free(x);
#else
    skip("no OpenMP");
#endif
}

// (On GPUs x is pinned, and only CUDA can free that.)
static void host_memory_goes_back_where_it_came_from(void **state) {
    (void)state;
    Tensor *x = tensor_new(host(), N);
    devices_close();
    devices_init(BACKEND_CPU, 0);
    tensor_free(x);
    devices_close();
}

static int close_devices(void **state) {
    (void)state;
    devices_close();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_is_done_in_order),
        cmocka_unit_test(copies_wait_for_both_sides),
        cmocka_unit_test(events_order_queues),
        cmocka_unit_test(memory_is_separate),
        cmocka_unit_test(copies_go_between_any_two_devices),
        cmocka_unit_test(ledger_counts_what_crosses),
        cmocka_unit_test(memory_is_accounted_for),
        cmocka_unit_test(host_memory_is_read_before_it_is_reused),
        UNLESS_SIMULATED(a_device_can_be_made_slower), // these are about CPU devices
        UNLESS_SIMULATED(kernels_use_their_cores),
        cmocka_unit_test(items_of_several_devices_are_read_together),
        cmocka_unit_test(names_are_the_books),
        cmocka_unit_test(host_memory_goes_back_where_it_came_from),
    };
    return cmocka_run_group_tests_name("device", tests, NULL, close_devices);
}
