// product.c: the product of two matrices that are in the cache, in tiles that fit the registers.
//
// This is the innermost part of Goto & van de Geijn, "Anatomy of high-performance matrix
// multiplication", 2008. In each cycle, a core can start two multiplications with additions of
// vectors, but load only two vectors. So each number must be used several times once it is loaded.
// A tile of C, some rows times some vectors, stays in registers while k runs over the whole depth.
// For each k, the tile takes one number of each of its rows of A and each of its vectors of row k
// of B, and multiplies all with all. Each sum waits about four cycles for the addition before it,
// so the tile needs at least eight sums. The limit is the number of registers: 16, or 32 with
// AVX-512 and NEON.
#include "product.h"

#if defined(__AVX512F__)
enum { ROWS = 8, VECTORS = 3 }; // 24 sums, 3 vectors of B, 1 number of A: 28 of 32 registers
#elif defined(__AVX2__)
enum { ROWS = 4, VECTORS = 3 }; // 12 + 3 + 1: all 16
#elif defined(__aarch64__)
enum { ROWS = 4, VECTORS = 4 }; // 16 + 4 + 4
#else
enum { ROWS = 4, VECTORS = 2 }; // 8 + 2 + 1, and one for a product before it is added: no FMA
#endif

// How A is stored, and whether sums are trees. The compiler makes a copy of the functions below for
// each layout.
typedef enum Layout { A_BY_ROWS, A_BY_COLUMNS, TREE_BY_ROWS, TREE_BY_COLUMNS } Layout;

// Where a tile of C is. (This is read from `p` before anything is stored, because the compiler has
// to assume that a store changes p.)
typedef struct Target {
    float *C;
    size_t row, block;
    int last; // numbers of its last vector, or 0: all
    bool add;
} Target;

INLINE Target target_of(const Product *p, int row, int vector, const int N) {
    float *C = p->C + (size_t)row * p->c_row + (size_t)vector * p->c_block;
    return (Target){C, p->c_row, p->c_block, vector + N == p->vectors ? p->last : 0, p->add};
}

// C is needed last and is often not in the cache, so it is prefetched at the start. For a short
// sum, prefetching would not be done in time, and would cost as much as a few products.
enum { FAR = 128 };
INLINE void send_for(Target to, const int R, const int N) {
    UNROLL for (int r = 0; r < R; r++) {
        UNROLL for (int n = 0; n < N; n++)
            __builtin_prefetch(to.C + (size_t)r * to.row + (size_t)n * to.block, 1);
    }
}

INLINE void store(Target to, Vec sum[ROWS][VECTORS], const int R, const int N) {
    UNROLL for (int r = 0; r < R; r++, to.C += to.row) {
        UNROLL for (int n = 0; n < N; n++) {
            float *c = to.C + (size_t)n * to.block;
            if (n == N - 1 && to.last) {
                if (to.add) sum[r][n] += some_at(c, to.last);
                some_to(c, sum[r][n], to.last);
                continue;
            }
            if (to.add) sum[r][n] += vec_at(c);
            vec_to(c, sum[r][n]);
        }
    }
}

// The sums of a tile over k..end, for R rows of A and N vectors of B from `vector` on.
INLINE void add_up(const Product *p, const float *A, int vector, int k, int end, const int R,
                   const int N, const Layout layout, Vec sum[ROWS][VECTORS]) {
    const float *a[ROWS], *b[VECTORS];
    Vec right[VECTORS];
    UNROLL for (int r = 0; r < R; r++) a[r] = A + (size_t)r * p->a_row;
    UNROLL for (int n = 0; n < N; n++) b[n] = p->B + (size_t)(vector + n) * p->b_block;
    UNROLL for (int r = 0; r < R; r++) { UNROLL for (int n = 0; n < N; n++) sum[r][n] = (Vec){0}; }
    const size_t first = (size_t)k, last = (size_t)end, a_col = p->a_col;
    const bool by_columns = layout == A_BY_COLUMNS || layout == TREE_BY_COLUMNS;
    if (by_columns) A += first * a_col;
    for (size_t i = first; i < last; i++) {
        UNROLL for (int n = 0; n < N; n++) right[n] = vec_at(b[n] + i * VL);
        UNROLL for (int r = 0; r < R; r++) {
            float left = by_columns ? A[r] : a[r][i];
            UNROLL for (int n = 0; n < N; n++) sum[r][n] += left * right[n];
        }
        if (by_columns) A += a_col;
    }
}

// ---- sums as a tree: sums that wait for their other half are in memory, in the first cache ------

// joins[g]: how many additions follow group g, one for each pair of halves that ends with it.
static void find_joins(int first, int groups, unsigned char joins[MOST_GROUPS]) {
    if (groups == 1) {
        joins[first] = 0;
        return;
    }
    find_joins(first, groups / 2, joins);
    find_joins(first + groups / 2, groups - groups / 2, joins);
    joins[first + groups - 1]++;
}

INLINE void add_up_tree(const Product *p, const float *A, int vector, const int R, const int N,
                        const Layout layout, const unsigned char *joins, Vec sum[ROWS][VECTORS]) {
    enum { LEVELS = 6 };
    _Alignas(Vec) float halves[LEVELS][ROWS * VECTORS * VL], *half = halves[0];
    for (int g = 0, k = 0;; g++, k += p->tree.group) {
        add_up(p, A, vector, k, smaller(k + p->tree.group, p->depth), R, N, layout, sum);
        for (int i = 0; i < joins[g]; i++) {
            half -= ROWS * VECTORS * VL;
            UNROLL for (int r = 0; r < R; r++) {
                UNROLL for (int n = 0; n < N; n++) sum[r][n] += vec_at(half + (r * N + n) * VL);
            }
        }
        if (g + 1 == p->tree.groups) return;
        UNROLL for (int r = 0; r < R; r++) {
            UNROLL for (int n = 0; n < N; n++) vec_to(half + (r * N + n) * VL, sum[r][n]);
        }
        half += ROWS * VECTORS * VL;
    }
}

// ---- tiles --------------------------------------------------------------------------------------

// The tile of C from `row` and `vector` on, R rows and N vectors.
INLINE void tile(const Product *p, const float *A, int row, int vector, const int R, const int N,
                 const Layout layout, const unsigned char *joins) {
    Vec sum[ROWS][VECTORS];
    Target to = target_of(p, row, vector, N);
    if (p->depth >= FAR) send_for(to, R, N);
    if (layout == TREE_BY_ROWS || layout == TREE_BY_COLUMNS)
        add_up_tree(p, A, vector, R, N, layout, joins, sum);
    else
        add_up(p, A, vector, 0, p->depth, R, N, layout, sum);
    store(to, sum, R, N);
}

INLINE const float *row_of_A(const Product *p, int row) {
    if (p->a_block) return p->A + (size_t)(row / VL) * p->a_block + (size_t)(row % VL);
    return p->A + (size_t)row * p->a_row;
}

INLINE void columns(const Product *p, int vector, const int N, const Layout layout,
                    const unsigned char *joins) {
    int row = 0;
    for (; row + ROWS <= p->rows; row += ROWS)
        tile(p, row_of_A(p, row), row, vector, ROWS, N, layout, joins);
    if (ROWS > 4 && row + 4 <= p->rows) {
        tile(p, row_of_A(p, row), row, vector, 4, N, layout, joins);
        row += 4;
    }
    if (row + 2 <= p->rows) {
        tile(p, row_of_A(p, row), row, vector, 2, N, layout, joins);
        row += 2;
    }
    if (row < p->rows) tile(p, row_of_A(p, row), row, vector, 1, N, layout, joins);
}

// VECTORS at a time. A single vector at the end would give too few sums, so if 4 are left they are
// taken as 2 and 2, not 3 and 1.
INLINE void all_columns(const Product *p, const Layout layout, const unsigned char *joins) {
    int vector = 0, left = p->vectors;
    for (; left >= VECTORS && left != VECTORS + 1; left -= VECTORS, vector += VECTORS)
        columns(p, vector, VECTORS, layout, joins);
    for (; VECTORS > 3 && left >= 3 && left != 4; left -= 3, vector += 3)
        columns(p, vector, 3, layout, joins);
    for (; left >= 2; left -= 2, vector += 2) columns(p, vector, 2, layout, joins);
    if (left == 1) columns(p, vector, 1, layout, joins);
}

// Each layout has a function of its own. In one function for all, gcc reads pointers of the
// innermost loop from memory, and a fifth of the speed is lost.
#define ALONE static __attribute__((noinline))
ALONE void by_rows(const Product *p) { all_columns(p, A_BY_ROWS, NULL); }
ALONE void by_columns(const Product *p) { all_columns(p, A_BY_COLUMNS, NULL); }
ALONE void tree_by_rows(const Product *p, const unsigned char *joins) {
    all_columns(p, TREE_BY_ROWS, joins);
}
ALONE void tree_by_columns(const Product *p, const unsigned char *joins) {
    all_columns(p, TREE_BY_COLUMNS, joins);
}

static bool is_by_rows(const Product *p) { return p->a_col == 1 && !p->a_block; }

static void as_tree(const Product *p) {
    unsigned char joins[MOST_GROUPS];
    find_joins(0, p->tree.groups, joins);
    if (is_by_rows(p))
        tree_by_rows(p, joins);
    else
        tree_by_columns(p, joins);
}

static void multiply(const Product *p) {
    if (is_by_rows(p))
        by_rows(p);
    else
        by_columns(p);
}

// A long sum is made of shorter ones. So what a tile reads of B stays in the core's first cache
// until the next tile reads it, and rounding errors stay small.
void product(const Product *p) {
    if (p->tree.groups > 1) {
        as_tree(p);
        return;
    }
    Product part = *p;
    for (int left = p->depth;;) {
        part.depth = left < DEPTH ? left : DEPTH;
        multiply(&part);
        left -= DEPTH;
        if (left <= 0) return;
        part.A += DEPTH * p->a_col;
        part.B += DEPTH * VL;
        part.add = true;
    }
}
