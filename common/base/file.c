// file.c: a file is written under a temporary name, and rename() puts it in place when it is whole.
// A list of the temporary names in use tells die() and signal handlers what to remove.
#include "file.h"
#include "error.h"
#include "platform.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
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

static Temporary *find_temporary(const char *path) {
    Temporary *entry = atomic_load(&temporaries);
    while (entry && strcmp(entry->path, path) != 0) entry = entry->next;
    return entry;
}

// Call it before the file is created, because a signal may come in between. Returns false if the
// name is already in use.
static bool use_temporary(const char *path) {
    Temporary *entry = find_temporary(path);
    if (entry) return !atomic_exchange(&entry->in_use, true);
    entry = xmalloc(sizeof *entry);
    *entry = (Temporary){xstrdup(path), getpid(), true, atomic_load(&temporaries)};
    while (!atomic_compare_exchange_weak(&temporaries, &entry->next, entry)) continue;
    return true;
}

static void forget_temporary(const char *path) {
    Temporary *entry = find_temporary(path);
    if (entry) atomic_store(&entry->in_use, false);
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
    else if (error == EFBIG)
        hint = "files may not become that large here: see `ulimit -f`, or " ANOTHER_PLACE;
    else if (error == ENOENT && slash && access(xprintf("%.*s", (int)(slash - path), path), F_OK))
        hint = xprintf("make the directory first: mkdir -p '%.*s'", (int)(slash - path), path);
    else if (error == ENXIO || error == EPIPE)
        hint = "whoever reads this pipe has to read to its end";
    else if (error == EISDIR)
        hint = "give the name of a file, not of a directory";
    else if (error == EACCES || error == EPERM || error == EROFS)
        hint = "you may not write there; " ANOTHER_PLACE;
    die(hint, "%s: cannot write: %s", path, strerror(error));
}

// If `path` is a link, the file that it leads to: rename() would replace the link. Does not free().
static char *file_behind(const char *path) {
    struct stat status;
    if (lstat(path, &status) != 0 || !S_ISLNK(status.st_mode)) return xstrdup(path);
    char *file = file_real_path(path);
    if (!file)
        die("give the name of the file itself", "%s: cannot write to what this link leads to: %s",
            path, strerror(errno));
    return file;
}

static bool is_stdout(const struct stat *status) {
    struct stat out;
    return fstat(STDOUT_FILENO, &out) == 0 && out.st_dev == status->st_dev &&
           out.st_ino == status->st_ino;
}

// A file would take the place of a pipe or a terminal. If standard output goes to a file, the shell
// holds it open, and what was printed before would be lost.
bool is_written_directly(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && (!S_ISREG(status.st_mode) || is_stdout(&status));
}

// Opening a pipe waits for a reader, but with O_NONBLOCK it fails if there is none.
static FILE *open_directly(const char *path, int nonblock) {
    struct stat status;
    // (Opened a second time, standard output would have a second position.)
    if (stat(path, &status) == 0 && is_stdout(&status)) return stdout;
    int file = open(path, O_WRONLY | O_CLOEXEC | nonblock);
    if (file < 0) return NULL;
    fcntl(file, F_SETFL, 0);
    return fdopen(file, "w");
}

// ---- opening and closing -----------------------------------------------------------------------

OutputFile output_open(const char *path) {
    // A write beyond `ulimit -f` then fails with EFBIG instead of ending the program.
    signal(SIGXFSZ, SIG_IGN);
    if (!*path) die("give the name of a file", "cannot write: the file name is empty");
    OutputFile file = {0};
    if (is_written_directly(path)) {
        file.path = xstrdup(path);
        file.stream = open_directly(path, O_NONBLOCK);
    } else {
        file.path = file_behind(path);
        // rename() replaces a write-protected file, too.
        if (access(file.path, F_OK) == 0 && access(file.path, W_OK) != 0) die_writing(path, errno);
        file.temporary = xprintf("%s.tmp.%ld", file.path, (long)getpid());
        if (!use_temporary(file.temporary))
            die("close it before you open it again", "%s: is already being written", path);
        unlink(file.temporary); // of a process that had our number and was killed
        file.stream = fopen(file.temporary, "wxe");
    }
    if (!file.stream) die_writing(path, errno);
    return file;
}

static void free_names(OutputFile *file) {
    free(file->path);
    free(file->temporary);
    *file = (OutputFile){0};
}

void output_close(OutputFile *file) {
    int error = write_error(file->stream);
    if (file->stream != stdout && fclose(file->stream) != 0 && !error) error = errno;
    if (!error && file->temporary && output_publish(file->temporary, file->path) != 0)
        error = errno;
    if (error) die_writing(file->path, error); // and removes the temporary file
    free_names(file);
}

void output_abandon(OutputFile *file) {
    if (file->stream != stdout) fclose(file->stream);
    if (file->temporary) output_discard(file->temporary);
    free_names(file);
}

// The file is created to find out whether it can be, and removed so that output_publish() notices
// if the other program writes nothing.
char *output_temporary(const char *path) {
    if (is_written_directly(path)) return xstrdup(path);
    OutputFile file = output_open(path);
    fclose(file.stream);
    unlink(file.temporary);
    free(file.path);
    return file.temporary;
}

int output_publish(char *temporary, const char *path) {
    if (strcmp(temporary, path) == 0) return 0; // it was written directly
    char *place = file_behind(path);
    struct stat old;
    if (stat(place, &old) == 0) file_permit(temporary, old.st_mode & 0777); // private stays private
    int error = rename(temporary, place) == 0 ? 0 : errno;
    if (error) unlink(temporary);
    forget_temporary(temporary);
    free(place);
    errno = error;
    return error ? -1 : 0;
}

void output_discard(char *temporary) {
    if (!find_temporary(temporary)) return; // it was written directly
    unlink(temporary);
    forget_temporary(temporary);
}

// ---- directories -------------------------------------------------------------------------------

static void make_one_directory(const char *path) {
    struct stat status;
    if (mkdir(path, 0777) == 0) return;
    int error = errno;
    if (stat(path, &status) == 0) {
        if (S_ISDIR(status.st_mode)) return;
        error = ENOTDIR;
    }
    const char *hint = "choose another place: --out DIR";
    if (error == ENOTDIR) hint = "there is a file of that name: choose another with --out DIR";
    if (error == ENOSPC || error == EDQUOT)
        hint = "free some space, or choose another place: --out DIR";
    die(hint, "%s: cannot make this directory: %s", path, strerror(error));
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

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool stat_folder(const char *path, struct stat *status) {
    char *folder = xprintf("%.*s.", (int)(last_part(path) - path), path);
    bool is_there = stat(folder, status) == 0;
    free(folder);
    return is_there;
}

bool same_file(const char *path, const char *other) {
    struct stat a, b;
    if (strcmp(path, other) == 0) return true;
    bool exists = stat(path, &a) == 0;
    if (exists != (stat(other, &b) == 0)) return false;
    // If there is neither, they are the same name in the same folder.
    if (!exists && (strcmp(last_part(path), last_part(other)) != 0 || !stat_folder(path, &a) ||
                    !stat_folder(other, &b)))
        return false;
    return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

void check_outputs(const char *const paths[], int n) {
    for (int i = 0; i < n; i++) {
        if (!paths[i]) continue;
        if (is_written_directly(paths[i])) {
            // Stays open, because a pipe's reader is done when the last writer closes it.
            if (!open_directly(paths[i], 0)) die_writing(paths[i], errno);
            continue;
        }
        for (int j = 0; j < i; j++)
            if (paths[j] && same_file(paths[i], paths[j]))
                die_usage("give each its own name", "%s: two outputs would go to this file",
                          paths[i]);
        OutputFile file = output_open(paths[i]);
        output_abandon(&file);
    }
}

void check_kept(const char *input, const char *const outputs[], int n) {
    for (int i = 0; i < n; i++)
        if (input && outputs[i] && !is_written_directly(outputs[i]) && same_file(input, outputs[i]))
            die_usage("give the output another name",
                      "%s: an output would replace this file, which is read", outputs[i]);
}
