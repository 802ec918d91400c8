// mistakes.c: five mistakes, made on purpose, and what reveals each of them.
#include "mistakes.h"

#include "common/book.h"
#include "chapters/03_split_batch/split_batch.h"
#include "ddp.h"
#include "networks.h"
#include "sampler.h"

// Three of them are made in a child process, on two devices without values. We know which gradients
// are final, and in which order, without computing them.

typedef struct Step {
    Ddp *ddp;
    Tensor *X[3], *y[3], *losses[3];
} Step;

static Step begin_on(Device *const devices[], int k, const Tensor *X, const Tensor *y,
                     DdpOptions options) {
    Step s;
    Module *net = lenet_modules(10);
    initialize(net, 1);
    s.ddp = ddp_new(net, devices, k, options);
    for (int i = 0; i < k; i++) begin_step(devices[i]);
    split_batch(X, y, devices, k, s.X, s.y);
    return s;
}

static Step begin_in_child(void) {
    const Tensor X = {.ndim = 4, .shape = {8, 1, 28, 28}, .device = host()};
    const Tensor y = {.ndim = 1, .shape = {8}, .device = host()};
    devices_after_fork();
    Device *devices[2] = {model_device(0), model_device(1)};
    return begin_on(devices, 2, &X, &y, (DdpOptions){.bucket_bytes = 4 << 10}); // in four
}

static void go(Step *s) { ddp_step(s->ddp, s->X, s->y, 1, 8, s->losses); }

// On rank 1, autograd's hook is called twice for the first gradient of bucket 0. So the bucket
// seems full before its last gradient is final.
static void (*ddps_hook)(Tensor *t, void *arrival);

static void call_twice(Tensor *t, void *arrival) {
    ddps_hook(t, arrival);
    ddps_hook(t, arrival);
}

static void count_twice(void *unused) {
    (void)unused;
    Step s = begin_in_child();
    Tensor *t = parameter_data(find_parameter(s.ddp->net, "9.bias"), s.ddp->devices[1]);
    ddps_hook = t->grad_final;
    when_grad_is_final(t, call_twice, t->grad_final_context);
    go(&s);
}

// Rank 1 brings bucket 1 to the first exchange, because that bucket happened to be ready first on
// rank 1.
static void send_in_own_order(void *unused) {
    (void)unused;
    Step s = begin_in_child();
    RankBucket *buckets = s.ddp->ranks[1], first = buckets[0];
    buckets[0].grads = buckets[1].grads;
    buckets[1].grads = first.grads;
    go(&s);
}

// The loss is computed from the first layer alone, so the other parameters get no gradient.
static void leave_unused(void *unused) {
    (void)unused;
    Step s = begin_in_child();
    for (int i = 0; i < 2; i++) {
        Device *device = s.ddp->devices[i];
        Tensor *W = parameter_data(find_parameter(s.ddp->net, "0.weight"), device);
        Tensor *b = parameter_data(find_parameter(s.ddp->net, "0.bias"), device);
        s.losses[i] = sum(relu(conv2d(s.X[i], W, b)));
    }
    ddp_backward(s.ddp, s.losses);
}

static void show_child(const char *mistake, void (*make)(void *)) {
    printf("  %s\n", mistake);
    CHECK(try_in_child(make, NULL) == EXIT_FAILURE, "a planted mistake must be noticed");
}

// The share of rank 0's places that hold the same image in two epochs.
static double same_places(bool told) {
    enum { PLACES = 512 };
    int first[PLACES], second[PLACES], same = 0;
    DistributedSampler s = {4 * PLACES, 4, 0, SAMPLER_PAD, .shuffle = true};
    sampler_indices(&s, first);
    if (told) sampler_set_epoch(&s, 1);
    sampler_indices(&s, second);
    for (int i = 0; i < PLACES; i++) same += first[i] == second[i];
    return (double)same / PLACES;
}

static void forget_set_epoch(void) {
    double forgotten = same_places(false), told = same_places(true);
    printf("  4. sampler_set_epoch() is forgotten:\n%.1f %% of the order is the same in two "
           "epochs, but %.1f %% if it is called\n",
           100 * forgotten, 100 * told);
    CHECK(forgotten == 1 && told < 0.05, "an order is known again");
}

static void divide_twice(Step *s, int rows) { // rows: of all ranks
    int divisor = s->ddp->k * rows;           // wrong: rows alone would be right
    ddp_step(s->ddp, s->X, s->y, 1, divisor, s->losses);
}

// How long a step's update is. (On one device, dividing by k changes nothing.)
static double update_length(const Tensor *X, const Tensor *y, int k) {
    Device *devices[3];
    double squares = 0;
    open_devices(devices, k);
    Step s = begin_on(devices, k, X, y, (DdpOptions){0});
    Module *net = s.ddp->net;
    Tensor *params = flat_parameters(net, devices[0]).data;
    float *before = tensor_values(params);
    divide_twice(&s, X->shape[0]);
    float *after = tensor_values(params);
    for (size_t i = 0; i < numel(params); i++)
        squares += pow((double)after[i] - (double)before[i], 2);
    free(before);
    free(after);
    ddp_free(s.ddp);
    module_free(net);
    return sqrt(squares);
}

static void compare_updates(DataIter *batches) {
    Tensor *X, *y;
    data_iter_first(batches, &X, &y);
    double right = update_length(X, y, 1);
    double two = update_length(X, y, 2) / right, three = update_length(X, y, 3) / right;
    printf("  5. The sum is divided by k, then by all rows:\nthe update is %.3f times as long on 2 "
           "devices, %.3f times on 3\n",
           two, three);
    CHECK(fabs(two - 0.5) < 1e-3, "1/k gives it away");
}

void make_mistakes(DataIter *batches) {
    show_child("1. Rank 1 counts a gradient of bucket 0 twice:", count_twice);
    show_child("2. Rank 1 comes to the first exchange with bucket 1:", send_in_own_order);
    show_child("3. A step uses the first layer only:", leave_unused);
    forget_set_epoch();
    if (has_values(try_gpu(0))) compare_updates(batches);
}
