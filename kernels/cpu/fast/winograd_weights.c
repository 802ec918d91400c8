// winograd_weights.c: the gradient of the kernels, by Winograd's method, which winograd.c explains.
// At each point it is a product of the output's gradient and the input, summed over tiles.
#include "convolution.h"
#include "product.h"
#include "winograd_images.h"

enum { COLUMNS_AT_ONCE = 32 };

// At the points, VL channels of a tile are side by side, not VL tiles of a channel as in
// winograd.c, because the product sums over tiles. Lanes after the last channel repeat it.
static void input_channels_to_points(const struct conv2d_shape *s, const Tiling *t,
                                     const Scratch *scratch, Chunk chunk, const float *X) {
    float *full = zeros_for_copies(scratch, t->in, VL);
#pragma omp for schedule(static)
    for (int c = 0; c < s->C; c += VL) {
        const float *plane[VL], *lane[VL], *last = full;
        int lanes = smaller(VL, s->C - c);
        for (int i = 0; i < VL; i++)
            if (i < lanes)
                last = plane[i] =
                    planes_to_read(s, t->in, chunk, X, c + i, full + (size_t)i * scratch->full);
            else
                plane[i] = last;
        float *at = scratch->in + (size_t)c * chunk.tiles;
        for (size_t tile = 0; tile < chunk.tiles; tile++, at += VL) {
            for (int i = 0; i < VL; i++) lane[i] = plane[i] + scratch->in_start[tile];
            input_to_points(t->piece, lane, t->in.width, at, t->in_point);
        }
    }
}

static void output_channels_to_points(const struct conv2d_shape *s, const Tiling *t,
                                      const Scratch *scratch, Chunk chunk, const float *dY) {
    float *full = zeros_for_copies(scratch, t->out, VL);
    PooledTiles pooled = {.width = (size_t)s->out_w / 2};
#pragma omp for schedule(static)
    for (int m = 0; m < s->M; m += VL) {
        const float *lane[VL];
        int lanes = smaller(VL, s->M - m);
        if (!t->out.in_place) {
            for (int i = 0; i < lanes; i++)
                copy_channel(s, t->out, chunk, dY, m + i, full + (size_t)i * scratch->full);
        }
        float *at = scratch->out + (size_t)m * chunk.tiles;
        for (size_t tile = 0; tile < chunk.tiles; tile++, at += VL) {
            for (int i = 0; i < VL; i++) {
                int own = smaller(i, lanes - 1);
                lane[i] = full + (size_t)own * scratch->full + scratch->out_start[tile];
                if (t->out.in_place)
                    set_lane(&pooled, i, dY, t->out.pooled,
                             pooled_at(&t->out, scratch, chunk, m + own, tile));
            }
            if (t->out.in_place)
                pooled_gradient_to_points(t->piece, &pooled, at, t->out_point);
            else
                output_gradient_to_points(t->piece, lane, t->out.width, at, t->out_point);
        }
    }
}

// dU += out in^T at point p, for these kernels; or dU = out in^T if `overwrite`.
static void multiply_back(const Tiling *t, const Scratch *scratch, size_t tiles, Kernels k, int p,
                          float *dU, bool overwrite) {
    Product back = {.A = scratch->out + (size_t)p * t->out_point + (size_t)k.m * tiles,
                    .a_row = 1,
                    .a_col = VL,
                    .a_block = tiles * VL,
                    .B = scratch->in + (size_t)p * t->in_point + (size_t)k.c * tiles,
                    .b_block = tiles * VL,
                    .C = dU + (size_t)p * k.point,
                    .c_row = k.stride,
                    .c_block = VL,
                    .rows = k.M,
                    .vectors = (int)(k.stride / VL),
                    .depth = (int)tiles,
                    .add = !overwrite};
    product(&back);
}

// From the gradient of U to that of kernel m, for these input channels.
static void kernel_gradient(const struct conv2d_shape *s, const float *dU, Kernels k, int m,
                            float *dW) {
    size_t size = (size_t)(s->kernel_h * s->kernel_w);
    float *first = dW + ((size_t)m * s->C + k.c) * size, *lane[VL], nobody[MOST_KERNEL];
    dU += (size_t)(m - k.m) * k.stride;
    for (int c = 0; c < k.C; c += VL) {
        for (int i = 0; i < VL; i++)
            lane[i] = c + i < k.C ? first + (size_t)(c + i) * size : nobody;
        kernels_from_points(side_of_piece(s), dU + c, k.point, lane);
    }
}

// The gradient of all kernels, if a group has a single chunk. Each thread takes some kernels at a
// time, as in multiply_all() of winograd.c.
static void gradient_of_kernels(const struct conv2d_shape *s, const Pass *pass,
                                const Scratch *scratch, size_t tiles, float *dW) {
    float *dU = kernels_of_member(scratch);
#pragma omp for schedule(static)
    for (int first = 0; first < s->C; first += COLUMNS_AT_ONCE) {
        Kernels k = some_kernels(s, true, first, COLUMNS_AT_ONCE);
        for (int p = 0; p < pass->t.points; p++)
            multiply_back(&pass->t, scratch, tiles, k, p, dU, true);
        for (int m = 0; m < s->M; m++) kernel_gradient(s, dU, k, m, dW);
    }
}

// The same if a group has several chunks: all kernels are added up from chunk to chunk.
static void add_to_gradient(const struct conv2d_shape *s, const Pass *pass, const Scratch *scratch,
                            size_t tiles, bool first, bool last, float *dW) {
    Kernels all = all_kernels(s);
#pragma omp for schedule(static)
    for (int p = 0; p < pass->t.points; p++)
        multiply_back(&pass->t, scratch, tiles, all, p, scratch->U, first);
    if (!last) return;
#pragma omp for schedule(static)
    for (int m = 0; m < s->M; m++) kernel_gradient(s, scratch->U, all, m, dW);
}

// A group's part of dW.
static void backward_weights(const Pass *pass, const Scratch *scratch, int group) {
    const struct conv2d_backward_params_args *a = pass->args;
    const struct conv2d_shape *s = &a->s;
    const Tiling *t = &pass->t;
    int start = group * pass->tree.group, end = smaller(start + pass->tree.group, s->N);
    float *dW = pass->parts + pass->part * (size_t)group;
    for (int first = start; first < end; first += t->chunk) {
        Chunk chunk = chunk_of(t, first, end);
        input_channels_to_points(s, t, scratch, chunk, a->X);
        output_channels_to_points(s, t, scratch, chunk, a->dY);
        if (pass->teams.own)
            gradient_of_kernels(s, pass, scratch, chunk.tiles, dW);
        else
            add_to_gradient(s, pass, scratch, chunk.tiles, first == start, first + t->chunk >= end,
                            dW);
    }
}

// dW of kernel m = beta dW + the sum of the groups' parts.
static void add_groups(const struct conv2d_backward_params_args *a, const Pass *pass, int m) {
    size_t size = (size_t)a->s.C * (size_t)(a->s.kernel_h * a->s.kernel_w);
    float *sum = pass->parts + (size_t)m * size, *dW = a->dW + (size_t)m * size;
    add_halves(sum, pass->part, pass->tree.groups, size);
    store_sums(dW, sum, size, a->beta);
}

void winograd_backward_weights(CpuLane *lane, const struct conv2d_backward_params_args *a) {
    const struct conv2d_shape *s = &a->s;
    Pass pass = {.args = a, .t = tiling_of(s, a->pooled)};
    pass.tree = tree_of(s, &pass.t);
    pass.teams = cut_group(&pass.t, s, pass.tree, lane->threads);
    pass.part =
        round_to_vectors((size_t)s->M * (size_t)s->C * (size_t)s->kernel_h * (size_t)s->kernel_w);
    bool alone = pass.tree.groups == 1 && a->beta == 0; // then the group's part is dW itself
    Room room = {.shared = alone ? 0 : pass.part * (size_t)pass.tree.groups};
    if (pass.teams.own)
        room.member = some_kernels(s, true, 0, COLUMNS_AT_ONCE).size;
    else
        room.team = all_kernels(s).size;
    room.channels = VL;
    pass.scratch = scratch_of(lane, &pass.t, pass.teams, room);
    pass.parts = alone ? a->dW : pass.scratch.shared;
    share_items(&pass, pass.tree.groups, backward_weights);
    if (alone) return;
#pragma omp parallel for num_threads(lane->threads) schedule(static)
    for (int m = 0; m < s->M; m++) add_groups(a, &pass, m);
}
