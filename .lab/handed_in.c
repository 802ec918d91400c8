// handed_in.c: see handed_in.h. What is read here comes from strangers: sizes and depths have
// limits, only plain files are opened, and of an archive only what was asked for is kept.
#include "handed_in.h"
#include "archive.h"
#include "common/base/error.h"
#include "common/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEEPEST = 12, MOST_FILES = 20000 };

typedef struct Search {
    const ExerciseList *list;
    HandedIn *handed;
    int files;
} Search;

// ---- names -----------------------------------------------------------------------------------

static bool ends_in(const char *path, const char *end) {
    size_t n = strlen(path), m = strlen(end);
    return n >= m && strcasecmp(path + n - m, end) == 0 && (n == m || path[n - m - 1] == '/');
}

static const char *last_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// Whether it lies in the folder of that exercise.
static bool lies_in(const char *path, const char *exercise_folder) {
    char *part = xprintf("%s/%s", last_of(exercise_folder), last_of(path));
    bool does = ends_in(path, part);
    free(part);
    return does;
}

// Whether it does in that of any of this project, be that asked for or not.
static bool lies_in_an_exercise(const char *path) {
    glob_t folders;
    bool found = false;
    if (glob("chapters/*/exercises/[0-9]*", GLOB_ONLYDIR, NULL, &folders) != 0) return false;
    for (size_t i = 0; i < folders.gl_pathc && !found; i++)
        found = lies_in(path, folders.gl_pathv[i]);
    globfree(&folders);
    return found;
}

// The exercise whose part this path names, or -1. (No two have the same title. Where one is asked
// for, a part that lies in no exercise's folder is that one's.)
static int exercise_of(const ExerciseList *list, const char *path) {
    for (size_t i = 0; i < list->n; i++) {
        const ExerciseFolder *e = &list->all[i];
        char *alone = xprintf("%s.c", e->id);
        bool its_own = ends_in(path, alone) ||
                       (ends_in(path, "your_part.c") &&
                        (lies_in(path, e->folder) || (list->n == 1 && !lies_in_an_exercise(path))));
        free(alone);
        if (its_own) return (int)i;
    }
    return -1;
}

static bool begins(const char *name, const char *with) {
    return strncasecmp(name, with, strlen(with)) == 0;
}

// What may have been meant for an exercise: your_part.c.txt, 04-3 (1).c; a your_part.c that lies in
// no exercise's folder.
static bool may_be_meant_for(const ExerciseFolder *e, const char *path) {
    return begins(last_of(path), e->id) ||
           (begins(last_of(path), "your_part") &&
            (lies_in(path, e->folder) || !lies_in_an_exercise(path)));
}

static bool has_ending(const char *name, const char *end) {
    size_t n = strlen(name), m = strlen(end);
    return n > m && strcasecmp(name + n - m, end) == 0;
}
static bool is_archive(const char *name) {
    const char *const ends[] = {".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".7z"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (has_ending(name, ends[i])) return true;
    return false;
}

// ---- what was found --------------------------------------------------------------------------

static void keep(Search *s, int i, const char *from, char *text, size_t length) {
    HandedFile *file = &s->handed->of[i];
    if (!file->text) {
        file->text = text;
        file->length = length;
        file->from = xstrdup(from);
        if (length > MOST_BYTES) file->problem = xprintf("%s has more than 256 KB", from);
        if (!file->problem && memchr(text, '\0', length))
            file->problem = xprintf("%s is no plain text (UTF-16?): save it as UTF-8", from);
        return;
    }
    if (!file->problem && (file->length != length || memcmp(file->text, text, length) != 0))
        file->problem = xprintf("handed in twice, and not the same: %s and %s", file->from, from);
    free(text);
}

static void problem(Search *s, char *text) {
    if (s->handed->problem)
        free(text);
    else
        s->handed->problem = text;
}

// (Whoever hands in the whole project hands in what it has built: starters among it.)
static bool is_built(const char *path) {
    return strncmp(path, "build/", 6) == 0 || strstr(path, "/build/");
}
static void pass_over(Search *s, const char *path) {
    for (size_t i = 0; i < s->list->n; i++)
        if (!s->handed->of[i].passed_over && may_be_meant_for(&s->list->all[i], path))
            s->handed->of[i].passed_over = xstrdup(last_of(path));
}
static bool is_wanted(void *search, const char *path) {
    Search *s = search;
    if (is_built(path)) return false;
    if (exercise_of(s->list, path) >= 0) return true;
    pass_over(s, path);
    return false;
}
static void keep_member(void *search, const char *from, char *text, size_t length) {
    keep(search, exercise_of(((Search *)search)->list, from), from, text, length);
}

static void search_archive(Search *s, const char *path) {
    char *why = read_archive(path, is_wanted, keep_member, s);
    if (why) problem(s, xprintf("%s: %s", strrchr(path, '/') + 1, why));
    free(why);
}

// (Not through a link, and not from a pipe that nobody writes to.)
static void take_file(Search *s, int exercise, const char *path) {
    int file = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat status;
    if (file < 0 || fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
        problem(s, xprintf("%s: not a plain file that can be read", path));
        if (file >= 0) close(file);
        return;
    }
    char *text = xmalloc(MOST_BYTES + 1);
    size_t length = 0;
    ssize_t n;
    while (length < MOST_BYTES + 1 && (n = read(file, text + length, MOST_BYTES + 1 - length)) > 0)
        length += (size_t)n;
    close(file);
    keep(s, exercise, path, text, length);
}

static void search_file(Search *s, const char *path) {
    int exercise = exercise_of(s->list, path);
    if (exercise >= 0)
        take_file(s, exercise, path);
    else
        pass_over(s, path);
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}
static int is_shown(const struct dirent *entry) { return entry->d_name[0] != '.'; }
int list_folder(const char *folder, struct dirent ***entries) {
    return scandir(folder, entries, is_shown, by_name);
}

static void search_folder(Search *s, const char *folder, int depth) {
    struct dirent **entries;
    int n = depth > DEEPEST ? 0 : list_folder(folder, &entries);
    if (n < 0) problem(s, xprintf("%s: %s", folder, strerror(errno)));
    if (n <= 0) return;
    for (int i = 0; i < n; i++) {
        char *path = path_join(folder, entries[i]->d_name);
        struct stat status;
        if (++s->files > MOST_FILES)
            problem(s, xprintf("more than %d files", MOST_FILES));
        else if (lstat(path, &status) != 0)
            problem(s, xprintf("%s: %s", path, strerror(errno)));
        else if (S_ISDIR(status.st_mode) && strcmp(entries[i]->d_name, "build") != 0)
            search_folder(s, path, depth + 1);
        else if (S_ISREG(status.st_mode) && is_archive(path))
            search_archive(s, path);
        else
            search_file(s, path);
        free(path);
        free(entries[i]);
    }
    free(entries);
}

HandedIn handed_in_read(const char *path, const ExerciseList *list) {
    HandedIn handed = {.of = xcalloc(list->n + 1, sizeof *handed.of), .n = list->n};
    Search search = {.list = list, .handed = &handed};
    struct stat status;
    char *whole = xprintf("%s%s", strchr(path, '/') ? "" : "./", path);
    if (stat(path, &status) != 0)
        problem(&search, xprintf("%s: %s", path, strerror(errno)));
    else if (S_ISDIR(status.st_mode))
        search_folder(&search, whole, 0);
    else if (!S_ISREG(status.st_mode))
        problem(&search, xprintf("%s: neither a folder nor a file", path));
    else if (list->n == 1 && has_ending(whole, ".c"))
        take_file(&search, 0, whole); // whatever its name, one exercise is asked for
    else if (exercise_of(list, whole) >= 0)
        search_file(&search, whole);
    else
        search_archive(&search, whole);
    free(whole);
    return handed;
}

void handed_in_free(HandedIn *handed) {
    for (size_t i = 0; i < handed->n; i++) {
        free(handed->of[i].text);
        free(handed->of[i].from);
        free(handed->of[i].problem);
        free(handed->of[i].passed_over);
    }
    free(handed->of);
    free(handed->problem);
}
