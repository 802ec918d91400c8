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
    safetensors_close(&file);
}

// What is wrong: in the header, or the number of bytes that follow it. The reference (version 0.8.0
// of safetensors, tried on each file) refuses all of these, too.
typedef struct {
    const char *header;
    size_t data_size;
    const char *words; // of the message; NULL: none
} Row;
static const Row bad_files[] = {
    {"", 0, "not good JSON"},
    {"[]", 0, "not a JSON object"},
    {"{} x", 0, "not good JSON"},
    {"{\"\xff\":{}}", 0, "not good JSON"},
    {"{\"a\nb\":{}}", 0, "not good JSON"}, // and the message still has two lines
    {"\f" ONE("[1]", "[0,4]"), 4, "not good JSON"},
    {"\xef\xbb\xbf" ONE("[1]", "[0,4]"), 4, "not good JSON"}, // a byte order mark
    {ONE("[1]", "[0,4]") "\f", 4, "not good JSON"},
    {"{'w':" F32("[1]", "[0,4]") "}", 4, "not good JSON"},
    {"{\"w\":" F32("[1]", "[0,4]") ",}", 4, "not good JSON"},
    {"{\"a\\ud800\":" F32("[1]", "[0,4]") "}", 4, "not good JSON"},
    {"{\"\xc0\x80\":" F32("[1]", "[0,4]") "}", 4, "not good JSON"},
    {"{\"\xed\xa0\x80\":" F32("[1]", "[0,4]") "}", 4, "not good JSON"},
    {"null", 0, "not good JSON"},
    {"{\"__metadata__\":null,\"__metadata__\":null}", 0, "twice"},
    {TYPE("\"dtype\":\"F32\",\"dtype\":\"F32\","), 4, "a key twice"},
    {"{\"w\":" F32("[1]", "[0,4]") ",\"w\":" F32("[1]", "[4,8]") "}", 8, "a key twice"},
    {ONE("[1]", "[0,99999999999999999999]"), 4, "not good JSON"},
    {"{\"__metadata__\":3}", 0, "__metadata__ is not an object of strings"},
    {"{\"__metadata__\":[]}", 0, "__metadata__ is not an object of strings"},
    {"{\"__metadata__\":{\"a\":null}}", 0, "__metadata__ is not an object of strings"},
    {"{\"__metadata__\":{\"a\":3}}", 0, "__metadata__ is not an object of strings"},
    {"{\"w\":3}", 0, "tensor \"w\" is not a JSON object"},
    {"{\"a\\nb\\u001b[31m\\u009b0m\":3}", 0, "tensor \"a?b?[31m??0m\" is not a JSON object"},
    {TYPE(""), 4, "tensor \"w\" has no dtype"},
    {TYPE("\"dtype\":\"f32\","), 4, "\"w\" has dtype f32, which is unknown"},
    {TYPE("\"dtype\":\"C128\","), 4, "\"w\" has dtype C128, which is unknown"},
    {TYPE("\"dtype\":\"F4\","), 1, "1 numbers of F4 do not fill whole bytes"},
    {TYPE("\"dtype\":\"I64\","), 4, "shape (1,) needs 8 bytes, data_offsets give it 4"},
    {ONE("3", "[0,4]"), 4, "tensor \"w\" has no shape"},
    {ONE("[-1]", "[0,4]"), 4, "no integer from 0"},
    {ONE("[1.0]", "[0,4]"), 4, "no integer from 0"},
    {ONE("[true]", "[0,4]"), 4, "no integer from 0"},
    {ONE("[01]", "[0,4]"), 4, "not good JSON"},
    {ONE("[]", "[0,0]"), 0, "shape () needs 4 bytes"},
    // 2^62 elements: the product fits, the bytes (2^64) do not.
    {ONE("[1073741824,1073741824,4]", "[0,0]"), 0, "too large for any memory"},
    {ONE("[2147483647,2147483647,2147483647]", "[0,4]"), 4, "2147483647) is too large"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "has no data_offsets [begin, end]"},
    {ONE("[1]", "[0,4,4]"), 4, "has no data_offsets [begin, end]"},
    {ONE("[1]", "[-4,0]"), 4, "not within the 4 bytes of data"},
    {ONE("[1]", "[0,4.0]"), 4, "not within the 4 bytes of data"},
    {ONE("[2]", "[0,8]"), 7, "not within the 7 bytes of data"}, // a byte is missing
    {ONE("[1]", "[9223372036854775804,9223372036854775807]"), 4, "not within the 4 bytes"},
    {ONE("[1]", "[4,0]"), 4, "its data ends before it begins"},
    {ONE("[2]", "[0,4]"), 4, "shape (2,) needs 8 bytes, data_offsets give it 4"},
    {ONE("[0,3]", "[0,4]"), 4, "shape (0, 3) needs 0 bytes, data_offsets give it 4"},
    {ONE("[1]", "[0,4]"), 5, "1 bytes at the end belong to no tensor"},
    {ONE("[1]", "[1,5]"), 5, "1 bytes before tensor \"w\" belong to no tensor"},
    {TWO("[2]", "[0,8]", "[2]", "[4,12]"), 12, "\"a\" and \"b\" overlap"},
    {TWO("[1]", "[0,4]", "[1]", "[0,4]"), 4, "\"a\" and \"b\" overlap"},
    {TWO("[1]", "[0,4]", "[1]", "[8,12]"), 12, "4 bytes before tensor"},
    {TWO("[2]", "[0,8]", "[0]", "[4,4]"), 8, "overlap"},
};

static void expect_rows(const Row *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const char *path = with_header(rows[i].header, rows[i].data_size);
        if (rows[i].words)
            expect_death(1, rows[i].words, open_it, (void *)path);
        else
            open_it((void *)path);
    }
}

TEST_IN_A_FOLDER(are_refused) {
    expect_rows(bad_files, COUNT(bad_files));
    char deep[100006] = "{\"w\":";
    memset(deep + 5, '[', sizeof deep - 6);
    expect_death(1, "not good JSON", open_it, (void *)with_header(deep, 0));
}

// What that version takes. Where this program does not, it says so, and does not call the file
// damaged. (The other way round, it takes -0 for 0, and more than 126 brackets in one another.)
#define WITH(more) "{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]," more "}}"
static const Row taken_by_the_reference[] = {
    {"{}", 0, NULL},
    {" \t\r\n" ONE("[1]", "[0,4]") "\n\r\t ", 4, NULL},
    {"{\"__metadata__\":null,\"w\":" F32("[1]", "[0,4]") "}", 4, NULL},
    {"{\"\\u005f_metadata__\":{\"a\":\"b\"}}", 0, NULL},
    {WITH("\"x\":{\"y\":[1,null,true,2.5]}"), 4, NULL},
    {TYPE("\"dtype\":\"F\\u00332\","), 4, NULL},
    {ONE("[]", "[0,4]"), 4, NULL},
    {ONE("[4,0,3]", "[0,0]"), 0, NULL},
    {TWO("[1]", "[0,4]", "[0]", "[0,0]"), 4, NULL},
    {TWO("[1]", "[0,4]", "[0]", "[4,4]"), 4, NULL},
    {TWO("[0]", "[0,0]", "[0]", "[0,0]"), 0, NULL},
    {"{\"w\":" F32("[1]", "[0,4]") ",\"n\":{\"dtype\":\"I64\",\"shape\":[],"
                                   "\"data_offsets\":[4,12]}}",
     12, NULL},
    {"{\"\":" F32("[1]", "[0,4]") "}", 4, NULL},
    {"{\"a\\n\\\"\\/\\u00fc\\ud83d\\ude00\x7f\xef\xbf\xbf\":" F32("[1]", "[0,4]") "}", 4, NULL},
    // Of two with one name it takes the last, though the format's description forbids them.
    {"{\"w\":" F32("[1]", "[0,4]") ",\"w\":" F32("[1]", "[0,4]") "}", 4,
     "a key twice: duplicate object key near '\"w\"'\nhint: the format forbids that; some readers "
     "take the last"},
    {"{\"w\":" F32("[1]", "[0,4]") ",\"\\u0077\":" F32("[2]", "[0,8]") "}", 8, "a key twice"},
    {"{\"__metadata__\":{\"a\":\"b\",\"a\":\"c\"}}", 0, "a key twice"},
    {WITH("\"x\":1,\"x\":1"), 4, "a key twice"},
    {"{\"w\":[\"F32\",[1],[0,4]]}", 4, "is not a JSON object"},
    {"{\"a\\u0000b\":" F32("[1]", "[0,4]") "}", 4, "zero byte, which this program cannot read"},
    {WITH("\"x\":18446744073709551615"), 4, "larger numbers than this program reads"},
    {ONE("[0,2147483648]", "[0,0]"), 0, "has a dimension of 2147483648\nhint: this program reads"},
    {ONE("[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, "has 9 dimensions\nhint: this program reads"},
};

// A tensor of 4 numbers of a type that the reference knows: so many bytes.
static const struct {
    const char *dtype;
    int bytes;
} dtypes[] = {{"BOOL", 4},        {"F4", 2},          {"F6_E2M3", 3}, {"F6_E3M2", 3}, {"U8", 4},
              {"I8", 4},          {"F8_E5M2", 4},     {"F8_E4M3", 4}, {"F8_E8M0", 4}, {"I16", 8},
              {"F8_E4M3FNUZ", 4}, {"F8_E5M2FNUZ", 4}, {"U16", 8},     {"F16", 8},     {"BF16", 8},
              {"I32", 16},        {"U32", 16},        {"C64", 32},    {"F64", 32},    {"U64", 32}};

TEST_IN_A_FOLDER(as_the_reference) {
    expect_rows(taken_by_the_reference, COUNT(taken_by_the_reference));
    for (size_t i = 0; i < COUNT(dtypes); i++) {
        char header[200], words[100];
        const char *dtype = dtypes[i].dtype;
        bool is_float =
            strcmp(dtype, "F16") == 0 || strcmp(dtype, "BF16") == 0 || strcmp(dtype, "F64") == 0;
        snprintf(header, sizeof header,
                 "{\"w\":{\"dtype\":\"%s\",\"shape\":[4],\"data_offsets\":[0,%d]}}", dtype,
                 dtypes[i].bytes);
        snprintf(words, sizeof words, "\"w\" has dtype %s; it must be F32\nhint: %s", dtype,
                 is_float ? "convert it in PyTorch with .float()" : "these are no plain");
        expect_rows(&(Row){header, (size_t)dtypes[i].bytes, words}, 1);
    }
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
        {turned, 2, "tensor \"b\" has shape (2, 3), the model wants (3, 2)"},
        {flat, 2, "tensor \"b\" has shape (2, 3), the model wants (6,)"},
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
        {{"model.W1", "model.b1"}, "all names begin with \"model.\", those of this network do not"},
        {{"state/W1", "state/b1"}, "k.removeprefix(\"state/\"): v"},
        {{"module.net.W1", "module.net.b1"}, "all names begin with \"module.net.\""},
        {{"module.W1", "b1"},
         "there is \"module.W1\" (as DataParallel and DDP name it), as 1 of 2"},
        {{"module.W1", "b1"},
         "k.removeprefix(\"module.\"): v for k, v in net.state_dict().items()}, "},
        {{"module.W1", "_orig_mod.b1"},
         "k.replace(\"_orig_mod.\", \"\").replace(\"module.\", \"\")"},
        {{"W1", "_orig_mod.b1"}, "\"b1\" is missing; there is \"_orig_mod.b1\" (as torch.compile"},
        {{"net.W1", "net.b1", "optimizer.0"}, "items() if k.startswith(\"net.\")}"},
        {{"module.W1", "module.b1", "step"}, "there is \"module.W1\" (as DataParallel and DDP"},
        {{"W1", "b1", "exp_avg.W1"},
         "\"exp_avg.W1\" is none of the model's\nhint: the file holds more"},
        {{"W_orig_mod.1", "b1"}, "k.replace(\"_orig_mod.\", \"\")"},
        {{"0.weight", "0.bias"},
         "\"W1\" is missing; the first of 2 in the file is \"0.weight\"\nhint: "
         "the file is of another network, or has other names: those of this "
         "one are W1, b1"},
        {{"module.0.weight", "module.0.bias"}, "\"W1\" is missing"},
        {{"xW1", "xb1"}, "all names begin with \"x\""},
        {{"module."}, "\"W1\" is missing"},
        {{NULL}, "\"W1\" is missing; there is no tensor in it"},
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

// What people take for such a file.
TEST_IN_A_FOLDER(other_formats) {
    static const struct {
        const char *bytes;
        size_t size;
        const char *words;
    } rows[] = {
#define BYTES(text) text, sizeof text - 1
        {BYTES("PK\3\4\0\0\10\10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\14\0\0\0archive/data.pkl"),
         "is a zip archive, as torch.save() writes, no safetensors file\nhint: in PyTorch: "
         "safetensors.torch.save_file("},
        {BYTES("PK\3\4\24\0\0\0\0\0\0\0!\0\0\0\0\0\0\0\0\0\0\0\0\0\6\0\0\0W1.npyxx"),
         "is a zip archive of NumPy arrays, no safetensors file\nhint: in Python: "
         "safetensors.numpy"},
        {BYTES("\x80\2\x8a\nl\xfc\x9c"), "is a pickle, as old versions of torch.save() write"},
        {BYTES("\x80\4\x95\1\0\0\0\0\0\0\0}\x94."), "is a pickle"},
        {BYTES("\x93NUMPY\1\0v\0{'descr'"), "is a NumPy array"},
        {BYTES("\x89HDF\r\n\x1a\n\0\0\0\0\0\10"), "is HDF5"},
        {BYTES("\x1f\x8b\10\0\0\0\0\0\0\3\xab"),
         "is packed by gzip, no safetensors file\nhint: unpack"},
        {BYTES("{\n  \"metadata\": {\n    \"total_size\": 516272\n  },\n  \"weight_map\""),
         "is JSON text"},
        {BYTES("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a"),
         "is a pointer that git-lfs left in the file's place, no safetensors file\nhint: git lfs "
         "pull"},
        {BYTES("\n\n<!DOCTYPE html>\n<html lang=\"en\">"), "is a web page, no safetensors file"},
        {BYTES("Entry not found"), "is text that begins 'Entry not found', no safetensors file"},
        {BYTES("404"), "is text that begins '404'"},
        {"", 0, "0 bytes are too few"},
        {BYTES("\0\0\0\0\0\0\0\0\0"), "not good JSON"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        write_bytes("made", rows[i].bytes, rows[i].size);
        expect_death(1, rows[i].words, open_it, "made");
    }
}

static void save(const char *path, const char *name) {
    safetensors_save(path, (Tensor *[]){NAMED("a", 20000), NAMED(name, 1)}, 2);
}

TEST_IN_A_FOLDER(what_ends_the_program) {
    free_kept();
    write_bytes("weights", "old", 3);
    write_bytes("short", "\1\0\0\0\0\0\0", 7);
    assert_true(!symlink("/dev/full", "full") && !mkfifo("pipe", 0600));
    expect_deaths(state);
    assert_holds("weights", "old");
    assert_entries(5); // and what make_file() made
}

DIES("cannot read: No such file", safetensors_open("missing"))
DIES("is not a file", safetensors_open("."))
DIES("is not a file", safetensors_open("pipe")) // and does not wait for a writer
DIES("7 bytes are too few", safetensors_open("short"))
DIES("claims 3 bytes, the file has only 10", safetensors_open(make_file(3, "{}", 0)))
DIES("claims 100000001 bytes; at most 100000000 are allowed",
     safetensors_open(make_file(100000001, "{}", 0)))
DIES("claims 18446744073709551608 bytes", // which, and 8, are 0
     safetensors_open(make_file(UINT64_MAX - 7, "{}", 0)))
DIES("two tensors have the same name", save("weights", "a"))
DIES("a tensor in a file needs a name", save("weights", NULL))
DIES("the file format has this name for itself", save("weights", "__metadata__"))
DIES("must be UTF-8", save("weights", "\xff"))
DIES("cannot write: No space left on device", save("full", "b"))
DIES("mkdir -p", save("missing/weights", "b"))

int main(void) { return run_all("safetensors", only_cpu_devices, devices_end); }
