// lenet_float64.c: chapter 4's in_one_file.c in float64, whose gradients test_splitting.c
// compares with. (Its names would meet the book's, so it is compiled by itself.)
#define REAL double
#define main in_one_file
#include "chapters/04_lenet_multi_gpu/in_one_file.c"

double *gradients_in_float64(const double *params, const float *X, const float *y, int n);
double *gradients_in_float64(const double *params, const float *X, const float *y, int n) {
    Device *device = calloc(1, sizeof *device);
    double *grads = malloc(sizeof device->grads);
    memcpy(&device->params, params, sizeof device->params);
    for (int i = 0; i < n * 784; i++)
        device->X[i / 784][i % 784] = (unsigned char)(X[i] * 255 + 0.5f);
    for (int i = 0; i < n; i++) device->y[i] = (unsigned char)y[i];
    device->rows = n;
    compute_gradients(device, 1);
    memcpy(grads, &device->grads, sizeof device->grads);
    free(device);
    return grads;
}
