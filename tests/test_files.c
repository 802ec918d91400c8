// test_files.c: an output file is whole, or the old one is still there.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>

#include "dies.h"
#include "common/base/error.h"
#include "common/base/child.h"
#include "common/base/file.h"
#include "common/program/interrupt.h"
#include "common/program/picture.h"
#include "common/program/png.h"

// ---- helpers ---------------------------------------------------------------------------------

static void write_text(const char *path, const char *text) {
    OutputFile file = output_open(path);
    fputs(text, file.stream);
    output_close(&file);
}

static void assert_holds(const char *path, const char *expected) {
    size_t size;
    char *text = read_bytes_of(path, &size);
    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
}

static bool exists(const char *path) {
    struct stat status;
    return lstat(path, &status) == 0;
}

// Every test starts in a folder of its own, so that whatever else is in it was left behind.
static void assert_files_in_folder(int expected) {
    int count = -2; // . and ..
    DIR *directory = opendir(test_folder);
    assert_non_null(directory);
    while (readdir(directory)) count++;
    closedir(directory);
    assert_int_equal(count, expected);
}

// ---- what goes well --------------------------------------------------------------------------

static void new_and_replaced(void **state) {
    (void)state;
    const char *path = in_test_folder("a.csv");
    write_text(path, "old\n");
    assert_holds(path, "old\n");

    OutputFile file = output_open(path);
    fputs("new, longer\n", file.stream);
    fflush(file.stream);
    assert_holds(path, "old\n"); // until it is whole
    assert_files_in_folder(2);
    output_close(&file);
    assert_null(file.stream);
    assert_holds(path, "new, longer\n");
    assert_files_in_folder(1);
}

static void abandoned(void **state) {
    (void)state;
    const char *path = in_test_folder("a.csv");
    write_text(path, "old\n");
    OutputFile file = output_open(path);
    fputs("new\n", file.stream);
    output_abandon(&file);
    assert_holds(path, "old\n");
    assert_files_in_folder(1);
}

static void in_the_current_directory(void **state) {
    (void)state;
    char before[4096];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(test_folder), 0);
    write_text("plain", "text");
    assert_holds("plain", "text");
    assert_int_equal(symlink("elsewhere", "link"), 0);
    write_text("link", "text");
    assert_holds("elsewhere", "text");
    assert_int_equal(chdir(before), 0);
    assert_files_in_folder(3);
}

static void links_are_followed(void **state) {
    (void)state;
    char target[512], link[512], twice[512];
    snprintf(target, sizeof target, "%s", in_test_folder("folder/target"));
    snprintf(link, sizeof link, "%s", in_test_folder("folder/link"));
    snprintf(twice, sizeof twice, "%s", in_test_folder("twice"));
    make_directory(in_test_folder("folder"));
    assert_int_equal(symlink("target", link), 0); // relative to the link's own folder
    assert_int_equal(symlink(link, twice), 0);

    write_text(twice, "through a dangling link");
    assert_holds(target, "through a dangling link");
    write_text(twice, "again");
    assert_holds(target, "again");
    struct stat status;
    assert_int_equal(lstat(link, &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_int_equal(lstat(target, &status), 0);
    assert_true(S_ISREG(status.st_mode));
}

static void permissions_are_kept(void **state) {
    (void)state;
    const char *path = in_test_folder("private");
    write_text(path, "1");
    assert_int_equal(chmod(path, 0600), 0);
    write_text(path, "2");
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
}

static void pipes_are_written_directly(void **state) {
    (void)state;
    const char *path = in_test_folder("pipe");
    assert_int_equal(mkfifo(path, 0600), 0);
    int reader =
        open(path, O_RDONLY | O_NONBLOCK); // else the writer would wait for us, and we for it
    assert_true(reader >= 0);
    write_text(path, "through a pipe\n");
    char text[64] = "";
    assert_int_equal(read(reader, text, sizeof text - 1), strlen("through a pipe\n"));
    assert_string_equal(text, "through a pipe\n");
    close(reader);
    struct stat status;
    assert_int_equal(lstat(path, &status), 0);
    assert_true(S_ISFIFO(status.st_mode));
    write_text("/dev/null", "nothing");
    assert_int_equal(stat("/dev/null", &status), 0);
    assert_true(S_ISCHR(status.st_mode));
}

static void print_and_write_to_stdout(void *path) {
    if (!freopen(path, "w", stdout)) _exit(3);
    printf("before\n");
    write_text("/dev/stdout", "the file\n");
    printf("after\n");
    fflush(stdout);
}

// `program --out /dev/stdout >file`: the file keeps what was printed before.
static void stdout_in_a_file(void **state) {
    (void)state;
    char text[256];
    const char *path = in_test_folder("printed");
    assert_int_equal(run_and_listen(print_and_write_to_stdout, (void *)path, text, sizeof text), 0);
    assert_holds(path, "before\nthe file\nafter\n");
    assert_files_in_folder(1);
}

static void for_other_programs(void **state) {
    (void)state;
    const char *path = in_test_folder("picture.png");
    write_text(path, "old");
    char *temporary = output_temporary(path);
    assert_false(exists(temporary));
    assert_string_not_equal(temporary, path);
    write_bytes(temporary, "new", 3);
    assert_holds(path, "old");
    assert_int_equal(output_publish(temporary, path), 0);
    assert_holds(path, "new");
    free(temporary);

    temporary = output_temporary(path); // the other program writes nothing
    errno = 0;
    assert_int_equal(output_publish(temporary, path), -1);
    assert_int_equal(errno, ENOENT);
    assert_holds(path, "new");
    free(temporary);

    temporary = output_temporary("/dev/null");
    assert_string_equal(temporary, "/dev/null");
    assert_int_equal(output_publish(temporary, "/dev/null"), 0);
    free(temporary);
    assert_files_in_folder(1);
}

static void publish_that_fails(void **state) {
    (void)state;
    const char *path = in_test_folder("name");
    char *temporary = output_temporary(path);
    write_bytes(temporary, "new", 3);
    make_directory(in_test_folder("name")); // meanwhile somebody made a folder of that name
    write_bytes(in_test_folder("name/inside"), "", 0);
    assert_int_equal(output_publish(temporary, path), -1);
    assert_true(errno == EISDIR || errno == ENOTEMPTY || errno == EEXIST);
    assert_false(exists(temporary));
    free(temporary);
}

static void unfinished_files_are_removed(void **state) {
    (void)state;
    OutputFile a = output_open(in_test_folder("a")), b = output_open(in_test_folder("b"));
    char *c = output_temporary(in_test_folder("c"));
    write_bytes(c, "text", 4);
    assert_files_in_folder(3);
    remove_unfinished_files();
    assert_files_in_folder(0);
    output_abandon(&a);
    output_abandon(&b);
    free(c);
}

static void stale_file_of_a_killed_process(void **state) {
    (void)state;
    char stale[512];
    snprintf(stale, sizeof stale, "%s.tmp.%ld", in_test_folder("a"), (long)getpid());
    write_bytes(stale, "left by a process with our number", 4);
    write_text(in_test_folder("a"), "new");
    assert_holds(in_test_folder("a"), "new");
    assert_files_in_folder(1);
}

static void *write_many(void *name) {
    char path[512];
    for (int i = 0; i < 200; i++) {
        snprintf(path, sizeof path, "%s/%s%d", test_folder, (const char *)name, i % 3);
        write_text(path, path);
    }
    return NULL;
}

static void from_several_threads(void **state) {
    (void)state;
    char names[][2] = {"a", "b", "c", "d"};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_many, names[i]), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    assert_files_in_folder(12);
}

static void directories(void **state) {
    (void)state;
    make_directory(in_test_folder("a/b//c/"));
    make_directory(in_test_folder("a/b/c")); // is there already
    write_text(in_test_folder("a/b/c/file"), "text");
    make_directory("/");
    char *path = path_join("a/b", "c");
    assert_string_equal(path, "a/b/c");
    free(path);
    path = path_join("a/b/", "c");
    assert_string_equal(path, "a/b/c");
    free(path);
    path = path_join("/", "c");
    assert_string_equal(path, "/c");
    free(path);
}

// ---- what the dead left ----------------------------------------------------------------------

static pid_t number_of_the_dead(void) {
    pid_t child = fork();
    if (child == 0) _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    return child;
}

static const char *temporary_of(const char *name, pid_t writer) {
    char text[64];
    snprintf(text, sizeof text, "%s.tmp.%ld", name, (long)writer);
    return in_test_folder(text);
}

static void what_the_dead_left_is_removed(void **state) {
    (void)state;
    pid_t dead = number_of_the_dead();
    write_bytes(temporary_of("a", dead), "half", 4);
    write_text(in_test_folder("a"), "new");
    assert_holds(in_test_folder("a"), "new");
    assert_files_in_folder(1);
}

static void what_is_not_theirs_is_kept(void **state) {
    (void)state;
    pid_t dead = number_of_the_dead();
    char almost[5][64];
    const char *const forms[] = {"a.tmp.%ld~", "a.tmp.0%ld", "a.tmp.+%ld", "xa.tmp.%ld",
                                 "a.tmp.%ldx"};
    write_bytes(temporary_of("a", getppid()), "of the living", 4);
    write_bytes(temporary_of("b", dead), "of another file", 4);
    for (int i = 0; i < 5; i++) {
        snprintf(almost[i], sizeof almost[i], forms[i], (long)dead);
        write_bytes(in_test_folder(almost[i]), "", 0);
    }
    write_bytes(in_test_folder("a.tmp."), "", 0);
    write_bytes(in_test_folder("a.tmp.99999999999999999999"), "", 0);
    write_text(in_test_folder("a"), "new");
    assert_files_in_folder(10);
    // A process in another container has a number that means nothing here; but it holds a lock.
    int lock = open(temporary_of("a", dead), O_CREAT | O_WRONLY, 0666);
    assert_int_equal(flock(lock, LOCK_EX | LOCK_NB), 0);
    write_text(in_test_folder("a"), "newer");
    assert_files_in_folder(11);
    close(lock);
    write_text(in_test_folder("a"), "newest");
    assert_files_in_folder(10);
}

// ---- one file, many names --------------------------------------------------------------------

static void same_or_not(void **state) {
    (void)state;
    char before[4096], there[512], hard[512], link[512];
    snprintf(there, sizeof there, "%s", in_test_folder("there"));
    snprintf(hard, sizeof hard, "%s", in_test_folder("hard"));
    snprintf(link, sizeof link, "%s", in_test_folder("link"));
    write_text(there, "text");
    make_directory(in_test_folder("folder"));
    assert_int_equal(symlink("folder", in_test_folder("al")), 0);
    assert_int_equal(symlink("al/../missing", link), 0); // not there yet
    assert_int_equal(symlink("loop", in_test_folder("loop")), 0);
    assert_int_equal(linkat(AT_FDCWD, there, AT_FDCWD, hard, 0), 0);
    assert_true(same_file(there, hard));
    assert_true(same_file(there, in_test_folder("al/..//./there")));
    assert_true(same_file(link, in_test_folder("missing")));
    assert_true(same_file(in_test_folder("al/new"), in_test_folder("folder/new")));
    assert_true(same_file(in_test_folder("nowhere/a"), in_test_folder("nowhere/a")));
    assert_false(same_file(there, in_test_folder("missing")));
    assert_false(same_file(in_test_folder("folder/new"), in_test_folder("new")));
    assert_false(same_file(in_test_folder("folder"), in_test_folder("folder/x")));
    assert_false(same_file(in_test_folder("nowhere/a"), in_test_folder("nowhere/b")));
    assert_false(same_file(in_test_folder("loop"), there));
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(test_folder), 0);
    assert_true(same_file("new", in_test_folder("folder/../new")));
    assert_true(same_file("there", hard));
    assert_int_equal(chdir(before), 0);
}

static void check_two_outputs(void *paths) { check_outputs(paths, 2); }

static void two_outputs_in_one_file(void **state) {
    (void)state;
    make_directory(in_test_folder("folder"));
    const char *paths[] = {in_test_folder("a"), in_test_folder("folder/../a")};
    expect_death(2, "a: two outputs would go to this file, also called ", check_two_outputs, paths);
    check_outputs((const char *const[]){"/dev/null", NULL, "/dev/null", paths[0]}, 4);
    assert_files_in_folder(1);
}

// ---- whole pictures --------------------------------------------------------------------------

static void whole_pngs(void **state) {
    (void)state;
    const char *path = in_test_folder("a.png"), *other = in_test_folder("b.png");
    Picture p = picture_new(40, 30, (Color){1, 2, 3});
    picture_text(&p, 2, 2, 12, "text", (Color){255, 255, 255});
    picture_save(&p, path);
    picture_free(&p);
    assert_true(png_is_whole(path));
    size_t size;
    char *bytes = read_bytes_of(path, &size);
    for (size_t part = 0; part < size; part++) { // cut off anywhere
        write_bytes(other, bytes, part);
        assert_false(png_is_whole(other));
    }
    for (size_t i = 0; i < size; i++) { // any byte another
        bytes[i] ^= 4;
        write_bytes(other, bytes, size);
        assert_false(png_is_whole(other));
        bytes[i] ^= 4;
    }
    write_bytes(other, bytes, size + 1); // and read_bytes_of() put a zero there
    assert_false(png_is_whole(other));
    write_bytes(other, bytes, size);
    assert_true(png_is_whole(other));
    assert_false(png_is_whole(in_test_folder("nothing")));
    free(bytes);
}

// ---- signals ---------------------------------------------------------------------------------

// What the child does until it is ended. Its temporary files are there when it says so.
static void write_for_ever(int say) {
    catch_interrupts();
    OutputFile file = output_open(in_test_folder("a"));
    fputs("half of it", file.stream);
    fflush(file.stream);
    char *other = output_temporary(in_test_folder("b"));
    write_bytes(other, "half", 4);
    if (write(say, "!", 1) != 1) _exit(3);
    for (int i = 0;; i++) { // the list of temporary files is in use most of the time
        OutputFile more = output_open(in_test_folder(i % 2 ? "c" : "d"));
        output_abandon(&more);
    }
}

static void a_signal_leaves_nothing(void **state) {
    (void)state;
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
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), signals[i % 5]);
        assert_files_in_folder(0);
        close(ends[0]);
        close(ends[1]);
    }
}

// ---- what goes wrong -------------------------------------------------------------------------

static void open_it(void *path) {
    OutputFile file = output_open(path);
    output_close(&file);
}
static void ask_temporary(void *path) { free(output_temporary(path)); }
static void make_it(void *path) { make_directory(path); }

static void write_much(void *path) {
    OutputFile file = output_open(path);
    char block[4096] = {0};
    for (int i = 0; i < 100; i++) fwrite(block, 1, sizeof block, file.stream);
    output_close(&file);
}

// One write larger than the stream's buffer: when it fails nothing is left to fail at the end.
static void write_at_once(void *path) {
    static char block[1 << 16];
    OutputFile file = output_open(path);
    fwrite(block, 1, sizeof block, file.stream);
    output_close(&file);
}

static void write_little(void *path) { write_text(path, "a few bytes"); }

static void full_disk(void **state) {
    (void)state;
    expect_death(1, "/dev/full: cannot write: No space left on device", write_little, "/dev/full");
    expect_death(1, "hint: free some space, or choose another place", write_much, "/dev/full");
    expect_death(1, "/dev/full: cannot write: No space left", write_at_once, "/dev/full");
    struct stat status;
    assert_int_equal(stat("/dev/full", &status), 0); // still there
    assert_true(S_ISCHR(status.st_mode));
}

// The nearest thing to a full disk that needs no disk: files may not become larger than this.
static void write_with_limit(void *path) {
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {10000, 10000};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(3);
    write_much(path);
}

static void old_file_survives_a_full_disk(void **state) {
    (void)state;
    const char *path = in_test_folder("weights");
    write_text(path, "old");
    expect_death(1, "weights: cannot write: File too large", write_with_limit, (void *)path);
    assert_holds(path, "old");
    assert_files_in_folder(1);
}

static void die_while_writing(void *path) {
    OutputFile file = output_open(path);
    fputs("half of it", file.stream);
    fflush(file.stream);
    if (access(in_test_folder("weights"), F_OK) != 0) _exit(3);
    die("try again", "something else went wrong");
}

static void old_file_survives_die(void **state) {
    (void)state;
    const char *path = in_test_folder("weights");
    write_text(path, "old");
    expect_death(1, "something else went wrong", die_while_writing, (void *)path);
    assert_holds(path, "old");
    assert_files_in_folder(1);
}

static void just_die(void *unused) {
    (void)unused;
    die("none", "a child fails");
}

static void child_leaves_the_parents_files(void **state) {
    (void)state;
    const char *path = in_test_folder("a");
    OutputFile file = output_open(path);
    fputs("text", file.stream);
    expect_death(1, "a child fails", just_die, NULL);
    assert_int_equal(try_in_child(just_die, NULL), 1); // what waits to be written is written once
    output_close(&file);
    assert_holds(path, "text");
}

static void write_protected(void *path) {
    if (geteuid() == 0 && setuid(65534) != 0) _exit(3); // root may write everywhere
    open_it(path);
}

static void wrong_places(void **state) {
    (void)state;
    write_text(in_test_folder("file"), "text");
    expect_death(1, "cannot write: No such file or directory", open_it,
                 (void *)in_test_folder("missing/a.csv"));
    expect_death(1, "hint: make the directory first: mkdir -p '", open_it,
                 (void *)in_test_folder("missing/a.csv"));
    expect_death(1, "mkdir -p", ask_temporary, (void *)in_test_folder("missing/a.csv"));
    expect_death(1, "Not a directory", open_it, (void *)in_test_folder("file/a.csv"));
    expect_death(1, "Is a directory", open_it, test_folder);
    expect_death(1, "the file name is empty", open_it, "");
    expect_death(1, "the file name is empty", ask_temporary, "");
    assert_int_equal(symlink("loop", in_test_folder("loop")), 0);
    expect_death(1, "Too many levels of symbolic links", open_it, (void *)in_test_folder("loop"));

    assert_int_equal(chmod(in_test_folder("file"), 0444), 0);
    assert_int_equal(chmod(test_folder, 0777), 0);
    expect_death(1, "Permission denied", write_protected, (void *)in_test_folder("file"));
    assert_int_equal(chmod(test_folder, 0555), 0);
    expect_death(1, "Permission denied", write_protected, (void *)in_test_folder("new"));
    assert_int_equal(chmod(test_folder, 0700), 0);
    assert_holds(in_test_folder("file"), "text");
    assert_files_in_folder(2);
}

static void open_twice(void *path) {
    output_open(path);
    output_open(path);
}

static void wrong_uses(void **state) {
    (void)state;
    expect_death(1, "already being written", open_twice, (void *)in_test_folder("a"));
    write_text(in_test_folder("file"), "text");
    expect_death(1, "Not a directory", make_it, (void *)in_test_folder("file/a/b"));
    expect_death(1, "Not a directory", make_it, (void *)in_test_folder("file"));
    expect_death(1, "without a name", make_it, "");
    assert_files_in_folder(1);
}

// ---- die() -----------------------------------------------------------------------------------

static void die_of_a_word(void *word) {
    die(xprintf("hint %s", (char *)word), "error %s", (char *)word);
}

static void words_do_not_command_the_terminal(void **state) {
    (void)state;
    expect_death(1, "error ?[2J??\u00e4????\nhint: hint ?[2J??\u00e4????\n", die_of_a_word,
                 "\033[2J\a\n\u00e4\x7f\r\xc2\x9b");
}

static void *die_in_a_thread(void *unused) {
    (void)unused;
    usleep(200000);
    die("a hint", "what a worker says");
}

static void die_while_the_host_reads(void *unused) {
    (void)unused;
    int ends[2];
    pthread_t worker;
    alarm(10); // else it would wait for ever
    if (pipe(ends) == 0) dup2(ends[0], STDIN_FILENO);
    pthread_create(&worker, NULL, die_in_a_thread, NULL);
    getchar();
}

static void a_worker_dies_while_the_host_reads(void **state) {
    (void)state;
    expect_death(1, "what a worker says", die_while_the_host_reads, NULL);
}

// ---- memory ----------------------------------------------------------------------------------

static void grow_too_far(void *count) { free(xgrow(NULL, *(size_t *)count, sizeof(double))); }

static void arrays_grow_as_far_as_memory(void **state) {
    (void)state;
    size_t count = 0, too_many = SIZE_MAX / sizeof(double) + 2; // whose product is 8 again
    double *numbers = NULL;
    for (; count < 1000; count++) {
        numbers = xgrow(numbers, count + 1, sizeof *numbers);
        numbers[count] = (double)count;
    }
    for (size_t i = 0; i < count; i++) assert_true(numbers[i] == (double)i);
    free(numbers);
    expect_death(1, "out of memory for 18446744073709551616 bytes", grow_too_far, &too_many);
}

#define TEST(function)                                                                             \
    cmocka_unit_test_setup_teardown(function, make_test_folder, remove_test_folder)

int main(void) {
    signal(SIGHUP, SIG_DFL); // else it is ignored when the tests run under nohup
    const struct CMUnitTest tests[] = {
        TEST(new_and_replaced),
        TEST(abandoned),
        TEST(in_the_current_directory),
        TEST(links_are_followed),
        TEST(permissions_are_kept),
        TEST(pipes_are_written_directly),
        TEST(stdout_in_a_file),
        TEST(for_other_programs),
        TEST(publish_that_fails),
        TEST(unfinished_files_are_removed),
        TEST(stale_file_of_a_killed_process),
        TEST(what_the_dead_left_is_removed),
        TEST(what_is_not_theirs_is_kept),
        TEST(same_or_not),
        TEST(two_outputs_in_one_file),
        TEST(whole_pngs),
        TEST(a_signal_leaves_nothing),
        TEST(from_several_threads),
        TEST(directories),
        TEST(full_disk),
        TEST(old_file_survives_a_full_disk),
        TEST(old_file_survives_die),
        TEST(child_leaves_the_parents_files),
        TEST(wrong_places),
        TEST(wrong_uses),
        cmocka_unit_test(words_do_not_command_the_terminal),
        cmocka_unit_test(a_worker_dies_while_the_host_reads),
        TEST(arrays_grow_as_far_as_memory),
    };
    return cmocka_run_group_tests_name("files", tests, NULL, NULL);
}
