// notebook.h: what the parts of this chapter's program share.
#ifndef NOTEBOOK_H
#define NOTEBOOK_H

#include "common/data/checkpoints.h"
#include "common/program/training.h"
#include "data_parallel.h"

// What the book's notebook keeps in global variables: one for all runs of the program.
typedef struct Notebook {
    Flags flags;
    const char *bn;  // --bn local|rank0|averaged|sync
    bool experiment; // --experiment
    bool full;       // --full
    Module *net;
    Dataset *train_data, *test_data;
    Animator *animator;
    LossLog loss_log;
    int num_runs;
    bool from_file;     // all runs start from a file, not from the seed
    Checkpoint resumed; // with --resume
} Notebook;

// One of the program's runs, and what is known when it is over.
typedef struct Run {
    int number; // from 0
    int batch_size;
    Training t;      // k, lr, and how far it is
    DataParallel dp; // while it lasts: what is trained, and tested by
    DataIter *test_iter;
    uint64_t bytes_per_step; // between devices
    size_t arena_bytes;      // the most that a device needed for a step
    int saved_epochs;        // in the checkpoint
} Run;

#endif
