// test_safetensors.c: parameters come back from a file to the bit, and a bad file changes nothing.
#include <sys/mman.h>

#include "cases.h"
#include "common/data/safetensors.h"

// Writes a file with this header length, header, and `data_size` bytes of data: floats 0, 1, 2, ..
static const char *make_file(uint64_t header_size, const char *header, size_t data_size) {
    FILE *file = fopen("made", "wb");
    assert_non_null(file);
    fwrite(&header_size, 8, 1, file);
    fputs(header, file);
    for (size_t i = 0; i < data_size; i += 4) {
        float value = (float)(i / 4);
        fwrite(&value, 1, data_size - i < 4 ? data_size - i : 4, file);
    }
    assert_int_equal(fclose(file), 0);
    return "made";
}

static const char *with_header(const char *header, size_t data_size) {
    return make_file(strlen(header), header, data_size);
}

static Tensor *named(Device *device, const char *name, int ndim, const int *shape) {
    Tensor *t = keep(tensor_of_shape(device, ndim, shape));
    t->name = name;
    return t;
}
#define NAMED(name, ...) named(host(), (name), SHAPE(__VA_ARGS__))

// All kinds of floats, as bits: +-0, subnormal, +-inf, NaN with payloads (quiet, signalling), 1, pi
static const uint32_t bits[] = {0x00000000, 0x80000000, 0x00000001, 0x7f800000, 0xff800000,
                                0x7fc12345, 0xffc54321, 0x7f812345, 0x3f800000, 0x40490fdb};

TEST_IN_A_FOLDER(round_trip) {
    enum { N = 5 };
    static const struct {
        const char *name;
        int ndim, shape[4];
    } rows[N] = {{"W", 2, {2, 5}},
                 {"\"quotes\", \\, \n and \xc3\xbc", 1, {3}},
                 {"empty", 2, {0, 7}},
                 {"conv", 4, {2, 3, 4, 5}},
                 {"", 1, {1}}};
    Device *devices[] = {host(), cpu_device(1)};
    for (int d = 0; d < 2; d++) {
        Tensor *saved[N], *loaded[N];
        uint32_t values[N][120], back[120];
        for (int i = 0; i < N; i++) {
            for (size_t j = 0; j < 120; j++)
                values[i][j] = bits[((size_t)i + j) % COUNT(bits)] ^ (uint32_t)(j & ~7ul);
            saved[i] = named(devices[d], rows[i].name, rows[i].ndim, rows[i].shape);
            loaded[N - 1 - i] = named(devices[d], rows[i].name, rows[i].ndim, rows[i].shape);
            tensor_write(saved[i], (const float *)values[i]);
        }
        safetensors_save("weights", saved, N);
        safetensors_load("weights", loaded, N); // in another order
        for (int i = 0; i < N; i++) {
            tensor_read(loaded[N - 1 - i], (float *)back);
            assert_memory_equal(back, values[i], tensor_bytes(saved[i]));
        }
    }
}

// The bytes themselves, so that a mistake made in writing and reading alike is seen.
TEST_IN_A_FOLDER(bytes_of_a_file) {
    Tensor *tensors[] = {NAMED("b1", 1, 2), NAMED("a", 1)};
    tensor_write(tensors[0], (float[]){1, -2});
    tensor_write(tensors[1], (float[]){0.5f});
    safetensors_save("weights", tensors, 2);
    size_t size;
    char *bytes = read_bytes_of("weights", &size);
    const char header[] = "{\"b1\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"
                          "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}";
    size_t padded = (sizeof header - 1 + 7) / 8 * 8;
    assert_int_equal(size, 8 + padded + 12);
    assert_memory_equal(bytes, ((uint8_t[]){(uint8_t)padded, 0, 0, 0, 0, 0, 0, 0}), 8);
    assert_memory_equal(bytes + 8, header, sizeof header - 1);
    for (size_t i = sizeof header - 1; i < padded; i++) assert_int_equal(bytes[8 + i], ' ');
    assert_memory_equal(bytes + 8 + padded, "\0\0\x80\x3f\0\0\0\xc0\0\0\0\x3f", 12);
    free(bytes);
}

#define F32(shape, offsets) "{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define ONE(shape, offsets) "{\"w\":" F32(shape, offsets) "}"
#define TWO(a, at, b, bt)   "{\"b\":" F32(b, bt) ",\"a\":" F32(a, at) "}"
#define TYPE(dtype)         "{\"w\":{" dtype "\"shape\":[1],\"data_offsets\":[0,4]}}"

// In any order, with metadata, a scalar, no elements, more dimensions than a Tensor has.
TEST_IN_A_FOLDER(open_and_find) {
    static const struct {
        const char *name;
        int ndim, size;
        size_t count;
        float last;
    } rows[] = {
        {"last", 1, 3, 3, 5}, {"none", 2, 4, 0, 0}, {"scalar", 0, 0, 1, 0}, {"six", 6, 1, 2, 2}};
    SafetensorsFile file = safetensors_open(with_header(
        "{\"last\":" F32("[3]", "[12,24]") ",\"__metadata__\":{\"format\":\"pt\"},\"none\":" F32(
            "[4,0]", "[12,12]") ",\"scalar\":" F32("[]", "[0,4]") ",\"six\":" F32("[1,1,2,1,1,1]",
                                                                                  "[4,12]") "}  ",
        24));
    assert_int_equal(file.n, COUNT(rows));
    for (size_t i = 0; i < COUNT(rows); i++) {
        const SafetensorsEntry *e = safetensors_find(&file, rows[i].name);
        assert_true(e && e->ndim == rows[i].ndim && e->count == rows[i].count);
        assert_true(e->shape[0] == rows[i].size);
        if (e->count > 0) assert_true(e->values[e->count - 1] == rows[i].last);
    }
    assert_null(safetensors_find(&file, "__metadata__"));
    safetensors_close(&file);
    safetensors_save("empty", NULL, 0);
    safetensors_load("empty", NULL, 0);
}

static void open_it(void *path) {
    SafetensorsFile file = safetensors_open(path);
    for (int i = 0; i < file.n; i++) {
        const SafetensorsEntry *e = &file.entries[i];
        const volatile char *bytes = e->values ? (char *)e->values : (char *)e->integers;
        for (size_t b = 0; b < e->end - e->begin; b++) (void)bytes[b];
    }
    safetensors_close(&file);
}

// What is wrong: in the header, or the number of bytes that follow it.
static const struct {
    const char *header;
    size_t data_size;
    const char *words;
} bad_files[] = {
    {"", 0, "not a safetensors file"},
    {"[]", 0, "not a safetensors file"},
    {"{} x", 0, "not a safetensors file"},
    {"{\"w\":" F32("[1]", "[0,4]") ",\"w\":" F32("[1]", "[4,8]") "}", 8, "not a safetensors file"},
    {"{\"__metadata__\":3}", 0, "damaged: its __metadata__"},
    {"{\"__metadata__\":{\"a\":3}}", 0, "damaged: its __metadata__"},
    {"{\"w\":3}", 0, "damaged: type, shape and data_offsets of tensor \"w\""},
    {"{\"a\\nb\\u001b[31m\\u009b0m\":3}", 0, "tensor \"a?b?[31m??0m\""},
    {TYPE(""), 4, "data_offsets of tensor \"w\""},
    {TYPE("\"dtype\":\"F16\","), 4,
     "\"w\" has dtype F16; it must be F32\nhint: convert it in PyTorch"},
    {TYPE("\"dtype\":\"I64\","), 4, "data_offsets of tensor \"w\""},
    {ONE("3", "[0,4]"), 4, "data_offsets of tensor \"w\""},
    {ONE("[-1]", "[0,4]"), 4, "data_offsets of tensor \"w\""},
    {ONE("[1.0]", "[0,4]"), 4, "data_offsets of tensor \"w\""},
    {ONE("[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, "data_offsets of tensor \"w\""},
    {ONE("[0,2147483648]", "[0,0]"), 0, "data_offsets of tensor \"w\""},
    // 2^62 elements: the product fits, the bytes (2^64) do not. And 2^64 - 4 bytes, from 4 to 0.
    {ONE("[1073741824,1073741824,4]", "[0,0]"), 0, "data_offsets of tensor \"w\""},
    {ONE("[2147483647,715827883,3]", "[4,0]"), 4, "data_offsets of tensor \"w\""},
    {ONE("[1]", "[0,4,4]"), 4, "data_offsets of tensor \"w\""},
    {ONE("[1]", "[-4,0]"), 4, "data_offsets of tensor \"w\""},
    {ONE("[2]", "[0,8]"), 7, "data_offsets of tensor \"w\""}, // a byte is missing
    {ONE("[2]", "[0,4]"), 4, "data_offsets of tensor \"w\""},
    {ONE("[1]", "[0,4]"), 5, "overlap or leave gaps"},
    {ONE("[1]", "[1,5]"), 5, "overlap or leave gaps"},
    {TWO("[2]", "[0,8]", "[2]", "[4,12]"), 12, "overlap or leave gaps"},
    {TWO("[1]", "[0,4]", "[1]", "[8,12]"), 12, "overlap or leave gaps"},
    {TWO("[2]", "[0,8]", "[0]", "[4,4]"), 8, "overlap or leave gaps"},
};

TEST_IN_A_FOLDER(are_refused) {
    for (size_t i = 0; i < COUNT(bad_files); i++) {
        const char *path = with_header(bad_files[i].header, bad_files[i].data_size);
        expect_death(1, bad_files[i].words, open_it, (void *)path);
    }
    char deep[100006] = "{\"w\":";
    memset(deep + 5, '[', sizeof deep - 6);
    expect_death(1, "not a safetensors file", open_it, (void *)with_header(deep, 0));
}

TEST_IN_A_FOLDER(damaged_anywhere) {
    const char header[] = "{\"__metadata__\":{\"a\":\"b\"},\"w\":" F32(
        "[1,2]", "[8,16]") ","
                           "\"n\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]}}";
    expect_damaged(with_header(header, 16), 8 + strlen(header), open_it, "made");
}

static Tensor *model[2];
static int num_loaded;
static void load(void *path) { safetensors_load(path, model, num_loaded); }

// The first tensor is good, another is not: nor is the first changed. Its memory is shared with the
// child process, so that we see what is written there.
TEST_IN_A_FOLDER(of_another_model) {
    Tensor *a = NAMED("a", 2), *b = NAMED("b", 2, 3), *c = NAMED("c", 1), *nobody = NAMED(NULL, 1);
    Tensor *turned = NAMED("b", 3, 2), *flat = NAMED("b", 6);
    float *own = a->data;
    a->data = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(a->data, MAP_FAILED);
    tensor_fill(a, 7);
    model[0] = a;
    const struct {
        Tensor *second;
        int n;
        const char *words;
    } rows[] = {
        {c, 2, "tensor \"c\" is missing"},
        {nobody, 2, "needs a name"},
        {b, 1, "tensor \"b\" is none of the model's"},
        {turned, 2, "tensor \"b\" is F32 of shape (2, 3), the model wants F32 of shape (3, 2)"},
        {flat, 2, "shape (2, 3), the model wants F32 of shape (6,)"},
    };
    const char *path = with_header(TWO("[2]", "[0,8]", "[2,3]", "[8,32]"), 32);
    for (size_t i = 0; i < COUNT(rows); i++) {
        model[1] = rows[i].second;
        num_loaded = rows[i].n;
        expect_death(1, rows[i].words, load, (void *)path);
    }
    assert_true(a->data[0] == 7 && a->data[1] == 7);
    safetensors_load(path, (Tensor *[]){a, b}, 2);
    assert_true(a->data[0] == 0 && a->data[1] == 1 && b->data[5] == 7);
    munmap(a->data, 4096);
    a->data = own;
}

// A network of W1 and b1, and what a file has: up to three names, each of a tensor of one number.
TEST_IN_A_FOLDER(other_names) {
    static const struct {
        const char *names[3];
        const char *words; // NULL: it is taken
    } rows[] = {
        {{"module.W1", "module.b1"}, NULL},
        {{"_orig_mod.W1", "_orig_mod.b1"}, NULL},
        {{"module._orig_mod.W1", "module._orig_mod.b1"}, NULL},
        {{"_orig_mod.module.module.W1", "_orig_mod.module.module.b1"}, NULL},
        {{"model.W1", "model.b1"}, "\"W1\" is missing; the first of 2 in the file is \"model.W1\""},
        {{"module.W1", "b1"}, "\"W1\" is missing"},
        {{"W1", "_orig_mod.b1"}, "\"b1\" is missing"},
        {{"module.net.W1", "module.net.b1"}, "those of this one are W1 .. b1"},
        {{"W1", "b1", "exp_avg.W1"},
         "\"exp_avg.W1\" is none of the model's\nhint: the file holds more"},
        {{"module."}, "\"W1\" is missing"},
        {{NULL}, "\"W1\" is missing"},
    };
    model[0] = NAMED("W1", 1);
    model[1] = NAMED("b1", 1);
    num_loaded = 2;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char header[500] = "{";
        int n = 0;
        for (; n < 3 && rows[i].names[n]; n++)
            sprintf(header + strlen(header), "%s\"%s\":" F32("[1]", "[%d,%d]"), n ? "," : "",
                    rows[i].names[n], 4 * n, 4 * n + 4);
        const char *path = with_header(strcat(header, "}"), (size_t)(4 * n));
        if (rows[i].words) {
            expect_death(1, rows[i].words, load, (void *)path);
            continue;
        }
        model[1]->data[0] = 7;
        load((void *)path);
        assert_true(model[0]->data[0] == 0 && model[1]->data[0] == 1);
    }
}

static void save(const char *path, const char *name) {
    safetensors_save(path, (Tensor *[]){NAMED("a", 20000), NAMED(name, 1)}, 2);
}

TEST_IN_A_FOLDER(what_ends_the_program) {
    free_kept();
    write_bytes("weights", "old", 3);
    write_bytes("short", "\1\0\0\0\0\0\0", 7);
    assert_int_equal(mkfifo("pipe", 0600), 0);
    expect_deaths(state);
    assert_holds("weights", "old");
    assert_entries(4); // and what make_file() made
}

DIES("cannot read: No such file", safetensors_open("missing"))
DIES("is not a file", safetensors_open("."))
DIES("is not a file", safetensors_open("pipe")) // and does not wait for a writer
DIES("not a safetensors file", safetensors_open("short"))
DIES("not a safetensors file", safetensors_open(make_file(3, "{}", 0)))
DIES("not a safetensors file", // such a length, and 8, are 0
     safetensors_open(make_file(UINT64_MAX - 7, "{}", 0)))
DIES("two tensors have the same name", save("weights", "a"))
DIES("a tensor in a file needs a name", save("weights", NULL))
DIES("the file format has this name for itself", save("weights", "__metadata__"))
DIES("must be UTF-8", save("weights", "\xff"))
DIES("mkdir -p", save("missing/weights", "b"))

int main(void) { return run_all("safetensors", only_cpu_devices, devices_end); }
