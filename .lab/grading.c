// grading.c: see grading.h.
#include "grading.h"
#include "bounds.h"
#include "note.h"
#include "visible.h"
#include "common/base/error.h"
#include "common/base/file.h"

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MEGABYTES = 2000, MOST_PROCESSES = 64, MOST_PRINTED = 1 << 20, COMPILE_SECONDS = 60 };

// ---- a folder for what is made of the hand-in ------------------------------------------------

static char *outer_folder; // NULL: there is none

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where) {
    (void)status, (void)type, (void)where;
    return remove(path);
}
static void remove_folder(void) {
    if (outer_folder) nftw(outer_folder, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    free(outer_folder);
    outer_folder = NULL;
}

// Only this user comes into the outer folder; the inner one is written by whoever compiles.
static char *make_folder(const HandedFile *file, Trust trust) {
    const char *tmp = getenv("TMPDIR");
    char *outer = xprintf("%s/grade-XXXXXX", tmp && *tmp == '/' ? tmp : "/tmp");
    if (!mkdtemp(outer)) die("is the disk full?", "%s: %s", outer, strerror(errno));
    outer_folder = outer;
    before_dying(remove_folder);
    if (trust == OTHER_USER) chmod(outer, 0711); // the other one has to come through
    char *own = path_join(outer, "own"), *path = path_join(own, "your_part.c");
    FILE *to = mkdir(own, 0777) == 0 && chmod(own, 0777) == 0 ? fopen(path, "w") : NULL;
    if (!to || fwrite(file->text, 1, file->length, to) != file->length || fclose(to) != 0 ||
        chmod(path, 0644) != 0)
        die("is the disk full?", "%s: %s", path, strerror(errno));
    free(path);
    return own;
}

// ---- reasons ---------------------------------------------------------------------------------

// What stands after `mark` in the first line that has it, or the last; NULL: no line has it.
static char *after(const char *text, const char *mark, bool last) {
    const char *found = strstr(text, mark);
    while (found && last && strstr(found + 1, mark)) found = strstr(found + 1, mark);
    if (!found) return NULL;
    found += strlen(mark);
    return xprintf("%.*s", (int)strcspn(found, "\n"), found);
}

static const char *out_of_bounds(HowEnded how) {
    return how == TOO_SLOW    ? "did not end"
           : how == TOO_LARGE ? "took more memory than there is for it"
           : how == TOO_MANY  ? "started too many processes"
                              : "printed without end";
}

static void explain_bounds(PartGrade *part, HowEnded how, double seconds) {
    if (how == TOO_SLOW) {
        part->reason = xprintf("not ended after %g seconds", seconds);
        part->hint = xstrdup("a loop without end, or it waits for what never comes");
    } else if (how == TOO_LARGE) {
        part->reason = xprintf("more than %d MB of memory", MEGABYTES);
        part->hint = xstrdup("is something allocated in each step, and never freed?");
    } else if (how == TOO_MANY) {
        part->reason = xprintf("more than %d processes at once", MOST_PROCESSES);
        part->hint = xstrdup("no task asks for that: is there a fork() or a system() in a loop?");
    } else {
        part->reason = xprintf("more than %d MB printed", MOST_PRINTED >> 20);
        part->hint = xstrdup("does a loop print, and not end?");
    }
}

// It ended by itself, and the check was not over.
static void explain_end(PartGrade *part, const Outcome *outcome) {
    int signal = outcome->status - 128;
    char *error = after(outcome->printed, "error: ", true);
    if (signal > 0 && signal < NSIG) {
        part->reason = xprintf("crashed: %s", strsignal(signal));
        part->hint = xstrdup(signal == SIGSEGV || signal == SIGBUS
                                 ? "memory that is not there: an index too large, a pointer that "
                                   "points nowhere? A debugger (gdb) shows where"
                                 : "a debugger (gdb) shows where");
        free(error);
    } else {
        part->reason =
            error ? error
                  : xprintf("ended with status %d before the check was over", outcome->status);
        part->hint = after(outcome->printed, "hint: ", true);
        if (!part->hint)
            part->hint = xstrdup("the check calls your part, and goes on when it returns");
    }
}

// ---- compiling -------------------------------------------------------------------------------

typedef struct Work {
    const Grader *grader;
    const ExerciseFolder *exercise;
    char *own;
    char *warning; // the compiler's first, or NULL
} Work;

// What it is doing, "compiling": for whoever waits.
static Outcome run_there(const Work *w, const char *command, const char *doing, bool may_write,
                         const char *secret, double seconds) {
    Sandbox sandbox = {.trust = w->grader->trust,
                       .project = w->grader->project,
                       .library = w->grader->library,
                       .given = w->exercise->given,
                       .own = w->own,
                       .may_write = may_write};
    char **arguments = sandbox_command(&sandbox, command);
    char *said = xprintf("%s%s, %s", w->grader->who, w->exercise->id, doing);
    Bounds bounds = {.seconds = seconds,
                     .megabytes = MEGABYTES,
                     .processes = MOST_PROCESSES,
                     .printed = MOST_PRINTED,
                     .strangers = w->grader->trust != OWN_WORK,
                     .doing = said};
    Outcome outcome = run_in_bounds(arguments, secret, bounds);
    sandbox_command_free(arguments);
    free(said);
    return outcome;
}

// "your_part.c:12:5: error: 'x' undeclared", without the folder, which nobody knows.
static char *compile_error(const char *printed) {
    const char *error = strstr(printed, "error: "), *begin = error;
    if (!error) return xprintf("%.*s", (int)strcspn(printed, "\n"), printed);
    while (begin > printed && begin[-1] != '\n' && begin[-1] != '/') begin--;
    return xprintf("%.*s", (int)strcspn(begin, "\n"), begin);
}

static char *link_error(const char *printed) {
    char *missing = after(printed, "undefined reference to ", false);
    char *twice = after(printed, "multiple definition of ", false);
    char *error = missing ? xprintf("nothing defines %s", missing)
                  : twice ? xprintf("defined here, too: %.*s", (int)strcspn(twice, ";"), twice)
                          : after(printed, "error: ", false);
    free(missing);
    free(twice);
    return error ? error : compile_error(printed);
}

// One of the two steps; false if it fails.
static bool make(Work *w, Grade *grade, const char *command, const char *does_not,
                 char *(*error_in)(const char *printed), const char *hint) {
    Outcome outcome = run_there(w, command, "compiling", true, NULL, COMPILE_SECONDS);
    bool made = outcome.how == BY_ITSELF && outcome.status == 0;
    if (outcome.status == 126 || outcome.status == 127) // no mistake of the hand-in's
        die("make builds the project with the same compiler: does that work?",
            "the compiler cannot be run: %s", visible(outcome.printed));
    if (outcome.how != BY_ITSELF) {
        grade->reason = xprintf("%s: the compiler %s", does_not, out_of_bounds(outcome.how));
        grade->hint = xstrdup("a macro or an #include without end?");
    } else if (made) {
        if (!w->warning) w->warning = after(outcome.printed, "warning: ", false);
    } else {
        char *error = error_in(outcome.printed);
        grade->reason = xprintf("%s: %s", does_not, error);
        grade->hint = after(outcome.printed, "hint: ", false);
        if (!grade->hint) grade->hint = xstrdup(hint);
        free(error);
    }
    outcome_free(&outcome);
    return made;
}

static bool compile_and_link(Work *w, Grade *grade) {
    return make(w, grade, w->exercise->compile, "does not compile", compile_error,
                "make exercise-NN-N shows all that the compiler says") &&
           make(w, grade, w->exercise->link, "does not link", link_error,
                "the exercise's functions, under their names, and nothing else of the check's");
}

// ---- running ---------------------------------------------------------------------------------

static void make_secret(char secret[33]) {
    unsigned char bytes[16];
    CHECK(getrandom(bytes, sizeof bytes, 0) == sizeof bytes, "the system has no random bytes");
    for (int i = 0; i < 16; i++) snprintf(secret + 2 * i, 3, "%02x", bytes[i]);
}

// What the check has told: the secret, "passed" or "failed", error and hint, in a line each.
static bool read_verdict(PartGrade *part, const char *told, const char *secret) {
    char *copy = xstrdup(told), *lines[4] = {0}, *at = copy;
    for (int i = 0; i < 4 && at; i++) lines[i] = strsep(&at, "\n");
    bool said = lines[3] && strcmp(lines[0], secret) == 0;
    part->passed = said && strcmp(lines[1], "passed") == 0;
    if (said && !part->passed) {
        part->reason = xstrdup(lines[2]);
        part->hint = xstrdup(lines[3]);
    }
    free(copy);
    return said;
}

static PartGrade grade_part(const Work *w, const Part *what, double seconds, HowEnded *how) {
    PartGrade part = {0};
    char secret[33];
    make_secret(secret);
    char *command = xprintf(
        "EXERCISE_GRADED='3 %d' exec \"$OWN/program\" --check --out \"$OWN/plots\"", what->number);
    char *doing = xprintf("part %d (%s)", what->number + 1, what->what);
    Outcome outcome = run_there(w, command, doing, false, secret, seconds);
    free(doing);
    free(command);
    *how = outcome.how;
    part.seconds = outcome.seconds;
    if (outcome.how != BY_ITSELF)
        explain_bounds(&part, outcome.how, seconds);
    else if (!read_verdict(&part, outcome.told, secret))
        explain_end(&part, &outcome);
    outcome_free(&outcome);
    return part;
}

// ---- an exercise -----------------------------------------------------------------------------

// Where one part does not end, others will not either, mostly: they have half the time, which is
// still far more than a right one needs.
static void grade_parts(const Work *w, Grade *grade) {
    double seconds = w->grader->seconds;
    for (int i = 0; i < w->exercise->num_parts; i++) {
        HowEnded how;
        grade->parts[i] = grade_part(w, &w->exercise->parts[i], seconds, &how);
        if (how == TOO_SLOW) seconds = w->grader->seconds / 2;
        if (grade->parts[i].passed) grade->points += w->exercise->parts[i].points;
    }
}

Grade grade_exercise(const Grader *grader, const ExerciseFolder *exercise, const HandedFile *file,
                     const char *problem_of_all) {
    Grade grade = {.exercise = exercise};
    if (!file->text) {
        grade.reason = problem_of_all ? xprintf("not found: %s", problem_of_all)
                       : file->passed_over
                           ? xprintf("not handed in (%s is not taken for it)", file->passed_over)
                           : xstrdup("not handed in");
        grade.hint = xprintf("hand in %s/your_part.c, or %s.c", strrchr(exercise->folder, '/') + 1,
                             exercise->id);
        return grade;
    }
    if (file->problem) {
        grade.reason = xstrdup(file->problem);
        grade.hint = xstrdup("one file for an exercise, the one that counts");
        return grade;
    }
    Work work = {.grader = grader, .exercise = exercise, .own = make_folder(file, grader->trust)};
    grade.note = note_about(file->text, file->length);
    if (compile_and_link(&work, &grade)) {
        chmod(work.own, 0755); // what runs does not change what will run
        grade_parts(&work, &grade);
        if (!grade.note && work.warning && grade.points < exercise->points)
            grade.note = xprintf("the compiler warns: %s", work.warning);
    }
    remove_folder();
    free(work.own);
    free(work.warning);
    return grade;
}

void grade_free(Grade *grade) {
    for (int i = 0; i < grade->exercise->num_parts; i++) {
        free(grade->parts[i].reason);
        free(grade->parts[i].hint);
    }
    free(grade->reason);
    free(grade->hint);
    free(grade->note);
}
