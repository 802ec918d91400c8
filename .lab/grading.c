// grading.c: see grading.h.
#include "grading.h"
#include "bounds.h"
#include "judging.h"
#include "note.h"
#include "visible.h"
#include "common/base/error.h"
#include "common/base/file.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

// What stands after `mark` in the first line that has it; NULL: no line has it.
static char *after(const char *text, const char *mark) {
    const char *found = strstr(text, mark);
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

static bool all_came(const Judgement *j, int part) {
    for (int i = 0; i < j->expected->num_facts; i++)
        if (j->expected->facts[i].part == (uint32_t)part && !j->of[i]) return false;
    return true;
}

// A program that ends itself mostly says why. (Of one that crashed, the case says more.)
static void explain_lost(PartGrade *part, const Judgement *j, int number, const Outcome *outcome) {
    bool broken = outcome->status != 0 && !all_came(j, number);
    part->reason = judgement_reason(j, number);
    part->hint = judgement_hint(j, number);
    if (!broken && strncmp(part->reason, "exit with status", 16) != 0) return;
    char *error = after(outcome->printed, "error: "), *hint = after(outcome->printed, "hint: ");
    if (!error && broken) error = xprintf("the program ended with status %d", outcome->status);
    if (error) {
        free(part->reason);
        part->reason = error;
    }
    if (error && hint) {
        free(part->hint);
        part->hint = hint;
    } else {
        free(hint);
    }
}

// ---- compiling -------------------------------------------------------------------------------

typedef struct Work {
    const Grader *grader;
    const ExerciseFolder *exercise;
    char *own;
    char *warning; // the compiler's first, or NULL
} Work;

// `doing` is said to those who wait: "compiling". `facts` is the one file that may be written in
// the folder; NULL: all may.
static Outcome run_there(const Work *w, const char *command, const char *doing, const char *facts,
                         double seconds) {
    Sandbox sandbox = {.trust = w->grader->trust,
                       .project = w->grader->project,
                       .library = w->grader->library,
                       .given = w->exercise->given,
                       .own = w->own,
                       .may_write = !facts,
                       .facts = facts};
    char **arguments = sandbox_command(&sandbox, command);
    char *said = xprintf("%s%s, %s", w->grader->who, w->exercise->id, doing);
    Bounds bounds = {.seconds = seconds,
                     .megabytes = MEGABYTES,
                     .processes = MOST_PROCESSES,
                     .printed = MOST_PRINTED,
                     .strangers = w->grader->trust != OWN_WORK,
                     .doing = said};
    Outcome outcome = run_in_bounds(arguments, bounds);
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
    char *missing = after(printed, "undefined reference to ");
    char *twice = after(printed, "multiple definition of ");
    char *error = missing ? xprintf("nothing defines %s", missing)
                  : twice ? xprintf("defined here, too: %.*s", (int)strcspn(twice, ";"), twice)
                          : after(printed, "error: ");
    free(missing);
    free(twice);
    return error ? error : compile_error(printed);
}

// One of the two steps; false if it fails.
static bool make(Work *w, Grade *grade, const char *command, const char *does_not,
                 char *(*error_in)(const char *printed), const char *hint) {
    Outcome outcome = run_there(w, command, "compiling", NULL, COMPILE_SECONDS);
    bool made = outcome.how == BY_ITSELF && outcome.status == 0;
    if (outcome.status == 126 || outcome.status == 127) // no mistake of the hand-in's
        die("make builds the project with the same compiler: does that work?",
            "the compiler cannot be run: %s", visible(outcome.printed));
    if (outcome.how != BY_ITSELF) {
        grade->reason = xprintf("%s: the compiler %s", does_not, out_of_bounds(outcome.how));
        grade->hint = xstrdup("a macro or an #include without end?");
    } else if (made) {
        if (!w->warning) w->warning = after(outcome.printed, "warning: ");
    } else {
        char *error = error_in(outcome.printed);
        grade->reason = xprintf("%s: %s", does_not, error);
        grade->hint = after(outcome.printed, "hint: ");
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
                "the exercise's functions, under their names, and nothing else of what was given");
}

// ---- running ---------------------------------------------------------------------------------

// A file that the program may write, whatever stood there before.
static char *make_facts(const char *own) {
    char *path = path_join(own, "facts.tsv");
    remove(path);
    FILE *facts = fopen(path, "wx");
    if (!facts || fclose(facts) != 0 || chmod(path, 0666) != 0)
        die("is the disk full?", "%s: %s", path, strerror(errno));
    return path;
}

static void judge_parts(Grade *grade, const char *facts, const Outcome *outcome, double seconds) {
    const ExerciseFolder *e = grade->exercise;
    Transcript came = {0};
    transcript_open(&came, facts);
    Judgement j = judge(&e->expected, &came);
    for (int i = 0; i < e->num_parts; i++) {
        PartGrade *part = &grade->parts[i];
        int number = e->parts[i].number;
        part->passed = j.passed[number];
        if (part->passed)
            grade->points += e->parts[i].points;
        else if (outcome->how != BY_ITSELF && !all_came(&j, number))
            explain_bounds(part, outcome->how, seconds);
        else
            explain_lost(part, &j, number, outcome);
    }
    judgement_free(&j);
    transcript_free(&came);
}

static void run_and_judge(const Work *w, Grade *grade) {
    chmod(w->own, 0755); // what runs does not change what will run
    char *facts = make_facts(w->own);
    Outcome outcome = run_there(w, "exec \"$OWN/program\" --facts \"$OWN/facts.tsv\" 1", "running",
                                facts, w->grader->seconds);
    grade->seconds = outcome.seconds;
    judge_parts(grade, facts, &outcome, w->grader->seconds);
    outcome_free(&outcome);
    free(facts);
}

// ---- an exercise -----------------------------------------------------------------------------

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
        run_and_judge(&work, &grade);
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
