// loss_log.h: the mean loss of each minibatch, for --log-loss. train_epochs() (training.h) calls
// loss_log_add(); the program calls loss_log_write() at the end.
#ifndef LOSS_LOG_H
#define LOSS_LOG_H

#include <stddef.h>

typedef struct LossLog {
    size_t count, room;
    struct LossLogRow {
        long step;
        float loss;
    } * rows;
} LossLog;

void loss_log_add(LossLog *log, long step, double loss);
// Writes the CSV "step,loss", whole; die()s if that fails. path NULL: does nothing.
void loss_log_write(const LossLog *log, const char *path);
// For a training that goes on in its run number `run` (from 0) after `step` minibatches, the last
// of which had this loss. Reads the rows up to that one from the file that the training wrote.
// die()s if they are not there. path NULL, or a pipe: does nothing.
void loss_log_restore(LossLog *log, const char *path, int run, long step, const char *loss);
void loss_log_free(LossLog *log);

#endif
