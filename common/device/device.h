// device.h: a device is a place to compute, with memory of its own and an in-order queue of work.
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
#include "common/base/cores.h"
#include "kernels/kernels.h"

enum { MAX_DEVICES = 64 };

typedef struct Device Device;

// ---- which devices there are -----------------------------------------------------------------

typedef enum { BACKEND_AUTO, BACKEND_CPU, BACKEND_CUDA } BackendChoice;

// Chooses the kind of the devices that try_gpu() will open and how many cores the CPU devices share
// (0: all that this process may use). To be called before the first device is opened; without it
// the choice is BACKEND_AUTO: GPUs where there are any, else CPU workers (one line on stderr says
// so in a program that was built with CUDA). BACKEND_CUDA without a GPU ends the program with an
// error.
void devices_init(BackendChoice choice, int threads);

// Whether the matrix products of GPUs that are opened from now on may keep only 10 bits of each
// factor (TF32, on tensor cores), as torch.backends.cuda.matmul.allow_tf32. At first: no; then a
// GPU would not agree with a CPU.
void allow_tf32(bool allowed);

// The number of GPUs that devices are opened on; 0 when devices are CPU workers.
int num_gpus(void);

// Device i of 0..MAX_DEVICES-1, opened on first use and kept: GPU i if there is one, else as the
// head of this file says.
Device *try_gpu(int i);

// Opens every GPU, or cpu:0 if there is none. Returns how many were put into `devices`.
int try_all_gpus(Device *devices[MAX_DEVICES]);

// devices[i] = try_gpu(i) for i = 0..k-1, with share_cores().
void open_devices(Device *devices[], int k);

// CPU device i even where there are GPUs.
Device *cpu_device(int i);

// The host: where the program itself runs and the data set lives. It has memory, no queue.
Device *host(void);

// "cuda:0", "cpu:1", "host"
const char *device_name(const Device *device);

// A number of its own for each device, 0..NUM_DEVICE_IDS-1, to index arrays with: try_gpu(i) has i,
// then come CPU devices beside GPUs, then the host.
enum { NUM_DEVICE_IDS = 2 * MAX_DEVICES + 1 };
int device_id(const Device *device);

// "[cpu:0, cpu:1]", as the book prints a list of devices. The text is replaced by the next call.
const char *device_names(Device *const devices[], int k);

// Divides the cores among the CPU devices of a group: T/k each, the first T%k one more, none below
// one. GPUs are left as they are.
void share_cores(Device *const devices[], int k);

// So many cores for one CPU device, whatever the others have. A GPU is left as it is.
void device_set_threads(Device *device, int threads);

// Makes a CPU device `times` (1 or more) times slower: after each kernel its worker sleeps (times -
// 1) times as long as the kernel took. Copies stay as fast as they are. Exists because machines
// with devices of different speed are rare, while what to do about them is worth trying out
// (exercise 05-2); sleeping, the device leaves its cores to the others. 1 is the end of that. Not
// for GPUs.
void device_set_slowdown(Device *device, double times);

// ---- memory ----------------------------------------------------------------------------------

// Memory of this device, 64-byte aligned (256 on a GPU), contents undefined. Ends the program when
// there is none left. Zero bytes give NULL.
void *device_alloc(Device *device, size_t bytes);
// Waits for the device's queue, then frees.
void device_free(Device *device, void *memory);

// Bytes now allocated on the device, and the most there ever were.
size_t device_bytes(const Device *device);
size_t device_peak_bytes(const Device *device);

// ---- work ------------------------------------------------------------------------------------

// launch(device, fill, .x = x, .value = 0, .n = n): puts the kernel and a copy of its arguments on
// the device's queue.
#define launch(device, kernel, ...)                                                                \
    device_launch((device), KERNEL_##kernel, &(struct kernel##_args){__VA_ARGS__},                 \
                  sizeof(struct kernel##_args))
void device_launch(Device *device, KernelId kernel, const void *args, size_t size);

// Copies between any two devices, the host included. Starts after all work that is now on either
// queue, and later work of either queue starts after it; so neither side can overwrite what is
// being copied. Between GPUs it goes peer to peer where a test pattern arrived intact, else through
// the host. `dst` and `src` may be on the same device; they must not overlap. A copy between a GPU
// and a CPU device makes the host wait; all others return at once. Every byte is entered in the
// ledger.
void device_copy(Device *to, void *dst, Device *from, const void *src, size_t bytes);

// A point in a device's queue: reached when all the work before it is done.
typedef struct Event {
    Device *device;
    uint64_t ticket;
} Event;

Event device_record(Device *device);
void device_wait(Device *device, Event event);

// A copy between two devices that is ordered by hand: on the queue of `to`, after `ready` (a point
// in the queue of `from` at which src is complete). Returns the point at which the copy is done;
// until then src must not be overwritten, which the caller sees to with device_wait(from, ...). For
// many copies side by side, as in a ring, where device_copy() would make each wait for its
// neighbours. Enters the ledger like any copy.
Event device_copy_after(Event ready, Device *to, void *dst, const void *src, size_t bytes);

// The host waits until the device's queue is empty.
void synchronize(Device *device);
void synchronize_all(void);
// The host waits until no copy out of host memory is under way.
void synchronize_host_reads(void);

// ---- graphs: work that repeats itself, enqueued in one go ------------------------------------
//
// Between graph_begin() and graph_end(), what is enqueued on these devices is not done but written
// down, with its addresses and its order; graph_launch() enqueues all of it at once, after all work
// that is now on their queues and before all later work. It saves the host the launch of each
// kernel. Until graph_end(), only these devices may be used, and the host must not wait or copy.
// The memory that the work uses must still be there at the launch.
typedef struct Graph Graph;

bool has_graphs(const Device *device); // GPUs have
void graph_begin(Device *const devices[], int k);
Graph *graph_end(void);
void graph_launch(const Graph *graph); // enters the ledger, each time
void graph_free(Graph *graph);

// How often memory was freed on any device, that of kernels for themselves included: a graph made
// before may have had its address in it.
uint64_t num_device_frees(void);

// Ends all workers and frees all devices. For tests; a program may simply end.
void devices_close(void);
// Called by devices_close() while all devices are still there, the last one registered first: for
// what keeps memory on devices of its own accord (arena.c, step_graph.c). Each is kept once, until
// the program ends.
void before_devices_close(void (*close)(void));

// ---- ledger: who sent how many bytes to whom -------------------------------------------------

// Bytes copied from one device to another since the last reset. Copies within one device do not
// count: they cross nothing. Two logical devices on one GPU count as two.
void ledger_reset(void);
uint64_t ledger_bytes(const Device *from, const Device *to);
// All bytes between two different devices, those to and from the host left out.
uint64_t ledger_bytes_between_devices(void);
// Bytes to and from the host.
uint64_t ledger_bytes_host(void);

#endif
