// packed.h: files that may be gzipped, and checksums: packed_zlib.c; or without zlib, and then of
// plain files only, packed_none.c.
#ifndef PACKED_H
#define PACKED_H

#include <stddef.h>
#include <stdint.h>

typedef struct PackedFile PackedFile;

// NULL, and errno says why. A file that is not gzipped is read as it is.
PackedFile *packed_open(const char *path);
// Returns how many bytes there were, at most `size`: fewer if the file ends there and ends well.
// Else -1, and *why is a message with the path.
long packed_read(PackedFile *file, void *buffer, unsigned size, const char **why);
void packed_close(PackedFile *file);

// CRC-32 of what was summed up before (0 at first) and these bytes.
uint32_t checksum(uint32_t before, const void *bytes, size_t n);

#endif
