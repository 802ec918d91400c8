// dies.h: for tests of what must go wrong: a function that must end the program with a message, and
// a folder to put bad files in.
#pragma once

#include "test.h"

#include <ftw.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

// ---- dying -----------------------------------------------------------------------------------

// Runs the function in a child process. Returns its exit status (-1: killed by a signal) and what
// it wrote to stderr.
static inline int run_and_listen(void (*function)(void *), void *arg, char *text, size_t size) {
    FILE *errors = tmpfile();
    assert_non_null(errors);
    fflush(NULL); // else the child would write it again
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(fileno(errors), STDERR_FILENO);
        function(arg);
        fprintf(stderr, "the function returned\n");
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    rewind(errors);
    text[fread(text, 1, size - 1, errors)] = '\0';
    fclose(errors);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// "NAME: error: WHAT\nhint: WHAT TO DO\n", and nothing else
static inline bool is_error_and_hint(const char *text) {
    const char *hint = strchr(text, '\n'), *error = strstr(text, ": error: ");
    if (!hint || !error || error > hint || strncmp(++hint, "hint: ", 6) != 0) return false;
    const char *end = strchr(hint, '\n');
    return end && end > hint + 6 && end[1] == '\0';
}

// The function must end the program with this status and with two lines, an error and a hint, that
// contain the expected text.
static inline void expect_death(int status, const char *expected_text, void (*function)(void *),
                                void *arg) {
    char text[8192];
    int died = run_and_listen(function, arg, text, sizeof text);
    if (died == status && is_error_and_hint(text) && strstr(text, expected_text)) return;
    fail_msg("expected status %d and the words \"%s\"; got status %d and:\n%s", status,
             expected_text, died, text);
}

// For a group of tests: CPU devices even where there is a GPU, because CUDA does not survive a
// fork.
static inline int only_cpu_devices(void **state) {
    (void)state;
    devices_init(BACKEND_CPU, 0);
    return 0;
}
static inline int devices_end(void **state) {
    (void)state;
    devices_close();
    return 0;
}

// ---- a folder for the test's files -----------------------------------------------------------

static char test_folder[256];
static int entries_in_test_folder;

// Makes an empty folder; its path is in test_folder.
static inline int make_test_folder(void **state) {
    (void)state;
    const char *place = getenv("TMPDIR");
    snprintf(test_folder, sizeof test_folder, "%s/test.XXXXXX", place && *place ? place : "/tmp");
    return mkdtemp(test_folder) ? 0 : -1;
}

static inline int remove_entry(const char *path, const struct stat *s, int kind, struct FTW *at) {
    (void)s, (void)kind, (void)at;
    return remove(path);
}
static inline int remove_test_folder(void **state) {
    (void)state;
    return nftw(test_folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static inline int count_entry(const char *path, const struct stat *s, int kind, struct FTW *at) {
    (void)path, (void)s, (void)kind;
    entries_in_test_folder += at->level > 0;
    return 0;
}
// So many files, links and folders are in it, and nothing else was left behind.
static inline void assert_entries(int expected) {
    entries_in_test_folder = 0;
    nftw(test_folder, count_entry, 8, FTW_PHYS);
    assert_int_equal(entries_in_test_folder, expected);
}

// A test, and its entry in the list: it runs in an empty folder.
#define CASE(name) static void name(void **state __attribute__((unused)))
#define IN_A_FOLDER(test)                                                                          \
    cmocka_unit_test_setup_teardown(test, enter_test_folder, leave_test_folder)

static inline int enter_test_folder(void **state) {
    return make_test_folder(state) == 0 ? chdir(test_folder) : -1;
}
static inline int leave_test_folder(void **state) {
    return chdir("/") == 0 ? remove_test_folder(state) : -1;
}

// The path of a file in it; the text is replaced by the fourth next call.
static inline const char *in_test_folder(const char *name) {
    static char paths[4][512];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", test_folder, name);
    return path;
}

static inline void write_bytes(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

// What a file holds, in new memory, with a zero byte after it; NULL if there is no such file.
static inline char *read_bytes_of(const char *path, size_t *size) {
    *size = 0;
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    struct stat status;
    assert_int_equal(fstat(fileno(file), &status), 0);
    *size = (size_t)status.st_size;
    char *bytes = calloc(*size + 1, 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

static inline void assert_holds(const char *path, const char *expected) {
    size_t size;
    char *text = read_bytes_of(path, &size);
    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
}

// The function reads a file of which one byte of the header is another, or which was cut off. It
// must refuse it or return. (That it reads nothing beyond the file is seen with SANITIZE=asan.)
static inline void expect_damaged(const char *path, size_t header, void (*read)(void *),
                                  void *arg) {
    size_t size;
    char *bytes = read_bytes_of(path, &size), text[8192];
    for (size_t at = 0; at < header; at++)
        for (int change = 0; change < 5; change++) {
            char old = bytes[at];
            bytes[at] = (char[]){old, 0, '9', (char)(old ^ 1), (char)0xff}[change];
            write_bytes(path, bytes, change == 0 ? at : size);
            int status = run_and_listen(read, arg, text, sizeof text);
            if (status != 1 ? status != 0 || change == 0 : !is_error_and_hint(text))
                fail_msg("byte %zu, change %d: status %d and:\n%s", at, change, status, text);
            bytes[at] = old;
        }
    write_bytes(path, bytes, size);
    free(bytes);
}
