// test_files.c: an output file is whole, or the old one is still there.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include "cases.h"
#include "common/base/error.h"
#include "common/base/platform.h"
#include "common/base/file.h"
#include "common/program/interrupt.h"

static void write_text(const char *path, const char *text) {
    OutputFile file = output_open(path);
    fputs(text, file.stream);
    output_close(&file);
}

static mode_t mode_of(const char *path) { // 0: it is not there
    struct stat status;
    return lstat(path, &status) == 0 ? status.st_mode : 0;
}

TEST_IN_A_FOLDER(new_replaced_and_abandoned) {
    const char *path = "a.csv";
    write_text(path, "old\n");
    assert_holds(path, "old\n");
    assert_int_equal(chmod(path, 0600), 0);
    for (int whole = 0; whole < 2; whole++) {
        OutputFile file = output_open(path);
        fputs("new, longer\n", file.stream);
        fflush(file.stream);
        assert_holds(path, "old\n"); // until it is whole
        assert_entries(2);
        if (whole)
            output_close(&file);
        else
            output_abandon(&file);
        assert_null(file.stream);
        assert_holds(path, whole ? "new, longer\n" : "old\n");
        assert_entries(1);
    }
    assert_int_equal(mode_of(path) & 07777, 0600); // who made it private wants it private
}

static void *write_many(void *name) {
    char path[8];
    for (int i = 0; i < 200; i++) {
        snprintf(path, sizeof path, "%s%d", (const char *)name, i % 3);
        write_text(path, path);
    }
    return NULL;
}

TEST_IN_A_FOLDER(from_several_threads) {
    char names[][2] = {"a", "b", "c", "d"};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_many, names[i]), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    assert_entries(12);
}

TEST_IN_A_FOLDER(directories) {
    make_directory(in_test_folder("a/b//c/"));
    make_directory("a/b/c"); // is there already
    make_directory("/");
    assert_entries(3);
    static const char *const joined[][2] = {{"a/b", "a/b/c"}, {"a/b/", "a/b/c"}, {"/", "/c"}};
    for (int i = 0; i < 3; i++) {
        char *path = path_join(joined[i][0], "c");
        assert_string_equal(path, joined[i][1]);
        free(path);
    }
}

// As one that was killed in a container leaves it, where the next process has the same number.
TEST_IN_A_FOLDER(our_number_was_in_use) {
    char name[64];
    snprintf(name, sizeof name, "a.tmp.%ld", (long)getpid());
    write_bytes(name, "half", 4);
    write_text("a", "new");
    assert_holds("a", "new");
    assert_entries(1);
}

static void check_two(void *other) {
    const char *const paths[] = {"read", NULL, "folder/new", other};
    check_kept("read", paths + 1, 3);
    check_outputs(paths, 4);
}
// Under whatever name, whether it is there or not.
TEST_IN_A_FOLDER(one_file_under_two_names) {
    make_directory("folder");
    write_text("read", "text");
    assert_true(!symlink("folder", "al"));
    expect_death(2, "al/new: two outputs would go to this file", check_two, "al/new");
    expect_death(2, "folder/../read: an output would replace", check_two, "folder/../read");
    check_two("new");
    assert_entries(3);
}

static void die_while_another_writes(void *unused) {
    (void)unused;
    output_open("a.png");
    Process writer = process_start((char *[]){"sleep", "60", NULL}, true);
    FILE *file = fopen("writer", "w");
    fprintf(file, "%d", writer);
    fclose(file);
    die("none", "no picture");
}
TEST_IN_A_FOLDER(who_dies_ends_who_writes_for_it) {
    int writer = 0;
    expect_death(1, "no picture", die_while_another_writes, NULL);
    FILE *file = fopen("writer", "r");
    assert_true(file && fscanf(file, "%d", &writer) == 1 && writer > 0);
    fclose(file);
    assert_true(kill(writer, 0) == -1 && errno == ESRCH);
    assert_entries(1);
}

// What a child does until it is ended. Its temporary files are there when it says so.
static void write_for_ever(int say) {
    catch_interrupts();
    OutputFile file = output_open("a");
    fputs("half of it", file.stream);
    fflush(file.stream);
    output_open("b");
    if (write(say, "!", 1) != 1) _exit(3);
    for (int i = 0;; i++) { // the list of temporary files is in use most of the time
        OutputFile more = output_open(i % 2 ? "c" : "d");
        output_abandon(&more);
    }
}

TEST_IN_A_FOLDER(a_signal_leaves_nothing) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGABRT};
    for (int i = 0; i < 20; i++) {
        int ends[2], status;
        char letter;
        assert_int_equal(pipe(ends), 0);
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) write_for_ever(ends[1]);
        assert_int_equal(read(ends[0], &letter, 1), 1);
        usleep((useconds_t)i * 100);
        assert_int_equal(kill(child, signals[i % 5]), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == signals[i % 5]);
        assert_entries(0);
        assert_true(!close(ends[0]) && !close(ends[1]));
    }
}

static void write_zeros(const char *path, size_t size, int times) {
    static char block[1 << 16];
    OutputFile file = output_open(path);
    for (int i = 0; i < times; i++) fwrite(block, 1, size, file.stream);
    output_close(&file);
}

// In a folder of these rights, by somebody who is not root, who may write everywhere.
static void write_protected(const char *path, mode_t rights) {
    if (chmod(test_folder, rights) || (geteuid() == 0 && setuid(65534))) _exit(3);
    write_text(path, "");
}

static void *die_in_a_thread(void *unused) {
    (void)unused;
    usleep(200000);
    die("a hint", "what a worker says");
}

static void die_while_the_host_reads(void) {
    int ends[2];
    pthread_t worker;
    alarm(10); // else it would wait for ever
    if (pipe(ends) == 0) dup2(ends[0], STDIN_FILENO);
    pthread_create(&worker, NULL, die_in_a_thread, NULL);
    getchar();
}

TEST_IN_A_FOLDER(what_ends_the_program) {
    write_text("file", "text");
    write_text("weights", "old");
    assert_true(!symlink("weights", "link") && !mkfifo("pipe", 0600));
    expect_deaths(state);
    assert_int_equal(chmod(test_folder, 0700), 0);
    assert_true(S_ISCHR(mode_of("/dev/null"))); // still there
    assert_holds("file", "text");
    assert_holds("weights", "old");
    assert_entries(4);
}

// As a full disk, but needs no disk.
#define FULL(size, times)                                                                          \
    signal(SIGXFSZ, SIG_IGN);                                                                      \
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){10000, 10000});                                       \
    write_zeros("weights", size, times)
DIES("weights: cannot write: File too large", FULL(4096, 100))
DIES("cannot write: File too large", FULL(1, 10001))   // fails at the end
DIES("cannot write: File too large", FULL(1 << 16, 1)) // larger than a buffer: not at the end
DIES("something else went wrong", OutputFile file = output_open("weights");
     fputs("half of it", file.stream); fflush(file.stream);
     die("try again", "something else went wrong"))
DIES("cannot write: No such file or directory\nhint: make the directory first: mkdir -p '",
     write_text("missing/a.csv", ""))
DIES("Not a directory", write_text("file/a.csv", ""))
DIES("is not a regular file", write_text(".", ""))
DIES("is not a regular file", write_text("link", ""))
DIES("is not a regular file", write_text("pipe", ""))
DIES("is not a regular file", write_text("/dev/null", ""))
DIES("is not a regular file", write_text("", ""))
DIES("File exists", make_directory("file/a/b"))
DIES("without a name", make_directory(""))
DIES("Permission denied", chmod("file", 0444); write_protected("file", 0777))
DIES("Permission denied", write_protected("new", 0555))
DIES("what a worker says", die_while_the_host_reads())
// Words do not command the terminal.
#define WORDS "\033[2J\a\n\u00e4\x7f\r\xc2\x9b"
DIES("error ?[2J??\u00e4????\nhint: hint ?[2J??\u00e4????\n",
     die(xprintf("hint %s", WORDS), "error %s", WORDS))
// (8 times that is 8 again.)
DIES("out of memory for 18446744073709551616 bytes",
     free(xgrow(NULL, SIZE_MAX / sizeof(double) + 2, sizeof(double))))

static void just_die(void *unused) {
    (void)unused;
    die("none", "a child fails");
}

TEST_IN_A_FOLDER(child_leaves_the_parents_files) {
    OutputFile file = output_open("a");
    fputs("text", file.stream);
    assert_int_equal(try_in_child(just_die, NULL), 1); // what waits to be written is written once
    output_close(&file);
    assert_holds("a", "text");
}

TEST(arrays_grow_as_far_as_memory) {
    size_t count = 0;
    double *numbers = NULL;
    for (; count < 1000; count++) {
        numbers = xgrow(numbers, count + 1, sizeof *numbers);
        numbers[count] = (double)count;
    }
    for (size_t i = 0; i < count; i++) assert_true(numbers[i] == (double)i);
    free(numbers);
}

int main(void) {
    signal(SIGHUP, SIG_DFL); // else it is ignored when the tests run under nohup
    return run_all("files", NULL, NULL);
}
