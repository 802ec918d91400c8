// test_flags.c: what a program makes of its command line: values, refusals with a hint, --help, and
// outputs that would replace each other or what is read. The program here has all shared flags.
#include <limits.h>

#include "dies.h"
#include "common/base/error.h"
#include "common/program/book.h"

#define ALL                                                                                        \
    "devices quick full batch-size lr epochs seed seeds rounds train-size test-size steps "        \
    "no-shuffle allreduce check load save checkpoint resume log-loss csv live data"
#define COMMON                                                                                     \
    "backend threads threads-per-device machine tf32 out trace timeline predict bn staleness help"

static const char *bn = "local";
static int staleness = 7;
static const Flag own[] = {
    {"bn", FLAG_CHOICE, &bn, "M", .help = "batch norm", .choices = "local|sync"},
    {"staleness", FLAG_INTEGER, &staleness, "S", .help = "at most", .most = INT_MAX,
     .unbounded = true},
    {0},
};

// The flags of "--devices 3 --out=", in words.
static Flags begin(const char *names, const char *line) {
    static char copy[1000];
    char *argv[80] = {"folder/test_flags"}, *rest = copy;
    int argc = 1;
    snprintf(copy, sizeof copy, "%s", line);
    while (*line && (argv[argc] = strsep(&rest, " "))) argc++;
    Flags defaults = default_flags;
    defaults.machine = "none";
    defaults.own = own;
    defaults.seeds = defaults.rounds = 3; // they have no default of their own
    defaults.quick_means = "--batch-size 64 --epochs 3";
    return book_begin(argc, argv, "A program.", names, defaults);
}

static void begin_it(void *line) {
    char words[1000];
    snprintf(words, sizeof words, "--backend cpu %s", (const char *)line);
    begin(ALL, words);
}

// ---- values ----------------------------------------------------------------------------------

CASE(values_arrive) {
    Flags f = begin(ALL, "--backend cpu");
    assert_true(f.devices == 0 && f.batch_size == 256 && f.lr == 0.2f && f.epochs == 10);
    assert_true(f.steps == -1 && f.shuffle && !f.seed && !f.live && !f.load && !f.checkpoint);
    assert_string_equal(f.out, "plots");
    f = begin(ALL, "--backend cpu --devices 64 --threads 3 --threads-per-device 1 --batch-size 7 "
                   "--lr 0.25 --epochs 1000000 --seed 18446744073709551615 --seeds 32 --rounds 99 "
                   "--train-size 2147483647 --test-size 1 --steps 0 --no-shuffle --full --check "
                   "--live --allreduce ring --bn sync --staleness inf");
    assert_true(f.backend == BACKEND_CPU && f.devices == 64 && f.threads == 3 && f.lr == 0.25f);
    assert_true(f.threads_per_device == 1 && f.batch_size == 7 && f.epochs == 1000000);
    assert_true(f.seed == UINT64_MAX && f.seeds == 32 && f.rounds == 99 && f.steps == 0);
    assert_true(f.train_size == INT_MAX && f.test_size == 1 && !f.shuffle && f.full && !f.quick);
    assert_true(f.check && f.live && staleness == INT_MAX && num_threads() == 3);
    assert_string_equal(f.allreduce, "ring");
    assert_string_equal(bn, "sync");
    f = begin(ALL, "--data a --load b --save c --log-loss d --csv e --out f --resume g");
    const char *const texts[] = {f.data, f.load, f.save, f.log_loss, f.csv, f.out, f.resume};
    for (int i = 0; i < 7; i++) assert_string_equal(texts[i], ((char[]){(char)('a' + i), '\0'}));
    assert_string_equal(f.checkpoint, "g"); // it is written, too
    f = begin(ALL, "--resume a --checkpoint b");
    assert_string_equal(f.checkpoint, "b");
}

CASE(what_is_given_wins_over_quick) {
    for (int first = 0; first < 2; first++) {
        Flags f = begin(ALL, first ? "--quick --epochs 2" : "--epochs 2 --quick");
        assert_true(f.quick && f.batch_size == 64 && f.epochs == 2);
    }
}

CASE(bad_values) {
    static const struct {
        const char *flag, *values, *hint;
    } rows[] = {
        {"devices", "0 -1 abc 1025 1e3 99999999999999999999 2x ", "from 1 to 1024"},
        {"lr", "nan inf -1 abc 1e39 0.2x ", "a finite number, 0 or more"},
        {"epochs", "0 1.5 1000001", "from 1 to 1000000"},
        {"steps", "-1 2147483648", "a whole number, 0 or more"},
        {"batch-size", "0 1048577", "from 1 to"},
        {"threads", "0 1025", "from 1 to 1024"},
        {"threads-per-device", "0 1025", "from 1 to 1024"},
        {"train-size", "0", "1 or more"},
        {"test-size", "0", "1 or more"},
        {"seeds", "0 33", "from 1 to 32"},
        {"rounds", "0 100", "from 1 to 99"},
        {"seed", "-1 abc 18446744073709551616 ", "a whole number, 0 or more"},
        {"staleness", "-1 infinite", "or inf"},
        {"backend", "gpu CUDA ", "auto, cpu, cuda or model"},
        {"allreduce", "stars ", "one of star|sharded|ring|tree"},
        {"bn", "global loc", "one of local|sync"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char values[100], *rest = values, *value, line[200], expected[200];
        snprintf(values, sizeof values, "%s", rows[i].values); // a space at the end: "", too
        while ((value = strsep(&rest, " "))) {
            snprintf(line, sizeof line, "--%s=%s", rows[i].flag, value);
            snprintf(expected, sizeof expected,
                     "--%s: not a possible value: '%s'\nhint: ", rows[i].flag, value);
            expect_death(2, expected, begin_it, line);
        }
        expect_death(2, rows[i].hint, begin_it, line);
    }
}

CASE(wrong_words) {
    static const char *const rows[][2] = {
        {"--nonsense", "no such flag: --nonsense\nhint: --help lists the flags"},
        {"-xy", "no such flag: -x\n"},
        {"--learning-rate=0.1", "--learning-rate=0.1\nhint: did you mean --lr?"},
        {"--batchsize 64", "--batchsize\nhint: did you mean --batch-size?"},
        {"--Batch_Size=64", "--Batch_Size=64\nhint: did you mean --batch-size?"},
        {"--no-shuffle=1", "no such flag: --no-shuffle=1"},
        {"--devices", "--devices needs a value\nhint: --help"},
        {"word", "not a flag: 'word'"},
        {"--devices 2 3", "not a flag: '3'"},
        {"--devices 65",
         "no 65 devices that compute\nhint: 64 at most; with --backend model, 1024"},
        {"--quick --full", "--quick and --full\nhint: give one"},
        {"--timeline a.svg", "not the name of a PNG: 'a.svg'\nhint: give the name of the PNG"},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        expect_death(2, rows[i][1], begin_it, (void *)rows[i][0]);
    static const char *const texts[] = {"data", "load", "save",  "checkpoint", "resume", "log-loss",
                                        "csv",  "out",  "trace", "timeline",   "machine"};
    for (size_t i = 0; i < COUNT(texts); i++) {
        char line[40];
        snprintf(line, sizeof line, "--%s=", texts[i]);
        expect_death(2, "the value is empty\nhint: give a name", begin_it, line);
    }
}

CASE(no_values_on_model_devices) {
    static const char *const flags[] = {"load=a", "save=a",       "log-loss=a", "csv=a",
                                        "live",   "checkpoint=a", "resume=a"};
    for (size_t i = 0; i < COUNT(flags); i++) {
        char line[80];
        snprintf(line, sizeof line, "--machine dgx-a100 --backend model --%s", flags[i]);
        expect_death(2, ": with --backend model there are no values", begin_it, line);
    }
}

static void needs_more_devices(void *machine) {
    char line[80];
    snprintf(line, sizeof line, "--machine %s", (const char *)machine);
    begin_it(line);
    book_needs_devices(1);
    book_needs_devices(2);
}

CASE(backends) {
    char text[500];
    assert_int_equal(run_and_listen(begin_it, "--tf32", text, sizeof text), 0);
    assert_string_equal(text, "test_flags: --tf32 changes nothing here: it is for GPUs\n"
                              "the function returned\n"); // and nothing of GPUs that there are not
    expect_death(2, "colab-t4 has 1 ", needs_more_devices, "colab-t4");
    assert_int_equal(run_and_listen(needs_more_devices, "dgx-a100", text, sizeof text), 0);
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
CASE(help_lists_each_flag) {
    char text[8192], names[] = ALL " " COMMON, *rest = names, *name, line[40];
    assert_int_equal(run_and_listen(help, NULL, text, sizeof text), 0);
    int listed = 0, wanted = 0;
    for (const char *at = text; (at = strstr(at, "\n  --")); at++) listed++;
    for (; (name = strsep(&rest, " ")); wanted++) {
        snprintf(line, sizeof line, "\n  --%s ", name);
        const char *found = strstr(text, line);
        if (strcmp(name, "tf32") == 0 ? found != NULL : !found) fail_msg("--%s", name);
        if (found && strcmp(name, "help") != 0) assert_true(found[strcspn(found + 1, "\n")] == ']');
    }
    assert_int_equal(listed, wanted - 1);
    static const char *const defaults[][2] = {{"batch-size", " [256]\n"}, {"lr", " [0.2]\n"},
                                              {"out", " [plots]\n"},      {"backend", " [auto]\n"},
                                              {"bn", " [local]\n"},       {"staleness", " [7]\n"}};
    for (size_t i = 0; i < COUNT(defaults); i++) {
        snprintf(line, sizeof line, "\n  --%s ", defaults[i][0]);
        const char *value = strstr(strstr(text, line), " [");
        assert_memory_equal(value, defaults[i][1], strlen(defaults[i][1]));
    }
    assert_non_null(strstr(text, ": as --batch-size 64 --epochs 3, if not given [no]\n"));
}

// ---- outputs ---------------------------------------------------------------------------------

static void check(void *line) {
    begin_it(line);
    book_csv(".csv");
    book_timeline(".png");
    book_output("_filters.png");
    book_check_outputs();
}

// (hard, soft and w are one file; that one file has many names: test_files.c)
CASE(outputs) {
    static const struct {
        int status;
        const char *words, *line;
    } rows[] = {
        {2, "two outputs", "--csv a --log-loss ./a"},
        {2, "two outputs", "--trace a --timeline a"},
        {2, "two outputs", "--csv a.svg --timeline a.png"},
        {2, "two outputs", "--csv plots//../plots/test_flags.svg"},
        {2, "two outputs", "--save plots/test_flags_filters.png"},
        {2, "two outputs", "--log-loss plots/test_flags.csv"},
        {2, "two outputs", "--checkpoint plots/test_flags.png"},
        {2, "two outputs", "--csv soft --save w"},
        {2, "two outputs", "--save hard --checkpoint w"},
        {2, "which is read", "--load w --csv w"},
        {2, "which is read", "--load w --log-loss ./w"},
        {2, "which is read", "--load w --trace soft"},
        {2, "which is read", "--load w --timeline hard"},
        {2, "which is read", "--load w --checkpoint w"},
        {2, "which is read", "--resume w --save w"},
        {2, "which is read", "--load plots/test_flags_filters.png"},
        {2, "which is read", "--save data/train-images-idx3-ubyte"},
        {2, "which is read", "--csv data/../data/t10k-labels-idx1-ubyte.gz"},
        {1, "Not a directory", "--out w/deeper"},
        {1, "cannot make this directory", "--out w"},
        {0, "", "--load w --save w"},
        {0, "", "--resume w"},
        {0, "", "--csv /dev/null --save /dev/null"},
    };
    assert_true(!mkdir("folder", 0700) && !mkdir("plots", 0700) && !mkdir("data", 0700));
    write_bytes("w", "old", 3);
    assert_true(!link("w", "hard") && !symlink("w", "soft"));
    write_bytes("plots/test_flags_filters.png", "", 0);
    write_bytes("data/train-images-idx3-ubyte", "", 0);
    for (size_t i = 0; i < COUNT(rows); i++) {
        char line[200], text[1000];
        snprintf(line, sizeof line, "--data data %s", rows[i].line);
        if (rows[i].status)
            expect_death(rows[i].status, rows[i].words, check, line);
        else if (run_and_listen(check, line, text, sizeof text) != 0)
            fail_msg("%s: %s", line, text);
        assert_holds("w", "old");
        assert_entries(8); // and nothing new
    }
    static const char *const flags[] = {"csv",   "save",     "log-loss",
                                        "trace", "timeline", "checkpoint"};
    for (size_t i = 0; i < COUNT(flags); i++) {
        char line[80];
        snprintf(line, sizeof line, "--data data --%s missing/file", flags[i]);
        expect_death(1, "No such file or directory\nhint: make the directory first", check, line);
        snprintf(line, sizeof line, "--data data --%s folder", flags[i]);
        expect_death(1, "Is a directory\nhint: give the name of a file", check, line);
    }
    assert_entries(8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_values),
        cmocka_unit_test(wrong_words),
        cmocka_unit_test(no_values_on_model_devices),
        cmocka_unit_test(backends),
        cmocka_unit_test(help_lists_each_flag),
        IN_A_FOLDER(outputs),
        cmocka_unit_test(values_arrive), // last: it starts threads
        cmocka_unit_test(what_is_given_wins_over_quick),
    };
    return cmocka_run_group_tests_name("flags", tests, NULL, devices_end);
}
