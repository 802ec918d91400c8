// exercise_list.c: see exercise_list.h.
#include "exercise_list.h"
#include "common/base/error.h"
#include "common/base/file.h"

#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The text of a small file, without the line end at its end.
static char *text_of_file(const char *folder, const char *name) {
    char *path = path_join(folder, name), *text = NULL;
    size_t room = 0;
    FILE *file = fopen(path, "r");
    ssize_t n = file ? getdelim(&text, &room, '\0', file) : -1;
    if (file) fclose(file);
    if (n < 0) die("make grade makes it", "%s: cannot be read", path);
    while (n > 0 && text[n - 1] == '\n') text[--n] = '\0';
    free(path);
    return text;
}

// "3_efficient_allreduce" is the title "efficient allreduce".
static char *title_of(const char *folder) {
    char *title = xstrdup(strrchr(folder, '/') + 3);
    for (char *c = title; *c; c++)
        if (*c == '_') *c = ' ';
    return title;
}

static void read_parts(ExerciseFolder *e, const char *folder) {
    char *path = path_join(folder, "expected.tsv");
    if (!transcript_open(&e->expected, path)) die("make grade makes it", "%s: not there", path);
    for (int p = 1; p <= e->expected.num_parts; p++) {
        e->parts[e->num_parts++] = (GradedPart){e->expected.what[p], e->expected.points[p], p};
        e->points += e->expected.points[p];
    }
    CHECK(e->num_parts > 0, "an exercise has parts");
    free(path);
}

static ExerciseFolder read_exercise(const char *folder) {
    char path[PATH_MAX];
    ExerciseFolder e = {.compile = text_of_file(folder, "compile"),
                        .link = text_of_file(folder, "link"),
                        .folder = text_of_file(folder, "folder")};
    snprintf(e.id, sizeof e.id, "%.7s", strrchr(folder, '/') + 1);
    e.title = title_of(e.folder);
    char *given = path_join(folder, "given.o");
    if (!realpath(given, path)) die("make grade makes it", "%s: not there", given);
    free(given);
    e.given = xstrdup(path);
    read_parts(&e, folder);
    return e;
}

static bool is_named(const char *ids, const char *id) {
    const char *at = strstr(ids, id);
    size_t n = strlen(id);
    for (; at; at = strstr(at + 1, id))
        if ((at == ids || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0')) return true;
    return false;
}

// "04-1 04-2": those that there are.
static char *all_ids(const glob_t *found) {
    char *ids = xstrdup("");
    for (size_t i = 0; i < found->gl_pathc; i++) {
        char *longer =
            xprintf("%s%s%s", ids, i > 0 ? " " : "", strrchr(found->gl_pathv[i], '/') + 1);
        free(ids);
        ids = longer;
    }
    return ids;
}

static void refuse_unknown(const ExerciseList *list, const char *ids, const glob_t *found) {
    char *copy = xstrdup(ids), *rest;
    for (char *id = strtok_r(copy, " ", &rest); id; id = strtok_r(NULL, " ", &rest)) {
        bool is_there = false;
        for (size_t i = 0; i < list->n; i++)
            is_there = is_there || strcmp(list->all[i].id, id) == 0;
        if (!is_there)
            die(xprintf("there are %s; those of chapter 8 need MPI (make setup)", all_ids(found)),
                "LABS: there is no exercise %s here", id);
    }
    free(copy);
}

ExerciseList exercise_list_read(const char *build, const char *ids) {
    ExerciseList list = {0};
    glob_t found;
    char *pattern = path_join(build, "lab/exercises/[0-9][0-9]-[0-9]*");
    if (glob(pattern, 0, NULL, &found) != 0) die("make grade makes them", "%s: none", pattern);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *id = strrchr(found.gl_pathv[i], '/') + 1;
        if (*ids && !is_named(ids, id)) continue;
        list.all = xgrow(list.all, list.n + 1, sizeof *list.all);
        list.all[list.n++] = read_exercise(found.gl_pathv[i]);
    }
    refuse_unknown(&list, ids, &found);
    globfree(&found);
    free(pattern);
    return list;
}

void exercise_list_keep_part(ExerciseList *list, int part) {
    for (size_t i = 0; i < list->n; i++) {
        ExerciseFolder *e = &list->all[i];
        if (part > e->num_parts)
            die("make grade LABS=.. shows them", "PART: %s has %d parts", e->id, e->num_parts);
        e->parts[0] = e->parts[part - 1];
        e->num_parts = 1;
        e->points = e->parts[0].points;
    }
}

void exercise_list_free(ExerciseList *list) {
    for (size_t i = 0; i < list->n; i++) {
        ExerciseFolder *e = &list->all[i];
        transcript_free(&e->expected);
        free(e->folder);
        free(e->title);
        free(e->given);
        free(e->compile);
        free(e->link);
    }
    free(list->all);
}
