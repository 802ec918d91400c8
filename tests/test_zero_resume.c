// test_zero_resume.c: chapter 9's checkpoints, a file for each device: what goes on from them, in
// each stage and on other numbers of devices, and files that must be refused.
#include "chapters/09_what_each_device_keeps/behind/behind.h"
#include "common/data/checkpoints.h"
#include "common/device/queue_observer.h"
#include "zero_run.h"

DEATHS_FIRST

#define IN_FOLDER(test, kind)                                                                      \
    { kind ": " #test, test, enter_test_folder, leave_test_folder, (void *)kind }
#define IN_FOLDERS(test) IN_FOLDER(test, "cpu"), IN_FOLDER(test, "cuda")
#ifdef CUDASIM // there they take minutes
#define SLOW_IN_FOLDERS(test) IN_FOLDER(test, "cpu")
#else
#define SLOW_IN_FOLDERS IN_FOLDERS
#endif

enum { MOST = 8, ROWS = 10, STEPS = 2 }; // before the checkpoint, and after it
static const int ks[] = {1, 2, 3, 4}, new_ks[] = {1, 2, 3, 4, 8};
static const char settings[] = "a test";

// ---- a training, from the start or from files ----------------------------------------------------

static void train(Run *r, int first) {
    for (int step = first; step < first + STEPS; step++) take_step(r, step * ROWS, ROWS);
    synchronize_all();
}

// Parameters, then the running statistics of device i.
static size_t floats_of(const Run *r) {
    return (parameter_bytes(r->net) + buffer_bytes(r->net)) / sizeof(float);
}
static float *values_on(const Run *r, int i) {
    float *values = keep_memory(xmalloc(sizeof(float) * floats_of(r)));
    float *at = values + parameter_bytes(r->net) / sizeof(float);
    Parameters all = parameters_of(r->net);
    zero_read(r->z, values);
    for (int p = 0; p < all.n; p++) {
        const Tensor *t = parameter_data(all.list[p], r->devices[i]);
        if (all.list[p]->trained) continue;
        tensor_read(t, at);
        at += numel(t);
    }
    return values;
}

static void assert_values(const Run *r, int i, const float *expected) {
    assert_memory_equal(values_on(r, i), expected, sizeof(float) * floats_of(r));
}

// ---- to the bit ----------------------------------------------------------------------------------

// On k devices a training of the stage stops, and one of another stage goes on. It has the bits of
// a training that never stopped.
static void resume_on_as_many(void **state, Stage stage, Stage new_stage, int k) {
    Run r = begin(state, narrow_resnet, stage, k);
    const float *expected[MOST];
    train(&r, 0);
    zero_save(r.z, settings, "ck");
    train(&r, STEPS);
    for (int i = 0; i < k; i++) expected[i] = values_on(&r, i);
    end(&r);
    r = begin(state, narrow_resnet, new_stage, k);
    r.z->recompute = true;
    assert_int_equal(zero_load(r.z, settings, "ck"), STEPS);
    train(&r, STEPS);
    for (int i = 0; i < k; i++) assert_values(&r, i, expected[i]);
    Counts counts = counts_of(r.net, false);
    for (int c = 0; c < counts.n; c++) assert_int_equal(counts.list[c].value, 2 * STEPS);
    free_counts(&counts);
    end(&r);
    assert_entries(k); // files
    zero_remove("ck", k);
    assert_entries(0);
}

TEST_AS(test_as_many_devices, SLOW_IN_FOLDERS(test_as_many_devices)) {
    for (size_t j = SANITIZED ? COUNT(ks) - 1 : 0; j < COUNT(ks); j++)
        for (Stage stage = STAGE_DDP; stage < NUM_STAGES; stage++) {
            resume_on_as_many(state, stage, stage, ks[j]);
            resume_on_as_many(state, stage, (Stage)(NUM_STAGES - 1 - stage), ks[j]);
            free_kept();
        }
}

// On new_k devices, the order of additions is another one. But all stages have the same bits, and
// they begin with the parameters and with device 0's statistics that were saved.
static void resume_on_others(void **state, int k, int new_k) {
    Run r = begin(state, narrow_resnet, ZERO_3, k);
    const float *ddp[MOST] = {NULL};
    train(&r, 0);
    zero_save(r.z, settings, "ck");
    const float *saved = values_on(&r, 0);
    end(&r);
    for (Stage stage = STAGE_DDP; stage < NUM_STAGES; stage++) {
        r = begin(state, narrow_resnet, stage, new_k);
        zero_load(r.z, settings, "ck");
        for (int i = 0; i < new_k; i++)
            if (i == 0 || new_k != k) assert_values(&r, i, saved);
        train(&r, STEPS);
        for (int i = 0; i < new_k; i++) {
            if (stage == STAGE_DDP) ddp[i] = values_on(&r, i);
            assert_values(&r, i, ddp[i]);
        }
        end(&r);
    }
}

TEST_AS(test_other_numbers, SLOW_IN_FOLDERS(test_other_numbers)) {
    for (size_t j = SANITIZED ? COUNT(ks) - 1 : 0; j < COUNT(ks); j++)
        for (size_t n = 0; n < COUNT(new_ks); n++) {
            resume_on_others(state, ks[j], new_ks[n]);
            free_kept();
        }
}

// From 4 devices to 3 and back, without a step there: nothing is lost, moments included. (Each of
// the 4 has device 0's statistics then, which training does not read.)
TEST_AS(test_there_and_back, IN_FOLDERS(test_there_and_back)) {
    Run r = begin(state, narrow_resnet, ZERO_3, 4);
    train(&r, 0);
    zero_save(r.z, settings, "four");
    train(&r, STEPS);
    const float *expected = values_on(&r, 0);
    end(&r);
    r = begin(state, narrow_resnet, ZERO_1, 3);
    zero_load(r.z, settings, "four");
    zero_save(r.z, settings, "three");
    end(&r);
    r = begin(state, narrow_resnet, ZERO_2, 4);
    zero_load(r.z, settings, "three");
    train(&r, STEPS);
    assert_values(&r, 0, expected);
    end(&r);
    free_kept();
}

// A file is whole, and has these names.
TEST_AS(test_names, IN_FOLDERS(test_names)) {
    Run r = begin(state, narrow_resnet, ZERO_3, 2);
    train(&r, 0);
    zero_save(r.z, settings, "ck");
    SafetensorsFile file = safetensors_open("ck-1.safetensors");
    assert_string_equal(safetensors_text(&file, "device"), "1");
    assert_string_equal(safetensors_text(&file, "devices"), "2");
    assert_string_equal(safetensors_text(&file, "step"), "2");
    for (int u = 0; u < r.z->num_units; u++) {
        static const char *const kinds[] = {"parameters", "exp_avg", "exp_avg_sq"};
        for (int n = 0; n < 3; n++) {
            char name[64];
            snprintf(name, sizeof name, "unit%d.%s", u, kinds[n]);
            assert_int_equal(safetensors_find(&file, name)->count, own_part(r.z, u, 1).count);
        }
    }
    assert_int_equal(safetensors_find(&file, "1.running_mean")->count, 8);
    safetensors_close(&file);
    end(&r);
}

// ---- files that are refused ----------------------------------------------------------------------

static void copy_file(const char *from, const char *to) {
    size_t size;
    char *bytes = read_bytes_of(from, &size);
    write_bytes(to, bytes, size);
    free(bytes);
}

// One byte is another, so far from the end; or the file is cut off after so many.
static void change_file(const char *path, size_t at, bool cut) {
    size_t size;
    char *bytes = read_bytes_of(path, &size);
    if (!cut) bytes[size - at] ^= 1;
    write_bytes(path, bytes, cut ? at : size);
    free(bytes);
}

// The child's files. ck: of 3 devices after two steps; later: after four; other: of another start.
static void make_files(void) {
    if (make_test_folder(NULL) != 0 || chdir(test_folder) != 0) _exit(9);
    Run r = begin(NULL, narrow_resnet, ZERO_3, 3);
    train(&r, 0);
    zero_save(r.z, settings, "ck");
    train(&r, STEPS);
    zero_save(r.z, settings, "later");
    end(&r);
    r = begin(NULL, narrow_resnet, ZERO_3, 3);
    train(&r, STEPS);
    zero_save(r.z, settings, "other");
    end(&r);
}

static void forbid_copies(Queue *queue, const Device *to, const void *dst, const Device *from,
                          size_t bytes) {
    (void)queue, (void)to, (void)dst, (void)from, (void)bytes;
    fprintf(stderr, "something was changed\n");
    _exit(7);
}
static const QueueObserver no_copies = {.copy = forbid_copies};

static void clean(void) {
    if (chdir("/") == 0) remove_test_folder(NULL);
}

// Goes on from ck, which was made bad. No number may be copied to a device before that is seen.
static void resume_bad(Stage stage, int k, const char *now) {
    Run r = begin(NULL, narrow_resnet, stage, k);
    synchronize_all();
    queue_observe(&no_copies);
    atexit(clean);
    zero_load(r.z, now, "ck");
}

DIES("ck-1.safetensors: cannot read", make_files(); remove("ck-1.safetensors");
     resume_bad(ZERO_3, 4, settings))
DIES("ck-0.safetensors: cannot read", make_files(); remove("ck-0.safetensors");
     resume_bad(ZERO_3, 3, settings))
DIES("ck-2.safetensors: ", make_files(); change_file("ck-2.safetensors", 5000, true);
     resume_bad(ZERO_1, 3, settings))
DIES("ck-2.safetensors: ", make_files(); change_file("ck-2.safetensors", 5, true);
     resume_bad(ZERO_1, 3, settings))
DIES("ck-1.safetensors: its numbers are not those that were written", make_files();
     change_file("ck-1.safetensors", 1, false); resume_bad(STAGE_DDP, 1, settings))
DIES("ck-1.safetensors: its numbers are not those that were written", make_files();
     change_file("ck-1.safetensors", 4000, false); resume_bad(ZERO_2, 8, settings))
DIES("ck-2.safetensors: is of another checkpoint than ck-0.safetensors: its step", make_files();
     copy_file("later-2.safetensors", "ck-2.safetensors"); resume_bad(ZERO_3, 3, settings))
DIES("ck-1.safetensors: is of another checkpoint than ck-0.safetensors: its checksums",
     make_files();
     copy_file("other-1.safetensors", "ck-1.safetensors"); resume_bad(ZERO_3, 2, settings))
DIES("ck-2.safetensors: is the part of device 1", make_files();
     copy_file("ck-1.safetensors", "ck-2.safetensors"); resume_bad(ZERO_3, 3, settings))
DIES("ck-0.safetensors: was written with a test; now: another", make_files();
     resume_bad(ZERO_3, 3, "another"))
DIES("ck-0.safetensors: is no part of a checkpoint", make_files();
     Run r = begin(NULL, narrow_resnet, ZERO_1, 1);
     save_parameters(r.net, r.devices[0], "ck-0.safetensors"); end(&r);
     resume_bad(ZERO_3, 3, settings))
DIES("ck-0.safetensors: is of another network", {
    Device *device;
    make_files();
    devices_init(BACKEND_CPU, 1);
    Module *net = Sequential(Flatten(), Linear(28 * 28, 10));
    initialize(net, 0);
    open_devices(&device, 1);
    Zero *z = zero_new(net, &device, 1, ZERO_3, (AdamOptions){0});
    synchronize_all();
    queue_observe(&no_copies);
    atexit(clean);
    zero_load(z, settings, "ck");
})

int main(void) { return run_all("zero_resume", NULL, close_kept); }
