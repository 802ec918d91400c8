// simulator.h: what the parts of the simulator know of each other.
#ifndef CUDASIM_SIMULATOR_H
#define CUDASIM_SIMULATOR_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>
#include <cuda_runtime_api.h>
#include "cudasim.h"

struct CudasimWork; // device.h
struct dim3;

namespace cudasim {

// All choices come from here, that is from the seed.
struct Random {
    uint64_t state;
    unsigned below(unsigned n) { // a number from 0 to n-1, by PCG (O'Neill 2014)
        state = state * 6364136223846793005u + 1442695040888963407u;
        unsigned bits = (unsigned)((state >> 22 ^ state) >> (22 + (state >> 61)));
        return (unsigned)((uint64_t)bits * n >> 32);
    }
    void shuffle(std::vector<unsigned> &order) {
        for (unsigned n = (unsigned)order.size(); n > 1; n--)
            std::swap(order[n - 1], order[below(n)]);
    }
};
extern Random random_choice;

// ---- memory.cpp ------------------------------------------------------------------------------

// A mistake of the program: prints "cudasim: error: WHAT" and "hint: HINT", and ends the program.
[[noreturn]] void mistake(const char *hint, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

struct Allocation {
    char *begin, *end;
    int gpu;
    bool freed;
};

// The memory of all GPUs is one range of addresses, cut into one part for each. To the code of the
// host, which is compiled with AddressSanitizer, it is poisoned.
Allocation *allocate(int gpu, size_t bytes); // contents: not written
void release(Allocation *allocation);
void let_host_touch(const void *address, bool may); // the allocation that this address lies in
Allocation *allocation_at(const void *address);     // NULL for memory of the host

// For work that is no kernel (copies, cuBLAS). `what` says which for messages. Reading wants memory
// that was written.
enum Access { READ, WRITE, ATOMIC };
void check_range(const char *what, int gpu, const void *memory, size_t bytes, Access access);
// Copies between any two places.
void move_bytes(void *dst, const void *src, size_t bytes);

// ---- kernels.cpp -----------------------------------------------------------------------------

// The kernel that runs, and the thread of it. The clock ticks whenever threads have waited for each
// other; what happened at which tick says who could have seen what.
struct Running {
    bool on; // else it is the host's code
    int gpu;
    const char *kernel;
    unsigned thread, threads;                      // in the block
    uint64_t launch_began, block_began, block_met; // ticks
    uint64_t warp_met[32];
    size_t shared_bytes; // dynamic
};
extern Running running;
extern uint64_t clock_now;
extern char *const fiber_stacks; // a kernel's local variables are here
constexpr size_t STACK_BYTES = 64 << 10, MAX_THREADS = 1024;
const char *where_in_grid(); // "kernel add, block (0,0,0), thread (3,0,0)"

void run_grid(const char *kernel, int gpu, const dim3 &grid, const dim3 &block, size_t shared_bytes,
              const CudasimWork &work);

// ---- runtime.cpp -----------------------------------------------------------------------------

// Puts work at the end of the stream's queue.
void enqueue(cudaStream_t stream, std::function<void()> work);
int gpu_of(cudaStream_t stream);
int current_gpu();
bool can_reach(int gpu, int other); // may a kernel on this GPU touch memory of that one?
// Counts a call of the function. The error with which it is to fail, or 0.
int injected(const char *function);
extern size_t live; // see cudasim_live()

} // namespace cudasim
#endif
