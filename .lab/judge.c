// judge.c: judges what an exercise's functions did, by their facts.
//
//     judge EXPECTED FACTS             prints points, what differs, and hints; status 1: not all
//     points judge rival EXPECTED FACTS NAME  says in a line what is wrong if these facts of a
//     known mistake
//                                      do not lose the parts that it declares, or get another hint
//     judge derive FACTS LIST          the expected facts, on stdout: the solution's, and those of
//     the
//                                      rivals; LIST has a line NAME <tab> PARTS <tab> HINT <tab>
//                                      FACTS for each of them
#include "judging.h"
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
    if (!list) die(".lab/derive.sh writes it", "%s: cannot be read", path);
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

static int check_rival(const Judgement *j, const char *name) {
    int number = -1, first = 0;
    char lost[64] = "";
    for (int r = 0; r < j->expected->num_rivals; r++)
        if (strcmp(j->expected->rivals[r].name, name) == 0) number = r;
    CHECK(number >= 0, "there is a rival of this name");
    for (int p = j->expected->num_parts; p >= 1; p--) {
        if (j->passed[p]) continue;
        char *more = xprintf("%d%s%s", p, *lost ? " " : "", lost);
        snprintf(lost, sizeof lost, "%s", more);
        free(more);
        first = p;
    }
    if (strcmp(lost, j->expected->rivals[number].parts) != 0) {
        printf("%s loses [%s], not [%s]\n", name, lost, j->expected->rivals[number].parts);
        return EXIT_FAILURE;
    }
    int said = judgement_rival(j, first);
    if (said >= 0 && strcmp(j->expected->rivals[said].hint, j->expected->rivals[number].hint) == 0)
        return EXIT_SUCCESS;
    printf("%s gets the hint of %s in part %d\n", name,
           said < 0 ? "no rival" : j->expected->rivals[said].name, first);
    return EXIT_FAILURE;
}

int main(int argc, char *argv[]) {
    set_program_name(argv[0]);
    if (argc == 4 && strcmp(argv[1], "derive") == 0) {
        derive(argv[2], argv[3]);
        return EXIT_SUCCESS;
    }
    bool rival = argc == 5 && strcmp(argv[1], "rival") == 0;
    if (!rival && argc != 3) die_usage("judge EXPECTED FACTS", "wrong arguments");
    Transcript expected = read_facts(argv[1 + rival]), came = read_facts(argv[2 + rival]);
    Judgement j = judge(&expected, &came);
    int status = j.points == j.out_of && j.out_of > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    if (rival)
        status = check_rival(&j, argv[4]);
    else
        judgement_print(&j, stdout);
    judgement_free(&j);
    return status;
}
