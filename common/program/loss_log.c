// loss_log.c: a list of losses that is written as CSV, and read again when a training goes on.
#include "loss_log.h"
#include "common/base/error.h"
#include "common/base/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void loss_log_add(LossLog *log, long step, double loss) {
    log->rows = xroom(log->rows, log->count, &log->room, sizeof *log->rows);
    log->rows[log->count++] = (struct LossLogRow){step, (float)loss};
}

void loss_log_write(const LossLog *log, const char *path) {
    if (!path) return;
    OutputFile file = output_open(path);
    fprintf(file.stream, "step,loss\n");
    for (size_t i = 0; i < log->count; i++)
        fprintf(file.stream, "%ld,%.9g\n", log->rows[i].step, (double)log->rows[i].loss);
    output_close(&file);
}

static _Noreturn void die_other_file(const char *path, const char *why) {
    die("give the file that the training wrote, or leave --log-loss out",
        "%s: does not hold the losses up to the checkpoint: %s", path, why);
}

// Each run has its steps 1, 2, 3, ..
void loss_log_restore(LossLog *log, const char *path, int run, long step, const char *loss) {
    if (!path || is_written_directly(path)) return;
    FILE *file = fopen(path, "re");
    if (!file) die_other_file(path, strerror(errno));
    char line[80];
    bool good = fgets(line, sizeof line, file) && strcmp(line, "step,loss\n") == 0;
    if (!good) die_other_file(path, "it does not begin with step,loss");
    int number_of_run = -1;
    long last = 0;
    while (number_of_run < run || last < step) {
        char *end = fgets(line, sizeof line, file) ? strchr(line, '\n') : NULL;
        if (!end) die_other_file(path, "it ends before");
        *end = '\0';
        long this = strtol(line, &end, 10);
        if (this == 1) {
            number_of_run++;
            last = 0;
        }
        if (number_of_run < 0 || number_of_run > run || this != last + 1 || *end != ',')
            die_other_file(path, "its steps are others");
        loss_log_add(log, this, strtod(end + 1, NULL));
        last = this;
    }
    fclose(file);
    if (strcmp(strchr(line, ',') + 1, loss) != 0) die_other_file(path, "its losses are others");
}

void loss_log_free(LossLog *log) {
    free(log->rows);
    *log = (LossLog){0};
}
