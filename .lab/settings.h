// settings.h: the command line of grade, as lab.mk makes it of LABS, SECONDS and the others.
#ifndef SETTINGS_H
#define SETTINGS_H

#include <stdbool.h>

typedef struct Settings {
    const char *labs;                    // "04-1 06-2"; "": all
    const char *json, *csv, *gradescope; // files to write; NULL: not asked for
    bool class, trusted, strict;
    int jobs, seconds, part;  // part 0: all
    const char *build, *from; // from NULL: this project
} Settings;

// die_usage()s if they make no sense.
Settings settings_read(int argc, char *argv[]);

#endif
