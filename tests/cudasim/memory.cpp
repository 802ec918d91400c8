// memory.cpp: the memory of simulated GPUs, and what is known of each word of it.
//
// The .cu files are compiled with -fsanitize=thread, but ThreadSanitizer is not linked: what the
// compiler calls before each access to memory, __tsan_read4() and so on, is defined here. So every
// access of a kernel is checked: is it inside an allocation, can this GPU reach it, has somebody
// written what is read, and does another thread touch the same word without a barrier in between?
#include "simulator.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <sys/mman.h>
#include <unistd.h>

// Of AddressSanitizer, which the program is linked with.
extern "C" void __asan_loadN(uintptr_t address, size_t bytes);
extern "C" void __asan_storeN(uintptr_t address, size_t bytes);
extern "C" void __asan_poison_memory_region(const volatile void *address, size_t bytes);
extern "C" void __asan_unpoison_memory_region(const volatile void *address, size_t bytes);
extern "C" void __sanitizer_symbolize_pc(void *pc, const char *format, char *text, size_t size);

namespace cudasim {

// ---- allocations -----------------------------------------------------------------------------

// Addresses are used once, so that freed memory is known for ever; each allocation has pages of its
// own, so that a page says whose it is.
constexpr size_t PAGE = 4096, GPU_BYTES = (size_t)16 << 30,
                 ALL_BYTES = CUDASIM_MAX_GPUS * GPU_BYTES;

// When a word (4 bytes) was last written and read; 0: never. A tick of the clock, then which thread
// of the block it was; of many readers, the last, and how far the others were.
struct Word {
    uint64_t written, read;
};
enum : uint64_t {
    THREAD = 1023,
    LANES = 1 << 10,  // also read by other threads of this warp,
    WARPS = 1 << 11,  // of another warp of this block,
    BLOCKS = 1 << 12, // of another block
    ATOMICALLY = 1 << 13,
    TICK = 1 << 14
};

static char *reserve(size_t bytes) {
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        mistake("is there a limit, as by `ulimit -v`?", "cannot reserve addresses for the GPUs");
    return (char *)memory;
}

static char *const memory = reserve(ALL_BYTES);
static Word *const words = (Word *)reserve(ALL_BYTES / 4 * sizeof(Word));
// Of a page where single bytes are written there is a "word" for each byte; else bytes is nullptr.
static struct Page {
    Allocation *owner;
    Word *bytes;
} *const pages = (Page *)reserve(ALL_BYTES / PAGE * sizeof(Page));
static size_t used[CUDASIM_MAX_GPUS]; // bytes, whole pages
static std::deque<Allocation> allocations;

Allocation *allocate(int gpu, size_t bytes) {
    // CUDA promises 256 bytes of alignment and no more.
    size_t begin = used[gpu] + 256 * (1 + random_choice.below(8));
    size_t end = (begin + bytes + PAGE - 1) / PAGE * PAGE;
    if (bytes > GPU_BYTES || end + PAGE > GPU_BYTES) return nullptr;
    char *base = memory + gpu * GPU_BYTES;
    allocations.push_back({base + begin, base + begin + bytes, gpu, false});
    for (size_t page = used[gpu]; page < end; page += PAGE)
        pages[(gpu * GPU_BYTES + page) / PAGE].owner = &allocations.back();
    used[gpu] = end + PAGE; // one that is nobody's
    let_host_touch(base + begin, false);
    live++;
    return &allocations.back();
}

void let_host_touch(const void *address, bool may) {
    const Allocation *a = allocation_at(address);
    (may ? __asan_unpoison_memory_region : __asan_poison_memory_region)(a->begin,
                                                                        a->end - a->begin);
}

void release(Allocation *a) {
    a->freed = true;
    live--;
    char *first = memory + (a->begin - memory) / PAGE * PAGE;
    size_t bytes = (a->end - first + PAGE - 1) / PAGE * PAGE;
    for (size_t page = (first - memory) / PAGE; page < (first + bytes - memory) / PAGE; page++) {
        free(pages[page].bytes);
        pages[page].bytes = nullptr;
    }
    madvise(first, bytes, MADV_DONTNEED);
    madvise(words + (first - memory) / 4, bytes / 4 * sizeof(Word), MADV_DONTNEED);
}

Allocation *allocation_at(const void *address) {
    size_t offset = (const char *)address - memory;
    return offset < ALL_BYTES ? pages[offset / PAGE].owner : nullptr;
}

static void split_words(size_t page) {
    pages[page].bytes = (Word *)malloc(PAGE * sizeof(Word));
    for (size_t i = 0; i < PAGE; i++) pages[page].bytes[i] = words[(page * PAGE + i) / 4];
}

// Calls f for each word of a GPU's memory.
template <class F> static inline void each_word(const char *at, size_t bytes, F f) {
    for (size_t i = at - memory, end = i + bytes; i < end;) {
        Page &page = pages[i / PAGE];
        if (bytes < 4 && !page.bytes) split_words(i / PAGE);
        f(page.bytes ? page.bytes[i % PAGE] : words[i / 4]);
        i += page.bytes ? 1 : 4 - i % 4;
    }
}

// ---- mistakes --------------------------------------------------------------------------------

void mistake(const char *hint, const char *format, ...) {
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    fflush(stdout);
    fprintf(stderr, "cudasim: error: %s\nhint: %s\n", message, hint);
    _exit(CUDASIM_STATUS); // no exit handlers: this may be the stack of a fiber
}

static const char *const verbs[] = {"reads", "writes", "updates"};

// "add, block (0,0,0), thread (3,0,0) reads 4 bytes (kernels/cuda/elementwise.cu:14)"
static const char *access_text(Access access, size_t bytes, void *pc) {
    static char text[512], source[256];
    __sanitizer_symbolize_pc((char *)pc - 1, " (%s:%l)", source, sizeof source);
    snprintf(text, sizeof text, "%s %s %zu bytes%s", where_in_grid(), verbs[access], bytes, source);
    return text;
}

// Where an address lies that is not inside of a living allocation.
static const char *place_text(const char *at) {
    static char text[256];
    const Allocation *a = allocation_at(at);
    if ((size_t)(at - memory) >= ALL_BYTES) return "in memory of the host";
    if (!a) return "far from any allocation";
    if (a->freed)
        snprintf(text, sizeof text, "in freed memory of GPU %d", a->gpu);
    else
        snprintf(text, sizeof text, "%td bytes %s the %td bytes of an allocation on GPU %d",
                 at < a->begin ? a->begin - at : at - a->end, at < a->begin ? "before" : "behind",
                 a->end - a->begin, a->gpu);
    return text;
}

// ---- accesses by kernels ---------------------------------------------------------------------

// Does the running thread know that this has happened before? `since` is when the launch began, or
// the block, for its shared memory.
static inline bool happened_before(uint64_t stamp, uint64_t since) {
    const Running &r = running;
    uint64_t tick = stamp / TICK;
    if (__builtin_expect(tick < since, true)) return true;
    if (stamp & BLOCKS || tick < r.block_began) return false;
    if (tick < r.block_met) return true;
    unsigned thread = stamp & THREAD, warp = r.thread / 32;
    if (stamp & WARPS || thread / 32 != warp) return false;
    return tick < r.warp_met[warp] || (thread == r.thread && !(stamp & LANES));
}

// What is to be remembered of a word that this thread reads after others, unordered.
static uint64_t read_together(uint64_t others) {
    uint64_t flags = others & (LANES | WARPS | BLOCKS);
    if (others / TICK < running.block_began) return flags | BLOCKS;
    return flags | ((others & THREAD) / 32 == running.thread / 32 ? LANES : WARPS);
}

[[noreturn]] static void race(uint64_t other, const char *done, Access access, size_t bytes,
                              void *pc) {
    bool blocks = other & BLOCKS || other / TICK < running.block_began;
    mistake(blocks ? "blocks run in any order and cannot wait for each other: use another kernel"
                   : "is a __syncthreads() missing? Threads run in any order between two",
            "%s what thread %d of %s block has %s", access_text(access, bytes, pc),
            (int)(other & THREAD), blocks ? "another" : "its", done);
}

static inline void touch(Word &word, Access access, uint64_t since, bool shared, size_t bytes,
                         void *pc) {
    if (access != WRITE && word.written < (shared ? since * TICK : 1))
        mistake(
            "contents of new memory, and of shared memory at the start of a block, are undefined",
            "%s of %s memory that nothing has written", access_text(access, bytes, pc),
            shared ? "shared" : "device");
    if (!happened_before(word.written, since) && !(access == ATOMIC && word.written & ATOMICALLY))
        race(word.written, "written", access, bytes, pc);
    uint64_t now = clock_now * TICK + running.thread;
    if (access == READ) {
        word.read = now | (happened_before(word.read, since) ? 0 : read_together(word.read));
        return;
    }
    if (!happened_before(word.read, since)) race(word.read, "read", access, bytes, pc);
    word.written = now | (access == ATOMIC ? (uint64_t)ATOMICALLY : 0);
}

// Shared memory: static variables, that is some of those between these two names, which the linker
// gives; and the dynamic part.
extern "C" char __data_start[], _end[];
constexpr size_t DYNAMIC_BYTES = 48 << 10; // of a launch that asks for no more
alignas(256) static char dynamic_shared[DYNAMIC_BYTES];

// The word's place in its array, or nullptr where it is no shared memory.
static Word *shared_words(const char *at, size_t bytes, void *pc, Access access) {
    static Word *const words_of_statics = (Word *)reserve((_end - __data_start) * sizeof(Word));
    size_t offset = at - __data_start, dynamic = at - dynamic_shared;
    if (dynamic < DYNAMIC_BYTES && dynamic + bytes > running.shared_bytes)
        mistake("an index is too large or negative", "%s behind the end of its shared memory",
                access_text(access, bytes, pc));
    return offset < (size_t)(_end - __data_start) ? &words_of_statics[offset / 4] : nullptr;
}

static void check_place(const char *at, size_t bytes, void *pc, Access access) {
    const Allocation *a = allocation_at(at);
    if (!a || a->freed || at < a->begin || at + bytes > a->end)
        mistake("an index is too large or negative, or the memory was freed too early", "%s %s",
                access_text(access, bytes, pc), place_text(at));
    if (a->gpu != running.gpu && !can_reach(running.gpu, a->gpu))
        mistake("cudaDeviceEnablePeerAccess() first, or copy", "%s of GPU %d from GPU %d",
                access_text(access, bytes, pc), a->gpu, running.gpu);
}

// Each access of a kernel, and of the host's code in a .cu file.
static inline void access_memory(const void *address, size_t bytes, Access access, void *pc) {
    const char *at = (const char *)address;
    if (!running.on) return __asan_loadN((uintptr_t)at, bytes);
    if ((size_t)(at - fiber_stacks) < STACK_BYTES * MAX_THREADS) return;
    if ((size_t)(at - memory) < ALL_BYTES) {
        check_place(at, bytes, pc, access);
        each_word(at, bytes,
                  [=](Word &word) { touch(word, access, running.launch_began, false, bytes, pc); });
        return;
    }
    Word *word = shared_words(at, bytes, pc, access);
    if (!word)
        mistake("is a pointer of the host among the kernel's arguments?", "%s %s",
                access_text(access, bytes, pc), place_text(at));
    for (size_t i = 0; i <= ((uintptr_t)at % 4 + bytes - 1) / 4; i++)
        touch(word[i], access, running.block_began, true, bytes, pc);
}

// ---- copies and cuBLAS -----------------------------------------------------------------------

void check_range(const char *what, int gpu, const void *address, size_t bytes, Access access) {
    const Allocation *a = allocation_at(address);
    const char *at = (const char *)address;
    if (bytes == 0) return;
    if (!a || a->freed || at < a->begin || at + bytes > a->end)
        mistake("a wrong size or pointer, or memory that was freed too early", "%s %s %zu bytes %s",
                what, verbs[access], bytes,
                place_text(a && !a->freed && at >= a->begin ? at + bytes : at));
    if (a->gpu != gpu)
        mistake("is another GPU the current one?", "%s on GPU %d %s memory of GPU %d", what, gpu,
                verbs[access], a->gpu);
    each_word(at, bytes, [=](Word &word) {
        if (access == WRITE)
            word.written = clock_now * TICK;
        else if (word.written == 0)
            mistake("contents of new memory are undefined",
                    "%s reads device memory that nothing has written", what);
    });
}

// memcpy() would be AddressSanitizer's, which knows that nobody may touch memory of a GPU.
__attribute__((optimize("O3,no-tree-loop-distribute-patterns"))) void
move_bytes(void *dst, const void *src, size_t bytes) {
    char *to = (char *)dst;
    const char *from = (const char *)src;
    if (!allocation_at(dst)) __asan_storeN((uintptr_t)dst, bytes);
    if (!allocation_at(src)) __asan_loadN((uintptr_t)src, bytes);
    for (size_t i = 0; i < bytes; i++) to[i] = from[i];
}

} // namespace cudasim

// ---- what the compiler calls -----------------------------------------------------------------

using namespace cudasim;

#define HOOK(name, access, bytes)                                                                  \
    extern "C" void name##bytes(void *at) {                                                        \
        access_memory(at, bytes, access, __builtin_return_address(0));                             \
    }
#define HOOKS(name, access)                                                                        \
    HOOK(name, access, 1)                                                                          \
    HOOK(name, access, 2) HOOK(name, access, 4) HOOK(name, access, 8) HOOK(name, access, 16)
HOOKS(__tsan_read, READ)
HOOKS(__tsan_write, WRITE)
HOOKS(__tsan_unaligned_read, READ)
HOOKS(__tsan_unaligned_write, WRITE)
extern "C" void __tsan_read_range(void *at, size_t bytes) {
    access_memory(at, bytes, READ, __builtin_return_address(0));
}
extern "C" void __tsan_write_range(void *at, size_t bytes) {
    access_memory(at, bytes, WRITE, __builtin_return_address(0));
}
extern "C" void __tsan_vptr_update(void *, void *) {}
extern "C" void __tsan_init(void) {}
extern "C" void __tsan_func_entry(void *) {}
extern "C" void __tsan_func_exit(void *) {}

void cudasim_atomic(void *at, size_t bytes) {
    access_memory(at, bytes, ATOMIC, __builtin_return_address(0));
}
void *cudasim_dynamic_shared(void) { return dynamic_shared; }
