// archive.h: the files in an archive, by libarchive (archive_none.c: where that is not installed).
#ifndef LAB_ARCHIVE_H
#define LAB_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>

enum { MOST_BYTES = 256 * 1024 }; // of a file that is handed in

// Calls found() with each plain file that is wanted, its name in the archive, and its text (at most
// MOST_BYTES + 1 bytes of it), which is then found()'s to free(). Returns why the archive cannot be
// read, in a new string, or NULL.
char *read_archive(const char *path, bool (*wanted)(void *with, const char *name),
                   void (*found)(void *with, const char *name, char *text, size_t length),
                   void *with);

#endif
