// resume.h: what --checkpoint keeps of this program's two runs, and how --resume goes on with them
// (common/data/checkpoints.h).
#ifndef RESUME_H
#define RESUME_H

#include "notebook.h"

// Reads what the runs start from, and with --resume what a training that was stopped left: the
// curves, the losses and how far it was. die()s if it cannot go on from there.
void open_start(Notebook *nb);

// Of a run that was over, or at the end of an epoch, when the training was stopped: what was known.
void recall_run(const Notebook *nb, Run *run);

// With --resume, for the run that was stopped: gives the replicas what they had, and the run its
// place. die()s if what follows would not be what would have followed.
void resume_run(const Notebook *nb, Run *run);

// Writes the checkpoint, after a whole epoch that was evaluated.
void save_run(Notebook *nb, Run *run);

// After an interruption: with which flags the training goes on.
void print_stopped(const Notebook *nb, const Run *run);

#endif
