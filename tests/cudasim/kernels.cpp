// kernels.cpp: runs the blocks of a grid one after the other, and the threads of a block as fibers:
// each has a stack of its own and gives the processor away where it waits for others.
#include "simulator.h"
#include "device.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <sys/mman.h>
#include <ucontext.h>
#include <vector>

// What threadIdx and the others are in device.h, where they are constants.
uint3 thread_index asm("threadIdx"), block_index asm("blockIdx");
uint3 block_size asm("blockDim"), grid_size asm("gridDim");

namespace cudasim {

Running running;
uint64_t clock_now = 1;

const char *where_in_grid() {
    static char text[256];
    snprintf(text, sizeof text, "kernel %s, block (%u,%u,%u), thread (%u,%u,%u)", running.kernel,
             block_index.x, block_index.y, block_index.z, thread_index.x, thread_index.y,
             thread_index.z);
    return text;
}

// ---- fibers ----------------------------------------------------------------------------------

// The lowest page of a stack is closed, so that one that is full does not run into the next.
char *const fiber_stacks = (char *)mmap(nullptr, STACK_BYTES *MAX_THREADS, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

struct Fiber {
    void *place[5]; // where it goes on
    bool started;
};
static Fiber scheduler, fibers[MAX_THREADS];

// A stack comes from ucontext, but swapcontext() makes two system calls (for signal masks) and
// takes 20 times as long as these. `noipa`: callers must not rely on any register.
__attribute__((noipa, noreturn)) static void jump_to(Fiber *fiber) {
    __builtin_longjmp(fiber->place, 1);
}

static void fiber_main();

__attribute__((noipa, noreturn)) static void start(Fiber *fiber) {
    ucontext_t context;
    char *stack = fiber_stacks + (fiber - fibers) * STACK_BYTES;
    mprotect(stack, 4096, PROT_NONE);
    fiber->started = true;
    getcontext(&context);
    context.uc_stack.ss_sp = stack;
    // Not all at the same place of a page, where they would compete for the same lines of the
    // cache.
    context.uc_stack.ss_size = STACK_BYTES - (fiber - fibers) % 61 * 256;
    makecontext(&context, fiber_main, 0);
    setcontext(&context);
    __builtin_unreachable();
}

__attribute__((noipa)) static void switch_fibers(Fiber *from, Fiber *to) {
    if (__builtin_setjmp(from->place) != 0) return;
    if (to != &scheduler && !to->started) start(to);
    jump_to(to);
}

// ---- the threads of a block ------------------------------------------------------------------

struct Thread {
    enum { READY, AT_BARRIER, AT_WARP, ENDED } state;
    Fiber *fiber;
    const char *file = ""; // where it waits
    int line;
    unsigned mask;     // of the lanes that it waits for
    uint64_t given[2]; // to the other lanes, at each second exchange
    unsigned exchanges;
};
static std::vector<Thread> threads;
static std::vector<unsigned> turn; // the threads that can run, in the order in which they do
static size_t next_turn;
static std::vector<Fiber *> idle;
static const CudasimWork *thread_work;
static unsigned ended;

static void become(unsigned thread) {
    unsigned w = block_size.x, h = block_size.y;
    running.thread = thread;
    thread_index = {thread % w, thread / w % h, thread / w / h};
}

// Goes on with the thread whose turn it is, or with the scheduler if all had theirs.
static void give_way(Fiber *self) {
    Fiber *next = &scheduler;
    if (next_turn < turn.size()) {
        Thread &thread = threads[turn[next_turn]];
        if (!thread.fiber) {
            thread.fiber = idle.back();
            idle.pop_back();
        }
        next = thread.fiber;
    }
    if (next != self) switch_fibers(self, next);
}

// A fiber whose thread has ended is the next to be used: threads that never wait run one after the
// other on the same.
static void fiber_main() {
    for (;;) {
        unsigned thread = turn[next_turn++];
        become(thread);
        thread_work->run();
        threads[thread].state = Thread::ENDED;
        ended++;
        idle.push_back(threads[thread].fiber);
        give_way(idle.back());
    }
}

static void run_in_turn() {
    random_choice.shuffle(turn);
    next_turn = 0;
    give_way(&scheduler);
    turn.clear();
}

static void wait(Thread &self, const char *file, int line) {
    unsigned thread = running.thread;
    uint3 index = thread_index;
    self.file = file;
    self.line = line;
    give_way(self.fiber);
    next_turn++;
    running.thread = thread;
    thread_index = index;
    self.state = Thread::READY;
}

// ---- who can go on ---------------------------------------------------------------------------

static bool same_place(const Thread &a, const Thread &b) {
    return a.state == b.state && a.line == b.line &&
           (a.file == b.file || strcmp(a.file, b.file) == 0);
}

// Are all the lanes that this thread waits for at the same line, waiting for the same lanes?
static bool lanes_are_there(unsigned thread) {
    const Thread &self = threads[thread];
    for (unsigned lane = 0, first = thread / 32 * 32; lane < 32; lane++) {
        if (!(self.mask >> lane & 1)) continue;
        if (first + lane >= threads.size() || !same_place(self, threads[first + lane]) ||
            self.mask != threads[first + lane].mask)
            return false;
    }
    return true;
}

// Nobody can go on, and not all have ended.
[[noreturn]] static void stuck() {
    unsigned first = 0, there = 0;
    while (threads[first].state == Thread::ENDED) first++;
    for (unsigned i = first; i < threads.size(); i++)
        if (threads[i].state == Thread::AT_WARP) first = i;
    for (const Thread &thread : threads) there += same_place(threads[first], thread);
    become(first);
    const Thread &self = threads[first];
    if (self.state == Thread::AT_WARP)
        mistake("all lanes of the mask must reach the same line",
                "%s waits at %s:%d for lanes 0x%08x of its warp, and not all come", where_in_grid(),
                self.file, self.line, self.mask);
    mistake("all threads of a block must reach the same __syncthreads()",
            "%s waits at %s:%d, which only %u of %zu threads reach", where_in_grid(), self.file,
            self.line, there, threads.size());
}

// Fills `turn` with those that can go on; false when all threads have ended.
static bool let_go() {
    unsigned at_barrier = 0;
    if (ended == threads.size()) return false;
    for (unsigned i = 0; i < threads.size(); i++) {
        at_barrier += same_place(threads[0], threads[i]) && threads[i].state == Thread::AT_BARRIER;
        if (threads[i].state == Thread::AT_WARP && lanes_are_there(i)) turn.push_back(i);
    }
    for (unsigned i : turn) running.warp_met[i / 32] = clock_now + 1;
    if (turn.empty() && at_barrier == threads.size()) {
        turn.resize(threads.size());
        std::iota(turn.begin(), turn.end(), 0);
        running.block_met = clock_now + 1;
    }
    clock_now++;
    if (turn.empty()) stuck();
    return true;
}

static void run_block() {
    running.block_began = running.block_met = ++clock_now;
    std::fill_n(running.warp_met, 32, clock_now);
    threads.assign(running.threads, Thread());
    ended = 0;
    turn.resize(running.threads);
    std::iota(turn.begin(), turn.end(), 0);
    do run_in_turn();
    while (let_go());
}

void run_grid(const char *kernel, int gpu, const dim3 &grid, const dim3 &block, size_t shared_bytes,
              const CudasimWork &work) {
    if (idle.empty())
        for (Fiber &fiber : fibers) idle.push_back(&fiber);
    thread_work = &work;
    grid_size = grid;
    block_size = block;
    running = {};
    running.gpu = gpu;
    running.kernel = kernel;
    running.threads = block.x * block.y * block.z;
    running.shared_bytes = shared_bytes;
    running.launch_began = ++clock_now;
    running.on = true;
    std::vector<unsigned> blocks((size_t)grid.x * grid.y * grid.z);
    std::iota(blocks.begin(), blocks.end(), 0);
    random_choice.shuffle(blocks);
    for (unsigned i : blocks) {
        block_index = {i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y};
        run_block();
    }
    running.on = false;
    clock_now++;
}

} // namespace cudasim

// ---- what device.h declares ------------------------------------------------------------------

using namespace cudasim;

void cudasim_syncthreads(const char *file, int line) {
    Thread &self = threads[running.thread];
    self.state = Thread::AT_BARRIER;
    wait(self, file, line);
}

int cudasim_lane(void) { return (int)running.thread % 32; }

uint64_t cudasim_exchange(unsigned mask, uint64_t bits, int lane, const char *file, int line) {
    unsigned thread = running.thread, first = thread / 32 * 32;
    Thread &self = threads[thread];
    // Two places, in turn: a lane that is late still finds what the others gave.
    unsigned place = self.exchanges++ % 2;
    self.given[place] = bits;
    self.mask = mask;
    self.state = Thread::AT_WARP;
    if (!(mask >> thread % 32 & 1) || (lane >= 0 && !(mask >> lane & 1)))
        mistake("the mask names all lanes that take part",
                "%s (%s:%d): lane %d is not in the mask 0x%08x", where_in_grid(), file, line, lane,
                mask);
    wait(self, file, line);
    return lane < 0 ? bits : threads[first + lane].given[place];
}
