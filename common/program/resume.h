// resume.h: trainings that can be stopped, and continued later to the same bits. It does what
// --checkpoint, --resume and --load ask for. (What is in the file: common/data/checkpoints.h.)
//
// A program has one run, or several, one after the other, of the same network. It calls open_runs()
// before the first. In each run it calls resume_run() before it trains, save_run() after each whole
// epoch, and print_stopped() at the end. A run that was_over() is not trained: recall_run() it.
#ifndef RESUME_H
#define RESUME_H

#include "training.h"
#include "common/data/checkpoints.h"

typedef struct Runs {
    // Given by the caller:
    const Flags *flags;
    int num_runs;
    Module *net;
    const Dataset *train_data, *test_data;
    Animator *animator;
    LossLog *log;
    // For resume.c:
    bool from_file; // all runs start from a file, not from the seed
    Checkpoint resumed;
    int saved_epochs; // of the run that is trained now
} Runs;

// A run, for the functions below.
typedef struct ResumableRun {
    int number;     // from 0
    int batch_size; // of its minibatches
    Training *t;    // devices, learning rate, and how far it is
    int replicas;   // how many devices have their own batch norm statistics
    const char *bn; // and what else has to be the same: "averaged"
} ResumableRun;

// Reads what the runs start from. With --resume, reads the curves, the losses and the place where
// the training was stopped. die()s if it cannot continue from there. close_runs() frees it.
void open_runs(Runs *runs);
void close_runs(Runs *runs);

// With --resume: whether this run was over when the training was stopped, and what is known of it.
bool was_over(const Runs *runs, int number);
void recall_run(const Runs *runs, Training *t);

// With --resume, in the run that was stopped: gives the replicas what they had, and the run its
// place. die()s if the continued training would differ from one that was never stopped.
void resume_run(Runs *runs, const ResumableRun *run);
// With --checkpoint: writes the file, after a whole epoch that was evaluated.
void save_run(Runs *runs, const ResumableRun *run);
// With --checkpoint, after an interruption: says which flags continue the training.
void print_stopped(const Runs *runs);

#endif
