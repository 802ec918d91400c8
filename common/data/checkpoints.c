// checkpoints.c: lists the tensors and counts that belong in a file, each under its name there;
// safetensors.c writes and reads them.
#include "checkpoints.h"
#include "common/base/error.h"
#include "common/base/number.h"
#include "safetensors.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- what is in a file -------------------------------------------------------------------------

typedef struct Contents {
    Tensor **tensors; // in the network's memory
    int n;
    Counts counts;
} Contents;

static void add_tensor(Contents *c, const Tensor *t, const char *prefix, const char *name) {
    Tensor *named = xmalloc(sizeof *named);
    *named = *t;
    named->name = xprintf("%s%s", prefix, name);
    c->tensors = xgrow(c->tensors, (size_t)(c->n + 1), sizeof *c->tensors);
    c->tensors[c->n++] = named;
}

// All copies of device 0, and the statistics of the other replicas.
static Contents contents_of(const Module *net, Device *const devices[], int replicas) {
    Contents c = {.counts = counts_of(net, false)};
    Parameters all = parameters_of(net);
    for (int i = 0; i < replicas; i++) {
        char *prefix = i == 0 ? xstrdup("") : xprintf("replica%d.", i);
        for (int p = 0; p < all.n; p++)
            if (i == 0 || !all.list[p]->trained)
                add_tensor(&c, parameter_data(all.list[p], devices[i]), prefix, all.list[p]->name);
        free(prefix);
    }
    return c;
}

static void add_start(Contents *c, const Module *net) {
    Parameters all = parameters_of(net);
    for (int p = 0; p < all.n; p++) add_tensor(c, all.list[p]->start, "", all.list[p]->name);
    c->counts = counts_of(net, true);
}

static void free_contents(Contents *c) {
    for (int t = 0; t < c->n; t++) {
        free((char *)c->tensors[t]->name);
        free(c->tensors[t]);
    }
    free(c->tensors);
    free_counts(&c->counts);
}

static void save(const char *path, const Contents *c, const struct SafetensorsText *texts, int n) {
    safetensors_save_with(
        path, c->tensors, c->n,
        &(SafetensorsExtras){
            .counts = c->counts.list, .num_counts = c->counts.n, .texts = texts, .num_texts = n});
}

// The file may have more tensors, if their names begin with one of `others`.
static void load(const char *path, Contents *c, const char *const others[]) {
    SafetensorsExtras extras = {c->counts.list, c->counts.n, .others = others};
    safetensors_load_with(path, c->tensors, c->n, &extras);
}

// ---- parameters --------------------------------------------------------------------------------

void save_parameters(Module *net, Device *device, const char *path) {
    Contents c = contents_of(net, &device, 1);
    save(path, &c, NULL, 0);
    free_contents(&c);
}

void load_parameters(Module *net, const char *path) {
    Contents c = {0};
    add_start(&c, net);
    load(path, &c, (const char *const[]){"start.", "replica", NULL});
    set_counts(net, &c.counts, true);
    free_contents(&c);
    restart(net);
}

// ---- checkpoints -------------------------------------------------------------------------------

enum { MOST_RUNS = 2, MOST_EPOCHS = 1000000 };
static const char damaged[] = "the file is damaged: go on from another checkpoint";

void checkpoint_save(const char *path, const Checkpoint *checkpoint, const Module *net,
                     Device *const devices[], int replicas) {
    Contents c = contents_of(net, devices, replicas);
    char run[16], epoch[16], step[32];
    snprintf(run, sizeof run, "%d", checkpoint->run);
    snprintf(epoch, sizeof epoch, "%d", checkpoint->epoch);
    snprintf(step, sizeof step, "%ld", checkpoint->step);
    const struct SafetensorsText texts[] = {{"run", run},
                                            {"epoch", epoch},
                                            {"step", step},
                                            {"length", checkpoint->length},
                                            {"settings", checkpoint->settings},
                                            {"history", checkpoint->history}};
    save(path, &c, texts, sizeof texts / sizeof texts[0]);
    free_contents(&c);
}

static char *text_in(const SafetensorsFile *file, const char *path, const char *key) {
    const char *text = safetensors_text(file, key);
    if (!text)
        die("give a file that --checkpoint wrote; parameters alone are for --load",
            "%s: is no checkpoint: it does not say the \"%s\"", path, key);
    return xstrdup(text);
}

static long number_in(const SafetensorsFile *file, const char *path, const char *key, long least,
                      long most) {
    char *text = text_in(file, path, key);
    long number;
    if (!read_whole(text, least, most, &number))
        die(damaged, "%s: the \"%s\" is no number from %ld to %ld: '%.40s'", path, key, least, most,
            text);
    free(text);
    return number;
}

// Until 28 November 2026, a checkpoint held the parameters that --load had read.
static void refuse_older(const SafetensorsFile *file, const char *path) {
    const char *start = safetensors_text(file, "start");
    if (start && strcmp(start, "seed") != 0)
        die("go on with that version, or train again",
            "%s: was written, after --load, by a version of November 2026 or before", path);
}

Checkpoint checkpoint_open(const char *path) {
    SafetensorsFile file = safetensors_open(path);
    refuse_older(&file, path);
    Checkpoint checkpoint = {.run = (int)number_in(&file, path, "run", 0, MOST_RUNS - 1),
                             .epoch = (int)number_in(&file, path, "epoch", 1, MOST_EPOCHS),
                             .step = number_in(&file, path, "step", 1, LONG_MAX),
                             .length = text_in(&file, path, "length"),
                             .settings = text_in(&file, path, "settings"),
                             .history = text_in(&file, path, "history")};
    safetensors_close(&file);
    return checkpoint;
}

void checkpoint_close(Checkpoint *checkpoint) {
    free(checkpoint->settings);
    free(checkpoint->length);
    free(checkpoint->history);
    *checkpoint = (Checkpoint){0};
}

const char checkpoint_same_flags[] =
    "give the flags of the run that wrote the checkpoint, and --resume";

void checkpoint_check(const char *path, const Checkpoint *checkpoint, const char *settings,
                      const char *length, long batches, long batches_now, long last) {
    long now = checkpoint->epoch * batches_now;
    if (strcmp(settings, checkpoint->settings) != 0)
        die(checkpoint_same_flags, "%s: was written with %s; now: %s", path, checkpoint->settings,
            settings);
    if (checkpoint->step != checkpoint->epoch * batches)
        die(damaged, "%s: %ld minibatches are not the %d epochs that it tells of", path,
            checkpoint->step, checkpoint->epoch);
    if (now > last)
        die("give a larger --epochs, or leave --steps out",
            "%s: is after minibatch %ld, the training ends after %ld", path, now, last);
    if (checkpoint->run > 0 && strcmp(length, checkpoint->length) != 0)
        die(checkpoint_same_flags, "%s: the run before had %s; now: %s", path, checkpoint->length,
            length);
}

void checkpoint_load(const char *path, Module *net, Device *const devices[], int k, int replicas) {
    Contents c = contents_of(net, devices, replicas);
    load(path, &c, (const char *const[]){"start.", NULL});
    set_counts(net, &c.counts, false);
    free_contents(&c);
    Parameters all = parameters_of(net);
    for (int p = 0; p < all.n; p++)
        for (int i = all.list[p]->trained ? 1 : replicas; i < k; i++)
            tensor_copy(parameter_data(all.list[p], devices[i]),
                        parameter_data(all.list[p], devices[0]));
    synchronize_all();
}
