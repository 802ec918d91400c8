// mistakes.c: five mistakes, made on purpose, and what notices each of them.
#include "mistakes.h"

#include "common/book.h"
#include "chapters/03_split_batch/split_batch.h"
#include "ddp.h"
#include "networks.h"
#include "sampler.h"

// ## Mistakes that end the program
//
// Each is made in a child process, on two devices without values. Which gradients are final, and in
// which order, is known without computing them.

typedef struct Step {
    Ddp *ddp;
    Tensor *X[2], *y[2], *losses[2];
} Step;

// LeNet on two ranks, in four buckets.
static Step begin_on_two_ranks(void) {
    Step s;
    devices_after_fork();
    const Tensor X = {.ndim = 4, .shape = {8, 1, 28, 28}, .device = host()};
    const Tensor y = {.ndim = 1, .shape = {8}, .device = host()};
    Device *devices[2] = {model_device(0), model_device(1)};
    Module *net = lenet_modules(10);
    initialize(net, 1);
    s.ddp = ddp_new(net, devices, 2, (DdpOptions){.bucket_bytes = 4 << 10});
    for (int i = 0; i < 2; i++) begin_step(devices[i]);
    split_batch(&X, &y, devices, 2, s.X, s.y);
    return s;
}

static void go(Step *s) {
    Tensor *y_hat[2];
    ddp_forward(s->ddp, s->X, y_hat);
    for (int i = 0; i < 2; i++) s->losses[i] = sum(cross_entropy(y_hat[i], s->y[i]));
    ddp_backward(s->ddp, s->losses);
}

// On rank 1, autograd's hook is called twice for the first gradient of bucket 0. So the bucket
// seems full when its last gradient is not final.
static void (*ddps_hook)(Tensor *t, void *arrival);

static void call_twice(Tensor *t, void *arrival) {
    ddps_hook(t, arrival);
    ddps_hook(t, arrival);
}

static void count_twice(void *unused) {
    (void)unused;
    Step s = begin_on_two_ranks();
    Tensor *t = parameter_data(find_parameter(s.ddp->net, "9.bias"), s.ddp->devices[1]);
    ddps_hook = t->grad_final;
    when_grad_is_final(t, call_twice, t->grad_final_context);
    go(&s);
}

// Rank 1 comes to the first meeting with bucket 1, because that happened to be ready first there.
static void send_in_own_order(void *unused) {
    (void)unused;
    Step s = begin_on_two_ranks();
    RankBucket *buckets = s.ddp->ranks[1];
    Tensor *first = buckets[0].grads;
    buckets[0].grads = buckets[1].grads;
    buckets[1].grads = first;
    go(&s);
}

// The loss is computed from the first layer alone, so the other parameters get no gradient.
static void leave_unused(void *find) {
    Step s = begin_on_two_ranks();
    s.ddp->options.find_unused = find != NULL;
    for (int i = 0; i < 2; i++) {
        Device *device = s.ddp->devices[i];
        Tensor *W = parameter_data(find_parameter(s.ddp->net, "0.weight"), device);
        Tensor *b = parameter_data(find_parameter(s.ddp->net, "0.bias"), device);
        s.losses[i] = sum(relu(conv2d(s.X[i], W, b)));
    }
    ddp_backward(s.ddp, s.losses);
}

static void show_child(const char *mistake, void (*make)(void *), void *with, int expected) {
    printf("  %s\n", mistake);
    int status = try_in_child(make, with);
    CHECK(status == expected, "a planted mistake must be noticed, and nothing else");
}

// ## Mistakes that nothing ends
//
// These run on, and learn something else. What gives them away is a comparison.

// The share of places in the orders of two epochs that hold the same image.
static double same_places(int images, int k, bool told) {
    int *first = xmalloc(sizeof *first * (size_t)images),
        *second = xmalloc(sizeof *second * (size_t)images);
    int same = 0, all = 0;
    for (int rank = 0; rank < k; rank++) {
        DistributedSampler s = {images, k, rank, SAMPLER_PAD, true, 1, 0};
        sampler_indices(&s, first);
        if (told) sampler_set_epoch(&s, 1);
        sampler_indices(&s, second);
        for (int i = 0; i < sampler_count(&s); i++) same += first[i] == second[i];
        all += sampler_count(&s);
    }
    free(first);
    free(second);
    return (double)same / all;
}

static void forget_set_epoch(void) {
    double forgotten = same_places(2048, 4, false), told = same_places(2048, 4, true);
    printf(
        "  4. sampler_set_epoch() is forgotten: %.1f %% of two epochs' orders are the same; with "
        "it, %.1f %%\n",
        100 * forgotten, 100 * told);
    CHECK(forgotten == 1 && told < 0.05, "an order is known again");
}

// Each rank divides its gradients by the number of ranks, as PyTorch's DDP does, and the update
// divides the sum by the rows of all ranks, as ours does.
static void step_divided_twice(Ddp *ddp, Tensor *const X[], Tensor *const y[], float lr, int rows) {
    Tensor *y_hat[MAX_DEVICES], *losses[MAX_DEVICES], *grads[MAX_DEVICES];
    ddp_no_sync(ddp, true);
    ddp_forward(ddp, X, y_hat);
    for (int i = 0; i < ddp->k; i++) losses[i] = sum(cross_entropy(y_hat[i], y[i]));
    ddp_backward(ddp, losses);
    for (int i = 0; i < ddp->k; i++) {
        grads[i] = flat_parameters(ddp->net, ddp->devices[i]).grad;
        launch(ddp->devices[i], scale, .x = grads[i]->data, .factor = 1 / (float)ddp->k,
               .n = numel(grads[i]));
    }
    allreduce(grads, ddp->k);
    ddp_update(ddp, lr, rows);
}

// What a step changes; free() it.
static float *update_of(const Tensor *X, const Tensor *y, int k, bool twice, float lr, size_t *n) {
    Device *devices[MAX_DEVICES];
    Tensor *X_shards[MAX_DEVICES], *y_shards[MAX_DEVICES], *losses[MAX_DEVICES];
    Module *net = lenet_modules(10);
    initialize(net, 1);
    open_devices(devices, k);
    Ddp *ddp = ddp_new(net, devices, k, (DdpOptions){0});
    Tensor *params = flat_parameters(net, devices[0]).data;
    float *before = tensor_values(params);
    for (int i = 0; i < k; i++) begin_step(devices[i]);
    split_batch(X, y, devices, k, X_shards, y_shards);
    if (twice)
        step_divided_twice(ddp, X_shards, y_shards, lr, X->shape[0]);
    else
        ddp_step(ddp, X_shards, y_shards, lr, X->shape[0], losses);
    *n = numel(params);
    float *update = tensor_values(params);
    for (size_t i = 0; i < *n; i++) update[i] -= before[i];
    free(before);
    ddp_free(ddp);
    module_free(net);
    return update;
}

// How many times as long as one device's update, in its direction.
static double update_ratio(DataIter *iter, int k, float lr) {
    size_t n;
    Tensor *X, *y;
    double product = 0, square = 0;
    data_iter_first(iter, &X, &y);
    float *right = update_of(X, y, 1, false, lr, &n), *wrong = update_of(X, y, k, true, lr, &n);
    for (size_t i = 0; i < n; i++) {
        product += (double)right[i] * (double)wrong[i];
        square += (double)right[i] * (double)right[i];
    }
    free(right);
    free(wrong);
    return product / square;
}

static void divide_twice(DataIter *iter, float lr) {
    double two = update_ratio(iter, 2, lr), three = update_ratio(iter, 3, lr);
    printf("  5. Divided by k, then by all rows: the update is %.3f times as long on 2 devices, "
           "%.3f times on 3\n",
           two, three);
    CHECK(fabs(two - 0.5) < 1e-3 && fabs(three - 1.0 / 3) < 1e-3, "1/k gives it away");
}

void make_mistakes(DataIter *iter, float lr) {
    printf("\n");
    show_child("1. Rank 1 counts a gradient of bucket 0 twice:", count_twice, NULL, EXIT_FAILURE);
    show_child("2. Rank 1 comes to the first exchange with bucket 1:", send_in_own_order, NULL,
               EXIT_FAILURE);
    show_child("3. A step uses the first layer only:", leave_unused, NULL, EXIT_FAILURE);
    int find = 1;
    CHECK(try_in_child(leave_unused, &find) == EXIT_SUCCESS, "with find_unused it is no mistake");
    forget_set_epoch();
    if (has_values(try_gpu(0))) divide_twice(iter, lr);
}
