// kernels.cpp: runs the blocks of a grid one after the other, and the threads of a block as fibers:
// each has a stack of its own and gives the processor away where it waits for others.
#include "simulator.h"
#include "device.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <sys/mman.h>
#include <ucontext.h>

// What threadIdx and the others are in device.h, where they are constants.
uint3 thread_index asm("threadIdx"), block_index asm("blockIdx");
uint3 block_size asm("blockDim"), grid_size asm("gridDim");

namespace cudasim {

static const Kernel *kernel;

const char *where_in_grid() {
    static char text[256];
    const uint3 &b = block_index, &t = thread_index;
    snprintf(text, sizeof text, "kernel %s, block (%u,%u,%u), thread (%u,%u,%u)", kernel->name, b.x,
             b.y, b.z, t.x, t.y, t.z);
    return text;
}

// ---- fibers ----------------------------------------------------------------------------------

char *const fiber_stacks = (char *)mmap(nullptr, STACK_BYTES *MAX_THREADS, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

struct Fiber {
    void *place[5]; // where it goes on
    bool started;
};
static Fiber scheduler, fibers[MAX_THREADS];

static void fiber_main();

__attribute__((noipa, noreturn)) static void start(Fiber *fiber) {
    ucontext_t context;
    size_t number = fiber - fibers;
    char *stack = fiber_stacks + number * STACK_BYTES;
    mprotect(stack, 4096, PROT_NONE); // a stack that is full must not run into the next
    fiber->started = true;
    getcontext(&context);
    context.uc_stack.ss_sp = stack;
    // Not all at the same place of a page, where they would compete for the same cache lines.
    context.uc_stack.ss_size = STACK_BYTES - number % 61 * 256;
    makecontext(&context, fiber_main, 0);
    setcontext(&context);
    __builtin_unreachable();
}

// A stack comes from ucontext, but swapcontext() makes two system calls (for signal masks) and
// takes 20 times as long as these. `noipa`: callers must not rely on any register.
__attribute__((noipa, noreturn)) static void jump_to(Fiber *fiber) {
    __builtin_longjmp(fiber->place, 1);
}

__attribute__((noipa)) static void switch_fibers(Fiber *from, Fiber *to) {
    if (__builtin_setjmp(from->place) != 0) return;
    if (to != &scheduler && !to->started) start(to);
    jump_to(to);
}

// ---- the threads of a block ------------------------------------------------------------------

struct Copy {
    float *to;
    const float *from; // nullptr: zeros
    int floats;
    unsigned group;
    void *place;
};

struct Thread {
    enum State { READY, AT_BARRIER, AT_WARP, ENDED } state;
    const char *place; // FILE:LINE, where it waits
    unsigned mask;     // of the lanes that it waits for
    uint64_t given[2]; // to the other lanes, at each second exchange
    unsigned exchanges;
    float *D; // where it waits at an mma_tf32()
    const unsigned *A, *B;
    std::vector<Copy> copies; // that have begun
    unsigned groups;          // of copies, that were committed
};
static std::vector<Thread> threads;
static std::vector<unsigned> turn; // the threads that run next, in this order
static unsigned at_mma[32];        // how many of each warp wait there

static void back_to_scheduler() { switch_fibers(&fibers[running.thread], &scheduler); }

static void fiber_main() { // thread i of each block, of each kernel, runs on fiber i
    for (;;) {
        kernel->thread();
        if (!threads[running.thread].copies.empty())
            mistake("is a copies_wait<0>() missing, or a copies_commit()?",
                    "%s ends before its copies into shared memory", where_in_grid());
        threads[running.thread].state = Thread::ENDED;
        back_to_scheduler();
    }
}

static Thread &arrive(Thread::State state, const char *place) {
    Thread &self = threads[running.thread];
    self.state = state;
    self.place = place;
    return self;
}

static void wait(Thread::State state, const char *place) {
    arrive(state, place);
    back_to_scheduler();
}

static void become(unsigned thread) {
    unsigned w = block_size.x, h = block_size.y;
    running.thread = thread;
    thread_index = {thread % w, thread / w % h, thread / w / h};
}

// ---- who can go on ---------------------------------------------------------------------------

static bool same_place(const Thread &a, const Thread &b) {
    return a.state == b.state && (a.place == b.place || strcmp(a.place, b.place) == 0);
}

// Are all the lanes that this thread waits for at the same line, waiting for the same lanes?
static bool lanes_are_there(unsigned thread) {
    const Thread &self = threads[thread];
    if (self.state != Thread::AT_WARP) return false;
    for (unsigned lane = 0; lane < 32; lane++) {
        unsigned other = thread / 32 * 32 + lane;
        if (!(self.mask >> lane & 1)) continue;
        if (other >= threads.size() || threads[other].mask != self.mask ||
            !same_place(self, threads[other]))
            return false;
    }
    return true;
}

static bool all_at_barrier() {
    return threads[0].state == Thread::AT_BARRIER &&
           std::all_of(threads.begin(), threads.end(),
                       [](const Thread &thread) { return same_place(thread, threads[0]); });
}

// Nobody can go on, and not all have ended.
[[noreturn]] static void stuck() {
    unsigned first = 0, there = 0;
    while (threads[first].state == Thread::ENDED) first++;
    for (unsigned i = first; i < threads.size(); i++)
        if (threads[i].state == Thread::AT_WARP) first = i;
    const Thread &self = threads[first];
    become(first);
    if (self.state == Thread::AT_WARP)
        mistake("all lanes of the mask must reach the same line",
                "%s waits at %s for lanes 0x%08x of its warp, and not all come", where_in_grid(),
                self.place, self.mask);
    for (const Thread &thread : threads) there += same_place(self, thread);
    mistake("all threads of a block must reach the same __syncthreads()",
            "%s waits at %s, which only %u of %zu threads reach", where_in_grid(), self.place,
            there, threads.size());
}

// Fills `turn` with the threads that can go on, in any order: none when all have ended.
static void find_turn() {
    bool barrier = all_at_barrier(), ended = true;
    turn.clear();
    clock_now++;
    for (unsigned i = 0; i < threads.size(); i++) {
        ended = ended && threads[i].state == Thread::ENDED;
        if (!barrier && !lanes_are_there(i)) continue;
        turn.push_back(i);
        running.warp_met[i / 32] = clock_now;
    }
    if (barrier) running.block_met = clock_now;
    if (turn.empty() && !ended) stuck();
    std::shuffle(turn.begin(), turn.end(), random_choice);
}

static void in_any_order(std::vector<unsigned> &numbers, size_t n) {
    numbers.resize(n);
    std::iota(numbers.begin(), numbers.end(), 0);
    std::shuffle(numbers.begin(), numbers.end(), random_choice);
}

static void run_block() {
    running.block_began = running.block_met = ++clock_now;
    std::fill_n(running.warp_met, 32, clock_now);
    std::fill(threads.begin(), threads.end(), Thread());
    std::fill_n(at_mma, 32, 0);
    for (in_any_order(turn, threads.size()); !turn.empty(); find_turn())
        for (size_t i = 0; i < turn.size(); i++) { // cudasim_mma() adds to it
            become(turn[i]);
            threads[turn[i]].state = Thread::READY;
            switch_fibers(&scheduler, &fibers[turn[i]]); // until it waits, or ends
        }
}

void run_grid(int gpu, const Kernel &this_kernel) {
    kernel = &this_kernel;
    const dim3 &grid = kernel->grid, &block = kernel->block;
    grid_size = grid;
    block_size = block;
    threads.resize(block.x * block.y * block.z);
    all_work.back().what = kernel->name;
    running.gpu = gpu;
    running.shared_bytes = kernel->shared_bytes;
    running.kernel = true;
    std::vector<unsigned> blocks;
    in_any_order(blocks, (size_t)grid.x * grid.y * grid.z);
    for (unsigned i : blocks) {
        block_index = {i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y};
        run_block();
    }
    running.kernel = false;
}

// ---- matrix products -------------------------------------------------------------------------

// What a tensor core sees of a number: it cuts off 13 bits.
static float cut(unsigned bits) {
    float x;
    bits &= 0xffffe000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// For the 32 lanes from this one on; mma.cuh says what each has.
static void multiply(const Thread *lanes) {
    float A[16][8], B[8][8];
    for (unsigned lane = 0; lane < 32; lane++) {
        unsigned g = lane / 4, t = lane % 4;
        for (unsigned i = 0; i < 4; i++) A[g + i % 2 * 8][t + i / 2 * 4] = cut(lanes[lane].A[i]);
        for (unsigned i = 0; i < 2; i++) B[t + i * 4][g] = cut(lanes[lane].B[i]);
    }
    for (unsigned row = 0; row < 16; row++) {
        float sums[8] = {};
        for (unsigned k = 0; k < 8; k++)
            for (unsigned col = 0; col < 8; col++) sums[col] += A[row][k] * B[k][col];
        for (unsigned col = 0; col < 8; col++)
            lanes[row % 8 * 4 + col / 2].D[row / 8 * 2 + col % 2] += sums[col];
    }
}

} // namespace cudasim

// ---- what device.h declares ------------------------------------------------------------------

using namespace cudasim;

void cudasim_syncthreads(const char *place) { wait(Thread::AT_BARRIER, place); }

int cudasim_lane(void) { return (int)running.thread % 32; }

uint64_t cudasim_exchange(unsigned mask, uint64_t bits, int lane, const char *place) {
    unsigned thread = running.thread, first = thread / 32 * 32;
    Thread &self = threads[thread];
    if (!(mask >> thread % 32 & 1) || !(mask >> lane & 1))
        mistake("the mask names all lanes that take part",
                "%s (%s): lane %d is not in the mask 0x%08x", where_in_grid(), place, lane, mask);
    // Two slots, in turn: a lane that is late still finds what the others gave.
    unsigned slot = self.exchanges++ % 2;
    self.given[slot] = bits;
    self.mask = mask;
    wait(Thread::AT_WARP, place);
    return threads[first + lane].given[slot];
}

// The last lane that comes multiplies for all, and the others go on after it. (This is no meeting
// as above: what one lane has written, the others must not read.)
void cudasim_mma(float *D, const unsigned *A, const unsigned *B, const char *place) {
    unsigned thread = running.thread, warp = thread / 32;
    Thread &self = arrive(Thread::AT_WARP, place);
    self.mask = 0xffffffffu;
    self.D = D;
    self.A = A;
    self.B = B;
    if (++at_mma[warp] < 32 || !lanes_are_there(thread)) return back_to_scheduler();
    at_mma[warp] = 0;
    multiply(&threads[warp * 32]);
    for (unsigned i = warp * 32; i < warp * 32 + 32; i++) {
        threads[i].state = Thread::READY;
        if (i != thread) turn.push_back(i);
    }
}

// A copy comes as late as it may, when the thread waits for it; until then nobody may read what it
// writes.
void cudasim_copy_async(float *to, const float *from, int floats, bool inside, void *place) {
    Thread &self = threads[running.thread];
    begin_copy(to, from, floats * sizeof *to, place);
    self.copies.push_back({to, inside ? from : nullptr, floats, self.groups, place});
}

void copies_commit(void) { threads[running.thread].groups++; }

void cudasim_copies_wait(unsigned groups) {
    Thread &self = threads[running.thread];
    auto copy = self.copies.begin();
    for (; copy != self.copies.end() && copy->group + groups < self.groups; copy++)
        end_copy(copy->to, copy->from, copy->floats * sizeof(float), copy->place);
    self.copies.erase(self.copies.begin(), copy);
}
