// start_ranks.h: the program of an exercise, started by hand as one process, starts itself as so
// many ranks: a case needs several, and each time other ones.
//
//     int main(int argc, char *argv[]) {
//         const char *name = case_of(argc, argv);
//         if (name) return run_case(name);                  // this is one of the ranks
//         return exercise_main(argc, argv, ..);             // this starts them
//     }
#pragma once

#include <stddef.h>

enum { STATUS_TOO_LATE = 124, SAID_BYTES = 1 << 16 };

// What a rank is to do: NAME, if the program was started as `PROGRAM --case NAME`; else NULL.
// die_usage()s if a launcher has started the program without it.
const char *case_of(int argc, char *argv[]);

// Starts this program as k ranks with `--case case_name`, and waits for them. What all of them
// print, to both outputs, is kept in `said`, as far as there is room. Returns the exit status of
// mpirun; STATUS_TOO_LATE if it took longer than `deadline` seconds and was ended; 128 and more if
// a signal ended it. die()s if ranks cannot be started. If other programs want the cores, too, the
// deadline is longer: by what patience_of_ranks() returns in the ranks, 1 to 20.
int run_as_ranks(int k, const char *case_name, char *said, size_t size, double deadline);
double patience_of_ranks(void);

// ---- the cases of an exercise (facts.h) --------------------------------------------------------

// Starts this program as k ranks with `--case FIRST`, which record the facts of sections FIRST ..
// end-1, one after the other, in `deadline` seconds. If they end in one of them, `lost` (or NULL)
// gets what they have said, and ranks are started again for those behind it, with `--case I`: a
// hang costs one section, not all. (The judge counts the cases of a group. So a section has one, or
// is a group of its own.)
void run_sections(int k, int first, int end, double deadline,
                  void (*lost)(int section, const char *said));

// All ranks do this at the beginning of a section. Then each draws the same numbers, which are the
// same whatever became of the sections before.
void begin_section(int section);

// ---- what ranks have said ----------------------------------------------------------------------

// What stands behind the first `begin` in it, up to the end of the line, in a new string; NULL if
// there is none. ("error: ", "hint: ")
char *said_after(const char *said, const char *begin);
