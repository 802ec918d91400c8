// grade.c: grades what is handed in. `make grade` calls it; lab.mk says with what.
//
//     grade [FLAGS] BUILD                  the exercises of this project, by whoever works in it
//     grade [FLAGS] BUILD SUBMISSION       a folder or an archive that somebody has handed in
//     grade [FLAGS] --class BUILD FOLDER   each folder and archive in it
//
// A hand-in is strangers' code. What is contained (sandbox.h): files, network, other processes,
// memory, time. What is not: a hand-in shares the kernel with the grader, and its process writes
// the facts that are judged, so they may come by another way than the task's (a note says who looks
// so).
#include "class.h"
#include "report.h"
#include "sandbox.h"
#include "settings.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/program/interrupt.h"

#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- what comes out --------------------------------------------------------------------------

static void write_json(const char *path, json_t *json) {
    if (!path) return;
    OutputFile file = output_open(path);
    json_dumpf(json, file.stream, JSON_INDENT(1));
    fputc('\n', file.stream);
    output_close(&file);
}

// All of it takes an hour: what cannot be written is told before.
static void check_paths(const Settings *s) {
    const char *const outputs[] = {s->json, s->csv, s->gradescope};
    if (s->from && access(s->from, R_OK) != 0)
        die("SUBMISSION=a folder or an archive, CLASS=a folder with one for each", "%s: %s",
            s->from, strerror(errno));
    check_outputs(outputs, 3);
    check_kept(s->from, outputs, 3);
}

static void write_all(const Settings *s, json_t *reports, const ExerciseList *list) {
    json_t *first = json_array_get(reports, 0);
    write_json(s->json, s->class ? reports : first);
    if (s->gradescope) {
        json_t *results = report_gradescope(first);
        write_json(s->gradescope, results);
        json_decref(results);
    }
    if (s->csv) {
        OutputFile file = output_open(s->csv);
        report_csv(file.stream, reports, list);
        output_close(&file);
    }
}

// 1 if one could not be graded or, with --strict, if a point was lost.
static int status_of(const Settings *s, const json_t *reports) {
    size_t i;
    json_t *report;
    int status = EXIT_SUCCESS;
    json_array_foreach(reports, i, report) {
        bool lost = json_integer_value(json_object_get(report, "points")) <
                    json_integer_value(json_object_get(report, "of"));
        if (json_object_get(report, "error") || (s->strict && lost)) status = EXIT_FAILURE;
    }
    return status;
}

static char *absolute(const char *folder, const char *name) {
    char *path = path_join(folder, name), *real = realpath(path, NULL);
    if (!real) die("make grade builds it", "%s: not there", path);
    free(path);
    return real;
}

// (Else all would lose all points.)
static void need_what_is_read(const Grader *grader, const ExerciseList *list) {
    char *why;
    Sandbox sandbox = {.trust = grader->trust,
                       .project = grader->project,
                       .library = grader->library,
                       .given = list->all[0].given,
                       .own = "/tmp"};
    if (sandbox_works(&sandbox, &why)) return;
    if (grader->trust != CONTAINED)
        die("may others read the project's folder, and those above it?",
            "what is handed in is run by another user, who cannot: %s", why);
    die("make setup grade installs bubblewrap; in a machine that is thrown away afterwards: "
        "TRUSTED=1",
        "strangers' code is run in a sandbox, and there is none: %s", why);
}

int main(int argc, char *argv[]) {
    set_program_name(argv[0]);
    setlocale(LC_CTYPE, "C.UTF-8"); // for names in archives
    Settings s = settings_read(argc, argv);
    catch_interrupts();
    check_paths(&s);
    finish_on_interrupt();
    ExerciseList list = exercise_list_read(s.build, s.labs);
    Grader grader = {.project = absolute(".", ""),
                     .library = absolute(s.build, "libbook.a"),
                     .trust = !s.from     ? OWN_WORK
                              : s.trusted ? OTHER_USER
                                          : CONTAINED,
                     .seconds = s.seconds,
                     .who = ""};
    if (s.part) exercise_list_keep_part(&list, s.part);
    if (grader.trust == OTHER_USER) s.jobs = 1; // two at once would be one user
    need_what_is_read(&grader, &list);
    const char *name = s.from && strcmp(s.from, ".") != 0 ? s.from : "your exercises";
    json_t *reports = s.class ? grade_class(&grader, &list, s.from, s.jobs) : json_array(), *report;
    if (!s.class)
        json_array_append_new(reports,
                              grade_one(&grader, &list, name, s.from ? s.from : "chapters"));
    size_t i;
    json_array_foreach(reports, i, report) report_print(report);
    write_all(&s, reports, &list);
    check_stdout();
    int status = status_of(&s, reports);
    json_decref(reports);
    exercise_list_free(&list);
    free((char *)grader.project);
    free((char *)grader.library);
    return status;
}
