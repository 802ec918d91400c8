// safetensors_none.c: a program that is built without libjansson keeps no parameters in files.
#include "safetensors.h"
#include "common/base/error.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

static _Noreturn void refuse(const char *path) {
    die("leave out --save, --load, --checkpoint and --resume",
        "%s: this program was built without libjansson, which such files need", path);
}

void safetensors_save(const char *path, Tensor *const t[], int n) { refuse(path); }
void safetensors_load(const char *path, Tensor *const t[], int n) { refuse(path); }
void safetensors_save_with(const char *path, Tensor *const t[], int n,
                           const SafetensorsExtras *extras) {
    refuse(path);
}
void safetensors_load_with(const char *path, Tensor *const t[], int n, SafetensorsExtras *extras) {
    refuse(path);
}
SafetensorsFile safetensors_open(const char *path) { refuse(path); }
const SafetensorsEntry *safetensors_find(const SafetensorsFile *file, const char *name) {
    return NULL;
}
const char *safetensors_text(const SafetensorsFile *file, const char *key) { return NULL; }
void safetensors_close(SafetensorsFile *file) {}
bool safetensors_built_in(void) { return false; }
