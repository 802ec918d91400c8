// cublas_load.cu: loads cuBLAS while the program runs.
//
// If the library were linked, the program would not even start on a machine without it, and would
// read its hundreds of megabytes at each start, with or without a GPU. So we open it when the first
// lane is opened. dlopen() searches LD_LIBRARY_PATH, then the executable's RUNPATH (to which the
// Makefile adds the toolkit's folder), then the system's folders for libraries.
#include "cuda.h"
#include <dlfcn.h>

#define TEXT(x)    #x
#define TEXT_OF(x) TEXT(x)
// The version that this was compiled with. Another version may have other types.
#define SONAME "libcublas.so." TEXT_OF(CUBLAS_VER_MAJOR)

static void *find(void *library, const char *name) {
    void *function = dlsym(library, name);
    if (!function)
        kernels_fail("is another library in front of it in LD_LIBRARY_PATH?", "%s has no %s",
                     SONAME, name);
    return function;
}

const Cublas *cublas_load(void) {
    static Cublas cublas;
    static void *library;
    if (library) return &cublas;
    library = dlopen(SONAME, RTLD_LAZY);
    if (!library)
        kernels_fail("install cuBLAS, which is part of the CUDA toolkit, or add its folder to "
                     "LD_LIBRARY_PATH",
                     "cannot load cuBLAS: %s", dlerror());
#define CUBLAS_FIND(name) cublas.name = (__typeof__(&name))find(library, #name);
    CUBLAS_FUNCTIONS(CUBLAS_FIND)
#undef CUBLAS_FIND
    return &cublas;
}
