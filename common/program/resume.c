// resume.c: what must be the same for two trainings to have the same bits is kept in the checkpoint
// as one line of text, and compared when the training resumes.
#include "resume.h"

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/number.h"
#include "interrupt.h"

#include <stdio.h>
#include <stdlib.h>

static char *length_of_runs(const Flags *flags) {
    return flags->steps < 0 ? xprintf("--epochs %d", flags->epochs)
                            : xprintf("--epochs %d --steps %d", flags->epochs, flags->steps);
}

// What must be the same to have the same bits.
static char *settings_of(const Runs *runs, const ResumableRun *run) {
    const Flags *flags = runs->flags;
    const char *kind = num_gpus() == 0 ? "the CPU" : flags->tf32 ? "GPUs with TF32" : "GPUs";
    char *lr = xshortest(run->t->lr);
    char *settings = xprintf(
        "devices %d, batch size %d, lr %s, seed %llu, bn %s, allreduce %s, %d training "
        "and %d test images (%08x, %08x) on %s%s",
        run->t->k, run->batch_size, lr, (unsigned long long)flags->seed, run->bn, flags->allreduce,
        runs->train_data->count, runs->test_data->count, dataset_checksum(runs->train_data),
        dataset_checksum(runs->test_data), kind, flags->shuffle ? "" : " in the order of the file");
    free(lr);
    return settings;
}

// ---- stopping ----------------------------------------------------------------------------------

void save_run(Runs *runs, const ResumableRun *run) {
    const Flags *flags = runs->flags;
    const LossLog *log = runs->log;
    bool more = run->number + 1 < runs->num_runs;
    if (!flags->checkpoint) return;
    Checkpoint checkpoint = {
        .run = run->number,
        .epoch = run->t->epoch + 1,
        .step = run->t->steps,
        .loss = xprintf("%.9g", (double)log->rows[log->count - 1].loss),
        .settings = settings_of(runs, run),
        .length = length_of_runs(flags),
        .history = animator_rows(runs->animator),
        .start = !runs->from_file ? FROM_SEED
                 : more           ? START_HELD
                                  : FROM_FILE,
    };
    // First, because the training resumes only from where its losses are known.
    if (flags->log_loss && !is_written_directly(flags->log_loss))
        loss_log_write(log, flags->log_loss);
    checkpoint_save(flags->checkpoint, &checkpoint, runs->net, run->t->devices, run->replicas);
    runs->saved_epochs = checkpoint.epoch;
    checkpoint_close(&checkpoint);
}

void print_stopped(const Runs *runs) {
    if (!runs->flags->checkpoint || !interrupted()) return;
    if (runs->saved_epochs > 0)
        printf("stopped; --resume %s goes on after epoch %d\n", runs->flags->checkpoint,
               runs->saved_epochs);
    else
        printf("stopped before the end of the first epoch: nothing to --resume of this run\n");
}

// ---- resuming ----------------------------------------------------------------------------------

void open_runs(Runs *runs) {
    const Flags *flags = runs->flags;
    if (flags->load && flags->resume)
        die_usage("leave --load out: the checkpoint holds all that is needed",
                  "--load and --resume");
    runs->from_file = flags->load != NULL;
    if (flags->load) load_parameters(runs->net, flags->load);
    if (!flags->resume) return;
    runs->resumed = checkpoint_open(flags->resume);
    const Checkpoint *resumed = &runs->resumed;
    if (resumed->run >= runs->num_runs || !animator_restore(runs->animator, resumed->history))
        die(checkpoint_same_flags, "%s: is of another run", flags->resume);
    bool last = resumed->run + 1 == runs->num_runs;
    runs->from_file = resumed->start != FROM_SEED;
    if (!last && resumed->start == START_HELD) checkpoint_load_start(flags->resume, runs->net);
    if (!last && resumed->start == FROM_FILE)
        die("give --devices as the run that wrote it",
            "%s: is of a single run that began with --load: it does not hold the start of another",
            flags->resume);
    loss_log_restore(runs->log, flags->log_loss, resumed->run, resumed->step, resumed->loss);
}

void close_runs(Runs *runs) { checkpoint_close(&runs->resumed); }

bool was_over(const Runs *runs, int number) {
    return runs->flags->resume && number < runs->resumed.run;
}

void recall_run(const Runs *runs, Training *t) {
    animator_last(runs->animator, t->k, &t->train_loss, &t->test_acc, &t->sec_per_epoch);
}

void resume_run(Runs *runs, const ResumableRun *run) {
    const Flags *flags = runs->flags;
    const Checkpoint *resumed = &runs->resumed;
    Training *t = run->t;
    runs->saved_epochs = 0;
    if (!flags->resume || run->number != resumed->run) return;
    char *settings = settings_of(runs, run), *length = length_of_runs(flags);
    int batches = data_iter_batches(t->iter);
    checkpoint_check(flags->resume, resumed, settings, length, batches, batches,
                     training_steps(flags, batches));
    free(settings);
    free(length);
    checkpoint_load(flags->resume, runs->net, t->devices, t->k, run->replicas);
    t->epoch = resumed->epoch;
    t->steps = resumed->step;
    runs->saved_epochs = resumed->epoch;
    recall_run(runs, t);
    printf("going on after epoch %d of %s\n", resumed->epoch, flags->resume);
}
