// flags.c: reads the command line. The parser and --help use one table, so neither can forget a
// flag. One pass over the words stores their values. Then the devices and the modelled clock that
// they ask for are opened.
#include "flags.h"
#include "common/base/error.h"
#include "common/base/number.h"
#include "common/model/modelled_clock.h"
#include "interrupt.h"
#include "predict.h"
#include "say.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Flags given; // so far

static const Flag table[] = {
    {"devices", FLAG_INTEGER, &given.devices, "K", .help = "use K devices", .least = 1,
     .most = MAX_DEVICES, .otherwise = "as said above"},
    {"backend", FLAG_BACKEND, &given.backend, "B", .standard = "auto",
     .help = "auto (GPUs if there are any), cpu, cuda, inline (at once) or model (no values)"},
    {"threads", FLAG_INTEGER, &given.threads, "T", .help = "cores that the CPU devices share",
     .least = 1, .most = 1024, .otherwise = "all"},
    {"threads-per-device", FLAG_INTEGER, &given.threads_per_device, "T",
     .help = "cores of each CPU device: K devices have K times T", .least = 1, .most = 1024,
     .otherwise = "its share"},
    {"machine", FLAG_TEXT, &given.machine, "M", .standard = "dgx-a100",
     .help = "tell the time of this one, too: a name, a file, list, print:NAME or none"},
    {"memory", FLAG_TEXT, &given.memory, "SIZE",
     .help = "each device has no more memory than that: 60MB, 16GB", .otherwise = "all there is"},
    {"tf32", FLAG_ON, &given.tf32,
     .help = "GPUs keep 10 bits of each factor in products of matrices: faster"},
    {"quick", FLAG_ON, &given.quick, .help = "a short run that still shows its point"},
    {"batch-size", FLAG_INTEGER, &given.batch_size, "N", .help = "images in a minibatch",
     .least = 1, .most = 1 << 20, .standard = "256", .otherwise = "the run's own"},
    {"lr", FLAG_REAL, &given.lr, "X", .help = "learning rate", .standard = "0.2",
     .otherwise = "the run's own"},
    {"epochs", FLAG_INTEGER, &given.epochs, "N", .help = "passes over the training set", .least = 1,
     .most = 1000000, .standard = "10", .otherwise = "the run's own", .counts = "epochs"},
    {"seed", FLAG_SEED, &given.seed, "N", .help = "start of all random numbers", .standard = "0"},
    {"train-size", FLAG_INTEGER, &given.train_size, "N", .help = "train on the first N images only",
     .least = 1, .most = INT_MAX, .otherwise = "all", .counts = "training images"},
    {"test-size", FLAG_INTEGER, &given.test_size, "N",
     .help = "evaluate on the first N test images only", .least = 1, .most = INT_MAX,
     .otherwise = "all", .counts = "test images"},
    {"steps", FLAG_INTEGER, &given.steps, "N", .help = "stop each run after N minibatches",
     .least = 0, .most = INT_MAX, .otherwise = "no limit", .counts = "steps"},
    {"no-shuffle", FLAG_OFF, &given.shuffle, .help = "take the images in the order of the file"},
    {"allreduce", FLAG_CHOICE, &given.allreduce, "A",
     .help = "how gradients are summed: star, sharded, ring or tree",
     .choices = "star|sharded|ring|tree", .standard = "star"},
    {"data", FLAG_TEXT, &given.data, "DIR", .help = "folder of the Fashion-MNIST files",
     .otherwise = "FASHION_MNIST_DIR, or the system's"},
    {"load", FLAG_TEXT, &given.load, "F", .help = "start from these parameters (safetensors)",
     .otherwise = "a new start"},
    {"save", FLAG_TEXT, &given.save, "F",
     .help = "write the parameters of the last run (safetensors)", .otherwise = "no"},
    {"checkpoint", FLAG_TEXT, &given.checkpoint, "F",
     .help = "write after each epoch all that is needed to go on", .otherwise = "no"},
    {"resume", FLAG_TEXT, &given.resume, "F",
     .help = "go on from a checkpoint, and write to it; give the other flags as then",
     .otherwise = "no"},
    {"log-loss", FLAG_TEXT, &given.log_loss, "F",
     .help = "write the loss of each minibatch (CSV step,loss; each run from step 1)",
     .otherwise = "no"},
    {"csv", FLAG_TEXT, &given.csv, "F", .help = "write the curves (CSV)",
     .otherwise = "DIR/PROGRAM.csv"},
    {"out", FLAG_TEXT, &given.out, "DIR", .help = "folder for curves and pictures",
     .standard = DEFAULT_OUT},
    {"trace", FLAG_TEXT, &given.trace, "F",
     .help = "write what each device did, and when (JSON, for ui.perfetto.dev)", .otherwise = "no"},
    {"timeline", FLAG_TEXT, &given.timeline, "F",
     .help = "draw it (F.png with F.svg beside it, or F.svg): step 2 of the last training, or all "
             "of it",
     .otherwise = "no"},
    {"predict", FLAG_ON, &given.predict,
     .help = "ask what you expect before the tables that matter, on a terminal"},
    {"live", FLAG_ON, &given.live, .help = "show the curves while training"},
    {"help", FLAG_HELP, .help = "print this and stop"},
};
enum { NUM_FLAGS = sizeof table / sizeof table[0] };

static const char all_have[] =
    "help backend threads threads-per-device machine memory tf32 quick out trace timeline predict";
static const char about_values[] = "load save checkpoint resume log-loss live";
static const char used_most[] =
    "quick train devices workers epochs batch-size lr machine predict help";
static const char *const examples[] = {"quick",   "devices 4",        "workers 8", "train",
                                       "predict", "machine dgx-h100", "epochs 3",  "seed 1"};

// What follows a flag in a list "devices=2 lr": "=2 lr", or "". NULL: it is not there.
static const char *listed(const char *names, const char *flag) {
    size_t length = strlen(flag);
    for (const char *at = names; (at = strstr(at, flag)); at += length)
        if ((at == names || at[-1] == ' ') && strchr(" =", at[length])) return at + length;
    return NULL;
}

bool is_listed(const char *names, const char *flag) { return listed(names, flag) != NULL; }

// ---- values ----------------------------------------------------------------------------------

static _Noreturn void refuse(const Flag *flag, const char *text, const char *hint) {
    die_usage(hint, "--%s: not a possible value: '%s'", flag->name, text);
}

static int read_integer(const Flag *flag, const char *text) {
    long value;
    if (flag->unbounded && strcmp(text, "inf") == 0) return (int)flag->most;
    if (read_whole(text, flag->least, flag->most, &value)) return (int)value;
    const char *or_inf = flag->unbounded ? ", or inf" : "";
    bool no_end = flag->unbounded || flag->most == INT_MAX;
    refuse(flag, text,
           no_end ? xprintf("a whole number, %ld or more%s", flag->least, or_inf)
                  : xprintf("a whole number from %ld to %ld", flag->least, flag->most));
}

// The number of the text in a list "star|ring|tree", or -1.
static int find_choice(const char *choices, const char *text) {
    size_t length = strlen(text);
    for (int i = 0;; i++, choices++) {
        size_t of_this = strcspn(choices, "|");
        if (of_this == length && strncmp(choices, text, length) == 0) return i;
        choices += of_this;
        if (!*choices) return -1;
    }
}

// The variable keeps the text itself, which lives as long as the program.
static void store(const Flag *flag, const char *text) {
    void *value = flag->value;
    char *end = NULL;
    errno = 0;
    switch (flag->kind) {
    case FLAG_INTEGER:
        *(int *)value = read_integer(flag, text);
        break;
    case FLAG_SEED:
        *(uint64_t *)value = strtoull(text, &end, 10);
        if (end == text || *end || errno || strchr(text, '-'))
            refuse(flag, text, "a whole number, 0 or more");
        break;
    case FLAG_REAL: {
        float number = strtof(text, &end);
        if (end == text || *end || !isfinite(number) || number < 0)
            refuse(flag, text, "a finite number, 0 or more, such as 0.2");
        *(float *)value = number;
        break;
    }
    case FLAG_TEXT:
        if (!*text)
            die_usage("give a name, or leave the flag out", "--%s: the value is empty", flag->name);
        *(const char **)value = text;
        break;
    case FLAG_CHOICE:
        if (find_choice(flag->choices, text) < 0)
            refuse(flag, text, xprintf("one of %s", flag->choices));
        *(const char **)value = text;
        break;
    case FLAG_BACKEND: {
        int backend = find_choice("auto|cpu|cuda|inline|model", text);
        if (backend < 0) refuse(flag, text, "auto, cpu, cuda, inline or model");
        *(BackendChoice *)value = (BackendChoice)backend;
        break;
    }
    case FLAG_ON:
    case FLAG_OFF:
        *(bool *)value = flag->kind == FLAG_ON;
        break;
    case FLAG_HELP:
        break;
    }
}

// ---- the flags of a program ------------------------------------------------------------------

enum { MOST_FLAGS = NUM_FLAGS + 16 };

typedef struct Line {
    const char *path, *about, *names;
    Program program;
    int num_flags;
    const Flag *flags[MOST_FLAGS];
    const char *words[MOST_FLAGS];   // the values, as words of the command line; NULL: not given
    const char *without[MOST_FLAGS]; // what --help shows for those that are not given
} Line;

// The number of the flag whose name is the first `length` letters of the text, or -1.
static int find_flag(const Line *line, const char *text, size_t length) {
    for (int i = 0; i < line->num_flags; i++) {
        const char *name = line->flags[i]->name;
        if (strlen(name) == length && strncmp(name, text, length) == 0) return i;
    }
    return -1;
}

static void set_default(const Flag *flag, const char *names, const char **shown) {
    const char *at = listed(names, flag->name), *text = flag->standard;
    if (at && *at == '=') {
        int length = (int)strcspn(at + 1, " ");
        text = length > 0 ? xprintf("%.*s", length, at + 1) : NULL;
    }
    if (text) store(flag, text);
    const char *none = flag->kind == FLAG_ON || flag->kind == FLAG_OFF ? "no" : "";
    *shown = text ? text : flag->otherwise ? flag->otherwise : none;
}

static void add_flag(Line *line, const Flag *flag, bool has) {
    CHECK(line->num_flags < MOST_FLAGS, "make MOST_FLAGS larger");
    set_default(flag, line->names, &line->without[line->num_flags]);
    if (has) line->flags[line->num_flags++] = flag;
}

// The flags that the program adds come between those about training and those about files.
static void add_flags(Line *line) {
    given = (Flags){.lr = -1, .steps = -1, .shuffle = true};
    for (int i = 0; i < NUM_FLAGS; i++) {
        const char *name = table[i].name;
        const Flag *own = table[i].value == &given.data ? line->program.own : NULL;
        for (; own && own->name; own++) add_flag(line, own, true);
        add_flag(line, &table[i], is_listed(all_have, name) || is_listed(line->names, name));
    }
}

// ---- help ------------------------------------------------------------------------------------

static bool is_shown(const Line *line, const Flag *flag) {
    // A run that is quick anyway can leave nothing out.
    if (flag->value == &given.quick)
        return line->program.quick_means || is_listed(line->names, flag->name);
    char hidden[40];
    snprintf(hidden, sizeof hidden, "-%s", flag->name);
    return !is_listed(line->names, hidden);
}

static void print_flags(const Line *line, bool most_used) {
    for (int i = 0; i < line->num_flags; i++) {
        const Flag *flag = line->flags[i];
        if (!is_shown(line, flag) || is_listed(used_most, flag->name) != most_used) continue;
        const char *value = line->words[i] ? line->words[i] : line->without[i];
        char left[40];
        snprintf(left, sizeof left, "--%s %s", flag->name, flag->argument ? flag->argument : "");
        printf("  %-22s %s", left, flag->help);
        if (flag->value == &given.quick && line->program.quick_means)
            printf(": as %s, if not given", line->program.quick_means);
        printf(*value ? " [%s]\n" : "\n", value);
    }
}

static _Noreturn void exit_after_printing(void) {
    check_stdout();
    exit(EXIT_SUCCESS);
}

static _Noreturn void print_help(const Line *line) {
    printf("usage: %s [flags]\n\n", line->path);
    say("%s\n", line->about);
    print_flags(line, true);
    printf("\nFor example:\n");
    int left = 3; // the first three that this program has
    for (size_t e = 0; e < sizeof examples / sizeof *examples && left > 0; e++) {
        int i = find_flag(line, examples[e], strcspn(examples[e], " "));
        if (i < 0 || !is_shown(line, line->flags[i])) continue;
        printf("  %s --%s\n", line->path, examples[e]);
        left--;
    }
    printf("\nAll other flags:\n");
    print_flags(line, false);
    exit_after_printing();
}

// ---- the words of the command line -----------------------------------------------------------

enum { LONGEST = 60 };

// The small letters of a text up to a "=", whatever is between them.
static void letters_of(const char *text, char letters[LONGEST]) {
    int n = 0;
    for (; *text && *text != '=' && n < LONGEST - 1; text++)
        if (isalpha((unsigned char)*text)) letters[n++] = (char)tolower((unsigned char)*text);
    letters[n] = '\0';
}

// How many letters of the word to add, leave out or replace; 0 for the beginning of the name.
static size_t changes(const char *word, const char *name) {
    size_t row[LONGEST], length = strlen(word); // row[i]: from the first i letters of the word
    if (length > 2 && strncmp(word, name, length) == 0) return 0;
    for (size_t i = 0; i <= length; i++) row[i] = i;
    for (; *name; name++) {
        size_t before = row[0]++;
        for (size_t i = 1; i <= length; i++) {
            size_t replaced = before + (word[i - 1] != *name);
            before = row[i];
            row[i] = 1 + (row[i] < row[i - 1] ? row[i] : row[i - 1]);
            if (replaced < row[i]) row[i] = replaced;
        }
    }
    return row[length];
}

// --batch_size=64 means --batch-size, --learning-rate the flag with that help, --device the
// nearest.
static const char *hint_for(const char *word, const Line *line) {
    char letters[LONGEST], name[LONGEST], help[LONGEST];
    const char *nearest = NULL;
    letters_of(word, letters);
    size_t least = (strlen(letters) + 1) / 3 + 1;
    for (int i = 0; i < line->num_flags && least > 0; i++) {
        letters_of(line->flags[i]->name, name);
        letters_of(line->flags[i]->help, help);
        bool same = strcmp(letters, name) == 0 || strcmp(letters, help) == 0;
        size_t away = same ? 0 : 1 + changes(letters, name);
        if (away > least || (nearest && away == least)) continue;
        nearest = line->flags[i]->name;
        least = away;
    }
    return nearest ? xprintf("did you mean --%s? --help lists the flags", nearest)
                   : "--help lists the flags";
}

// Stores the values that the words give.
static void read_words(Line *line, int argc, char *argv[]) {
    for (int w = 1; w < argc; w++) {
        const char *word = argv[w], *value = strchr(word, '=');
        bool has_dashes = strncmp(word, "--", 2) == 0;
        int i = has_dashes ? find_flag(line, word + 2, strcspn(word + 2, "=")) : -1;
        const Flag *flag = i < 0 ? NULL : line->flags[i];
        // (In a flag that was copied from a typeset text, the dash may be another character.)
        if (!flag || (value && !flag->argument))
            die_usage(hint_for(word, line),
                      word[0] == '-' && word[1] ? "no such flag: %s" : "not a flag: '%s'", word);
        if (flag->kind == FLAG_HELP) print_help(line);
        if (value)
            value++;
        else if (flag->argument && !(value = argv[++w]))
            die_usage("--help lists the flags", "%s needs a value", word);
        store(flag, value);
        line->words[i] = value ? value : "yes";
    }
}

// die_usage()s if the backend has too few devices, or if a flag needs values and it has none.
static void check_backend(const Line *line) {
    bool has_curves = is_listed(line->names, "live"); // in --csv
    if (given.devices > MAX_COMPUTING && given.backend != BACKEND_MODEL)
        die_usage(xprintf("%d at most; with --backend model, %d", MAX_COMPUTING, MAX_DEVICES),
                  "--devices: there are no %d devices that compute", given.devices);
    for (int i = 0; i < line->num_flags && given.backend == BACKEND_MODEL; i++) {
        const Flag *flag = line->flags[i];
        bool needs_values =
            is_listed(about_values, flag->name) || (flag->value == &given.csv && has_curves);
        if (line->words[i] && needs_values)
            die_usage("leave it out, or choose another --backend",
                      "--%s: with --backend model there are no values, only time", flag->name);
    }
}

// ---- a quick run -----------------------------------------------------------------------------

// Stores the values that --quick stands for, unless the words gave others. Returns what is to be
// said of them: "quick: 4096 training images, 3 epochs (full run: all, 10)".
static char *read_quick(Line *line) {
    char *rest = line->program.quick_means ? xstrdup(line->program.quick_means) : NULL;
    char now[200] = "", full[200] = "";
    for (char *name; (name = strsep(&rest, " "));) {
        int i = find_flag(line, name + 2, strlen(name + 2));
        const char *value = strsep(&rest, " "), *comma = *now ? ", " : "";
        CHECK(i >= 0 && value, "--quick stands for flags with values");
        const Flag *flag = line->flags[i];
        if (!line->words[i]) store(flag, line->words[i] = value);
        bool one = strcmp(line->words[i], "1") == 0; // "1 epoch" is without its s
        size_t n = strlen(now), m = strlen(full);
        snprintf(full + m, sizeof full - m, "%s%s", comma, line->without[i]);
        if (flag->counts)
            snprintf(now + n, sizeof now - n, "%s%s %.*s", comma, line->words[i],
                     (int)strlen(flag->counts) - one, flag->counts);
        else
            snprintf(now + n, sizeof now - n, "%s%s %s", comma, flag->name, line->words[i]);
    }
    for (char *at = now; (at = strchr(at, '-'));) *at = ' '; // "batch size 64"
    if (*now) return xprintf("quick: %s (full run: %s)", now, full);
    return xstrdup("quick: this run is short anyway, so nothing is left out");
}

// ---- machines --------------------------------------------------------------------------------

static void start_clock(void) {
    static const char PRINT[] = "print:";
    const char *name = given.machine;
    if (strcmp(name, "none") == 0) return;
    if (strcmp(name, "list") == 0) {
        machine_list(stdout);
        exit_after_printing();
    }
    if (strncmp(name, PRINT, strlen(PRINT)) == 0) {
        fputs(machine_text(name + strlen(PRINT)), stdout);
        exit_after_printing();
    }
    modelled_clock_start(machine_find(name));
}

Flags parse_flags(int argc, char *argv[], const char *about, const char *names, Program program) {
    static Line line; // its texts live as long as the program
    line = (Line){.path = argv[0], .about = about, .names = names, .program = program};
    set_program_name(argv[0]);
    setvbuf(stdout, NULL, _IOLBF, 0); // each line is seen when it is printed, even in a pipe
    add_flags(&line);
    read_words(&line, argc, argv);
    char *quick = given.quick ? read_quick(&line) : NULL;
    check_backend(&line);
    double memory = given.memory ? machine_bytes(given.memory) : INFINITY;
    if (isnan(memory))
        die_usage("a number and its unit, such as 60MB or 16GB; at least 1MB",
                  "--memory: not a possible value: '%s'", given.memory);
    catch_interrupts();
    start_clock(); // first: it says how many model devices there may be
    devices_limit_memory(memory);
    devices_init(given.backend, given.threads);
    set_threads_per_device(given.threads_per_device);
    allow_tf32(given.tf32);
    if (given.tf32 && num_gpus() == 0 && given.backend != BACKEND_MODEL)
        warn("--tf32 changes nothing here: it is for GPUs");
    predict_enable(given.predict);
    if (quick && !is_listed(names, "quick")) say("%s", quick);
    free(quick);
    return given;
}
