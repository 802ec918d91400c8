// behind.h: what the chapter's program needs beside its story: sizes of the runs, tables, and the
// experiment. choose_size() comes before all else.
#ifndef CHAPTER_05_BEHIND_H
#define CHAPTER_05_BEHIND_H

#include "common/program/resume.h"
#include "chapters/05_resnet18_concise/data_parallel.h"

// What d2l's notebook keeps in global variables: one for all runs of the program.
typedef struct Notebook {
    Flags flags;
    const char *bn;        // --bn local|rank0|averaged|sync
    bool experiment, full; // --experiment, --full
    Module *net;
    Dataset *train_data, *test_data;
    Animator *animator;
    LossLog loss_log;
    Runs runs;
    int num_runs; // so far
} Notebook;

// One of the program's runs.
typedef struct Run {
    ResumableRun as; // its number, batch size, and whose statistics it evaluates with
    Training t;      // devices, learning rate, and how far it is
    DataParallel dp; // while the run lasts
    DataIter *test_iter;
    uint64_t bytes_per_step; // between devices, by the formulas
} Run;

// ---- print.c -----------------------------------------------------------------------------------
// Sets the flags that were not given: d2l's run on a GPU or with --full, otherwise a smaller one;
// the experiment's with --experiment. die_usage()s if --quick contradicts another flag.
void choose_size(Notebook *nb);
// Says how much a smaller run leaves out, and how large the network is.
void print_size(const Notebook *nb);
// "training on [cpu:0]: batch size 16, lr 0.025"
void print_training(const Run *run);
void print_step_bytes(const Run *run);
// Sends two images through the network on each of two devices, and prints its first weights there.
void show_where_parameters_are(Module *net);

// ---- modelled_steps.c --------------------------------------------------------------------------
// Prints what an epoch of d2l's training takes on 1, 2, 4 and 8 devices of --machine, with 256
// images for each device in a step, and writes it as CSV. Returns how many times as fast 2 devices
// are as 1 with the star; NAN if the machine has one device. Takes the network off its devices.
double print_epochs_on_gpus(const Notebook *nb, const char *csv);

// ---- factors.c ---------------------------------------------------------------------------------
// --experiment: trains a small network in seven ways from ten seeds, writes each training's figures
// as CSV, prints what single changes do, and draws the PNG. About ten minutes on one core.
void run_experiment(const Flags *flags);
// The same table and picture of the experiment whose CSV is kept in plots/recorded. The table only
// if `table`.
void show_recorded_experiment(const char *png, bool table);

#endif
