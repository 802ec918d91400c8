// flags.h: the command line. The flags that chapters share are here. Each program says which of
// them it has, and adds a table of its own. To read them, call book_begin() (book.h): it calls
// parse_flags().
#ifndef FLAGS_H
#define FLAGS_H

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

// {"bn", FLAG_CHOICE, &bn, "M", .help = "batch norm's statistics", .choices = "local|sync"} is the
// flag --bn M. Its value is stored in the variable bn, whose initial value is the default.
typedef struct Flag {
    const char *name;
    FlagKind kind;
    void *value;
    const char *argument, *help;
    long least, most;      // integers
    bool unbounded;        // integers: "inf" is the most
    const char *choices;   // "star|sharded|ring|tree"
    const char *otherwise; // what --help says of a value that the program chooses by itself
    const char *counts;    // integers: what they count, "epochs"
} Flag;

// The flags that chapters share: batch_size is the value of --batch-size. A text without a default
// is NULL if it was not given.
typedef struct Flags {
    int devices; // 0: what the chapter does by itself
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
    // What the program says of itself.
    const char *quick_means; // "--epochs 3 --seeds 4": what --quick stands for; NULL: see below
    const char *next;        // "make run-05": what to run after this program
    bool of_ranks;           // several processes may run it together
    const Flag *own;         // its own flags, {0} last; NULL: it has none
} Flags;

// The defaults that chapters share: the book's batch size 256, lr 0.2, 10 epochs.
extern const Flags default_flags;

// Reads the command line of a program that has the flags `names` ("devices lr epochs") and its own,
// besides those that all programs have (see `all_have` in flags.c). Values are given as --lr 0.1 or
// --lr=0.1. A wrong flag or value ends the program with status 2 before it does anything. So does a
// flag that needs values (`about_values`) together with --backend model.
//
// --help prints `about`, the flags that most people use, three examples and the other flags, each
// with its default, or the value given earlier on the command line, and ends the program with
// status 0. It leaves out a flag that changes nothing here: "-machine" among the names says so.
//
// --quick is for classrooms: the run takes at most a minute on two free cores and still makes the
// program's point. Flags on the command line win over those that it stands for. A line of output
// says what is smaller than in the full run. A program with `quick` among its names does both
// itself. If quick_means is NULL, the program is that quick anyway.
//
// --machine chooses the machine of the modelled clock (common/model/machine.h): by its name, by its
// file, or `this` computer, which is measured first (machine_this()). `list` and `print:NAME` print
// the built-in ones and the file of one, and end the program.
//
// Also calls set_program_name(), catch_interrupts(), predict_enable() and devices_init(), and
// starts the modelled clock of --machine.
Flags parse_flags(int argc, char *argv[], const char *about, const char *names, Flags defaults);

// Whether a list of flags ("devices lr epochs") has this one.
bool is_listed(const char *names, const char *flag);

#endif
