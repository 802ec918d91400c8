// grade.c: grades what is handed in. `make grade` calls it; lab.mk says with what.
//
//     grade [FLAGS] BUILD                  the exercises of this project, by whoever works in it
//     grade [FLAGS] BUILD SUBMISSION       a folder or an archive that somebody has handed in
//     grade [FLAGS] --class BUILD FOLDER   each folder and archive in it
//
// A hand-in is strangers' code. What is contained (sandbox.h): files, network, other processes,
// memory, time. What is not: a hand-in and the check share a process, so one that is written for it
// may pretend to have passed (a note says who looks like it); and both share the kernel.
#include "bounds.h"
#include "report.h"
#include "sandbox.h"
#include "common/base/error.h"
#include "common/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct Settings {
    const char *labs, *json, *csv, *gradescope;
    bool class, trusted, strict;
    int jobs, part; // part 0: all
    double seconds;
    const char *build, *from; // NULL: this project
} Settings;

// ---- one hand-in -----------------------------------------------------------------------------

static json_t *grade_one(const Grader *grader, const ExerciseList *list, const char *name,
                         const char *path) {
    HandedIn handed = handed_in_read(path, list);
    Grade *grades = xcalloc(list->n + 1, sizeof *grades);
    for (size_t i = 0; i < list->n; i++)
        grades[i] = grade_exercise(grader, &list->all[i], &handed.of[i], handed.problem);
    json_t *report = report_json(name, grader->trust == CONTAINED, grades, list->n);
    for (size_t i = 0; i < list->n; i++) grade_free(&grades[i]);
    free(grades);
    handed_in_free(&handed);
    return report;
}

// ---- a class ---------------------------------------------------------------------------------

// Each is graded by a process of its own, so that one that breaks the grader takes only itself
// along.
typedef struct Job {
    pid_t pid;
    FILE *report; // a file without a name
    size_t which;
} Job;

static Job start_job(const Grader *grader, const ExerciseList *list, const char *name,
                     const char *path, size_t which) {
    Job job = {.report = tmpfile(), .which = which};
    if (!job.report) die("is the disk full?", "no temporary file: %s", strerror(errno));
    fflush(NULL);
    job.pid = fork();
    CHECK(job.pid >= 0, "no process could be started");
    if (job.pid == 0) {
        json_t *report = grade_one(grader, list, name, path);
        bool written = json_dumpf(report, job.report, 0) == 0 && fflush(job.report) == 0;
        _exit(written ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    return job;
}

static json_t *end_job(Job *job, const char *name) {
    int status;
    json_t *report = NULL;
    waitpid(job->pid, &status, 0);
    rewind(job->report);
    if (status == 0) report = json_loadf(job->report, 0, NULL);
    fclose(job->report);
    job->pid = 0;
    return report ? report : report_error(name, "the grader failed: above it says why");
}

static int is_visible(const struct dirent *entry) { return entry->d_name[0] != '.'; }
static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

// Waits for one of them; which, in `jobs`.
static int wait_for_any(const Job jobs[], int n) {
    siginfo_t info;
    while (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT) != 0)
        CHECK(errno == EINTR, "a job to wait for");
    for (int i = 0; i < n; i++)
        if (jobs[i].pid == info.si_pid) return i;
    waitpid(info.si_pid, NULL, 0);
    return wait_for_any(jobs, n);
}

static json_t *grade_class(const Grader *grader, const ExerciseList *list, const Settings *s) {
    struct dirent **entries;
    int n = scandir(s->from, &entries, is_visible, by_name), running = 0, next = 0;
    if (n < 0)
        die("a folder with a folder or an archive for each", "%s: %s", s->from, strerror(errno));
    if (n == 0) die("a folder with a folder or an archive for each", "%s: nothing in it", s->from);
    json_t **reports = xcalloc((size_t)n, sizeof *reports), *all = json_array();
    Job *jobs = xcalloc((size_t)s->jobs, sizeof *jobs);
    while (next < n || running > 0) {
        int slot = 0;
        if (running < s->jobs && next < n) {
            while (jobs[slot].pid) slot++;
            char *path = path_join(s->from, entries[next]->d_name);
            jobs[slot] = start_job(grader, list, entries[next]->d_name, path, (size_t)next);
            free(path);
            running++;
            next++;
            continue;
        }
        slot = wait_for_any(jobs, s->jobs);
        size_t which = jobs[slot].which;
        reports[which] = end_job(&jobs[slot], entries[which]->d_name);
        running--;
        fprintf(stderr, "graded: %s\n", entries[which]->d_name);
    }
    for (int i = 0; i < n; i++) {
        json_array_append_new(all, reports[i]);
        free(entries[i]);
    }
    free(entries);
    free(reports);
    free(jobs);
    return all;
}

// ---- what comes out --------------------------------------------------------------------------

static void write_json(const char *path, json_t *json) {
    if (!path) return;
    OutputFile file = output_open(path);
    json_dumpf(json, file.stream, JSON_INDENT(1));
    fputc('\n', file.stream);
    output_close(&file);
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

// ---- the command line ------------------------------------------------------------------------

static Settings read_settings(int argc, char *argv[]) {
    const struct option options[] = {{"labs", required_argument, NULL, 'l'},
                                     {"json", required_argument, NULL, 'j'},
                                     {"csv", required_argument, NULL, 'c'},
                                     {"gradescope", required_argument, NULL, 'g'},
                                     {"class", no_argument, NULL, 'C'},
                                     {"trusted", no_argument, NULL, 't'},
                                     {"strict", no_argument, NULL, 's'},
                                     {"jobs", required_argument, NULL, 'n'},
                                     {"part", required_argument, NULL, 'p'},
                                     {"seconds", required_argument, NULL, 'd'},
                                     {0}};
    Settings s = {.labs = "", .jobs = 1, .seconds = 30};
    for (int flag; (flag = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (flag == 'l')
            s.labs = optarg;
        else if (flag == 'j')
            s.json = optarg;
        else if (flag == 'c')
            s.csv = optarg;
        else if (flag == 'g')
            s.gradescope = optarg;
        else if (flag == 'C')
            s.class = true;
        else if (flag == 't')
            s.trusted = true;
        else if (flag == 's')
            s.strict = true;
        else if (flag == 'n')
            s.jobs = atoi(optarg);
        else if (flag == 'p')
            s.part = atoi(optarg);
        else if (flag == 'd')
            s.seconds = atof(optarg);
        else
            exit(EXIT_USAGE);
    }
    if (s.jobs < 1 || s.jobs > 256) die_usage("JOBS=2: two are graded at a time", "wrong JOBS");
    if (s.part < 0 || s.part > MOST_PARTS) die_usage("PART=1: the first", "wrong PART");
    if (!(s.seconds >= 1 && s.seconds <= 3600))
        die_usage("SECONDS=30: what each part of a check may take", "wrong SECONDS");
    if (optind >= argc) die_usage("make grade calls it", "no BUILD");
    s.build = argv[optind++];
    s.from = optind < argc ? argv[optind] : NULL;
    if (s.class && !s.from) die_usage("make grade CLASS=FOLDER", "no folder of hand-ins");
    return s;
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
    Settings s = read_settings(argc, argv);
    if (s.from && access(s.from, R_OK) != 0)
        die("SUBMISSION=, CLASS=: a folder or an archive", "%s: %s", s.from, strerror(errno));
    ExerciseList list = exercise_list_read(s.build, s.labs);
    Grader grader = {.project = absolute(".", ""),
                     .library = absolute(s.build, "libbook.a"),
                     .trust = !s.from     ? OWN_WORK
                              : s.trusted ? OTHER_USER
                                          : CONTAINED,
                     .seconds = s.seconds};
    if (s.part) exercise_list_keep_part(&list, s.part);
    if (grader.trust == OTHER_USER) s.jobs = 1; // two at once would be one user
    need_what_is_read(&grader, &list);
    json_t *reports = s.class ? grade_class(&grader, &list, &s) : json_array(), *report;
    const char *name = s.from && strcmp(s.from, ".") != 0 ? s.from : "your exercises";
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
