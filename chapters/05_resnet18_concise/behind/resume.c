// resume.c: --checkpoint and --resume. What must be the same for two training runs to have the same
// bits is kept in the checkpoint as one line of text, and compared when the run goes on.
#include "behind.h"

#include "common/book.h"

// free() it.
static char *settings_of(const Notebook *nb, const Run *run) {
    const Flags *flags = &nb->flags;
    const char *kind = num_gpus() == 0 ? "the CPU" : flags->tf32 ? "GPUs with TF32" : "GPUs";
    char *lr = xshortest(run->lr);
    char *settings = xprintf(
        "devices %d, batch size %d, lr %s, seed %llu, bn %s, allreduce %s, %d training and %d test "
        "images (%08x, %08x) on %s%s",
        run->dp.k, run->batch_size, lr, (unsigned long long)flags->seed, nb->bn, flags->allreduce,
        nb->train_data->count, nb->test_data->count, dataset_checksum(nb->train_data),
        dataset_checksum(nb->test_data), kind, flags->shuffle ? "" : " in the order of the file");
    free(lr);
    return settings;
}

static int replicas_of(const Run *run) { return run->dp.bn == BN_LOCAL ? run->dp.k : 1; }

void keep_epoch(const Notebook *nb, Run *run, int epoch) {
    if (!nb->flags.checkpoint) return;
    char *settings = settings_of(nb, run);
    checkpoint_save(nb->flags.checkpoint, nb->net, run->dp.devices, replicas_of(run), epoch,
                    settings, curves_rows(nb->curves));
    free(settings);
    run->epochs_kept = epoch;
}

// The history has a row of the curves for each epoch.
static void check_history(const char *path, const char *rows, int epochs) {
    int lines = 0;
    for (const char *c = rows; *c; c++) lines += *c == '\n';
    if (lines != epochs || rows[strspn(rows, "0123456789.,e+-\n")])
        die("the file is damaged: go on from another checkpoint",
            "%s: the \"history\" is no curve of %d epochs: '%.40s'", path, epochs, rows);
}

int resume_run(const Notebook *nb, Run *run, long steps) {
    const char *path = nb->flags.resume;
    if (!path) return 0;
    char *settings = settings_of(nb, run), *curves;
    int epoch = checkpoint_load(path, nb->net, run->dp.devices, run->dp.k, replicas_of(run),
                                settings, steps / data_iter_batches(run->train_iter), &curves);
    check_history(path, curves, epoch);
    curves_go_on(nb->curves, epoch, curves);
    printf("going on after epoch %d of %s\n", epoch, path);
    free(settings);
    free(curves);
    if (strcmp(path, nb->flags.checkpoint) == 0) run->epochs_kept = epoch;
    return epoch;
}

void print_stopped(const Notebook *nb, const Run *run) {
    if (interrupted() && run->epochs_kept > 0)
        printf("stopped; --resume %s goes on after epoch %d\n", nb->flags.checkpoint,
               run->epochs_kept);
}
