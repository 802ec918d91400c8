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
    load(path, &c, (const char *const[]){"replica", NULL});
    set_counts(net, &c.counts, true);
    free_contents(&c);
    restart(net);
}

// ---- checkpoints -------------------------------------------------------------------------------

void checkpoint_save(const char *path, const Module *net, Device *const devices[], int replicas,
                     int epoch, const char *settings, const char *history) {
    Contents c = contents_of(net, devices, replicas);
    char epochs[16];
    snprintf(epochs, sizeof epochs, "%d", epoch);
    const struct SafetensorsText texts[] = {
        {"epoch", epochs}, {"settings", settings}, {"history", history}};
    save(path, &c, texts, sizeof texts / sizeof texts[0]);
    free_contents(&c);
}

static const char *text_in(const SafetensorsFile *file, const char *path, const char *key) {
    const char *text = safetensors_text(file, key);
    if (!text)
        die("give a file that --checkpoint wrote; parameters alone are for --load",
            "%s: is no checkpoint: it does not say the \"%s\"", path, key);
    return text;
}

// Returns how many epochs are done.
static int read_texts(const char *path, const char *settings, long most_epochs, char **history) {
    SafetensorsFile file = safetensors_open(path);
    const char *epoch = text_in(&file, path, "epoch"), *then = text_in(&file, path, "settings");
    long epochs;
    if (strcmp(settings, then) != 0)
        die("give the flags of the run that wrote the checkpoint, and --resume",
            "%s: was written with %s; now: %s", path, then, settings);
    if (!read_whole(epoch, 1, INT_MAX, &epochs))
        die("the file is damaged: go on from another checkpoint",
            "%s: the \"epoch\" is no number from 1 to %d: '%.40s'", path, INT_MAX, epoch);
    if (epochs > most_epochs)
        die("give a larger --epochs, or leave --steps out",
            "%s: is after epoch %ld, the training ends after %ld", path, epochs, most_epochs);
    *history = xstrdup(text_in(&file, path, "history"));
    safetensors_close(&file);
    return (int)epochs;
}

int checkpoint_load(const char *path, Module *net, Device *const devices[], int k, int replicas,
                    const char *settings, long most_epochs, char **history) {
    int epoch = read_texts(path, settings, most_epochs, history);
    Contents c = contents_of(net, devices, replicas);
    load(path, &c, (const char *const[]){NULL});
    set_counts(net, &c.counts, false);
    free_contents(&c);
    Parameters all = parameters_of(net);
    for (int p = 0; p < all.n; p++)
        for (int i = all.list[p]->trained ? 1 : replicas; i < k; i++)
            tensor_copy(parameter_data(all.list[p], devices[i]),
                        parameter_data(all.list[p], devices[0]));
    synchronize_all();
    return epoch;
}
