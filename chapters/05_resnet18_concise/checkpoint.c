// checkpoint.c: see checkpoint.h.
#include "checkpoint.h"

#include "../../common/error.h"
#include "../../common/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- what is in it -----------------------------------------------------------------------------

typedef struct Contents {
    Tensor *tensors; // the same memory as the network's, under the names in the file
    Tensor **list;
    int n;
    Counts counts;
} Contents;

static void add_tensor(Contents *c, const Tensor *t, char *name) {
    c->tensors = xrealloc(c->tensors, sizeof(Tensor) * (size_t)(c->n + 1));
    c->tensors[c->n] = *t;
    c->tensors[c->n++].name = name;
}

// Device 0's copy of everything; of the other replicas the statistics, if each has its own
// ("replica1.1.running_mean"). All else is the same on all devices.
static Contents contents_of(const DataParallel *dp) {
    Contents c = {0};
    Parameters all = parameters_of(dp->net);
    for (int p = 0; p < all.n; p++)
        add_tensor(&c, parameter_data(all.list[p], dp->devices[0]), xstrdup(all.list[p]->name));
    for (int i = 1; dp->bn == BN_LOCAL && i < dp->k; i++)
        for (int p = 0; p < all.n; p++)
            if (!all.list[p]->trained)
                add_tensor(&c, parameter_data(all.list[p], dp->devices[i]),
                           xprintf("replica%d.%s", i, all.list[p]->name));
    c.list = xmalloc(sizeof(Tensor *) * (size_t)c.n);
    for (int t = 0; t < c.n; t++) c.list[t] = &c.tensors[t];
    c.counts = counts_of(dp->net);
    return c;
}

static void free_contents(Contents *c) {
    for (int t = 0; t < c->n; t++) free((char *)c->tensors[t].name);
    free(c->tensors);
    free(c->list);
    free_counts(&c->counts);
}

// ---- save, load --------------------------------------------------------------------------------

void checkpoint_save(const char *path, const Checkpoint *checkpoint, const DataParallel *dp) {
    Contents c = contents_of(dp);
    char run[16], epoch[16], step[32];
    snprintf(run, sizeof run, "%d", checkpoint->run);
    snprintf(epoch, sizeof epoch, "%d", checkpoint->epoch);
    snprintf(step, sizeof step, "%ld", checkpoint->step);
    const struct SafetensorsText texts[] = {{"run", run},
                                            {"epoch", epoch},
                                            {"step", step},
                                            {"settings", checkpoint->settings},
                                            {"history", checkpoint->history}};
    safetensors_save_with(
        path, c.list, c.n,
        &(SafetensorsExtras){c.counts.list, c.counts.n, texts, sizeof texts / sizeof texts[0]});
    free_contents(&c);
}

static char *text_in(const SafetensorsFile *file, const char *path, const char *key) {
    const char *text = safetensors_text(file, key);
    if (!text)
        die("give a file that --checkpoint wrote; parameters alone are for --load",
            "%s: is no checkpoint: it does not say the \"%s\"", path, key);
    return xstrdup(text);
}

static long number_in(const SafetensorsFile *file, const char *path, const char *key) {
    char *text = text_in(file, path, key), *end;
    long number = strtol(text, &end, 10);
    if (end == text || *end || number < 0)
        die("the file is damaged", "%s: the \"%s\" is not a number: '%.40s'", path, key, text);
    free(text);
    return number;
}

Checkpoint checkpoint_open(const char *path) {
    SafetensorsFile file = safetensors_open(path);
    Checkpoint checkpoint = {.run = (int)number_in(&file, path, "run"),
                             .epoch = (int)number_in(&file, path, "epoch"),
                             .step = number_in(&file, path, "step"),
                             .settings = text_in(&file, path, "settings"),
                             .history = text_in(&file, path, "history")};
    safetensors_close(&file);
    return checkpoint;
}

void checkpoint_close(Checkpoint *checkpoint) {
    free(checkpoint->settings);
    free(checkpoint->history);
    *checkpoint = (Checkpoint){0};
}

void checkpoint_load(const char *path, DataParallel *dp) {
    Contents c = contents_of(dp);
    SafetensorsExtras extras = {.counts = c.counts.list, .num_counts = c.counts.n};
    safetensors_load_with(path, c.list, c.n, &extras);
    set_counts(dp->net, &c.counts);
    free_contents(&c);
    Parameters all = parameters_of(dp->net);
    for (int p = 0; p < all.n; p++)
        for (int i = 1; i < dp->k; i++)
            if (all.list[p]->trained || dp->bn != BN_LOCAL)
                tensor_copy(parameter_data(all.list[p], dp->devices[i]),
                            parameter_data(all.list[p], dp->devices[0]));
    synchronize_all();
}
