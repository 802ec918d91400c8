// other_names.h: a file has the parameters of a network under names that the network does not have.
#ifndef OTHER_NAMES_H
#define OTHER_NAMES_H

typedef struct Names {
    const char **list;
    int n;
} Names;

// What DataParallel and DDP ("module.") and torch.compile ("_orig_mod.") put before all of these
// names, in any order; "" if not all have it.
char *wrapper_prefix(Names names);

// Not all names that are wanted are in the file: die()s, and says what is there instead, and how to
// save the file with other names. `taken` was taken away from the names before.
_Noreturn void die_of_names(const char *path, const char *taken, Names in_file, Names wanted);

#endif
