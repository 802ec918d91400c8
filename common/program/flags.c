// flags.c: one table of flags gives the parser and the text of --help, so that neither can forget
// one.
#include "flags.h"
#include "common/base/error.h"
#include "common/base/number.h"
#include "common/device/machine_this.h"
#include "common/device/modelled_clock.h"
#include "interrupt.h"
#include "predict.h"
#include "say.h"

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

static const Flag table[] = {
    {.name = "devices",
     .argument = "K",
     .help = "use K devices",
     .kind = INTEGER,
     .at = offsetof(Flags, devices),
     .least = 1,
     .most = MAX_DEVICES,
     .otherwise = "as said above"},
    {.name = "backend",
     .argument = "B",
     .help = "auto (GPUs if there are any), cpu, cuda, or model: no values, only time",
     .kind = BACKEND,
     .at = offsetof(Flags, backend)},
    {.name = "threads",
     .argument = "T",
     .help = "cores that the CPU devices share",
     .kind = INTEGER,
     .at = offsetof(Flags, threads),
     .least = 1,
     .most = 1024,
     .otherwise = "all"},
    {.name = "threads-per-device",
     .argument = "T",
     .help = "cores of each CPU device: K devices have K times T",
     .kind = INTEGER,
     .at = offsetof(Flags, threads_per_device),
     .least = 1,
     .most = 1024,
     .otherwise = "its share"},
    {.name = "machine",
     .argument = "M",
     .help = "tell the time of this one, too: a name, a file, this, list, print:NAME or none",
     .kind = TEXT,
     .at = offsetof(Flags, machine)},
    {.name = "tf32",
     .help = "GPUs keep 10 bits of each factor in products of matrices: faster",
     .kind = SWITCH_ON,
     .at = offsetof(Flags, tf32)},
    {.name = "quick",
     .help = "a short run that still shows its point",
     .kind = SWITCH_ON,
     .at = offsetof(Flags, quick)},
    {.name = "full",
     .help = "all images and epochs, on any machine",
     .kind = SWITCH_ON,
     .at = offsetof(Flags, full)},
    {.name = "batch-size",
     .argument = "N",
     .help = "images in a minibatch",
     .kind = INTEGER,
     .at = offsetof(Flags, batch_size),
     .least = 1,
     .most = 1 << 20,
     .otherwise = "the run's own"},
    {.name = "lr",
     .argument = "X",
     .help = "learning rate",
     .kind = REAL,
     .at = offsetof(Flags, lr),
     .otherwise = "the run's own"},
    {.name = "epochs",
     .argument = "N",
     .help = "passes over the training set",
     .kind = INTEGER,
     .at = offsetof(Flags, epochs),
     .least = 1,
     .most = 1000000,
     .otherwise = "the run's own",
     .counts = "epochs"},
    {.name = "seed",
     .argument = "N",
     .help = "start of all random numbers",
     .kind = SEED,
     .at = offsetof(Flags, seed)},
    {.name = "seeds",
     .argument = "N",
     .help = "train from N seeds each",
     .kind = INTEGER,
     .at = offsetof(Flags, seeds),
     .least = 1,
     .most = MOST_SEEDS,
     .counts = "seeds"},
    {.name = "rounds",
     .argument = "N",
     .help = "measure each time N times",
     .kind = INTEGER,
     .at = offsetof(Flags, rounds),
     .least = 1,
     .most = MOST_TIMED,
     .counts = "rounds"},
    {.name = "train-size",
     .argument = "N",
     .help = "train on the first N images only",
     .kind = INTEGER,
     .at = offsetof(Flags, train_size),
     .least = 1,
     .most = INT_MAX,
     .otherwise = "all",
     .counts = "training images"},
    {.name = "test-size",
     .argument = "N",
     .help = "evaluate on the first N test images only",
     .kind = INTEGER,
     .at = offsetof(Flags, test_size),
     .least = 1,
     .most = INT_MAX,
     .otherwise = "all",
     .counts = "test images"},
    {.name = "steps",
     .argument = "N",
     .help = "stop each run after N minibatches",
     .kind = INTEGER,
     .at = offsetof(Flags, steps),
     .least = 0,
     .most = INT_MAX,
     .otherwise = "no limit",
     .counts = "steps"},
    {.name = "no-shuffle",
     .help = "take the images in the order of the file",
     .kind = SWITCH_OFF,
     .at = offsetof(Flags, shuffle)},
    {.name = "allreduce",
     .argument = "A",
     .help = "how gradients are summed: star, sharded, ring or tree",
     .kind = CHOICE,
     .at = offsetof(Flags, allreduce),
     .choices = "star|sharded|ring|tree"},
    {.name = "graph",
     .argument = "G",
     .help = "GPUs launch a step as a whole: on or off",
     .kind = CHOICE,
     .at = offsetof(Flags, graph),
     .choices = "on|off"},
    {.name = "bn",
     .argument = "M",
     .help = "batch norm's statistics: local, rank0, averaged or sync",
     .kind = CHOICE,
     .at = offsetof(Flags, bn),
     .choices = "local|rank0|averaged|sync"},
    {.name = "part",
     .argument = "P",
     .help = "run only this part: splitting, bubble or model",
     .kind = CHOICE,
     .at = offsetof(Flags, part),
     .choices = "all|splitting|bubble|model"},
    {.name = "memory",
     .argument = "MB",
     .help = "memory of each device in the part about a network that is too large",
     .kind = INTEGER,
     .at = offsetof(Flags, memory),
     .least = 1,
     .most = INT_MAX,
     .otherwise = "too little for a replica"},
    {.name = "workers",
     .argument = "W",
     .help = "use W workers",
     .kind = INTEGER,
     .at = offsetof(Flags, workers),
     .least = 1,
     .most = 32,
     .otherwise = "as said above"},
    {.name = "servers",
     .argument = "S",
     .help = "use S parameter servers",
     .kind = INTEGER,
     .at = offsetof(Flags, servers),
     .least = 1,
     .most = 32,
     .otherwise = "as said above"},
    {.name = "staleness",
     .argument = "S",
     .help = "train in one way only: nobody is more than S steps ahead; 0: synchronous, inf: "
             "asynchronous",
     .kind = INTEGER,
     .at = offsetof(Flags, staleness),
     .least = 0,
     .most = 1 << 30,
     .unbounded = true,
     .otherwise = "compare several"},
    {.name = "backup",
     .argument = "B",
     .help = "train in one way only: each update takes all pushes but the last B",
     .kind = INTEGER,
     .at = offsetof(Flags, backup),
     .least = 0,
     .most = 31,
     .otherwise = "compare several"},
    {.name = "slow",
     .argument = "W=X",
     .help = "worker W takes X times as long",
     .kind = TEXT,
     .at = offsetof(Flags, slow),
     .otherwise = "the last one takes 4 times"},
    {.name = "dies",
     .argument = "W=N",
     .help = "worker W dies in its step N, from 0; trains in one way, asynchronously if no other",
     .kind = TEXT,
     .at = offsetof(Flags, dies),
     .otherwise = "nobody"},
    {.name = "schedule",
     .argument = "F",
     .help = "one way, asynchronously if no other: replay the events in F, or write a new F",
     .kind = TEXT,
     .at = offsetof(Flags, schedule),
     .otherwise = "no"},
    {.name = "staleness-lr",
     .help = "a push that is T > 1 updates old counts 1/T",
     .kind = SWITCH_ON,
     .at = offsetof(Flags, staleness_lr)},
    {.name = "real",
     .help = "train asynchronously for real: workers push when they are ready",
     .kind = SWITCH_ON,
     .at = offsetof(Flags, real)},
    {.name = "data",
     .argument = "DIR",
     .help = "folder of the Fashion-MNIST files",
     .kind = TEXT,
     .at = offsetof(Flags, data),
     .otherwise = "FASHION_MNIST_DIR, or the system's"},
    {.name = "load",
     .argument = "F",
     .help = "start from these parameters (safetensors)",
     .kind = TEXT,
     .at = offsetof(Flags, load),
     .otherwise = "a new start"},
    {.name = "save",
     .argument = "F",
     .help = "write the parameters of the last run (safetensors)",
     .kind = TEXT,
     .at = offsetof(Flags, save),
     .otherwise = "no"},
    {.name = "checkpoint",
     .argument = "F",
     .help = "write after each epoch all that is needed to go on",
     .kind = TEXT,
     .at = offsetof(Flags, checkpoint),
     .otherwise = "no"},
    {.name = "resume",
     .argument = "F",
     .help = "go on from a checkpoint, and write to it; give the other flags as then",
     .kind = TEXT,
     .at = offsetof(Flags, resume),
     .otherwise = "no"},
    {.name = "log-loss",
     .argument = "F",
     .help = "write the loss of each minibatch (CSV step,loss; each run from step 1)",
     .kind = TEXT,
     .at = offsetof(Flags, log_loss),
     .otherwise = "no"},
    {.name = "csv",
     .argument = "F",
     .help = "write the curves (CSV)",
     .kind = TEXT,
     .at = offsetof(Flags, csv),
     .otherwise = "DIR/PROGRAM.csv"},
    {.name = "out",
     .argument = "DIR",
     .help = "folder for curves and pictures",
     .kind = TEXT,
     .at = offsetof(Flags, out)},
    {.name = "trace",
     .argument = "F",
     .help = "write what each device did, and when (JSON, for ui.perfetto.dev)",
     .kind = TEXT,
     .at = offsetof(Flags, trace),
     .otherwise = "no"},
    {.name = "train",
     .help = "the training alone, without the tables before and after it",
     .kind = SWITCH_ON,
     .at = offsetof(Flags, train)},
    {.name = "network",
     .argument = "N",
     .help = "what is trained: lenet or resnet18",
     .kind = CHOICE,
     .at = offsetof(Flags, network),
     .choices = "lenet|resnet18"},
    {.name = "rule",
     .argument = "R",
     .help = "the learning rate of many ranks: none, sqrt, linear or warmup",
     .kind = CHOICE,
     .at = offsetof(Flags, rule),
     .choices = "none|sqrt|linear|warmup"},
    {.name = "collective",
     .argument = "C",
     .help = "sums over ranks: star, sharded, ring, tree, mpi, nccl; auto: nccl, else sharded",
     .kind = CHOICE,
     .at = offsetof(Flags, collective),
     .choices = "auto|star|sharded|ring|tree|mpi|nccl"},
    {.name = "exchange",
     .argument = "E",
     .help = "how gradients travel: tensors, fusion or buckets",
     .kind = CHOICE,
     .at = offsetof(Flags, exchange),
     .choices = "tensors|fusion|buckets"},
    {.name = "bucket",
     .argument = "KB",
     .help = "size of a bucket",
     .kind = INTEGER,
     .at = offsetof(Flags, bucket),
     .least = 1,
     .most = 1 << 20,
     .otherwise = "PyTorch's"},
    {.name = "fusion",
     .argument = "KB",
     .help = "size of the buffer in which gradients are fused",
     .kind = INTEGER,
     .at = offsetof(Flags, fusion),
     .least = 1,
     .most = 1 << 20,
     .otherwise = "Horovod's"},
    {.name = "cycle",
     .argument = "MS",
     .help = "milliseconds between two looks at what can be fused",
     .kind = REAL,
     .at = offsetof(Flags, cycle)},
    {.name = "hierarchical",
     .help = "sums are made inside each host first, then across",
     .kind = SWITCH_ON,
     .at = offsetof(Flags, hierarchical)},
    {.name = "devices-per-rank",
     .argument = "D",
     .help = "each rank has D devices",
     .kind = INTEGER,
     .at = offsetof(Flags, ranks_devices),
     .least = 1,
     .most = 16,
     .otherwise = "1"},
    {.name = "ranks-per-host",
     .argument = "R",
     .help = "as if each R ranks were on a host of their own",
     .kind = INTEGER,
     .at = offsetof(Flags, ranks_per_host),
     .least = 1,
     .most = 1 << 20,
     .otherwise = "as it is"},
    {.name = "timeout",
     .argument = "S",
     .help = "seconds until a rank that does not come is given up",
     .kind = REAL,
     .at = offsetof(Flags, timeout)},
    {.name = "plant",
     .argument = "F",
     .help = "a fault, such as stop:2@5, rank 2 in step 5: kill, stop, exit, memory or nan",
     .kind = TEXT,
     .at = offsetof(Flags, plant),
     .otherwise = "no"},
    {.name = "timeline",
     .argument = "F",
     .help = "draw it (PNG, and SVG beside it): step 2 of the last training, or all of it",
     .kind = TEXT,
     .at = offsetof(Flags, timeline),
     .otherwise = "no"},
    {.name = "predict",
     .help = "ask what you expect before the tables that matter, on a terminal",
     .kind = SWITCH_ON,
     .at = offsetof(Flags, predict)},
    {.name = "experiment",
     .help = "the chapter's experiment, instead of its training",
     .kind = SWITCH_ON,
     .at = offsetof(Flags, experiment)},
    {.name = "live",
     .help = "show the curves while training",
     .kind = SWITCH_ON,
     .at = offsetof(Flags, live)},
    {.name = "check",
     .help = "check the solution on little data, and stop",
     .kind = SWITCH_ON,
     .at = offsetof(Flags, check)},
    {.name = "help", .help = "print this and stop", .kind = HELP, .at = 0},
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

static _Noreturn void print_help(const char *about, const char *names, const Flags *defaults) {
    printf("usage: %s [flags]\n\n", program_name());
    say("%s\n", about);
    for (int i = 0; i < NUM_FLAGS; i++) {
        if (!has_flag(names, &table[i])) continue;
        char left[40], *value = value_text(&table[i], defaults);
        snprintf(left, sizeof left, "--%s %s", table[i].name,
                 table[i].argument ? table[i].argument : "");
        printf("  %-22s %s", left, table[i].help);
        if (table[i].at == offsetof(Flags, quick) && defaults->quick_means)
            printf(": as %s, if not given", defaults->quick_means);
        printf(*value ? " [%s]\n" : "\n", value);
        free(value);
    }
    exit(EXIT_SUCCESS);
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
        exit(EXIT_SUCCESS);
    }
    if (strncmp(flags->machine, PRINT, strlen(PRINT)) == 0) {
        print_machine(flags, flags->machine + strlen(PRINT));
        exit(EXIT_SUCCESS);
    }
    if (strcmp(flags->machine, "none") != 0) modelled_clock_start(find_machine(flags));
    devices_init(flags->backend, flags->threads);
    set_threads_per_device(flags->threads_per_device);
    allow_tf32(flags->tf32);
    if (flags->tf32 && num_gpus() == 0 && flags->backend != BACKEND_MODEL)
        warn("--tf32 changes nothing here: it is for GPUs");
}

// ---- the command line ------------------------------------------------------------------------

typedef struct Program {
    const char *about, *names;
    Flags defaults;
    struct option options[NUM_FLAGS + 1];
} Program;

static void list_options(Program *program) {
    int n = 0;
    for (int i = 0; i < NUM_FLAGS; i++)
        if (has_flag(program->names, &table[i]))
            program->options[n++] = (struct option){
                table[i].name, table[i].argument ? required_argument : no_argument, NULL, i + 256};
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
        if (c == '?') die_usage("--help lists the flags", "no such flag: %s", word);
        if (table[c - 256].kind == HELP)
            print_help(program->about, program->names, &program->defaults);
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
    Program program = {.about = about, .names = names, .defaults = defaults};
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
