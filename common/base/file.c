// file.c: a file is written under a temporary name and renamed when it is whole.
#include "file.h"
#include "error.h"
#include "platform.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h> // PATH_MAX
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- the list of temporary files -------------------------------------------------------------

// A forked child inherits the list but not the files: they are its parent's to remove.
typedef struct Unfinished {
    char *path;
    pid_t owner;
    Process writer; // another program that is still writing it, or 0
    struct Unfinished *next;
} Unfinished;

static Unfinished *unfinished;

// die() and signals may come at any time, in any thread, and their handlers remove the files: so
// whoever uses the list holds that lock, and calls nothing meanwhile that can die().
static void remember(const char *path) {
    Unfinished *entry = xmalloc(sizeof *entry);
    *entry = (Unfinished){.path = xstrdup(path), .owner = getpid()};
    before_dying(remove_unfinished_files);
    lock_against_signals();
    entry->next = unfinished;
    unfinished = entry;
    unlock_against_signals();
}

static bool is_remembered(const char *path) {
    bool found = false;
    lock_against_signals();
    for (const Unfinished *entry = unfinished; entry && !found; entry = entry->next)
        found = strcmp(entry->path, path) == 0;
    unlock_against_signals();
    return found;
}

static void forget(const char *path) {
    Unfinished *entry = NULL;
    lock_against_signals();
    for (Unfinished **link = &unfinished; *link; link = &(*link)->next)
        if (strcmp((*link)->path, path) == 0) {
            entry = *link;
            *link = entry->next;
            break;
        }
    unlock_against_signals();
    if (entry) free(entry->path);
    free(entry);
}

// Signal handlers call this: nothing but system calls that POSIX allows them, and no free().
void remove_unfinished_files(void) {
    lock_against_signals();
    for (Unfinished *entry = unfinished; entry; entry = entry->next) {
        if (entry->owner != getpid()) continue;
        if (entry->writer) process_kill(entry->writer); // else it would make the file again
        entry->writer = 0;
        unlink(entry->path);
    }
    unlock_against_signals();
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

static const char *name_in_directory(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static _Noreturn void die_writing(const char *path, int error) {
    const char *hint = "choose another place for this file";
    if (error == ENOSPC || error == EDQUOT)
        hint = "free some space, or choose another place for this file";
    else if (error == EFBIG)
        hint = "files may not become that large here: see `ulimit -f`, or choose another place";
    else if (error == ENOENT)
        hint = xprintf("make the directory first: mkdir -p '%s'", directory_of(path));
    else if (error == ENXIO || error == EPIPE)
        hint = "whoever reads this pipe has to read to its end";
    else if (error == EISDIR)
        hint = "give the name of a file, not of a directory";
    else if (error == EACCES || error == EPERM || error == EROFS)
        hint = "choose a place where you may write";
    die(hint, "%s: cannot write: %s", path, strerror(error));
}

// Where the bytes end up: `path`, or what it is a link to, even if that is not there yet. rename()
// onto the link itself would put a file in its place. NULL: the links go in a circle.
static char *try_follow_links(const char *path) {
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
    free(place);
    return NULL;
}

static char *follow_links(const char *path) {
    char *place = try_follow_links(path);
    if (!place) die_writing(path, ELOOP);
    return place;
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

// Opening a pipe waits for its reader. Once outputs are checked that one has come; if it has left
// since, nobody is waited for.
static bool are_checked;
static FILE *open_waiting(const char *path) {
    int file = open(path, O_WRONLY | O_CLOEXEC | (are_checked ? O_NONBLOCK : 0));
    if (file < 0) return NULL;
    fcntl(file, F_SETFL, 0);
    return fdopen(file, "w");
}

static FILE *open_directly(const char *path) {
    struct stat status;
    if (stat(path, &status) != 0 || !is_stdout(&status)) return open_waiting(path);
    return stdout; // opened a second time, it would have a second position
}

// ---- opening and closing ---------------------------------------------------------------------

// Who writes a temporary file holds a lock on it. That is known across containers too, in which one
// number may be that of several processes.
static bool somebody_writes(const char *temporary) {
    int file = open(temporary, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) return errno != ENOENT; // when in doubt
    struct stat status;
    bool free_to_go = fstat(file, &status) == 0 && S_ISREG(status.st_mode) && file_lock(file);
    close(file);
    return !free_to_go;
}

// The process whose number "12" is; 0 if the text is not exactly a number.
static Process process_named(const char *text) {
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    bool exact = *text >= '1' && *text <= '9' && !*end && !errno && number <= INT_MAX;
    return exact ? (Process)number : 0;
}

static void remove_if_left(const char *folder, const char *prefix, const char *name) {
    if (strncmp(name, prefix, strlen(prefix)) != 0) return;
    Process writer = process_named(name + strlen(prefix));
    if (writer == 0 || process_is_there(writer)) return;
    char *left = path_join(folder, name);
    if (!somebody_writes(left)) unlink(left);
    free(left);
}

// A process that is killed leaves its temporary file behind: the next one that writes the same file
// removes it.
static void remove_what_the_dead_left(const char *place) {
    char *folder = directory_of(place);
    char *prefix = xprintf("%s.tmp.", name_in_directory(place));
    DIR *directory = opendir(folder);
    struct dirent *entry = directory ? readdir(directory) : NULL;
    while (entry) {
        remove_if_left(folder, prefix, entry->d_name);
        entry = readdir(directory);
    }
    if (directory) closedir(directory);
    free(prefix);
    free(folder);
}

// Creates the temporary file that belongs to `place`; die()s if that fails.
static FILE *create_temporary(const char *place, char **temporary) {
    // rename() asks only for the right to write the directory; a file that is write-protected
    // itself is to be left alone.
    if (access(place, F_OK) == 0 && access(place, W_OK) != 0) die_writing(place, errno);
    *temporary = xprintf("%s.tmp.%ld", place, (long)getpid());
    if (is_remembered(*temporary))
        die("close it before you open it again", "%s: is already being written", place);
    remove_what_the_dead_left(place);
    if (!somebody_writes(*temporary)) unlink(*temporary); // left by one that had our number
    remember(*temporary); // before it is there: a signal may come any time
    FILE *stream = fopen(*temporary, "wxe");
    if (!stream) {
        int error = errno;
        forget(*temporary);
        if (error == EEXIST)
            die("wait for it to end, or choose another name",
                "%s: another program is writing it, as %s", place, *temporary);
        die_writing(place, error);
    }
    file_lock(fileno(stream));
    return stream;
}

OutputFile output_open(const char *path) {
    // A write beyond `ulimit -f` fails with EFBIG, instead of ending the program.
    signal(SIGXFSZ, SIG_IGN);
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

// Closes the stream, but standard output. Returns 0, or the errno of the first thing that went
// wrong.
static int close_stream(FILE *stream) {
    errno = 0;
    bool failed = fflush(stream) != 0 || ferror(stream);
    // A write that failed earlier has left its mark but not its reason. One more byte fails for the
    // same reason; nobody will see it, as the file is about to be removed.
    if (failed && errno == 0 && fputc('\n', stream) != EOF) fflush(stream);
    int error = !failed ? 0 : errno ? errno : EIO;
    if (stream != stdout && fclose(stream) != 0 && !error) error = errno;
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
    if (file->stream != stdout) fclose(file->stream);
    if (file->temporary) output_discard(file->temporary);
    output_forget(file);
}

void output_writer(const char *temporary, Process writer) {
    lock_against_signals();
    for (Unfinished *entry = unfinished; entry; entry = entry->next)
        if (strcmp(entry->path, temporary) == 0) entry->writer = writer;
    unlock_against_signals();
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
    if (stat(place, &old) == 0) file_permit(temporary, old.st_mode & 0777);
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
    make_directory(directory);
    char *name = xprintf("%s%s", program_name(), suffix), *path = path_join(directory, name);
    free(name);
    return path;
}

// ---- which file is meant ---------------------------------------------------------------------

// One file has many names: a/b, ./a//b, a/../a/b, links. What tells is its number; a file that is
// not there yet has that of its directory, and a name in it.
typedef struct Identity {
    bool known;
    dev_t device;
    ino_t number;
    char *name; // NULL: the file is there
} Identity;

static Identity identity_of(const char *path) {
    struct stat status;
    if (stat(path, &status) == 0) return (Identity){true, status.st_dev, status.st_ino, NULL};
    char *place = try_follow_links(path);
    char *directory = directory_of(place ? place : path);
    Identity identity = {.known = place && stat(directory, &status) == 0};
    if (identity.known) {
        identity.device = status.st_dev;
        identity.number = status.st_ino;
        identity.name = xstrdup(name_in_directory(place));
    }
    free(directory);
    free(place);
    return identity;
}

bool same_file(const char *path, const char *other) {
    Identity a = identity_of(path), b = identity_of(other);
    bool same = !a.known || !b.known
                    ? strcmp(path, other) == 0
                    : a.device == b.device && a.number == b.number && !a.name == !b.name &&
                          (!a.name || strcmp(a.name, b.name) == 0);
    free(a.name);
    free(b.name);
    return same;
}

// Opening tells, and nothing is left of it.
void check_outputs(const char *const paths[], int n) {
    for (int i = 0; i < n; i++) {
        if (!paths[i]) continue;
        for (int j = 0; j < i; j++)
            if (paths[j] && !is_written_directly(paths[i]) && same_file(paths[i], paths[j]))
                die_usage("give each its own name", "%s: two outputs would go to this file%s%s",
                          paths[i], strcmp(paths[i], paths[j]) ? ", also called " : "",
                          strcmp(paths[i], paths[j]) ? paths[j] : "");
        OutputFile file = output_open(paths[i]);
        // Whoever reads a pipe is at its end when its last writer closes it: that is left open.
        if (!file.temporary) file_stay_open(file.stream);
        output_abandon(&file);
    }
    are_checked = true;
}

void check_kept(const char *input, const char *const outputs[], int n) {
    if (!input) return;
    for (int i = 0; i < n; i++)
        if (outputs[i] && !is_written_directly(outputs[i]) && same_file(input, outputs[i]))
            die_usage("give the output another name",
                      "%s: an output would replace this file, which is read", outputs[i]);
}
