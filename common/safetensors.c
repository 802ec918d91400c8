// safetensors.c: as strict as the reference, https://github.com/huggingface/safetensors.
//
// A file comes from anywhere, so nothing it says is believed: every number is compared with the
// size of the file before memory is asked for, and each byte of the data belongs to one tensor.
#include "safetensors.h"
#include "error.h"
#include "file.h"

#include <errno.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format is little-endian");

enum {
    LENGTH_BYTES = 8,                      // the header's length, before the header
    ALIGNMENT = 8,                         // of the data
    MOST_HEADER_BYTES = 100 * 1000 * 1000, // the reference implementation's limit
    MOST_DIMS = sizeof((SafetensorsEntry){0}.shape) / sizeof(int),
};

static const char *const damaged =
    "the file is damaged or no safetensors file: save or copy it again";
static const char *const other_model =
    "the file was saved by a model with other layers, or other names or shapes of them";

// ---- for messages ----------------------------------------------------------------------------

// Text from a file, fit for one line of a terminal: nothing unprintable, not too long. Nobody frees
// it: the program is about to end.
static const char *printable(const char *text) {
    enum { MOST = 100 };
    size_t length = strlen(text);
    char *copy = xprintf("%.*s%s", MOST, text, length > MOST ? ".." : "");
    for (char *c = copy; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127) *c = '?';
    return copy;
}

static const char *text_of_shape(int ndim, const int *shape) {
    char *text = xstrdup("(");
    for (int i = 0; i < ndim; i++) text = xprintf("%s%s%d", text, i ? ", " : "", shape[i]);
    return xprintf(ndim == 1 ? "%s,)" : "%s)", text);
}

// ---- reading: the header ---------------------------------------------------------------------

// A tensor of the file, and which bytes of the data it has.
typedef struct Span {
    SafetensorsEntry entry;
    size_t begin, end;
} Span;

static FILE *open_regular_file(const char *path, size_t *size) {
    struct stat status;
    FILE *stream = NULL;
    // Asked before it is opened: opening a pipe would wait for someone to write into it.
    if (stat(path, &status) == 0) {
        if (!S_ISREG(status.st_mode)) die("give the name of a file", "%s: is not a file", path);
        stream = fopen(path, "rbe");
    }
    if (!stream) die("check the file's name", "%s: cannot read: %s", path, strerror(errno));
    *size = (size_t)status.st_size;
    return stream;
}

static void read_exactly(const char *path, FILE *stream, void *buffer, size_t size) {
    if (fread(buffer, 1, size, stream) == size) return;
    if (ferror(stream)) die("check the disk", "%s: cannot read: %s", path, strerror(errno));
    die("let the program that writes it finish first", "%s: became shorter while it was read",
        path);
}

static size_t read_header_size(const char *path, FILE *stream, size_t file_size) {
    if (file_size < LENGTH_BYTES)
        die(damaged, "%s: %zu bytes are too few for a safetensors file", path, file_size);
    uint64_t size; // believed only after these two checks
    read_exactly(path, stream, &size, LENGTH_BYTES);
    if (size > MOST_HEADER_BYTES)
        die(damaged, "%s: the header claims %llu bytes; at most %d are allowed", path,
            (unsigned long long)size, MOST_HEADER_BYTES);
    if (size > file_size - LENGTH_BYTES)
        die(damaged, "%s: the header claims %llu bytes, the file has only %zu", path,
            (unsigned long long)size, file_size);
    return (size_t)size;
}

static json_t *read_header(const char *path, FILE *stream, size_t size) {
    char *text = xcalloc(size + 1, 1);
    read_exactly(path, stream, text, size);
    if (text[0] != '{') die(damaged, "%s: the header is not a JSON object", path);
    json_error_t error;
    json_t *header = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    if (!header)
        die(damaged, "%s: the header is not good JSON: %s (byte %d)", path, printable(error.text),
            error.position);
    free(text);
    return header;
}

static void check_metadata(const char *path, json_t *metadata) {
    bool good = json_is_object(metadata);
    const char *key;
    json_t *value;
    json_object_foreach(metadata, key, value) good = good && json_is_string(value);
    if (!good) die(damaged, "%s: __metadata__ is not an object of strings", path);
}

static void read_dtype(const char *path, const char *name, const json_t *info) {
    const char *dtype = json_string_value(json_object_get(info, "dtype"));
    if (!dtype) die(damaged, "%s: tensor \"%s\" has no dtype", path, printable(name));
    if (strcmp(dtype, "F32") != 0)
        die("convert it in PyTorch with .float() before you save it",
            "%s: tensor \"%s\" has dtype %s; it must be F32", path, printable(name),
            printable(dtype));
}

// True if the value is an integer of 0..most.
static bool read_integer(const json_t *value, size_t most, size_t *result) {
    if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
    *result = (size_t)json_integer_value(value);
    return *result <= most;
}

static void read_shape(const char *path, const char *name, const json_t *info, Span *span) {
    const json_t *shape = json_object_get(info, "shape");
    SafetensorsEntry *entry = &span->entry;
    if (!json_is_array(shape))
        die(damaged, "%s: tensor \"%s\" has no shape", path, printable(name));
    size_t ndim = json_array_size(shape);
    if (ndim > MOST_DIMS)
        die("this program reads tensors of up to 8 dimensions",
            "%s: tensor \"%s\" has %zu dimensions", path, printable(name), ndim);
    entry->ndim = (int)ndim;
    entry->count = 1;
    for (size_t i = 0; i < ndim; i++) {
        size_t size, bytes;
        if (!read_integer(json_array_get(shape, i), INT32_MAX, &size))
            die(damaged, "%s: tensor \"%s\": its shape has a size that is not an integer of 0..%d",
                path, printable(name), INT32_MAX);
        entry->shape[i] = (int)size;
        if (__builtin_mul_overflow(entry->count, size, &entry->count) ||
            __builtin_mul_overflow(entry->count, sizeof(float), &bytes))
            die(damaged, "%s: tensor \"%s\": shape %s is too large for any memory", path,
                printable(name), text_of_shape((int)i + 1, entry->shape));
    }
}

static void read_offsets(const char *path, const char *name, const json_t *info, size_t data_size,
                         Span *span) {
    const json_t *offsets = json_object_get(info, "data_offsets");
    if (json_array_size(offsets) != 2)
        die(damaged, "%s: tensor \"%s\" has no data_offsets [begin, end]", path, printable(name));
    if (!read_integer(json_array_get(offsets, 0), data_size, &span->begin) ||
        !read_integer(json_array_get(offsets, 1), data_size, &span->end))
        die(damaged, "%s: tensor \"%s\": its data_offsets are not within the %zu bytes of data",
            path, printable(name), data_size);
    if (span->begin > span->end)
        die(damaged, "%s: tensor \"%s\": its data ends before it begins", path, printable(name));
    if (span->end - span->begin != span->entry.count * sizeof(float))
        die(damaged, "%s: tensor \"%s\": shape %s needs %zu bytes, data_offsets give it %zu", path,
            printable(name), text_of_shape(span->entry.ndim, span->entry.shape),
            span->entry.count * sizeof(float), span->end - span->begin);
}

static Span *read_spans(const char *path, json_t *header, size_t data_size, int *n) {
    Span *spans = xcalloc(json_object_size(header) + 1, sizeof *spans);
    const char *name;
    json_t *info;
    *n = 0;
    json_object_foreach(header, name, info) {
        if (strcmp(name, "__metadata__") == 0) {
            check_metadata(path, info);
            continue;
        }
        if (!json_is_object(info))
            die(damaged, "%s: what it says of tensor \"%s\" is not a JSON object", path,
                printable(name));
        Span *span = &spans[(*n)++];
        span->entry.name = xstrdup(name);
        read_dtype(path, name, info);
        read_shape(path, name, info, span);
        read_offsets(path, name, info, data_size, span);
    }
    return spans;
}

static int by_begin(const void *a, const void *b) {
    const Span *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end); // empty tensors first
}

// Sorts the tensors as they lie in the file. Each must begin where the one before it ends.
static void check_spans(const char *path, Span *spans, int n, size_t data_size) {
    qsort(spans, (size_t)n, sizeof *spans, by_begin);
    size_t end = 0;
    for (int i = 0; i < n; i++) {
        if (spans[i].begin < end)
            die(damaged, "%s: tensors \"%s\" and \"%s\" overlap", path,
                printable(spans[i - 1].entry.name), printable(spans[i].entry.name));
        if (spans[i].begin > end)
            die(damaged, "%s: %zu bytes before tensor \"%s\" belong to no tensor", path,
                spans[i].begin - end, printable(spans[i].entry.name));
        end = spans[i].end;
    }
    if (end != data_size)
        die(damaged, "%s: %zu bytes at the end belong to no tensor", path, data_size - end);
}

// ---- reading: the whole file -----------------------------------------------------------------

SafetensorsFile safetensors_open(const char *path) {
    size_t file_size;
    FILE *stream = open_regular_file(path, &file_size);
    size_t header_size = read_header_size(path, stream, file_size);
    size_t data_size = file_size - LENGTH_BYTES - header_size;
    json_t *header = read_header(path, stream, header_size);

    SafetensorsFile file = {0};
    Span *spans = read_spans(path, header, data_size, &file.n);
    json_decref(header);
    check_spans(path, spans, file.n, data_size);

    file.data = xmalloc(data_size + 1); // of its own, so that the floats are aligned
    read_exactly(path, stream, file.data, data_size);
    fclose(stream);
    file.entries = xcalloc((size_t)file.n + 1, sizeof *file.entries);
    for (int i = 0; i < file.n; i++) {
        file.entries[i] = spans[i].entry;
        file.entries[i].values = (float *)file.data + spans[i].begin / sizeof(float);
    }
    free(spans);
    return file;
}

const SafetensorsEntry *safetensors_find(const SafetensorsFile *file, const char *name) {
    for (int i = 0; i < file->n; i++)
        if (strcmp(file->entries[i].name, name) == 0) return &file->entries[i];
    return NULL;
}

void safetensors_close(SafetensorsFile *file) {
    for (int i = 0; i < file->n; i++) free(file->entries[i].name);
    free(file->entries);
    free(file->data);
    *file = (SafetensorsFile){0};
}

static bool is_wanted(const char *name, Tensor *const tensors[], int n) {
    for (int i = 0; i < n; i++)
        if (strcmp(tensors[i]->name, name) == 0) return true;
    return false;
}

static const SafetensorsEntry *find_for(const char *path, const SafetensorsFile *file,
                                        const Tensor *t) {
    const SafetensorsEntry *entry = safetensors_find(file, t->name);
    if (!entry) die(other_model, "%s: tensor \"%s\" is missing", path, printable(t->name));
    if (entry->ndim != t->ndim ||
        memcmp(entry->shape, t->shape, sizeof(int) * (size_t)t->ndim) != 0)
        die(other_model, "%s: tensor \"%s\" has shape %s, the model wants %s", path,
            printable(t->name), text_of_shape(entry->ndim, entry->shape),
            text_of_shape(t->ndim, t->shape));
    return entry;
}

void safetensors_load(const char *path, Tensor *const tensors[], int n) {
    for (int i = 0; i < n; i++) CHECK(tensors[i]->name, "a tensor in a file needs a name");
    SafetensorsFile file = safetensors_open(path);
    for (int i = 0; i < n; i++) find_for(path, &file, tensors[i]);
    for (int i = 0; i < file.n; i++)
        if (!is_wanted(file.entries[i].name, tensors, n))
            die(other_model, "%s: tensor \"%s\" is none of the model's", path,
                printable(file.entries[i].name));
    for (int i = 0; i < n; i++) tensor_write(tensors[i], find_for(path, &file, tensors[i])->values);
    safetensors_close(&file);
}

// ---- writing ---------------------------------------------------------------------------------

static void add_to_header(json_t *header, const Tensor *t, size_t begin) {
    CHECK(t->name, "a tensor in a file needs a name");
    CHECK(!json_object_get(header, t->name), "two tensors have the same name");
    CHECK(strcmp(t->name, "__metadata__") != 0, "the file format has this name for itself");
    json_t *shape = json_array();
    for (int i = 0; i < t->ndim; i++) json_array_append_new(shape, json_integer(t->shape[i]));
    json_t *info = json_pack("{s:s, s:o, s:[I,I]}", "dtype", "F32", "shape", shape, "data_offsets",
                             (json_int_t)begin, (json_int_t)(begin + tensor_bytes(t)));
    CHECK(json_object_set_new(header, t->name, info) == 0, "a tensor's name must be UTF-8");
}

static void write_header(FILE *stream, Tensor *const tensors[], int n) {
    json_t *header = json_object();
    size_t begin = 0;
    for (int i = 0; i < n; i++) {
        add_to_header(header, tensors[i], begin);
        begin += tensor_bytes(tensors[i]);
    }
    char *text = json_dumps(header, JSON_COMPACT);
    CHECK(text, "out of memory");
    json_decref(header);
    // Spaces make the data begin at a multiple of 8; readers skip them.
    uint64_t length = strlen(text), padded = (length + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    fwrite(&padded, LENGTH_BYTES, 1, stream);
    fprintf(stream, "%s%*s", text, (int)(padded - length), "");
    free(text);
}

void safetensors_save(const char *path, Tensor *const tensors[], int n) {
    OutputFile file = output_open(path);
    write_header(file.stream, tensors, n);
    for (int i = 0; i < n; i++) {
        float *values = xmalloc(tensor_bytes(tensors[i]) + 1);
        tensor_read(tensors[i], values);
        fwrite(values, 1, tensor_bytes(tensors[i]), file.stream); // output_close() checks
        free(values);
    }
    output_close(&file);
}
