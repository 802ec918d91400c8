// device.h: a device is a place to compute, with memory of its own and in-order queues of work.
//
// To get a device, call try_gpu(i); memory of it, device_alloc(), or tensor_new() of tensor.h. To
// let it compute, call launch(), or the operations of functional.h. Memory of a device is for its
// own kernels: all others get it by device_copy(). Before the host looks at what was copied to it,
// it calls synchronize(); more often it need not wait.
//
// Two kinds behind one interface: `cuda:i` is a GPU (its queue is a CUDA stream); `cpu:i` is a
// worker thread that stands in for a GPU where there is none. The host program only enqueues:
// launch(), device_copy() and device_wait() return at once, and the devices run side by side. Book:
// "Automatic Parallelism" and "Multiple GPUs", where `try_gpu` and `try_all_gpus` have their names.
//
// How many devices a program uses has nothing to do with the hardware. Devices beyond the number of
// GPUs are further logical devices on the same GPUs (own stream, own memory; `cuda:0#1` is the
// second one on GPU 0); without a GPU they are CPU workers that share the cores.
#ifndef DEVICE_H
#define DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "common/base/platform.h"
#include "ledger.h"
#include "queue.h"

enum {
    MAX_DEVICES = 1024, // of a program, where they compute nothing (--backend model),
    MAX_COMPUTING = 64, // and where they compute
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
// (0: all that this process may use). To be called before the first device is opened; without it
// the choice is BACKEND_AUTO: GPUs where there are any, else CPU workers (one line on stderr says
// so in a program that was built with CUDA). BACKEND_CUDA without a GPU ends the program with an
// error. BACKEND_INLINE: CPU devices without a worker, which do in the host's thread what they are
// given, at once: in a debugger the call that made the work is on the stack. Values and ledger are
// those of BACKEND_CPU; but a device_wait() that was forgotten cannot show, as everything happens
// in the order of the program. BACKEND_MODEL: devices that compute nothing and have no values, but
// tell how long it would take (modelled_clock.h).
void devices_init(BackendChoice choice, int threads);

// Whether the matrix products of GPUs that are opened from now on may keep only 10 bits of each
// factor (TF32, on tensor cores), as torch.backends.cuda.matmul.allow_tf32. At first: no; then a
// GPU would not agree with a CPU.
void allow_tf32(bool allowed);

// The number of GPUs that devices are opened on; 0 when devices are CPU workers.
int num_gpus(void);

// Device i of 0..MAX_COMPUTING-1 (without values: MAX_DEVICES-1; die()s at more), opened on first
// use and kept: GPU i if there is one, else as the head of this file says.
Device *try_gpu(int i);

// Opens every GPU, or cpu:0 if there is none. Returns how many were put into `devices`.
int try_all_gpus(Device *devices[MAX_DEVICES]);

// devices[i] = try_gpu(i) for i = 0..k-1, with share_cores().
void open_devices(Device *devices[], int k);

// A line on stderr if the kernels use fewer of the CPU's instructions than it has (BOOK_ISA=v1 in
// the environment), or if products are much slower than the CPU's clock lets expect.
void warn_if_cpu_is_slow(void);

// CPU device i even where there are GPUs.
Device *cpu_device(int i);

// Whether there are values in its memory; if not (model_device() in modelled_clock.h), what is
// copied from it arrives as NaN.
bool has_values(const Device *device);

// The host: where the program itself runs and the data set lives. It has memory, no queue.
Device *host(void);

// "cuda:0", "cpu:1", "host"
const char *device_name(const Device *device);
// What the last digits of its results depend on: "CPU with AVX2 (BOOK_ISA=v3)", "NVIDIA H100 with
// TF32". free() it. Not for devices without values, nor for the host.
char *device_kind(const Device *device);

// Which GPU it is on, by CUDA's number, for libraries that ask for that; -1: on none.
int device_gpu(const Device *device);

// A number of its own for each device, 0..NUM_DEVICE_IDS-1, to index arrays with: try_gpu(i) has i,
// then come CPU devices beside GPUs, model devices beside others, and the host.
enum { NUM_DEVICE_IDS = 2 * MAX_DEVICES + MAX_COMPUTING + 1 };
int device_id(const Device *device);

// "[cpu:0, cpu:1]", as the book prints a list of devices (of more than 16, the first three and the
// last). The text is replaced by the next call.
const char *device_names(Device *const devices[], int k);

// Divides the cores among the CPU devices of a group: T/k each, the first T%k one more, none below
// one. If that makes a thread for each core that is there, each stays on one of its own. GPUs are
// left as they are.
void share_cores(Device *const devices[], int k);

// From now on share_cores() gives each CPU device so many cores (of --threads-per-device), however
// many there are. So two devices can have twice the cores of one, as two GPUs are twice a GPU. 0:
// they share them again.
void set_threads_per_device(int threads);

// So many cores for one CPU device, whatever the others have; its threads may run on any. A GPU is
// left as it is.
void device_set_threads(Device *device, int threads);

// Makes a CPU device `times` (1 or more) times slower: after each kernel its worker sleeps (times -
// 1) times as long as the kernel took, and leaves its cores to others meanwhile. Copies stay as
// fast as they are. 1 makes it as fast as before. On the modelled clock, the kernels of a CPU
// device or a model device take so many times as long. Not for GPUs. (For exercise 05-2: machines
// with devices of different speed are rare.)
void device_set_slowdown(Device *device, double times);

// To be called first in a child process (try_in_child()), where the parent's workers and GPUs are
// not there: the child has only devices without values. It must neither use nor free what is on the
// others, so the parent calls autograd_close() before. Host memory is the program's own there.
void devices_after_fork(void);

// ---- memory ----------------------------------------------------------------------------------

// What memory is for.
typedef enum MemoryUse {
    MEMORY_ALL,                  // all of the following
    MEMORY_OTHER,                // tensors: minibatches, running statistics, an optimizer's state
    MEMORY_PARAMETERS,           // tensors that have a gradient, see attach_grad()
    MEMORY_GRADIENTS,            // theirs
    MEMORY_ACTIVATIONS,          // see arena.h
    MEMORY_ACTIVATION_GRADIENTS, // on loan there
    MEMORY_KERNELS,              // what kernels and cuBLAS take for themselves on a GPU
    MEMORY_USES
} MemoryUse;

// Memory of this device, 64-byte aligned (256 on a GPU), contents undefined. Zero bytes give NULL.
// When there is none left, an error says what has it, and ends the program. device_alloc() is for
// MEMORY_OTHER.
void *device_alloc(Device *device, size_t bytes);
void *device_alloc_for(Device *device, size_t bytes, MemoryUse use);
// Waits for all that uses it, then frees. It must be memory of this device.
void device_free(Device *device, void *memory);
// What an address is in was allocated as MEMORY_OTHER, and is now known to be for this. (If it was
// for something else, that stays.) Peaks are then as if it had been known from the start, unless
// something was freed on the device since.
void device_memory_is_for(Device *device, const void *address, MemoryUse use);

// Bytes now allocated on the device, and the most there ever were.
uint64_t device_bytes(const Device *device);
uint64_t device_peak_bytes(const Device *device);
// Those for one use. Each use has a peak of its own, at a time of its own.
uint64_t device_bytes_of(const Device *device, MemoryUse use);
uint64_t device_peak_bytes_of(const Device *device, MemoryUse use);

// From now on device_alloc() gives each device no more than so many bytes (INFINITY, as at first:
// what there is). MEMORY_KERNELS do not count, so a program fits on devices of all kinds or on
// none. A model device has no more than its machine, either. The host is not limited.
void devices_limit_memory(double bytes);

// Whether all memory that devices had when the stamp was made, kernels' own included, is still
// there. A graph has addresses in it, and must not be launched when some of them are gone.
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
// is being copied. Between GPUs it goes peer to peer where a test pattern arrived intact, else
// through the host. `dst` and `src` may be on the same device; they must not overlap. A copy
// between a GPU and a CPU device makes the host wait; all others return at once. Every byte is
// entered in the ledger.
void device_copy(Device *to, void *dst, Device *from, const void *src, size_t bytes);

// A point in the device's current queue, and that queue's waiting for one.
Event device_record(Device *device);
void device_wait(Device *device, Event event);

// A copy between two devices that is ordered by hand: on the current queue of `to`, after `ready`
// (a point in a queue of the device that src is on, at which src is complete). Returns the point at
// which the copy is done; until then src must not be overwritten, which the caller sees to with
// device_wait(from, ...). For many copies side by side, as in a ring, where device_copy() would
// make each wait for its neighbours. Enters the ledger like any copy.
Event device_copy_after(Event ready, Device *to, void *dst, const void *src, size_t bytes);

// The host waits until the device's queues are empty.
void synchronize(Device *device);
void synchronize_all(void);
// The device's compute queue waits until all other queues have done what they were given to do with
// the allocation that this address is in; then the memory may be used for something else.
void wait_for_users(Device *device, const void *memory);
// The host waits until no copy out of host memory is under way.
void synchronize_host_reads(void);

// Ends all workers and frees all devices. For tests; a program may simply end.
void devices_close(void);
// Called by devices_close() while all devices are still there, the last one registered first: for
// what keeps memory on devices of its own accord (arena.c, autograd.c, step_graph.c). Each is kept
// once, until the program ends.
void before_devices_close(void (*close)(void));

#endif
