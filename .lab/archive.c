// archive.c: see archive.h. Nothing is unpacked: of what is wanted the beginning is kept in memory,
// the rest is passed over, up to a size that no hand-in has.
#include "archive.h"
#include "common/base/error.h"

#include <archive.h>
#include <archive_entry.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_MEMBERS = 20000, MOST_UNPACKED = 256 << 20 };

static char *text_of(struct archive *archive, size_t *length) {
    char *text = xmalloc(MOST_BYTES + 1);
    la_ssize_t n;
    *length = 0;
    while (*length < MOST_BYTES + 1 &&
           (n = archive_read_data(archive, text + *length, MOST_BYTES + 1 - *length)) > 0)
        *length += (size_t)n;
    return text;
}

char *read_archive(const char *path, bool (*wanted)(void *with, const char *name),
                   void (*found)(void *with, const char *name, char *text, size_t length),
                   void *with) {
    struct archive *archive = archive_read_new();
    struct archive_entry *entry;
    int status, members = 0;
    la_int64_t unpacked = 0;
    archive_read_support_format_zip(archive);
    archive_read_support_format_tar(archive);
    archive_read_support_format_7zip(archive);
    archive_read_support_filter_gzip(archive);
    archive_read_support_filter_bzip2(archive);
    archive_read_support_filter_xz(archive);
    archive_read_support_filter_zstd(archive);
    status = archive_read_open_filename(archive, path, 1 << 16);
    // (A warning is about a name or a date.)
    while (status >= ARCHIVE_WARN && members++ < MOST_MEMBERS &&
           (status = archive_read_next_header(archive, &entry)) >= ARCHIVE_WARN &&
           status != ARCHIVE_EOF) {
        const char *name = archive_entry_pathname_utf8(entry);
        if (!name) name = archive_entry_pathname(entry);
        unpacked += archive_entry_size(entry);
        if (unpacked > MOST_UNPACKED) break;
        if (!name || archive_entry_filetype(entry) != AE_IFREG || !wanted(with, name)) continue;
        size_t length;
        char *text = text_of(archive, &length);
        found(with, name, text, length);
    }
    const char *why = archive_error_string(archive);
    char *problem =
        status == ARCHIVE_EOF && members > 1 ? NULL
        : status == ARCHIVE_EOF              ? xstrdup("an empty archive")
        : status >= ARCHIVE_WARN
            ? xprintf("more than %d files, or than %d MB", MOST_MEMBERS, MOST_UNPACKED >> 20)
            : xprintf("not a whole archive (%s)", why ? why : "no reason known");
    archive_read_free(archive);
    return problem;
}
