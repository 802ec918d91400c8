// flags.c: one table of flags gives the parser and the text of --help, so that neither can forget
// one.
#include "flags.h"
#include "common/base/error.h"
#include "interrupt.h"

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
    .out = "plots",
};

typedef enum { INTEGER, SEED, REAL, TEXT, CHOICE, BACKEND, SWITCH_ON, SWITCH_OFF, HELP } Kind;

typedef struct Flag {
    const char *name, *argument, *help;
    Kind kind;
    size_t offset;       // in Flags
    long least, most;    // of an INTEGER
    const char *choices; // of a CHOICE: "star|sharded|ring|tree"
} Flag;

#define AT(member) offsetof(Flags, member)
static const Flag table[] = {
    {"devices", "K", "use K devices", INTEGER, AT(devices), 1, MAX_DEVICES, NULL},
    {"backend", "B", "auto (GPUs if there are any), cpu or cuda", BACKEND, AT(backend), 0, 0, NULL},
    {"threads", "T", "cores that the CPU devices share", INTEGER, AT(threads), 1, 1024, NULL},
    {"quick", NULL, "few images and epochs, for a machine without a GPU", SWITCH_ON, AT(quick), 0,
     0, NULL},
    {"full", NULL, "all images and epochs, on any machine", SWITCH_ON, AT(full), 0, 0, NULL},
    {"batch-size", "N", "images in a minibatch", INTEGER, AT(batch_size), 1, 1 << 20, NULL},
    {"lr", "X", "learning rate", REAL, AT(lr), 0, 0, NULL},
    {"epochs", "N", "passes over the training set", INTEGER, AT(epochs), 1, 1000000, NULL},
    {"seed", "N", "start of all random numbers", SEED, AT(seed), 0, 0, NULL},
    {"train-size", "N", "train on the first N images only", INTEGER, AT(train_size), 1, INT_MAX,
     NULL},
    {"test-size", "N", "evaluate on the first N test images only", INTEGER, AT(test_size), 1,
     INT_MAX, NULL},
    {"steps", "N", "stop each run after N minibatches", INTEGER, AT(steps), 0, INT_MAX, NULL},
    {"no-shuffle", NULL, "take the images in the order of the file", SWITCH_OFF, AT(shuffle), 0, 0,
     NULL},
    {"allreduce", "A", "how gradients are summed: star, sharded, ring or tree", CHOICE,
     AT(allreduce), 0, 0, "star|sharded|ring|tree"},
    {"graph", "G", "GPUs launch a step as a whole: on or off", CHOICE, AT(graph), 0, 0, "on|off"},
    {"bn", "M", "batch norm's statistics: local, rank0, averaged or sync", CHOICE, AT(bn), 0, 0,
     "local|rank0|averaged|sync"},
    {"data", "DIR", "folder of the Fashion-MNIST files", TEXT, AT(data), 0, 0, NULL},
    {"load", "F", "start from these parameters (safetensors)", TEXT, AT(load), 0, 0, NULL},
    {"save", "F", "write the parameters of the last run (safetensors)", TEXT, AT(save), 0, 0, NULL},
    {"checkpoint", "F", "write after each epoch all that is needed to go on", TEXT, AT(checkpoint),
     0, 0, NULL},
    {"resume", "F", "go on from a checkpoint; give the other flags as then", TEXT, AT(resume), 0, 0,
     NULL},
    {"log-loss", "F", "write the loss of each minibatch (CSV step,loss; each run from step 1)",
     TEXT, AT(log_loss), 0, 0, NULL},
    {"csv", "F", "write the curves (CSV)", TEXT, AT(csv), 0, 0, NULL},
    {"out", "DIR", "folder for curves and pictures", TEXT, AT(out), 0, 0, NULL},
    {"live", NULL, "show the curves while training", SWITCH_ON, AT(live), 0, 0, NULL},
    {"check", NULL, "check the solution on little data, and stop", SWITCH_ON, AT(check), 0, 0,
     NULL},
    {"help", NULL, "print this and stop", HELP, 0, 0, 0, NULL},
};
enum { NUM_FLAGS = sizeof table / sizeof table[0] };

// What --help says of a value that the program chooses when none is given.
static const char *when_not_given(const Flag *flag) {
    static const struct {
        const char *name, *text;
    } texts[] = {
        {"devices", "as said above"},
        {"threads", "all"},
        {"train-size", "all"},
        {"steps", "no limit"},
        {"data", "FASHION_MNIST_DIR, or the system's"},
        {"csv", "DIR/PROGRAM.csv"},
        {"load", "a new start"},
        {"save", "no"},
        {"log-loss", "no"},
        {"batch-size", "the run's own"},
        {"epochs", "the run's own"},
        {"lr", "the run's own"},
        {"test-size", "all"},
        {"checkpoint", "no"},
        {"resume", "no"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (strcmp(flag->name, texts[i].name) == 0) return texts[i].text;
    return "";
}

static void print_default(const Flag *flag, const Flags *defaults) {
    const void *value = (const char *)defaults + flag->offset;
    switch (flag->kind) {
    case INTEGER:
        if (*(const int *)value > 0)
            printf(" [%d]", *(const int *)value);
        else
            printf(" [%s]", when_not_given(flag));
        break;
    case SEED:
        printf(" [%llu]", (unsigned long long)*(const uint64_t *)value);
        break;
    case REAL:
        if (*(const float *)value >= 0)
            printf(" [%g]", (double)*(const float *)value);
        else
            printf(" [%s]", when_not_given(flag));
        break;
    case CHOICE:
        printf(" [%s]", *(char *const *)value);
        break;
    case TEXT:
        printf(" [%s]", *(char *const *)value ? *(char *const *)value : when_not_given(flag));
        break;
    case BACKEND:
        printf(" [auto]");
        break;
    case SWITCH_ON:
    case SWITCH_OFF:
        printf(" [no]");
        break;
    case HELP:
        break;
    }
}

// Whether a program that has these flags ("devices lr epochs") has this one.
static bool is_listed(const char *names, const Flag *flag) {
    size_t length = strlen(flag->name);
    for (const char *at = names; (at = strstr(at, flag->name)); at += length)
        if ((at == names || at[-1] == ' ') && (at[length] == ' ' || !at[length])) return true;
    return false;
}

static bool has_flag(const char *names, const Flag *flag) {
    return flag->kind == HELP || is_listed("backend threads out", flag) || is_listed(names, flag);
}

static _Noreturn void print_help(const char *about, const char *names, const Flags *defaults) {
    printf("usage: %s [flags]\n\n%s\n\n", program_name(), about);
    for (int i = 0; i < NUM_FLAGS; i++) {
        if (!has_flag(names, &table[i])) continue;
        char left[40];
        snprintf(left, sizeof left, "--%s %s", table[i].name,
                 table[i].argument ? table[i].argument : "");
        printf("  %-16s %s", left, table[i].help);
        print_default(&table[i], defaults);
        putchar('\n');
    }
    exit(EXIT_SUCCESS);
}

// ---- values ----------------------------------------------------------------------------------

static int parse_integer(const Flag *flag, const char *text) {
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (end == text || *end || errno || value < flag->least || value > flag->most)
        die_usage(flag->most == INT_MAX
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
    static const char *const names[] = {"auto", "cpu", "cuda"};
    for (int i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0) return (BackendChoice)i;
    die_usage("auto, cpu or cuda", "--%s: not a possible value: '%s'", flag->name, text);
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
    void *value = (char *)flags + flag->offset;
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

Flags parse_flags(int argc, char *argv[], const char *about, const char *names, Flags defaults) {
    set_program_name(argv[0]);
    setvbuf(stdout, NULL, _IOLBF, 0); // a line is seen when it is printed, in a pipe too
    struct option options[NUM_FLAGS + 1] = {0};
    int num_options = 0;
    for (int i = 0; i < NUM_FLAGS; i++)
        if (has_flag(names, &table[i]))
            options[num_options++] = (struct option){
                table[i].name, table[i].argument ? required_argument : no_argument, NULL, i + 256};
    Flags flags = defaults;
    opterr = 0; // the messages are ours
    for (int c; (c = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
        // Of letters that are no flags, as in -xy, getopt has the one; of words, argv has it.
        const char letter[] = {'-', (char)optopt, '\0'};
        const char *word = c == '?' && optopt > 0 && optopt < 256 ? letter : argv[optind - 1];
        if (c == ':') die_usage("--help lists the flags", "%s needs a value", word);
        if (c == '?') die_usage("--help lists the flags", "no such flag: %s", word);
        if (table[c - 256].kind == HELP) print_help(about, names, &defaults);
        store(&table[c - 256], optarg, &flags);
    }
    if (optind < argc) die_usage("--help lists the flags", "not a flag: '%s'", argv[optind]);
    catch_interrupts();
    devices_init(flags.backend, flags.threads);
    return flags;
}
