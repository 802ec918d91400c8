// resume.c: --checkpoint and --resume. What must be the same for two training runs to have the same
// bits is kept in the checkpoint as one line of text, and compared when the run goes on.
#include "behind.h"

#include "common/book.h"
#include <zlib.h>

// The parameters that --load has read. free() the text.
static char *start_of(const Notebook *nb) {
    Parameters all = parameters_of(nb->net);
    uLong sum = crc32(0, NULL, 0);
    for (int p = 0; p < all.n; p++)
        sum = crc32(sum, (const Bytef *)all.list[p]->start->data,
                    (uInt)tensor_bytes(all.list[p]->start));
    return nb->flags.load ? xprintf(", begun with other parameters (%08lx)", sum) : xstrdup("");
}

static char *settings_of(const Notebook *nb, const Run *run) {
    const Flags *flags = &nb->flags;
    const char *kind = num_gpus() == 0 ? "the CPU" : flags->tf32 ? "GPUs with TF32" : "GPUs";
    char *lr = xshortest(run->lr), *start = start_of(nb);
    char *settings =
        xprintf("devices %d, batch size %d, lr %s, seed %llu, bn %s, allreduce %s, %d training "
                "and %d test images (%08x, %08x) on %s%s%s",
                run->dp.k, run->batch_size, lr, (unsigned long long)flags->seed, nb->bn,
                flags->allreduce, nb->train_data->count, nb->test_data->count,
                dataset_checksum(nb->train_data), dataset_checksum(nb->test_data), kind,
                flags->shuffle ? "" : " in the order of the file", start);
    free(start);
    free(lr);
    return settings;
}

// A second run goes on only if the first was as long as it would be now.
static char *length_of_runs(const Flags *flags) {
    return flags->steps < 0 ? xprintf("--epochs %d", flags->epochs)
                            : xprintf("--epochs %d --steps %d", flags->epochs, flags->steps);
}

static int replicas_of(const Run *run) { return run->dp.bn == BN_LOCAL ? run->dp.k : 1; }

void open_checkpoint(Notebook *nb) {
    const char *path = nb->flags.resume;
    nb->resumed.run = -1;
    if (!path) return;
    nb->resumed = checkpoint_open(path);
    if (nb->resumed.run >= nb->num_runs || !curves_restore(nb->curves, nb->resumed.history))
        die(checkpoint_same_flags, "%s: is of another run", path);
}

void keep_epoch(Notebook *nb, const Run *run, int epoch) {
    if (!nb->flags.checkpoint) return;
    Checkpoint checkpoint = {.run = run->number,
                             .epoch = epoch,
                             .step = curves_steps(nb->curves),
                             .settings = settings_of(nb, run),
                             .length = length_of_runs(&nb->flags),
                             .history = curves_rows(nb->curves)};
    checkpoint_save(nb->flags.checkpoint, &checkpoint, nb->net, run->dp.devices, replicas_of(run));
    checkpoint_close(&checkpoint);
    nb->epochs_kept = epoch;
}

int resume_run(Notebook *nb, Run *run, long last) {
    const Checkpoint *resumed = &nb->resumed;
    const char *path = nb->flags.resume;
    nb->epochs_kept = 0;
    if (run->number != resumed->run) return 0;
    char *settings = settings_of(nb, run), *length = length_of_runs(&nb->flags);
    int batches = data_iter_batches(run->train_iter);
    checkpoint_check(path, resumed, settings, length, batches, batches, last);
    free(settings);
    free(length);
    checkpoint_load(path, nb->net, run->dp.devices, run->dp.k, replicas_of(run));
    curves_go_on(nb->curves, resumed->epoch);
    run->acc = curves_last(nb->curves, run->dp.k);
    printf("going on after epoch %d of %s\n", resumed->epoch, path);
    return nb->epochs_kept = resumed->epoch;
}

void print_stopped(const Notebook *nb) {
    if (!nb->flags.checkpoint || !interrupted()) return;
    if (nb->epochs_kept > 0)
        printf("stopped; --resume %s goes on after epoch %d\n", nb->flags.checkpoint,
               nb->epochs_kept);
    else
        printf("stopped before the end of the first epoch: nothing to --resume of this run\n");
}
