// device.h: a device is a place to compute, with its own memory and in-order queues of work.
//
// To get a device, call try_gpu(i). To get memory on it, call device_alloc(), or tensor_new()
// (tensor.h). To let it compute, call launch(), or the operations of functional.h. Only a device's
// own kernels may use its memory; anything else must copy it with device_copy(). The host must call
// synchronize() before it reads what was copied to it. It need not wait at any other time.
//
// Kinds behind one interface: `cuda:i` is a GPU (its queue is a CUDA stream); `cpu:i` is a worker
// thread that stands in for a GPU where there is none; `model:i` computes nothing (see
// BACKEND_MODEL). The host program only enqueues: launch(), device_copy() and device_wait() return
// at once, and the devices run side by side. The names `try_gpu` and `try_all_gpus` are from the
// book, "Automatic Parallelism" and "Multiple GPUs".
//
// How many devices a program uses has nothing to do with the hardware. Devices beyond the number of
// GPUs are further logical devices on the same GPUs (own stream, own memory; `cuda:0#1` is the
// second one on GPU 0); without a GPU they are CPU workers that share the cores.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "common/base/platform.h"
#include "ledger.h"
#include "queue.h"

enum {
    MAX_DEVICES = 1024, // in a program with --backend model,
    MAX_COMPUTING = 64, // and in any other
};

// ---- which devices there are -----------------------------------------------------------------

typedef enum {
    BACKEND_AUTO,
    BACKEND_CPU,
    BACKEND_CUDA,
    BACKEND_INLINE,
    BACKEND_MODEL
} BackendChoice;

// Chooses the kind of the devices that try_gpu() will open and how many cores the CPU devices share
// (0: all that this process may use). Call it before the first device is opened; without it the
// choice is BACKEND_AUTO: GPUs where there are any, else CPU workers (one line on stderr says so in
// a program that was built with CUDA). BACKEND_CUDA without a GPU ends the program with an error.
// BACKEND_INLINE: CPU devices without a worker thread. They do each piece of work at once, in the
// host's thread, so a debugger shows the call that enqueued it on the stack. Values and ledger are
// the same as with BACKEND_CPU. But a forgotten device_wait() goes unnoticed, because everything
// happens in the order of the program. BACKEND_MODEL: devices that compute nothing and have no
// values, but report how long the work would take (modelled_clock.h).
void devices_init(BackendChoice choice, int threads);

// Whether the matrix products of GPUs that are opened from now on may keep only 10 bits of each
// factor (TF32, on tensor cores), like torch.backends.cuda.matmul.allow_tf32. Off by default,
// because a GPU's results would then not agree with a CPU's.
void allow_tf32(bool allowed);

// The number of GPUs that devices are opened on; 0 when devices are CPU workers.
int num_gpus(void);

// Device i of 0..MAX_COMPUTING-1 (without values: MAX_DEVICES-1; die()s at more), opened on first
// use and kept: GPU i if there is one, otherwise a logical device or a CPU worker (see the top of
// this file).
Device *try_gpu(int i);

// Opens every GPU, or cpu:0 if there is none. Returns how many were put into `devices`.
int try_all_gpus(Device *devices[MAX_DEVICES]);

// devices[i] = try_gpu(i) for i = 0..k-1, with share_cores().
void open_devices(Device *devices[], int k);

// Prints a line on stderr if the kernels use fewer of the CPU's instructions than it has
// (BOOK_ISA=v1 in the environment), or if products are much slower than its clock rate suggests.
void warn_if_cpu_is_slow(void);

// CPU device i even where there are GPUs.
Device *cpu_device(int i);

// Whether its memory holds values. If not (model_device() in modelled_clock.h), copies from it
// arrive as NaN.
bool has_values(const Device *device);

// The host: where the program itself runs and the data set lives. It has memory, no queue.
Device *host(void);

// "cuda:0", "cpu:1", "host"
const char *device_name(const Device *device);
// Everything about the device on which the last digits of results depend: "CPU with AVX2
// (BOOK_ISA=v3)", "NVIDIA H100 with TF32". free() it. Not for devices without values, nor for the
// host.
char *device_kind(const Device *device);

// CUDA's number of the GPU that the device is on, for libraries that ask for it; -1 if on none.
int device_gpu(const Device *device);

// A unique number for each device, 0..NUM_DEVICE_IDS-1, to index arrays with. Device i of try_gpu()
// has number i; after them come CPU devices beside GPUs, model devices beside others, and the host.
enum { NUM_DEVICE_IDS = 2 * MAX_DEVICES + MAX_COMPUTING + 1 };
int device_id(const Device *device);

// "[cpu:0, cpu:1]", as the book prints a list of devices. If there are more than 16, it has the
// first three and the last. The next call overwrites the text.
const char *device_names(Device *const devices[], int k);

// Divides the cores among the CPU devices of a group: each gets T/k, the first T%k get one more,
// and none gets less than one. If there is then exactly one thread per core, each thread is pinned
// to its own core. GPUs are left as they are.
void share_cores(Device *const devices[], int k);

// From now on share_cores() gives each CPU device this many cores (--threads-per-device), however
// many exist. Then two devices have twice the cores of one, as two GPUs do. 0 makes them share
// again.
void set_threads_per_device(int threads);

// Gives one CPU device this many cores, whatever the others have. Its threads may run on any core.
// A GPU is left as it is.
void device_set_threads(Device *device, int threads);

// Makes a CPU device `times` (1 or more) times slower: after each kernel its worker sleeps (times -
// 1) times as long as the kernel took, and leaves its cores to others meanwhile. Copies stay as
// fast as they are. 1 makes it as fast as before. On the modelled clock, the kernels of a CPU
// device or a model device take `times` times as long. Not for GPUs. (For exercise 05-2: machines
// with devices of different speed are rare.)
void device_set_slowdown(Device *device, double times);

// Call it first in a child process (try_in_child()), where the parent's workers and GPUs do not
// exist: the child has only devices without values. It must neither use nor free memory on the
// parent's devices, so the parent calls autograd_close() before it forks. The child has its own
// copy of host memory.
void devices_after_fork(void);

// ---- memory ----------------------------------------------------------------------------------

// What an allocation is used for.
typedef enum MemoryUse {
    MEMORY_ALL,                  // all of the following
    MEMORY_OTHER,                // tensors: minibatches, running statistics, an optimizer's state
    MEMORY_PARAMETERS,           // tensors that have a gradient, see attach_grad()
    MEMORY_GRADIENTS,            // their gradients
    MEMORY_ACTIVATIONS,          // see arena.h
    MEMORY_ACTIVATION_GRADIENTS, // on loan from arenas
    MEMORY_KERNELS,              // what kernels and cuBLAS take for themselves on a GPU
    MEMORY_USES
} MemoryUse;

// Memory of this device, 64-byte aligned (256 on a GPU), contents undefined. Zero bytes give NULL.
// If there is not enough, the program ends with an error that lists what uses the memory.
// device_alloc() is for MEMORY_OTHER.
void *device_alloc(Device *device, size_t bytes);
void *device_alloc_for(Device *device, size_t bytes, MemoryUse use);
// Waits for all that uses the memory, then frees it. It must be memory of this device.
void device_free(Device *device, void *memory);
// Frees the memory in the order of the device's compute queue, without waiting, as cudaFreeAsync()
// does: what is enqueued there before may use it, and what is enqueued later may have its bytes. It
// stops counting now. (If other queues use the memory, the compute queue first waits for them.)
void device_free_in_order(Device *device, void *memory);
// Changes the use of the allocation that contains `address` from MEMORY_OTHER to `use`. (Any other
// use is kept.) Peaks are corrected as if it had been allocated for that use, unless something has
// since been freed on the device.
void device_memory_is_for(Device *device, const void *address, MemoryUse use);

// Bytes allocated on the device now, and at the peak.
uint64_t device_bytes(const Device *device);
uint64_t device_peak_bytes(const Device *device);
// Those for one use. Each use has a peak of its own, at a time of its own.
uint64_t device_bytes_of(const Device *device, MemoryUse use);
uint64_t device_peak_bytes_of(const Device *device, MemoryUse use);
// From now on peaks are those since now. torch.cuda.reset_peak_memory_stats
void device_reset_peaks(Device *device);

// Limits each device to this many bytes (INFINITY, the default: no limit). MEMORY_KERNELS do not
// count, so that whether a program fits does not depend on the kind of device. A model device is
// also limited to what its machine has. The host is not limited. Returns the limit before.
double devices_limit_memory(double bytes);
// What the error advises if memory runs out because of that limit. NULL (the default): a smaller
// minibatch, more devices or more memory. The text must live until then.
void devices_advise(const char *hint);

// Whether everything that was allocated when the stamp was made, the kernels' own memory included,
// is still allocated. A graph contains addresses and must not be launched once any of that memory
// has been freed.
typedef struct MemoryStamp {
    uint64_t allocations, there, scratch_frees;
} MemoryStamp;
MemoryStamp memory_stamp(void);
bool memory_still_there(MemoryStamp stamp);

// ---- work ------------------------------------------------------------------------------------

// launch(device, fill, .x = x, .value = 0, .n = n): puts the kernel and a copy of its arguments on
// the device's current queue: see current_queue(). (A queue of your choice: launch_on(), queue.h.)
#define launch(device, kernel, ...) launch_on(current_queue(device), kernel, __VA_ARGS__)

// Copies between any two devices, the host included. Starts after all work that is now on either
// one's current queue, and later work of either starts after it; so neither side can overwrite what
// is being copied. Between GPUs it goes peer to peer if a test pattern arrived intact when the
// queues were opened, else through the host. `dst` and `src` may be on the same device; they must
// not overlap. A copy between a GPU and a CPU device makes the host wait; all others return at
// once. What crosses between two devices is entered in the ledger.
void device_copy(Device *to, void *dst, Device *from, const void *src, size_t bytes);

// device_record() marks a point in the device's current queue; device_wait() makes that queue wait
// for one.
Event device_record(Device *device);
void device_wait(Device *device, Event event);

// A copy between two devices that is ordered by hand: on the current queue of `to`, after `ready`
// (a point in a queue of the device that src is on, at which src is complete). Returns the point at
// which the copy is done; until then the caller must keep src from being overwritten, with
// device_wait(from, ...). Use it where many copies run side by side, as in a ring: device_copy()
// would make each wait for its neighbours'. Enters the ledger like any copy.
Event device_copy_after(Event ready, Device *to, void *dst, const void *src, size_t bytes);

// The host waits until the device's queues are empty.
void synchronize(Device *device);
void synchronize_all(void);
// The device's compute queue waits until all other queues have finished with the allocation that
// contains this address. After that, the memory may be reused.
void wait_for_users(Device *device, const void *memory);
// The host waits until all copies out of host memory are done.
void synchronize_host_reads(void);

// Ends all workers and frees all devices. For tests; a program may simply end.
void devices_close(void);
// Registers a function that devices_close() calls while all devices still exist, in reverse order
// of registration: for modules that keep memory on devices between calls (arena.c, autograd.c,
// step_graph.c). Registering a function twice has no effect; it stays registered until the program
// ends.
void before_devices_close(void (*close)(void));
