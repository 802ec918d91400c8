// in_one_file.c: the whole of chapter 4 in one file of plain C, to be read from top to bottom. It
// needs a C compiler, gzip and the images of Fashion-MNIST, and no other file of this book.
//
//     cc -O3 in_one_file.c -lm && ./a.out 2               LeNet on 2 devices: ten minutes
//     cc -O3 -fopenmp in_one_file.c -lm && ./a.out 2      the same, by two cores: five
//     cc -O3 -DREAL=double in_one_file.c -lm && ./a.out   on 1 device, with doubles
//
// A *device* is a struct here. It has its own copy of everything it needs: parameters, images,
// gradients. All it knows about other devices it was sent, and each byte sent is counted. On GPUs
// these structs would lie in different memories; the five steps of train_batch() would not change.
//
// You may give up to four arguments: ./a.out DEVICES START STEPS END. The first parameters are then
// read from the file START (raw floats: W1, b1, ... W4, b4), training stops after STEPS
// minibatches, and the last parameters are written to the file END (raw reals, in that order).

#define _POSIX_C_SOURCE 200809L // for popen()
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#pragma GCC diagnostic ignored "-Wunknown-pragmas" // "#pragma omp" says nothing without -fopenmp

#ifndef REAL
#define REAL float
#endif
typedef REAL real;

enum { TRAIN_IMAGES = 60000, TEST_IMAGES = 10000, BATCH = 256, EPOCHS = 10, CORES = 8 };
static const double learning_rate = 0.2;

// ---- the network: its numbers -------------------------------------------------------------------

// LeNet has eight arrays of parameters. There are only reals in this struct, one after the other,
// so we may also see it as one long array: to copy it, to add two of them, to send it.
typedef struct Params {
    real W1[20][1][3][3], b1[20];  // convolution: 20 filters of 3x3
    real W2[50][20][5][5], b2[50]; // convolution: 50 filters of 5x5, each over 20 channels
    real W3[800][128], b3[128];    // fully connected
    real W4[128][10], b4[10];      // fully connected: a score for each of the ten classes
} Params;
enum { NUM_PARAMS = sizeof(Params) / sizeof(real) }; // 129,068

// What the network computes on its way from an image to ten scores. A second struct of this type
// holds the gradients: how much the loss changes with each of these numbers.
typedef struct Activations {
    real X[1][28][28]; // the image: one channel (gray), 28 rows of 28 pixels
    real h1_conv[20][26][26], h1[20][13][13];
    real h2_conv[50][9][9], h2[50][4][4];
    real h3_linear[128], h3[128], y_hat[10];
} Activations;

// ---- the layers, forward and backward -----------------------------------------------------------
//
// Each layer is two functions. The first computes Y from X. The second gets dY, the gradient of the
// loss with respect to Y. It *adds* to the gradients of the weights, which are sums over images,
// and it *sets* dX, which is dY for the layer before. `restrict` promises the compiler that an
// array shares no memory with the others; this makes the loops twice as fast.

// C channels of NxN pixels go in, M channels come out. Each pixel of Y is a weighted sum of a
// window of KxK pixels of X, in all channels, plus a bias.
static void conv(int C, int N, int M, int K, real X[C][N][N], real W[M][C][K][K], real b[M],
                 real Y[restrict M][N - K + 1][N - K + 1]) {
    for (int m = 0; m < M; m++) {
        for (int i = 0; i < N - K + 1; i++)
            for (int j = 0; j < N - K + 1; j++) Y[m][i][j] = b[m];
        for (int c = 0; c < C; c++)
            for (int p = 0; p < K; p++)
                for (int q = 0; q < K; q++)
                    for (int i = 0; i < N - K + 1; i++)
                        for (int j = 0; j < N - K + 1; j++)
                            Y[m][i][j] += W[m][c][p][q] * X[c][i + p][j + q];
    }
}

// Y got the product w * x. So the gradient of w gets dY * x, and the gradient of x gets dY * w.
static void conv_backward(int C, int N, int M, int K, real X[C][N][N], real W[M][C][K][K],
                          real dY[M][N - K + 1][N - K + 1], real dW[restrict M][C][K][K],
                          real db[M], real dX[restrict C][N][N]) {
    memset(dX, 0, sizeof(real[C][N][N]));
    for (int m = 0; m < M; m++)
        for (int i = 0; i < N - K + 1; i++)
            for (int j = 0; j < N - K + 1; j++) {
                real d = dY[m][i][j];
                if (d == 0) continue; // ReLU blocks many pixels: nothing to add
                db[m] += d;
                for (int c = 0; c < C; c++)
                    for (int p = 0; p < K; p++)
                        for (int q = 0; q < K; q++) {
                            dW[m][c][p][q] += d * X[c][i + p][j + q];
                            dX[c][i + p][j + q] += d * W[m][c][p][q];
                        }
            }
}

// ReLU, max(x, 0), then the mean of each 2x2 window. An odd last row and column are dropped.
static void relu_pool(int C, int N, real X[C][N][N], real Y[C][N / 2][N / 2]) {
    memset(Y, 0, sizeof(real[C][N / 2][N / 2]));
    for (int c = 0; c < C; c++)
        for (int i = 0; i < N / 2 * 2; i++)
            for (int j = 0; j < N / 2 * 2; j++)
                if (X[c][i][j] > 0) Y[c][i / 2][j / 2] += X[c][i][j] / 4;
}

static void relu_pool_backward(int C, int N, real X[C][N][N], real dY[C][N / 2][N / 2],
                               real dX[C][N][N]) {
    memset(dX, 0, sizeof(real[C][N][N]));
    for (int c = 0; c < C; c++)
        for (int i = 0; i < N / 2 * 2; i++)
            for (int j = 0; j < N / 2 * 2; j++)
                if (X[c][i][j] > 0) dX[c][i][j] = dY[c][i / 2][j / 2] / 4;
}

// Y = X W + b
static void linear(int N, int M, real X[N], real W[N][M], real b[M], real Y[M]) {
    for (int j = 0; j < M; j++) Y[j] = b[j];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < M; j++) Y[j] += X[i] * W[i][j];
}

static void linear_backward(int N, int M, real X[N], real W[N][M], real dY[M], real dW[N][M],
                            real db[M], real dX[N]) {
    for (int j = 0; j < M; j++) db[j] += dY[j];
    for (int i = 0; i < N; i++) {
        dX[i] = 0;
        for (int j = 0; j < M; j++) dW[i][j] += X[i] * dY[j];
        for (int j = 0; j < M; j++) dX[i] += W[i][j] * dY[j];
    }
}

// The scores become probabilities (softmax). The loss is -log(the probability of the right class);
// its gradient is simply the probabilities, minus 1 for the right class.
static double cross_entropy(const real y_hat[10], int label, real dy_hat[10]) {
    double largest = y_hat[0], sum = 0; // subtracted, so that exp() cannot overflow
    for (int j = 1; j < 10; j++) largest = fmax(largest, y_hat[j]);
    for (int j = 0; j < 10; j++) sum += exp(y_hat[j] - largest);
    for (int j = 0; j < 10; j++) dy_hat[j] = (real)(exp(y_hat[j] - largest) / sum - (j == label));
    return log(sum) - (y_hat[label] - largest);
}

// ---- the network: its layers --------------------------------------------------------------------

static void forward(Params *w, const unsigned char *image, Activations *a) {
    for (int i = 0; i < 28 * 28; i++) a->X[0][i / 28][i % 28] = image[i] / 255.0f;
    conv(1, 28, 20, 3, a->X, w->W1, w->b1, a->h1_conv);
    relu_pool(20, 26, a->h1_conv, a->h1);
    conv(20, 13, 50, 5, a->h1, w->W2, w->b2, a->h2_conv);
    relu_pool(50, 9, a->h2_conv, a->h2);
    linear(800, 128, (real *)a->h2, w->W3, w->b3, a->h3_linear);
    for (int j = 0; j < 128; j++) a->h3[j] = a->h3_linear[j] > 0 ? a->h3_linear[j] : 0;
    linear(128, 10, a->h3, w->W4, w->b4, a->y_hat);
}

// The same layers in reverse order. da has the gradients of what is in a, and dw those of w.
static void backward(Params *w, Activations *a, Activations *da, Params *dw) {
    linear_backward(128, 10, a->h3, w->W4, da->y_hat, dw->W4, dw->b4, da->h3);
    for (int j = 0; j < 128; j++) da->h3_linear[j] = a->h3_linear[j] > 0 ? da->h3[j] : 0;
    linear_backward(800, 128, (real *)a->h2, w->W3, da->h3_linear, dw->W3, dw->b3, (real *)da->h2);
    relu_pool_backward(50, 9, a->h2_conv, da->h2, da->h2_conv);
    conv_backward(20, 13, 50, 5, a->h1, w->W2, da->h2_conv, dw->W2, dw->b2, da->h1);
    relu_pool_backward(20, 26, a->h1_conv, da->h1, da->h1_conv);
    conv_backward(1, 28, 20, 3, a->X, w->W1, da->h1_conv, dw->W1, dw->b1, da->X);
}

// ---- the data -----------------------------------------------------------------------------------

typedef unsigned char Image[28 * 28]; // a byte for each pixel: 0 is black, 255 white
typedef struct Data {
    int count;
    Image *images;
    unsigned char *labels; // the class of each image, 0 to 9
} Data;

static void die(const char *problem, const char *hint) {
    fprintf(stderr, "error: %s\nhint: %s\n", problem, hint);
    exit(1);
}

// Reads `size` bytes after the file's header. gzip unpacks NAME.gz, and copies a plain NAME.
static void *read_file(const char *set, const char *name, size_t header, size_t size) {
    char command[200];
    char *bytes = malloc(header + size);
    snprintf(command, sizeof command,
             "gzip -dcf \"${FASHION_MNIST_DIR:-/usr/share/datasets/fashion-mnist}\"/%s-%s*", set,
             name);
    FILE *pipe = popen(command, "r");
    if (!pipe || !bytes || fread(bytes, 1, header + size, pipe) != header + size)
        die("cannot read the images of Fashion-MNIST",
            "apt-get install dataset-fashion-mnist, or give their folder: FASHION_MNIST_DIR=...");
    pclose(pipe);
    return bytes + header;
}

static Data read_data(const char *set, int count) {
    return (Data){count, read_file(set, "images-idx3-ubyte", 16, count * sizeof(Image)),
                  read_file(set, "labels-idx1-ubyte", 8, (size_t)count)};
}

// ---- k devices ----------------------------------------------------------------------------------

typedef struct Device {
    Params params, grads;      // its replica, and the gradient of its shard
    int rows;                  // its shard of the minibatch: how many images,
    Image X[BATCH];            // the images,
    unsigned char y[BATCH];    // and their labels
    Params core_grads[CORES];  // what each of its cores has found: gradients
    double core_losses[CORES]; // and summed loss
} Device;

static long long bytes_sent; // between devices

// to += from, parameter by parameter
static void add(Params *to, const Params *from) {
    for (int i = 0; i < NUM_PARAMS; i++) ((real *)to)[i] += ((const real *)from)[i];
}

// Gives each device the same number of consecutive images; the first n % k devices get one more.
static void split_batch(const Data *data, int first, int n, Device *devices, int k) {
    for (int i = 0; i < k; i++) {
        int rows = n / k + (i < n % k);
        memcpy(devices[i].X, data->images + first, (size_t)rows * sizeof(Image));
        memcpy(devices[i].y, data->labels + first, (size_t)rows);
        devices[i].rows = rows;
        first += rows;
    }
}

// A core computes the loss and gradients of every eighth image of its device's shard.
static void compute_on_core(Device *device, int core) {
    Activations a, da;
    Params *grads = &device->core_grads[core];
    double loss = 0;
    memset(grads, 0, sizeof *grads);
    for (int row = core; row < device->rows; row += CORES) {
        forward(&device->params, device->X[row], &a);
        loss += cross_entropy(a.y_hat, device->y[row], da.y_hat);
        backward(&device->params, &a, &da, grads);
    }
    device->core_losses[core] = loss;
}

// Computes the gradients of each device's shard, and returns the summed loss of all shards. Here
// every device has eight cores, however many your computer has. So the same numbers are always
// added in the same order, and the results do not depend on the number of threads.
static double compute_gradients(Device *devices, int k) {
    double loss = 0;
#pragma omp parallel for schedule(dynamic)
    for (int i = 0; i < k * CORES; i++) compute_on_core(&devices[i / CORES], i % CORES);

    for (int i = 0; i < k; i++) {
        memset(&devices[i].grads, 0, sizeof(Params));
        for (int core = 0; core < CORES; core++) {
            add(&devices[i].grads, &devices[i].core_grads[core]);
            loss += devices[i].core_losses[core];
        }
    }
    return loss;
}

// The book's allreduce: all devices send their gradients to device 0, which adds them up and sends
// the sum back.
static void allreduce(Device *devices, int k) {
    for (int i = 1; i < k; i++) {
        add(&devices[0].grads, &devices[i].grads);
        bytes_sent += sizeof(Params);
    }
    for (int i = 1; i < k; i++) {
        devices[i].grads = devices[0].grads;
        bytes_sent += sizeof(Params);
    }
}

// Gradients are sums over the n images of the whole minibatch, so divide them by n: once, and here.
static void sgd(Device *device, int n) {
    real *params = (real *)&device->params, *grads = (real *)&device->grads;
    real rate = (real)(learning_rate / n);
    for (int i = 0; i < NUM_PARAMS; i++) params[i] -= rate * grads[i];
}

// One step of training, with n images, starting at image `first`. The chapter is about these lines.
static double train_batch(const Data *data, int first, int n, Device *devices, int k) {
    // 1. Split the minibatch over the devices.
    split_batch(data, first, n, devices, k);

    // 2. Compute loss and gradients, separately on each device.
    double loss = compute_gradients(devices, k);

    // 3. Sum the gradients of all devices, and 4. send the sum back to each.
    allreduce(devices, k);

    // 5. Update the parameters, separately on each device.
    for (int i = 0; i < k; i++) sgd(&devices[i], n);
    return loss;
}

// ---- training -----------------------------------------------------------------------------------

// A small generator of random bits (splitmix64): the same numbers in each run. Box and Muller's
// method makes a normally distributed number of two uniform ones.
static double random_uniform(void) {
    static uint64_t state;
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (double)((z ^ z >> 31) >> 11) / 9007199254740992.0; // 2^53: from 0 to below 1
}

static double random_normal(void) {
    double radius = sqrt(-2 * log(1 - random_uniform()));
    return radius * cos(6.283185307179586 * random_uniform());
}

// Draws weights from N(0, 0.01^2), and sets the biases to zero.
static void draw_params(Params *p) {
    for (int i = 0; i < NUM_PARAMS; i++) ((real *)p)[i] = (real)(0.01 * random_normal());
    memset(p->b1, 0, sizeof p->b1);
    memset(p->b2, 0, sizeof p->b2);
    memset(p->b3, 0, sizeof p->b3);
    memset(p->b4, 0, sizeof p->b4);
}

static void read_params(Params *p, const char *path) {
    static float start[NUM_PARAMS];
    FILE *file = fopen(path, "rb");
    if (!file || fread(start, sizeof start, 1, file) != 1)
        die("cannot read the first parameters", "give a file of 129,068 floats");
    fclose(file);
    for (int i = 0; i < NUM_PARAMS; i++) ((real *)p)[i] = start[i];
}

static void write_params(const Params *p, const char *path) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(p, sizeof *p, 1, file) != 1 || fclose(file) != 0)
        die("cannot write the parameters", "is there room, and may you write there?");
}

// The fraction of the test images that get their highest score for the right class, by device 0.
static double accuracy(const Data *test, Device *device) {
    int correct = 0;
#pragma omp parallel for reduction(+ : correct)
    for (int i = 0; i < test->count; i++) {
        Activations a;
        int best = 0;
        forward(&device->params, test->images[i], &a);
        for (int j = 1; j < 10; j++)
            if (a.y_hat[j] > a.y_hat[best]) best = j;
        correct += best == test->labels[i];
    }
    return (double)correct / test->count;
}

// Trains for some epochs, or for fewer steps. The seconds printed do not include the test.
static void train(Device *devices, int k, long steps, const Data *images, const Data *test) {
    for (int epoch = 1; epoch <= EPOCHS && steps > 0; epoch++) {
        time_t began = time(NULL);
        double loss = 0;
        int seen = 0;
        for (; seen < images->count && steps > 0; steps--) {
            int left = images->count - seen, n = left < BATCH ? left : BATCH;
            loss += train_batch(images, seen, n, devices, k);
            seen += n;
        }
        time_t ended = time(NULL);
        printf("  epoch %2d: train loss %.3f, ", epoch, loss / seen);
        if (seen == images->count) printf("test acc %.3f, ", accuracy(test, &devices[0]));
        printf("%.0f sec\n", difftime(ended, began));
        fflush(stdout);
    }
}

int main(int argc, char *argv[]) {
    int k = argc > 1 ? atoi(argv[1]) : 1;
    long steps = argc > 3 ? atol(argv[3]) : 1000000;
    if (k < 1 || k > BATCH) die("1 to 256 devices, please", "./a.out 2");
    Data train_data = read_data("train", TRAIN_IMAGES), test_data = read_data("t10k", TEST_IMAGES);
    Device *devices = calloc((size_t)k, sizeof *devices);
    if (!devices) die("not enough memory", "take fewer devices");
    printf("training on %d device(s): batch size %d, lr %g\n", k, BATCH, learning_rate);

    // All replicas start from the same parameters.
    if (argc > 2)
        read_params(&devices[0].params, argv[2]);
    else
        draw_params(&devices[0].params);
    for (int i = 1; i < k; i++) devices[i].params = devices[0].params;

    train(devices, k, steps, &train_data, &test_data);

    // Equal replicas that get equal sums make equal updates, so they are still equal, to the bit.
    int equal = 1;
    for (int i = 1; i < k; i++)
        equal += memcmp(&devices[i].params, &devices[0].params, sizeof(Params)) == 0;
    printf("%d of %d replicas are equal to the bit; %lld bytes were sent between devices\n", equal,
           k, bytes_sent);
    if (argc > 4) write_params(&devices[0].params, argv[4]);
    return equal == k ? 0 : 1;
}
