// archive_none.c: archive.h where libarchive is not installed.
#include "archive.h"
#include "visible.h"
#include "common/base/error.h"

char *read_archive(const char *path, bool (*wanted)(void *with, const char *name),
                   void (*found)(void *with, const char *name, char *text, size_t length),
                   void *with) {
    (void)wanted, (void)found, (void)with;
    die("make setup grade installs libarchive; or unpack it yourself, into a folder",
        "%s: an archive, and no library to read it", visible(path));
}
