// file.c: a file is written under a temporary name, and rename() puts it in place when it is whole.
// A list of the temporary names in use tells die() and signal handlers what to remove.
#include "file.h"
#include "error.h"
#include "platform.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- temporary files ---------------------------------------------------------------------------

// A signal handler may read the list at any time, so nothing is ever taken out of it or freed. The
// entry of a name that was in use before is used again.
typedef struct Temporary {
    char *path;
    pid_t owner; // a forked child inherits the list, but the files are its parent's
    atomic_bool in_use;
    struct Temporary *next;
} Temporary;

static _Atomic(Temporary *) temporaries;

// Call it with true before the file is created, because a signal may come in between.
static void use_temporary(const char *path, bool in_use) {
    Temporary *entry = atomic_load(&temporaries);
    while (entry && strcmp(entry->path, path) != 0) entry = entry->next;
    if (entry) {
        atomic_store(&entry->in_use, in_use);
        return;
    }
    entry = xmalloc(sizeof *entry);
    *entry = (Temporary){xstrdup(path), getpid(), in_use, atomic_load(&temporaries)};
    while (!atomic_compare_exchange_weak(&temporaries, &entry->next, entry)) continue;
}

// A signal handler may do little: no locks, no free().
void remove_unfinished_files(void) {
    end_processes(); // a gnuplot that goes on would create its file again
    for (Temporary *entry = atomic_load(&temporaries); entry; entry = entry->next)
        if (atomic_load(&entry->in_use) && entry->owner == getpid()) unlink(entry->path);
}

__attribute__((constructor)) static void remove_when_dying(void) {
    clean_up_with(remove_unfinished_files);
}

// ---- paths -------------------------------------------------------------------------------------

char *path_join(const char *directory, const char *name) {
    size_t length = strlen(directory);
    const char *separator = length == 0 || directory[length - 1] == '/' ? "" : "/";
    return xprintf("%s%s%s", directory, separator, name);
}

#define ANOTHER_PLACE "choose another place: --out DIR, or the flag that names this file"

static _Noreturn void die_writing(const char *path, int error) {
    const char *hint = ANOTHER_PLACE, *slash = strrchr(path, '/');
    if (error == ENOSPC || error == EDQUOT)
        hint = "free some space, or " ANOTHER_PLACE;
    else if (error == ENOENT && slash && access(xprintf("%.*s", (int)(slash - path), path), F_OK))
        hint = xprintf("make the directory first: mkdir -p '%.*s'", (int)(slash - path), path);
    else if (error == EACCES || error == EPERM || error == EROFS)
        hint = "you may not write there; " ANOTHER_PLACE;
    die(hint, "%s: cannot write: %s", path, strerror(error));
}

// ---- opening and closing -----------------------------------------------------------------------

OutputFile output_open(const char *path) {
    struct stat old;
    bool is_there = lstat(path, &old) == 0;
    // rename() would replace a pipe or a device by a file, and a write-protected file, too.
    if (!*path || (is_there && !S_ISREG(old.st_mode)))
        die("give the name of a file, not of a folder, a link or a pipe",
            "%s: cannot write: is not a regular file", path);
    if (is_there && access(path, W_OK) != 0) die_writing(path, errno);
    OutputFile file = {.path = xstrdup(path)};
    file.temporary = xprintf("%s.tmp.%ld", path, (long)getpid());
    use_temporary(file.temporary, true);
    file.stream = fopen(file.temporary, "we");
    if (!file.stream) die_writing(path, errno);
    if (is_there) file_permit(file.temporary, old.st_mode & 0777); // private stays private
    return file;
}

static void end_output(OutputFile *file) {
    use_temporary(file->temporary, false);
    free(file->path);
    free(file->temporary);
    *file = (OutputFile){0};
}

void output_close(OutputFile *file) {
    int error = write_error(file->stream);
    if (fclose(file->stream) != 0 && !error) error = errno;
    if (!error && rename(file->temporary, file->path) != 0) error = errno;
    if (error) die_writing(file->path, error); // and removes the temporary file
    end_output(file);
}

void output_abandon(OutputFile *file) {
    fclose(file->stream);
    unlink(file->temporary);
    end_output(file);
}

// ---- directories -------------------------------------------------------------------------------

static void make_one_directory(const char *path) {
    struct stat status;
    if (mkdir(path, 0777) == 0) return;
    int error = errno;
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) return;
    die("choose another place: --out DIR", "%s: cannot make this directory: %s", path,
        strerror(error));
}

void make_directory(const char *path) {
    if (!*path) die("give the name of a directory", "cannot make a directory without a name");
    char *parent = xstrdup(path);
    for (char *c = parent + 1; *c; c++)
        if (*c == '/') {
            *c = '\0';
            make_one_directory(parent);
            *c = '/';
        }
    free(parent);
    make_one_directory(path);
}

char *out_file(const char *directory, const char *suffix) {
    make_directory(directory);
    char *name = xprintf("%s%s", program_name(), suffix), *path = path_join(directory, name);
    free(name);
    return path;
}

// ---- checks before a long computation ----------------------------------------------------------

static bool same_file(const char *path, const char *other) {
    struct stat a, b;
    return stat(path, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

// Two names of one file have the same temporary file.
void check_outputs(const char *const paths[], int n) {
    OutputFile *files = xcalloc((size_t)n, sizeof *files);
    for (int i = 0; i < n; i++) {
        if (!paths[i]) continue;
        files[i] = output_open(paths[i]);
        for (int j = 0; j < i; j++)
            if (paths[j] && same_file(files[i].temporary, files[j].temporary))
                die_usage("give each its own name", "%s: two outputs would go to this file",
                          paths[i]);
    }
    for (int i = 0; i < n; i++)
        if (paths[i]) output_abandon(&files[i]);
    free(files);
}

void check_kept(const char *input, const char *const outputs[], int n) {
    for (int i = 0; i < n; i++)
        if (input && outputs[i] && same_file(input, outputs[i]))
            die_usage("give the output another name",
                      "%s: an output would replace this file, which is read", outputs[i]);
}
