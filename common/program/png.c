// png.c: see png.h. A PNG is 8 bytes that say so, then chunks: length (big-endian), type, so many
// bytes of data, and the CRC of type and data. The first is IHDR, the last IEND, which is empty.
#include "png.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

static bool read_number(FILE *file, uint32_t *number) {
    uint8_t b[4];
    if (fread(b, 1, sizeof b, file) < sizeof b) return false;
    *number = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    return true;
}

// Reads a chunk, which must be good, and sets its type.
static bool read_chunk(FILE *file, char type[4]) {
    uint8_t piece[4096];
    uint32_t left, expected;
    if (!read_number(file, &left) || fread(type, 1, 4, file) < 4) return false;
    uLong crc = crc32(0, (const uint8_t *)type, 4);
    while (left > 0) {
        uint32_t size = left < sizeof piece ? left : (uint32_t)sizeof piece;
        if (fread(piece, 1, size, file) < size) return false;
        crc = crc32(crc, piece, size);
        left -= size;
    }
    return read_number(file, &expected) && expected == crc;
}

static bool is_whole(FILE *file) {
    char head[8], type[4];
    if (fread(head, 1, sizeof head, file) < sizeof head) return false;
    if (memcmp(head, "\x89PNG\r\n\x1a\n", sizeof head) != 0) return false;
    if (!read_chunk(file, type) || memcmp(type, "IHDR", 4) != 0) return false;
    bool data = false;
    while (read_chunk(file, type)) {
        data = data || memcmp(type, "IDAT", 4) == 0;
        if (memcmp(type, "IEND", 4) == 0) return data && fgetc(file) == EOF;
    }
    return false;
}

bool png_is_whole(const char *path) {
    FILE *file = fopen(path, "rbe");
    if (!file) return false;
    bool whole = is_whole(file);
    fclose(file);
    return whole;
}
