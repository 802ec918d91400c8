// flags.h: the command line. The flags that chapters share are here. Each program says which of
// them it has, and may add a table with more. To read them, call book_begin() (program.h), which
// calls parse_flags().
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "common/device/device.h"

typedef enum {
    FLAG_INTEGER, // int
    FLAG_SEED,    // uint64_t
    FLAG_REAL,    // float
    FLAG_TEXT,    // const char *, NULL if not given
    FLAG_CHOICE,  // const char *, one of .choices
    FLAG_BACKEND, // BackendChoice
    FLAG_ON,      // bool, which the flag makes true
    FLAG_OFF,     // bool, which the flag makes false
    FLAG_HELP
} FlagKind;

// {"bn", FLAG_CHOICE, &bn, "M", .standard = "local", .help = "batch norm's statistics",
// .choices = "local|sync"} is the flag --bn M. Its value goes to the variable bn.
typedef struct Flag {
    const char *name;
    FlagKind kind;
    void *value;
    const char *argument, *help;
    const char *standard;  // its default, as on the command line; NULL: what the variable has
    long least, most;      // of an integer
    bool unbounded;        // "inf" means `most`
    const char *counts;    // what the integer counts: "epochs"
    const char *choices;   // "star|sharded|ring|tree"
    const char *otherwise; // what --help shows if there is no default
} Flag;

// The flags that chapters share: batch_size is the value of --batch-size. A text without a default
// is NULL until it is given.
typedef struct Flags {
    int devices; // 0: the chapter chooses
    BackendChoice backend;
    int threads;            // 0: all cores
    int threads_per_device; // 0: they share the cores
    const char *machine;
    const char *memory; // see devices_limit_memory()
    bool tf32;          // see allow_tf32()
    int batch_size, epochs;
    float lr;
    uint64_t seed;
    int train_size, test_size; // 0: all images
    int steps;                 // -1: no limit
    bool shuffle;              // off with --no-shuffle
    bool live, quick;
    const char *allreduce; // see chapter 2
    const char *checkpoint, *resume, *load, *save, *log_loss, *trace, *timeline;
    const char *data; // NULL: see fashion_mnist_open()
    const char *csv;  // NULL: DIR/PROGRAM.csv
    const char *out;
    bool predict; // see predict.h
} Flags;

// The folder of --out, unless another is given.
#define DEFAULT_OUT "plots"

// What else a program says about itself.
typedef struct Program {
    const Flag *own;         // the flags that it adds, {0} last; NULL: none
    const char *quick_means; // what --quick stands for, "--epochs 3 --seeds 4"; NULL: see below
    const char *next;        // what to run after this program: "make run-05"
    bool of_ranks;           // several processes may run it together
} Program;

// Reads the command line of a program that has the flags `names`, the flags of `program.own`, and
// those that all programs have (`all_have` in flags.c). In "devices=2 lr epochs=", --devices has
// the default 2, --lr the book's, and --epochs none. Values are given as --lr 0.1 or --lr=0.1. A
// wrong flag or value ends the program with status 2 before it does anything. So does --backend
// model with a flag that needs values (`about_values`).
//
// --help prints `about`, the flags that most people use, three examples and the other flags. Each
// has its default beside it, or the value given earlier on the command line. Then the program ends
// with status 0. "-machine" among the names hides --machine, because it changes nothing here.
//
// --quick is for classrooms. The run takes at most a minute on two free cores and still makes the
// program's point. Flags on the command line win over those that it stands for. A line of output
// says what is smaller than in the full run. A program with `quick` among its names does both
// itself. If quick_means is NULL, the program is that quick anyway.
//
// --machine chooses the machine of the modelled clock (common/model/machine.h) by its name or its
// file. `list` prints the built-in machines, `print:NAME` the file of one, and both end the
// program.
//
// Also calls set_program_name(), catch_interrupts(), predict_enable() and devices_init(), and
// starts the modelled clock of --machine.
Flags parse_flags(int argc, char *argv[], const char *about, const char *names, Program program);

// Whether a list of flags ("devices=2 lr") has this one.
bool is_listed(const char *names, const char *flag);
