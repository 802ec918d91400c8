// zlib.h: what the book uses of zlib, for a program that is built without it: plain files alone,
// and checksums. (common/without is searched for headers then.)
#pragma once

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef FILE *gzFile;
typedef unsigned int uInt;
typedef unsigned long uLong;
enum { Z_OK, Z_STREAM_END };

// Of a gzipped file the plain one may be there, too: as if this one were not.
static inline gzFile gzopen(const char *path, const char *mode) {
    size_t length = strlen(path);
    if (length < 3 || strcmp(path + length - 3, ".gz") != 0) return fopen(path, mode);
    errno = ENOENT;
    return NULL;
}
static inline int gzbuffer(gzFile file, unsigned size) { return setvbuf(file, NULL, _IOFBF, size); }
static inline int gzread(gzFile file, void *buffer, unsigned size) {
    size_t got = fread(buffer, 1, size, file);
    return ferror(file) ? -1 : (int)got;
}
static inline const char *gzerror(gzFile file, int *error) {
    *error = Z_OK;
    return ferror(file) ? "a file cannot be read to its end" : "";
}
static inline int gzclose_r(gzFile file) { return fclose(file); }

static inline uLong crc32(uLong before, const unsigned char *bytes, uInt n) {
    uint32_t sum = ~(uint32_t)before;
    for (uInt i = 0; bytes && i < n; i++) {
        sum ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) sum = sum >> 1 ^ (sum & 1 ? 0xedb88320 : 0);
    }
    return (uint32_t)~sum;
}
