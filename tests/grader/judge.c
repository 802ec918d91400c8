// judge.c: judges what an exercise's functions did, by their facts.
//
//   judge EXPECTED FACTS [LOST]
//       points, what differs, and hints; status 1: not all points. The file LOST keeps which parts
//       were lost: with it, a hint is given only for those that were lost the last time, too
//   judge rows EXPECTED FACTS WHY SAID
//       a row for each part: number, points, of, what, reason, hint. WHY: how the program ended, if
//       not by itself; SAID: a file of what it has printed
//   judge shown TEXT
//       a stranger's text, so that it does nothing to a terminal
//   judge derive FACTS LIST
//       the expected facts: the solution's, and those of the rivals; LIST has a line NAME <tab>
//       PARTS <tab> HINT <tab> FACTS for each of them
//   judge rival EXPECTED FACTS NAME SEED
//       says in a line what is wrong if these facts of a known mistake do not lose what it declares
#include "judging.h"
#include "visible.h"
#include "common/base/error.h"

#include <stdlib.h>
#include <string.h>

static Transcript read_facts(const char *path) {
    Transcript t;
    if (!transcript_open(&t, path)) die("make exercise-NN-N makes it", "%s: cannot be read", path);
    return t;
}

// ---- derive ------------------------------------------------------------------------------------

static int read_rivals(const char *path, Rival rivals[], Transcript facts[]) {
    char *line = NULL;
    size_t room = 0;
    int n = 0;
    FILE *list = fopen(path, "r");
    if (!list) die("tests/grader/derive.sh writes it", "%s: cannot be read", path);
    for (; getline(&line, &room, list) > 0 && n < MOST_RIVALS; n++) {
        char *rest = xstrdup(line);
        rest[strcspn(rest, "\n")] = '\0';
        rivals[n] = (Rival){strsep(&rest, "\t"), strsep(&rest, "\t"), strsep(&rest, "\t")};
        CHECK(rest, "LIST: four fields");
        facts[n] = read_facts(rest);
    }
    free(line);
    fclose(list);
    return n;
}

// "~  0,3  17": the values of rivals that differ, equal ones in one line.
static void print_rivals_at(const Fact *fact, const Transcript rivals[], int n) {
    char *value[MOST_RIVALS];
    for (int r = 0; r < n; r++) {
        const Fact *its = transcript_find(&rivals[r], fact);
        value[r] = !its                           ? xstrdup("-")
                   : same_value(its->value, fact) ? NULL
                                                  : xstrdup(short_value(its->value));
    }
    for (int r = 0; r < n; r++) {
        if (!value[r]) continue;
        printf("~\t%d", r);
        for (int s = r + 1; s < n; s++) {
            if (!value[s] || strcmp(value[s], value[r]) != 0) continue;
            printf(",%d", s);
            free(value[s]);
            value[s] = NULL;
        }
        printf("\t%s\n", value[r]);
        free(value[r]);
    }
}

static void derive(const char *path, const char *list) {
    static Transcript facts[MOST_RIVALS];
    static Rival rivals[MOST_RIVALS];
    int n = read_rivals(list, rivals, facts), at = 0;
    Transcript solution = read_facts(path);
    char *line = NULL;
    size_t room = 0;
    FILE *file = fopen(path, "r");
    CHECK(file, "it was read before");
    for (int r = 0; r < n; r++)
        printf("rival\t%s\t%s\t%s\n", rivals[r].name, rivals[r].parts, rivals[r].hint);
    while (getline(&line, &room, file) > 0) {
        fputs(line, stdout);
        if (line[0] == '=') print_rivals_at(&solution.facts[at++], facts, n);
    }
    for (int g = 0; g < solution.num_groups; g++)
        if (!solution.groups[g].through)
            die("make exercise-NN-N SOLVED=1 shows it", "%s: the solution ended by: %s",
                solution.groups[g].group, solution.groups[g].how);
    free(line);
    fclose(file);
    check_stdout();
}

// ---- rival -------------------------------------------------------------------------------------

static bool is_lost(const Rival *rival, int part) {
    char *list = xprintf(" %s ", rival->parts), number[16];
    snprintf(number, sizeof number, " %d ", part);
    return strstr(list, number);
}

// With seed 1 a rival loses what it declares, and no more, and gets its own hint; with another at
// least what it declares.
static int check_rival(const Judgement *j, const char *name, bool strict) {
    int number = -1, first = 0;
    for (int r = 0; r < j->expected->num_rivals; r++)
        if (strcmp(j->expected->rivals[r].name, name) == 0) number = r;
    CHECK(number >= 0, "there is a rival of this name");
    const Rival *rivals = j->expected->rivals, *rival = &rivals[number];
    for (int p = j->expected->num_parts; p >= 1; p--) {
        bool declared = is_lost(rival, p), lost = !j->passed[p];
        if (lost) first = p;
        if (lost == declared || (lost && !strict)) continue;
        printf("%s [%s] %s part %d\n", name, rival->parts, lost ? "loses" : "does not lose", p);
        return EXIT_FAILURE;
    }
    int said = judgement_rival(j, first);
    if (!strict || (said >= 0 && strcmp(rivals[said].hint, rival->hint) == 0)) return EXIT_SUCCESS;
    printf("%s gets the hint of %s in part %d\n", name, said < 0 ? "no rival" : rivals[said].name,
           first);
    return EXIT_FAILURE;
}

// ---- rows --------------------------------------------------------------------------------------

// What stands after `mark` in the first line that has it; NULL: no line has it.
static char *after(const char *text, const char *mark) {
    const char *found = strstr(text, mark);
    if (!found) return NULL;
    found += strlen(mark);
    char *line = xprintf("%.*s", (int)strcspn(found, "\n"), found), *shown = visible(line);
    free(line);
    return shown;
}

static bool all_came(const Judgement *j, int part) {
    for (int i = 0; i < j->expected->num_facts; i++)
        if (j->expected->facts[i].part == (uint32_t)part && !j->of[i]) return false;
    return true;
}

// A program that ends itself mostly says why. (Of one that crashed, the case says more.)
static void print_row(const Judgement *j, int p, const char *why, const char *said) {
    bool passed = j->passed[p];
    char *reason = passed ? xstrdup("") : judgement_reason(j, p);
    char *hint = passed ? xstrdup("") : judgement_hint(j, p);
    bool broken = !passed && *why && !all_came(j, p);
    if (broken || strncmp(reason, "exit with status", 16) == 0) {
        char *error = after(said, "error: "), *its_hint = after(said, "hint: ");
        if (error || broken) reason = error ? error : xstrdup(why);
        if (error && its_hint) hint = its_hint;
    }
    printf("%d\t%d\t%d\t%s\t%s\t%s\n", p, passed ? j->expected->points[p] : 0,
           j->expected->points[p], j->expected->what[p], reason, hint);
}

static void print_rows(const Judgement *j, const char *why, const char *path) {
    char said[1 << 16] = "";
    FILE *file = fopen(path, "r");
    if (file) said[fread(said, 1, sizeof said - 1, file)] = '\0';
    if (file) fclose(file);
    for (int p = 1; p <= j->expected->num_parts; p++) print_row(j, p, why, said);
    check_stdout();
}

// ---- points, for people --------------------------------------------------------------------------

static int print_judgement(const Judgement *j, const char *lost) {
    bool hinted[MOST_PARTS + 1] = {false}, held_back = false;
    FILE *file = lost ? fopen(lost, "r") : NULL;
    for (int p = 1; p <= MOST_PARTS; p++) hinted[p] = !lost;
    for (int p; file && fscanf(file, "%d", &p) == 1;)
        if (p >= 1 && p <= MOST_PARTS) hinted[p] = true;
    if (file) fclose(file);
    file = lost ? fopen(lost, "w") : NULL;
    for (int p = 1; p <= j->expected->num_parts; p++) {
        if (j->passed[p]) continue;
        if (lost && !file) hinted[p] = true; // nothing can be kept here, so this is the only time
        if (file) fprintf(file, "%d\n", p);
        held_back = held_back || !hinted[p];
    }
    if (file) fclose(file);
    judgement_print(j, hinted, stdout);
    if (held_back)
        puts("A hint comes when the same part fails again, or at once with ARGS=--hint.");
    check_stdout();
    return j->points == j->out_of && j->out_of > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char *argv[]) {
    set_program_name(argv[0]);
    const char *mode = argc > 1 ? argv[1] : "";
    if (argc == 4 && strcmp(mode, "derive") == 0) {
        derive(argv[2], argv[3]);
        return EXIT_SUCCESS;
    }
    if (argc == 3 && strcmp(mode, "shown") == 0) return puts(visible(argv[2])) < 0;
    bool rival = argc == 6 && strcmp(mode, "rival") == 0;
    bool rows = argc == 6 && strcmp(mode, "rows") == 0, with_mode = rival || rows;
    if (!with_mode && argc != 3 && argc != 4) die_usage("judge EXPECTED FACTS", "wrong arguments");
    Transcript expected = read_facts(argv[1 + with_mode]), came = read_facts(argv[2 + with_mode]);
    Judgement j = judge(&expected, &came);
    int status = EXIT_SUCCESS;
    if (rival)
        status = check_rival(&j, argv[4], strcmp(argv[5], "1") == 0);
    else if (rows)
        print_rows(&j, argv[4], argv[5]);
    else
        status = print_judgement(&j, argc == 4 ? argv[3] : NULL);
    judgement_free(&j);
    return status;
}
