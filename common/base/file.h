// file.h: output files that are whole or not there.
//
// A file is written beside its final place and renamed when it is complete, so that a program that
// is stopped, fails or runs out of disk leaves the old file as it was. A path that is not a regular
// file (/dev/stdout, a pipe) is written directly. What a killed program has left, PATH.tmp.NUMBER,
// goes when the same file is written again.
#ifndef FILE_H
#define FILE_H

#include <stdbool.h>
#include <stdio.h>
#include "platform.h"

// Opens a file for writing; die()s if that fails.
typedef struct OutputFile {
    FILE *stream;
    char *path, *temporary; // temporary is NULL when the path is written directly
} OutputFile;
OutputFile output_open(const char *path);
// Whether `path` is written directly: what was written cannot be read or replaced.
bool is_written_directly(const char *path);
// Flushes, checks that every write arrived, and renames; die()s (and removes the temporary file) if
// not.
void output_close(OutputFile *file);
// Forgets the file: nothing is left of it.
void output_abandon(OutputFile *file);

// For other programs and libraries that want a file name: the temporary name beside `path`, to be
// given to output_publish() when it is written. free() it after that.
char *output_temporary(const char *path);
// Renames; returns 0, or -1 with errno set (the temporary file is removed then).
int output_publish(char *temporary, const char *path);
// Says which process is writing it: if the program dies, that one is ended before the file is
// removed.
void output_writer(const char *temporary, Process writer);
// Removes it instead.
void output_discard(char *temporary);

// Whether two paths mean one file, whatever its names; it need not be there yet.
bool same_file(const char *path, const char *other);
// For programs that work long before they write: die()s now if one of these (NULL: none) cannot be
// written, or if two are the same file.
void check_outputs(const char *const paths[], int n);
// die()s if one of these outputs would replace a file that the program reads (NULL: none).
void check_kept(const char *input, const char *const outputs[], int n);

// "DIRECTORY/PROGRAM" and the suffix, the usual name of what a program writes. The directory is
// made if it is not there. free() the name.
char *out_file(const char *directory, const char *suffix);

// Called by die() and by signal handlers: removes the temporary files of this process.
void remove_unfinished_files(void);

// Makes a directory and its parents, as mkdir -p; die()s if that fails.
void make_directory(const char *path);

// "dir/name" in a new string.
char *path_join(const char *directory, const char *name);

#endif
