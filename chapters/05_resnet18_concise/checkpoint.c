// checkpoint.c: see checkpoint.h.
#include "checkpoint.h"

#include "common/base/error.h"
#include "common/base/number.h"
#include "common/data/safetensors.h"

#include <limits.h>
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

static const char START[] = "start.", REPLICA[] = "replica";

static void add_tensor(Contents *c, const Tensor *t, char *name) {
    c->tensors = xgrow(c->tensors, (size_t)(c->n + 1), sizeof(Tensor));
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
    int replicas = dp->bn == BN_LOCAL ? dp->k : 1;
    for (int i = 1; i < replicas; i++)
        for (int p = 0; p < all.n; p++)
            if (!all.list[p]->trained)
                add_tensor(&c, parameter_data(all.list[p], dp->devices[i]),
                           xprintf("%s%d.%s", REPLICA, i, all.list[p]->name));
    c.counts = counts_of(dp->net);
    return c;
}

static void add_count(Counts *counts, const char *prefix, const NamedCount *count) {
    counts->list = xgrow(counts->list, (size_t)(counts->n + 1), sizeof *counts->list);
    counts->list[counts->n++] = (NamedCount){xprintf("%s%s", prefix, count->name), count->value};
}

// What the network starts from, under names with a prefix.
static void add_start(Contents *c, const Module *net, const Counts *counts, const char *prefix) {
    Parameters all = parameters_of(net);
    for (int p = 0; p < all.n; p++)
        add_tensor(c, all.list[p]->start, xprintf("%s%s", prefix, all.list[p]->name));
    for (int i = 0; i < counts->n; i++) add_count(&c->counts, prefix, &counts->list[i]);
}

// When all tensors are in it.
static Tensor **list_of(Contents *c) {
    c->list = xmalloc(sizeof(Tensor *) * (size_t)c->n);
    for (int t = 0; t < c->n; t++) c->list[t] = &c->tensors[t];
    return c->list;
}

static void free_contents(Contents *c) {
    for (int t = 0; t < c->n; t++) free((char *)c->tensors[t].name);
    free(c->tensors);
    free(c->list);
    free_counts(&c->counts);
}

// ---- the start ---------------------------------------------------------------------------------

Start start_of(const Module *net) { return (Start){.counts = counts_of(net)}; }

void load_start(Start *start, Module *net, const char *path, bool held) {
    static const char *const any[] = {"", NULL}, *const besides[] = {START, REPLICA, NULL};
    Contents c = {0};
    add_start(&c, net, &start->counts, held ? START : "");
    SafetensorsExtras extras = {c.counts.list, c.counts.n, .others = held ? any : besides};
    safetensors_load_with(path, list_of(&c), c.n, &extras);
    for (int i = 0; i < start->counts.n; i++) start->counts.list[i].value = c.counts.list[i].value;
    free_contents(&c);
    start->from_file = true;
    begin_again(net, start);
}

void begin_again(Module *net, const Start *start) {
    restart(net);
    set_counts(net, &start->counts);
}

// ---- save, load --------------------------------------------------------------------------------

static const char *const starts[] = {"seed", "file", "held"};
enum { MOST_RUNS = 2, MOST_EPOCHS = 1000000 };

void checkpoint_save(const char *path, const Checkpoint *checkpoint, const Start *start,
                     const DataParallel *dp) {
    Contents c = contents_of(dp);
    if (checkpoint->start == START_HELD) add_start(&c, dp->net, &start->counts, START);
    char run[16], epoch[16], step[32];
    snprintf(run, sizeof run, "%d", checkpoint->run);
    snprintf(epoch, sizeof epoch, "%d", checkpoint->epoch);
    snprintf(step, sizeof step, "%ld", checkpoint->step);
    const struct SafetensorsText texts[] = {{"run", run},
                                            {"epoch", epoch},
                                            {"step", step},
                                            {"loss", checkpoint->loss},
                                            {"start", starts[checkpoint->start]},
                                            {"length", checkpoint->length},
                                            {"settings", checkpoint->settings},
                                            {"history", checkpoint->history}};
    safetensors_save_with(path, list_of(&c), c.n,
                          &(SafetensorsExtras){.counts = c.counts.list,
                                               .num_counts = c.counts.n,
                                               .texts = texts,
                                               .num_texts = sizeof texts / sizeof texts[0]});
    free_contents(&c);
}

const char checkpoint_damaged[] = "the file is damaged: go on from another checkpoint";

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
        die(checkpoint_damaged, "%s: the \"%s\" is no number from %ld to %ld: '%.40s'", path, key,
            least, most, text);
    free(text);
    return number;
}

static int start_in(const SafetensorsFile *file, const char *path) {
    char *text = text_in(file, path, "start");
    int start = FROM_SEED;
    while (start <= START_HELD && strcmp(text, starts[start]) != 0) start++;
    if (start > START_HELD)
        die(checkpoint_damaged, "%s: the \"start\" is neither seed nor file nor held: '%.40s'",
            path, text);
    free(text);
    return start;
}

Checkpoint checkpoint_open(const char *path) {
    SafetensorsFile file = safetensors_open(path);
    Checkpoint checkpoint = {.run = (int)number_in(&file, path, "run", 0, MOST_RUNS - 1),
                             .epoch = (int)number_in(&file, path, "epoch", 1, MOST_EPOCHS),
                             .step = number_in(&file, path, "step", 1, LONG_MAX),
                             .loss = text_in(&file, path, "loss"),
                             .start = start_in(&file, path),
                             .length = text_in(&file, path, "length"),
                             .settings = text_in(&file, path, "settings"),
                             .history = text_in(&file, path, "history")};
    safetensors_close(&file);
    return checkpoint;
}

void checkpoint_close(Checkpoint *checkpoint) {
    free(checkpoint->loss);
    free(checkpoint->settings);
    free(checkpoint->length);
    free(checkpoint->history);
    *checkpoint = (Checkpoint){0};
}

void checkpoint_check(const char *path, const Checkpoint *checkpoint, const char *settings,
                      long batches, long batches_now, long last) {
    long now = checkpoint->epoch * batches_now;
    if (strcmp(settings, checkpoint->settings) != 0)
        die("give the flags of the run that wrote the checkpoint, and --resume",
            "%s: was written with %s; now: %s", path, checkpoint->settings, settings);
    if (checkpoint->step != checkpoint->epoch * batches)
        die(checkpoint_damaged, "%s: %ld minibatches are not the %d epochs that it tells of", path,
            checkpoint->step, checkpoint->epoch);
    if (now > last)
        die("give a larger --epochs, or leave --steps out",
            "%s: is after minibatch %ld, the training ends after %ld", path, now, last);
}

void checkpoint_load(const char *path, DataParallel *dp) {
    Contents c = contents_of(dp);
    static const char *const besides[] = {START, NULL};
    SafetensorsExtras extras = {c.counts.list, c.counts.n, .others = besides};
    safetensors_load_with(path, list_of(&c), c.n, &extras);
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
