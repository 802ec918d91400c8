// checkpoint.c: a file for each device, with the parts that it updates; see behind.h.
//
// The files do not depend on the stage: with DDP, too, each has one part of everything. A file also
// has the checksums of all files. So a file of another checkpoint, or one that was changed, is
// found. All files are read and checked before the first number is used.
#include "behind.h"

#include "common/base/error.h"
#include "common/base/number.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { KINDS = 3 };
static const char *const kinds[KINDS] = {"parameters", "exp_avg", "exp_avg_sq"};

static char *file_of(const char *prefix, int i) { return xprintf("%s-%d.safetensors", prefix, i); }

// What device i updates of unit u: the parameters and their moments.
static void updated_by(const Zero *z, int u, int i, Tensor *kind[KINDS]) {
    AdamState state = adam_state(z->adam[i], u);
    kind[0] = z->shards[u][i].own;
    kind[1] = state.exp_avg;
    kind[2] = state.exp_avg_sq;
}

static uint32_t checksum(uint32_t before, const float *values, size_t n) {
    return (uint32_t)crc32(before, (const unsigned char *)values, (uInt)(n * sizeof(float)));
}

// "640 128 73984 ..": the floats of each unit.
static char *units_of(const Zero *z) {
    char *text = xstrdup("");
    for (int u = 0; u < z->num_units; u++) {
        char *longer = xprintf("%s%zu ", text, z->units[u].floats);
        free(text);
        text = longer;
    }
    return text;
}

// ## Saving

// Tensors of one file, on the host, and their checksum.
typedef struct Content {
    Tensor **tensors;
    int n;
    uint32_t sum;
} Content;

// The part of a tensor. (name is freed with it.)
static void keep_part(Content *c, const Tensor *t, Range part, char *name) {
    Tensor *slice = tensor_slice(t, (size_t)part.first, 1, (int[]){(int)part.count});
    Tensor *copy = tensor_to(slice, host());
    tensor_free(slice);
    copy->name = name;
    c->tensors = xgrow(c->tensors, (size_t)c->n + 1, sizeof *c->tensors);
    c->tensors[c->n++] = copy;
    synchronize_all();
    c->sum = checksum(c->sum, copy->data, numel(copy));
}

static Content content_of(const Zero *z, int i) {
    Content c = {0};
    for (int u = 0; u < z->num_units; u++) {
        Tensor *kind[KINDS];
        Range part = {0, own_part(z, u, i).count};
        if (z->ddp) part = equal_range((long)z->units[u].floats, z->k, i);
        updated_by(z, u, i, kind);
        for (int n = 0; n < KINDS; n++)
            keep_part(&c, kind[n], part, xprintf("unit%d.%s", u, kinds[n]));
    }
    Parameters all = parameters_of(z->net);
    for (int p = 0; p < all.n; p++) {
        const Parameter *buffer = all.list[p];
        Range whole = {0, (long)numel(buffer->start)};
        if (!buffer->trained)
            keep_part(&c, parameter_data(buffer, z->devices[i]), whole, xstrdup(buffer->name));
    }
    return c;
}

static void free_content(Content *c) {
    for (int t = 0; t < c->n; t++) {
        free((char *)c->tensors[t]->name);
        tensor_free(c->tensors[t]);
    }
    free(c->tensors);
}

void zero_save(const Zero *z, const char *settings, const char *prefix) {
    Content content[MAX_DEVICES];
    char sums[9 * MAX_DEVICES + 1] = "", devices[16], device[16], step[32];
    for (int i = 0; i < z->k; i++) {
        content[i] = content_of(z, i);
        snprintf(sums + 9 * i, 10, "%08x ", content[i].sum);
    }
    Counts counts = counts_of(z->net, false);
    char *units = units_of(z);
    snprintf(devices, sizeof devices, "%d", z->k);
    snprintf(step, sizeof step, "%ld", *adam_state(z->adam[0], 0).step);
    for (int i = 0; i < z->k; i++) {
        char *path = file_of(prefix, i);
        snprintf(device, sizeof device, "%d", i);
        const struct SafetensorsText texts[] = {{"devices", devices}, {"device", device},
                                                {"step", step},       {"units", units},
                                                {"checksums", sums},  {"settings", settings}};
        safetensors_save_with(path, content[i].tensors, content[i].n,
                              &(SafetensorsExtras){.counts = counts.list,
                                                   .num_counts = counts.n,
                                                   .texts = texts,
                                                   .num_texts = sizeof texts / sizeof texts[0]});
        free_content(&content[i]);
        free(path);
    }
    free(units);
    free_counts(&counts);
}

void zero_remove(const char *prefix, int k) {
    for (int i = 0; i < k; i++) {
        char *path = file_of(prefix, i);
        remove(path);
        free(path);
    }
}

// ## Reading and checking

typedef struct Files {
    int k;
    SafetensorsFile file[MAX_DEVICES];
    char *path[MAX_DEVICES];
    size_t *floats; // of each of num_units units
    int num_units;
} Files;

static const char other_files[] = "give the files of one checkpoint, as they were written";

static const char *text_in(const Files *f, int i, const char *key) {
    const char *text = safetensors_text(&f->file[i], key);
    if (!text)
        die("give files that --checkpoint wrote", "%s: is no part of a checkpoint, without \"%s\"",
            f->path[i], key);
    return text;
}

static long number_in(const Files *f, int i, const char *key, long least, long most) {
    long number;
    if (!read_whole(text_in(f, i, key), least, most, &number))
        die(other_files, "%s: its \"%s\" is no number from %ld to %ld", f->path[i], key, least,
            most);
    return number;
}

static void open_file(Files *f, const char *prefix, int i) {
    f->path[i] = file_of(prefix, i);
    f->file[i] = safetensors_open(f->path[i]);
}

static const SafetensorsEntry *entry_in(const Files *f, int i, const char *name, size_t floats) {
    const SafetensorsEntry *entry = safetensors_find(&f->file[i], name);
    if (!entry || !entry->values || entry->count != floats)
        die(other_files, "%s: has no tensor \"%s\" of %zu floats", f->path[i], name, floats);
    return entry;
}

static const float *part_in(const Files *f, int i, int u, const char *kind, Range *part) {
    char name[64];
    *part = equal_range((long)f->floats[u], f->k, i);
    snprintf(name, sizeof name, "unit%d.%s", u, kind);
    return entry_in(f, i, name, (size_t)part->count)->values;
}

static const float *buffer_in(const Files *f, int i, const Parameter *buffer) {
    return entry_in(f, i, buffer->name, numel(buffer->start))->values;
}

// The same values in the same order as content_of().
static uint32_t checksum_of(const Files *f, const Module *net, int i) {
    uint32_t sum = 0;
    Parameters all = parameters_of(net);
    for (int u = 0; u < f->num_units; u++)
        for (int n = 0; n < KINDS; n++) {
            Range part;
            const float *values = part_in(f, i, u, kinds[n], &part);
            sum = checksum(sum, values, (size_t)part.count);
        }
    for (int p = 0; p < all.n; p++)
        if (!all.list[p]->trained)
            sum = checksum(sum, buffer_in(f, i, all.list[p]), numel(all.list[p]->start));
    return sum;
}

static void read_units(Files *f, const Module *net) {
    const char *at = text_in(f, 0, "units");
    size_t all = 0, floats;
    int read = 0;
    for (; sscanf(at, "%zu %n", &floats, &read) == 1; at += read) {
        f->floats = xgrow(f->floats, (size_t)f->num_units + 1, sizeof *f->floats);
        f->floats[f->num_units++] = floats;
        all += floats;
    }
    if (*at || all != parameter_bytes(net) / sizeof(float))
        die(other_files, "%s: is of another network", f->path[0]);
}

static void check_file(const Files *f, const Module *net, int i) {
    static const char *const same[] = {"devices", "step", "units", "checksums", "settings"};
    char sum[16];
    for (size_t n = 0; n < sizeof same / sizeof same[0]; n++)
        if (strcmp(text_in(f, i, same[n]), text_in(f, 0, same[n])) != 0)
            die(other_files, "%s: is of another checkpoint than %s: its %s are not the same",
                f->path[i], f->path[0], same[n]);
    if (number_in(f, i, "device", 0, MAX_DEVICES - 1) != i)
        die(other_files, "%s: is the part of device %s", f->path[i], text_in(f, i, "device"));
    snprintf(sum, sizeof sum, "%08x", checksum_of(f, net, i));
    if (strncmp(text_in(f, i, "checksums") + 9 * i, sum, 8) != 0)
        die("the file is damaged: go on from another checkpoint",
            "%s: its numbers are not those that were written", f->path[i]);
}

static Files read_files(const Zero *z, const char *settings, const char *prefix) {
    Files f = {0};
    open_file(&f, prefix, 0);
    f.k = (int)number_in(&f, 0, "devices", 1, MAX_DEVICES);
    if (strcmp(text_in(&f, 0, "settings"), settings) != 0)
        die("give the flags of the run that wrote it", "%s: was written with %s; now: %s",
            f.path[0], text_in(&f, 0, "settings"), settings);
    for (int i = 1; i < f.k; i++) open_file(&f, prefix, i);
    read_units(&f, z->net);
    if (strlen(text_in(&f, 0, "checksums")) != 9 * (size_t)f.k)
        die(other_files, "%s: has not a checksum for each of %d files", f.path[0], f.k);
    for (int i = 0; i < f.k; i++) check_file(&f, z->net, i);
    return f;
}

static void close_files(Files *f) {
    for (int i = 0; i < f->k; i++) {
        safetensors_close(&f->file[i]);
        free(f->path[i]);
    }
    free(f->floats);
}

// ## Dividing among other devices

// All parameters, or one of the moments, in the order of FlatParameters.
static float *put_together(const Files *f, const Module *net, const char *kind) {
    float *all = xmalloc(parameter_bytes(net)), *unit = all;
    for (int u = 0; u < f->num_units; unit += f->floats[u++])
        for (int i = 0; i < f->k; i++) {
            Range part;
            const float *values = part_in(f, i, u, kind, &part);
            memcpy(unit + part.first, values, sizeof(float) * (size_t)part.count);
        }
    return all;
}

static void load_parts(Zero *z, const float *all, int n) {
    for (int u = 0; u < z->num_units; u++)
        for (int i = 0; i < z->k; i++) {
            Tensor *kind[KINDS];
            updated_by(z, u, i, kind);
            tensor_write(kind[n], all + z->units[u].first + (size_t)own_part(z, u, i).first);
        }
}

// With ZeRO-1 and ZeRO-2, each device also has the parameters that others update.
static void load_all_parameters(Zero *z, const float *all) {
    for (int u = 0; u < z->num_units; u++)
        for (int i = 0; i < z->k; i++) {
            Tensor *full = z->shards[u][i].full;
            if (full) tensor_write(full, all + z->units[u].first);
        }
}

// Running statistics: each device its own if there are as many devices as then, else device 0's.
static void load_buffers(Zero *z, const Files *f) {
    Parameters all = parameters_of(z->net);
    for (int p = 0; p < all.n; p++)
        for (int i = 0; i < z->k && !all.list[p]->trained; i++)
            tensor_write(parameter_data(all.list[p], z->devices[i]),
                         buffer_in(f, z->k == f->k ? i : 0, all.list[p]));
    Counts counts = counts_of(z->net, false);
    for (int c = 0; c < counts.n; c++) {
        const SafetensorsEntry *count = safetensors_find(&f->file[0], counts.list[c].name);
        if (count && count->integers) counts.list[c].value = count->integers[0];
    }
    set_counts(z->net, &counts, false);
    free_counts(&counts);
}

long zero_load(Zero *z, const char *settings, const char *prefix) {
    Files f = read_files(z, settings, prefix);
    long step = number_in(&f, 0, "step", 1, LONG_MAX);
    for (int n = 0; n < KINDS; n++) {
        float *all = put_together(&f, z->net, kinds[n]);
        load_parts(z, all, n);
        if (n == 0) load_all_parameters(z, all);
        free(all);
    }
    load_buffers(z, &f);
    for (int i = 0; i < z->k; i++) *adam_state(z->adam[i], 0).step = step;
    close_files(&f);
    return step;
}
