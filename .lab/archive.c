// archive.c: see archive.h. Nothing is unpacked: of what is wanted the beginning is kept in memory,
// the rest is passed over, up to a size that no hand-in has.
#include "archive.h"
#include "common/base/error.h"

#include <archive.h>
#include <archive_entry.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_MEMBERS = 20000 };

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
    archive_read_support_format_all(archive);
    archive_read_support_filter_all(archive);
    status = archive_read_open_filename(archive, path, 1 << 16);
    // (A warning is about a name or a date.)
    while (status >= ARCHIVE_WARN && members++ < MOST_MEMBERS &&
           (status = archive_read_next_header(archive, &entry)) >= ARCHIVE_WARN &&
           status != ARCHIVE_EOF) {
        const char *name = archive_entry_pathname(entry);
        if (!name || archive_entry_filetype(entry) != AE_IFREG || !wanted(with, name)) continue;
        size_t length;
        char *text = text_of(archive, &length);
        found(with, name, text, length);
    }
    const char *why = archive_error_string(archive);
    char *problem = status == ARCHIVE_EOF && members > 1 ? NULL
                    : status == ARCHIVE_EOF              ? xstrdup("an empty archive")
                    : status >= ARCHIVE_WARN
                        ? xprintf("more than %d files", MOST_MEMBERS)
                        : xprintf("not a whole archive (%s)", why ? why : "no reason known");
    archive_read_free(archive);
    return problem;
}
