// load.cpp: dlopen() and dlsym() for code that loads CUDA's libraries while the program runs: it
// gets the simulator's.
#include "simulator.h"
#include "cudasim.h"

#include <cstring>

using namespace cudasim;

static char cublas, nccl; // a library is the address of one of these
static const char *last;

extern "C" {
void *cudasim_dlopen(const char *library, int);
void *cudasim_dlsym(void *library, const char *name);
char *cudasim_dlerror(void);
}

// (To fail on demand: "dlopen" and "dlsym" are of cuBLAS, "dlopen nccl" and "dlsym nccl" of NCCL.)
void *cudasim_dlopen(const char *name, int) {
    bool is_nccl = strstr(name, "nccl");
    last = is_nccl ? "libnccl.so.2: cannot open shared object file"
                   : "libcublas: cannot open shared object file";
    if (injected(is_nccl ? "dlopen nccl" : "dlopen")) return nullptr;
    return is_nccl ? &nccl : &cublas;
}

char *cudasim_dlerror(void) { return const_cast<char *>(last); }

void *cudasim_dlsym(void *library, const char *name) {
    if (injected(library == &nccl ? "dlsym nccl" : "dlsym")) return nullptr;
    return library == &nccl ? nccl_function(name) : cublas_function(name);
}
