// gemm.c: our matrix product next to those of OpenBLAS and oneDNN, on the shapes of the chapters.
//
//     build/tests/bench/gemm [--rounds N] [--csv FILE] [--only TEXT] [--cpu-time] [threads ...]
//                                                                         (1, then all cores)
//
// Peers are those of the libraries that are installed (Debian: libopenblas0-pthread, libdnnl2);
// nothing here is linked with them. OpenBLAS has code for many generations of processors and
// decides for one when it is loaded. It may not choose the fastest, so each that this machine can
// run is tried (OPENBLAS_CORETYPE), in a process of its own, and the best of them counts, for each
// shape anew. Before it is timed, each must come to the same results as three plain loops.
//
// All sit in processes of their own and take turns: a round is some milliseconds of each. The ratio
// is the median over the rounds of our time / that of the best other: below 1 we are faster. With
// --cpu-time it is the time that the processor worked for a process, which other programs disturb
// less; for one thread alone, since threads that wait for each other work, too.
//
// "one" is a single product, by all threads. "points" are many products at a time, each of other
// matrices, as in Winograd's method: each thread takes some of them, and so it is with "tiles", the
// products of convolutions by im2col, where a thread uses the same memory again and again. In those
// two the second matrix lies in panels before the time begins, when the product is ours: what comes
// before a product in a convolution writes it so (see kernels/cpu/product.h). A library gets it in
// the order that its function asks for, and packs what it wants to pack, each time. (For dW in
// Winograd's method the first matrix lies in blocks of rows; here in rows, as for im2col.)
#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/tensor/tensor.h"
#include "common/base/clock.h"
#include "common/base/statistics.h"
#include "kernels/cpu/product.h"
#include "about.h"
#ifdef _OPENMP
#include <omp.h>
static int thread_number(void) { return omp_get_thread_num(); }
static void limit_threads(int n) { omp_set_num_threads(n); }
#else // for the build with ThreadSanitizer
static int thread_number(void) { return 0; }
static void limit_threads(int n) { (void)n; }
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
static const Shape SHAPES[] = {
    {"large matrices", 1536, 1536, 1536, 0, 0, ONE, 1},
    {"LeNet fc1, forward", 256, 128, 800, 0, 0, ONE, 1},
    {"LeNet fc1, dW", 800, 128, 256, TA, 0, ONE, 1},
    {"LeNet fc1, dX", 256, 800, 128, 0, TB, ONE, 1},
    {"LeNet fc2, forward", 256, 10, 128, 0, 0, ONE, 1},
    {"LeNet fc2, dW", 128, 10, 256, TA, 0, ONE, 1},
    {"LeNet fc2, dX", 256, 128, 10, 0, TB, ONE, 1},
    {"ResNet-18 fc, forward", 64, 10, 512, 0, TB, ONE, 1},
    {"ResNet-18 fc, dW", 10, 512, 64, TA, 0, ONE, 1},
    {"ResNet-18 fc, dX", 64, 512, 10, 0, 0, ONE, 1},
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
    {"128 to 256 1x1, forward", 64, 56, 128, 0, 0, TILES, 64},
    {"128 to 256 1x1, dX", 64, 56, 256, 0, 0, TILES, 64},
    {"128 to 256 1x1, dW", 256, 32, 196, 0, TB, TILES, 32},
    {"256 to 512 1x1, forward", 64, 16, 256, 0, 0, TILES, 64},
    {"256 to 512 1x1, dX", 64, 16, 512, 0, 0, TILES, 64},
    {"256 to 512 1x1, dW", 512, 32, 192, 0, TB, TILES, 32},
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
enum { NUM_SHAPES = sizeof SHAPES / sizeof SHAPES[0] };

static double flop_of(const Shape *s) { return 2.0 * s->M * s->N * s->K * s->count; }

// ---- a process that multiplies -----------------------------------------------------------------
//
// Started by the driver below with "--product NAME"; obeys its lines "<shape> <times>" and prints
// the seconds that all products of the shape took, once.

typedef struct Matrices { // of product i at i times the size
    float *A, *B, *C;
} Matrices;

typedef void Products(const Shape *s, const Matrices *m, int times);

static CpuLane lane;
static int threads, panel = 1; // columns of a panel of B: ours alone has panels
static bool cpu_time;

static double seconds(void) {
    struct timespec t;
    if (!cpu_time) return seconds_now();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool in_panels(const Shape *s) { return panel > 1 && s->kind != ONE; }
static size_t B_size(const Shape *s) {
    int cols = in_panels(s) ? (s->N + panel - 1) / panel * panel : s->N;
    return (size_t)s->K * (size_t)cols;
}

// Which of the matrices product i, made by that thread, works on.
static Matrices matrices_of(const Shape *s, const Matrices *m, int i, int thread) {
    size_t at = s->kind == TILES ? (size_t)thread : (size_t)i;
    return (Matrices){m->A + at * (size_t)s->M * (size_t)s->K, m->B + at * B_size(s),
                      m->C + at * (size_t)s->M * (size_t)s->N};
}

static void ours_one(const Shape *s, Matrices m) {
    cpu_instruction_set()->product(&(Product){
        .A = m.A,
        .a_row = s->trans_A ? 1 : (size_t)s->K,
        .a_col = s->trans_A ? (size_t)s->M : 1,
        .B = m.B,
        .b_block = (size_t)s->K * (size_t)panel,
        .C = m.C,
        .c_row = (size_t)s->N,
        .c_block = (size_t)panel,
        .rows = s->M,
        .vectors = (s->N + panel - 1) / panel,
        .depth = s->K,
        .last = s->N % panel,
    });
}

// One product is the kernel's, with all its threads. Of many, each is one thread's.
static void ours_products(const Shape *s, const Matrices *m, int times) {
    if (s->kind == ONE) {
        struct gemm_args args = {.A = m->A,
                                 .B = m->B,
                                 .C = m->C,
                                 .M = s->M,
                                 .N = s->N,
                                 .K = s->K,
                                 .trans_A = s->trans_A,
                                 .trans_B = s->trans_B};
        for (int i = 0; i < times; i++) cpu_instruction_set()->kernels[KERNEL_gemm](&lane, &args);
        return;
    }
#pragma omp parallel num_threads(threads)
    for (int time = 0; time < times; time++) {
#pragma omp for schedule(static)
        for (int i = 0; i < s->count; i++) ours_one(s, matrices_of(s, m, i, thread_number()));
    }
}

enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 }; // as in cblas.h
typedef void CblasSgemm(int order, int trans_A, int trans_B, int M, int N, int K, float alpha,
                        const float *A, int lda, const float *B, int ldb, float beta, float *C,
                        int ldc);
typedef int DnnlSgemm(char trans_A, char trans_B, int64_t M, int64_t N, int64_t K, float alpha,
                      const float *A, int64_t lda, const float *B, int64_t ldb, float beta,
                      float *C, int64_t ldc);
static CblasSgemm *cblas;
static void (*cblas_set_threads)(int threads);
static DnnlSgemm *dnnl;

static void cblas_product(const Shape *s, Matrices m) {
    cblas(ROW_MAJOR, s->trans_A ? TRANSPOSED : PLAIN, s->trans_B ? TRANSPOSED : PLAIN, s->M, s->N,
          s->K, 1, m.A, s->trans_A ? s->M : s->K, m.B, s->trans_B ? s->K : s->N, 0, m.C, s->N);
}

static void dnnl_product(const Shape *s, Matrices m) {
    dnnl(s->trans_A ? 'T' : 'N', s->trans_B ? 'T' : 'N', s->M, s->N, s->K, 1, m.A,
         s->trans_A ? s->M : s->K, m.B, s->trans_B ? s->K : s->N, 0, m.C, s->N);
}

// Many products: a thread to each. Both libraries then use no threads of their own (OpenBLAS must
// be told; oneDNN sees that it is called in a parallel region).
static void others_products(const Shape *s, const Matrices *m,
                            void (*make)(const Shape *s, Matrices m)) {
    if (s->kind == ONE || threads == 1) {
        for (int i = 0; i < s->count; i++) make(s, matrices_of(s, m, i, 0));
        return;
    }
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(static)
        for (int i = 0; i < s->count; i++) make(s, matrices_of(s, m, i, thread_number()));
    }
}

static void cblas_products(const Shape *s, const Matrices *m, int times) {
    cblas_set_threads(s->kind == ONE ? threads : 1);
    for (int i = 0; i < times; i++) others_products(s, m, cblas_product);
}

static void dnnl_products(const Shape *s, const Matrices *m, int times) {
    for (int i = 0; i < times; i++) others_products(s, m, dnnl_product);
}

// ---- its libraries

static void *symbol_of(void *library, const char *name) {
    void *symbol = dlsym(library, name);
    if (!symbol) die("another version of it may have it", "no %s in the library", name);
    return symbol;
}

// Ends the process, without a word, if there is none.
static void *library_of(const char *const names[]) {
    for (int i = 0; names[i]; i++) {
        void *library = dlopen(names[i], RTLD_NOW);
        if (library) return library;
    }
    exit(0);
}

// Prints what the driver shall call this process.
static Products *prepare(const char *product) {
    limit_threads(threads);
    if (strcmp(product, "oneDNN") == 0) {
        void *library = library_of((const char *[]){"libdnnl.so.3", "libdnnl.so.2", NULL});
        *(void **)&dnnl = symbol_of(library, "dnnl_sgemm");
        printf("oneDNN\n");
        return dnnl_products;
    }
    if (strcmp(product, "OpenBLAS") == 0) {
        void *library = library_of((const char *[]){"libopenblas.so.0", "libopenblas.so", NULL});
        const char *(*core)(void);
        *(void **)&cblas = symbol_of(library, "cblas_sgemm");
        *(void **)&cblas_set_threads = symbol_of(library, "openblas_set_num_threads");
        *(void **)&core = symbol_of(library, "openblas_get_corename");
        printf("%s\n", core());
        return cblas_products;
    }
    lane.threads = threads;
    panel = cpu_instruction_set()->lanes;
    printf("ours\n");
    return ours_products;
}

// ---- its matrices

static float element(size_t i) { return (float)((uint32_t)i * 2654435761u >> 24) / 255 - 0.5f; }

static float *matrix(int rows, int cols, int copies) {
    size_t n = (size_t)rows * (size_t)cols * (size_t)copies;
    float *x = xmalloc(sizeof *x * n);
    for (size_t i = 0; i < n; i++) x[i] = element(i);
    return x;
}

static float element_of_B(const Shape *s, int k, int n) {
    return element(s->trans_B ? (size_t)n * s->K + k : (size_t)k * s->N + n);
}

// The first product's, `copies` times.
static float *panels(const Shape *s, int copies) {
    size_t size = B_size(s);
    float *x = xcalloc(size * (size_t)copies, sizeof *x);
    for (int n = 0; n < s->N; n++)
        for (int k = 0; k < s->K; k++)
            x[((size_t)(n / panel) * s->K + k) * panel + n % panel] = element_of_B(s, k, n);
    for (int i = 1; i < copies; i++) memcpy(x + size * (size_t)i, x, sizeof *x * size);
    return x;
}

static Matrices matrices_for(const Shape *s) {
    int copies = s->kind == TILES ? threads : s->count;
    return (Matrices){matrix(s->M, s->K, copies),
                      in_panels(s) ? panels(s, copies) : matrix(s->K, s->N, copies),
                      matrix(s->M, s->N, copies)};
}

// Some elements of the first product. Ends the process if one is wrong.
static void check(const Shape *s, const Matrices *m) {
    for (int i = 0; i < 50; i++) {
        int row = i * 31 % s->M, col = i * 17 % s->N;
        double sum = 0;
        for (int k = 0; k < s->K; k++)
            sum += (double)m->A[s->trans_A ? k * s->M + row : row * s->K + k] *
                   (double)element_of_B(s, k, col);
        double error = fabs(sum - (double)m->C[row * s->N + col]);
        if (!(error < 1e-4 * sqrt(s->K)))
            die("it is left out", "%s: a wrong product, by %g", s->where, error);
    }
}

static int multiply_as_told(const char *product) {
    Products *products = prepare(product);
    Matrices m = {0};
    int shape, times, before = -1;
    fflush(stdout);
    while (scanf("%d %d", &shape, &times) == 2) {
        const Shape *s = &SHAPES[shape];
        if (shape != before) {
            free(m.A);
            free(m.B);
            free(m.C);
            m = matrices_for(s);
            products(s, &m, 1);
            check(s, &m);
            before = shape;
        }
        double begin = seconds();
        products(s, &m, times);
        printf("%.9f\n", (seconds() - begin) / times);
        fflush(stdout);
    }
    free(m.A);
    free(m.B);
    free(m.C);
    cpu_scratch_free(&lane);
    return 0;
}

// ---- the driver --------------------------------------------------------------------------------

enum { MOST_SIDES = 16, MOST_ROUNDS = 99, TRIALS = 3 };
#define TURN 0.015 // seconds
// Idle threads of a library spin for a while; those of OpenBLAS for 2^26 cycles, or what it is
// told.
#define PAUSE 0.003
#define SPIN  "20"

typedef struct Side {
    char name[32]; // of an OpenBLAS: the processors that its code is for
    bool is_blas;
    pid_t pid;
    FILE *to, *from; // from is NULL: it has died
    double seconds[MOST_ROUNDS], median;
} Side;

static Side sides[MOST_SIDES];
static int num_sides;

static void be_a_side(const char *product, const char *core, const int to[2], const int from[2]) {
    char number[16];
    snprintf(number, sizeof number, "%d", threads);
    dup2(to[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    setenv("OPENBLAS_THREAD_TIMEOUT", SPIN, 1);
    if (core) {
        setenv("OPENBLAS_CORETYPE", core, 1);
        // One that this processor does not have, or the library does not: it may say so, or crash.
        int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(nowhere, STDERR_FILENO);
    }
    execl("/proc/self/exe", program_name(), cpu_time ? "--product-cpu-time" : "--product", product,
          number, (char *)NULL);
    _exit(1);
}

static void end_side(Side *side) {
    fclose(side->to);
    if (side->from) fclose(side->from);
    side->from = NULL;
    waitpid(side->pid, NULL, 0);
}

static bool is_known(const char *name) {
    for (int i = 0; i < num_sides; i++)
        if (strcmp(sides[i].name, name) == 0) return true;
    return false;
}

// Seconds, or infinity if it has died.
static double ask(Side *side, int shape, int times) {
    double answer;
    if (side->from) {
        fprintf(side->to, "%d %d\n", shape, times);
        fflush(side->to);
        if (fscanf(side->from, "%lf", &answer) == 1) return answer;
        fclose(side->from);
        side->from = NULL;
    }
    return INFINITY;
}

// Adds it to the sides, if it starts, is not there already, and can multiply.
static void start_side(const char *product, const char *core) {
    int to[2], from[2];
    if (num_sides == MOST_SIDES || pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0)
        die("close other programs", "no more processes to compare with");
    Side *side = &sides[num_sides];
    *side = (Side){.is_blas = core != NULL, .pid = fork()};
    if (side->pid < 0) die("close other programs", "no more processes to compare with");
    if (side->pid == 0) be_a_side(product, core, to, from);
    close(to[0]);
    close(from[1]);
    side->to = fdopen(to[1], "w");
    side->from = fdopen(from[0], "r");
    if (fscanf(side->from, "%31s", side->name) == 1 && !is_known(side->name) &&
        isfinite(ask(side, 1, 1)))
        num_sides++;
    else
        end_side(side);
}

static void start_sides(void) {
    static const char *const cores[] = {"Prescott", "Nehalem",    "Sandybridge", "Haswell",
                                        "Zen",      "SkylakeX",   "Cooperlake",  "Sapphirerapids",
                                        "ARMV8",    "NEOVERSEN1", "NEOVERSEV1"};
    num_sides = 0;
    start_side("ours", NULL);
    if (num_sides == 0) die("see its message above", "our own product does not run");
    start_side("oneDNN", NULL);
    for (size_t i = 0; i < sizeof cores / sizeof cores[0]; i++) start_side("OpenBLAS", cores[i]);
}

// By turns, some milliseconds each.
static void take_turns(Side *const who[], int num, int shape, int rounds) {
    int times[MOST_SIDES];
    for (int i = 0; i < num; i++) {
        double once = ask(who[i], shape, 1);
        times[i] = once < TURN ? (int)(TURN / once) + 1 : 1;
    }
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < num; i++) {
            int turn = round % 2 ? num - 1 - i : i; // nobody always goes first
            usleep((useconds_t)(1e6 * PAUSE));
            who[turn]->seconds[round] = ask(who[turn], shape, times[turn]);
        }
    for (int i = 0; i < num; i++) who[i]->median = median(who[i]->seconds, rounds);
}

// The fastest OpenBLAS for this shape, or NULL if there is none.
static Side *best_blas(int shape) {
    Side *all[MOST_SIDES], *best = NULL;
    int num = 0;
    for (int i = 0; i < num_sides; i++)
        if (sides[i].is_blas) all[num++] = &sides[i];
    if (num > 1) take_turns(all, num, shape, TRIALS);
    for (int i = 0; i < num; i++)
        if (!best || all[i]->median < best->median) best = all[i];
    return best;
}

typedef struct Result {
    const Side *ours, *blas, *onednn, *best; // NULL: not there
    double ratio, low, high;                 // our time / the best other's
} Result;

static Result compare(int shape, int rounds) {
    Side *who[3] = {&sides[0]}, *blas = best_blas(shape), *onednn = NULL;
    int num = 1;
    for (int i = 0; i < num_sides; i++)
        if (strcmp(sides[i].name, "oneDNN") == 0) onednn = &sides[i];
    if (blas) who[num++] = blas;
    if (onednn) who[num++] = onednn;
    take_turns(who, num, shape, rounds);
    if (!isfinite(who[0]->median)) die("see its message above", "our own product is wrong");
    Result r = {who[0], blas, onednn, blas, NAN, NAN, NAN};
    if (!blas || (onednn && onednn->median < blas->median)) r.best = onednn;
    if (!r.best) return r;
    double ratios[MOST_ROUNDS];
    for (int i = 0; i < rounds; i++) {
        ratios[i] = r.ours->seconds[i] / r.best->seconds[i];
        r.low = fmin(r.low, ratios[i]); // fmin() and fmax() pass over the NaN at the beginning
        r.high = fmax(r.high, ratios[i]);
    }
    r.ratio = median(ratios, rounds);
    return r;
}

// ---- what it prints ----------------------------------------------------------------------------

static double gflops(const Shape *s, const Side *side) {
    return side ? flop_of(s) / side->median / 1e9 : NAN;
}

static const char *number(char text[16], double value) { // "-" for what was not measured
    snprintf(text, 16, isnan(value) ? "-" : "%.0f", value);
    return text;
}

static void print_result(const Shape *s, const Result *r) {
    static const char *const kinds[] = {"", "points", "tiles"};
    char sizes[32], kind[16] = "", texts[2][16];
    snprintf(sizes, sizeof sizes, "%dx%dx%d%s%s", s->M, s->N, s->K, s->trans_A ? " A^T" : "",
             s->trans_B ? " B^T" : "");
    if (s->kind != ONE) snprintf(kind, sizeof kind, "%d %s", s->count, kinds[s->kind]);
    printf("%-26s%-20s%-12s%7.0f%10s %-16s%8s", s->where, sizes, kind, gflops(s, r->ours),
           number(texts[0], gflops(s, r->blas)), r->blas ? r->blas->name : "",
           number(texts[1], gflops(s, r->onednn)));
    if (r->best) printf("%9.2f [%.2f .. %.2f]", r->ratio, r->low, r->high);
    printf("\n");
}

static void write_row(FILE *csv, const Shape *s, const Result *r) {
    if (!csv) return;
    if (ftell(csv) == 0)
        fprintf(csv, "isa,compiler,threads,where,M,N,K,trans_A,trans_B,products,ours_gflops,"
                     "openblas_gflops,openblas_core,onednn_gflops,ours_over_best\n");
    fprintf(csv, "%s,%s,%d,\"%s\",%d,%d,%d,%d,%d,%d,%.1f,%.1f,%s,%.1f,%.3f\n", isa_name(), COMPILER,
            threads, s->where, s->M, s->N, s->K, s->trans_A, s->trans_B, s->count,
            gflops(s, r->ours), gflops(s, r->blas), r->blas ? r->blas->name : "",
            gflops(s, r->onednn), r->ratio);
}

typedef struct Options {
    int rounds, threads[8], num;
    const char *only;
    FILE *csv;
} Options;

static void compare_all(const Options *o) {
    const Shape *worst = NULL;
    double worst_ratio = 0;
    start_sides();
    printf("products of matrices, GFLOP/s, %d thread%s; ours %s, %s; ratio: our time / the best "
           "other's%s\n",
           threads, threads > 1 ? "s" : "", isa_name(), COMPILER, cpu_time ? ", CPU time" : "");
    if (num_sides == 1) printf("neither OpenBLAS nor oneDNN is installed, so ours alone\n");
    printf("%-58s%7s%10s %-16s%8s%9s\n", "", "ours", "OpenBLAS", "its code for", "oneDNN", "ratio");
    for (int i = 0; i < NUM_SHAPES; i++) {
        if (o->only && !strstr(SHAPES[i].where, o->only)) continue;
        Result r = compare(i, o->rounds);
        print_result(&SHAPES[i], &r);
        write_row(o->csv, &SHAPES[i], &r);
        if (r.ratio > worst_ratio) {
            worst_ratio = r.ratio;
            worst = &SHAPES[i];
        }
    }
    if (worst)
        printf("the worst ratio: %.2f (%s, threads: %d)\n", worst_ratio, worst->where, threads);
    while (num_sides > 0) end_side(&sides[--num_sides]);
}

static Options parse(int argc, char *argv[]) {
    Options o = {.rounds = 9};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--rounds") == 0)
            o.rounds = atoi(value), i++;
        else if (strcmp(argv[i], "--only") == 0)
            o.only = value, i++;
        else if (strcmp(argv[i], "--cpu-time") == 0)
            cpu_time = true;
        else if (strcmp(argv[i], "--csv") == 0) {
            o.csv = fopen(value, "a"), i++;
            if (!o.csv) die("name another file", "cannot write %s", value);
            fseek(o.csv, 0, SEEK_END);
        } else if (o.num < 8 && atoi(argv[i]) > 0)
            o.threads[o.num++] = atoi(argv[i]);
        else
            die("see the head of tests/bench/gemm.c", "unknown option %s", argv[i]);
    }
    if (o.rounds < 1 || o.rounds > MOST_ROUNDS)
        die("see the head of tests/bench/gemm.c", "no such number of rounds");
    if (cpu_time && o.num == 0) o.threads[o.num++] = 1;
    if (cpu_time && (o.num > 1 || o.threads[0] > 1))
        die("leave it out, or measure one thread", "--cpu-time is for one thread");
    if (o.num == 0) {
        o.threads[o.num++] = 1;
        if (num_threads() > 1) o.threads[o.num++] = num_threads();
    }
    return o;
}

int main(int argc, char *argv[]) {
    set_program_name(argv[0]);
    if (argc == 4 && strncmp(argv[1], "--product", 9) == 0) {
        cpu_time = strcmp(argv[1], "--product") != 0;
        threads = atoi(argv[3]);
        return multiply_as_told(argv[2]);
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGPIPE, SIG_IGN); // whoever has died is left out
    Options o = parse(argc, argv);
    for (int i = 0; i < o.num; i++) {
        threads = o.threads[i];
        compare_all(&o);
    }
    if (o.csv) fclose(o.csv);
    return 0;
}
