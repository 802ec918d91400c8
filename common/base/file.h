// file.h: output files that are either complete or absent.
//
// To write a file, call output_open(), write to its stream, and call output_close(). Until then,
// everything is written to PATH.tmp.PID and the old file stays in place. If the program fails, is
// stopped, or runs out of disk space, the temporary file is removed. Anything else that
// already exists there (a pipe, a link, /dev/stdout) is refused. Do not fopen() an output.
#pragma once

#include <stdbool.h>
#include <stdio.h>

typedef struct OutputFile {
    FILE *stream;
    char *path, *temporary; // gnuplot writes to `temporary` itself
} OutputFile;
// die()s if the file cannot be written.
OutputFile output_open(const char *path);
// Checks that every write succeeded and puts the file in place, or die()s.
void output_close(OutputFile *file);
// Removes the temporary file instead. The old file stays.
void output_abandon(OutputFile *file);

// Call this before a long computation: die()s if one of these paths cannot be written, or if two
// are the same file. Ignores NULL entries.
void check_outputs(const char *const paths[], int n);
// die()s if one of these outputs would replace `input`, which the program reads. Ignores NULL
// entries.
void check_kept(const char *input, const char *const outputs[], int n);

// Removes this process's temporary files and ends the programs that it has started. A signal
// handler may call it. The end of a program by die() or a signal includes it.
void remove_unfinished_files(void);

// Makes a directory and its parents, as mkdir -p does, or die()s.
void make_directory(const char *path);
// Returns "directory/name". free() it, and the result of out_file().
char *path_join(const char *directory, const char *name);
// Makes the directory and returns "directory/PROGRAM" with the suffix appended.
char *out_file(const char *directory, const char *suffix);
