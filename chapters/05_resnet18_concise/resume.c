// resume.c: what must be the same for two trainings to have the same bits is written into the
// checkpoint as one line of text, and compared when the training goes on.
#include "resume.h"

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- which training it is ----------------------------------------------------------------------

static const char *kind_of_devices(const Flags *flags) {
    if (num_gpus() == 0) return "the CPU";
    return flags->tf32 ? "GPUs with TF32" : "GPUs";
}

// What must be the same for a training to go on to the same bits.
static char *settings_of(const Notebook *nb, const Run *run) {
    const Flags *flags = &nb->flags;
    char *lr = xshortest(run->t.lr);
    char *settings =
        xprintf("devices %d, batch size %d, lr %s, seed %llu, bn %s, allreduce %s, %d training "
                "and %d test images (%08x, %08x) on %s%s",
                run->t.k, run->batch_size, lr, (unsigned long long)flags->seed, nb->bn,
                flags->allreduce, nb->train_data->count, nb->test_data->count,
                dataset_checksum(nb->train_data), dataset_checksum(nb->test_data),
                kind_of_devices(flags), flags->shuffle ? "" : " in the order of the file");
    free(lr);
    return settings;
}

static char *length_of_runs(const Flags *flags) {
    return flags->steps < 0 ? xprintf("--epochs %d", flags->epochs)
                            : xprintf("--epochs %d --steps %d", flags->epochs, flags->steps);
}

// Of how many devices the checkpoint keeps the running statistics.
static int with_own_statistics(const DataParallel *dp) { return dp->bn == BN_LOCAL ? dp->k : 1; }

// ---- stop --------------------------------------------------------------------------------------

void save_run(Notebook *nb, Run *run) {
    const Flags *flags = &nb->flags;
    bool more = run->number + 1 < nb->num_runs;
    int epochs = run->t.epoch + 1;
    Checkpoint checkpoint = {
        .run = run->number,
        .epoch = epochs,
        .step = run->t.steps,
        .loss = xprintf("%.9g", (double)nb->loss_log.rows[nb->loss_log.count - 1].loss),
        .settings = settings_of(nb, run),
        .length = length_of_runs(flags),
        .history = animator_rows(nb->animator),
        .start = !nb->from_file ? FROM_SEED
                 : more         ? START_HELD
                                : FROM_FILE,
    };
    // First, as the training goes on only from where its losses are known.
    if (flags->log_loss && !is_written_directly(flags->log_loss))
        loss_log_write(&nb->loss_log, flags->log_loss);
    checkpoint_save(flags->checkpoint, &checkpoint, nb->net, run->dp.devices,
                    with_own_statistics(&run->dp));
    checkpoint_close(&checkpoint);
    run->saved_epochs = epochs;
}

void print_stopped(const Notebook *nb, const Run *run) {
    if (!nb->flags.checkpoint) return;
    if (run->saved_epochs > 0)
        printf("stopped; --resume %s goes on after epoch %d\n", nb->flags.checkpoint,
               run->saved_epochs);
    else
        printf("stopped before the end of the first epoch: nothing to --resume of this run\n");
}

// ---- go on -------------------------------------------------------------------------------------

void open_start(Notebook *nb) {
    const Flags *flags = &nb->flags;
    nb->from_file = flags->load != NULL;
    if (flags->load) load_parameters(nb->net, flags->load);
    if (!flags->resume) return;
    nb->resumed = checkpoint_open(flags->resume);
    const Checkpoint *resumed = &nb->resumed;
    if (resumed->run >= nb->num_runs || !animator_restore(nb->animator, resumed->history))
        die(checkpoint_same_flags, "%s: is of another run", flags->resume);
    bool last = resumed->run + 1 == nb->num_runs;
    nb->from_file = resumed->start != FROM_SEED;
    if (!last && resumed->start == START_HELD) checkpoint_load_start(flags->resume, nb->net);
    if (!last && resumed->start == FROM_FILE)
        die("give --devices as the run that wrote it",
            "%s: is of a single run that began with --load: it does not hold the start of another",
            flags->resume);
    loss_log_restore(&nb->loss_log, flags->log_loss, resumed->run, resumed->step, resumed->loss);
}

void recall_run(const Notebook *nb, Run *run) {
    Training *t = &run->t;
    animator_last(nb->animator, t->k, &t->train_loss, &t->test_acc, &t->sec_per_epoch);
}

void resume_run(const Notebook *nb, Run *run) {
    const Flags *flags = &nb->flags;
    const Checkpoint *resumed = &nb->resumed;
    char *settings = settings_of(nb, run), *length = length_of_runs(flags);
    int batches = (nb->train_data->count + run->batch_size - 1) / run->batch_size;
    checkpoint_check(flags->resume, resumed, settings, length, batches, batches,
                     training_steps(flags, batches));
    free(settings);
    free(length);
    checkpoint_load(flags->resume, nb->net, run->dp.devices, run->t.k,
                    with_own_statistics(&run->dp));
    run->t.epoch = resumed->epoch;
    run->t.steps = resumed->step;
    run->saved_epochs = resumed->epoch;
    recall_run(nb, run);
    printf("going on after epoch %d of %s\n", resumed->epoch, flags->resume);
}
