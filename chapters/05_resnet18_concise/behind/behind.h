// behind.h: what the chapter's program needs beside its story: sizes of the runs, tables, and the
// experiment. choose_size() comes before all else.
#pragma once

#include "common/data/checkpoints.h"
#include "common/program/curves.h"
#include "chapters/05_resnet18_concise/data_parallel.h"

// What d2l's notebook keeps in global variables: one for all runs of the program.
typedef struct Notebook {
    Flags flags;
    const char *bn;        // --bn local|rank0|averaged|sync
    bool experiment, full; // --experiment, --full
    Module *net;
    Dataset *train_data, *test_data;
    Curves *curves;
} Notebook;

// One of the program's runs.
typedef struct Run {
    int batch_size;
    float lr;
    DataParallel dp; // while the run lasts
    DataIter *train_iter, *test_iter;
    uint64_t bytes_per_step; // between devices, by the formulas
    double acc;              // after the last epoch
    int epochs_kept;         // by --checkpoint
} Run;

// ---- print.c -----------------------------------------------------------------------------------
// Sets the flags that were not given: d2l's run on a GPU or with --full, otherwise a smaller one;
// the experiment's with --experiment. die_usage()s if --quick contradicts another flag.
void choose_size(Notebook *nb);
// Says how much a smaller run leaves out, and how large the network is.
void print_size(const Notebook *nb);
// "training on [cpu:0]: batch size 16, lr 0.025"
void print_training(const Run *run, const char *bn);
void print_step_bytes(const Run *run);
// Sends two images through the network on each of two devices, and prints its first weights there.
void show_where_parameters_are(Module *net);

// ---- resume.c ----------------------------------------------------------------------------------
// With --resume: gives the replicas and the curves what they had in the run that was stopped.
// Returns how many epochs are done. The run has so many steps in all. die()s if its result would
// not be that of an uninterrupted run.
int resume_run(const Notebook *nb, Run *run, long steps);
// With --checkpoint: writes the file, after so many whole epochs.
void keep_epoch(const Notebook *nb, Run *run, int epoch);
// With --checkpoint, after Ctrl-C: says which flag continues the run.
void print_stopped(const Notebook *nb, const Run *run);

// ---- modelled_steps.c --------------------------------------------------------------------------
// Prints what an epoch of d2l's training takes on 1, 2, 4 and 8 devices of --machine, with 256
// images for each device in a step, and writes it as CSV. Returns how many times as fast 2 devices
// are as 1 with the star; NAN if the machine has one device. Takes the network off its devices.
double print_epochs_on_gpus(const Notebook *nb, const char *csv);

// ---- factors.c ---------------------------------------------------------------------------------
// --experiment: trains a small network in six ways from ten seeds, writes each training's figures
// as CSV, and what single changes do as CSV and PNG. About ten minutes on one core.
void run_experiment(const Flags *flags);
// The same changes, of the experiment whose trainings are kept in plots/recorded.
void show_recorded_experiment(const char *csv, const char *png);
