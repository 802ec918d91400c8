// flags.c: one table of flags gives the parser and the text of --help, so that neither can forget
// one.
#include "flags.h"
#include "common/base/error.h"
#include "common/base/number.h"
#include "common/model/machine_this.h"
#include "common/model/modelled_clock.h"
#include "interrupt.h"
#include "predict.h"
#include "say.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
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
    .graph = "on",
    .bn = "averaged",
    .part = "all",
    .machine = "dgx-a100",
    .staleness = -1,
    .backup = -1,
    .collective = "auto",
    .exchange = "buckets",
    .cycle = 1,
    .network = "lenet",
    .rule = "linear",
    .timeout = 60,
    .out = "plots",
};

typedef enum { INTEGER, SEED, REAL, TEXT, CHOICE, BACKEND, SWITCH_ON, SWITCH_OFF, HELP } Kind;

typedef struct Flag {
    const char *name, *argument, *help;
    Kind kind;
    size_t at;             // in Flags
    long least, most;      // of an INTEGER,
    bool unbounded;        // for which "inf" means the most
    const char *choices;   // of a CHOICE: "star|sharded|ring|tree"
    const char *otherwise; // what --help says of a value that the program chooses by itself
    const char *counts;    // what an INTEGER is a number of: "epochs"
} Flag;

// What a kind of flag has besides, such as .least, comes last.
#define FLAG(name_, kind_, field, argument_, help_, ...)                                           \
    {                                                                                              \
        .name = name_, .kind = kind_, .at = offsetof(Flags, field), .argument = argument_,         \
        .help = help_, __VA_ARGS__                                                                 \
    }
static const Flag table[] = {
    FLAG("devices", INTEGER, devices, "K", "use K devices", .least = 1, .most = MAX_DEVICES,
         .otherwise = "as said above"),
    FLAG("backend", BACKEND, backend, "B",
         "auto (GPUs if there are any), cpu, cuda, or model: no values, only time"),
    FLAG("threads", INTEGER, threads, "T", "cores that the CPU devices share", .least = 1,
         .most = 1024, .otherwise = "all"),
    FLAG("threads-per-device", INTEGER, threads_per_device, "T",
         "cores of each CPU device: K devices have K times T", .least = 1, .most = 1024,
         .otherwise = "its share"),
    FLAG("machine", TEXT, machine, "M",
         "tell the time of this one, too: a name, a file, this, list, print:NAME or none"),
    FLAG("tf32", SWITCH_ON, tf32, NULL,
         "GPUs keep 10 bits of each factor in products of matrices: faster"),
    FLAG("quick", SWITCH_ON, quick, NULL, "a short run that still shows its point"),
    FLAG("full", SWITCH_ON, full, NULL, "all images and epochs, on any machine"),
    FLAG("batch-size", INTEGER, batch_size, "N", "images in a minibatch", .least = 1,
         .most = 1 << 20, .otherwise = "the run's own"),
    FLAG("lr", REAL, lr, "X", "learning rate", .otherwise = "the run's own"),
    FLAG("epochs", INTEGER, epochs, "N", "passes over the training set", .least = 1,
         .most = 1000000, .otherwise = "the run's own", .counts = "epochs"),
    FLAG("seed", SEED, seed, "N", "start of all random numbers"),
    FLAG("seeds", INTEGER, seeds, "N", "train from N seeds each", .least = 1, .most = MOST_SEEDS,
         .counts = "seeds"),
    FLAG("rounds", INTEGER, rounds, "N", "measure each time N times", .least = 1,
         .most = MOST_TIMED, .counts = "rounds"),
    FLAG("train-size", INTEGER, train_size, "N", "train on the first N images only", .least = 1,
         .most = INT_MAX, .otherwise = "all", .counts = "training images"),
    FLAG("test-size", INTEGER, test_size, "N", "evaluate on the first N test images only",
         .least = 1, .most = INT_MAX, .otherwise = "all", .counts = "test images"),
    FLAG("steps", INTEGER, steps, "N", "stop each run after N minibatches", .least = 0,
         .most = INT_MAX, .otherwise = "no limit", .counts = "steps"),
    FLAG("no-shuffle", SWITCH_OFF, shuffle, NULL, "take the images in the order of the file"),
    FLAG("allreduce", CHOICE, allreduce, "A",
         "how gradients are summed: star, sharded, ring or tree",
         .choices = "star|sharded|ring|tree"),
    FLAG("graph", CHOICE, graph, "G", "GPUs launch a step as a whole: on or off",
         .choices = "on|off"),
    FLAG("bn", CHOICE, bn, "M", "batch norm's statistics: local, rank0, averaged or sync",
         .choices = "local|rank0|averaged|sync"),
    FLAG("part", CHOICE, part, "P", "run only this part: splitting, bubble or model",
         .choices = "all|splitting|bubble|model"),
    FLAG("memory", INTEGER, memory, "MB",
         "memory of each device in the part about a network that is too large", .least = 1,
         .most = INT_MAX, .otherwise = "too little for a replica"),
    FLAG("workers", INTEGER, workers, "W", "use W workers", .least = 1, .most = 32,
         .otherwise = "as said above"),
    FLAG("servers", INTEGER, servers, "S", "use S parameter servers", .least = 1, .most = 32,
         .otherwise = "as said above"),
    FLAG("staleness", INTEGER, staleness, "S",
         "train in one way only: nobody is more than S steps ahead; 0: synchronous, inf: "
         "asynchronous",
         .least = 0, .most = 1 << 30, .unbounded = true, .otherwise = "compare several"),
    FLAG("backup", INTEGER, backup, "B",
         "train in one way only: each update takes all pushes but the last B", .least = 0,
         .most = 31, .otherwise = "compare several"),
    FLAG("slow", TEXT, slow, "W=X", "worker W takes X times as long",
         .otherwise = "the last one takes 4 times"),
    FLAG("dies", TEXT, dies, "W=N",
         "worker W dies in its step N, from 0; trains in one way, asynchronously if no other",
         .otherwise = "nobody"),
    FLAG("schedule", TEXT, schedule, "F",
         "one way, asynchronously if no other: replay the events in F, or write a new F",
         .otherwise = "no"),
    FLAG("staleness-lr", SWITCH_ON, staleness_lr, NULL,
         "a push that is T > 1 updates old counts 1/T"),
    FLAG("real", SWITCH_ON, real, NULL,
         "train asynchronously for real: workers push when they are ready"),
    FLAG("data", TEXT, data, "DIR", "folder of the Fashion-MNIST files",
         .otherwise = "FASHION_MNIST_DIR, or the system's"),
    FLAG("load", TEXT, load, "F", "start from these parameters (safetensors)",
         .otherwise = "a new start"),
    FLAG("save", TEXT, save, "F", "write the parameters of the last run (safetensors)",
         .otherwise = "no"),
    FLAG("checkpoint", TEXT, checkpoint, "F", "write after each epoch all that is needed to go on",
         .otherwise = "no"),
    FLAG("resume", TEXT, resume, "F",
         "go on from a checkpoint, and write to it; give the other flags as then",
         .otherwise = "no"),
    FLAG("log-loss", TEXT, log_loss, "F",
         "write the loss of each minibatch (CSV step,loss; each run from step 1)",
         .otherwise = "no"),
    FLAG("csv", TEXT, csv, "F", "write the curves (CSV)", .otherwise = "DIR/PROGRAM.csv"),
    FLAG("out", TEXT, out, "DIR", "folder for curves and pictures"),
    FLAG("trace", TEXT, trace, "F",
         "write what each device did, and when (JSON, for ui.perfetto.dev)", .otherwise = "no"),
    FLAG("train", SWITCH_ON, train, NULL,
         "the training alone, without the tables before and after it"),
    FLAG("network", CHOICE, network, "N", "what is trained: lenet or resnet18",
         .choices = "lenet|resnet18"),
    FLAG("rule", CHOICE, rule, "R", "the learning rate of many ranks: none, sqrt, linear or warmup",
         .choices = "none|sqrt|linear|warmup"),
    FLAG("collective", CHOICE, collective, "C",
         "sums over ranks: star, sharded, ring, tree, mpi, nccl; auto: nccl, else sharded",
         .choices = "auto|star|sharded|ring|tree|mpi|nccl"),
    FLAG("exchange", CHOICE, exchange, "E", "how gradients travel: tensors, fusion or buckets",
         .choices = "tensors|fusion|buckets"),
    FLAG("bucket", INTEGER, bucket, "KB", "size of a bucket", .least = 1, .most = 1 << 20,
         .otherwise = "PyTorch's"),
    FLAG("fusion", INTEGER, fusion, "KB", "size of the buffer in which gradients are fused",
         .least = 1, .most = 1 << 20, .otherwise = "Horovod's"),
    FLAG("cycle", REAL, cycle, "MS", "milliseconds between two looks at what can be fused"),
    FLAG("hierarchical", SWITCH_ON, hierarchical, NULL,
         "sums are made inside each host first, then across"),
    FLAG("devices-per-rank", INTEGER, ranks_devices, "D", "each rank has D devices", .least = 1,
         .most = 16, .otherwise = "1"),
    FLAG("ranks-per-host", INTEGER, ranks_per_host, "R",
         "as if each R ranks were on a host of their own", .least = 1, .most = 1 << 20,
         .otherwise = "as it is"),
    FLAG("timeout", REAL, timeout, "S", "seconds until a rank that does not come is given up"),
    FLAG("plant", TEXT, plant, "F",
         "a fault, such as stop:2@5, rank 2 in step 5: kill, stop, exit, memory or nan",
         .otherwise = "no"),
    FLAG("timeline", TEXT, timeline, "F",
         "draw it (PNG, and SVG beside it): step 2 of the last training, or all of it",
         .otherwise = "no"),
    FLAG("predict", SWITCH_ON, predict, NULL,
         "ask what you expect before the tables that matter, on a terminal"),
    FLAG("experiment", SWITCH_ON, experiment, NULL,
         "the chapter's experiment, instead of its training"),
    FLAG("live", SWITCH_ON, live, NULL, "show the curves while training"),
    FLAG("check", SWITCH_ON, check, NULL, "check the solution on little data, and stop"),
    {.name = "help", .kind = HELP, .help = "print this and stop"},
};
enum { NUM_FLAGS = sizeof table / sizeof table[0] };

// As --help shows it; "": of a flag that has none. free() it.
static char *value_text(const Flag *flag, const Flags *flags) {
    const void *value = (const char *)flags + flag->at;
    switch (flag->kind) {
    case INTEGER:
        return *(const int *)value > 0 ? xprintf("%d", *(const int *)value)
                                       : xstrdup(flag->otherwise);
    case SEED:
        return xprintf("%llu", (unsigned long long)*(const uint64_t *)value);
    case REAL:
        return *(const float *)value >= 0 ? xprintf("%g", (double)*(const float *)value)
                                          : xstrdup(flag->otherwise);
    case CHOICE:
        return xstrdup(*(char *const *)value);
    case TEXT:
        return xstrdup(*(char *const *)value ? *(char *const *)value : flag->otherwise);
    case BACKEND:
        return xstrdup("auto");
    case SWITCH_ON:
    case SWITCH_OFF:
        return xstrdup("no");
    case HELP:
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
        "backend threads threads-per-device machine tf32 quick out trace timeline predict";
    return flag->kind == HELP || is_listed(all_have, flag->name) || is_listed(names, flag->name);
}

// ---- help ------------------------------------------------------------------------------------

typedef struct Program {
    const char *path, *about, *names;
    Flags defaults;
    struct option options[NUM_FLAGS + 1];
} Program;

static bool is_shown(const Program *program, const Flag *flag) {
    char *unused = xprintf("-%s", flag->name);
    bool shown = has_flag(program->names, flag) && !is_listed(program->names, unused);
    if (flag->at == offsetof(Flags, quick)) // whose run is quick anyway has nothing to leave out
        shown = program->defaults.quick_means || is_listed(program->names, flag->name);
    free(unused);
    return shown;
}

static void print_flag(const Flag *flag, const Flags *defaults) {
    char left[40], *value = value_text(flag, defaults);
    snprintf(left, sizeof left, "--%s %s", flag->name, flag->argument ? flag->argument : "");
    printf("  %-22s %s", left, flag->help);
    if (flag->at == offsetof(Flags, quick) && defaults->quick_means)
        printf(": as %s, if not given", defaults->quick_means);
    printf(*value ? " [%s]\n" : "\n", value);
    free(value);
}

static void print_flags(const Program *program, bool most_used) {
    static const char used_most[] =
        "check quick train devices workers epochs batch-size lr machine predict help";
    for (int i = 0; i < NUM_FLAGS; i++)
        if (is_shown(program, &table[i]) && is_listed(used_most, table[i].name) == most_used)
            print_flag(&table[i], &program->defaults);
}

// The first three that this program has.
static void print_examples(const Program *program) {
    static const char *const examples[] = {"check", "quick",   "devices 4",        "workers 8",
                                           "train", "predict", "machine dgx-h100", "epochs 3",
                                           "seed 1"};
    int left = 3;
    for (size_t e = 0; e < sizeof examples / sizeof *examples && left > 0; e++)
        for (int i = 0; i < NUM_FLAGS; i++)
            if (is_shown(program, &table[i]) && is_listed(examples[e], table[i].name)) {
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
    static const char *const names[] = {"auto", "cpu", "cuda", "model"};
    for (int i = 0; i < 4; i++)
        if (strcmp(text, names[i]) == 0) return (BackendChoice)i;
    die_usage("auto, cpu, cuda or model", "--%s: not a possible value: '%s'", flag->name, text);
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

static void store(const Flag *flag, const char *text, Flags *flags) {
    void *value = (char *)flags + flag->at;
    switch (flag->kind) {
    case INTEGER:
        *(int *)value = parse_integer(flag, text);
        break;
    case SEED:
        *(uint64_t *)value = parse_seed(flag, text);
        break;
    case REAL:
        *(float *)value = parse_real(flag, text);
        break;
    case TEXT:
        *(const char **)value = parse_text(flag, text);
        break;
    case CHOICE:
        *(const char **)value = parse_choice(flag, text);
        break;
    case BACKEND:
        *(BackendChoice *)value = parse_backend(flag, text);
        break;
    case SWITCH_ON:
        *(bool *)value = true;
        break;
    case SWITCH_OFF:
        *(bool *)value = false;
        break;
    case HELP:
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

// The text of the machine at hand. (What it measures are devices that compute.)
static char *measure_this(const Flags *flags, int devices) {
    BackendChoice model = BACKEND_MODEL;
    devices_init(flags->backend == model ? BACKEND_AUTO : flags->backend, flags->threads);
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

static void check_timeline(const Flags *flags) {
    size_t length = flags->timeline ? strlen(flags->timeline) : 0;
    if (length >= 4 && strcmp(flags->timeline + length - 4, ".svg") == 0)
        die_usage("give the name of the PNG, such as step.png: step.svg is written beside it",
                  "--timeline: not the name of a PNG: '%s'", flags->timeline);
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

// ---- the command line ------------------------------------------------------------------------

static void list_options(Program *program) {
    int n = 0;
    for (int i = 0; i < NUM_FLAGS; i++)
        if (has_flag(program->names, &table[i]))
            program->options[n++] = (struct option){
                table[i].name, table[i].argument ? required_argument : no_argument, NULL, i + 256};
}

// Whether a text and a word have the same letters, whatever stands between them.
static bool same_letters(const char *text, const char *word) {
    for (;; text++, word++) {
        while (*text && !isalpha((unsigned char)*text)) text++;
        while (*word && *word != '=' && !isalpha((unsigned char)*word)) word++;
        if (!*word || *word == '=') return !*text;
        if (tolower((unsigned char)*text) != tolower((unsigned char)*word)) return false;
    }
}

// --batch_size=64 is meant to be --batch-size, and --learning-rate the flag with that as its help.
static const char *hint_for(const char *word, const Program *program) {
    for (int i = 0; i < NUM_FLAGS && isalpha((unsigned char)word[2]); i++)
        if (has_flag(program->names, &table[i]) &&
            (same_letters(table[i].name, word) || same_letters(table[i].help, word)))
            return xprintf("did you mean --%s? --help lists the flags", table[i].name);
    return "--help lists the flags";
}

static Flags read_words(int argc, char *argv[], const Program *program) {
    Flags flags = program->defaults;
    opterr = 0; // the messages are ours
    optind = 0; // from the begin, the second time, too
    for (int c; (c = getopt_long(argc, argv, ":", program->options, NULL)) != -1;) {
        // Of letters that are no flags, as in -xy, getopt has the one; of words, argv has it.
        const char letter[] = {'-', (char)optopt, '\0'};
        const char *word = c == '?' && optopt > 0 && optopt < 256 ? letter : argv[optind - 1];
        if (c == ':') die_usage("--help lists the flags", "%s needs a value", word);
        if (c == '?') die_usage(hint_for(word, program), "no such flag: %s", word);
        if (table[c - 256].kind == HELP) print_help(program);
        store(&table[c - 256], optarg, &flags);
    }
    if (optind < argc) die_usage("--help lists the flags", "not a flag: '%s'", argv[optind]);
    return flags;
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
    list_options(&program);
    Flags flags = read_words(argc, argv, &program);
    if (flags.quick && flags.full) die_usage("give one of them", "--quick and --full");
    if (flags.quick && defaults.quick_means) flags = read_quick(argc, argv, &program);
    check_number_of_devices(&flags);
    check_timeline(&flags);
    catch_interrupts();
    open_machines(&flags);
    predict_enable(flags.predict);
    return flags;
}

// ---- what a quick run leaves out ---------------------------------------------------------------

// "3 epochs", "1 epoch", "batch size 64"
static char *counted(const Flag *flag, const Flags *flags) {
    char *value = value_text(flag, flags), *name = xstrdup(flag->name);
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
            join(&now, counted(&table[i], flags));
            join(&otherwise, value_text(&table[i], full));
        }
        free(word);
    }
    if (now)
        say("quick: %s (the full run: %s)", now, otherwise);
    else
        say("quick: this run is short anyway, so nothing is left out");
    free(now);
    free(otherwise);
}
