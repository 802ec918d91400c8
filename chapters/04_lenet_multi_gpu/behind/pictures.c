// pictures.c: draws what the trained LeNet looks like, its filters, and what it does: the classes
// that it gives to test images.
#include "behind.h"

#include "common/book.h"
#include "common/program/picture.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "../lenet.h"

static const Color WHITE = {255, 255, 255}, BLACK = {30, 30, 30}, FAINT = {120, 120, 120},
                   WRONG = {178, 24, 43}, LINE = {200, 200, 200};

enum { SIDE = 28, PIXELS = SIDE * SIDE, IMAGES = 40 };

// The first n test images in 0..1, as the network sees them.
static Tensor *first_images(const Dataset *test, int n, Device *device) {
    Tensor *X = tensor_new(host(), n, 1, SIDE, SIDE), *y = tensor_new(host(), n);
    int order[IMAGES];
    for (int i = 0; i < n; i++) order[i] = i;
    dataset_read(test, order, n, X->data, y->data);
    Tensor *there = tensor_to(X, device);
    synchronize(device);
    tensor_free(X);
    tensor_free(y);
    return there;
}

// Divides all by the largest size among them, and returns it.
static float scale_to_1(float *values, size_t n) {
    float largest = 0;
    for (size_t i = 0; i < n; i++) largest = fmaxf(largest, fabsf(values[i]));
    for (size_t i = 0; i < n && largest > 0; i++) values[i] /= largest;
    return largest;
}

static void centered(Picture *p, int x, int y, int width, int height, const char *text,
                     Color color) {
    picture_text(p, x + (width - picture_text_width(text, height)) / 2, y, height, text, color);
}

// ---- filters ---------------------------------------------------------------------------------

enum { FILTERS = 20, ACROSS = 5, MAP = 26, MAP_ZOOM = 6, FILTER_ZOOM = 26, GAP = 28, TOP = 112 };
enum { FILTER = 3 * FILTER_ZOOM, SEEN = MAP * MAP_ZOOM, CELL = FILTER + 12 + SEEN };

static void draw_panel(Picture *p, int x, int y, int zoom, const float *values, int side) {
    picture_values(p, x, y, zoom, values, side, side, diverging);
    picture_frame(p, x - 1, y - 1, side * zoom + 2, side * zoom + 2, 1, LINE);
}

// From blue over white to red, and what these stand for.
static void draw_scale(Picture *p, int x, int y, float weight, float value) {
    enum { STEPS = 121 };
    char text[100];
    for (int i = 0; i < STEPS; i++)
        picture_box(p, x + i, y, 1, 18, diverging((float)(i - STEPS / 2) / (STEPS / 2)));
    picture_frame(p, x - 1, y - 1, STEPS + 2, 20, 1, LINE);
    snprintf(text, sizeof text, "weights from -%.2g to %.2g, images from -%.2g to %.2g; white is 0",
             (double)weight, (double)weight, (double)value, (double)value);
    picture_text(p, x + STEPS + 12, y - 4, 26, text, FAINT);
}

// The filters' numbers, the one with the largest weight first. (The sort is stable.)
static void by_largest_weight(const float *weights, int order[FILTERS]) {
    float largest[FILTERS] = {0};
    for (int f = 0; f < FILTERS; f++) {
        for (int i = 0; i < 9; i++) largest[f] = fmaxf(largest[f], fabsf(weights[9 * f + i]));
        int at = f;
        for (; at > 0 && largest[order[at - 1]] < largest[f]; at--) order[at] = order[at - 1];
        order[at] = f;
    }
}

// All filters share one scale, and so do all images: a dead filter looks pale.
void draw_filters(const char *path, Tensor *const params[], const Dataset *test, Device *device) {
    Tensor *here[LENET_PARAMS], *X = first_images(test, 1, device);
    get_params(params, LENET_PARAMS, device, here);
    set_grad_enabled(false);
    begin_step(device);
    float *maps = tensor_values(conv2d(X, here[0], here[1])), *weights = tensor_values(here[0]);
    set_grad_enabled(true);

    Picture p =
        picture_new(GAP + ACROSS * (CELL + GAP), TOP + FILTERS / ACROSS * (SEEN + GAP), WHITE);
    picture_text(&p, GAP, 14, 34,
                 "LeNet: the 20 filters of its first layer, and a test image seen through each",
                 BLACK);
    float largest_weight = scale_to_1(weights, (size_t)FILTERS * 9);
    float largest_value = scale_to_1(maps, (size_t)FILTERS * MAP * MAP);
    draw_scale(&p, GAP, 68, largest_weight, largest_value);
    int order[FILTERS];
    by_largest_weight(weights, order);
    // Of each filter: its nine weights on the left, the image seen through it on the right
    for (int i = 0; i < FILTERS; i++) {
        int x = GAP + i % ACROSS * (CELL + GAP), y = TOP + i / ACROSS * (SEEN + GAP);
        draw_panel(&p, x, y + (SEEN - FILTER) / 2, FILTER_ZOOM, weights + 9 * order[i], 3);
        draw_panel(&p, x + FILTER + 12, y, MAP_ZOOM, maps + MAP * MAP * order[i], MAP);
    }
    picture_save(&p, path);

    picture_free(&p);
    free(maps);
    free(weights);
    tensor_free(X);
    free_params(here, LENET_PARAMS);
}

// ---- predictions -----------------------------------------------------------------------------

enum {
    COLUMNS = 8,
    ZOOM = 5,
    IMAGE = SIDE * ZOOM,
    STEP_X = IMAGE + 30,
    STEP_Y = IMAGE + 78,
    HEAD = 70
};

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

void draw_predictions(const char *path, Tensor *const params[], const Dataset *test,
                      Device *device) {
    Tensor *here[LENET_PARAMS], *X;
    int n = test->count < IMAGES ? test->count : IMAGES;
    X = first_images(test, n, device);
    get_params(params, LENET_PARAMS, device, here);
    set_grad_enabled(false);
    begin_step(device);
    float *scores = tensor_values(lenet(X, here)), *images = tensor_values(X);
    set_grad_enabled(true);

    Picture p = picture_new(COLUMNS * STEP_X, HEAD + IMAGES / COLUMNS * STEP_Y, WHITE);
    int wrong = 0;
    for (int i = 0; i < n; i++) {
        int predicted = argmax(scores + i * FASHION_MNIST_CLASSES, FASHION_MNIST_CLASSES);
        wrong += predicted != test->labels[i];
        draw_prediction(&p, i, images + i * PIXELS, predicted, test->labels[i]);
    }
    char title[100];
    snprintf(title, sizeof title,
             "The first %d test images, and what LeNet takes them for (%d mistakes, framed)", n,
             wrong);
    picture_text(&p, 15, 14, 30, title, BLACK);
    picture_save(&p, path);

    picture_free(&p);
    free(scores);
    free(images);
    tensor_free(X);
    free_params(here, LENET_PARAMS);
}
