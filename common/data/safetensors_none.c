// safetensors_none.c: a program without libjansson keeps no parameters in files.
#include "safetensors.h"
#include "common/base/error.h"

static _Noreturn void refuse(const char *path) {
    die("leave out --save, --load, --checkpoint and --resume",
        "%s: this program was built without libjansson, and has no files of parameters", path);
}

void safetensors_save_with(const char *path, Tensor *const tensors[], int n,
                           const SafetensorsExtras *extras) {
    (void)tensors, (void)n, (void)extras;
    refuse(path);
}

void safetensors_load_with(const char *path, Tensor *const tensors[], int n,
                           SafetensorsExtras *extras) {
    (void)tensors, (void)n, (void)extras;
    refuse(path);
}

void safetensors_save(const char *path, Tensor *const tensors[], int n) {
    safetensors_save_with(path, tensors, n, NULL);
}

void safetensors_load(const char *path, Tensor *const tensors[], int n) {
    safetensors_load_with(path, tensors, n, NULL);
}
