// test_safetensors.c: parameters come back from a file to the bit, and a bad file changes nothing.
#include <sys/mman.h>

#include "dies.h"
#include "common/data/safetensors.h"

// ---- helpers ---------------------------------------------------------------------------------

// Writes a file with this header length, header, and `data_size` bytes of data: floats 0, 1, 2, ..
static const char *make_file(uint64_t header_size, const char *header, size_t data_size) {
    const char *path = in_test_folder("made.safetensors");
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fwrite(&header_size, 8, 1, file);
    fputs(header, file);
    float *values = calloc(data_size / sizeof(float) + 1, sizeof(float));
    assert_non_null(values);
    for (size_t i = 0; i < data_size / sizeof(float); i++) values[i] = (float)i;
    fwrite(values, 1, data_size, file);
    free(values);
    assert_int_equal(fclose(file), 0);
    return path;
}

static const char *with_header(const char *header, size_t data_size) {
    return make_file(strlen(header), header, data_size);
}

static Tensor *named(Device *device, const char *name, int ndim, const int *shape) {
    Tensor *t = tensor_of_shape(device, ndim, shape);
    t->name = name;
    return t;
}
#define NAMED(device, name, ...)                                                                   \
    named((device), (name), (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)),                     \
          (const int[]){__VA_ARGS__})

static void free_all(Tensor **tensors, int n) {
    for (int i = 0; i < n; i++) tensor_free(tensors[i]);
}

// ---- what goes well --------------------------------------------------------------------------

// All kinds of floats, as bits: +-0, subnormal, +-inf, NaN with payloads (quiet, signalling), 1, pi
static const uint32_t bits[] = {0x00000000, 0x80000000, 0x00000001, 0x7f800000, 0xff800000,
                                0x7fc12345, 0xffc54321, 0x7f812345, 0x3f800000, 0x40490fdb};
enum { NUM_BITS = sizeof bits / sizeof *bits };

static void round_trip_on(Device *device) {
    const char *path = in_test_folder("weights.safetensors");
    const char *odd = "\"quotes\", \\, \n and \xc3\xbc";
    enum { N = 5 };
    Tensor *saved[N] = {NAMED(device, "W", 2, 5), NAMED(device, odd, 3),
                        NAMED(device, "empty", 0, 7), NAMED(device, "conv", 2, 3, 4, 5),
                        NAMED(device, "", 1)};
    Tensor *loaded[N] = {NAMED(device, "conv", 2, 3, 4, 5), NAMED(device, "", 1),
                         NAMED(device, "W", 2, 5), NAMED(device, odd, 3), // another order
                         NAMED(device, "empty", 0, 7)};
    const int place_of[N] = {2, 3, 4, 0, 1}; // saved[i] is loaded[place_of[i]]
    uint32_t values[N][120], back[120];
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < 120; j++) values[i][j] = bits[(i + j) % NUM_BITS] ^ (uint32_t)(j & ~7);
        tensor_write(saved[i], (const float *)values[i]);
        tensor_fill(loaded[i], -1);
    }
    safetensors_save(path, saved, N);
    safetensors_load(path, loaded, N);
    for (int i = 0; i < N; i++) {
        tensor_read(loaded[place_of[i]], (float *)back);
        assert_memory_equal(back, values[i], tensor_bytes(saved[i]));
    }
    free_all(saved, N);
    free_all(loaded, N);
}

static void round_trip(void **state) {
    (void)state;
    round_trip_on(host());
    round_trip_on(cpu_device(1));
}

// The bytes themselves, so that a mistake made in writing and reading alike is seen.
static void bytes_of_a_file(void **state) {
    (void)state;
    const char *path = in_test_folder("weights.safetensors");
    Tensor *tensors[] = {NAMED(host(), "b1", 1, 2), NAMED(host(), "a", 1)};
    tensor_write(tensors[0], (float[]){1, -2});
    tensor_write(tensors[1], (float[]){0.5f});
    safetensors_save(path, tensors, 2);
    size_t size;
    char *bytes = read_bytes_of(path, &size);
    const char header[] = "{\"b1\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"
                          "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}";
    size_t padded = (sizeof header - 1 + 7) / 8 * 8;
    assert_int_equal(size, 8 + padded + 12);
    assert_memory_equal(bytes, ((uint8_t[]){(uint8_t)padded, 0, 0, 0, 0, 0, 0, 0}), 8);
    assert_memory_equal(bytes + 8, header, sizeof header - 1);
    for (size_t i = sizeof header - 1; i < padded; i++) assert_int_equal(bytes[8 + i], ' ');
    assert_memory_equal(bytes + 8 + padded, "\0\0\x80\x3f\0\0\0\xc0\0\0\0\x3f", 12);
    free(bytes);
    free_all(tensors, 2);
}

static void open_and_find(void **state) {
    (void)state;
    // In any order, with metadata, a scalar, no elements, more dimensions than a Tensor has.
    const char *path = with_header(
        "{\"last\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[12,24]},"
        "\"__metadata__\":{\"format\":\"pt\"},"
        "\"none\":{\"dtype\":\"F32\",\"shape\":[4,0],\"data_offsets\":[12,12]},"
        "\"scalar\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
        "\"six\":{\"dtype\":\"F32\",\"shape\":[1,1,2,1,1,1],\"data_offsets\":[4,12]}}  ",
        24);
    SafetensorsFile file = safetensors_open(path);
    assert_int_equal(file.n, 4);
    const SafetensorsEntry *last = safetensors_find(&file, "last");
    assert_int_equal(last->ndim, 1);
    assert_int_equal(last->shape[0], 3);
    assert_int_equal(last->count, 3);
    for (int i = 0; i < 3; i++) assert_true(last->values[i] == (float)(3 + i));
    assert_int_equal(safetensors_find(&file, "none")->count, 0);
    assert_int_equal(safetensors_find(&file, "scalar")->ndim, 0);
    assert_true(safetensors_find(&file, "scalar")->values[0] == 0.0f);
    assert_int_equal(safetensors_find(&file, "six")->ndim, 6);
    assert_true(safetensors_find(&file, "six")->values[1] == 2.0f);
    assert_null(safetensors_find(&file, "__metadata__"));
    safetensors_close(&file);

    file = safetensors_open(with_header("{}", 0));
    assert_int_equal(file.n, 0);
    safetensors_close(&file);
}

static void nothing_to_save(void **state) {
    (void)state;
    const char *path = in_test_folder("empty.safetensors");
    safetensors_save(path, NULL, 0);
    safetensors_load(path, NULL, 0);
}

// ---- bad files -------------------------------------------------------------------------------

static void open_it(void *path) {
    SafetensorsFile file = safetensors_open(path);
    safetensors_close(&file);
}

static void not_a_file(void **state) {
    (void)state;
    expect_death(1, "cannot read: No such file", open_it, (void *)in_test_folder("missing"));
    expect_death(1, "is not a file", open_it, test_folder);
    const char *pipe_path = in_test_folder("pipe");
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    expect_death(1, "is not a file", open_it, (void *)pipe_path); // and does not wait for a writer
}

static void bad_header_length(void **state) {
    (void)state;
    const char *path = in_test_folder("made.safetensors");
    write_bytes(path, "", 0);
    expect_death(1, "0 bytes are too few", open_it, (void *)path);
    write_bytes(path, "\1\0\0\0\0\0\0", 7);
    expect_death(1, "7 bytes are too few", open_it, (void *)path);
    make_file(3, "{}", 0);
    expect_death(1, "claims 3 bytes, the file has only 10", open_it, (void *)path);
    make_file(2000000000, "{}", 0);
    expect_death(1, "claims 2000000000 bytes; at most 100000000 are allowed", open_it,
                 (void *)path);
    make_file(UINT64_MAX, "{}", 0);
    expect_death(1, "claims 18446744073709551615 bytes", open_it, (void *)path);
    make_file(UINT64_MAX - 7, "{}", 0); // wraps round to 0 when 8 is added
    expect_death(1, "claims 18446744073709551608 bytes", open_it, (void *)path);
    // A PyTorch checkpoint is a zip archive; somebody will try it.
    write_bytes(path, "PK\3\4\0\0\10\10\0\0\0\0", 12);
    expect_death(1, "header claims", open_it, (void *)path);
}

// Expects that a file with this header and that much data is refused with these words.
static void refused(const char *header, size_t data_size, const char *expected) {
    expect_death(1, expected, open_it, (void *)with_header(header, data_size));
}
#define F32(shape, offsets) "{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define ONE(shape, offsets) "{\"w\":" F32(shape, offsets) "}"

static void bad_json(void **state) {
    (void)state;
    refused("", 0, "not a JSON object");
    refused("[1,2]", 0, "not a JSON object");
    refused(" {}", 0, "not a JSON object"); // the format wants the brace first
    refused("null", 0, "not a JSON object");
    refused("{\"w\":", 0, "not good JSON");
    refused("{} x", 0, "not good JSON");
    refused("{\"\xff\":{}}", 0, "not good JSON");
    refused("{\"a\\u0000b\":{}}", 0, "not good JSON");
    refused("{\"a\nb\":{}}", 0, "not good JSON"); // and the message still has two lines
    refused("{\"w\":" F32("[1]", "[0,4]") ",\"w\":" F32("[1]", "[4,8]") "}", 8, "duplicate");
    refused("{\"w\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4,
            "duplicate");
    refused("{\"w\":" F32("[1]", "[0,99999999999999999999]") "}", 4, "not good JSON");
    enum { DEPTH = 100000 };
    char *deep = malloc(DEPTH + 6);
    assert_non_null(deep);
    memset(deep, '[', DEPTH + 5);
    memcpy(deep, "{\"w\":", 5);
    deep[DEPTH + 5] = '\0';
    refused(deep, 0, "not good JSON");
    free(deep);
    refused("{\"__metadata__\":3}", 0, "__metadata__ is not an object of strings");
    refused("{\"__metadata__\":{\"a\":3}}", 0, "__metadata__ is not an object of strings");
}

static void bad_entry(void **state) {
    (void)state;
    refused("{\"w\":3}", 0, "tensor \"w\" is not a JSON object");
    refused("{\"a\\nb\\u001b[31m\\u009b0m\":3}", 0, "tensor \"a?b?[31m??0m\" is not a JSON object");
    refused("{\"w\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "tensor \"w\" has no dtype");
    refused("{\"w\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "\"w\" has no dtype");
    refused("{\"w\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4,
            "tensor \"w\" has dtype F16; it must be F32");
    refused("{\"w\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, ".float()");
    refused("{\"w\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "tensor \"w\" has no shape");
    refused(ONE("3", "[0,4]"), 4, "tensor \"w\" has no shape");
    refused(ONE("[-1]", "[0,4]"), 4, "not an integer of 0..2147483647");
    refused(ONE("[1.0]", "[0,4]"), 4, "not an integer of 0..2147483647");
    refused(ONE("[\"1\"]", "[0,4]"), 4, "not an integer of 0..2147483647");
    refused(ONE("[2147483648]", "[0,4]"), 4, "not an integer of 0..2147483647");
    refused(ONE("[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, "tensor \"w\" has 9 dimensions");
    // 2^62 elements: the product fits, the bytes (2^64) do not.
    refused(ONE("[1073741824,1073741824,4]", "[0,0]"), 0, "too large for any memory");
    refused(ONE("[2147483647,2147483647,2147483647]", "[0,4]"), 4,
            "shape (2147483647, 2147483647, 2147483647) is too large");
}

static void bad_offsets(void **state) {
    (void)state;
    refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "has no data_offsets [begin, end]");
    refused(ONE("[1]", "4"), 4, "has no data_offsets [begin, end]");
    refused(ONE("[1]", "[0]"), 4, "has no data_offsets [begin, end]");
    refused(ONE("[1]", "[0,4,4]"), 4, "has no data_offsets [begin, end]");
    refused(ONE("[1]", "[-4,0]"), 4, "not within the 4 bytes of data");
    refused(ONE("[1]", "[0,4.0]"), 4, "not within the 4 bytes of data");
    refused(ONE("[2]", "[0,8]"), 4, "not within the 4 bytes of data");
    refused(ONE("[1]", "[9223372036854775804,9223372036854775807]"), 4, "not within the 4 bytes");
    refused(ONE("[1]", "[4,0]"), 4, "its data ends before it begins");
    refused(ONE("[2]", "[0,4]"), 4, "shape (2,) needs 8 bytes, data_offsets give it 4");
    refused(ONE("[]", "[0,0]"), 0, "shape () needs 4 bytes, data_offsets give it 0");
    refused(ONE("[0,3]", "[0,4]"), 4, "shape (0, 3) needs 0 bytes, data_offsets give it 4");
    refused(ONE("[1]", "[0,4]"), 8, "4 bytes at the end belong to no tensor");
    refused(ONE("[1]", "[1,5]"), 5, "1 bytes before tensor \"w\" belong to no tensor");
    refused("{}", 4, "4 bytes at the end belong to no tensor");
    refused("{\"a\":" F32("[2]", "[0,8]") ",\"b\":" F32("[2]", "[4,12]") "}", 12,
            "tensors \"a\" and \"b\" overlap");
    refused("{\"b\":" F32("[1]", "[0,4]") ",\"a\":" F32("[1]", "[0,4]") "}", 4,
            "tensors \"a\" and \"b\" overlap"); // whatever sorts them
    refused("{\"a\":" F32("[1]", "[0,4]") ",\"b\":" F32("[1]", "[8,12]") "}", 12,
            "4 bytes before tensor \"b\" belong to no tensor");
    refused("{\"a\":" F32("[2]", "[0,8]") ",\"none\":" F32("[0]", "[4,4]") "}", 8, "overlap");
}

// ---- a good file for another model -----------------------------------------------------------

typedef struct Load {
    const char *path;
    Tensor **tensors;
    int n;
} Load;

static void load(void *arg) {
    const Load *a = arg;
    safetensors_load(a->path, a->tensors, a->n);
}

static void wrong_model(void **state) {
    (void)state;
    const char *path =
        with_header("{\"a\":" F32("[2]", "[0,8]") ",\"b\":" F32("[2,3]", "[8,32]") "}", 32);
    Tensor *a = NAMED(host(), "a", 2), *b = NAMED(host(), "b", 2, 3), *c = NAMED(host(), "c", 1);
    Tensor *turned = NAMED(host(), "b", 3, 2), *flat = NAMED(host(), "b", 6);
    Load l = {path, (Tensor *[]){a, b, c}, 3};
    expect_death(1, "tensor \"c\" is missing", load, &l);
    l = (Load){path, (Tensor *[]){a}, 1};
    expect_death(1, "tensor \"b\" is none of the model's", load, &l);
    l = (Load){path, (Tensor *[]){a, turned}, 2};
    expect_death(1, "tensor \"b\" has shape (2, 3), the model wants (3, 2)", load, &l);
    l = (Load){path, (Tensor *[]){a, flat}, 2};
    expect_death(1, "tensor \"b\" has shape (2, 3), the model wants (6,)", load, &l);
    c->name = NULL;
    l = (Load){path, (Tensor *[]){a, b, c}, 3};
    expect_death(1, "a tensor in a file needs a name", load, &l);
    free_all((Tensor *[]){a, b, c, turned, flat}, 5);
}

// The first tensor is good, the second is not: nor is the first changed. Its memory is shared with
// the child process that dies, so that we see what was written there.
static void nothing_changes(void **state) {
    (void)state;
    Tensor *a = NAMED(host(), "a", 2), *b = NAMED(host(), "b", 3);
    float *own = a->data;
    a->data = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(a->data, MAP_FAILED);
    tensor_fill(a, 7);
    Load l = {NULL, (Tensor *[]){a, b}, 2};

    l.path = with_header("{\"a\":" F32("[2]", "[0,8]") ",\"b\":" F32("[2]", "[8,16]") "}", 16);
    expect_death(1, "tensor \"b\" has shape (2,)", load, &l);
    l.path = with_header("{\"a\":" F32("[2]", "[0,8]") ",\"b\":" F32("[3]", "[8,20]") "}", 16);
    expect_death(1, "not within the 16 bytes of data", load, &l); // cut off
    assert_true(a->data[0] == 7 && a->data[1] == 7);

    l.path = with_header("{\"a\":" F32("[2]", "[0,8]") ",\"b\":" F32("[3]", "[8,20]") "}", 20);
    load(&l);
    assert_true(a->data[0] == 0 && a->data[1] == 1);
    munmap(a->data, 4096);
    a->data = own;
    free_all(l.tensors, 2);
}

// ---- saving ----------------------------------------------------------------------------------

static void save(void *arg) {
    const Load *a = arg;
    safetensors_save(a->path, a->tensors, a->n);
}

static void bad_saves(void **state) {
    (void)state;
    const char *path = in_test_folder("weights.safetensors");
    Tensor *a = NAMED(host(), "a", 20000), *b = NAMED(host(), "b", 1);
    tensor_fill(a, 1);
    tensor_fill(b, 2);
    Load l = {path, (Tensor *[]){a, b}, 2};
    safetensors_save(path, l.tensors, 1);
    size_t size, size_after;
    char *before = read_bytes_of(path, &size);

    b->name = "a";
    expect_death(1, "two tensors have the same name", save, &l);
    b->name = NULL;
    expect_death(1, "a tensor in a file needs a name", save, &l);
    b->name = "__metadata__";
    expect_death(1, "the file format has this name for itself", save, &l);
    b->name = "\xff";
    expect_death(1, "must be UTF-8", save, &l);
    b->name = "b";
    l.path = "/dev/full";
    expect_death(1, "/dev/full: cannot write: No space left on device", save, &l);
    l.path = in_test_folder("missing/weights.safetensors");
    expect_death(1, "mkdir -p", save, &l);

    char *after = read_bytes_of(path, &size_after);
    assert_int_equal(size_after, size);
    assert_memory_equal(after, before, size);
    free(before);
    free(after);
    free_all((Tensor *[]){a, b}, 2);
}

// CPU devices even where there is a GPU, because CUDA does not survive a fork.
static int use_cpu_devices(void **state) {
    (void)state;
    devices_init(BACKEND_CPU, 0);
    return 0;
}

static int close_devices(void **state) {
    (void)state;
    devices_close();
    return 0;
}

#define TEST(function)                                                                             \
    cmocka_unit_test_setup_teardown(function, make_test_folder, remove_test_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(round_trip),  TEST(bytes_of_a_file),   TEST(open_and_find),   TEST(nothing_to_save),
        TEST(not_a_file),  TEST(bad_header_length), TEST(bad_json),        TEST(bad_entry),
        TEST(bad_offsets), TEST(wrong_model),       TEST(nothing_changes), TEST(bad_saves),
    };
    return cmocka_run_group_tests_name("safetensors", tests, use_cpu_devices, close_devices);
}
