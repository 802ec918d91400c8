// safetensors.c: reads and writes safetensors files, as strictly as the reference implementation,
// https://github.com/huggingface/safetensors. (test_safetensors.c, "as_the_reference", has the
// differences.)
//
// Nothing that a file says is trusted: every number is compared with the size of the file before
// memory is allocated, and each byte of the data must belong to exactly one tensor.
#include "safetensors.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "other_files.h"

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
    "the file was saved by a model with other layers, or other shapes of them";

// ---- for messages ----------------------------------------------------------------------------

// Text from a file, short enough for a line.
typedef struct Shortened {
    char text[100 + sizeof ".."];
} Shortened;

static Shortened shortened(const char *text) {
    Shortened s;
    snprintf(s.text, sizeof s.text, "%.100s%s", text, strlen(text) > 100 ? ".." : "");
    return s;
}

static const char *text_of_shape(int ndim, const int *shape) {
    char *text = xstrdup("(");
    for (int i = 0; i < ndim; i++) text = xprintf("%s%s%d", text, i ? ", " : "", shape[i]);
    return xprintf(ndim == 1 ? "%s,)" : "%s)", text);
}

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

static void read_exactly(const char *path, FILE *stream, void *buffer, size_t size) {
    if (fread(buffer, 1, size, stream) == size) return;
    if (ferror(stream)) die("check the disk", "%s: cannot read: %s", path, strerror(errno));
    die("let the program that writes it finish first", "%s: became shorter while it was read",
        path);
}

// die()s if the file looks like another format. (This comes before the header's length is read,
// because another format's first bytes may look like one.)
static void check_format(const char *path, FILE *stream) {
    char first[FIRST_BYTES];
    size_t n = fread(first, 1, sizeof first, stream);
    uint64_t size;
    rewind(stream);
    if (n > LENGTH_BYTES && memchr("{ \t\r\n", first[LENGTH_BYTES], 5) &&
        *(uint64_t *)memcpy(&size, first, LENGTH_BYTES) <= MOST_HEADER_BYTES)
        return;
    OtherFormat other = other_format(first, n);
    if (other.is) die(other.parameters_hint, "%s: is %s, no safetensors file", path, other.is);
}

static _Noreturn void die_of_json(const char *path, const json_error_t *error) {
    enum json_error_code code = json_error_code(error);
    if (code == json_error_duplicate_key)
        die("the format forbids that; some readers take the last of the two: save the file again",
            "%s: the header has a key twice: %s", path, shortened(error->text).text);
    const char *hint = damaged;
    if (code == json_error_numeric_overflow)
        hint = "the file is damaged, or has larger numbers than this program reads";
    if (code == json_error_null_character || code == json_error_null_byte_in_key)
        hint = "the file is damaged, or has names with a zero byte, which this program cannot read";
    die(hint, "%s: the header is not good JSON: %s (byte %d)", path, shortened(error->text).text,
        error->position);
}

// Reads the header, and sets r->data_size.
static json_t *read_header(Reading *r, size_t file_size) {
    const char *path = r->path;
    if (file_size < LENGTH_BYTES)
        die(damaged, "%s: %zu bytes are too few for a safetensors file", path, file_size);
    uint64_t size; // believed only after these two checks
    read_exactly(path, r->stream, &size, LENGTH_BYTES);
    if (size > MOST_HEADER_BYTES)
        die(damaged, "%s: the header claims %llu bytes; at most %d are allowed", path,
            (unsigned long long)size, MOST_HEADER_BYTES);
    if (size > file_size - LENGTH_BYTES)
        die(damaged, "%s: the header claims %llu bytes, the file has only %zu", path,
            (unsigned long long)size, file_size);
    r->data_size = file_size - LENGTH_BYTES - size;
    char *text = xcalloc(size + 1, 1);
    read_exactly(path, r->stream, text, size);
    json_error_t error;
    json_t *header = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    if (!header) die_of_json(path, &error);
    if (!json_is_object(header)) die(damaged, "%s: the header is not a JSON object", path);
    free(text);
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
    if (!good) die(damaged, "%s: __metadata__ is not an object of strings", path);
}

// The types of version 0.8.0. Only F32 and I64 are read, but a good file may have others.
static const struct Dtype {
    const char *name;
    int bits;
} dtypes[] = {{"F32", 32},    {"I64", 64},        {"BOOL", 8}, {"F4", 4},          {"F6_E2M3", 6},
              {"F6_E3M2", 6}, {"U8", 8},          {"I8", 8},   {"F8_E5M2", 8},     {"F8_E4M3", 8},
              {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"I16", 16}, {"U16", 16},        {"F16", 16},
              {"BF16", 16},   {"I32", 32},        {"U32", 32}, {"F8_E5M2FNUZ", 8}, {"C64", 64},
              {"F64", 64},    {"U64", 64}};
enum { NUM_DTYPES = sizeof dtypes / sizeof dtypes[0] };

static void check_dtype(const char *path, const SafetensorsEntry *entry, const char *wanted) {
    if (strcmp(entry->dtype, wanted) == 0) return;
    const char *hint = "these are no plain parameters (but quantized ones?): save the network as "
                       "it was trained, in float32";
    if (strcmp(wanted, "I64") == 0)
        hint = other_model;
    else if (strstr("F16 BF16 F64", entry->dtype))
        hint = "convert it in PyTorch with .float() before you save it";
    die(hint, "%s: tensor \"%s\" has dtype %s; it must be %s", path, shortened(entry->name).text,
        entry->dtype, wanted);
}

// True if the value is an integer of 0..most.
static bool read_integer(const json_t *value, size_t most, size_t *result) {
    if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
    *result = (size_t)json_integer_value(value);
    return *result <= most;
}

// The shape of a tensor whose numbers have this many bits. Returns the bits of all numbers
// together.
static size_t read_shape(const Reading *r, const json_t *info, size_t bits,
                         SafetensorsEntry *entry) {
    const char *path = r->path;
    const Shortened name = shortened(entry->name);
    const json_t *shape = json_object_get(info, "shape");
    if (!json_is_array(shape)) die(damaged, "%s: tensor \"%s\" has no shape", path, name.text);
    size_t ndim = json_array_size(shape), all_bits = bits;
    if (ndim > MOST_DIMS)
        die("this program reads tensors of up to 8 dimensions",
            "%s: tensor \"%s\" has %zu dimensions", path, name.text, ndim);
    entry->ndim = (int)ndim;
    entry->count = 1;
    for (size_t i = 0; i < ndim; i++) {
        size_t size;
        if (!read_integer(json_array_get(shape, i), SIZE_MAX, &size))
            die(damaged, "%s: tensor \"%s\": its shape has a size that is no integer from 0", path,
                name.text);
        if (size > INT32_MAX)
            die("this program reads tensors of up to 2147483647 in each dimension",
                "%s: tensor \"%s\" has a dimension of %zu", path, name.text, size);
        entry->shape[i] = (int)size;
        if (__builtin_mul_overflow(entry->count, size, &entry->count) ||
            __builtin_mul_overflow(entry->count, bits, &all_bits))
            die(damaged, "%s: tensor \"%s\": shape %s is too large for any memory", path, name.text,
                text_of_shape((int)i + 1, entry->shape));
    }
    if (all_bits % 8 != 0)
        die(damaged, "%s: tensor \"%s\": %zu numbers of %s do not fill whole bytes", path,
            name.text, entry->count, entry->dtype);
    return all_bits;
}

// One tensor of the header. Checks that its type, shape and place in the data agree.
static void read_entry(const Reading *r, const json_t *info, SafetensorsEntry *entry) {
    const char *path = r->path;
    const Shortened name = shortened(entry->name);
    if (!json_is_object(info))
        die(damaged, "%s: what it says of tensor \"%s\" is not a JSON object", path, name.text);

    const char *dtype = json_string_value(json_object_get(info, "dtype"));
    if (!dtype) die(damaged, "%s: tensor \"%s\" has no dtype", path, name.text);
    int d = 0;
    while (d < NUM_DTYPES && strcmp(dtypes[d].name, dtype) != 0) d++;
    if (d == NUM_DTYPES)
        die("the file is damaged, or of a newer format: convert it in PyTorch with .float() before "
            "you save it",
            "%s: tensor \"%s\" has dtype %s, which is unknown", path, name.text,
            shortened(dtype).text);
    entry->dtype = dtypes[d].name;

    size_t all_bits = read_shape(r, info, (size_t)dtypes[d].bits, entry);

    const json_t *offsets = json_object_get(info, "data_offsets");
    if (json_array_size(offsets) != 2)
        die(damaged, "%s: tensor \"%s\" has no data_offsets [begin, end]", path, name.text);
    if (!read_integer(json_array_get(offsets, 0), r->data_size, &entry->begin) ||
        !read_integer(json_array_get(offsets, 1), r->data_size, &entry->end))
        die(damaged, "%s: tensor \"%s\": its data_offsets are not within the %zu bytes of data",
            path, name.text, r->data_size);
    if (entry->begin > entry->end)
        die(damaged, "%s: tensor \"%s\": its data ends before it begins", path, name.text);
    if (entry->end - entry->begin != all_bits / 8)
        die(damaged, "%s: tensor \"%s\": shape %s needs %zu bytes, data_offsets give it %zu", path,
            name.text, text_of_shape(entry->ndim, entry->shape), all_bits / 8,
            entry->end - entry->begin);
}

static int by_begin(const void *a, const void *b) {
    const SafetensorsEntry *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1; // empty tensors first,
    return strcmp(x->name, y->name);                       // always in the same order
}

// Sorts the tensors by their place in the data. Each must begin where the one before it ends.
static void check_places(const Reading *r, SafetensorsEntry *entries, int n) {
    const char *path = r->path;
    if (n > 0) qsort(entries, (size_t)n, sizeof *entries, by_begin);
    size_t end = 0;
    for (int i = 0; i < n; i++) {
        if (entries[i].begin < end)
            die(damaged, "%s: tensors \"%s\" and \"%s\" overlap", path,
                shortened(entries[i - 1].name).text, shortened(entries[i].name).text);
        if (entries[i].begin > end)
            die(damaged, "%s: %zu bytes before tensor \"%s\" belong to no tensor", path,
                entries[i].begin - end, shortened(entries[i].name).text);
        end = entries[i].end;
    }
    if (end != r->data_size)
        die(damaged, "%s: %zu bytes at the end belong to no tensor", path, r->data_size - end);
}

// ---- reading: the whole file -----------------------------------------------------------------

// Opens the file and reads the header: all tensors, without their values.
static SafetensorsFile begin_reading(const char *path, Reading *r) {
    size_t file_size;
    *r = (Reading){.path = path, .stream = open_regular_file(path, &file_size)};
    check_format(path, r->stream);
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
        read_exactly(r->path, r->stream, to, bytes);
        if (strcmp(entry->dtype, "F32") == 0) entry->values = (float *)to;
        if (strcmp(entry->dtype, "I64") == 0) entry->integers = (int64_t *)to;
        to += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    fclose(r->stream);
}

SafetensorsFile safetensors_open(const char *path) {
    Reading reading;
    SafetensorsFile file = begin_reading(path, &reading);
    for (int i = 0; i < file.n; i++)
        if (strcmp(file.entries[i].dtype, "I64") != 0) check_dtype(path, &file.entries[i], "F32");
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

static void check_entry(const char *path, const SafetensorsEntry *entry, const char *dtype,
                        int ndim, const int *shape) {
    check_dtype(path, entry, dtype);
    bool same = entry->ndim == ndim;
    for (int i = 0; same && i < ndim; i++) same = entry->shape[i] == shape[i];
    if (!same)
        die(other_model, "%s: tensor \"%s\" has shape %s, the model wants %s", path,
            shortened(entry->name).text, text_of_shape(entry->ndim, entry->shape),
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
                "%s: tensor \"%s\" is none of the model's", path,
                shortened(file->entries[i].name).text);
}

static bool has_all(const SafetensorsFile *file, Names wanted) {
    for (int i = 0; i < wanted.n; i++)
        if (!safetensors_find(file, wanted.list[i])) return false;
    return true;
}

// Makes sure that the file has all wanted names. If necessary, takes a wrapper's prefix away from
// its names. Returns that prefix, or "". free() it.
static char *check_names(const char *path, SafetensorsFile *file, Names wanted) {
    if (has_all(file, wanted)) return xstrdup("");
    Names names = {xcalloc((size_t)file->n + 1, sizeof *names.list), file->n};
    for (int i = 0; i < file->n; i++) names.list[i] = file->entries[i].name;
    char *prefix = wrapper_prefix(names);
    for (int i = 0; i < file->n; i++) {
        char *name = file->entries[i].name, *rest = name + strlen(prefix);
        memmove(name, rest, strlen(rest) + 1);
    }
    if (!has_all(file, wanted)) die_of_names(path, prefix, names, wanted);
    free(names.list);
    return prefix;
}

void safetensors_load_with(const char *path, Tensor *const tensors[], int n,
                           SafetensorsExtras *extras) {
    Names wanted = {xcalloc((size_t)n + 1, sizeof *wanted.list), n};
    for (int i = 0; i < n; i++) {
        CHECK(tensors[i]->name, "a tensor in a file needs a name");
        wanted.list[i] = tensors[i]->name;
    }
    Reading reading;
    SafetensorsFile file = begin_reading(path, &reading);
    char *prefix = check_names(path, &file, wanted);
    check_file(path, &file, tensors, n, extras);
    read_values(&reading, &file);
    if (*prefix)
        warn("%s: read without the \"%s\" that DataParallel, DDP or torch.compile put before all "
             "names",
             path, shortened(prefix).text);
    for (int i = 0; i < n; i++)
        tensor_write(tensors[i], safetensors_find(&file, tensors[i]->name)->values);
    for (int i = 0; i < extras->num_counts; i++) {
        const SafetensorsEntry *entry = safetensors_find(&file, extras->counts[i].name);
        if (entry) extras->counts[i].value = entry->integers[0];
    }
    safetensors_close(&file);
    free(wanted.list);
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
