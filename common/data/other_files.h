// other_files.h: messages that help with a wrong file. other_format() tells by the first bytes what
// a file is: a zip archive, a web page. die_of_names() ends the program if a file has the
// parameters of another network, or has them under other names.
#ifndef OTHER_FILES_H
#define OTHER_FILES_H

#include <stddef.h>

typedef struct OtherFormat {
    const char *is;              // "a web page"; NULL: the bytes do not say
    const char *parameters_hint; // what to do if it was given as parameters (safetensors.h),
    const char *data_hint;       // or as a file of the data set
} OtherFormat;

enum { FIRST_BYTES = 64 }; // enough to tell; n is smaller for a shorter file
OtherFormat other_format(const char *first, size_t n);

typedef struct Names {
    const char **list;
    int n;
} Names;

// The prefix that DataParallel and DDP ("module.") or torch.compile ("_orig_mod.") put before all
// of these names, or several of them in any order; "" if not all names have one. free() it.
char *wrapper_prefix(Names names);

// die()s because the file lacks a name that is wanted. Says what is there instead, and how to save
// the file with other names. `taken` is a prefix that was already taken away from the names.
_Noreturn void die_of_names(const char *path, const char *taken, Names in_file, Names wanted);

#endif
