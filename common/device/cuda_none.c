// cuda_none.c: takes the place of device_cuda.c in a program that is built without CUDA.
#include "backend.h"

const Backend *cuda_backend(void) { return NULL; }
