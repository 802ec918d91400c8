// memory.cpp: the memory of simulated GPUs, and what is known of each word of it.
//
// The .cu files are compiled with -fsanitize=thread, but ThreadSanitizer is not linked: what the
// compiler calls before each access to memory, __tsan_read4() and so on, is defined here. So every
// access of a kernel is checked, and copies and cuBLAS are too: is it inside an allocation, can
// this GPU reach it, has somebody written what is read, and does anybody else touch the same word
// with nothing that puts the two in order?
#include "simulator.h"

#include <cstdarg>
#include <cstdio>
#include <deque>
#include <string>
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
constexpr size_t PAGE = 4096, PART = (size_t)16 << 30, ALL_BYTES = (HOST + 1) * PART;

// When a word (4 bytes) was last written and read; 0: never. A time, then which thread of the block
// it was; of several that came without an order, the last, and how far the others were.
struct Word {
    uint64_t written, read;
};
enum : uint64_t {
    THREAD = 1023,
    LANES = 1 << 10,   // also other threads of this warp,
    WARPS = 1 << 11,   // of another warp of this block,
    BLOCKS = 1 << 12,  // of another block,
    STREAMS = 1 << 13, // of another stream
    TICK = 1 << 14,
    COMING = 1 // instead of when it was written: a copy has begun to write it
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
static size_t used[HOST + 1]; // bytes, whole pages
static std::deque<Allocation> allocations;

Allocation *allocate(int gpu, size_t bytes) {
    // CUDA promises 256 bytes of alignment and no more.
    size_t begin = used[gpu] + 256 * (1 + random_choice() % 8);
    size_t end = (begin + bytes + PAGE - 1) / PAGE * PAGE;
    if (bytes > PART || end + PAGE > PART) return nullptr;
    char *part = memory + gpu * PART;
    allocations.push_back({part + begin, part + begin + bytes, gpu, false});
    for (size_t page = used[gpu]; page < end; page += PAGE)
        pages[(gpu * PART + page) / PAGE].owner = &allocations.back();
    let_host_touch(part + used[gpu], end - used[gpu], false);
    if (gpu == HOST) let_host_touch(part + begin, bytes, true);
    used[gpu] = end + PAGE; // one that is nobody's
    live++;
    return &allocations.back();
}

void let_host_touch(const void *begin, size_t bytes, bool may) {
    (may ? __asan_unpoison_memory_region : __asan_poison_memory_region)(begin, bytes);
}

void release(Allocation *a) {
    size_t first = (a->begin - memory) / PAGE * PAGE, end = a->end - memory;
    size_t bytes = (end - first + PAGE - 1) / PAGE * PAGE;
    a->freed = true;
    live--;
    let_host_touch(a->begin, a->end - a->begin, false);
    madvise(memory + first, bytes, MADV_DONTNEED);
    madvise(words + first / 4, bytes / 4 * sizeof(Word), MADV_DONTNEED);
}

Allocation *allocation_at(const void *address) {
    size_t offset = (const char *)address - memory;
    return offset < ALL_BYTES ? pages[offset / PAGE].owner : nullptr;
}

static void split_words(size_t page) {
    pages[page].bytes = (Word *)reserve(PAGE * sizeof(Word));
    for (size_t i = 0; i < PAGE; i++) pages[page].bytes[i] = words[(page * PAGE + i) / 4];
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

struct Access {
    Verb verb;
    const char *at;
    size_t bytes;
    void *pc; // of a kernel's instruction
};

// "kernel add, block (0,0,0), thread (3,0,0) reads 4 bytes (kernels/cuda/elementwise.cu:14)"
static const char *text_of(const Access &access) {
    static const char *const verbs[] = {"reads", "writes", "begins to write"};
    static char text[512], source[256];
    if (access.pc)
        __sanitizer_symbolize_pc((char *)access.pc - 1, " (%s:%l)", source, sizeof source);
    snprintf(text, sizeof text, "%s %s %zu bytes%s",
             running.kernel ? where_in_grid() : all_work.back().what, verbs[access.verb],
             access.bytes, source);
    return text;
}

static std::string name_of(int gpu) {
    return gpu == HOST ? "the host" : "GPU " + std::to_string(gpu);
}

// Where an address lies that is not inside of a living allocation.
static std::string place_of(const char *at) {
    using std::to_string;
    const Allocation *a = allocation_at(at);
    // (Pinned memory is for copies; to kernels it is the host's.)
    if ((size_t)(at - memory) >= (running.kernel ? HOST * PART : ALL_BYTES))
        return "in memory of the host";
    if (!a) return "far from any allocation";
    if (a->freed) return "in freed memory of " + name_of(a->gpu);
    return (at < a->begin ? to_string(a->begin - at) + " bytes before"
                          : to_string(at - a->end) + " bytes behind") +
           " the " + to_string(a->end - a->begin) + " bytes of an allocation on " + name_of(a->gpu);
}

// ---- who knows of what -----------------------------------------------------------------------

// Does the running thread come after this by the rules? (In shared memory, what other blocks and
// other work have left does not count.)
static inline bool happened_before(uint64_t stamp, bool shared) {
    const Running &r = running;
    uint64_t time = stamp / TICK, work = time / WORK_TICKS;
    if (__builtin_expect(time < r.all_known_until, true)) return true;
    if (time < r.work_began) return shared || r.known[all_work[work].stream] >= work;
    if (shared && time < r.block_began) return true;
    if (stamp & (BLOCKS | STREAMS) || time < r.block_began) return false;
    if (time < r.block_met) return true;
    unsigned thread = stamp & THREAD, warp = r.thread / 32;
    if (stamp & WARPS || thread / 32 != warp) return false;
    return time < r.warp_met[warp] || (thread == r.thread && !(stamp & LANES));
}

// What this thread leaves in place of what others left: now, and how far they were if they came
// without an order.
static inline uint64_t stamp_after(uint64_t others, bool shared) {
    uint64_t now = clock_now * TICK + running.thread;
    if (happened_before(others, shared)) return now;
    now |= others & (LANES | WARPS | BLOCKS | STREAMS);
    if (others / TICK < running.work_began) return now | STREAMS;
    if (others / TICK < running.block_began) return now | BLOCKS;
    return now | ((others & THREAD) / 32 == running.thread / 32 ? LANES : WARPS);
}

[[noreturn]] static void race(uint64_t other, const char *done, const Access &access) {
    uint64_t time = other / TICK;
    if (other & STREAMS || time < running.work_began)
        mistake("is an event missing, or a synchronisation? Streams do not wait for each other",
                "%s what %s in another stream has %s", text_of(access),
                time < running.work_began ? all_work[time / WORK_TICKS].what : "work", done);
    bool blocks = other & BLOCKS || time < running.block_began;
    mistake(blocks ? "blocks run in any order and cannot wait for each other: use another kernel"
                   : "is a __syncthreads() missing? Threads run in any order between two",
            "%s what thread %d of %s block has %s", text_of(access), (int)(other & THREAD),
            blocks ? "another" : "its", done);
}

__attribute__((always_inline)) static inline void touch(Word &word, const Access &access,
                                                        bool shared) {
    bool written = word.written >= (shared ? running.block_began * TICK : 1);
    bool reads = access.verb == READ;
    if (word.written == COMING && reads)
        mistake("is a copies_wait() missing? And other threads need a barrier after it",
                "%s of shared memory that a copy has yet to write", text_of(access));
    if (!written && reads && running.gpu != HOST) // where the host writes unseen
        mistake("new memory, and shared memory at the start of a block, hold anything",
                "%s of %s memory that nothing has written", text_of(access),
                shared ? "shared" : "device");
    if (!happened_before(word.written, shared)) race(word.written, "written", access);
    if (reads) {
        word.read = stamp_after(word.read, shared);
        return;
    }
    if (!happened_before(word.read, shared)) race(word.read, "read", access);
    word.written = access.verb == BEGIN ? COMING : clock_now * TICK + running.thread;
}

// ---- accesses --------------------------------------------------------------------------------

// To memory that cudaMalloc() or cudaHostAlloc() gave. Other GPUs' can be reached if `peers`.
__attribute__((always_inline)) static inline void touch_device(const Access &access, bool peers) {
    const Allocation *a = allocation_at(access.at);
    const char *at = access.at, *end = at + access.bytes;
    if (!a || a->freed || at < a->begin || end > a->end)
        mistake("is an index or a size wrong, or was the memory freed too early?", "%s %s",
                text_of(access), place_of(a && at >= a->begin && at < a->end ? end : at).c_str());
    if (a->gpu != running.gpu && !(peers && can_reach(running.gpu, a->gpu)))
        mistake("cudaDeviceEnablePeerAccess() first, or copy; or is another GPU the current one?",
                "%s of %s from %s", text_of(access), name_of(a->gpu).c_str(),
                name_of(running.gpu).c_str());
    for (size_t i = at - memory; i < (size_t)(end - memory);) {
        Page &page = pages[i / PAGE];
        if (access.bytes < 4 && !page.bytes) split_words(i / PAGE);
        touch(page.bytes ? page.bytes[i % PAGE] : words[i / 4], access, false);
        i += page.bytes ? 1 : 4 - i % 4;
    }
}

// Shared memory: static variables, that is some of those between these two names, which the linker
// gives; and the dynamic part.
extern "C" char __data_start[], _end[];
alignas(256) static char dynamic_shared[MOST_SHARED_BYTES];

static void touch_shared(const Access &access) {
    static Word *const of_statics = (Word *)reserve((_end - __data_start) * sizeof(Word));
    size_t offset = access.at - __data_start, dynamic = access.at - dynamic_shared;
    if (dynamic < MOST_SHARED_BYTES && dynamic + access.bytes > running.shared_bytes)
        mistake("an index is too large or negative", "%s behind the end of its shared memory",
                text_of(access));
    if (offset >= (size_t)(_end - __data_start))
        mistake("is a pointer of the host among the kernel's arguments?", "%s %s", text_of(access),
                place_of(access.at).c_str());
    for (size_t i = offset / 4; i <= (offset + access.bytes - 1) / 4; i++)
        touch(of_statics[i], access, true);
}

void begin_copy(void *to, const void *from, size_t bytes, void *place) {
    Access access = {BEGIN, (const char *)to, bytes, place};
    if (((uintptr_t)to | (uintptr_t)from) % bytes != 0)
        mistake("both addresses must be multiples of what a copy_async() copies",
                "%s, and not at multiples of %zu", text_of(access), bytes);
    touch_shared(access);
}

void end_copy(void *to, const void *from, size_t bytes, void *place) {
    if (from) touch_device({READ, (const char *)from, bytes, place}, true);
    touch_shared({WRITE, (const char *)to, bytes, place});
    for (size_t i = 0; i < bytes / 4; i++) // no memcpy(): see move_bytes()
        ((volatile uint32_t *)to)[i] = from ? ((const uint32_t *)from)[i] : 0;
}

// Each access of a kernel, and of the host's code in a .cu file.
static inline void access_memory(const Access &access) {
    if (!running.kernel) return __asan_loadN((uintptr_t)access.at, access.bytes);
    if ((size_t)(access.at - fiber_stacks) < STACK_BYTES * MAX_THREADS) return;
    if ((size_t)(access.at - memory) < HOST * PART)
        touch_device(access, true);
    else
        touch_shared(access);
}

void check_range(const char *what, int gpu, const void *address, size_t bytes, Verb verb) {
    running.gpu = gpu;
    all_work.back().what = what;
    if (bytes > 0) touch_device({verb, (const char *)address, bytes, nullptr}, false);
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

#define HOOK(name, verb, bytes)                                                                    \
    extern "C" void __tsan_##name##bytes(void *at) {                                               \
        access_memory({verb, (const char *)at, bytes, __builtin_return_address(0)});               \
    }
#define HOOKS(bytes)                                                                               \
    HOOK(read, READ, bytes)                                                                        \
    HOOK(write, WRITE, bytes)                                                                      \
    HOOK(unaligned_read, READ, bytes)                                                              \
    HOOK(unaligned_write, WRITE, bytes)
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
extern "C" void __tsan_read_range(void *at, size_t bytes) {
    access_memory({READ, (const char *)at, bytes, __builtin_return_address(0)});
}
extern "C" void __tsan_write_range(void *at, size_t bytes) {
    access_memory({WRITE, (const char *)at, bytes, __builtin_return_address(0)});
}
extern "C" void __tsan_init(void) {}
extern "C" void __tsan_func_entry(void *) {}
extern "C" void __tsan_func_exit(void *) {}

void *cudasim_dynamic_shared(void) { return dynamic_shared; }
