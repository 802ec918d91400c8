// planted.c: see planted.h.
#include "planted.h"

#include "common/base/platform.h"
#include "common/base/error.h"
#include "common/model/modelled_clock.h"
#include "common/program/exercise.h"
#include "common/program/say.h"
#include "chapters/03_split_batch/split_batch.h"
#include "sampler.h"
#include "ways.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ## Mistakes that end the program
//
// In a child process, on devices without values: which gradients are there, and in which order, is
// known without computing them.

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

// Rank 1 counts one gradient too few.
static void send_early(void *unused) {
    (void)unused;
    Step s = begin_on_two_ranks();
    s.ddp->ranks[1][0].missing = -1;
    go(&s);
}

// Rank 1 starts its buckets as they happen to be ready, and bucket 1 was.
static void send_in_own_order(void *unused) {
    (void)unused;
    Step s = begin_on_two_ranks();
    s.ddp->turn[1][0] = 1;
    s.ddp->turn[1][1] = 0;
    go(&s);
}

// The loss is computed from the first layer alone: the others' parameters get no gradient.
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

// What would come out of the second mistake if nobody noticed: two buckets of one number, on two
// ranks, and rank 1 sends them in the other order.
static void show_mixed_sums(void) {
    Device *devices[2] = {try_gpu(0), try_gpu(1)};
    Tensor *numbers[2][2], *sums[2][2];
    const float values[2][2] = {{1, 2}, {10, 20}};
    for (int i = 0; i < 2; i++) {
        begin_step(devices[i]);
        for (int b = 0; b < 2; b++) {
            numbers[i][b] = tensor_new(devices[i], 1);
            tensor_fill(numbers[i][b], values[i][b]);
        }
    }
    for (int turn = 0; turn < 2; turn++) {
        sums[turn][0] = numbers[0][turn];
        sums[turn][1] = numbers[1][1 - turn];
        allreduce(sums[turn], 2);
    }
    float got[2] = {item(numbers[0][0]), item(numbers[0][1])};
    say("  Without that check, two buckets with 1 and 2 on rank 0 and 10 and 20 on rank 1 become, "
        "on "
        "rank 0, %g and %g where 11 and 22 belong; no error, and another result.",
        (double)got[0], (double)got[1]);
    CHECK(got[0] == 21 && got[1] == 12, "sums of what does not belong together");
    for (int i = 0; i < 2; i++)
        for (int b = 0; b < 2; b++) tensor_free(numbers[i][b]);
}

static void show_child(const char *mistake, void (*what)(void *), void *with, int expected) {
    say("\n%s", mistake);
    int status = try_in_child(what, with);
    CHECK(status == expected, "a planted mistake must be noticed, and nothing else");
    say(expected ? "  The child process ended with the error above, as it should."
                 : "  The child process ended without an error.");
}

// ## Mistakes that nothing ends
//
// These run on, and learn something else. What gives them away is a comparison.

// The part of two epochs' orders in which they agree, on all ranks.
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
    enum { IMAGES = 2048, RANKS = 4 };
    double forgotten = same_places(IMAGES, RANKS, false), told = same_places(IMAGES, RANKS, true);
    say("\n4. Forgetting sampler_set_epoch(): %.1f %% of the places in the second epoch's "
        "order have the same image as in the first. With it, %.1f %%. No error says so: compare "
        "two "
        "epochs' orders.",
        100 * forgotten, 100 * told);
    CHECK(forgotten == 1 && told < 0.05, "an order is known again");
}

// The mistake: each rank divides its gradients by the number of ranks, as PyTorch's DDP does, and
// the update divides the sum by the rows of all ranks, as ours does.
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
    say("\n5. Dividing twice: by the ranks, and then by the rows of all ranks. It still trains, "
        "but "
        "slowly: compared with one device's, the update is %.3f times as long on 2 devices, %.3f "
        "times on 3. A factor of 1/k is the mark of this mistake.",
        two, three);
    CHECK(fabs(two - 0.5) < 1e-3 && fabs(three - 1.0 / 3) < 1e-3, "1/k gives it away");
}

void plant_mistakes(DataIter *iter, float lr) {
    show_child("1. Rank 1 sends bucket 0 before its last gradient is there:", send_early, NULL,
               EXIT_FAILURE);
    show_child("2. Rank 1 starts bucket 1 first, as if that had been ready first there:",
               send_in_own_order, NULL, EXIT_FAILURE);
    if (has_values(try_gpu(0))) show_mixed_sums();
    show_child("3. A step uses the first layer only:", leave_unused, NULL, EXIT_FAILURE);
    int find = 1;
    show_child("   The same with find_unused:", leave_unused, &find, EXIT_SUCCESS);
    forget_set_epoch();
    if (has_values(try_gpu(0))) divide_twice(iter, lr);
}
