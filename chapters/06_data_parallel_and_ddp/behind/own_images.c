// own_images.c: a training by DDP in which each rank loads its own images.
#include "behind.h"

#include "common/book.h"
#include "../loader.h"

static void open_loaders(Loader loaders[], int k, const Dataset *data, SamplerMode mode,
                         bool shuffle, int batch_size, uint64_t seed) {
    for (int i = 0; i < k; i++) {
        DistributedSampler sampler = {
            .k = k, .rank = i, .mode = mode, .shuffle = shuffle, .seed = seed};
        loaders[i] = loader_new(data, sampler, batch_size);
    }
}

static void start_loaders(Loader loaders[], int k, int epoch) {
    for (int i = 0; i < k; i++) loader_start(&loaders[i], epoch);
}

static void free_loaders(Loader loaders[], int k) {
    for (int i = 0; i < k; i++) loader_free(&loaders[i]);
}

// The next rows of each rank, `batch_size` in all; returns how many there are in all.
static int load(Loader loaders[], const Ddp *ddp, int batch_size, Tensor *X[], Tensor *y[]) {
    int rows = 0;
    for (int i = 0; i < ddp->k; i++) {
        begin_step(ddp->devices[i]);
        loader_next(&loaders[i], (int)equal_range(batch_size, ddp->k, i).count, ddp->devices[i],
                    &X[i], &y[i]);
        rows += X[i]->shape[0];
    }
    return rows;
}

static double train_epoch(Ddp *ddp, Loader loaders[], int batch_size, float lr) {
    Tensor *X[MAX_DEVICES], *y[MAX_DEVICES], *losses[MAX_DEVICES];
    float values[MAX_DEVICES];
    double loss = 0;
    int images = 0, rows;
    while (!interrupted() && (rows = load(loaders, ddp, batch_size, X, y)) > 0) {
        ddp_step(ddp, X, y, lr, rows, losses);
        items(losses, ddp->k, values); // waits for all ranks
        for (int i = 0; i < ddp->k; i++) loss += (double)values[i];
        images += rows;
    }
    if (!interrupted() && !isfinite(loss))
        die("start again with a smaller --lr", "the loss of a minibatch is not a number");
    return loss / images;
}

// Each rank counts for its own images, and the counts are added. Returns the images, too.
static double accuracy(Ddp *ddp, const Dataset *data, SamplerMode mode, int batch_size,
                       int *images) {
    Tensor *X[MAX_DEVICES], *y[MAX_DEVICES], *y_hat[MAX_DEVICES], *correct[MAX_DEVICES];
    Loader loaders[MAX_COMPUTING];
    float values[MAX_DEVICES];
    double sum = 0;
    int k = ddp->k, rows;
    set_training(ddp->net, false);
    set_grad_enabled(false);
    for (int i = 0; i < k; i++) {
        correct[i] = tensor_new(ddp->devices[i], 1);
        tensor_fill(correct[i], 0);
    }
    open_loaders(loaders, k, data, mode, false, batch_size, 0);
    start_loaders(loaders, k, 0);
    for (*images = 0; !interrupted() && (rows = load(loaders, ddp, batch_size, X, y)) > 0;
         *images += rows) {
        forward_all(ddp->net, X, k, y_hat);
        for (int i = 0; i < k; i++) count_correct(correct[i], y_hat[i], y[i]);
        synchronize_all(); // the loaders use their memory again
    }
    items(correct, k, values);
    for (int i = 0; i < k; i++) {
        sum += (double)values[i];
        tensor_free(correct[i]);
    }
    free_loaders(loaders, k);
    set_grad_enabled(true);
    set_training(ddp->net, true);
    return sum / *images;
}

static void print_accuracies(Ddp *ddp, const Dataset *test_data, int batch_size) {
    static const char *const modes[] = {"padded", "dropped", "exact"};
    printf("\n");
    Table t = TABLE(NULL, WORDS("test set", 9), WHOLE("images"), FIXED("accuracy", 5));
    for (SamplerMode mode = SAMPLER_PAD; mode <= SAMPLER_EXACT && !interrupted(); mode++) {
        int images;
        double share = accuracy(ddp, test_data, mode, batch_size, &images);
        table_text(&t, "%s", modes[mode]);
        table_numbers(&t, images, share);
    }
}

void train_on_own_images(const Flags *flags) {
    enum { K = 3, BATCH = 48 };
    Device *devices[K];
    Loader loaders[K];
    Dataset *train_data = fashion_mnist_open(flags->data, true, flags->train_size);
    Dataset *test_data = fashion_mnist_open(flags->data, false, flags->test_size);
    Module *net = lenet_modules(FASHION_MNIST_CLASSES);
    initialize(net, flags->seed);
    open_devices(devices, K);
    Ddp *ddp = ddp_new(net, devices, K, (DdpOptions){.bucket_bytes = 256 << 10});
    open_loaders(loaders, K, train_data, SAMPLER_EXACT, true, BATCH, flags->seed);
    printf("\n");
    for (int epoch = 0; epoch < flags->epochs && !interrupted(); epoch++) {
        int images;
        start_loaders(loaders, K, epoch);
        double loss = train_epoch(ddp, loaders, BATCH, flags->lr);
        if (interrupted()) break;
        printf("  epoch %d: train loss %.3f, test acc %.4f on %s\n", epoch + 1, loss,
               accuracy(ddp, test_data, SAMPLER_EXACT, BATCH, &images), device_names(devices, K));
    }
    print_accuracies(ddp, test_data, BATCH);
    free_loaders(loaders, K);
    ddp_free(ddp);
    module_free(net);
    dataset_free(train_data);
    dataset_free(test_data);
}
