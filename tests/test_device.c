// test_device.c: queues, copies, the ledger, memory. Also built with TSan, which looks for races in
// the queues; so it uses kernels that need no library. (Two queues of one device: test_queues.c.)
#include "cases.h"
#include "common/base/platform.h"

#include <dirent.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

enum { N = 100000 };

static Device *device(int i) { return try_gpu(i); }

TEST(work_is_done_in_order) {
    Tensor *x = vector_of(device(0), N, 0), *one = vector_of(device(0), N, 1);
    for (int i = 0; i < 3000; i++) { // more than the queue holds: the host waits for room
        launch(device(0), add, .y = x->data, .x = one->data, .n = 10);
        if (i % 1000 == 999) launch(device(0), fill, .x = x->data, .value = (float)i, .n = 5);
    }
    float *values = values_of(x);
    for (int i = 0; i < 11; i++) assert_true(values[i] == (i < 5 ? 2999 : i < 10 ? 3000 : 0));
}

// x = 1, 2, 3, .. on the first device (host: when it has been read), each sent to the second before
// the next overwrites it: a copy that did not wait, or was not waited for, would show in the sum.
TEST(copies_wait_for_both_sides) {
    Device *from[] = {device(0), host()};
    for (int d = 0; d < 2; d++) {
        Tensor *x = vector_of(from[d], N, 0), *received = vector_of(device(1), N, 0),
               *total = vector_of(device(1), N, 0);
        for (int i = 1; i <= 100; i++) {
            if (from[d] == host()) synchronize_host_reads();
            tensor_fill(x, (float)i);
            tensor_copy(received, x);
            launch(device(1), add, .y = total->data, .x = received->data, .n = N);
        }
        assert_filled(total, 100 * 101 / 2);
    }
}

// Each copy arrives, and each time its bytes are entered where they belong: nowhere within a
// device, for they cross nothing.
TEST(copies_arrive_and_are_counted) {
    Device *all[] = {host(), device(0), device(1), device(2), cpu_device(3)};
    for (size_t i = 0; i < COUNT(all); i++)
        for (size_t j = 0; j < COUNT(all); j++)
            for (int n = 0; n <= 1001; n += 1001) {
                size_t bytes = i == j ? 0 : 2 * (size_t)n * sizeof(float);
                Tensor *from = vector_of(all[i], n, (float)(10 * i + j)),
                       *to = vector_of(all[j], n, -1);
                ledger_reset();
                for (int times = 0; times < 2; times++) tensor_copy(to, from);
                assert_int_equal(ledger_bytes(all[i], all[j]), bytes);
                assert_int_equal(ledger_bytes_between_devices(), i && j ? bytes : 0);
                assert_int_equal(ledger_bytes_host(), i && j ? 0 : bytes);
                assert_true(i == j || ledger_bytes(all[j], all[i]) == 0);
                assert_filled(to, (float)(10 * i + j));
            }
}

TEST(memory_is_accounted_for) {
    size_t before = device_bytes(device(3));
    Tensor *a = tensor_new(device(3), 1000), *b = tensor_new(device(3), 50, 2);
    assert_int_equal(device_bytes(device(3)), before + 4400);
    tensor_free(a);
    assert_int_equal(device_bytes(device(3)), before + 400);
    tensor_free(b);
    assert_int_equal(device_bytes(device(3)), before);
    assert_true(device_peak_bytes(device(3)) >= before + 4400);
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
TEST_UNLESS_SIMULATED(a_device_can_be_made_slower) {
    enum { LARGE = 1000000 };
    const double LONG = 0.2; // other threads, those of OpenMP, are busy for a while at the start
    Device *cpu = cpu_device(0);
    Tensor *x = vector_of(cpu, LARGE, 0), *one = vector_of(cpu, LARGE, 1);
    int times = 0;
    device_set_threads(cpu, 1);
    device_set_slowdown(cpu, 4);
    double start = seconds_now(), begin = cpu_seconds_now(), busy = 0;
    for (; busy < LONG; busy = cpu_seconds_now() - begin, times++) {
        launch(cpu, add, .y = x->data, .x = one->data, .n = LARGE);
        synchronize(cpu);
    }
    double seconds = seconds_now() - start;
    device_set_slowdown(cpu, 1);
    share_cores(&cpu, 1);
    assert_true(seconds > 2 * busy);
    assert_filled(x, (float)times);
}

TEST(names_are_the_books) {
    Device *devices[] = {cpu_device(0), cpu_device(1)};
    assert_string_equal(device_names(devices, 2), "[cpu:0, cpu:1]");
    assert_string_equal(device_name(host()), "host");
    Device *all[MAX_DEVICES];
    int n = try_all_gpus(all);
    assert_int_equal(n, num_gpus() ? num_gpus() : 1);
    assert_ptr_equal(all[0], try_gpu(0));
}

#if defined(_OPENMP) && defined(__linux__)
// How many, and the sum of their numbers: another one if some ended and others began.
static int threads_of_this_process(long *sum) {
    int threads = 0;
    DIR *folder = opendir("/proc/self/task");
    *sum = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (entry->d_name[0] != '.') threads++, *sum += atol(entry->d_name);
    if (folder) closedir(folder);
    return threads;
}
#endif

// A loop that is long enough has a thread for each core that its device was given, and it still is
// the same thread after a kernel that has work for two.
TEST_UNLESS_SIMULATED(kernels_use_their_cores) {
#if defined(_OPENMP) && defined(__linux__)
    enum { CORES = 9 }; // more than any test before
    Tensor *x = vector_of(device(0), N, 0);
    long sum, later;
    int before = threads_of_this_process(&sum);
    device_set_threads(device(0), CORES);
    launch(device(0), scale, .x = x->data, .factor = 1, .n = N);
    synchronize(device(0));
    int now = threads_of_this_process(&sum);
    assert_true(now >= CORES && now > before);
    const struct conv2d_shape s = {2, 16, 28, 28, 16, 3, 3, 1, 1, 1, 1, 28, 28};
    Tensor *X = vector_of(device(0), 2 * 16 * 28 * 28, 1),
           *Y = vector_of(device(0), 2 * 16 * 28 * 28, 0);
    launch(device(0), conv2d_forward, .X = X->data, .W = X->data, .Y = Y->data, .s = s);
    launch(device(0), scale, .x = x->data, .factor = 1, .n = N);
    synchronize(device(0));
    assert_true(threads_of_this_process(&later) == now && later == sum);
    share_cores((Device *[]){device(0)}, 1);
#else
    skip("no OpenMP");
#endif
}

static void count_cores(void *context) {
    cpu_set_t set;
    *(int *)context = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : -1;
}

static int cores_of_worker(Device *cpu) {
    int cores = 0;
    queue_call(compute_queue(cpu), count_cores, &cores);
    synchronize(cpu);
    return cores;
}

TEST_UNLESS_SIMULATED(threads_stay_on_cores_of_their_own_if_each_has_one) {
    Device *two[] = {cpu_device(0), cpu_device(1)};
    int all = cores_in_sight(); // a container may have fewer; inline, the host does the work
    int own = num_threads() == all && !getenv("TEST_INLINE") ? 1 : all;
    share_cores(two, 1);
    assert_int_equal(cores_of_worker(two[0]), own);
    share_cores(two, 2);
    assert_int_equal(cores_of_worker(two[1]), own);
    device_set_threads(two[1], 1);
    assert_int_equal(cores_of_worker(two[1]), all);
    share_cores(two, 1);
}

// (On GPUs x is pinned, and only CUDA can free that.)
TEST(host_memory_goes_back_where_it_came_from) {
    free_kept();
    Tensor *x = tensor_new(host(), N);
    devices_close();
    devices_init(BACKEND_CPU, 0);
    tensor_free(x);
    devices_close();
}

int main(void) { return run_all("device", NULL, close_kept); }
