// minibatch_picture.c: draws a minibatch of images, each framed in the color of its device.
#include "behind.h"

#include "common/book.h"
#include "common/program/picture.h"
#include "../split_batch.h"

enum { COLUMNS = 16, SIDE = 28, ZOOM = 4, IMAGE = SIDE * ZOOM };
enum { FRAME = 7, STEP_X = IMAGE + 2 * FRAME + 8, STEP_Y = STEP_X + 20, MARGIN = 24 };
enum { NUM_COLORS = 8, LEGEND_COLUMNS = 4, LEGEND_STEP = 44, TITLE = 76 };

// Okabe and Ito's colors, for readers who cannot tell red from green, too.
static Color color_of(int device) {
    static const Color colors[NUM_COLORS] = {{0, 114, 178},   {230, 159, 0},  {0, 158, 115},
                                             {204, 121, 167}, {86, 180, 233}, {213, 94, 0},
                                             {120, 120, 120}, {240, 228, 66}};
    return colors[device % NUM_COLORS];
}

static const Color WHITE = {255, 255, 255}, BLACK = {30, 30, 30};

static void draw_legend(Picture *p, Tensor *const X_shards[], int k) {
    int width = (p->width - 2 * MARGIN) / LEGEND_COLUMNS, first = 0;
    for (int i = 0; i < k; i++) {
        int x = MARGIN + i % LEGEND_COLUMNS * width, y = TITLE + i / LEGEND_COLUMNS * LEGEND_STEP;
        int count = X_shards[i]->shape[0];
        char text[80];
        snprintf(text, sizeof text, "device %d: rows %d to %d (%d)", i, first, first + count - 1,
                 count);
        if (count == 1) snprintf(text, sizeof text, "device %d: row %d (1)", i, first);
        if (count == 0) snprintf(text, sizeof text, "device %d: no rows", i);
        picture_box(p, x, y, 28, 28, color_of(i));
        picture_text(p, x + 40, y - 4, 34, text, BLACK);
        first += count;
    }
}

// The images of one device, each with the number of its row.
static void draw_shard(Picture *p, const Tensor *X_shard, int first, Color color, int top) {
    float *images = tensor_values(X_shard);
    for (int i = 0; i < X_shard->shape[0]; i++) {
        int x = MARGIN + (first + i) % COLUMNS * STEP_X, y = top + (first + i) / COLUMNS * STEP_Y;
        char text[16];
        snprintf(text, sizeof text, "%d", first + i);
        picture_frame(p, x, y, IMAGE + 2 * FRAME, IMAGE + 2 * FRAME, FRAME, color);
        picture_values(p, x + FRAME, y + FRAME, ZOOM, images + i * SIDE * SIDE, SIDE, SIDE);
        picture_text(p, x + 2, y + IMAGE + 2 * FRAME + 1, 24, text, BLACK);
    }
    free(images);
}

void draw_minibatch(const char *path, const Tensor *X, const Tensor *y, int k) {
    Device *devices[MAX_DEVICES];
    Tensor *X_shards[MAX_DEVICES], *y_shards[MAX_DEVICES];
    open_step(devices, k);
    split_batch(X, y, devices, k, X_shards, y_shards);
    check_shards(X, y, X_shards, y_shards, k);

    int rows = X->shape[0], first = 0;
    int top = TITLE + (k + LEGEND_COLUMNS - 1) / LEGEND_COLUMNS * LEGEND_STEP + 20;
    int height = top + (rows + COLUMNS - 1) / COLUMNS * STEP_Y + 12;
    Picture p = picture_new(2 * MARGIN + COLUMNS * STEP_X - 8, height, WHITE);
    char title[80];
    snprintf(title, sizeof title, "A minibatch of %d images, split over %d device%s", rows, k,
             k > 1 ? "s" : "");
    picture_text(&p, MARGIN, 16, 44, title, BLACK);
    draw_legend(&p, X_shards, k);
    for (int i = 0; i < k; i++) {
        draw_shard(&p, X_shards[i], first, color_of(i), top);
        first += X_shards[i]->shape[0];
    }
    picture_save(&p, path);
    picture_free(&p);
}
