// other_files.h: guesses what a file is that is not what it was given as, for messages that help.
//
// other_format() tells by the first bytes: a zip archive, a web page. die_of_names() ends the
// program for parameters of another network, or under other names.
#ifndef OTHER_FILES_H
#define OTHER_FILES_H

#include <stddef.h>

typedef struct OtherFormat {
    const char *is;              // "a web page"; NULL: the bytes say nothing
    const char *parameters_hint; // what to do if it was given as parameters (safetensors.h),
    const char *data_hint;       // or as a file of the data set
} OtherFormat;

enum { FIRST_BYTES = 64 }; // as many bytes as it takes to tell; a shorter file has fewer
OtherFormat other_format(const char *first, size_t n);

typedef struct Names {
    const char **list;
    int n;
} Names;

// What DataParallel and DDP ("module.") and torch.compile ("_orig_mod.") put before all of these
// names, in any order; "" if not all have it. free() it.
char *wrapper_prefix(Names names);

// die()s because not all names that are wanted are in the file. Says what is there instead, and how
// to save the file with other names. `taken` was taken away from the names before.
_Noreturn void die_of_names(const char *path, const char *taken, Names in_file, Names wanted);

#endif
