// fashion_mnist.c: finds and reads the four IDX files, and prepares minibatches in a separate
// thread.
//
// IDX is LeCun's format for MNIST. It begins with big-endian numbers of four bytes: a magic number
// that says what is in the file, then the count (and rows and columns). The bytes follow.
#include "fashion_mnist.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/platform.h"
#include "common/tensor/random.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h> // gzread() reads plain files too

const char *const fashion_mnist_names[FASHION_MNIST_CLASSES] = {
    "t-shirt", "trouser", "pullover", "dress", "coat",
    "sandal",  "shirt",   "sneaker",  "bag",   "ankle boot"};

#define DEBIAN_FOLDER "/usr/share/datasets/fashion-mnist"

enum { IMAGES_MAGIC = 0x803, LABELS_MAGIC = 0x801, IMAGE_SIDE = 28 };

static const char *const file_names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                         "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
enum { NUM_FILES = 4 };

static const char *const get_data =
    "`make setup` installs the data set; if it is elsewhere, give its folder with --data DIR or "
    "FASHION_MNIST_DIR=DIR";
static const char *const get_right =
    "you need the right to read it: ask its owner, or give another folder with --data";
static const char *const get_again =
    "give the folder of Fashion-MNIST; if it is, copy the file again, or, if it is Debian's: sudo "
    "apt-get install --reinstall dataset-fashion-mnist";

// ---- where the files are ---------------------------------------------------------------------
//
// (.make/probe.sh looks for the same names in the same places.)

// Below the given folder, where torchvision, zalandoresearch/fashion-mnist and Keras put them.
static const char *const places[] = {"", "FashionMNIST/raw", "raw", "data/fashion",
                                     "fashion-mnist"};
enum { NUM_PLACES = sizeof places / sizeof places[0] };

// A file may have its published name, or one with a dot, as 7-zip and WinZip unpack it. It may be
// packed (.gz) or not, and in a folder of the same name, as in Kaggle's archives.
enum {
    SPELLINGS = 2,
    SUFFIXES = 3,
    OWN_FOLDERS = 5,
    NUM_NAMES = SPELLINGS * SUFFIXES * OWN_FOLDERS
};

// Name number i. The first one that exists is taken, so the most usual names come first.
static char *path_of(const char *folder, const char *file, int i) {
    static const char *const suffixes[SUFFIXES] = {".gz", "", ".GZ"};
    const char *type = strstr(file, "-idx") + 1;
    int stem = (int)(type - file) - 1, own = i / SPELLINGS / SUFFIXES;
    char *name = xprintf("%.*s%c%s", stem, file, i % SPELLINGS ? '.' : '-', type);
    char *folder_of_it = own == 0 ? xstrdup("")
                                  : xprintf("%.*s%c%s%s/", stem, file, own % 2 ? '-' : '.', type,
                                            own > 2 ? ".gz" : "");
    char *below = xprintf("%s%s%s", folder_of_it, name, suffixes[i / SPELLINGS % SUFFIXES]);
    char *path = path_join(folder, below);
    free(below);
    free(name);
    free(folder_of_it);
    return path;
}

static bool is_there(const char *path, bool folder) {
    struct stat status;
    if (stat(path, &status) == 0) return S_ISDIR(status.st_mode) == folder;
    if (errno != ENOENT && errno != ENOTDIR) die(get_right, "%s: %s", path, strerror(errno));
    return false;
}

static bool has_file(const char *folder, const char *file) {
    bool has = false;
    for (int i = 0; i < NUM_NAMES && !has; i++) {
        char *path = path_of(folder, file, i);
        has = is_there(path, false);
        free(path);
    }
    return has;
}

// The first place with all four files, or else the first with any of them.
static char *find_place(const char *directory) {
    char *best = xstrdup(directory);
    for (int p = 0, most = 0; p < NUM_PLACES; p++) {
        char *folder = path_join(directory, places[p]);
        int count = 0;
        for (int f = 0; f < NUM_FILES; f++) count += has_file(folder, file_names[f]);
        bool better = count > 0 && (most == 0 || (count == NUM_FILES && most < NUM_FILES));
        if (better) most = count;
        free(better ? best : folder);
        if (better) best = folder;
    }
    return best;
}

static _Noreturn void die_of_missing(const char *directory, const char *folder, const char *file) {
    for (int p = 0; p < NUM_PLACES; p++) {
        const char *other = path_join(directory, places[p]);
        if (!has_file(other, file)) continue;
        if (strcmp(other, folder) == 0)
            die("gunzip unpacks all four into a folder of yours, for --data",
                "%s.gz: this program was built without zlib, and cannot unpack it",
                path_join(folder, file));
        else
            die(xprintf("it is in %s: put all four files into one folder", other),
                "%s.gz: no such file", path_join(folder, file));
    }
    for (int i = 0; i < SPELLINGS * SUFFIXES; i++) {
        const char *path = path_of(folder, file, i);
        if (is_there(path, true)) die(get_data, "%s: is a folder, and the file is not in it", path);
    }
    die(get_data, "%s.gz: no such file", path_join(folder, file));
}

// ---- IDX files -------------------------------------------------------------------------------

typedef struct IdxFile {
    char *path;
    gzFile stream;
    uint32_t count;
    size_t item_bytes; // of one image, or one label
} IdxFile;

// Reads `size` bytes, or fewer if the file ends there. die()s if it is damaged.
static size_t read_up_to(IdxFile *file, void *buffer, unsigned size) {
    int got = gzread(file->stream, buffer, size);
    int error;
    const char *message = gzerror(file->stream, &error); // "path: what"
    // (For a file that was cut off, gzread() returns what there is, and only gzerror() tells.)
    if (got < 0 || (error != Z_OK && error != Z_STREAM_END)) die(get_again, "%s", message);
    return (size_t)got;
}

static uint32_t number_at(const uint8_t *b) {
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static void read_header(IdxFile *file, uint32_t magic) {
    bool images = magic == IMAGES_MAGIC;
    uint8_t header[16];
    unsigned size = images ? 16 : 8;
    bool good = read_up_to(file, header, size) == size && number_at(header) == magic;
    if (good && images)
        good = number_at(header + 8) == IMAGE_SIDE && number_at(header + 12) == IMAGE_SIDE;
    if (good) file->count = number_at(header + 4);
    if (file->count == 0 || file->count > INT_MAX)
        die(get_again, "%s: not a file of %s", file->path,
            images ? "images of 28 x 28 pixels" : "labels");
    file->item_bytes = images ? IMAGE_SIDE * IMAGE_SIDE : 1;
}

// Opens the file under the first name that exists (without zlib, one without .gz), and reads its
// header.
static IdxFile idx_open(const char *directory, const char *folder, const char *name,
                        uint32_t magic) {
    IdxFile file = {0};
    for (int i = 0; i < NUM_NAMES && !file.stream; i++) {
        free(file.path);
        file.path = path_of(folder, name, i);
        if (!is_there(file.path, false) || (file.stream = gzopen(file.path, "rb"))) continue;
        if (errno != ENOENT) die(get_right, "%s: %s", file.path, strerror(errno));
    }
    if (!file.stream) die_of_missing(directory, folder, name);
    gzbuffer(file.stream, 1 << 17);
    read_header(&file, magic);
    return file;
}

static _Noreturn void die_of_length(const IdxFile *file, const char *has) {
    die(get_again, "%s: damaged: it has %s than the %u items that its header claims", file->path,
        has, file->count);
}

// Reads all items and keeps the first `keep`. Memory grows with what the file holds, not with what
// its header claims.
static uint8_t *read_items(IdxFile *file, size_t keep) {
    enum { PIECE = 1 << 16 };
    uint8_t *kept = NULL, piece[PIECE];
    size_t total = file->count * file->item_bytes, capacity = 0;
    keep *= file->item_bytes;
    for (size_t done = 0; done < total;) {
        size_t wanted = total - done < PIECE ? total - done : PIECE;
        size_t got = read_up_to(file, piece, (unsigned)wanted);
        if (got < wanted) die_of_length(file, "fewer");
        if (done < keep) {
            while (capacity < keep && capacity < done + got) {
                capacity = capacity ? 2 * capacity : 16 * PIECE;
                if (capacity > keep) capacity = keep;
                kept = xrealloc(kept, capacity);
            }
            memcpy(kept + done, piece, got < keep - done ? got : keep - done);
        }
        done += got;
    }
    // This also makes zlib compare the checksum.
    if (read_up_to(file, piece, 1) > 0) die_of_length(file, "more");
    return kept;
}

static void idx_close(IdxFile *file) {
    gzclose_r(file->stream);
    free(file->path);
}

// ---- the data set ----------------------------------------------------------------------------

static const char *find_directory(const char *directory) {
    if (!directory) directory = getenv("FASHION_MNIST_DIR");
    if (!directory || !*directory) directory = DEBIAN_FOLDER;
    struct stat status;
    if (stat(directory, &status) != 0) die(get_data, "%s: %s", directory, strerror(errno));
    if (!S_ISDIR(status.st_mode))
        die("give the folder with the four files; of an archive, the folder it is unpacked in",
            "%s: is not a folder", directory);
    return directory;
}

Dataset *fashion_mnist_open(const char *directory, bool train, int limit) {
    directory = find_directory(directory);
    char *folder = find_place(directory);
    const char *const *names = file_names + (train ? 0 : 2);
    IdxFile images = idx_open(directory, folder, names[0], IMAGES_MAGIC);
    IdxFile labels = idx_open(directory, folder, names[1], LABELS_MAGIC);
    free(folder);
    if (images.count != labels.count)
        die("take both files from one data set", "%s has %u images, %s has %u labels", images.path,
            images.count, labels.path, labels.count);
    if (limit > (int)images.count)
        die(xprintf("ask for at most %u", images.count), "%s: %d images are wanted, there are %u",
            images.path, limit, images.count);

    Dataset *data = xcalloc(1, sizeof *data);
    data->count = limit > 0 ? limit : (int)images.count;
    data->rows = data->cols = IMAGE_SIDE;
    // The few labels are read first. All are checked, even those beyond the limit.
    data->labels = read_items(&labels, labels.count);
    for (size_t i = 0; i < labels.count; i++)
        if (data->labels[i] >= FASHION_MNIST_CLASSES)
            die(get_again, "%s: damaged: label %d of item %zu is not in 0..9", labels.path,
                data->labels[i], i);
    data->images = read_items(&images, (size_t)data->count);
    idx_close(&images);
    idx_close(&labels);
    return data;
}

void fashion_mnist_keep(const char *directory, const char *const outputs[], int n) {
    char *folder = find_place(find_directory(directory));
    for (int f = 0; f < NUM_FILES; f++)
        for (int i = 0; i < NUM_NAMES; i++) {
            char *path = path_of(folder, file_names[f], i);
            check_kept(path, outputs, n);
            free(path);
        }
    free(folder);
}

void dataset_read(const Dataset *data, const int order[], int n, float *X, float *y) {
    size_t pixels = (size_t)data->rows * (size_t)data->cols;
    for (int i = 0; i < n; i++, X += pixels) {
        const uint8_t *image = data->images + (size_t)order[i] * pixels;
        for (size_t p = 0; p < pixels; p++) X[p] = image[p] / 255.0f;
        y[i] = data->labels[order[i]];
    }
}

uint32_t dataset_checksum(const Dataset *data) {
    uLong crc = 0;
    size_t pixels = (size_t)data->rows * (size_t)data->cols;
    for (int i = 0; i < data->count; i++)
        crc = crc32(crc, data->images + (size_t)i * pixels, (uInt)pixels);
    return (uint32_t)crc32(crc, data->labels, (uInt)data->count);
}

void dataset_free(Dataset *data) {
    if (!data) return;
    free(data->images);
    free(data->labels);
    free(data);
}

// ---- minibatches -----------------------------------------------------------------------------
//
// A ring of buffers between two threads. Batch b of an epoch is in slot b % SLOTS. Three counters
// say which thread owns which batch. They only grow during an epoch:
//
//     released <= taken <= filled <= batches,  filled - released <= SLOTS
//
// Batches from `released` to `taken` are used by the host program, those from `taken` to `filled`
// are ready. While filled - released < SLOTS, the prefetch thread fills slot filled % SLOTS.

enum { SLOTS = 3 };

struct DataIter {
    const Dataset *data;
    int batch_size;
    bool shuffle;
    uint64_t seed;
    int *order;
    Tensor *X[SLOTS], *y[SLOTS];
    Thread thread; // 0: this platform has no threads, and the host fills a slot when it needs it

    // The lock guards all that follows. `order` is changed only while the thread is not filling.
    Mutex lock;
    Condition work;     // for the thread: there may be something to fill, or the end
    Condition progress; // for the host: a batch is ready, or the thread stopped filling
    int batches;        // of this epoch; 0 before the first
    int released, taken, filled;
    bool filling, quit;
};

int data_iter_batches(const DataIter *iter) {
    return (iter->data->count - 1) / iter->batch_size + 1;
}

static int size_of_batch(const DataIter *iter, int batch) {
    int left = iter->data->count - batch * iter->batch_size;
    return left < iter->batch_size ? left : iter->batch_size;
}

// Runs in the prefetch thread. It touches no device, only the slot's memory.
static void fill_batch(DataIter *iter, int batch) {
    dataset_read(iter->data, iter->order + batch * iter->batch_size, size_of_batch(iter, batch),
                 iter->X[batch % SLOTS]->data, iter->y[batch % SLOTS]->data);
}

static void *prefetch(void *argument) {
    DataIter *iter = argument;
    mutex_lock(&iter->lock);
    while (!iter->quit) {
        if (iter->filled >= iter->batches || iter->filled - iter->released == SLOTS) {
            condition_wait(&iter->work, &iter->lock);
            continue;
        }
        int batch = iter->filled;
        iter->filling = true;
        mutex_unlock(&iter->lock);
        fill_batch(iter, batch);
        mutex_lock(&iter->lock);
        iter->filling = false;
        iter->filled = batch + 1;
        condition_wake_one(&iter->progress);
    }
    mutex_unlock(&iter->lock);
    return NULL;
}

DataIter *data_iter_new(const Dataset *data, int batch_size, bool shuffle, uint64_t seed) {
    CHECK(batch_size > 0, "a minibatch has at least one image");
    DataIter *iter = xcalloc(1, sizeof *iter);
    *iter = (DataIter){.data = data, .shuffle = shuffle, .seed = seed};
    iter->batch_size = batch_size < data->count ? batch_size : data->count;
    iter->order = xmalloc(sizeof(int) * (size_t)data->count);
    for (int i = 0; i < data->count; i++) iter->order[i] = i;
    for (int i = 0; i < SLOTS; i++) {
        iter->X[i] = tensor_new(host(), iter->batch_size, 1, data->rows, data->cols);
        iter->y[i] = tensor_new(host(), iter->batch_size);
    }
    iter->thread = thread_start(prefetch, iter);
    if (has_threads && !iter->thread) die("close other programs", "cannot start a thread");
    return iter;
}

void data_iter_start(DataIter *iter, int epoch) {
    synchronize_host_reads(); // of the last minibatch
    mutex_lock(&iter->lock);
    iter->batches = 0; // nothing more to fill..
    while (iter->filling) condition_wait(&iter->progress, &iter->lock);
    if (iter->shuffle)
        random_order(iter->order, iter->data->count, iter->seed, STREAM_SHUFFLE + (uint32_t)epoch);
    iter->batches = data_iter_batches(iter); // ..until here
    iter->released = iter->taken = iter->filled = 0;
    condition_wake_one(&iter->work);
    mutex_unlock(&iter->lock);
}

bool data_iter_next(DataIter *iter, Tensor **X, Tensor **y) {
    CHECK(iter->batches > 0, "call data_iter_start() at the start of an epoch");
    synchronize_host_reads(); // copies out of the minibatch that is given back now
    mutex_lock(&iter->lock);
    iter->released = iter->taken;
    condition_wake_one(&iter->work);
    bool more = iter->taken < iter->batches;
    if (more && !iter->thread) fill_batch(iter, iter->filled++);
    while (more && iter->filled == iter->taken) condition_wait(&iter->progress, &iter->lock);
    int batch = iter->taken;
    if (more) iter->taken++;
    mutex_unlock(&iter->lock);
    if (!more) return false;

    *X = iter->X[batch % SLOTS];
    *y = iter->y[batch % SLOTS];
    (*X)->shape[0] = (*y)->shape[0] = size_of_batch(iter, batch);
    return true;
}

void data_iter_first(DataIter *iter, Tensor **X, Tensor **y) {
    data_iter_start(iter, 0);
    bool found = data_iter_next(iter, X, y);
    CHECK(found, "a data set has one image at least");
}

void data_iter_free(DataIter *iter) {
    if (!iter) return;
    mutex_lock(&iter->lock);
    iter->quit = true;
    condition_wake_one(&iter->work);
    mutex_unlock(&iter->lock);
    if (iter->thread) thread_join(iter->thread);
    synchronize_host_reads(); // the memory is about to go
    for (int i = 0; i < SLOTS; i++) {
        // A short minibatch made them smaller; they go back as they were allocated.
        iter->X[i]->shape[0] = iter->y[i]->shape[0] = iter->batch_size;
        tensor_free(iter->X[i]);
        tensor_free(iter->y[i]);
    }
    free(iter->order);
    free(iter);
}
