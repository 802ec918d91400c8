// behind.h: the training runs that the chapter compares, and its tables and pictures. `rows` is the
// number on each device.
#pragma once

#include "common/data/fashion_mnist.h"
#include "common/data/safetensors.h"
#include "common/device/trace.h"
#include "common/model/machine.h"
#include "../zero.h"

enum { NUM_STEPS = 5 };

// A training run of ResNet-18 with Adam.
typedef struct Plan {
    Stage stage;
    int k;
    bool recompute;
    int steps; // 0: NUM_STEPS
    // The beginnings of the names of files, or NULL: to go on from, and to write at the end.
    const char *resume, *checkpoint;
} Plan;

// training.c: what it did.
typedef struct ZeroRun {
    Plan plan;
    int first_step;           // 0, or what the checkpoint had done
    double losses[NUM_STEPS]; // means over the minibatch; NAN without values
    float *values;            // num_values parameters at the end; NULL without values
    float *loaded;            // the same after loading a checkpoint; else NULL
    size_t num_values;
    // Of device 0 (no other device has or sends more): what it keeps and what passes through; its
    // activations; the most that was allocated at a time; and what it sends in a step.
    ZeroMemory memory;
    size_t activations, peak, sent;
    double seconds;   // of a step on the modelled machine; NAN if it was computed
    TraceSpan *spans; // num_spans pieces of work in that step, if it was traced
    int num_spans;
} ZeroRun;

// A training run on devices 0 to k-1, with the same initial values and the same minibatches each
// time, and from a checkpoint on if the plan has one. Bytes and modelled time of a step are counted
// between begin_counting() and end_counting(). end_training() ends the program with an error if
// memory, or the bytes of the last step, are not what the formulas say. Its result is for
// zero_run_free().
typedef struct ZeroTraining {
    ZeroRun run;
    Device *devices[MAX_DEVICES];
    Module *net;
    Zero *z;
    DataIter *batches;
    char *settings;
} ZeroTraining;
ZeroTraining begin_training(const Plan *plan, Dataset *data, int batch_size, uint64_t seed);
void next_minibatch(ZeroTraining *t, Tensor **X, Tensor **y);
void begin_counting(void);
void end_counting(void);
double mean_loss(const ZeroTraining *t, Tensor *const losses[], int rows); // NAN without values
ZeroRun end_training(ZeroTraining *t);
// The second step on devices without values, and how long it takes on the machine (NULL: NAN).
ZeroRun model_stage(const Plan *plan, int rows, const Machine *machine, bool traced);
void zero_run_free(ZeroRun *t);
// The number of parameters that differ in any bit; NAN without values.
double num_different(const ZeroRun *a, const ZeroRun *b);
// The same of what a run loaded, and what a run had when it wrote its checkpoint.
double num_different_after_loading(const ZeroRun *resumed, const ZeroRun *stopped);

// checkpoint.c: writes what the devices have between two steps: PREFIX-0.safetensors for device 0,
// and so on. Each has one part of the parameters and moments, in every stage, and the device's
// running statistics. `settings` says what must be the same to go on. Waits. If it fails, die()s.
void zero_save(const Zero *z, const char *settings, const char *prefix);
// Gives it to the devices of z, which may be more or fewer, in another stage. Running statistics
// are device 0's if the number is not the same. Returns how many steps were done. If a file is
// missing, damaged or not of this checkpoint, die()s and names it, and nothing was changed.
long zero_load(Zero *z, const char *settings, const char *prefix);
// Removes the files of k devices.
void zero_remove(const char *prefix, int k);

// tables.c: of one device, where the memory goes, counted and by the formula.
void print_one_device(const ZeroRun *run);
// What a device keeps: runs[] are the stages from STAGE_DDP on.
void print_zero1(const ZeroRun runs[]);
// The same of all stages, with what it sends. `differ` is the number of parameters that differ from
// DDP's after all steps.
void print_stages(const ZeroRun runs[]);
void print_one_run(const ZeroRun *run); // of one stage alone, with activations and losses
// The losses of two runs, step by step, the second one with a limit (in bytes).
void print_losses(const ZeroRun *ddp, const ZeroRun *limited, double limit);
// One run without and one with recomputation, with batch_size images in a minibatch.
void print_recomputed(const ZeroRun *without, const ZeroRun *with, int batch_size);
// A run of five steps, one that stopped after three of them, and n that went on from there.
void print_resumed(const ZeroRun *never_stopped, const ZeroRun *stopped, const ZeroRun resumed[],
                   int n);
// All stages on eight devices of a machine with fast links, and on one with slow links. Returns how
// many times as long as DDP's a step of ZeRO-3 is over the slow ones; NAN with --machine none.
double print_machines(int rows);

// memory.c, for the figure to move: what each of k devices needs in all stages, and how long a step
// is, as a table and as book_output("_memory.csv"). ResNet-18 is counted and modelled.
// Transformers, "7b" with 7 billion parameters, are arithmetic: float32, one sequence on each
// device, no time.
extern const char memory_networks[]; // "none|resnet-18|1b|.."
void tell_memory(const char *network, int k, int rows, bool recompute);
// A table of the one of 7 billion parameters in all stages on 1, 2 and 8 GPUs, in float32 and in
// mixed precision. Returns how many GPUs of 80 GB ZeRO-3 needs in float32, without recomputation.
double print_transformer(void);
// The same of ResNet-18 as a picture, book_output("_memory.png"), with and without recomputation.
// Nothing with --machine none.
void draw_memory(int k, int rows);

// timeline.c: a step of ZeRO-3, the two queues of device 0, as a picture,
// book_timeline("_modelled.png"). Nothing with --machine none.
void draw_step(int k, int rows);

// borrowed.c: the memory of device 0 in such a step, unit by unit: book_output("_step.csv") and
// ("_step.png"). By the formula of formulas.c, whose largest value must be that of the table.
void draw_borrowed(int k);
