// predictions.c: draws test images with the classes that the trained LeNet gives them.
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

static void centered(Picture *p, int x, int y, int width, int height, const char *text,
                     Color color) {
    picture_text(p, x + (width - picture_text_width(text, height)) / 2, y, height, text, color);
}

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

static void draw_prediction(Picture *p, int i, const float *image, int predicted, int truth) {
    int x = 15 + i % COLUMNS * STEP_X, y = HEAD + i / COLUMNS * STEP_Y;
    bool wrong = predicted != truth;
    char text[64];
    picture_values(p, x, y, ZOOM, image, SIDE, SIDE);
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
