// file.c: a file is written under a temporary name and renamed when it is whole.
#include "file.h"
#include "error.h"

#include <errno.h>
#include <limits.h> // PATH_MAX
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

// ---- the list of temporary files -------------------------------------------------------------

// A forked child inherits the list but not the files: they are its parent's to remove.
typedef struct Unfinished {
    char *path;
    pid_t owner;
    pid_t writer; // another program that is still writing it, or 0
    struct Unfinished *next;
} Unfinished;

// die() may come from any thread. Nothing that can die() is called while this lock is held.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Unfinished *unfinished;

static void remember(const char *path) {
    Unfinished *entry = xmalloc(sizeof *entry);
    *entry = (Unfinished){.path = xstrdup(path), .owner = getpid()};
    pthread_mutex_lock(&lock);
    entry->next = unfinished;
    unfinished = entry;
    pthread_mutex_unlock(&lock);
}

static bool is_remembered(const char *path) {
    bool found = false;
    pthread_mutex_lock(&lock);
    for (const Unfinished *entry = unfinished; entry && !found; entry = entry->next)
        found = strcmp(entry->path, path) == 0;
    pthread_mutex_unlock(&lock);
    return found;
}

static void forget(const char *path) {
    Unfinished *entry = NULL;
    pthread_mutex_lock(&lock);
    for (Unfinished **link = &unfinished; *link; link = &(*link)->next)
        if (strcmp((*link)->path, path) == 0) {
            entry = *link;
            *link = entry->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    if (entry) free(entry->path);
    free(entry);
}

void remove_unfinished_files(void) {
    pthread_mutex_lock(&lock);
    while (unfinished) {
        Unfinished *entry = unfinished;
        unfinished = entry->next;
        if (entry->owner == getpid()) {
            if (entry->writer) { // else it would make the file again
                kill(entry->writer, SIGKILL);
                waitpid(entry->writer, NULL, 0);
            }
            unlink(entry->path);
        }
        free(entry->path);
        free(entry);
    }
    pthread_mutex_unlock(&lock);
}

// ---- paths -----------------------------------------------------------------------------------

char *path_join(const char *directory, const char *name) {
    size_t length = strlen(directory);
    const char *separator = length == 0 || directory[length - 1] == '/' ? "" : "/";
    return xprintf("%s%s%s", directory, separator, name);
}

// "a/b" of "a/b/c", "." of "c", "/" of "/c"
static char *directory_of(const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash) return xstrdup(".");
    if (slash == path) return xstrdup("/");
    return xprintf("%.*s", (int)(slash - path), path);
}

static _Noreturn void die_writing(const char *path, int error) {
    const char *hint = "choose another place for this file";
    if (error == ENOSPC || error == EDQUOT)
        hint = "free some space, or choose another place for this file";
    else if (error == EFBIG)
        hint = "files may not become that large here: see `ulimit -f`, or choose another place";
    else if (error == ENOENT)
        hint = xprintf("make the directory first: mkdir -p '%s'", directory_of(path));
    else if (error == EISDIR)
        hint = "give the name of a file, not of a directory";
    else if (error == EACCES || error == EPERM || error == EROFS)
        hint = "choose a place where you may write";
    die(hint, "%s: cannot write: %s", path, strerror(error));
}

// Where the bytes end up: `path`, or what it is a link to, even if that is not there yet. rename()
// onto the link itself would put a file in its place.
static char *follow_links(const char *path) {
    enum { MOST_LINKS = 40 }; // Linux's own limit
    char *place = xstrdup(path);
    for (int i = 0; i < MOST_LINKS; i++) {
        char target[PATH_MAX];
        ssize_t length = readlink(place, target, sizeof target - 1);
        if (length < 0) return place;
        target[length] = '\0';
        char *directory = target[0] == '/' ? xstrdup("") : directory_of(place);
        free(place);
        place = path_join(directory, target);
        free(directory);
    }
    die_writing(path, ELOOP);
}

static bool is_stdout(const struct stat *status) {
    struct stat out;
    return fstat(STDOUT_FILENO, &out) == 0 && out.st_dev == status->st_dev &&
           out.st_ino == status->st_ino;
}

// What is not a regular file must not be replaced by one. Nor may the file that standard output
// goes to: the shell holds it open, and what was printed before would be lost.
bool is_written_directly(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && (!S_ISREG(status.st_mode) || is_stdout(&status));
}

static FILE *open_directly(const char *path) {
    struct stat status;
    if (stat(path, &status) != 0 || !is_stdout(&status)) return fopen(path, "we");
    // Opened a second time it would have a second position, and one would overwrite the other.
    fflush(stdout);
    int copy = dup(STDOUT_FILENO);
    return copy < 0 ? NULL : fdopen(copy, "w");
}

// ---- opening and closing ---------------------------------------------------------------------

// Creates the temporary file that belongs to `place`; die()s if that fails.
static FILE *create_temporary(const char *place, char **temporary) {
    // rename() asks only for the right to write the directory; a file that is write-protected
    // itself is to be left alone.
    if (access(place, F_OK) == 0 && access(place, W_OK) != 0) die_writing(place, errno);
    *temporary = xprintf("%s.tmp.%ld", place, (long)getpid());
    if (is_remembered(*temporary))
        die("close it before you open it again", "%s: is already being written", place);
    unlink(*temporary); // a process that had our number may have been killed
    FILE *stream = fopen(*temporary, "wxe");
    if (!stream) die_writing(place, errno);
    remember(*temporary);
    return stream;
}

OutputFile output_open(const char *path) {
    signal(SIGXFSZ,
           SIG_IGN); // a write beyond `ulimit -f` fails with EFBIG, instead of ending the program
    if (!*path) die("give the name of a file", "cannot write: the file name is empty");
    OutputFile file = {0};
    if (is_written_directly(path)) {
        file.path = xstrdup(path);
        file.stream = open_directly(path);
        if (!file.stream) die_writing(path, errno);
    } else {
        file.path = follow_links(path);
        file.stream = create_temporary(file.path, &file.temporary);
    }
    return file;
}

// Closes the stream. Returns 0, or the errno of the first thing that went wrong.
static int close_stream(FILE *stream) {
    errno = 0;
    bool failed = fflush(stream) != 0 || ferror(stream);
    // A write that failed earlier has left its mark but not its reason. One more byte fails for the
    // same reason; nobody will see it, as the file is about to be removed.
    if (failed && errno == 0 && fputc('\n', stream) != EOF) fflush(stream);
    int error = !failed ? 0 : errno ? errno : EIO;
    if (fclose(stream) != 0 && !error) error = errno;
    return error;
}

static void output_forget(OutputFile *file) {
    free(file->path);
    free(file->temporary);
    *file = (OutputFile){0};
}

void output_close(OutputFile *file) {
    int error = close_stream(file->stream);
    if (!error && file->temporary && output_publish(file->temporary, file->path) != 0)
        error = errno;
    if (error) die_writing(file->path, error); // removes the temporary file
    output_forget(file);
}

void output_discard(char *temporary) {
    if (!is_remembered(temporary)) return; // written directly
    unlink(temporary);
    forget(temporary);
}

void output_abandon(OutputFile *file) {
    fclose(file->stream);
    if (file->temporary) output_discard(file->temporary);
    output_forget(file);
}

void output_writer(const char *temporary, pid_t writer) {
    pthread_mutex_lock(&lock);
    for (Unfinished *entry = unfinished; entry; entry = entry->next)
        if (strcmp(entry->path, temporary) == 0) entry->writer = writer;
    pthread_mutex_unlock(&lock);
}

char *output_temporary(const char *path) {
    if (!*path) die("give the name of a file", "cannot write: the file name is empty");
    if (is_written_directly(path)) return xstrdup(path);
    char *place = follow_links(path), *temporary;
    // Created to find out now whether that works, and removed so that output_publish() notices when
    // the other program wrote nothing.
    fclose(create_temporary(place, &temporary));
    unlink(temporary);
    free(place);
    return temporary;
}

int output_publish(char *temporary, const char *path) {
    if (strcmp(temporary, path) == 0) return 0; // written directly
    char *place = follow_links(path);
    struct stat old;
    // Whoever made the old file private wants the new one private.
    if (stat(place, &old) == 0) chmod(temporary, old.st_mode & 0777);
    int error = rename(temporary, place) == 0 ? 0 : errno;
    if (error) unlink(temporary);
    forget(temporary);
    free(place);
    errno = error;
    return error ? -1 : 0;
}

// ---- directories -----------------------------------------------------------------------------

static void make_one_directory(const char *path) {
    if (mkdir(path, 0777) == 0) return;
    int error = errno;
    struct stat status;
    if (stat(path, &status) == 0) {
        if (S_ISDIR(status.st_mode)) return;
        error = ENOTDIR;
    }
    const char *hint = "choose another place";
    if (error == ENOTDIR || error == EEXIST) hint = "there is a file of that name: choose another";
    if (error == ENOSPC || error == EDQUOT) hint = "free some space, or choose another place";
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
    char *name = xprintf("%s%s", program_name(), suffix), *path = path_join(directory, name);
    free(name);
    return path;
}

// Opening tells, and nothing is left of it.
void check_outputs(const char *const paths[], int n) {
    for (int i = 0; i < n; i++) {
        if (!paths[i]) continue;
        for (int j = 0; j < i; j++)
            if (paths[j] && strcmp(paths[i], paths[j]) == 0 && !is_written_directly(paths[i]))
                die_usage("give each its own name", "%s: two outputs would go to this file",
                          paths[i]);
        OutputFile file = output_open(paths[i]);
        output_abandon(&file);
    }
}
