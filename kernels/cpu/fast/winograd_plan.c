// winograd_plan.c: chooses the sizes of chunks and teams so that transforms stay in the cache, and
// lays out the scratch memory.
#include "winograd_plan.h"

// These sizes were the fastest on one machine (1 MiB of cache for each core, 32 MiB for all).
enum {
    CORE_BYTES = 2 << 20,    // the transforms of a chunk that fits a core
    SHARED_BYTES = 10 << 20, // those of the chunks of all threads
    GROUP_BYTES = 5 << 20,   // those of a chunk of a sum over images
    KERNEL_BYTES = 10 << 20, // with more, each thread takes some kernels at a time in that sum
    LEAST_TILES = 48,        // in a chunk
    LEAST_ALONE = 32,        // the same, if each thread transforms kernels for itself
};

// ---- tiles -------------------------------------------------------------------------------------

int side_of_piece(const struct conv2d_shape *s) { return TILE - 1 + s->kernel_h; }

// Each point is a matrix of that many floats. The distance from one to the next is an odd number of
// cache lines, because at multiples of 4 KiB they would push each other out of the cache.
static size_t point_size(size_t floats) {
    enum { LINE = 16 };
    return ((floats + LINE - 1) / LINE | 1) * LINE;
}

Tiling tiling_of(const struct conv2d_shape *s, const unsigned char *pooled) {
    Tiling t = {
        .in = {s->C, s->H, s->W, s->pad_h, s->pad_w, NULL, 0, 0, false, 0},
        .out = {s->M, s->out_h, s->out_w, 0, 0, pooled, 0, 0, false, 0},
        .piece = side_of_piece(s),
        .rows = (s->out_h + TILE - 1) / TILE,
        .cols = (s->out_w + TILE - 1) / TILE,
    };
    t.points = t.piece * t.piece;
    t.out.full_h = t.rows * TILE;
    t.out.full_w = t.cols * TILE;
    t.in.full_h = t.out.full_h + t.piece - TILE;
    t.in.full_w = t.out.full_w + t.piece - TILE;
    t.in.in_place = t.piece == 8 && s->pad_h == 0 && s->pad_w == 0 && t.in.full_h <= s->H &&
                    t.in.full_w <= s->W;
    t.in.width = (size_t)(t.in.in_place ? s->W : t.in.full_w);
    t.out.in_place = pooled && t.out.full_h == s->out_h && t.out.full_w == s->out_w;
    t.out.width = (size_t)t.out.full_w;
    return t;
}

// Sets the size of a point, for pieces of the input and tiles of the output. Both channels and
// tiles are rounded up, because VL of either may be side by side.
static void set_chunk(Tiling *t, int images) {
    t->chunk = images;
    t->stride = round_to_vectors((size_t)t->rows * (size_t)t->cols * (size_t)images);
    t->in_point = point_size(round_to_vectors((size_t)t->in.channels) * t->stride);
    t->out_point = point_size(round_to_vectors((size_t)t->out.channels) * t->stride);
}

// Where each tile of a chunk starts in the images of a channel. The tiles that rounding up to
// vectors adds start where the first one does; their results are not used.
static void find_tiles(const Tiling *t, Side side, int *at) {
    size_t n = 0;
    for (int image = 0; image < t->chunk; image++)
        for (int row = 0; row < t->rows; row++)
            for (int col = 0; col < t->cols; col++)
                at[n++] = (image * side.full_h + row * TILE) * side.full_w + col * TILE;
    while (n < t->stride) at[n++] = 0;
}

// The same for images in place, where all channels of an image come before the next image. A tile
// of pooled images is half as high and half as wide.
static void find_tiles_in_place(const Tiling *t, Side side, int *at) {
    int half = side.pooled ? 2 : 1, width = side.w / half, step = TILE / half;
    int size = side.channels * width * (side.h / half);
    size_t n = 0;
    for (int image = 0; image < t->chunk; image++)
        for (int row = 0; row < t->rows; row++)
            for (int col = 0; col < t->cols; col++)
                at[n++] = image * size + row * step * width + col * step;
    while (n < t->stride) at[n++] = 0;
}

// ---- kernels -----------------------------------------------------------------------------------

static Kernels kernels_of(const struct conv2d_shape *s, int m, int M, int c, int C) {
    Kernels k = {m, M, c, C, round_to_vectors((size_t)C), 0, 0};
    k.point = point_size((size_t)M * k.stride);
    k.size = k.point * (size_t)(side_of_piece(s) * side_of_piece(s));
    return k;
}

Kernels all_kernels(const struct conv2d_shape *s) { return kernels_of(s, 0, s->M, 0, s->C); }

Kernels some_kernels(const struct conv2d_shape *s, bool backward, int first, int rows) {
    return backward ? kernels_of(s, 0, s->M, first, smaller(rows, s->C - first))
                    : kernels_of(s, first, smaller(rows, s->M - first), 0, s->C);
}

// ---- who does what -----------------------------------------------------------------------------

Chunk chunk_of(const Tiling *t, int first, int end) {
    int images = smaller(t->chunk, end - first);
    return (Chunk){first, images, (size_t)images * (size_t)t->rows * (size_t)t->cols};
}

int num_chunks(const Tiling *t, int N) { return (N + t->chunk - 1) / t->chunk; }

// The number of images whose transforms fit into that many bytes, at least 1.
static int images_in(const Tiling *t, size_t bytes) {
    size_t channels = (size_t)(t->in.channels + t->out.channels);
    size_t image = (size_t)t->rows * (size_t)t->cols * (size_t)t->points * channels * sizeof(float);
    return image < bytes ? (int)(bytes / image) : 1;
}

// Images of a chunk that fits a core, or 0 if such a chunk has too few tiles.
static int images_of_core(const Tiling *t) {
    int images = images_in(t, CORE_BYTES);
    return (long)images * t->rows * t->cols >= LEAST_TILES ? images : 0;
}

Teams cut_images(Tiling *t, int N, int threads) {
    enum { SHARES = 16 }; // so that 2, 4, 8 and 16 threads have the same amount of work
    int images = images_of_core(t), turns = 0, step = images ? SHARES : threads;
    bool small = images > 0, alone = true;
    if (!small) {
        images = images_in(t, SHARED_BYTES / (size_t)threads);
        alone = smaller(images, N / threads) * t->rows * t->cols >= LEAST_ALONE;
        if (!alone) images = images_in(t, SHARED_BYTES), step = 1;
    }
    do turns += step;
    while (images * turns < N);
    set_chunk(t, (N + turns - 1) / turns);
    return alone ? (Teams){threads, 1, .own = !small} : (Teams){1, threads, .own = true};
}

SumTree tree_of(const struct conv2d_shape *s, const Tiling *t) {
    enum { MOST_FLOATS = 5 << 20 };
    SumTree tree = sum_tree(s->N);
    while (tree.groups > 1 && (tree.group * t->rows * t->cols < LEAST_TILES ||
                               all_kernels(s).size * (size_t)tree.groups > MOST_FLOATS)) {
        tree.group *= 2;
        tree.groups = (s->N + tree.group - 1) / tree.group;
    }
    return tree;
}

Teams cut_group(Tiling *t, const struct conv2d_shape *s, SumTree tree, int threads) {
    size_t bytes = all_kernels(s).size * sizeof(float);
    bool small = bytes < CORE_BYTES / 2 && images_of_core(t);
    bool many = bytes > KERNEL_BYTES; // then each thread takes some kernels at a time
    int most = small ? images_of_core(t) : images_in(t, many ? 4 * GROUP_BYTES : GROUP_BYTES);
    int images = smaller(tree.group, s->N), chunks = (images + most - 1) / most;
    set_chunk(t, (images + chunks - 1) / chunks);
    size_t of_team = bytes + (t->in_point + t->out_point) * (size_t)t->points * sizeof(float);
    bool fits = small || (!many && of_team * (size_t)threads <= 8 * GROUP_BYTES);
    if (tree.groups >= threads && fits) return (Teams){threads, 1, .own = false};
    return (Teams){1, threads, .own = chunks == 1 && many};
}

int channels_at_once(Side side) { return side.in_place ? MOST_AT_ONCE : COPIES_AT_ONCE; }

// ---- scratch memory ----------------------------------------------------------------------------

Scratch scratch_of(CpuLane *lane, const Tiling *t, Teams teams, Room room) {
    Scratch s = {.of_U = room.team};
    size_t pieces = (size_t)t->points, keep = (size_t)t->chunk * full_size(t->out);
    size_t image = (size_t)t->in.h * (size_t)t->in.w;
    size_t tile = (size_t)t->piece * t->in.width + 4; // four floats are read at a time
    s.full = round_to_vectors((size_t)t->chunk * full_size(t->in) + 4);
    if (s.full < image) s.full = round_to_vectors(image);
    s.of_in = pieces * t->in_point;
    s.of_out = pieces * t->out_point;
    s.sizes = s.full * room.channels + round_to_vectors(tile);
    s.planes = s.sizes + 2 * t->stride * MOST_AT_ONCE;
    s.of_member = s.planes + room.member;
    s.of_team = s.of_U + s.of_in + s.of_out + round_to_vectors(keep + (size_t)t->chunk) +
                s.of_member * (size_t)teams.members;
    size_t floats = room.shared + s.of_team * (size_t)teams.teams + 3 * t->stride;
    s.shared = cpu_scratch(lane, sizeof(float) * floats);
    s.U = s.shared + room.shared;
    s.in_start = (int *)(s.U + s.of_team * (size_t)teams.teams);
    s.out_start = s.in_start + t->stride;
    s.pooled_start = s.out_start + t->stride;
    (t->in.in_place ? find_tiles_in_place : find_tiles)(t, t->in, s.in_start);
    find_tiles(t, t->out, s.out_start);
    if (t->out.in_place) find_tiles_in_place(t, t->out, s.pooled_start);
    return s;
}

Scratch scratch_of_team(const Scratch *first, const Tiling *t, int team) {
    Scratch s = *first;
    s.U += (size_t)team * s.of_team;
    s.in = s.U + s.of_U;
    s.out = s.in + s.of_in;
    s.keep = (unsigned *)(s.out + s.of_out);
    s.has_blanks = (bool *)(s.keep + (size_t)t->chunk * full_size(t->out));
    s.members = s.out + s.of_out + round_to_vectors((size_t)t->chunk * (full_size(t->out) + 1));
    return s;
}

float *planes_of_member(const Scratch *s) {
    return s->members + s->of_member * (size_t)omp_get_thread_num();
}

float *sizes_of_member(const Scratch *s) { return planes_of_member(s) + s->sizes; }

float *kernels_of_member(const Scratch *s) { return planes_of_member(s) + s->planes; }

// ---- all of it ---------------------------------------------------------------------------------

void share_items(const Pass *pass, int items, Work *work) {
    if (pass->teams.teams == 1) {
        Scratch scratch = scratch_of_team(&pass->scratch, &pass->t, 0);
        for (int item = 0; item < items; item++) {
#pragma omp parallel num_threads(pass->teams.members)
            work(pass, &scratch, item);
        }
        return;
    }
#pragma omp parallel for num_threads(pass->teams.teams) schedule(dynamic)
    for (int item = 0; item < items; item++) {
        Scratch scratch = scratch_of_team(&pass->scratch, &pass->t, omp_get_thread_num());
#pragma omp parallel num_threads(1) // a team of one: it does all of each `omp for`
        work(pass, &scratch, item);
    }
}
