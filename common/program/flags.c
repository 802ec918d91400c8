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

const Flags default_flags = {
    .batch_size = 256,
    .lr = 0.2f,
    .epochs = 10,
    .steps = -1,
    .shuffle = true,
    .allreduce = "star",
    .machine = "dgx-a100",
    .out = "plots",
};

static Flags given; // so far

static const Flag table[] = {
    {"devices", FLAG_INTEGER, &given.devices, "K", .help = "use K devices", .least = 1,
     .most = MAX_DEVICES, .otherwise = "as said above"},
    {"backend", FLAG_BACKEND, &given.backend, "B",
     .help = "auto (GPUs if there are any), cpu, cuda, inline (at once) or model (no values)"},
    {"threads", FLAG_INTEGER, &given.threads, "T", .help = "cores that the CPU devices share",
     .least = 1, .most = 1024, .otherwise = "all"},
    {"threads-per-device", FLAG_INTEGER, &given.threads_per_device, "T",
     .help = "cores of each CPU device: K devices have K times T", .least = 1, .most = 1024,
     .otherwise = "its share"},
    {"machine", FLAG_TEXT, &given.machine, "M",
     .help = "tell the time of this one, too: a name, a file, this, list, print:NAME or none"},
    {"memory", FLAG_TEXT, &given.memory, "SIZE",
     .help = "each device has no more memory than that: 60MB, 16GB", .otherwise = "all there is"},
    {"tf32", FLAG_ON, &given.tf32,
     .help = "GPUs keep 10 bits of each factor in products of matrices: faster"},
    {"quick", FLAG_ON, &given.quick, .help = "a short run that still shows its point"},
    {"batch-size", FLAG_INTEGER, &given.batch_size, "N", .help = "images in a minibatch",
     .least = 1, .most = 1 << 20, .otherwise = "the run's own"},
    {"lr", FLAG_REAL, &given.lr, "X", .help = "learning rate", .otherwise = "the run's own"},
    {"epochs", FLAG_INTEGER, &given.epochs, "N", .help = "passes over the training set", .least = 1,
     .most = 1000000, .otherwise = "the run's own", .counts = "epochs"},
    {"seed", FLAG_SEED, &given.seed, "N", .help = "start of all random numbers"},
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
     .choices = "star|sharded|ring|tree"},
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
    {"out", FLAG_TEXT, &given.out, "DIR", .help = "folder for curves and pictures"},
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

bool is_listed(const char *names, const char *flag) {
    size_t length = strlen(flag);
    for (const char *at = names; (at = strstr(at, flag)); at += length)
        if ((at == names || at[-1] == ' ') && (at[length] == ' ' || !at[length])) return true;
    return false;
}

// ---- the flags of a program ------------------------------------------------------------------

enum { MOST_FLAGS = NUM_FLAGS + 16, MOST_QUICK = 8 };

// A flag that --quick sets, and to what.
typedef struct Quick {
    int flag;
    const char *value;
} Quick;

typedef struct Program {
    const char *path, *about, *names;
    int num_flags;
    const Flag *flags[MOST_FLAGS];
    bool is_given[MOST_FLAGS]; // on the command line
    int num_quick;
    Quick quick[MOST_QUICK];
    char without_quick[200]; // the values of these flags
} Program;

// The number of the flag whose name is the first `length` letters of the text, or -1.
static int find_flag(const Program *program, const char *text, size_t length) {
    for (int i = 0; i < program->num_flags; i++) {
        const char *name = program->flags[i]->name;
        if (strlen(name) == length && strncmp(name, text, length) == 0) return i;
    }
    return -1;
}

static void add_flag(Program *program, const Flag *flag) {
    CHECK(program->num_flags < MOST_FLAGS, "make MOST_FLAGS larger");
    program->flags[program->num_flags++] = flag;
}

// The flags that the program adds come between those about training and those about files.
static void add_flags(Program *program) {
    for (int i = 0; i < NUM_FLAGS; i++) {
        if (table[i].value == &given.data)
            for (const Flag *own = given.own; own && own->name; own++) add_flag(program, own);
        if (is_listed(all_have, table[i].name) || is_listed(program->names, table[i].name))
            add_flag(program, &table[i]);
    }
}

// The value of a flag, as --help shows it. The next call replaces the text.
static const char *value_text(const Flag *flag) {
    static char number[32];
    const void *value = flag->value;
    switch (flag->kind) {
    case FLAG_INTEGER:
        snprintf(number, sizeof number, "%d", *(const int *)value);
        return *(const int *)value > 0 ? number : flag->otherwise;
    case FLAG_SEED:
        snprintf(number, sizeof number, "%llu", (unsigned long long)*(const uint64_t *)value);
        return number;
    case FLAG_REAL:
        snprintf(number, sizeof number, "%g", (double)*(const float *)value);
        return *(const float *)value >= 0 ? number : flag->otherwise;
    case FLAG_TEXT:
    case FLAG_CHOICE:
        return *(char *const *)value ? *(char *const *)value : flag->otherwise;
    case FLAG_BACKEND:
        return "auto";
    case FLAG_ON:
    case FLAG_OFF:
        return "no";
    case FLAG_HELP:
        break;
    }
    return "";
}

// ---- help ------------------------------------------------------------------------------------

static bool is_shown(const Program *program, const Flag *flag) {
    // A run that is quick anyway can leave nothing out.
    if (flag->value == &given.quick)
        return given.quick_means || is_listed(program->names, flag->name);
    char *hidden = xprintf("-%s", flag->name);
    bool shown = !is_listed(program->names, hidden);
    free(hidden);
    return shown;
}

static void print_flags(const Program *program, bool most_used) {
    for (int i = 0; i < program->num_flags; i++) {
        const Flag *flag = program->flags[i];
        if (!is_shown(program, flag) || is_listed(used_most, flag->name) != most_used) continue;
        const char *value = value_text(flag);
        char left[40];
        snprintf(left, sizeof left, "--%s %s", flag->name, flag->argument ? flag->argument : "");
        printf("  %-22s %s", left, flag->help);
        if (flag->value == &given.quick && given.quick_means)
            printf(": as %s, if not given", given.quick_means);
        printf(*value ? " [%s]\n" : "\n", value);
    }
}

static _Noreturn void exit_after_printing(void) {
    check_stdout();
    exit(EXIT_SUCCESS);
}

static _Noreturn void print_help(const Program *program) {
    printf("usage: %s [flags]\n\n", program->path);
    say("%s\n", program->about);
    print_flags(program, true);
    printf("\nFor example:\n");
    int left = 3; // the first three that this program has
    for (size_t e = 0; e < sizeof examples / sizeof *examples && left > 0; e++) {
        int i = find_flag(program, examples[e], strcspn(examples[e], " "));
        if (i < 0 || !is_shown(program, program->flags[i])) continue;
        printf("  %s --%s\n", program->path, examples[e]);
        left--;
    }
    printf("\nAll other flags:\n");
    print_flags(program, false);
    exit_after_printing();
}

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

// Texts live as long as the program: they are words of its command line.
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

// ---- the words of the command line -----------------------------------------------------------

// Whether a text and a word have the same letters, whatever is between them.
static bool same_letters(const char *text, const char *word) {
    for (;; text++, word++) {
        while (*text && !isalpha((unsigned char)*text)) text++;
        while (*word && *word != '=' && !isalpha((unsigned char)*word)) word++;
        if (!*word || *word == '=') return !*text;
        if (tolower((unsigned char)*text) != tolower((unsigned char)*word)) return false;
    }
}

// How many letters of the word to add, leave out or replace; 0 for the beginning of the name.
static size_t changes(const char *word, size_t length, const char *name) {
    enum { MOST = 40 };
    size_t row[MOST]; // from the first i letters of the word
    if (length >= MOST) return length;
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
static const char *hint_for(const char *word, const Program *program) {
    const char *letters = word + strspn(word, "-"), *nearest = NULL;
    size_t length = strcspn(letters, "="), least = (length + 1) / 3 + 1;
    for (int i = 0; i < program->num_flags && least > 0; i++) {
        const Flag *flag = program->flags[i];
        bool same = same_letters(flag->name, word) || same_letters(flag->help, word);
        size_t away = same ? 0 : 1 + changes(letters, length, flag->name);
        if (away > least || (nearest && away == least)) continue;
        nearest = flag->name;
        least = away;
    }
    return nearest ? xprintf("did you mean --%s? --help lists the flags", nearest)
                   : "--help lists the flags";
}

// Stores the values that the words give, and with --quick the values that it stands for, unless
// the words give others.
static void read_words(Program *program, int argc, char *argv[]) {
    for (int w = 1; w < argc; w++) {
        const char *word = argv[w], *value = strchr(word, '=');
        bool has_dashes = strncmp(word, "--", 2) == 0;
        int i = has_dashes ? find_flag(program, word + 2, strcspn(word + 2, "=")) : -1;
        const Flag *flag = i < 0 ? NULL : program->flags[i];
        // (In a flag that was copied from a typeset text, the dash may be another character.)
        if (!flag || (value && !flag->argument))
            die_usage(hint_for(word, program),
                      word[0] == '-' && word[1] ? "no such flag: %s" : "not a flag: '%s'", word);
        if (flag->kind == FLAG_HELP) print_help(program);
        if (value)
            value++;
        else if (flag->argument && !(value = argv[++w]))
            die_usage("--help lists the flags", "%s needs a value", word);
        store(flag, value);
        program->is_given[i] = true;
    }
    for (int q = 0; q < program->num_quick && given.quick; q++) {
        const Quick *quick = &program->quick[q];
        if (!program->is_given[quick->flag]) store(program->flags[quick->flag], quick->value);
    }
}

// die_usage()s if the backend has too few devices, or if a flag needs values and it has none.
static void check_backend(const Program *program) {
    bool has_curves = is_listed(program->names, "live"); // in --csv
    if (given.devices > MAX_COMPUTING && given.backend != BACKEND_MODEL)
        die_usage(xprintf("%d at most; with --backend model, %d", MAX_COMPUTING, MAX_DEVICES),
                  "--devices: there are no %d devices that compute", given.devices);
    for (int i = 0; i < program->num_flags && given.backend == BACKEND_MODEL; i++) {
        const Flag *flag = program->flags[i];
        bool needs_values =
            is_listed(about_values, flag->name) || (flag->value == &given.csv && has_curves);
        if (program->is_given[i] && needs_values)
            die_usage("leave it out, or choose another --backend",
                      "--%s: with --backend model there are no values, only time", flag->name);
    }
}

// ---- a quick run -----------------------------------------------------------------------------

// Finds what --quick stands for ("--epochs 3 --train-size 64"), and the values without it.
static void find_quick(Program *program) {
    static char *words; // values point into it
    free(words);
    words = given.quick_means ? xstrdup(given.quick_means) : NULL;
    char *rest = words;
    size_t n = 0;
    for (char *name; (name = strsep(&rest, " ")); program->num_quick++) {
        CHECK(program->num_quick < MOST_QUICK, "make MOST_QUICK larger");
        Quick *quick = &program->quick[program->num_quick];
        quick->flag = find_flag(program, name + 2, strlen(name + 2));
        quick->value = strsep(&rest, " ");
        CHECK(quick->flag >= 0 && quick->value, "--quick stands for flags with values");
        n += (size_t)snprintf(program->without_quick + n, sizeof program->without_quick - n, "%s%s",
                              n > 0 ? ", " : "", value_text(program->flags[quick->flag]));
    }
}

// "quick: 4096 training images, 3 epochs (full run: all, 10)"
static void say_quick(const Program *program) {
    char now[200] = "";
    size_t n = 0;
    for (int q = 0; q < program->num_quick; q++) {
        const Flag *flag = program->flags[program->quick[q].flag];
        const char *value = value_text(flag), *comma = q > 0 ? ", " : "";
        if (flag->counts) // "1 epoch" is without its s
            n += (size_t)snprintf(now + n, sizeof now - n, "%s%s %.*s", comma, value,
                                  (int)strlen(flag->counts) - (strcmp(value, "1") == 0),
                                  flag->counts);
        else
            n += (size_t)snprintf(now + n, sizeof now - n, "%s%s %s", comma, flag->name, value);
    }
    for (char *at = now; (at = strchr(at, '-'));) *at = ' '; // "batch size 64"
    if (n > 0)
        say("quick: %s (full run: %s)", now, program->without_quick);
    else
        say("quick: this run is short anyway, so nothing is left out");
}

// ---- machines --------------------------------------------------------------------------------

// The text of this computer as a machine with that many devices. (Only devices that compute can be
// measured, side by side.)
static char *measure_this(int devices) {
    BackendChoice choice = given.backend;
    if (choice == BACKEND_MODEL) choice = BACKEND_AUTO;
    if (choice == BACKEND_INLINE) choice = BACKEND_CPU;
    devices_init(choice, given.threads);
    // Without --devices it is not known yet how many will share the cores. The first gets all.
    int threads = given.threads_per_device;
    if (threads == 0) threads = num_threads() / (given.devices > 1 ? given.devices : 1);
    if (threads == 0) threads = 1;
    int fit = devices_that_fit(threads);
    if (devices > fit)
        say("machine this: %d device%s here with %s of %s own; modelled time is that of devices "
            "that all have them",
            fit, fit == 1 ? "" : "s", num_gpus() > 0 ? "GPUs" : "cores",
            fit == 1 ? "its" : "their");
    return machine_this(threads, devices);
}

static void start_clock(void) {
    static const char PRINT[] = "print:";
    const char *name = given.machine;
    if (strcmp(name, "none") == 0) return;
    if (strcmp(name, "list") == 0) {
        machine_list(stdout);
        exit_after_printing();
    }
    bool prints = strncmp(name, PRINT, strlen(PRINT)) == 0;
    if (prints) name += strlen(PRINT);
    char *measured = NULL;
    if (strcmp(name, "this") == 0)
        measured = measure_this(prints || given.devices ? given.devices : MAX_COMPUTING);
    if (prints) {
        fputs(measured ? measured : machine_text(name), stdout);
        exit_after_printing();
    }
    modelled_clock_start(measured ? machine_parse("this", measured) : machine_find(name));
    free(measured);
}

Flags parse_flags(int argc, char *argv[], const char *about, const char *names, Flags defaults) {
    Program program = {.path = argv[0], .about = about, .names = names};
    set_program_name(argv[0]);
    setvbuf(stdout, NULL, _IOLBF, 0); // each line is seen when it is printed, even in a pipe
    given = defaults;
    add_flags(&program);
    find_quick(&program);
    read_words(&program, argc, argv);
    check_backend(&program);
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
    if (given.quick && !is_listed(names, "quick")) say_quick(&program);
    return given;
}
