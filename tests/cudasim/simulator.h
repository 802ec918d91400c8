// simulator.h: what the parts of the simulator know of each other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>
#include <cuda_runtime_api.h>
#include "cudasim.h"

struct dim3; // device.h

namespace cudasim {

// All choices come from here, that is from the seed.
extern std::mt19937 random_choice;

// ---- memory.cpp ------------------------------------------------------------------------------

// A mistake of the program: prints "cudasim: error: WHAT" and "hint: HINT", and ends the program.
[[noreturn]] void mistake(const char *hint, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Memory is one range of addresses, cut into a part for each GPU and one for the host's pinned
// memory. The parts of GPUs are poisoned: AddressSanitizer keeps the host's code away from them.
constexpr int HOST = CUDASIM_MAX_GPUS;
struct Allocation {
    char *begin, *end;
    int gpu; // or HOST
    bool freed;
};
Allocation *allocate(int gpu, size_t bytes); // contents: not written
void release(Allocation *allocation);
Allocation *allocation_at(const void *address); // NULL for other memory of the host
void let_host_touch(const void *memory, size_t bytes, bool may);

// For work that is no kernel (copies, cuBLAS): `what` reads or writes memory that must be `gpu`'s.
enum Verb { READ, WRITE, BEGIN }; // BEGIN is a copy that goes on
void check_range(const char *what, int gpu, const void *memory, size_t bytes, Verb verb);
// Copies between any two places.
void move_bytes(void *dst, const void *src, size_t bytes);

// A kernel's copy into shared memory begins, and ends: it writes zeros if `from` is nullptr then.
constexpr size_t MOST_SHARED_BYTES = 227 << 10; // dynamic
void begin_copy(void *to, const void *from, size_t bytes, void *place);
void end_copy(void *to, const void *from, size_t bytes, void *place);

// ---- kernels.cpp -----------------------------------------------------------------------------

constexpr size_t STACK_BYTES = 64 << 10, MAX_THREADS = 1024;
extern char *const fiber_stacks; // a kernel's local variables are here
const char *where_in_grid();     // "kernel add, block (0,0,0), thread (3,0,0)"

struct Kernel {
    const char *name;
    const dim3 &grid, &block;
    size_t shared_bytes; // dynamic
    std::function<void()> thread;
};
void run_grid(int gpu, const Kernel &kernel);

// ---- runtime.cpp -----------------------------------------------------------------------------

// Work is numbered in the order in which it runs. To "know" work is to come after it by the rules
// of CUDA, not by luck: for each stream, the number of its last work that is known.
constexpr unsigned MAX_STREAMS = 64;
using Known = std::array<unsigned, MAX_STREAMS>;
struct Work {
    unsigned stream;
    const char *what;
};
extern std::vector<Work> all_work;

// Time is a number of work and a count of how often threads have waited for each other in it. It
// says who could have seen what.
constexpr uint64_t WORK_TICKS = 1 << 24;
extern uint64_t clock_now;

// The work that runs; of a kernel, the thread of it.
struct Running {
    bool kernel; // else a copy, cuBLAS, or the host's code
    int gpu;
    Known known;
    uint64_t all_known_until;                                  // a time; faster than to ask `known`
    uint64_t work_began, block_began, block_met, warp_met[32]; // times
    unsigned thread;                                           // in the block
    size_t shared_bytes;
};
extern Running running;

// Puts work at the end of the stream's queue.
void enqueue(cudaStream_t stream, std::function<void()> work);
int gpu_of(cudaStream_t stream);
int current_gpu();
int machines_number_of(int gpu);    // which CUDA_VISIBLE_DEVICES may have changed
bool can_reach(int gpu, int other); // may a kernel on this GPU touch memory of that one?
// What is on `after` from now on comes after what is on `before` now.
void order(cudaStream_t before, cudaStream_t after);
// Counts a call of the function. The error with which it is to fail, or 0. From any thread.
int injected(const char *function);
extern size_t live; // see cudasim_live()

// ---- the libraries, by the names of their functions --------------------------------------------

void *cublas_function(const char *name);
void *nccl_function(const char *name);

} // namespace cudasim
