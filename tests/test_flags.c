// test_flags.c: what a program makes of its command line: values, refusals with a hint, --help, and
// outputs that would replace each other or what is read. The program here has all shared flags.
#include <limits.h>

#include "cases.h"
#include "common/base/error.h"
#include "common/program/program.h"

#define ALL                                                                                        \
    "devices machine=none quick batch-size lr epochs seed train-size test-size steps no-shuffle "  \
    "allreduce load save checkpoint resume log-loss csv live data"
#define COMMON                                                                                     \
    "backend threads threads-per-device memory tf32 out trace timeline predict help "              \
    "bn staleness"

static const char *bn;
static int staleness;
static const Flag own[] = {
    {"bn", FLAG_CHOICE, &bn, "M", .help = "batch norm", .choices = "local|sync",
     .standard = "local"},
    {"staleness", FLAG_INTEGER, &staleness, "S", .help = "at most", .most = INT_MAX,
     .unbounded = true, .standard = "7"},
    {0},
};

// The flags of "--devices 3 --out=", in words.
static Flags begin(const char *names, const char *line) {
    static char copy[1000];
    char *argv[80] = {"folder/test_flags"}, *rest = copy;
    int argc = 1;
    snprintf(copy, sizeof copy, "%s", line);
    while (*line && (argv[argc] = strsep(&rest, " "))) argc++;
    return book_begin(argc, argv, "A program.", names,
                      (Program){.own = own, .quick_means = "--batch-size 64 --epochs 3"});
}

// All up to the work: with outputs of its own.
static void begin_it(void *line) {
    char words[1000];
    snprintf(words, sizeof words, "--backend cpu --data data %s", (const char *)line);
    begin(ALL, words);
    book_outputs(".csv .png .svg _filters.png");
}

// ---- refusals --------------------------------------------------------------------------------

// A line of which a part is each of these words (a space at the end: and nothing), the status, and
// what the error and the hint say.
static const struct {
    int status;
    const char *line, *parts, *error, *hint;
} refusals[] = {
#define VALUES(flag, values, hint)                                                                 \
    { 2, "--" flag "=%s", values, "--" flag ": not a possible value: '", "'\nhint: " hint }
    VALUES("devices", "0 -1 abc 1025 1e3 99999999999999999999 2x ",
           "a whole number from 1 to 1024"),
    VALUES("lr", "nan inf -1 abc 1e39 0.2x ", "a finite number, 0 or more"),
    VALUES("epochs", "0 1.5 1000001", "a whole number from 1 to 1000000"),
    VALUES("steps", "-1 2147483648", "a whole number, 0 or more"),
    VALUES("batch-size", "0 1048577", "a whole number from 1 to 1048576"),
    VALUES("threads", "0 1025", "a whole number from 1 to 1024"),
    VALUES("threads-per-device", "0 1025", "a whole number from 1 to 1024"),
    VALUES("train-size", "0", "a whole number, 1 or more"),
    VALUES("test-size", "0", "a whole number, 1 or more"),
    VALUES("seed", "-1 abc 18446744073709551616 ", "a whole number, 0 or more"),
    VALUES("staleness", "-1 infinite", "a whole number, 0 or more, or inf"),
    VALUES("backend", "gpu CUDA ", "auto, cpu, cuda, inline or model"),
    VALUES("memory", "0 60 60MiB 0.5MB -60MB infGB x", "a number and its unit, such as 60MB"),
    VALUES("allreduce", "stars ", "one of star|sharded|ring|tree"),
    VALUES("bn", "global loc", "one of local|sync"),
    {2, "--%s=", "data load save checkpoint resume log-loss csv out trace timeline machine memory",
     ": the value is empty", "\nhint: give a name"},
    {2, "%s", "--nonsense", "no such flag: --nonsense", "\nhint: --help lists the flags"},
    {2, "%s", "-xy -x -h", "no such flag: -", "\nhint: --help lists the flags"},
    {2, "%s 2", "-devices \u2014devices \u2013Devices devices", "flag: ",
     "\nhint: did you mean --devices?"}, // with one dash, with those of a printed text, with none
    {2, "%s", "--learning-rate=0.1 --Learning_Rate=low", "flag: --", "\nhint: did you mean --lr?"},
    {2, "%s 64", "--batchsize --Batch_Size", "flag: --", "\nhint: did you mean --batch-size?"},
    {2, "%s", "--no-shuffle=1", "no such flag: --no-shuffle=1", ""},
    {2, "%s 2", "--device --dev --evices", "no such flag: --", "\nhint: did you mean --devices?"},
    {2, "%s", "--epoch=3 epocs --ephocs=3 --epohc", "flag: ", "\nhint: did you mean --epochs?"},
    {2, "%s", "--devices", "--devices needs a value", "\nhint: --help lists the flags"},
    {2, "--devices 2 %s", "word 3 -", "not a flag: '", "'\nhint: --help"},
    {2, "%s", "--devices=65", "no 65 devices", "\nhint: 64 at most; with --backend model, 1024"},
    {2, "--machine dgx-a100 --backend model --%s",
     "load=a save=a log-loss=a csv=a live checkpoint=a resume=a",
     ": with --backend model there are no values", "\nhint: leave it out"},
    // Two outputs in one file. (Which names are one file: test_files.c.)
    {2, "--csv a %s", "--log-loss=./a --save=a", "a: two outputs", "\nhint: give each its own"},
    {2, "--timeline a.png %s", "--trace=a.png --csv=a.svg", "two outputs", ""},
    {2, "--%s=plots/test_flags.csv", "log-loss save trace", "two outputs", ""},
    {2, "--%s=plots/test_flags.png", "csv checkpoint timeline", "two outputs", ""},
    {2, "--csv plots//../plots/test_flags%s", ".svg _filters.png", "two outputs", ""},
    // An output that would replace what is read.
    {2, "--load w %s", "--csv=w --log-loss=./w --trace=soft --timeline=hard --checkpoint=w",
     ": an output would replace this file, which is read", "\nhint: give the output another name"},
    {2, "--resume w %s", "--save=w --csv=w", "which is read", ""},
    {2, "--load plots/test_flags%s", "_filters.png", "which is read", ""},
    {2, "--csv data/%s", "train-images-idx3-ubyte ../data/train-images-idx3-ubyte", "which is read",
     ""},
    {1, "--%s missing/file", "csv save log-loss trace timeline checkpoint",
     ": cannot write: No such file or directory", "\nhint: make the directory first"},
    {1, "--%s folder", "csv save log-loss trace timeline checkpoint", "folder: cannot write: is no",
     "\nhint: give the name of a file"},
    {1, "--out %s", "w w/deeper", ": cannot make this directory: File exists",
     "\nhint: choose another place: --out DIR"},
    {1, "--out %s", "/proc/x", ": cannot make this directory",
     "\nhint: choose another place: --out"},
    {1, "--csv %s", "/proc/x", "/proc/x: cannot write",
     "\nhint: choose another place: --out DIR, or"},
};

// Before anything is done: nothing is new in the folder, and what was there is as it was.
TEST_IN_A_FOLDER(refused) {
    static const char *const good[] = {"--load w --save w", "--resume w"};
    char parts[200], line[200], text[1000];
    assert_true(!mkdir("folder", 0700) && !mkdir("plots", 0700) && !mkdir("data", 0700));
    write_bytes("w", "old", 3);
    assert_true(!link("w", "hard") && !symlink("w", "soft"));
    write_bytes("plots/test_flags_filters.png", "", 0);
    write_bytes("data/train-images-idx3-ubyte", "", 0);
    for (size_t i = 0; i < COUNT(refusals); i++) {
        snprintf(parts, sizeof parts, "%s", refusals[i].parts);
        for (char *rest = parts, *part; (part = strsep(&rest, " "));) {
            snprintf(line, sizeof line, refusals[i].line, part);
            expect_death(refusals[i].status, refusals[i].error, begin_it, line);
            expect_death(refusals[i].status, refusals[i].hint, begin_it, line);
        }
        assert_holds("w", "old");
        assert_entries(8);
    }
    for (size_t i = 0; i < COUNT(good); i++)
        if (run_and_listen(begin_it, (void *)good[i], text, sizeof text) != 0) fail_msg("%s", text);
    assert_entries(8);
}

static void fetch(void *suffix) {
    begin(ALL, "--backend cpu --csv named");
    book_outputs(".png _a.csv%s", " _b.csv _c.svg _c.png");
    CHECK(strcmp(book_output("_a.csv"), "named") == 0, "the first is that of --csv");
    CHECK(strcmp(book_output("_b.csv"), "plots/test_flags_b.csv") == 0, "and only the first");
    CHECK(strcmp(book_timeline("_c.png"), "plots/test_flags_c.png") == 0, "both are named");
    book_timeline(suffix);
}

TEST_IN_A_FOLDER(outputs_are_named_first) {
    expect_death(1, "in book_outputs()", fetch, "_d.png");
    expect_death(1, "in book_outputs()", fetch, ".png"); // its SVG is not named
}

static void needs_more_devices(void *machine) {
    begin(ALL, machine);
    book_needs_devices(1);
    book_needs_devices(2);
}

TEST_IN_A_FOLDER(backends) {
    char text[500];
    mkdir("data", 0700);
    assert_int_equal(run_and_listen(begin_it, "--tf32", text, sizeof text), 0);
    assert_string_equal(text, "test_flags: --tf32 changes nothing here: it is for GPUs\n"
                              "the function returned\n"); // and nothing of GPUs that there are not
    expect_death(2, "colab-t4 has 1 ", needs_more_devices, "--backend cpu --machine colab-t4");
    assert_int_equal(run_and_listen(needs_more_devices, "--backend cpu", text, sizeof text), 0);
    if (run_and_listen(begin_it, "--backend cuda", text, sizeof text) == 0) skip("there is a GPU");
    expect_death(1, "no GPU", begin_it, "--backend cuda");
}

// ---- help ------------------------------------------------------------------------------------

static void help(void *unused) {
    (void)unused;
    dup2(STDERR_FILENO, STDOUT_FILENO);
    begin(ALL " -tf32", "--help");
}

// Each flag once, with its default, but for the one that changes nothing here.
TEST(help_lists_each_flag) {
    char text[8192], names[] = ALL " " COMMON, *rest = names, *name, line[40];
    assert_int_equal(run_and_listen(help, NULL, text, sizeof text), 0);
    int shown = 0, wanted = 0;
    for (const char *at = text; (at = strstr(at, "\n  --")); at++) shown++;
    for (; (name = strsep(&rest, " ")); wanted++) {
        name[strcspn(name, "=")] = '\0';
        snprintf(line, sizeof line, "\n  --%s ", name);
        const char *found = strstr(text, line);
        if (strcmp(name, "tf32") == 0 ? found != NULL : !found) fail_msg("--%s", name);
        if (found && strcmp(name, "help") != 0) assert_true(found[strcspn(found + 1, "\n")] == ']');
    }
    assert_int_equal(shown, wanted - 1);
    static const char *const defaults[][2] = {{"batch-size", " [256]\n"}, {"lr", " [0.2]\n"},
                                              {"out", " [plots]\n"},      {"backend", " [auto]\n"},
                                              {"bn", " [local]\n"},       {"machine", " [none]\n"},
                                              {"staleness", " [7]\n"}};
    for (size_t i = 0; i < COUNT(defaults); i++) {
        snprintf(line, sizeof line, "\n  --%s ", defaults[i][0]);
        const char *value = strstr(strstr(text, line), " [");
        assert_memory_equal(value, defaults[i][1], strlen(defaults[i][1]));
    }
    assert_non_null(strstr(text, ": as --batch-size 64 --epochs 3, if not given [no]\n"));
}

// ---- values: last, because they start threads --------------------------------------------------

// (Some words live as long as the program: a sanitizer would call that a leak.)
TEST(values_arrive) {
    if (SANITIZED) skip("sanitizers");
    Flags f = begin(ALL, "--backend cpu");
    assert_true(f.devices == 0 && f.batch_size == 256 && f.lr == 0.2f && f.epochs == 10);
    assert_true(f.steps == -1 && f.shuffle && !f.seed && !f.live && !f.load && !f.checkpoint);
    assert_string_equal(f.out, "plots");
    f = begin(ALL, "--backend cpu --devices 64 --threads 3 --threads-per-device 1 --batch-size 7 "
                   "--lr 0.25 --epochs 1000000 --seed 18446744073709551615 "
                   "--train-size 2147483647 --test-size 1 --steps 0 --no-shuffle "
                   "--live --allreduce ring --bn sync --staleness inf");
    assert_true(f.backend == BACKEND_CPU && f.devices == 64 && f.threads == 3 && f.lr == 0.25f);
    assert_true(f.threads_per_device == 1 && f.batch_size == 7 && f.epochs == 1000000);
    assert_true(f.seed == UINT64_MAX && f.steps == 0);
    assert_true(f.train_size == INT_MAX && f.test_size == 1 && !f.shuffle && !f.quick);
    assert_true(f.live && staleness == INT_MAX && num_threads() == 3);
    assert_string_equal(f.allreduce, "ring");
    assert_string_equal(bn, "sync");
    f = begin(ALL,
              "--backend cpu --data a --load b --save c --log-loss d --csv e --out f --resume g");
    const char *const texts[] = {f.data, f.load, f.save, f.log_loss, f.csv, f.out, f.resume};
    for (int i = 0; i < 7; i++) assert_string_equal(texts[i], ((char[]){(char)('a' + i), '\0'}));
    assert_string_equal(f.checkpoint, "g"); // it is written, too
    f = begin(ALL, "--backend cpu --resume a --checkpoint b");
    assert_string_equal(f.checkpoint, "b");
}

TEST(what_is_given_wins_over_quick) {
    if (SANITIZED) skip("sanitizers");
    for (int first = 0; first < 2; first++) {
        Flags f = begin(ALL, first ? "--backend cpu --quick --epochs 2"
                                   : "--backend cpu --epochs 2 --quick");
        assert_true(f.quick && f.batch_size == 64 && f.epochs == 2);
    }
}

int main(void) { return run_all("flags", NULL, devices_end); }
