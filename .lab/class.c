// class.c: see class.h. Each hand-in has a process, so that one that breaks the grader takes only
// itself along.
#include "class.h"
#include "report.h"
#include "visible.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/program/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

json_t *grade_one(const Grader *grader, const ExerciseList *list, const char *name,
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

// ---- one of a class --------------------------------------------------------------------------

typedef struct Job {
    pid_t pid;    // 0: there is none
    FILE *report; // a file without a name
    int which;
} Job;

static _Noreturn void do_job(const Grader *grader, const ExerciseList *list, const char *name,
                             const char *path, FILE *file) {
    // A terminal's Ctrl-C is for the first process, which tells the others, once.
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    char *shown = visible(name);
    Grader own = *grader;
    own.who = xprintf("%s: ", shown);
    json_t *report = grade_one(&own, list, name, path);
    bool written = json_dumpf(report, file, 0) == 0 && fflush(file) == 0;
    _exit(written ? EXIT_SUCCESS : EXIT_FAILURE);
}

static Job start_job(const Grader *grader, const ExerciseList *list, const char *folder,
                     const char *name, int which) {
    Job job = {.report = tmpfile(), .which = which};
    char *path = path_join(folder, name);
    if (!job.report) die("is the disk full?", "no temporary file: %s", strerror(errno));
    fflush(NULL);
    job.pid = fork();
    CHECK(job.pid >= 0, "no process could be started");
    if (job.pid == 0) do_job(grader, list, name, path, job.report);
    free(path);
    return job;
}

// Its report, if it has ended; else NULL.
static json_t *end_of_job(Job *job, const char *name) {
    int status;
    json_t *report = NULL;
    if (job->pid == 0 || waitpid(job->pid, &status, WNOHANG) == 0) return NULL;
    rewind(job->report);
    if (status == 0) report = json_loadf(job->report, 0, NULL);
    fclose(job->report);
    job->pid = 0;
    return report ? report : report_error(name, "the grader failed: above it says why");
}

// They kill what they have started, and remove their folders.
static _Noreturn void end_all(const Job jobs[], int n) {
    for (int i = 0; i < n; i++)
        if (jobs[i].pid) kill(jobs[i].pid, SIGTERM);
    for (int i = 0; i < n; i++)
        if (jobs[i].pid) waitpid(jobs[i].pid, NULL, 0);
    exit(EXIT_INTERRUPTED);
}

// ---- all of them -----------------------------------------------------------------------------

static void say_graded(const char *name) {
    char *shown = visible(name);
    fprintf(stderr, "graded: %s\n", shown);
    free(shown);
}

static json_t *grade_entries(const Grader *grader, const ExerciseList *list, const char *folder,
                             int most, struct dirent *const entries[], int n) {
    json_t **reports = xcalloc((size_t)n, sizeof *reports), *all = json_array();
    Job *jobs = xcalloc((size_t)most, sizeof *jobs);
    int next = 0, graded = 0;
    while (graded < n) {
        for (int j = 0; j < most; j++) {
            const char *name = entries[jobs[j].which]->d_name;
            json_t *report = end_of_job(&jobs[j], name);
            if (report) {
                reports[jobs[j].which] = report;
                graded++;
                say_graded(name);
            }
            if (!jobs[j].pid && next < n) {
                jobs[j] = start_job(grader, list, folder, entries[next]->d_name, next);
                next++;
            }
        }
        if (interrupted()) end_all(jobs, most);
        usleep(20000);
    }
    for (int i = 0; i < n; i++) json_array_append_new(all, reports[i]);
    free(reports);
    free(jobs);
    return all;
}

// Figures that were written into the folder, of a class graded before, are nobody's hand-in. Leaves
// the others, and returns how many they are.
static int leave_out_figures(struct dirent **entries, int n) {
    int kept = 0;
    for (int i = 0; i < n; i++) {
        const char *ending = strrchr(entries[i]->d_name, '.');
        if (ending && (strcmp(ending, ".csv") == 0 || strcmp(ending, ".json") == 0))
            free(entries[i]);
        else
            entries[kept++] = entries[i];
    }
    return kept;
}

json_t *grade_class(const Grader *grader, const ExerciseList *list, const char *folder, int jobs) {
    struct dirent **entries;
    int n = list_folder(folder, &entries);
    if (n < 0)
        die("a folder with a folder or an archive for each", "%s: %s", folder, strerror(errno));
    n = leave_out_figures(entries, n);
    if (n == 0) die("a folder with a folder or an archive for each", "%s: nothing in it", folder);
    json_t *reports = grade_entries(grader, list, folder, jobs, entries, n);
    for (int i = 0; i < n; i++) free(entries[i]);
    free(entries);
    return reports;
}
