// patches.cu: cuts images into squares.
#include "grid.cuh"

// What the place in Y of a number is divided by: the sizes of a square, then squares of an image.
struct PatchDivisors {
    struct Divisor side, C, across, down;
};

// One thread per number. Neighbouring threads write neighbouring numbers, and read them, up to the
// end of a row of the square.
static __global__ void patches(struct patches_args a, unsigned n, struct PatchDivisors by) {
    INDEX_LOOP(i, n) {
        const auto [row, x] = split(i, by.side);
        const auto [plane, y] = split(row, by.side);
        const auto [token, channel] = split(plane, by.C);
        const auto [line, left] = split(token, by.across);
        const auto [image, top] = split(line, by.down);
        const size_t from = ((size_t)image * a.C + channel) * a.H + top * a.side + y;
        a.Y[i] = a.X[from * a.W + left * a.side + x];
    }
}

CUDA_KERNEL(patches) {
    const unsigned n = index_count((size_t)a->N * a->C * a->H * a->W);
    const struct PatchDivisors by = {divisor(a->side), divisor(a->C), divisor(a->W / a->side),
                                     divisor(a->H / a->side)};
    patches<<<blocks_for(n), THREADS, 0, lane->stream>>>(*a, n, by);
}
