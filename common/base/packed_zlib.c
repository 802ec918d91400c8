// packed_zlib.c: see packed.h.
#include "packed.h"

#include <zlib.h> // gzread() reads plain files too

PackedFile *packed_open(const char *path) {
    gzFile file = gzopen(path, "rb");
    if (file) gzbuffer(file, 1 << 17);
    return (PackedFile *)file;
}

long packed_read(PackedFile *file, void *buffer, unsigned size, const char **why) {
    int got = gzread((gzFile)file, buffer, size), error;
    *why = gzerror((gzFile)file, &error);
    // Of a file that was cut off, gzread() returns what there is and only marks the error.
    return got < 0 || (error != Z_OK && error != Z_STREAM_END) ? -1 : got;
}

void packed_close(PackedFile *file) { gzclose_r((gzFile)file); }

uint32_t checksum(uint32_t before, const void *bytes, size_t n) {
    return (uint32_t)crc32_z(before, bytes, n);
}
