// test_data.c: the data set is what it claims to be, every epoch shows each image once, and things
// are divided by one rule.
#include <zlib.h>

#include "cases.h"
#include "chapters/01_splitting_strategies/spread.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/03_split_batch/split_batch.h"
#include "common/base/file.h"
#include "common/data/evaluate.h"
#include "common/tensor/functional.h"
#include "common/tensor/random.h"

enum { PIXELS = 28 * 28 };
#define IMAGES "train-images-idx3-ubyte"
#define LABELS "train-labels-idx1-ubyte"

TEST(random_numbers) {
    // Counter and key 0 in Random123's table of known answers (kat_vectors, philox4x32 10).
    const uint64_t first = random_bits(0, 0, 0), high = 1ull << 32;
    assert_true(first == 0xe169c58d6627e8d5u && random_bits(1, 0, 0) != first);
    assert_true(random_bits(high, 0, 0) != first && random_bits(0, 1, 0) != first);
    assert_true(random_bits(0, 0, high) != first);

    enum { N = 100000 };
    double sum = 0, squares = 0, uniforms = 0;
    static float values[N];
    fill_normal(values, N, 0.5, 42, STREAM_TEST);
    for (int i = 0; i < N; i++) {
        double u = random_uniform(42, STREAM_TEST + 1, (uint64_t)i);
        assert_true(u > 0 && u < 1);
        assert_true(values[i] == (float)(0.5 * random_normal(42, STREAM_TEST, (uint64_t)i)));
        uniforms += u;
        sum += values[i];
        squares += (double)values[i] * values[i];
    }
    // Within four standard errors: 1/sqrt(12 N), 0.5/sqrt(N), 0.25 sqrt(2/N).
    assert_true(fabs(uniforms / N - 0.5) < 4 / sqrt(12.0 * N));
    assert_true(fabs(sum / N) < 4 * 0.5 / sqrt(N));
    assert_true(fabs(squares / N - 0.25) < 4 * 0.25 * sqrt(2.0 / N));
}

// All 6 orders of 3 things are equally likely.
TEST(random_orders) {
    enum { N = 60000 };
    int counts[27] = {0}, order[3];
    for (int i = 0; i < N; i++) {
        random_order(order, 3, (uint64_t)i, STREAM_TEST);
        counts[9 * order[0] + 3 * order[1] + order[2]]++;
    }
    const int possible[6] = {5, 7, 11, 15, 19, 21}; // 012 021 102 120 201 210 in base 3
    int total = 0;
    for (int i = 0; i < 6; total += counts[possible[i++]])
        assert_true(abs(counts[possible[i]] - N / 6) < 4 * 92); // standard deviation sqrt(N 5/36)
    assert_int_equal(total, N);
    random_order(order, 0, 1, STREAM_TEST);
    random_order(order, 1, 1, STREAM_TEST);
    assert_int_equal(order[0], 0);
}

// (Where the environment says; a later test changes that.)
TEST(real_data) {
    Dataset *train = fashion_mnist_open(NULL, true, 0), *test = fashion_mnist_open(NULL, false, 0);
    assert_true(train->count == 60000 && test->count == 10000 && train->labels[0] == 9);
    assert_string_equal(fashion_mnist_names[train->labels[0]], "ankle boot");
    int counts[FASHION_MNIST_CLASSES] = {0};
    for (int i = 0; i < train->count; i++) counts[train->labels[i]]++;
    for (int i = 0; i < FASHION_MNIST_CLASSES; i++) assert_int_equal(counts[i], 6000);
    dataset_free(train);
    dataset_free(test);
}

static uint8_t pixel(size_t image, size_t p) { return (uint8_t)(image * 31 + p * 7 + p / 256); }

// Writes an IDX file: a header of these numbers, then `bytes` bytes.
static void make_idx(bool zipped, bool images, int numbers, const uint32_t *header, size_t bytes) {
    static const char *const names[2][2] = {{LABELS, LABELS ".gz"}, {IMAGES, IMAGES ".gz"}};
    gzFile file = gzopen(names[images][zipped], zipped ? "wb" : "wbT");
    assert_non_null(file);
    for (int i = 0; i < numbers; i++)
        for (int shift = 24; shift >= 0; shift -= 8) gzputc(file, (int)(header[i] >> shift & 255));
    for (size_t i = 0; i < bytes; i++)
        gzputc(file, numbers == 4 ? pixel(i / PIXELS, i % PIXELS) : (int)(i % 10));
    assert_int_equal(gzclose(file), Z_OK);
}

// Images and labels: so many are claimed, and so many are there.
static void make_set(bool zipped, uint32_t claimed, size_t count) {
    make_idx(zipped, true, 4, (uint32_t[]){0x803, claimed, 28, 28}, count * PIXELS);
    make_idx(zipped, false, 2, (uint32_t[]){0x801, claimed}, count);
}

static void assert_opens(const char *folder, int limit, int count) {
    Dataset *data = fashion_mnist_open(folder, true, limit);
    assert_int_equal(data->count, count);
    assert_true(data->rows == 28 && data->cols == 28);
    for (size_t i = 0; i < (size_t)count; i++) {
        assert_int_equal(data->labels[i], i % 10);
        for (size_t p = 0; p < PIXELS; p++)
            if (data->images[i * PIXELS + p] != pixel(i, p)) fail_msg("image %zu, pixel %zu", i, p);
    }
    dataset_free(data);
}

TEST_IN_A_FOLDER(zipped_and_plain) {
    make_set(true, 13, 13);
    make_set(false, 2000, 2000); // larger than the first piece of memory
    assert_opens(".", 0, 13);    // where there are both, the .gz is taken
    assert_true(!unlink(IMAGES ".gz") && !unlink(LABELS ".gz"));
    assert_opens(".", 1999, 1999);
    assert_opens(".", 1, 1);
    dataset_free(NULL);
    setenv("FASHION_MNIST_DIR", test_folder, 1);
    assert_opens(NULL, 0, 2000);
    unsetenv("FASHION_MNIST_DIR");
}

// ---- bad files -------------------------------------------------------------------------------

static int limit_of_open;

static void open_train(void *folder) { fashion_mnist_open(folder, true, limit_of_open); }

static void refused(const char *expected) { expect_death(1, expected, open_train, test_folder); }

TEST_IN_A_FOLDER(missing) {
    expect_death(1, "No such file or directory\nhint: `make setup`", open_train, "nowhere");
    refused(IMAGES ".gz: no such file\nhint: `make setup` installs the data set");
    make_set(false, 3, 3);
    expect_death(1, "is not a folder", open_train, IMAGES);
    assert_true(!unlink(LABELS));
    refused(LABELS ".gz: no such file");
    assert_int_equal(mkdir(LABELS ".gz", 0700), 0);
    refused(LABELS ".gz: is a folder, and the file is not in it");
}

static void move_to(const char *from, const char *folder, const char *to) {
    char *path = path_join(folder, to);
    *strrchr(path, '/') = '\0';
    make_directory(path);
    path[strlen(path)] = '/';
    assert_int_equal(rename(from, path), 0);
    free(path);
}

// Under other names, and in other places below the folder.
TEST_IN_A_FOLDER(other_places) {
    static const struct {
        const char *images, *labels;
    } rows[] = {
        {"train-images.idx3-ubyte", "train-labels.idx1-ubyte"}, // 7-zip
        {"train-images.idx3-ubyte.gz", LABELS ".GZ"},
        {IMAGES "/" IMAGES, LABELS "/" LABELS}, // Kaggle
        {"train-images.idx3-ubyte/train-images.idx3-ubyte", LABELS},
        {IMAGES "/train-images.idx3-ubyte", LABELS ".gz/" LABELS},
        {"FashionMNIST/raw/" IMAGES, "FashionMNIST/raw/" LABELS ".gz"}, // torchvision
        {"raw/" IMAGES ".gz", "raw/" LABELS},
        {"data/fashion/" IMAGES ".gz", "data/fashion/" LABELS ".gz"},   // its own repository
        {"fashion-mnist/" IMAGES ".gz", "fashion-mnist/" LABELS ".gz"}, // Keras
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char folder[10];
        sprintf(folder, "set%zu", i);
        make_set(true, 3, 3);
        move_to(IMAGES ".gz", folder, rows[i].images);
        move_to(LABELS ".gz", folder, rows[i].labels);
        assert_opens(folder, 0, 3);
    }
    // All four files win over some of them, and those of two places are not mixed.
    make_set(true, 5, 5);
    move_to(IMAGES ".gz", "set5", IMAGES ".gz");
    expect_death(1, LABELS ".gz: no such file\nhint: it is in set5/FashionMNIST/raw: put all four",
                 open_train, "set5");
    write_bytes("set5/FashionMNIST/raw/t10k-images-idx3-ubyte", "", 0);
    write_bytes("set5/FashionMNIST/raw/t10k-labels.idx1-ubyte", "", 0);
    assert_opens("set5", 0, 3);
}

static void open_as_nobody(void *folder) {
    assert_true(geteuid() != 0 || (chmod(folder, 0755) == 0 && seteuid(65534) == 0));
    open_train(folder);
}

TEST_IN_A_FOLDER(without_the_right) {
    make_set(false, 3, 3);
    assert_int_equal(chmod(IMAGES, 0), 0);
    expect_death(1, IMAGES ": Permission denied\nhint: you need the right to read it",
                 open_as_nobody, test_folder);
}

// Three images and labels, but for what a row says: a file of IMAGES (or LABELS) with these numbers
// in its header and so many bytes behind it. The labels are 0, 1, .. 9, 0, ..
static const struct {
    bool images;
    int numbers;
    uint32_t header[4];
    size_t bytes;
    int limit;
    const char *words;
} damages[] = {
    {true,
     2,
     {0x801, 3},
     3,
     0,
     IMAGES ".gz: not a file of images of 28 x 28 pixels\nhint: give the folder"},
    {true, 4, {0x803, 3, 32, 28}, 3 * PIXELS, 0, "not a file of images of 28 x 28"},
    {true, 4, {0x803, 3, 28, 0}, 3 * PIXELS, 0, "not a file of images of 28 x 28"},
    {true, 4, {0x803, 0, 28, 28}, 0, 0, "not a file of images"},
    {true, 4, {0x803, 0xffffffff, 28, 28}, 3 * PIXELS, 0, "not a file of images"},
    {true, 4, {0x803, 3, 28, 28}, 3 * PIXELS - 1, 0, "damaged: it has fewer than the 3 items"},
    {true, 4, {0x803, 3, 28, 28}, 3 * PIXELS + 1, 1, "more than the 3 items"}, // of which 1 is kept
    {true, 4, {0x803, 3, 28, 28}, 2 * PIXELS, 1, "fewer than the 3 items"},
    {true, 4, {0x803, 3, 28, 28}, 3 * PIXELS, 4, "there are 3\nhint: ask for at most 3"},
    {false, 4, {0x803, 3, 28, 28}, 0, 0, LABELS ".gz: not a file of labels"},
    {false, 2, {0x801, 4}, 4, 0, " has 4 labels"},
    {false, 2, {0x801, 3}, 2, 0, "fewer than the 3 items"},
};

static void open_and_look(void *folder) {
    Dataset *data = fashion_mnist_open(folder, true, 0);
    dataset_checksum(data);
    dataset_free(data);
}

TEST_IN_A_FOLDER(damaged) {
    for (size_t d = 0; d < COUNT(damages); d++) {
        make_set(true, 3, 3);
        make_idx(true, damages[d].images, damages[d].numbers, damages[d].header, damages[d].bytes);
        limit_of_open = damages[d].limit;
        refused(damages[d].words);
    }
    make_set(true, 14, 14);
    write_bytes(LABELS ".gz", "\0\0\10\1\0\0\0\16\1\2\3\4\5\6\7\10\11\0\1\12\2\3", 22); // plain
    for (limit_of_open = 5; limit_of_open >= 0; limit_of_open -= 5)
        refused("damaged: label 10 of item 11 is not in 0..9");
    limit_of_open = 0;
    // 1.6 TB of images are claimed. To ask for that memory at once would fail, with other words.
    make_set(true, 2000000000, 3);
    refused("fewer than the 2000000000 items");
    make_set(true, 3, 3);
    expect_damaged(IMAGES ".gz", 24, open_and_look, "."); // gzip's own header, and beyond
    make_set(false, 3, 3);
    assert_true(!unlink(IMAGES ".gz") && !unlink(LABELS ".gz"));
    expect_damaged(IMAGES, 16, open_and_look, ".");
    expect_damaged(LABELS, 11, open_and_look, ".");
}

TEST_IN_A_FOLDER(damaged_gzip) {
    make_set(true, 50, 50);
    size_t size;
    char *bytes = read_bytes_of(IMAGES ".gz", &size);
    write_bytes(IMAGES ".gz", bytes, size - 8); // all the data, but not the checksum
    refused("unexpected end of file\nhint: give the folder of");
    bytes[size - 8] ^= 0x7f;
    write_bytes(IMAGES ".gz", bytes, size);
    refused("incorrect data check");
    free(bytes);
}

// ---- minibatches -----------------------------------------------------------------------------

// A data set of `count` images of 2 x 3 random bytes.
static Dataset *made_data(int count) {
    Dataset *data = xcalloc(1, sizeof *data);
    *data = (Dataset){count, 2, 3, xcalloc((size_t)count, 6), xcalloc((size_t)count, 1)};
    for (int i = 0; i < 6 * count; i++)
        data->images[i] = (uint8_t)random_bits(0, STREAM_TEST, (uint64_t)i);
    for (int i = 0; i < count; i++) data->labels[i] = (uint8_t)(i % 10);
    return data;
}

static void assert_image(const float *x, const Dataset *data, int image) {
    for (int p = 0; p < 6; p++)
        if (x[p] != (float)data->images[6 * image + p] / 255.0f) fail_msg("image %d", image);
}

// A whole epoch of minibatches of this size, of images in this order.
static void assert_epoch(DataIter *iter, int epoch, int size, const Dataset *data,
                         const int *order) {
    Tensor *X, *y;
    int done = 0;
    data_iter_start(iter, epoch);
    while (data_iter_next(iter, &X, &y)) {
        int left = data->count - done, rows = left < size ? left : size;
        assert_true(X->device == host() && X->ndim == 4 && y->ndim == 1);
        assert_true(X->shape[1] == 1 && X->shape[2] == 2 && X->shape[3] == 3);
        assert_true(rows > 0 && X->shape[0] == rows && y->shape[0] == rows);
        for (int i = 0; i < rows; i++, done++) {
            assert_image(X->data + 6 * i, data, order[done]);
            assert_true(y->data[i] == (float)data->labels[order[done]]);
        }
    }
    assert_int_equal(done, data->count);
    assert_false(data_iter_next(iter, &X, &y)); // and stays at its end
}

enum { MANY = 1003, BATCH = 20 };

TEST(each_image_once) {
    static const struct {
        int size;
        bool shuffle;
        uint64_t seed;
    } rows[] = {{BATCH, true, 7}, {64, true, 7}, {BATCH, true, 8}, {BATCH, false, 7}};
    int before[COUNT(rows)][MANY] = {{0}}, order[MANY];
    Dataset *data = made_data(MANY);
    DataIter *iters[COUNT(rows)];
    for (size_t i = 0; i < COUNT(rows); i++)
        iters[i] = data_iter_new(data, rows[i].size, rows[i].shuffle, rows[i].seed);
    assert_int_equal(data_iter_batches(iters[0]), 51);
    for (uint32_t epoch = 0; epoch < 4; epoch++)
        for (size_t i = 0; i < COUNT(rows); i++) {
            bool seen[MANY] = {false};
            for (int j = 0; j < MANY; j++) order[j] = j;
            if (rows[i].shuffle) random_order(order, MANY, rows[i].seed, STREAM_SHUFFLE + epoch);
            for (int j = 0; j < MANY; j++) seen[order[j]] = true;
            for (int j = 0; j < MANY; j++) assert_true(seen[j]);
            if (rows[i].shuffle) assert_memory_not_equal(order, before[i], sizeof order);
            assert_epoch(iters[i], (int)epoch, rows[i].size, data, order);
            memcpy(before[i], order, sizeof order);
        }
    for (size_t i = 0; i < COUNT(rows); i++) data_iter_free(iters[i]);
    data_iter_free(NULL);
    dataset_free(data);
}

// After every number of minibatches, so that the prefetch thread is caught in all its states; and
// with minibatches that take long to make, in the middle of one.
TEST(restart_in_mid_epoch) {
    const int counts[] = {MANY, 60000}, sizes[] = {BATCH, 20000}, epochs[] = {51, 10};
    for (int large = 0; large < 2; large++) {
        Dataset *data = made_data(counts[large]);
        DataIter *iter = data_iter_new(data, sizes[large], true, 7);
        static int order[60000];
        for (int epoch = 0; epoch < epochs[large]; epoch++) {
            Tensor *X, *y;
            data_iter_start(iter, 1000 + epoch);
            if (large) usleep((unsigned)epoch * 60);
            for (int b = 0; b < epoch && !large; b++) assert_true(data_iter_next(iter, &X, &y));
            random_order(order, counts[large], 7, STREAM_SHUFFLE + (uint32_t)epoch);
            assert_epoch(iter, epoch, sizes[large], data, order);
        }
        for (int i = 0; i < 200; i++) data_iter_start(iter, i);
        data_iter_free(iter); // in mid-epoch
        dataset_free(data);
    }
}

TEST(sizes_of_batches) {
    const int order[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    for (int count = 1; count <= 9; count++)
        for (int size = 1; size <= 12; size++) {
            Dataset *data = made_data(count);
            int n = size == 12 ? INT32_MAX : size; // whose memory is not 51 GB
            DataIter *iter = data_iter_new(data, n, false, 1);
            assert_int_equal(data_iter_batches(iter), (count - 1) / n + 1);
            for (int epoch = 0; epoch < 2; epoch++) assert_epoch(iter, epoch, n, data, order);
            data_iter_free(iter);
            dataset_free(data);
        }
}

// A device that is late with its copies still gets the minibatch that was meant, though the
// iterator is asked for the next ones meanwhile.
TEST(slow_device) {
    enum { BATCHES = 50, WORK = 1 << 20 };
    Dataset *data = made_data(BATCHES * BATCH);
    DataIter *iter = data_iter_new(data, BATCH, false, 0);
    Tensor *work = tensor_new(cpu_device(0), WORK);
    Tensor *X, *y, *copies[BATCHES];
    data_iter_start(iter, 0);
    for (int b = 0; b < BATCHES; b++) {
        assert_true(data_iter_next(iter, &X, &y));
        for (int i = 0; i < 4; i++) tensor_fill(work, 1); // keeps the device's queue busy
        copies[b] = tensor_to(X, cpu_device(0));
    }
    float values[BATCH * 6];
    for (int b = 0; b < BATCHES; b++) {
        tensor_read(copies[b], values);
        for (int i = 0; i < BATCH; i++) assert_image(values + 6 * i, data, b * BATCH + i);
        tensor_free(copies[b]);
    }
    tensor_free(work);
    data_iter_free(iter);
    dataset_free(data);
}

// Devices with different numbers of rows, and one without any.
TEST(accuracy_on_several_devices) {
    static const float scores[] = {0, 1, 1, 0, 0, 1}, labels[2][3] = {{1, 0, 0}, {0, 0, 1}};
    Device *devices[3];
    Tensor *y_hat[3], *y[3], *W = PARAM(cpu_device(0), 1);
    open_devices(devices, 3);
    Accuracy a = accuracy_begin(devices, 3);
    assert_false(needs_grad(W, NULL, NULL));
    for (int batch = 0; batch < 2; batch++) {
        for (int i = 0; i < 3; i++) {
            y_hat[i] = keep(tensor_new(devices[i], 3 - i - i / 2, 2));
            y[i] = keep(tensor_new(devices[i], 3 - i - i / 2));
            tensor_write(y_hat[i], scores);
            tensor_write(y[i], labels[batch]);
        }
        accuracy_count(&a, y_hat, y);
    }
    assert_true(accuracy_end(&a) == 7 / 10. && a.num_correct == 7 && a.observations == 10);
    assert_true(needs_grad(W, NULL, NULL));
    free_kept();
}

// ---- ranges ----------------------------------------------------------------------------------

// The one rule by which things are divided.
TEST(ranges_are_in_order_and_cover) {
    for (int k = 1; k <= MAX_COMPUTING; k++)
        for (long n = 0; n <= 200; n++) {
            long next = 0, all = n < 200 ? n : (1L << 40) + 7; // more than an int holds
            for (int i = 0; i < k; i++) {
                Range range = equal_range(all, k, i);
                assert_int_equal(range.first, next);
                assert_int_equal(range.count, all / k + (i < all % k));
                next += range.count;
            }
            assert_int_equal(next, all);
        }
}

// Seven rows, channels or numbers over three devices: chapters 1, 2 and 3, whose headers stand here
// side by side, mean the same by a range.
TEST(all_chapters_divide_alike) {
    Device *devices[3];
    Tensor *X = RANDOM(host(), 7, 2), *y = RANDOM(host(), 7), *X_shards[3], *y_shards[3];
    open_devices(devices, 3);
    for (int i = 0; i < 3; i++) begin_step(devices[i]);
    split_batch(X, y, devices, 3, X_shards, y_shards);
    for (int i = 0; i < 3; i++) {
        Range range = equal_range(7, 3, i);
        Tensor *part = keep(param_part(X, (Range){0, 1}, devices[i])); // chapter 1: a column
        assert_true(part->shape[0] == 7 && part->shape[1] == 1);
        assert_ptr_equal(part_data(y, range), y->data + range.first); // chapter 2
        assert_int_equal(X_shards[i]->shape[0], range.count);         // chapter 3
        assert_int_equal(y_shards[i]->shape[0], range.count);
    }
    synchronize_all();
    free_kept();
}

TEST(wrong_uses) { expect_deaths(state); }
DIES("call data_iter_start()", data_iter_next(data_iter_new(made_data(3), 2, true, 0), NULL, NULL))
DIES("at least one image", data_iter_new(made_data(3), 0, true, 0))

int main(void) { return run_all("data", only_cpu_devices, devices_end); }
