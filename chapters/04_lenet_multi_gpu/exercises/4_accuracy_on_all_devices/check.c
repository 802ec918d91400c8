// check.c: counts are whole numbers, so the accuracy must be that of one device exactly. And the
// work must be shared: each device gets about 1/k of the images, a minibatch at a time.
#include "common/program/exercise.h"
#include "chapters/03_split_batch/split_batch.h"
#include "your_part.h"

#include <math.h>

// What your part is called with.
typedef struct Case {
    Replicas one, many; // LeNet as it is on one device, and on k
    Dataset *data;
    DataIter *iter;
    int batch_size;
} Case;

static Case case_open(const Flags *flags, int images, int batch_size, int k) {
    Case c = {.batch_size = batch_size, .data = fashion_mnist_open(flags->data, false, images)};
    c.iter = data_iter_new(c.data, batch_size, false, 0);
    replicas_open(&c.one, 1, 1);
    replicas_open(&c.many, k, 1);
    replicas_scale(&c.one, 10);
    replicas_scale(&c.many, 10);
    return c;
}

static void case_close(Case *c) {
    data_iter_free(c->iter);
    dataset_free(c->data);
    replicas_close(&c->one);
    replicas_close(&c->many);
}

static double call_your_part(Case *c) {
    ledger_reset();
    return evaluate_accuracy_on_all(lenet, c->many.params, c->iter, c->many.devices, c->many.k);
}

// ## The accuracy

static const char *hint_for_count(double came, double expected, int k) {
    if (isnan(came))
        return "0 / 0: a device without images has no accuracy; add up counts, and divide once, by "
               "the number of all images";
    if (fabs(came - round(came)) > 1e-3)
        return "that is no whole number: add up counts, not accuracies (shards may be unequal, and "
               "the last minibatch is shorter), and divide once, by the number of all images";
    if (came == 0) return "are the counts of the devices read, with item(), and added up?";
    if (k > 1 && fabs(came - k * expected) < 1e-3)
        return "each image was counted k times: each device gets its shard of a minibatch alone";
    if (came < expected) return "are the counts of all devices added, and of all minibatches?";
    return "does each device's count begin at 0, and is it added once?";
}

static void check_accuracy(Case *c) {
    int k = c->many.k;
    double expected = evaluate_accuracy_gpu(lenet, c->one.params[0], c->iter, c->one.devices[0]);
    double came = call_your_part(c);
    double right = came * c->data->count, count = round(expected * c->data->count);
    EXPECT(fabs(right - count) < 1e-3, hint_for_count(right, count, k),
           "evaluate_accuracy_on_all(), %d images in minibatches of %d, k = %d: %.6f, that is %.6g "
           "right images, expected %.6f, that is %.0f",
           c->data->count, c->batch_size, k, came, right, expected, count);
}

// ## The images

static void check_shares(Case *c) {
    call_your_part(c);
    double share = (double)c->data->count / c->many.k;
    for (int i = 0; i < c->many.k; i++) {
        double images = images_received(&c->many, i, c->data);
        EXPECT(fabs(images - share) <= data_iter_batches(c->iter),
               "split_batch() gives each device its shard of a minibatch: call it once for each "
               "minibatch, with all k devices",
               "evaluate_accuracy_on_all(), %d images in minibatches of %d, k = %d: device %d got "
               "%.0f images, expected %g",
               c->data->count, c->batch_size, c->many.k, i, images, share);
    }
}

// ## What it leaves behind

// An evaluation that did not take place leaves nothing behind, which says nothing of it.
static void check_took_place(const Case *c) {
    double images = 0;
    for (int i = 0; i < c->many.k; i++) images += images_received(&c->many, i, c->data);
    EXPECT(
        images > 0, "evaluate each minibatch of data_iter: split_batch(), net(), count_correct()",
        "evaluate_accuracy_on_all(), %d images, k = %d: the devices got %.0f images, expected %d",
        c->data->count, c->many.k, images, c->data->count);
}

// Begins a step, so that the activations that were there are gone: called last.
static size_t bytes_of_minibatch(const Replicas *r, DataIter *iter) {
    Tensor *X, *y;
    Device *device = r->devices[0];
    set_grad_enabled(true);
    data_iter_first(iter, &X, &y);
    begin_step(device);
    lenet(rows_on(X, (Range){0, X->shape[0]}, device), r->params[0]);
    synchronize_all();
    return arena_used_bytes(device);
}

// A device that begins a step with each minibatch holds the activations of one, at most.
static void check_memory(Case *c) {
    size_t bytes[MAX_DEVICES];
    call_your_part(c);
    check_took_place(c);
    for (int i = 0; i < c->many.k; i++) bytes[i] = arena_used_bytes(c->many.devices[i]);
    size_t most = bytes_of_minibatch(&c->many, c->iter);
    for (int i = 0; i < c->many.k; i++)
        EXPECT(
            bytes[i] <= most,
            "begin_step() for each device, with each minibatch: else what one leaves in the "
            "device's memory is still there with the next",
            "evaluate_accuracy_on_all(), %d images in minibatches of %d, k = %d: device %d holds "
            "%zu bytes of activations at the end, expected at most those of one minibatch, %zu",
            c->data->count, c->batch_size, c->many.k, i, bytes[i], most);
}

// Whether the network's operations are recorded, so that it can be trained.
static bool records_gradients(const Replicas *r) {
    Device *device = r->devices[0];
    begin_step(device);
    Tensor *X = arena_tensor(device, 4, (const int[]){1, 1, 28, 28}, false);
    tensor_fill(X, 0);
    return lenet(X, r->params[0])->requires_grad;
}

static void check_training_goes_on(Case *c) {
    Tensor *X, *y, *losses[MAX_DEVICES];
    call_your_part(c);
    check_took_place(c);
    EXPECT(records_gradients(&c->many), "set_grad_enabled(true) at the end: training goes on",
           "after evaluate_accuracy_on_all(), k = %d, operations are not recorded, expected that "
           "they are, as before",
           c->many.k);
    data_iter_first(c->iter, &X, &y);
    train_batch(X, y, c->many.params, c->many.devices, c->many.k, 0.1f, losses);
    synchronize_all();
}

// ## The parts

// One call of your part, and what is looked at.
static void check_call(const Flags *flags, int images, int batch_size, int k,
                       void (*check)(Case *c)) {
    Case c = case_open(flags, images, batch_size, k);
    check(&c);
    case_close(&c);
}

static void check_equal_shards(const Flags *flags) {
    static const int ks[] = {1, 2, 4, 5};
    for (int n = 0; n < 4; n++) check_call(flags, 500, 100, ks[n], check_accuracy);
}
static void check_who_works(const Flags *flags) {
    for (int k = 1; k <= 4; k++) check_call(flags, 501, 100, k, check_shares);
    check_call(flags, 501, 64, 7, check_shares);
}
static void check_room(const Flags *flags) {
    for (int k = 1; k <= 4; k++) check_call(flags, 501, 100, k, check_memory);
}
static void check_afterwards(const Flags *flags) {
    for (int k = 1; k <= 2; k++) check_call(flags, 501, 100, k, check_training_goes_on);
}
static void check_unequal_shards(const Flags *flags) {
    for (int k = 1; k <= 4; k++) check_call(flags, 501, 100, k, check_accuracy); // 1 image is left
    check_call(flags, 501, 64, 7, check_accuracy);
    check_call(flags, 5, 2, 3, check_accuracy); // more devices than images
}

const CheckPart check_parts[] = {
    {"equal shards: the accuracy is that of one device, to the last image", 3, check_equal_shards},
    {"each device gets its share of the images", 2, check_who_works},
    {"a device holds the activations of one minibatch, not of all", 2, check_room},
    {"training can go on afterwards", 1, check_afterwards},
    {"unequal shards, and some without images: the accuracy is still the same", 2,
     check_unequal_shards},
    {0}};
