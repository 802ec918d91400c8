// patches.c: cuts images into squares, and makes each square a row of a matrix.
#include "cpu.h"
#include "fast/vector.h"

CPU_KERNEL(patches) {
    int side = a->side, across = a->W / side, tokens = a->H / side * across;
    size_t n = (size_t)a->N * (size_t)a->C * (size_t)a->H * (size_t)a->W;
#pragma omp parallel for num_threads(lane->threads) schedule(static) if (n > PARALLEL_FLOATS)
    for (int image = 0; image < a->N; image++)
        for (int token = 0; token < tokens; token++) {
            int top = token / across * side, left = token % across * side;
            size_t row = (size_t)image * (size_t)tokens + (size_t)token;
            float *Y = a->Y + row * (size_t)(a->C * side * side);
            for (int line = 0; line < a->C * side; line++, Y += side) {
                int c = line / side, i = top + line % side;
                size_t plane = (size_t)image * (size_t)a->C + (size_t)c;
                copy_floats(Y, a->X + (plane * (size_t)a->H + (size_t)i) * (size_t)a->W + left,
                            side);
            }
        }
}
