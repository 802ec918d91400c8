// loss_log.h: the mean loss of each minibatch, for --log-loss.
#ifndef LOSS_LOG_H
#define LOSS_LOG_H

typedef struct LossLog {
    long count, room;
    struct LossLogRow {
        long step;
        float loss;
    } * rows;
} LossLog;

void loss_log_add(LossLog *log, long step, double loss);
// Writes the CSV "step,loss", whole; die()s if that fails. path NULL: does nothing.
void loss_log_write(const LossLog *log, const char *path);
void loss_log_free(LossLog *log);

#endif
