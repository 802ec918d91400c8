// pictures.c: see pictures.h.
#include "pictures.h"

#include "../../common/error.h"
#include "../../common/functional.h"
#include "../../common/picture.h"
#include "../02_get_params_and_allreduce/get_params.h"
#include "lenet.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const Color WHITE = {255, 255, 255}, BLACK = {30, 30, 30}, FAINT = {120, 120, 120},
                   WRONG = {178, 24, 43}, LINE = {200, 200, 200};

enum { SIDE = 28, PIXELS = SIDE * SIDE };

// The first n test images in 0..1, as the network sees them.
static Tensor *first_images(const Dataset *test, int n, Device *device) {
    Tensor *X = tensor_new(host(), n, 1, SIDE, SIDE);
    for (int i = 0; i < n * PIXELS; i++) X->data[i] = (float)test->images[i] / 255.0f;
    Tensor *there = tensor_to(X, device);
    synchronize(device);
    tensor_free(X);
    return there;
}

static float *values_of(const Tensor *t) {
    float *values = xmalloc(tensor_bytes(t));
    tensor_read(t, values);
    return values;
}

static float largest_size(const float *values, size_t n) {
    float largest = 0;
    for (size_t i = 0; i < n; i++) largest = fmaxf(largest, fabsf(values[i]));
    return largest > 0 ? largest : 1;
}

static void scale_by(float *values, size_t n, float factor) {
    for (size_t i = 0; i < n; i++) values[i] *= factor;
}

static void centered(Picture *p, int x, int y, int width, int height, const char *text, Color color) {
    picture_text(p, x + (width - picture_text_width(text, height)) / 2, y, height, text, color);
}

// ---- filters -------------------------------------------------------------------------------------

enum { FILTERS = 20, ACROSS = 5, MAP = 26, MAP_ZOOM = 5, FILTER_ZOOM = 18, FILTER = 3 * FILTER_ZOOM, GAP = 26, TOP = 96 };
enum { CELL_W = FILTER + 10 + MAP * MAP_ZOOM, CELL_H = MAP * MAP_ZOOM };

// Filter f: its nine weights on the left, the image seen through it on the right.
static void draw_filter(Picture *p, int f, const float *weights, const float *map) {
    int x = GAP + f % ACROSS * (CELL_W + GAP), y = TOP + f / ACROSS * (CELL_H + GAP);
    int middle = y + (CELL_H - FILTER) / 2;
    picture_values(p, x, middle, FILTER_ZOOM, weights + 9 * f, 3, 3, diverging);
    picture_frame(p, x - 1, middle - 1, FILTER + 2, FILTER + 2, 1, LINE);
    picture_values(p, x + FILTER + 10, y, MAP_ZOOM, map + MAP * MAP * f, MAP, MAP, diverging);
    picture_frame(p, x + FILTER + 9, y - 1, CELL_H + 2, CELL_H + 2, 1, LINE);
}

// From blue over white to red, with the numbers that they stand for.
static void draw_scale(Picture *p, int x, int y, float largest, const char *what) {
    enum { STEPS = 121 };
    char text[80];
    for (int i = 0; i < STEPS; i++) picture_box(p, x + i, y, 1, 18, diverging((float)(i - STEPS / 2) / (STEPS / 2)));
    picture_frame(p, x - 1, y - 1, STEPS + 2, 20, 1, LINE);
    snprintf(text, sizeof text, "%s: −%.2f to +%.2f", what, (double)largest, (double)largest);
    picture_text(p, x + STEPS + 12, y - 2, 22, text, FAINT);
}

void draw_filters(const char *path, Tensor *const params[], const Dataset *test, Device *device) {
    Tensor *here[LENET_PARAMS], *X = first_images(test, 1, device);
    get_params(params, LENET_PARAMS, device, here);
    set_grad_enabled(false);
    begin_step(device);
    float *maps = values_of(conv2d(X, here[0], here[1])), *weights = values_of(here[0]);
    set_grad_enabled(true);
    float largest_weight = largest_size(weights, FILTERS * 9), largest_map = largest_size(maps, FILTERS * MAP * MAP);
    scale_by(weights, FILTERS * 9, 1 / largest_weight);
    scale_by(maps, FILTERS * MAP * MAP, 1 / largest_map);

    int rows = FILTERS / ACROSS;
    Picture p = picture_new(GAP + ACROSS * (CELL_W + GAP), TOP + rows * (CELL_H + GAP), WHITE);
    picture_text(&p, GAP, 14, 30, "The 20 filters of the first layer, and a test image seen through each", BLACK);
    draw_scale(&p, GAP, 58, largest_weight, "weights");
    draw_scale(&p, GAP + 480, 58, largest_map, "output");
    for (int f = 0; f < FILTERS; f++) draw_filter(&p, f, weights, maps);
    picture_save(&p, path);

    picture_free(&p);
    free(maps);
    free(weights);
    tensor_free(X);
    free_params(here, LENET_PARAMS);
}

// ---- predictions ---------------------------------------------------------------------------------

enum { IMAGES = 40, COLUMNS = 8, ZOOM = 5, IMAGE = SIDE * ZOOM, STEP_X = IMAGE + 30, STEP_Y = IMAGE + 78, HEAD = 70 };

static int argmax(const float *values, int n) {
    int best = 0;
    for (int i = 1; i < n; i++)
        if (values[i] > values[best]) best = i;
    return best;
}

// White on black in the file; black on white is better on paper.
static Color ink(float value) { return gray(1 - value); }

static void draw_prediction(Picture *p, int i, const float *image, int predicted, int truth) {
    int x = 15 + i % COLUMNS * STEP_X, y = HEAD + i / COLUMNS * STEP_Y;
    bool wrong = predicted != truth;
    char text[64];
    picture_values(p, x, y, ZOOM, image, SIDE, SIDE, ink);
    picture_frame(p, x - 4, y - 4, IMAGE + 8, IMAGE + 8, wrong ? 5 : 1, wrong ? WRONG : LINE);
    snprintf(text, sizeof text, "%s", fashion_mnist_names[predicted]);
    centered(p, x, y + IMAGE + 8, IMAGE, 24, text, wrong ? WRONG : BLACK);
    snprintf(text, sizeof text, "is: %s", fashion_mnist_names[truth]);
    if (wrong) centered(p, x, y + IMAGE + 34, IMAGE, 22, text, FAINT);
}

void draw_predictions(const char *path, Tensor *const params[], const Dataset *test, Device *device) {
    Tensor *here[LENET_PARAMS], *X = first_images(test, IMAGES, device);
    get_params(params, LENET_PARAMS, device, here);
    set_grad_enabled(false);
    begin_step(device);
    float *scores = values_of(lenet(X, here)), *images = values_of(X);
    set_grad_enabled(true);

    Picture p = picture_new(COLUMNS * STEP_X, HEAD + IMAGES / COLUMNS * STEP_Y, WHITE);
    int wrong = 0;
    for (int i = 0; i < IMAGES; i++) {
        int predicted = argmax(scores + i * FASHION_MNIST_CLASSES, FASHION_MNIST_CLASSES);
        wrong += predicted != test->labels[i];
        draw_prediction(&p, i, images + i * PIXELS, predicted, test->labels[i]);
    }
    char title[100];
    snprintf(title, sizeof title, "The first %d test images, and what LeNet takes them for (%d mistakes, framed)", IMAGES, wrong);
    picture_text(&p, 15, 14, 30, title, BLACK);
    picture_save(&p, path);

    picture_free(&p);
    free(scores);
    free(images);
    tensor_free(X);
    free_params(here, LENET_PARAMS);
}
