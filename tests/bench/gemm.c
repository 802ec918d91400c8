// gemm.c: our matrix product next to those of OpenBLAS and oneDNN, on the shapes of the chapters.
//
//     build/tests/bench/gemm [threads [rounds]]      (all cores, 9 rounds)
//
// Peers are the libraries that are installed (Debian: libopenblas0-pthread, libdnnl2); nothing here
// is linked with them. (OPENBLAS_CORETYPE=Haswell, say, chooses another of OpenBLAS's codes.) Each
// must get the results of three plain loops, or the program ends. They take turns, a few
// milliseconds each in a round. Printed is the median, over all rounds, of our time divided by the
// best peer's: below 1 we are faster.
//
// "one" is a single product, by all threads. "points" are many products at a time, each of other
// matrices, as in Winograd's method: each thread takes some of them, and so it is with "tiles", the
// products of convolutions by im2col, where a thread uses the same memory again and again. In those
// two our second matrix lies in panels before the time begins: what comes before a product in a
// convolution writes it so (see kernels/cpu/fast/product.h). A library packs what it wants, each
// time.
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/platform.h"
#include "common/base/error.h"
#include "common/base/statistics.h"
#include "common/tensor/tensor.h"
#include "kernels/cpu/fast/product.h"
#ifdef _OPENMP
#include <omp.h>
static int thread_number(void) { return omp_get_thread_num(); }
#else
static int thread_number(void) { return 0; }
#endif

typedef enum { ONE, POINTS, TILES } Kind;

typedef struct Shape {
    const char *where;
    int M, N, K, trans_A, trans_B; // as in gemm_args
    Kind kind;
    int count; // products at a time
} Shape;

enum { TA = 1, TB = 1 };
// Those of the largest kind in each layer, as the kernels ask for them with the usual batch sizes.
static const Shape shapes[] = {
    {"large matrices", 1536, 1536, 1536, 0, 0, ONE, 1},
    {"LeNet fc1, forward", 256, 128, 800, 0, 0, ONE, 1},
    {"LeNet fc1, dW", 800, 128, 256, TA, 0, ONE, 1},
    {"LeNet fc1, dX", 256, 800, 128, 0, TB, ONE, 1},
    {"LeNet fc2, forward", 256, 10, 128, 0, 0, ONE, 1},
    {"ResNet-18 fc, forward", 64, 10, 512, 0, TB, ONE, 1},
    {"ResNet-18 first, forward", 64, 840, 9, 0, 0, TILES, 16},
    {"ResNet-18 first, dW", 64, 9, 784, 0, TB, TILES, 16},
    {"64 to 128, forward", 64, 216, 576, 0, 0, TILES, 8},
    {"64 to 128, dX", 64, 216, 512, 0, 0, TILES, 8},
    {"64 to 128, dW", 128, 288, 196, 0, TB, TILES, 8},
    {"128 to 256, forward", 56, 56, 1152, 0, 0, TILES, 32},
    {"128 to 256, dX", 64, 56, 1024, 0, 0, TILES, 32},
    {"128 to 256, dW", 256, 288, 196, 0, TB, TILES, 8},
    {"256 to 512, forward", 24, 24, 2304, 0, 0, TILES, 64},
    {"256 to 512, dX", 32, 16, 2048, 0, 0, TILES, 64},
    {"256 to 512, dW", 512, 288, 192, 0, TB, TILES, 8},
    {"64 to 128 1x1, forward", 64, 200, 64, 0, 0, TILES, 32},
    {"64 to 128 1x1, dX", 64, 200, 128, 0, 0, TILES, 32},
    {"64 to 128 1x1, dW", 128, 32, 196, 0, TB, TILES, 32},
    {"64 channels, forward", 64, 104, 64, 0, 0, POINTS, 36},
    {"64 channels, dX", 64, 104, 64, TA, 0, POINTS, 36},
    {"64 channels, dW", 64, 64, 98, 0, TB, POINTS, 36},
    {"128 channels, forward", 128, 32, 128, 0, 0, POINTS, 36},
    {"128 channels, dX", 128, 32, 128, TA, 0, POINTS, 36},
    {"128 channels, dW", 128, 128, 256, 0, TB, POINTS, 36},
    {"256 channels, forward", 16, 128, 256, 0, 0, POINTS, 36},
    {"256 channels, dX", 16, 128, 256, TA, 0, POINTS, 36},
    {"256 channels, dW", 256, 256, 256, 0, TB, POINTS, 36},
    {"512 channels, forward", 16, 64, 512, 0, 0, POINTS, 36},
    {"512 channels, dX", 16, 64, 512, TA, 0, POINTS, 36},
    {"512 channels, dW", 512, 32, 64, 0, TB, POINTS, 36},
    {"LeNet conv2, forward", 50, 64, 20, 0, 0, POINTS, 64},
    {"LeNet conv2, dX", 20, 64, 50, TA, 0, POINTS, 64},
    {"LeNet conv2, dW", 50, 20, 64, 0, TB, POINTS, 64},
};
enum { NUM_SHAPES = sizeof shapes / sizeof shapes[0], MOST_ROUNDS = 99, NUM_SIDES = 3 };
static const double TURN = 0.015, PAUSE = 0.003; // seconds; idle threads of a library spin a while

static CpuLane lane;
static int panel; // columns of a panel of B

typedef struct Matrices { // of product i at i times the size; B once more in panels
    float *A, *B, *panels, *C;
} Matrices;

// ---- three that multiply -----------------------------------------------------------------------

static size_t panels_size(const Shape *s) {
    return (size_t)((s->N + panel - 1) / panel * panel) * (size_t)s->K;
}

// One product is the kernel's, with all its threads. Of many, each is one thread's.
static void ours(const Shape *s, Matrices m) {
    if (s->kind == ONE) {
        struct gemm_args args = {m.A, m.B, m.C, 0, s->M, s->N, s->K, s->trans_A, s->trans_B};
        cpu_instruction_set()->kernels[KERNEL_gemm](&lane, &args);
        return;
    }
    Product product = {.A = m.A, .B = m.panels, .C = m.C, .rows = s->M, .depth = s->K};
    product.a_row = s->trans_A ? 1 : (size_t)s->K;
    product.a_col = s->trans_A ? (size_t)s->M : 1;
    product.b_block = (size_t)s->K * (size_t)panel;
    product.c_row = (size_t)s->N;
    product.c_block = (size_t)panel;
    product.vectors = (s->N + panel - 1) / panel;
    product.last = s->N % panel;
    cpu_instruction_set()->product(&product);
}

enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 }; // as in cblas.h
static void (*cblas)(int order, int trans_A, int trans_B, int M, int N, int K, float alpha,
                     const float *A, int lda, const float *B, int ldb, float beta, float *C,
                     int ldc);
static void (*cblas_set_threads)(int threads);
static int (*dnnl)(char trans_A, char trans_B, int64_t M, int64_t N, int64_t K, float alpha,
                   const float *A, int64_t lda, const float *B, int64_t ldb, float beta, float *C,
                   int64_t ldc);

static void openblas(const Shape *s, Matrices m) {
    cblas(ROW_MAJOR, s->trans_A ? TRANSPOSED : PLAIN, s->trans_B ? TRANSPOSED : PLAIN, s->M, s->N,
          s->K, 1, m.A, s->trans_A ? s->M : s->K, m.B, s->trans_B ? s->K : s->N, 0, m.C, s->N);
}

static void onednn(const Shape *s, Matrices m) {
    dnnl(s->trans_A ? 'T' : 'N', s->trans_B ? 'T' : 'N', s->M, s->N, s->K, 1, m.A,
         s->trans_A ? s->M : s->K, m.B, s->trans_B ? s->K : s->N, 0, m.C, s->N);
}

typedef struct Side {
    const char *name;
    void (*product)(const Shape *s, Matrices m); // NULL: not installed
    int times;                                   // in a turn
    double seconds[MOST_ROUNDS], median;
} Side;
static Side sides[NUM_SIDES] = {
    {.name = "ours", .product = ours}, {.name = "OpenBLAS"}, {.name = "oneDNN"}};

static void find(void *function, const char *library, const char *name) {
    void *found = dlopen(library, RTLD_NOW);
    if (found) *(void **)function = dlsym(found, name);
}

static void load_peers(void) {
    setenv("OPENBLAS_THREAD_TIMEOUT", "20", 0); // idle threads spin for 2^20 cycles, not 2^26
    find(&cblas, "libopenblas.so.0", "cblas_sgemm");
    find(&cblas_set_threads, "libopenblas.so.0", "openblas_set_num_threads");
    find(&dnnl, "libdnnl.so.2", "dnnl_sgemm");
    find(&dnnl, "libdnnl.so.3", "dnnl_sgemm");
    if (cblas && cblas_set_threads) sides[1].product = openblas;
    if (dnnl) sides[2].product = onednn;
}

// ---- their matrices ----------------------------------------------------------------------------

static float *matrix(size_t size, int copies) {
    float *x = xcalloc(size * (size_t)copies, sizeof *x);
    for (size_t i = 0; i < size * (size_t)copies; i++)
        x[i] = (float)((uint32_t)(i % size) * 2654435761u >> 24) / 255 - 0.5f;
    return x;
}

static Matrices matrices_for(const Shape *s) {
    int copies = s->kind == TILES ? lane.threads : s->count;
    size_t size = panels_size(s), M = (size_t)s->M, N = (size_t)s->N, K = (size_t)s->K;
    Matrices m = {matrix(M * K, copies), matrix(K * N, copies), matrix(size, copies),
                  matrix(M * N, copies)};
    for (int i = 0; i < copies; i++)
        for (size_t n = 0; n < N; n++)
            for (size_t k = 0; k < K; k++)
                m.panels[size * (size_t)i + (n / panel * K + k) * panel + n % panel] =
                    m.B[s->trans_B ? n * K + k : k * N + n];
    return m;
}

// Which of them product i, made by this thread, works on.
static Matrices matrices_of(const Shape *s, Matrices m, int i) {
    size_t at = s->kind == TILES ? (size_t)thread_number() : (size_t)i, M = (size_t)s->M;
    return (Matrices){m.A + at * M * (size_t)s->K, m.B + at * (size_t)s->K * (size_t)s->N,
                      m.panels + at * panels_size(s), m.C + at * M * (size_t)s->N};
}

// The largest error of some elements of the first product.
static double error_of(const Shape *s, Matrices m) {
    double worst = 0;
    for (int i = 0; i < 50; i++) {
        int row = i * 31 % s->M, col = i * 17 % s->N;
        double sum = -(double)m.C[row * s->N + col];
        for (int k = 0; k < s->K; k++)
            sum += (double)m.A[s->trans_A ? k * s->M + row : row * s->K + k] *
                   (double)m.B[s->trans_B ? col * s->K + k : k * s->N + col];
        worst = isnan(sum) ? INFINITY : fmax(worst, fabs(sum));
    }
    return worst;
}

// ---- turns -------------------------------------------------------------------------------------

// Many products: a thread to each. Both libraries then use no threads of their own (OpenBLAS must
// be told; oneDNN sees that it is called in a parallel region).
static double seconds_of(const Side *side, const Shape *s, Matrices m, int times) {
    if (cblas_set_threads) cblas_set_threads(s->kind == ONE ? lane.threads : 1);
    double begin = seconds_now();
    for (int time = 0; time < times; time++) {
        if (s->kind == ONE) {
            side->product(s, m);
            continue;
        }
#pragma omp parallel for schedule(static) num_threads(lane.threads)
        for (int i = 0; i < s->count; i++) side->product(s, matrices_of(s, m, i));
    }
    return (seconds_now() - begin) / times;
}

static void take_turns(const Shape *s, Matrices m, int rounds) {
    for (int i = 0; i < NUM_SIDES; i++) {
        Side *side = &sides[i];
        if (!side->product) continue;
        double once = seconds_of(side, s, m, 1), error = error_of(s, m);
        memset(m.C, 0, sizeof *m.C * (size_t)s->M * (size_t)s->N);
        if (!(error < 1e-4 * sqrt(s->K)))
            die("compare the sums in tests/test_kernels.c", "%s, %s: a wrong product, by %g",
                side->name, s->where, error);
        side->times = once < TURN ? (int)(TURN / once) + 1 : 1;
    }
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < NUM_SIDES; i++) {
            Side *side = &sides[round % 2 ? NUM_SIDES - 1 - i : i]; // nobody always goes first
            if (!side->product) continue;
            usleep((useconds_t)(1e6 * PAUSE));
            side->seconds[round] = seconds_of(side, s, m, side->times);
        }
}

static void compare(const Shape *s, int rounds) {
    const Side *best = NULL;
    double ratios[MOST_ROUNDS];
    Matrices m = matrices_for(s);
    take_turns(s, m, rounds);
    free(m.A);
    free(m.B);
    free(m.panels);
    free(m.C);
    static const char *const kinds[] = {"one", "points", "tiles"};
    printf("%-26s%5d x%5d x%5d%4s%4s%4d %-8s", s->where, s->M, s->N, s->K, s->trans_A ? "A^T" : "",
           s->trans_B ? "B^T" : "", s->count, kinds[s->kind]);
    for (int i = 0; i < NUM_SIDES; i++) {
        Side *side = &sides[i];
        side->median = side->product ? median(side->seconds, rounds) : NAN;
        printf("%10.0f", 2.0 * s->M * s->N * s->K * s->count / side->median / 1e9);
        if (i > 0 && side->product && (!best || side->median < best->median)) best = side;
    }
    for (int i = 0; best && i < rounds; i++) ratios[i] = sides[0].seconds[i] / best->seconds[i];
    if (best)
        printf("%10.2f [%.2f .. %.2f]", median(ratios, rounds), minimum(ratios, rounds),
               maximum(ratios, rounds));
    printf("\n");
}

int main(int argc, char *argv[]) {
    set_program_name(argv[0]);
    setvbuf(stdout, NULL, _IOLBF, 0);
    lane.threads = argc > 1 ? atoi(argv[1]) : num_threads();
    int rounds = argc > 2 ? atoi(argv[2]) : 9;
    if (lane.threads < 1 || rounds < 1 || rounds > MOST_ROUNDS)
        die("tests/bench/gemm [threads [rounds]]", "these numbers make no sense");
    panel = cpu_instruction_set()->lanes;
    load_peers();
#ifdef _OPENMP
    omp_set_num_threads(lane.threads);
#endif
    printf("products of matrices, GFLOP/s, threads: %d; ours %s; ratio: our time / the best "
           "other's\n%-62s%10s%10s%10s%10s\n",
           lane.threads, cpu_instruction_set()->name, "", "ours", "OpenBLAS", "oneDNN", "ratio");
    for (int i = 0; i < NUM_SHAPES; i++) compare(&shapes[i], rounds);
    cpu_scratch_free(&lane);
    return 0;
}
