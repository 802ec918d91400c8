// test_queues.c: two queues of one device: what orders them and what does not, the memory that both
// use, events, calls of the host's functions, and the one thread that enqueues. Also built with
// TSan; so it uses kernels that need no library.
#include "common/device/device.h"
#include "common/device/graph.h"
#include "common/device/queue_observer.h"
#include "common/device/trace.h"
#include "common/tensor/autograd.h"
#include "cases.h"

#include <pthread.h>
#include <semaphore.h>
#include <time.h>

DEATHS_FIRST

enum { N = 3000 };

// ---- work that waits for the test ---------------------------------------------------------------

static void wait_for_semaphore(void *semaphore) {
    while (sem_wait(semaphore) != 0) continue;
}

static void sleep_so_long(void *duration) { nanosleep(duration, NULL); }

// What its communication queue does next comes after all that it computes now, and late.
static Queue *late_comm_queue(Device *device) {
    static struct timespec a_little = {0, 20000000};
    queue_wait(comm_queue(device), device_record(device));
    queue_call(comm_queue(device), sleep_so_long, &a_little);
    return comm_queue(device);
}

static void count_up(void *counter) { ++*(int *)counter; }

// ---- order --------------------------------------------------------------------------------------

TEST_ON_BOTH(device_has_two_queues) {
    Device *device = device_under_test(state);
    Queue *compute = compute_queue(device), *comm = comm_queue(device);
    assert_true(compute == compute_queue(device) && comm == comm_queue(device) && compute != comm);
    assert_ptr_equal(queue_device(comm), device);
    assert_true((queue_native(comm) != NULL) == (strcmp(*state, "cpu") != 0)); // a stream
}

// Each adds what it is sent, in turns; on one device, and on two. A wait left out changes the sum.
TEST_ON_BOTH(events_order_queues) {
    enum { ROUNDS = 12 };
    Device *devices[2];
    devices_under_test(state, 2, devices);
    for (int other = 0; other < 2; other++) {
        Device *device[2] = {devices[0], devices[other]};
        Tensor *x[2] = {vector_of(device[0], N, 1), vector_of(device[1], N, 0)};
        Tensor *received[2] = {keep(tensor_new(device[0], N)), keep(tensor_new(device[1], N))};
        ledger_reset();
        for (int i = 1; i <= 2 * ROUNDS; i++) { // x[to] += x[1 - to]
            int to = i % 2;
            Queue *compute = compute_queue(device[to]), *comm = comm_queue(device[to]);
            queue_wait(comm, device_record(device[1 - to]));
            queue_copy(comm, device[to], received[to]->data, device[1 - to], x[1 - to]->data,
                       tensor_bytes(x[0]));
            queue_wait(compute, queue_record(comm));
            launch_on(compute, add, .y = x[to]->data, .x = received[to]->data, .n = N);
        }
        assert_filled(x[0], 75025); // Fibonacci's 25th number
        assert_int_equal(ledger_bytes_between_devices(), other * 2 * ROUNDS * N * sizeof(float));
    }
}

// ---- memory that both use ----------------------------------------------------------------------

// The arena's memory is used again in the next step; what a communication queue still sends of it
// must arrive as it was. It is noted by the copy, and by a kernel's arguments; what a function uses
// (on CPU devices: addresses), by queue_uses().
static void copy_all(void *pair) {
    float *const *to_and_from = pair;
    memcpy(to_and_from[0], to_and_from[1], N * sizeof(float));
}

TEST_ON_BOTH(next_step_waits_for_what_is_being_sent) {
    Device *device = device_under_test(state);
    enum { STEPS = 6 };
    const int shape = N;
    float *memory = NULL;
    Tensor *sent[STEPS];
    float *pairs[STEPS][2];
    bool is_cpu = strcmp(*state, "cpu") == 0;
    for (int step = 0; step < STEPS; step++) sent[step] = vector_of(device, N, 0);
    for (int step = 0; step < STEPS; step++) {
        begin_step(device);
        Tensor *x = arena_tensor(device, 1, &shape, false);
        assert_true(step == 0 || x->data == memory);
        memory = x->data;
        tensor_fill(x, (float)step);
        Queue *comm = late_comm_queue(device);
        pairs[step][0] = sent[step]->data, pairs[step][1] = x->data;
        if (step % 3 == 0)
            queue_copy(comm, device, sent[step]->data, device, x->data, tensor_bytes(x));
        else if (step % 3 == 1 || !is_cpu)
            launch_on(comm, add, .y = sent[step]->data, .x = x->data, .n = N);
        else {
            queue_call(comm, copy_all, pairs[step]);
            queue_uses(comm, x->data);
        }
    }
    begin_step(device);
    tensor_fill(arena_tensor(device, 1, &shape, false), -1);
    synchronize(device);
    for (int step = 0; step < STEPS; step++) assert_filled(sent[step], (float)step);
}

// Nor is memory on loan lent again, or freed: the gradient that a queue still sends must arrive as
// it was.
TEST_ON_BOTH(loans_wait_for_what_is_being_sent) {
    Device *device = device_under_test(state);
    const size_t bytes = N * sizeof(float);
    Tensor *sent = vector_of(device, N, 0), *x = tensor_new(device, N);
    tensor_fill(x, 3);
    begin_step(device);
    float *loan = arena_lend(device, bytes);
    launch(device, fill, .x = loan, .value = 8, .n = N);
    launch_on(late_comm_queue(device), add, .y = sent->data, .x = loan, .n = N);
    assert_true(arena_give_back(device, loan));
    float *again = arena_lend(device, bytes);
    assert_ptr_equal(again, loan);
    launch(device, fill, .x = again, .value = 9, .n = N);
    synchronize(device);
    assert_filled(sent, 8);
    assert_true(arena_give_back(device, again));
    launch_on(late_comm_queue(device), add, .y = sent->data, .x = x->data, .n = N);
    tensor_free(x);
    assert_filled(sent, 11);
}

// Nor is memory given to others that was freed in the order of the compute queue, while the other
// queue still sends it. It stops counting at once, and the host does not wait.
TEST_ON_BOTH(freed_memory_waits_for_what_is_being_sent) {
    Device *device = device_under_test(state);
    Tensor *sent = vector_of(device, N, 0);
    for (int round = 0; round < 4; round++) {
        uint64_t bytes = device_bytes(device);
        float *x = device_alloc(device, N * sizeof(float));
        launch(device, fill, .x = x, .value = 8, .n = N);
        Queue *comm = late_comm_queue(device);
        queue_copy(comm, device, sent->data, device, x, N * sizeof(float));
        device_free_in_order(device, x);
        assert_int_equal(device_bytes(device), bytes);
        assert_true(SIMULATED || !event_reached(queue_record(comm)));
        sleep_so_long(&(struct timespec){0, 5000000}); // the compute queue is idle by now
        float *y = device_alloc(device, N * sizeof(float));
        launch(device, fill, .x = y, .value = 9, .n = N);
        device_free_in_order(device, y);
        assert_filled(sent, 8);
        tensor_fill(sent, 0);
    }
    // Where a limit leaves no other room, others wait for it.
    size_t room = N * sizeof(float), used = device_bytes(device);
    devices_limit_memory((double)(used - device_bytes_of(device, MEMORY_KERNELS) + room));
    float *x = device_alloc(device, room);
    queue_wait(compute_queue(device), queue_record(late_comm_queue(device)));
    device_free_in_order(device, x);
    Event freed = device_record(device);
    float *y = device_alloc(device, room);
    assert_true(event_reached(freed));
    device_free(device, y);
    devices_limit_memory(INFINITY);
}

// A graph's addresses are good as long as what was there when it was recorded is still there; what
// came and went since does not matter.
TEST_ON_BOTH(a_stamp_knows_what_was_freed) {
    Device *device = device_under_test(state);
    Tensor *before = tensor_new(device, N);
    MemoryStamp stamp = memory_stamp();
    assert_true(memory_still_there(stamp));
    Tensor *after = tensor_new(device, N);
    assert_true(memory_still_there(stamp));
    tensor_free(after);
    assert_true(memory_still_there(stamp));
    tensor_free(before);
    assert_false(memory_still_there(stamp));
}

// ---- events -------------------------------------------------------------------------------------

// An event is that point and no later one, however many were recorded after it. Functions are
// called once each, in order; and while one queue stands still, the other one works. (On a GPU a
// function must not wait; a stream of the simulator stands still until somebody waits for it.)
TEST_ON_BOTH(events_stay_what_they_are) {
    Device *device = device_under_test(state);
    Queue *queues[2] = {compute_queue(device), comm_queue(device)};
    bool is_cpu = strcmp(*state, "cpu") == 0;
    for (int q = 0; q < 2; q++) {
        Queue *queue = queues[q], *other = queues[1 - q];
        Tensor *x = vector_of(device, N, 0);
        int early = 0, late = 0;
        sem_t semaphore;
        sem_init(&semaphore, 0, 0);
        queue_wait(other, device_record(device));
        for (int i = 0; i < 3; i++) queue_call(other, count_up, &early);
        queue_wait(queue, queue_record(other));
        queue_call(queue, count_up, &early);
        Event event = queue_record(queue);
        if (is_cpu) queue_call(queue, wait_for_semaphore, &semaphore);
        queue_call(queue, count_up, &late);
        Event last = queue_record(queue);
        for (int i = 0; i < 900; i++) last = queue_record(queue);
        launch_on(other, fill, .x = x->data, .value = 7, .n = N);
        Event filled = queue_record(other);
        event_synchronize(event);
        assert_true(!SIMULATED || (late == 0 && !event_reached(last)));
        event_synchronize(filled);
        assert_true(event_reached(event) && event_reached(filled) && early == 4);
        assert_true(!is_cpu || (x->data[N - 1] == 7 && late == 0 && !event_reached(last)));
        sem_post(&semaphore);
        event_synchronize(last);
        assert_true(event_reached(last) && event_reached(event) && late == 1);
        sem_destroy(&semaphore);
    }
    event_synchronize((Event){0}); // of no queue: it is reached
    assert_true(event_reached((Event){0}) && event_reached(device_record(host())));
}

// ---- observers ---------------------------------------------------------------------------------

static Queue *observed; // what is told of it is written down; NULL: of none
static char told[64];

static void tell(const Queue *queue, char what) {
    size_t length = strlen(told);
    if (!observed || queue != observed) return;
    assert_true(length + 1 < sizeof told);
    told[length] = what;
}

static void tell_launch(Queue *queue, KernelId kernel, const void *args) {
    assert_true(!observed || (kernel == KERNEL_fill && args));
    tell(queue, 'L');
}

static void tell_copy(Queue *queue, const Device *to, const void *dst, const Device *from,
                      size_t bytes) {
    assert_true(!observed ||
                (to == queue_device(queue) && dst && from == host() && bytes == sizeof(float)));
    tell(queue, 'C');
}

// Of what was enqueued before it, the observer has been told: it can say which point that is.
static void tell_record(Event *event) {
    tell(event->queue, 'R');
    if (event->queue == observed && event->ticket) event->modelled = strlen(told);
}

static void tell_wait(Queue *queue, Event event) {
    assert_true(event.queue != queue && event.ticket);
    tell(queue, 'W');
}

static void tell_host_wait(Event event) { tell(event.queue, 'H'); }
static void tell_graph(Device *const devices[], int k) {
    if (observed) tell(comm_queue(devices[k - 1]), '(');
}
static void *tell_graph_end(void) { return tell(observed, ')'), observed; }
static void tell_graph_launch(void *graph) { tell(graph, 'G'); }
static void tell_graph_free(void *graph) { tell(graph, 'F'); }

// Each is told once, after it was enqueued. (It is the second queue that is observed: there, an
// event is recorded for all memory that work uses.)
TEST_ON_BOTH(observers_are_told_once) {
    static const QueueObserver observer = {
        tell_launch, tell_copy,      tell_record,       tell_wait,       tell_host_wait,
        tell_graph,  tell_graph_end, tell_graph_launch, tell_graph_free,
    };
    Device *device = device_under_test(state);
    Tensor *x = vector_of(device, N, 0);
    float first = 2;
    observed = comm_queue(device);
    queue_wait(observed, device_record(device));
    synchronize(device);
    memset(told, 0, sizeof told);
    queue_observe(&observer);
    queue_observe(&observer);
    launch_on(observed, fill, .x = x->data, .value = 1, .n = N);
    assert_int_equal(queue_record(observed).modelled, 3);
    queue_wait(observed, queue_record(observed)); // of the same queue: there is nothing to wait for
    queue_wait(observed, device_record(device));
    assert_string_equal(told, "LRRRW");
    queue_copy(observed, device, x->data, host(), &first, sizeof first);
    queue_copy(observed, device, x->data, host(), &first, 0);
    event_synchronize(queue_record(observed));
    assert_string_equal(told, "LRRRWCRRRRH");
    if (has_graphs(device)) {
        graph_begin(&device, 1);
        launch_on(observed, fill, .x = x->data, .value = 2, .n = N);
        Graph *graph = graph_end();
        graph_launch(graph);
        graph_launch(graph);
        graph_free(graph);
        assert_string_equal(told, "LRRRWCRRRRH(LR)GGF");
    }
    observed = NULL;
}

// ---- trace -------------------------------------------------------------------------------------

TEST_ON_BOTH(a_trace_tells_the_queues_apart) {
    Device *device = device_under_test(state);
    Tensor *x = vector_of(device, N, 0);
    comm_queue(device);
    trace_begin();
    trace_label("a");
    launch_on(comm_queue(device), fill, .x = x->data, .value = 1, .n = N);
    trace_label("b");
    device_wait(device, queue_record(comm_queue(device)));
    tensor_fill(x, 2);
    int count;
    TraceSpan *spans = trace_end(&count);
    assert_int_equal(count, 2);
    assert_false(spans[0].communicates);
    assert_string_equal(spans[0].label, "b");
    assert_true(spans[1].communicates);
    assert_string_equal(spans[1].label, "a");
    assert_string_equal(spans[1].work, "fill");
    assert_true(spans[1].end <= spans[0].start + 1e-3);
    free(spans);
}

// ---- mistakes ----------------------------------------------------------------------------------

static void *enqueue(void *device) {
    launch((Device *)device, fill, .x = NULL, .value = 0, .n = 0);
    return NULL;
}

static void *open_one(void *device) { return device ? try_gpu(1) : NULL; }

static void in_a_thread(void *(*does)(void *)) {
    pthread_t thread;
    pthread_create(&thread, NULL, does, try_gpu(0));
    pthread_join(thread, NULL);
}

DIES("the thread that opened the devices enqueues all work", in_a_thread(enqueue))
DIES("the thread that opened the devices enqueues all work", in_a_thread(open_one))
DIES("device_free() takes what device_alloc() gave",
     device_free(cpu_device(1), device_alloc(cpu_device(0), 100)))

int main(void) { return run_all("queues", NULL, close_kept); }
