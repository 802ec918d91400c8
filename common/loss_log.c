// loss_log.c: see loss_log.h.
#include "loss_log.h"
#include "error.h"
#include "file.h"

#include <stdlib.h>

void loss_log_add(LossLog *log, long step, double loss) {
    if (log->count == log->room) {
        log->room = log->room ? 2 * log->room : 256;
        log->rows = xrealloc(log->rows, sizeof *log->rows * (unsigned long)log->room);
    }
    log->rows[log->count++] = (struct LossLogRow){step, (float)loss};
}

void loss_log_write(const LossLog *log, const char *path) {
    if (!path) return;
    OutputFile file = output_open(path);
    fprintf(file.stream, "step,loss\n");
    for (long i = 0; i < log->count; i++)
        fprintf(file.stream, "%ld,%.9g\n", log->rows[i].step, (double)log->rows[i].loss);
    output_close(&file);
}

void loss_log_free(LossLog *log) {
    free(log->rows);
    *log = (LossLog){0};
}
