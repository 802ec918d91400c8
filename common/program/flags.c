// flags.c: one table of flags gives the parser and the text of --help, so that neither can forget
// one.
#include "flags.h"
#include "common/base/error.h"
#include "common/base/number.h"
#include "common/model/modelled_clock.h"
#include "interrupt.h"
#include "predict.h"
#include "say.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
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

static Flags given; // on the command line, so far

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
    {"full", FLAG_ON, &given.full, .help = "all images and epochs, on any machine"},
    {"batch-size", FLAG_INTEGER, &given.batch_size, "N", .help = "images in a minibatch",
     .least = 1, .most = 1 << 20, .otherwise = "the run's own"},
    {"lr", FLAG_REAL, &given.lr, "X", .help = "learning rate", .otherwise = "the run's own"},
    {"epochs", FLAG_INTEGER, &given.epochs, "N", .help = "passes over the training set", .least = 1,
     .most = 1000000, .otherwise = "the run's own", .counts = "epochs"},
    {"seed", FLAG_SEED, &given.seed, "N", .help = "start of all random numbers"},
    {"seeds", FLAG_INTEGER, &given.seeds, "N", .help = "train from N seeds each", .least = 1,
     .most = MOST_SEEDS, .counts = "seeds"},
    {"rounds", FLAG_INTEGER, &given.rounds, "N", .help = "measure each time N times", .least = 1,
     .most = MOST_TIMED, .counts = "rounds"},
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
    {"check", FLAG_ON, &given.check, .help = "check the solution on little data, and stop"},
    {"help", FLAG_HELP, .help = "print this and stop"},
};
enum { NUM_FLAGS = sizeof table / sizeof table[0] };

// As --help shows it; "": of a flag that has none. free() it.
static char *value_text(const Flag *flag) {
    const void *value = flag->value;
    switch (flag->kind) {
    case FLAG_INTEGER:
        return *(const int *)value > 0 ? xprintf("%d", *(const int *)value)
                                       : xstrdup(flag->otherwise);
    case FLAG_SEED:
        return xprintf("%llu", (unsigned long long)*(const uint64_t *)value);
    case FLAG_REAL:
        return *(const float *)value >= 0 ? xprintf("%g", (double)*(const float *)value)
                                          : xstrdup(flag->otherwise);
    case FLAG_CHOICE:
        return xstrdup(*(char *const *)value);
    case FLAG_TEXT:
        return xstrdup(*(char *const *)value ? *(char *const *)value : flag->otherwise);
    case FLAG_BACKEND:
        return xstrdup("auto");
    case FLAG_ON:
    case FLAG_OFF:
        return xstrdup("no");
    case FLAG_HELP:
        break;
    }
    return xstrdup("");
}

bool is_listed(const char *names, const char *flag) {
    size_t length = strlen(flag);
    for (const char *at = names; (at = strstr(at, flag)); at += length)
        if ((at == names || at[-1] == ' ') && (at[length] == ' ' || !at[length])) return true;
    return false;
}

static bool has_flag(const char *names, const Flag *flag) {
    static const char all_have[] =
        "backend threads threads-per-device machine memory tf32 quick out trace timeline predict";
    return flag->kind == FLAG_HELP || is_listed(all_have, flag->name) ||
           is_listed(names, flag->name);
}

// ---- the flags of a program ------------------------------------------------------------------

enum { MOST_FLAGS = NUM_FLAGS + 16 };

typedef struct Program {
    const char *path, *about, *names;
    Flags defaults;
    int num_flags;
    const Flag *flags[MOST_FLAGS];
    struct option options[MOST_FLAGS + 1];
} Program;

static void add_flag(Program *program, const Flag *flag) {
    CHECK(program->num_flags < MOST_FLAGS, "make MOST_FLAGS larger");
    int i = program->num_flags++;
    program->flags[i] = flag;
    program->options[i] = (struct option){
        flag->name, flag->argument ? required_argument : no_argument, NULL, i + 256};
}

// Its own stand between those about training and those about files.
static void add_flags(Program *program) {
    for (int i = 0; i < NUM_FLAGS; i++) {
        if (table[i].value == &given.data)
            for (const Flag *own = program->defaults.own; own && own->name; own++)
                add_flag(program, own);
        if (has_flag(program->names, &table[i])) add_flag(program, &table[i]);
    }
}

// ---- help ------------------------------------------------------------------------------------

static bool is_shown(const Program *program, const Flag *flag) {
    char *unused = xprintf("-%s", flag->name);
    bool shown = !is_listed(program->names, unused);
    if (flag->value == &given.quick) // whose run is quick anyway has nothing to leave out
        shown = program->defaults.quick_means || is_listed(program->names, flag->name);
    free(unused);
    return shown;
}

static void print_flag(const Flag *flag) {
    char left[40], *value = value_text(flag);
    snprintf(left, sizeof left, "--%s %s", flag->name, flag->argument ? flag->argument : "");
    printf("  %-22s %s", left, flag->help);
    if (flag->value == &given.quick && given.quick_means)
        printf(": as %s, if not given", given.quick_means);
    printf(*value ? " [%s]\n" : "\n", value);
    free(value);
}

static void print_flags(const Program *program, bool most_used) {
    static const char used_most[] =
        "check quick train devices workers epochs batch-size lr machine predict help";
    for (int i = 0; i < program->num_flags; i++)
        if (is_shown(program, program->flags[i]) &&
            is_listed(used_most, program->flags[i]->name) == most_used)
            print_flag(program->flags[i]);
}

// The first three that this program has.
static void print_examples(const Program *program) {
    static const char *const examples[] = {"check", "quick",   "devices 4",        "workers 8",
                                           "train", "predict", "machine dgx-h100", "epochs 3",
                                           "seed 1"};
    int left = 3;
    for (size_t e = 0; e < sizeof examples / sizeof *examples && left > 0; e++)
        for (int i = 0; i < program->num_flags; i++)
            if (is_shown(program, program->flags[i]) &&
                is_listed(examples[e], program->flags[i]->name)) {
                printf("  %s --%s\n", program->path, examples[e]);
                left--;
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
    print_examples(program);
    printf("\nAll other flags:\n");
    print_flags(program, false);
    exit_after_printing();
}

// ---- values ----------------------------------------------------------------------------------

static int parse_integer(const Flag *flag, const char *text) {
    long value;
    if (flag->unbounded && strcmp(text, "inf") == 0) return (int)flag->most;
    if (!read_whole(text, flag->least, flag->most, &value))
        die_usage(flag->unbounded ? xprintf("a whole number, %ld or more, or inf", flag->least)
                  : flag->most == INT_MAX
                      ? xprintf("a whole number, %ld or more", flag->least)
                      : xprintf("a whole number from %ld to %ld", flag->least, flag->most),
                  "--%s: not a possible value: '%s'", flag->name, text);
    return (int)value;
}

static uint64_t parse_seed(const Flag *flag, const char *text) {
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (end == text || *end || errno || strchr(text, '-'))
        die_usage("a whole number, 0 or more", "--%s: not a possible value: '%s'", flag->name,
                  text);
    return value;
}

static float parse_real(const Flag *flag, const char *text) {
    char *end;
    float value = strtof(text, &end);
    if (end == text || *end || !isfinite(value) || value < 0)
        die_usage("a finite number, 0 or more, such as 0.2", "--%s: not a possible value: '%s'",
                  flag->name, text);
    return value;
}

static BackendChoice parse_backend(const Flag *flag, const char *text) {
    static const char *const names[] = {"auto", "cpu", "cuda", "inline", "model"};
    for (int i = 0; i < 5; i++)
        if (strcmp(text, names[i]) == 0) return (BackendChoice)i;
    die_usage("auto, cpu, cuda, inline or model", "--%s: not a possible value: '%s'", flag->name,
              text);
}

static const char *parse_text(const Flag *flag, const char *text) {
    if (!*text)
        die_usage("give a name, or leave the flag out", "--%s: the value is empty", flag->name);
    return text;
}

// One of "star|ring|tree", as it stands there.
static const char *parse_choice(const Flag *flag, const char *text) {
    char *copy = xstrdup(flag->choices), *rest = copy;
    for (char *choice; (choice = strsep(&rest, "|"));)
        if (strcmp(choice, text) == 0) return choice; // lives as long as the program
    die_usage(xprintf("one of %s", flag->choices), "--%s: not a possible value: '%s'", flag->name,
              text);
}

static void store(const Flag *flag, const char *text) {
    void *value = flag->value;
    switch (flag->kind) {
    case FLAG_INTEGER:
        *(int *)value = parse_integer(flag, text);
        break;
    case FLAG_SEED:
        *(uint64_t *)value = parse_seed(flag, text);
        break;
    case FLAG_REAL:
        *(float *)value = parse_real(flag, text);
        break;
    case FLAG_TEXT:
        *(const char **)value = parse_text(flag, text);
        break;
    case FLAG_CHOICE:
        *(const char **)value = parse_choice(flag, text);
        break;
    case FLAG_BACKEND:
        *(BackendChoice *)value = parse_backend(flag, text);
        break;
    case FLAG_ON:
        *(bool *)value = true;
        break;
    case FLAG_OFF:
        *(bool *)value = false;
        break;
    case FLAG_HELP:
        break;
    }
}

// ---- machines --------------------------------------------------------------------------------

// How many threads the machine at hand gives a CPU device. Without --devices it is not known yet
// how many there will be; then it is what the first one has alone.
static int threads_of_a_device(const Flags *flags) {
    if (flags->threads_per_device > 0) return flags->threads_per_device;
    int threads = num_threads() / (flags->devices > 1 ? flags->devices : 1);
    return threads > 0 ? threads : 1;
}

// The text of the machine at hand. (What it measures are devices that compute, side by side.)
static char *measure_this(const Flags *flags, int devices) {
    BackendChoice asked = flags->backend, choice = asked;
    if (asked == BACKEND_MODEL) choice = BACKEND_AUTO;
    if (asked == BACKEND_INLINE) choice = BACKEND_CPU;
    devices_init(choice, flags->threads);
    int threads = threads_of_a_device(flags), fit = devices_that_fit(threads);
    if (devices > fit)
        say("machine this: %d device%s here with %s of %s own; modelled time is that of devices "
            "that all have them",
            fit, fit == 1 ? "" : "s", num_gpus() > 0 ? "GPUs" : "cores",
            fit == 1 ? "its" : "their");
    return machine_this(threads, devices);
}

static const Machine *find_machine(const Flags *flags) {
    if (strcmp(flags->machine, "this") != 0) return machine_find(flags->machine);
    char *text = measure_this(flags, flags->devices ? flags->devices : MAX_COMPUTING);
    const Machine *machine = machine_parse("this", text);
    free(text);
    return machine;
}

static void print_machine(const Flags *flags, const char *name) {
    bool is_this = strcmp(name, "this") == 0;
    char *measured = is_this ? measure_this(flags, flags->devices) : NULL;
    fputs(is_this ? measured : machine_text(name), stdout);
    free(measured);
}

static void check_number_of_devices(const Flags *flags) {
    if (flags->devices > MAX_COMPUTING && flags->backend != BACKEND_MODEL)
        die_usage(xprintf("%d at most; with --backend model, %d", MAX_COMPUTING, MAX_DEVICES),
                  "--devices: there are no %d devices that compute", flags->devices);
}

// The clock comes first: it says how many model devices there may be.
static void open_machines(const Flags *flags) {
    static const char PRINT[] = "print:";
    if (strcmp(flags->machine, "list") == 0) {
        machine_list(stdout);
        exit_after_printing();
    }
    if (strncmp(flags->machine, PRINT, strlen(PRINT)) == 0) {
        print_machine(flags, flags->machine + strlen(PRINT));
        exit_after_printing();
    }
    if (strcmp(flags->machine, "none") != 0) modelled_clock_start(find_machine(flags));
    devices_init(flags->backend, flags->threads);
    set_threads_per_device(flags->threads_per_device);
    allow_tf32(flags->tf32);
    if (flags->tf32 && num_gpus() == 0 && flags->backend != BACKEND_MODEL)
        warn("--tf32 changes nothing here: it is for GPUs");
}

static double memory_limit(const Flags *flags) {
    double bytes = flags->memory ? machine_bytes(flags->memory) : INFINITY;
    if (isnan(bytes))
        die_usage("a number and its unit, such as 60MB or 16GB; at least 1MB",
                  "--memory: not a possible value: '%s'", flags->memory);
    return bytes;
}

// ---- the command line ------------------------------------------------------------------------

// Whether a text and a word have the same letters, whatever stands between them.
static bool same_letters(const char *text, const char *word) {
    for (;; text++, word++) {
        while (*text && !isalpha((unsigned char)*text)) text++;
        while (*word && *word != '=' && !isalpha((unsigned char)*word)) word++;
        if (!*word || *word == '=') return !*text;
        if (tolower((unsigned char)*text) != tolower((unsigned char)*word)) return false;
    }
}

// --batch_size=64 and -batch-size are meant to be --batch-size, and --learning-rate the flag with
// that as its help.
static const char *hint_for(const char *word, const Program *program) {
    const char *letter = word;
    while (*letter && *letter != '=' && !isalpha((unsigned char)*letter)) letter++;
    for (int i = 0; i < program->num_flags && isalpha((unsigned char)*letter); i++) {
        const Flag *flag = program->flags[i];
        if (same_letters(flag->name, word) || same_letters(flag->help, word))
            return xprintf("did you mean --%s? --help lists the flags", flag->name);
    }
    return "--help lists the flags";
}

static Flags read_words(int argc, char *argv[], const Program *program) {
    given = program->defaults;
    opterr = 0; // the messages are ours
    optind = 0; // from the begin, the second time, too
    for (int c; (c = getopt_long(argc, argv, ":", program->options, NULL)) != -1;) {
        // Of -devices getopt has read one letter, and is not behind the word.
        const char letter[] = {'-', (char)optopt, '\0'}, *word = argv[optind - 1];
        if (c == '?' && optopt > 0 && optopt < 256 && strcmp(word, letter) != 0)
            word = argv[optind];
        if (c == ':') die_usage("--help lists the flags", "%s needs a value", word);
        if (c == '?') die_usage(hint_for(word, program), "no such flag: %s", word);
        if (program->flags[c - 256]->kind == FLAG_HELP) print_help(program);
        store(program->flags[c - 256], optarg);
    }
    // (Copied from a text that was typeset, a flag may begin with another dash.)
    if (optind < argc) die_usage(hint_for(argv[optind], program), "not a flag: '%s'", argv[optind]);
    return given;
}

// With what --quick stands for before all other words: so those win, wherever they stand.
static Flags read_quick(int argc, char *argv[], const Program *program) {
    char *means = xstrdup(program->defaults.quick_means); // lives as long as the program
    char **words = xcalloc((size_t)argc + strlen(means) + 2, sizeof *words), *word;
    int n = 0;
    words[n++] = argv[0];
    while ((word = strsep(&means, " "))) words[n++] = word;
    for (int i = 1; i < argc; i++) words[n++] = argv[i];
    Flags flags = read_words(n, words, program);
    free(words);
    return flags;
}

Flags parse_flags(int argc, char *argv[], const char *about, const char *names, Flags defaults) {
    Program program = {.path = argv[0], .about = about, .names = names, .defaults = defaults};
    set_program_name(argv[0]);
    setvbuf(stdout, NULL, _IOLBF, 0); // a line is seen when it is printed, in a pipe too
    add_flags(&program);
    Flags flags = read_words(argc, argv, &program);
    if (flags.quick && flags.full) die_usage("give one of them", "--quick and --full");
    if (flags.quick && defaults.quick_means) flags = read_quick(argc, argv, &program);
    check_number_of_devices(&flags);
    catch_interrupts();
    double memory = memory_limit(&flags);
    open_machines(&flags);
    devices_limit_memory(memory);
    predict_enable(flags.predict);
    return flags;
}

// ---- what a quick run leaves out ---------------------------------------------------------------

// "3 epochs", "1 epoch", "batch size 64"
static char *counted(const Flag *flag) {
    char *value = value_text(flag), *name = xstrdup(flag->name);
    const char *counts = flag->counts ? flag->counts : "";
    int length = (int)strlen(counts) - (strcmp(value, "1") == 0); // without its s
    for (char *at = name; (at = strchr(at, '-'));) *at = ' ';
    char *text =
        flag->counts ? xprintf("%s %.*s", value, length, counts) : xprintf("%s %s", name, value);
    free(value);
    free(name);
    return text;
}

// Makes it longer: "a", then "a, b"
static void join(char **list, char *text) {
    char *longer = *list ? xprintf("%s, %s", *list, text) : xstrdup(text);
    free(*list);
    free(text);
    *list = longer;
}

void say_quick_flags(const Flags *flags, const Flags *full) {
    char *now = NULL, *otherwise = NULL;
    for (int i = 0; i < NUM_FLAGS && flags->quick_means; i++) {
        char *word = xprintf("--%s", table[i].name);
        if (is_listed(flags->quick_means, word)) {
            given = *flags;
            join(&now, counted(&table[i]));
            given = *full;
            join(&otherwise, value_text(&table[i]));
        }
        free(word);
    }
    if (now)
        say("quick: %s (full run: %s)", now, otherwise);
    else
        say("quick: this run is short anyway, so nothing is left out");
    free(now);
    free(otherwise);
}
