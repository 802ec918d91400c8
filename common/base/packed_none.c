// packed_none.c: without zlib. See packed.h.
#include "packed.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

// Of a gzipped file the plain one may be there, too: as if this one were not.
PackedFile *packed_open(const char *path) {
    size_t length = strlen(path);
    if (length < 3 || strcmp(path + length - 3, ".gz") != 0) return (PackedFile *)fopen(path, "rb");
    errno = ENOENT;
    return NULL;
}

long packed_read(PackedFile *file, void *buffer, unsigned size, const char **why) {
    size_t got = fread(buffer, 1, size, (FILE *)file);
    *why = "a file cannot be read to its end";
    return ferror((FILE *)file) ? -1 : (long)got;
}

void packed_close(PackedFile *file) { fclose((FILE *)file); }

uint32_t checksum(uint32_t before, const void *bytes, size_t n) {
    uint32_t sum = ~before;
    for (size_t i = 0; i < n; i++) {
        sum ^= ((const uint8_t *)bytes)[i];
        for (int bit = 0; bit < 8; bit++) sum = sum >> 1 ^ (sum & 1 ? 0xedb88320 : 0);
    }
    return ~sum;
}
