// zero.h: training with Adam on k devices. Each keeps all of the training state or a part of it.
// Sources: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter
// Models", SC 2020; PyTorch's `fully_shard` (torch/distributed/fsdp).
#pragma once

#include "common/tensor/adam.h"
#include "common/tensor/nn.h"
#include "chapters/06_data_parallel_and_ddp/ddp.h"

// What a device keeps 1/k of: nothing (DDP), the moments (ZeRO-1), also the gradients (ZeRO-2),
// also the parameters (ZeRO-3, which PyTorch calls FSDP).
typedef enum Stage { STAGE_DDP, ZERO_1, ZERO_2, ZERO_3, NUM_STAGES } Stage;

// Neighbouring modules whose parameters are gathered together and whose gradients are reduced
// together. The parameters are one slice of FlatParameters (nn.h). With ZeRO-2 and ZeRO-3, each
// residual block is a unit, and so is each layer with parameters outside the blocks. Layers without
// parameters belong to the unit before them. With DDP and ZeRO-1, the whole network is one unit.
typedef struct Unit {
    NetPart *parts; // num_parts modules
    int num_parts;
    int first_param, num_params; // in parameters_of()
    size_t first, floats;        // in FlatParameters
    int tape_begin;              // tape_length() before its forward pass in this step
} Unit;

// What a device keeps of one flat array, and what it holds temporarily.
typedef struct Shard {
    Tensor *own; // the parameters that the device updates; own->grad: their gradients
    // Each is NULL while the device does not have it. With DDP, chapter 6 has all three.
    Tensor *full;      // the whole array
    Tensor *full_grad; // the gradients of all of it
    Tensor *received;  // the other devices' gradients of the own part
    Event gathered;    // `full` is complete
    Event reduced;     // own->grad is complete, and full_grad is not needed any more
} Shard;

typedef struct Zero {
    Module *net;
    int k;
    Stage stage;
    Device **devices;
    NetPart *parts; // of the whole network
    int num_units;
    Unit *units;
    Shard **shards; // [num_units][k]
    Adam **adam;    // [k]
    Ddp *ddp;       // of DDP, else NULL
    bool recompute; // may be set between steps: keep only the input of each block
} Zero;

// Places the network, which must be initialize()d, on the k devices: each gets its part of the
// initial values, and zeros as moments. The network must outlive the Zero and must not be on any
// device yet. die()s if a unit has fewer parameters than there are devices. Free it with
// zero_free(). After that, the network has no parameters on the devices, so call zero_read()
// before.
Zero *zero_new(Module *net, Device *const devices[], int k, Stage stage, AdamOptions options);
void zero_free(Zero *z);

// A step: forward, loss, backward, update. X_shards[i] and y_shards[i] are on device i, for which
// begin_step() was called. batch_size is the number of rows on all devices. losses[i] is the summed
// loss of device i. Enqueued, not waited for. die()s if a unit is still gathered at the end.
//
// To compute the same bits as the other stages, DDP needs choose_allreduce("sharded").
typedef void ZeroStep(Zero *z, Tensor *const X_shards[], Tensor *const y_shards[], float lr,
                      int batch_size, Tensor *losses[]);
ZeroStep zero_step;

// A step with a minibatch, (rows,1,28,28) and (rows) on the host: begins it on all devices, and
// splits the rows over them.
void zero_train_batch(Zero *z, const Tensor *X, const Tensor *y, float lr, Tensor *losses[]);

// Puts all parameters together from the devices' parts, in the order of FlatParameters. Waits.
void zero_read(const Zero *z, float *values);

// ---- what the stages share ----------------------------------------------------------------------

// Each stage is a file (zero0.c is DDP) with one function, its step.
ZeroStep zero0_step, zero1_step, zero2_step, zero3_step;
typedef struct StageKind {
    const char *name; // "DDP", "ZeRO-1", ..
    bool divides_moments, divides_gradients, divides_parameters;
    ZeroStep *step;
} StageKind;
extern const StageKind zero_stages[NUM_STAGES];

// shards.c: the part of unit u that device i keeps.
Range own_part(const Zero *z, int u, int i);
// The tensors of all k shards of unit u, as the collectives of chapter 2 take them.
typedef struct UnitTensors {
    Tensor *full[MAX_DEVICES], *full_grad[MAX_DEVICES], *own[MAX_DEVICES], *own_grad[MAX_DEVICES],
        *received[MAX_DEVICES];
} UnitTensors;
UnitTensors tensors_of(const Zero *z, int u);
// For zero_new() and zero_free(). The network is on the devices.
void make_units(Zero *z);
void make_shards(Zero *z);
void free_shards(Zero *z);
// The name of the unit's first parameter, for messages.
const char *unit_name(const Zero *z, int u);
// n floats, counted for this use.
Tensor *floats_on(Device *device, size_t n, MemoryUse use);
// From now on, the network's parameters of unit u on device i are in `full` and `full_grad`, or
// have no memory if these are NULL.
void point_to(const Zero *z, int u, int i);

// zero.c: the summed loss of each device.
void sum_losses(const Zero *z, Tensor *const y_hat[], Tensor *const y[], Tensor *losses[]);
// Each device updates what it keeps, by the gradients in own->grad, and sets these to zero.
void update_own(const Zero *z, float lr, int batch_size);
// Frees a tensor when the device's compute queue reaches this point, and sets it to NULL.
void free_in_order(Tensor **t);

// units.c: the forward pass of unit u: Y[i] becomes its output for Y[i].
void forward_unit(Zero *z, int u, Tensor *Y[]);
// Allocates memory for the gradients of unit u; sums them on the communication queues while the
// backward pass continues; and waits for the sums and frees the memory.
void allocate_gradients(Zero *z, int u);
void reduce_gradients(Zero *z, int u);
void finish_reducing(Zero *z, int u);
// Room for the other devices' gradients of each device's part: Shard.received.
void make_room_to_receive(Zero *z, int u);
// PyTorch's unshard() and reshard(). unshard() begins to collect the parameters of unit u on the
// communication queues, and wait_for_parameters() makes the compute queues wait for them. reshard()
// frees their memory when the compute queues reach this point. They die() if a unit is gathered
// twice, or used or freed without being gathered.
void unshard(Zero *z, int u);
void wait_for_parameters(Zero *z, int u);
void reshard(Zero *z, int u);
void check_gathered(const Zero *z, int u);
void check_all_resharded(const Zero *z);
// Gathers the parameters of a unit of which each device has updated its own part.
void gather_updated(Zero *z, int u);

// recompute.c: like forward_unit(), but keeps only the input of each block for the backward pass.
// Batch norm's running statistics are updated only once.
void forward_recomputed(const Zero *z, const Unit *unit, Tensor *Y[]);

// ---- formulas.c ---------------------------------------------------------------------------------

// Bytes on one device, without activations, running statistics and minibatches, which are the same
// in all stages.
typedef struct ZeroMemory {
    size_t parameters, gradients, moments; // kept from step to step
    size_t temporary; // the peak of gathered parameters, gradients before they are
                      // reduced, and other devices' gradients, all together
} ZeroMemory;
ZeroMemory zero_memory(const Zero *z, int i);
size_t zero_peak(const ZeroMemory *m); // their sum

// The bytes that device i sends and receives in a step.
Traffic zero_bytes(const Zero *z, int i);
