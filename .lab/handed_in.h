// handed_in.h: what one student has handed in: a folder, an archive (.zip, .tar.gz and what else
// libarchive reads), or a folder with archives in it.
//
// What counts is an exercise's your_part.c, wherever its folder lies in the hand-in:
//     ../1_larger_batches/your_part.c
//     ../04-1.c
// If one exercise is asked for, also
//     ../your_part.c
//     any.c, if it is all that is handed in
// Everything else is passed over, folders named build among it. Links are not followed, and nothing
// is unpacked to the disk.
#ifndef HANDED_IN_H
#define HANDED_IN_H

#include "exercise_list.h"

#include <dirent.h>

typedef struct HandedFile {
    char *text; // NULL: not handed in
    size_t length;
    char *from;        // where it was found
    char *problem;     // why it cannot be graded; NULL: it can
    char *passed_over; // a file that may have been meant, by its name: "your_part.c.txt"; or NULL
} HandedFile;

typedef struct HandedIn {
    HandedFile *of; // as many as there are exercises in the list
    size_t n;
    char *problem; // what is wrong with all of it: "not an archive: .."; NULL: nothing
} HandedIn;

// What lies in a folder and is not hidden, in the order of names; returns how many, or -1 with
// errno set. free() each, and the list.
int list_folder(const char *folder, struct dirent ***entries);

HandedIn handed_in_read(const char *path, const ExerciseList *list);
void handed_in_free(HandedIn *handed);

#endif
