// safetensors.c: reads and writes safetensors files, https://github.com/huggingface/safetensors.
//
// Nothing that a file says is trusted: every number is compared with the size of the file before
// memory is allocated, and each byte of the data must belong to exactly one tensor.
#include "safetensors.h"
#include "common/base/error.h"
#include "common/base/file.h"

#include <errno.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format is little-endian");

enum {
    LENGTH_BYTES = 8, // the header's length, before the header
    ALIGNMENT = 8,    // of the data
    MOST_DIMS = sizeof((SafetensorsEntry){0}.shape) / sizeof(int),
};

static const char *const save_again =
    "save or copy it again, in PyTorch with safetensors.torch.save_file(net.state_dict(), FILE)";

// ---- reading: the header ---------------------------------------------------------------------

// A file whose header has been read, but not its data.
typedef struct Reading {
    const char *path;
    FILE *stream;
    size_t data_size;
} Reading;

static FILE *open_regular_file(const char *path, size_t *size) {
    struct stat status;
    FILE *stream = NULL;
    // (stat() comes first, because opening a pipe would wait for a writer.)
    if (stat(path, &status) == 0) {
        if (!S_ISREG(status.st_mode)) die("give the name of a file", "%s: is not a file", path);
        stream = fopen(path, "rbe");
    }
    if (!stream) die("check the file's name", "%s: cannot read: %s", path, strerror(errno));
    *size = (size_t)status.st_size;
    return stream;
}

static void read_exactly(const Reading *r, void *buffer, size_t size) {
    if (fread(buffer, 1, size, r->stream) == size) return;
    die(save_again, "%s: cannot read: %s", r->path,
        ferror(r->stream) ? strerror(errno) : "it became shorter");
}

// Reads the header, and sets r->data_size.
static json_t *read_header(Reading *r, size_t file_size) {
    json_t *header = NULL;
    uint64_t size = 0; // believed only if the file has so many bytes
    if (file_size >= LENGTH_BYTES) read_exactly(r, &size, LENGTH_BYTES);
    if (size > 0 && size <= file_size - LENGTH_BYTES) {
        char *text = xmalloc(size);
        read_exactly(r, text, size);
        header = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
        free(text);
    }
    if (!json_is_object(header)) die(save_again, "%s: not a safetensors file", r->path);
    r->data_size = file_size - LENGTH_BYTES - size;
    return header;
}

static void read_metadata(const char *path, json_t *metadata, SafetensorsFile *file) {
    file->texts = xcalloc(json_object_size(metadata) + 1, sizeof *file->texts);
    bool good = json_is_object(metadata) || json_is_null(metadata);
    const char *key;
    json_t *value;
    json_object_foreach(metadata, key, value) {
        good = good && json_is_string(value);
        if (good)
            file->texts[file->num_texts++] =
                (struct SafetensorsText){xstrdup(key), xstrdup(json_string_value(value))};
    }
    if (!good) die(save_again, "%s: damaged: its __metadata__ has more than texts", path);
}

// True if the value is an integer of 0..most.
static bool read_integer(const json_t *value, size_t most, size_t *result) {
    if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
    *result = (size_t)json_integer_value(value);
    return *result <= most;
}

// Whether this is a shape of numbers that have so many bytes together.
static bool read_shape(const json_t *shape, SafetensorsEntry *entry, size_t *bytes) {
    size_t ndim = json_array_size(shape), size;
    if (!json_is_array(shape) || ndim > MOST_DIMS) return false;
    entry->ndim = (int)ndim;
    entry->count = 1;
    for (size_t i = 0; i < ndim; i++) {
        if (!read_integer(json_array_get(shape, i), INT32_MAX, &size)) return false;
        entry->shape[i] = (int)size;
        if (__builtin_mul_overflow(entry->count, size, &entry->count) ||
            __builtin_mul_overflow(*bytes, size, bytes))
            return false;
    }
    return true;
}

// One tensor of the header. Its type, its shape and its place in the data must agree.
static void read_entry(const Reading *r, const json_t *info, SafetensorsEntry *entry) {
    const char *dtype = json_string_value(json_object_get(info, "dtype"));
    const json_t *offsets = json_object_get(info, "data_offsets");
    bool f32 = dtype && strcmp(dtype, "F32") == 0, i64 = dtype && strcmp(dtype, "I64") == 0;
    size_t bytes = i64 ? sizeof(int64_t) : sizeof(float);
    if (dtype && !f32 && !i64)
        die("convert it in PyTorch with .float() before you save it",
            "%s: tensor \"%.100s\" has dtype %.20s; it must be F32", r->path, entry->name, dtype);
    entry->dtype = i64 ? "I64" : "F32";
    if (!dtype || !read_shape(json_object_get(info, "shape"), entry, &bytes) ||
        json_array_size(offsets) != 2 ||
        !read_integer(json_array_get(offsets, 0), r->data_size, &entry->begin) ||
        !read_integer(json_array_get(offsets, 1), r->data_size, &entry->end) ||
        entry->begin > entry->end || entry->end - entry->begin != bytes)
        die(save_again,
            "%s: damaged: type, shape and data_offsets of tensor \"%.100s\" do not "
            "fit",
            r->path, entry->name);
}

static int by_begin(const void *a, const void *b) {
    const SafetensorsEntry *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end); // empty tensors first
}

// Sorts the tensors by their place in the data. Each must begin where the one before it ends.
static void check_places(const Reading *r, SafetensorsEntry *entries, int n) {
    if (n > 0) qsort(entries, (size_t)n, sizeof *entries, by_begin);
    size_t end = 0;
    int i = 0;
    for (; i < n && entries[i].begin == end; i++) end = entries[i].end;
    if (i < n || end != r->data_size)
        die(save_again, "%s: damaged: its tensors overlap or leave gaps", r->path);
}

// ---- reading: the whole file -----------------------------------------------------------------

// Opens the file and reads the header: all tensors, without their values.
static SafetensorsFile begin_reading(const char *path, Reading *r) {
    size_t file_size;
    *r = (Reading){.path = path, .stream = open_regular_file(path, &file_size)};
    json_t *header = read_header(r, file_size);

    SafetensorsFile file = {0};
    file.entries = xcalloc(json_object_size(header) + 1, sizeof *file.entries);
    const char *name;
    json_t *info;
    json_object_foreach(header, name, info) {
        if (strcmp(name, "__metadata__") == 0) {
            read_metadata(path, info, &file);
            continue;
        }
        SafetensorsEntry *entry = &file.entries[file.n++];
        entry->name = xstrdup(name);
        read_entry(r, info, entry);
    }
    json_decref(header);
    check_places(r, file.entries, file.n);
    return file;
}

// Each tensor gets memory at a multiple of ALIGNMENT, whatever its place in the file.
static void read_values(Reading *r, SafetensorsFile *file) {
    char *to = file->data = xmalloc(r->data_size + ALIGNMENT * ((size_t)file->n + 1));
    for (SafetensorsEntry *entry = file->entries; entry < file->entries + file->n; entry++) {
        size_t bytes = entry->end - entry->begin;
        read_exactly(r, to, bytes);
        if (strcmp(entry->dtype, "F32") == 0) entry->values = (float *)to;
        if (strcmp(entry->dtype, "I64") == 0) entry->integers = (int64_t *)to;
        to += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    fclose(r->stream);
}

SafetensorsFile safetensors_open(const char *path) {
    Reading reading;
    SafetensorsFile file = begin_reading(path, &reading);
    read_values(&reading, &file);
    return file;
}

const SafetensorsEntry *safetensors_find(const SafetensorsFile *file, const char *name) {
    for (int i = 0; i < file->n; i++)
        if (strcmp(file->entries[i].name, name) == 0) return &file->entries[i];
    return NULL;
}

const char *safetensors_text(const SafetensorsFile *file, const char *key) {
    for (int i = 0; i < file->num_texts; i++)
        if (strcmp(file->texts[i].key, key) == 0) return file->texts[i].value;
    return NULL;
}

void safetensors_close(SafetensorsFile *file) {
    for (int i = 0; i < file->n; i++) free(file->entries[i].name);
    for (int i = 0; i < file->num_texts; i++) {
        free((char *)file->texts[i].key);
        free((char *)file->texts[i].value);
    }
    free(file->entries);
    free(file->texts);
    free(file->data);
    *file = (SafetensorsFile){0};
}

// ---- reading into the tensors of a model -----------------------------------------------------

static bool is_wanted(const char *name, Tensor *const tensors[], int n,
                      const SafetensorsExtras *extras) {
    for (int i = 0; i < n; i++)
        if (strcmp(tensors[i]->name, name) == 0) return true;
    for (int i = 0; i < extras->num_counts; i++)
        if (strcmp(extras->counts[i].name, name) == 0) return true;
    for (int i = 0; extras->others && extras->others[i]; i++)
        if (strncmp(name, extras->others[i], strlen(extras->others[i])) == 0) return true;
    return false;
}

static const char *text_of_shape(int ndim, const int *shape) {
    char *text = xstrdup("(");
    for (int i = 0; i < ndim; i++) text = xprintf("%s%s%d", text, i ? ", " : "", shape[i]);
    return xprintf(ndim == 1 ? "%s,)" : "%s)", text);
}

static void check_entry(const char *path, const SafetensorsEntry *entry, const char *dtype,
                        int ndim, const int *shape) {
    bool same = strcmp(entry->dtype, dtype) == 0 && entry->ndim == ndim;
    for (int i = 0; same && i < ndim; i++) same = entry->shape[i] == shape[i];
    if (!same)
        die("the file was saved by a model with other layers, or other shapes of them",
            "%s: tensor \"%.100s\" is %s of shape %s, the model wants %s of shape %s", path,
            entry->name, entry->dtype, text_of_shape(entry->ndim, entry->shape), dtype,
            text_of_shape(ndim, shape));
}

static void check_file(const char *path, const SafetensorsFile *file, Tensor *const tensors[],
                       int n, const SafetensorsExtras *extras) {
    for (int i = 0; i < n; i++)
        check_entry(path, safetensors_find(file, tensors[i]->name), "F32", tensors[i]->ndim,
                    tensors[i]->shape);
    for (int i = 0; i < extras->num_counts; i++) {
        const SafetensorsEntry *entry = safetensors_find(file, extras->counts[i].name);
        if (entry) check_entry(path, entry, "I64", 0, NULL);
    }
    for (int i = 0; i < file->n; i++)
        if (!is_wanted(file->entries[i].name, tensors, n, extras))
            die("the file holds more than this network, such as an optimizer's state: save "
                "net.state_dict() alone",
                "%s: tensor \"%.100s\" is none of the model's", path, file->entries[i].name);
}

// The first tensor that the file lacks; NULL if it has all.
static const char *missing_name(const SafetensorsFile *file, Tensor *const tensors[], int n) {
    for (int i = 0; i < n; i++)
        if (!safetensors_find(file, tensors[i]->name)) return tensors[i]->name;
    return NULL;
}

// The length of the prefix that PyTorch's wrappers have put before all names: "module." by
// DataParallel and DDP, "_orig_mod." by torch.compile, or several of them in any order.
static size_t wrapper_prefix(const SafetensorsFile *file) {
    static const char *const wrappers[] = {"module.", "_orig_mod."};
    size_t length = 0;
    for (int w = 0; w < 2 && file->n > 0; w++) {
        size_t more = strlen(wrappers[w]);
        int i = 0;
        while (i < file->n && strncmp(file->entries[i].name + length, wrappers[w], more) == 0) i++;
        if (i < file->n) continue;
        length += more;
        w = -1; // there may be more
    }
    return length;
}

// Makes sure that the file has all tensors. If necessary, takes a wrapper's prefix away from its
// names. Returns that prefix, or "". free() it.
static char *check_names(const char *path, SafetensorsFile *file, Tensor *const tensors[], int n) {
    if (!missing_name(file, tensors, n)) return xstrdup("");
    size_t length = wrapper_prefix(file);
    char *prefix = xprintf("%.*s", (int)length, file->n > 0 ? file->entries[0].name : "");
    for (int i = 0; i < file->n; i++) {
        char *name = file->entries[i].name;
        memmove(name, name + length, strlen(name + length) + 1);
    }
    const char *missing = missing_name(file, tensors, n);
    if (missing)
        die(xprintf("the file is of another network, or has other names: those of this one are "
                    "%s .. %s",
                    tensors[0]->name, tensors[n - 1]->name),
            "%s: tensor \"%s\" is missing; the first of %d in the file is \"%.100s\"", path,
            missing, file->n, file->n > 0 ? file->entries[0].name : "");
    return prefix;
}

void safetensors_load_with(const char *path, Tensor *const tensors[], int n,
                           SafetensorsExtras *extras) {
    for (int i = 0; i < n; i++) CHECK(tensors[i]->name, "a tensor in a file needs a name");
    Reading reading;
    SafetensorsFile file = begin_reading(path, &reading);
    char *prefix = check_names(path, &file, tensors, n);
    check_file(path, &file, tensors, n, extras);
    read_values(&reading, &file);
    if (*prefix)
        warn("%s: read without the \"%s\" that DataParallel, DDP or torch.compile put before all "
             "names",
             path, prefix);
    for (int i = 0; i < n; i++)
        tensor_write(tensors[i], safetensors_find(&file, tensors[i]->name)->values);
    for (int i = 0; i < extras->num_counts; i++) {
        const SafetensorsEntry *entry = safetensors_find(&file, extras->counts[i].name);
        if (entry) extras->counts[i].value = entry->integers[0];
    }
    safetensors_close(&file);
    free(prefix);
}

void safetensors_load(const char *path, Tensor *const tensors[], int n) {
    safetensors_load_with(path, tensors, n, &(SafetensorsExtras){0});
}

// ---- writing ---------------------------------------------------------------------------------

static void add_to_header(json_t *header, const char *name, const char *dtype, json_t *shape,
                          size_t *begin, size_t bytes) {
    CHECK(name, "a tensor in a file needs a name");
    CHECK(!json_object_get(header, name), "two tensors have the same name");
    CHECK(strcmp(name, "__metadata__") != 0, "the file format has this name for itself");
    json_t *info = json_pack("{s:s, s:o, s:[I,I]}", "dtype", dtype, "shape", shape, "data_offsets",
                             (json_int_t)*begin, (json_int_t)(*begin + bytes));
    int refused = json_object_set_new(header, name, info);
    CHECK(!refused, "a tensor's name must be UTF-8");
    *begin += bytes;
}

// Integers come first: PyTorch wants each tensor at a multiple of the size of its numbers.
static json_t *make_header(Tensor *const tensors[], int n, const SafetensorsExtras *extras) {
    json_t *header = json_object();
    size_t begin = 0;
    json_t *texts = json_object();
    for (int i = 0; i < extras->num_texts; i++) {
        json_t *text = json_string(extras->texts[i].value);
        int refused = json_object_set_new(texts, extras->texts[i].key, text);
        CHECK(!refused, "a text must be UTF-8");
    }
    if (extras->num_texts > 0) json_object_set(header, "__metadata__", texts);
    json_decref(texts);
    for (int i = 0; i < extras->num_counts; i++)
        add_to_header(header, extras->counts[i].name, "I64", json_array(), &begin, sizeof(int64_t));
    for (int i = 0; i < n; i++) {
        json_t *shape = json_array();
        for (int d = 0; d < tensors[i]->ndim; d++)
            json_array_append_new(shape, json_integer(tensors[i]->shape[d]));
        add_to_header(header, tensors[i]->name, "F32", shape, &begin, tensor_bytes(tensors[i]));
    }
    return header;
}

static void write_header(FILE *stream, json_t *header) {
    char *text = json_dumps(header, JSON_COMPACT);
    CHECK(text, "out of memory");
    // Spaces make the data begin at a multiple of 8; readers skip them.
    uint64_t length = strlen(text), padded = (length + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    fwrite(&padded, LENGTH_BYTES, 1, stream);
    fprintf(stream, "%s%*s", text, (int)(padded - length), "");
    free(text);
}

void safetensors_save_with(const char *path, Tensor *const tensors[], int n,
                           const SafetensorsExtras *extras) {
    OutputFile file = output_open(path);
    json_t *header = make_header(tensors, n, extras);
    write_header(file.stream, header); // output_close() checks all that is written
    json_decref(header);
    for (int i = 0; i < extras->num_counts; i++)
        fwrite(&extras->counts[i].value, sizeof(int64_t), 1, file.stream);
    for (int i = 0; i < n; i++) {
        float *values = xmalloc(tensor_bytes(tensors[i]) + 1);
        tensor_read(tensors[i], values);
        fwrite(values, 1, tensor_bytes(tensors[i]), file.stream);
        free(values);
    }
    output_close(&file);
}

void safetensors_save(const char *path, Tensor *const tensors[], int n) {
    safetensors_save_with(path, tensors, n, &(SafetensorsExtras){0});
}

bool safetensors_built_in(void) { return true; }
