// judging.c: see judging.h.
#include "judging.h"
#include "visible.h"
#include "common/base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LONG_VALUE = 40, MOST_SHOWN = 3 };

// ---- values ------------------------------------------------------------------------------------

// A long one as its hash (FNV-1a). The text is replaced by the next call.
const char *short_value(const char *value) {
    static char text[16];
    uint32_t hash = 2166136261u;
    if (strlen(value) <= LONG_VALUE) return value;
    for (const char *c = value; *c; c++) hash = (hash ^ (unsigned char)*c) * 16777619u;
    snprintf(text, sizeof text, "#%08x", hash);
    return text;
}

static double largest_of(const char *numbers) {
    double largest = 0;
    for (char *end;; numbers = end) {
        double x = strtod(numbers, &end);
        if (end == numbers) return largest;
        if (isfinite(x)) largest = fmax(largest, fabs(x));
    }
}

// As many numbers, each of which differs by at most `tolerance` times the largest that is expected.
static bool are_near(const char *came, const char *expected, double tolerance) {
    double most = tolerance * largest_of(expected);
    for (char *a, *b;; came = a, expected = b) {
        double x = strtod(came, &a), y = strtod(expected, &b);
        if (a == came || b == expected) return strcmp(came, expected) == 0;
        if (!(x == y || fabs(x - y) <= most)) return false; // (or both are infinite)
    }
}

static bool is_at_most(const char *came, const char *expected) {
    char *end;
    double x = strtod(came, &end);
    return end != came && !*end && x <= strtod(expected, NULL);
}

static bool are_same(const char *came, const char *expected, bool at_most, double tolerance) {
    if (!came) return false;
    if (at_most) return is_at_most(came, expected);
    return tolerance > 0 ? are_near(came, expected, tolerance) : strcmp(came, expected) == 0;
}
bool same_value(const char *came, const Fact *expected) {
    return are_same(came, expected->value, expected->at_most, expected->tolerance);
}

static bool same_as_rival(const char *came, const Fact *expected, int r) {
    const char *its = expected->rivals[r];
    if (!its) return same_value(came, expected);
    bool it_has_none = strcmp(its, "-") == 0;
    if (it_has_none || !came) return it_has_none && !came;
    if (strcmp(came, its) == 0) return true; // a NaN, too: the same mistake led to it
    if (*its == '#') return strcmp(short_value(came), its) == 0;
    return are_same(came, its, false, fmax(expected->tolerance, 1e-12));
}

// ---- points ------------------------------------------------------------------------------------

static const char *value_of(const Judgement *j, int i) { return j->of[i] ? j->of[i]->value : NULL; }

static bool counts(const Judgement *j, int i, int part) {
    const Fact *f = &j->expected->facts[i];
    if (f->part != (uint32_t)part) return false;
    for (int other = 1; other <= MOST_PARTS; other++)
        if (f->given >> other & 1 && !j->passed[other]) return false;
    return true;
}

static bool is_case_of(const Transcript *t, int i, int first) {
    return i < t->num_facts && t->facts[i].test == t->facts[first].test &&
           t->facts[i].number == t->facts[first].number;
}

Judgement judge(const Transcript *expected, const Transcript *came) {
    Judgement j = {.expected = expected, .came = came};
    j.of = xcalloc((size_t)expected->num_facts + 1, sizeof *j.of);
    j.right = xcalloc((size_t)expected->num_facts + 1, sizeof *j.right);
    j.forged = came->forged || came->num_groups > expected->num_groups;
    for (int i = 0; i < expected->num_facts; i++) {
        j.of[i] = transcript_find(came, &expected->facts[i]);
        j.right[i] = !j.forged && same_value(value_of(&j, i), &expected->facts[i]);
    }
    for (int p = 1; p <= expected->num_parts; p++) { // PART_IF() names earlier parts
        int num = 0, wrong = 0;
        for (int i = 0; i < expected->num_facts; i++) {
            if (!counts(&j, i, p)) continue;
            num++;
            wrong += !j.right[i];
        }
        j.passed[p] = num > 0 && wrong == 0;
        j.out_of += expected->points[p];
        if (j.passed[p]) j.points += expected->points[p];
    }
    return j;
}

void judgement_free(Judgement *j) {
    free(j->of);
    free(j->right);
}

// The first fact of a part that is wrong; -1: none is, as none counted.
static int first_wrong(const Judgement *j, int part) {
    for (int i = 0; i < j->expected->num_facts; i++)
        if (counts(j, i, part) && !j->right[i]) return i;
    return -1;
}

// ---- which mistake it is -------------------------------------------------------------------------

// How much a hand-in is like a rival in one part.
typedef struct Likeness {
    long differ;      // facts of the part in which the two are not the same
    long own;         // facts in which the rival is wrong
    long wrong, like; // cases that the hand-in has wrong; of these, the same as the rival's
    long told;        // facts that the hand-in has wrong, not missing
    long agree;       // facts of all parts in which the two are the same
    bool shown;       // the same in the case that is shown
} Likeness;

static Likeness likeness(const Judgement *j, int part, int shown, int r) {
    Likeness l = {0};
    const Transcript *e = j->expected;
    for (int first = 0, i; first < e->num_facts; first = i) { // a case
        long differ = 0, wrong = 0;
        for (i = first; is_case_of(e, i, first); i++) {
            bool same = same_as_rival(value_of(j, i), &e->facts[i], r);
            l.agree += same;
            if (!counts(j, i, part)) continue;
            differ += !same;
            wrong += !j->right[i];
            l.told += !j->right[i] && value_of(j, i);
            l.own += e->facts[i].rivals[r] != NULL;
        }
        l.differ += differ;
        l.wrong += wrong > 0;
        l.like += wrong > 0 && differ == 0;
        if (is_case_of(e, shown, first)) l.shown = differ == 0;
    }
    return l;
}

static bool is_starter(const Judgement *j, int r) {
    return strcmp(j->expected->rivals[r].name, "starter") == 0;
}

// A rival that agrees in the whole part, or in two thirds of the cases that differ, the one that is
// shown among them. (That nothing came says little: then it must agree in the facts of all parts.)
// Of several, the one that agrees in most facts of all.
int judgement_rival(const Judgement *j, int part) {
    int best = -1, shown = first_wrong(j, part);
    bool best_whole = false;
    long best_agree = -1;
    for (int r = 0; shown >= 0 && r < j->expected->num_rivals; r++) {
        Likeness l = likeness(j, part, shown, r);
        bool whole = l.differ == 0, mostly = 3 * l.like >= 2 * l.wrong;
        if (l.told == 0 && l.agree < j->expected->num_facts) continue;
        if (j->points > 0 && is_starter(j, r)) l.agree = 0; // others first
        if (l.own == 0 || !l.shown || !(whole || mostly) || whole < best_whole) continue;
        if (whole == best_whole && l.agree <= best_agree) continue;
        best = r;
        best_whole = whole;
        best_agree = l.agree;
    }
    return best;
}

// ---- words ---------------------------------------------------------------------------------------

// Of a long list only what follows the first difference.
static char *difference(const char *came, const Fact *expected) {
    if (!came) return xprintf("%s: nothing, expected %.60s", expected->name, expected->value);
    char *shown = visible(came), *text;
    const char *a = shown, *b = expected->value, *more = expected->at_most ? "at most " : "";
    int element = 0;
    bool is_long = strlen(a) + strlen(b) > 150;
    for (const char *s = a, *t = b; is_long && *s && *s == *t; s++, t++) {
        if (*s != ' ') continue;
        element++;
        a = s + 1;
        b = t + 1;
    }
    text = element == 0 ? xprintf("%s: %.150s, expected %s%.150s", expected->name, a, more, b)
                        : xprintf("%s, from index %d on: %.40s .., expected %.40s ..",
                                  expected->name, element, a, b);
    free(shown);
    return text;
}

// How the process of a group ended that did not come through; NULL: it did.
static const Ended *broken_off(const Judgement *j, const char *group) {
    for (int g = 0; g < j->came->num_groups; g++)
        if (!j->came->groups[g].through && strcmp(j->came->groups[g].group, group) == 0)
            return &j->came->groups[g];
    return NULL;
}

static char *end_text(const Ended *ended) {
    char *text = xprintf("%.60s, in: %.200s", ended->how, ended->last_case), *shown = visible(text);
    free(text);
    return shown;
}

char *judgement_reason(const Judgement *j, int part) {
    int i = first_wrong(j, part);
    if (j->forged) return xstrdup("there are facts that no case has recorded");
    if (i < 0) return xstrdup("not looked at, as a part above has not passed");
    const Ended *ended = j->of[i] ? NULL : broken_off(j, j->expected->facts[i].group);
    if (ended) return end_text(ended);
    char *text = difference(value_of(j, i), &j->expected->facts[i]);
    char *reason = xprintf("%s: %s", j->expected->facts[i].test, text);
    free(text);
    return reason;
}

char *judgement_hint(const Judgement *j, int part) {
    int r = judgement_rival(j, part), i = first_wrong(j, part);
    if (r >= 0 && j->points > 0 && is_starter(j, r))
        return xstrdup("nothing of this is written yet");
    if (r >= 0) return xstrdup(j->expected->rivals[r].hint);
    const Ended *ended = i < 0 ? NULL : broken_off(j, j->expected->facts[i].group);
    if (ended && strncmp(ended->how, "no end", 6) == 0)
        return xstrdup("a loop without end, or it waits for what never comes");
    if (ended && strcmp(ended->how, "crash: Killed") == 0)
        return xstrdup("more memory than there is for it: is something allocated in each step?");
    if (ended && strncmp(ended->how, "crash", 5) == 0)
        return xstrdup("an index too large, or a pointer that points nowhere: gdb shows where");
    if (ended)
        return xstrdup("something of yours has ended the program: it is to go on, and return");
    return i < 0 ? xstrdup("mend that first") : xstrdup("work this case out on paper");
}

// `said` is the hint above, or NULL: it is not said twice. Returns this one, or `said` if none is
// due.
static char *print_lost(const Judgement *j, int part, bool hinted, char *said, FILE *to) {
    const Transcript *e = j->expected;
    int shown = first_wrong(j, part), cases = 0, wrong_cases = 0, wrong = 0;
    for (int first = 0, i; first < e->num_facts; first = i) {
        int of_part = 0, differ = 0;
        for (i = first; is_case_of(e, i, first); i++) {
            of_part += counts(j, i, part);
            differ += counts(j, i, part) && !j->right[i];
        }
        cases += of_part > 0;
        wrong_cases += differ > 0;
    }
    if (shown >= 0)
        fprintf(to, "    %s  (%d of %d cases differ)\n", e->facts[shown].test, wrong_cases, cases);
    for (int i = shown; i >= 0 && is_case_of(e, i, shown); i++) {
        if (!counts(j, i, part) || j->right[i] || ++wrong > MOST_SHOWN) continue;
        char *text = difference(value_of(j, i), &e->facts[i]);
        fprintf(to, "      %s\n", text);
        free(text);
    }
    if (wrong > MOST_SHOWN) fprintf(to, "      and %d more of this case\n", wrong - MOST_SHOWN);
    const Ended *ended = shown < 0 ? NULL : broken_off(j, e->facts[shown].group);
    char *end = ended ? end_text(ended) : NULL;
    if (end) fprintf(to, "      the program broke off: %s\n", end);
    free(end);
    if (shown < 0) fprintf(to, "    not looked at, as a part above has not passed\n");
    if (!hinted) return said;
    char *hint = judgement_hint(j, part);
    if (!said || strcmp(said, hint) != 0) fprintf(to, "    hint: %s\n", hint);
    free(said);
    return hint;
}

void judgement_print(const Judgement *j, const bool hinted[], FILE *to) {
    char *said = NULL;
    for (int p = 1; p <= j->expected->num_parts; p++) {
        int points = j->expected->points[p];
        fprintf(to, "%s %d of %d  %s\n", j->passed[p] ? "✓" : "✗", j->passed[p] ? points : 0,
                points, j->expected->what[p]);
        if (!j->passed[p]) said = print_lost(j, p, hinted[p], said, to);
    }
    free(said);
    fprintf(to, "%d of %d points\n", j->points, j->out_of);
}
