// program.h: how every program of the book begins and ends, and the files it writes.
//
//     Flags flags = book_begin(argc, argv, "Trains ...", "devices lr=0.1 epochs", (Program){0});
//     book_outputs(".csv .png");
//     ...
//     plot_draw(book_output(".png"), "allreduce.gp", book_output(".csv"));
//     return book_end();
#pragma once

#include "flags.h"
#include "common/model/machine.h"

// Reads the flags (see parse_flags()). With --trace or --timeline it begins a trace of all devices,
// which keeps about the first half million pieces of work, because more would fill memory, and no
// viewer could show them. A training that goes on (--resume) writes its checkpoints to the same
// file, unless --checkpoint names another. die()s if a launcher started several processes that
// would write the same files, because they have no --out, unless program.of_ranks says that they
// work together.
Flags book_begin(int argc, char *argv[], const char *about, const char *names, Program program);

// Call this before long work. die_usage()s if the machine of the modelled clock cannot have this
// many devices.
void book_needs_devices(int count);

// Whether the program can use this many devices: the machine of the modelled clock may have fewer.
bool book_can_use_devices(int count);
// How many devices the program uses: the number of --devices or, if that was not given (0), the
// usual number, or `fewer` if the machine does not have that many. die_usage()s as
// book_needs_devices() does.
int book_devices(int asked_for, int usual, int fewer);
// The machine of the modelled clock, for a flag whose times are always modelled ("--curves").
// die_usage()s with --machine none.
const Machine *book_needs_machine(const char *what);

// Names all files that this run will write, before long work: each is DIR/PROGRAM and a suffix
// ("_curves.csv _curves.png"), in the folder of --out, which is created if necessary. With --csv F,
// the first .csv is F. The list may be put together, as printf() does it. die()s if one of them
// cannot be written, if two are the same file, or if one would replace what the program reads: the
// data set and the files of --load and --resume. The files of --log-loss, --trace, --timeline,
// --save and --checkpoint are outputs, too. But --save may replace the file of --load, and
// --checkpoint that of --resume, which have been read by then.
void book_outputs(const char *suffixes, ...) __attribute__((format(printf, 1, 2)));
// The path of one of them; the text lives until book_end(). die()s if it was not named.
const char *book_output(const char *suffix);
// The same for a PNG of timelines_draw() (timeline.h), which draws an SVG beside it.
const char *book_timeline(const char *suffix);

// Call this in each of several processes with the same flags (chapter 8) except the first, which
// alone writes the files of --trace and --timeline.
void book_another_writes(void);

// Ends the trace, writes the files of --trace and --timeline, which show what all devices did in
// measured and in modelled time, and says where they are, earlier than book_end() would. Call
// it before work that should not be in the program's pictures, such as work that is only measured,
// or done on other devices.
void book_end_trace(void);

// Sets the result, which book_end() prints in a line.
void book_result(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Writes what --trace and --timeline ask for, closes the devices, forgets the paths, and die()s if
// writing to standard output failed. If program.next is set and the program was
// not interrupted, its last three lines say what came out, which picture to open, and what to run
// next.
// Returns main()'s status: EXIT_INTERRUPTED after an orderly end by a signal (see interrupt.h),
// else EXIT_SUCCESS.
int book_end(void);
