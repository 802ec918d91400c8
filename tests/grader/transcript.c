// transcript.c: see transcript.h. What is read may be a stranger's: nothing in it is trusted.
#include "transcript.h"
#include "common/base/error.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_BYTES = 8 << 20, MOST_FACTS = 2000, MOST_IN_ALL = 20000 }; // (facts: in a case; in all)

// The next field of a line, cut off; "" if there is none.
static char *field(char **rest) {
    char *at = *rest, *end = at + strcspn(at, "\t");
    *rest = *end ? end + 1 : end;
    *end = '\0';
    return at;
}

static void read_fact(Transcript *t, Fact fact, char *rest) {
    t->forged = t->forged || t->num_facts == MOST_IN_ALL;
    if (t->forged) return; // none counts any more
    fact.part = (uint32_t)atoi(field(&rest));
    fact.given = (uint32_t)atoi(field(&rest));
    const char *tolerance = field(&rest);
    fact.at_most = strcmp(tolerance, "<=") == 0;
    fact.tolerance = atof(tolerance);
    fact.name = field(&rest);
    fact.value = rest;
    for (int i = t->num_facts - 1; i >= 0 && !t->forged; i--) {
        if (t->facts[i].group != fact.group || t->facts[i].number != fact.number) break;
        t->forged = strcmp(t->facts[i].name, fact.name) == 0 || t->num_facts - i > MOST_FACTS;
    }
    if ((t->num_facts & (t->num_facts - 1)) == 0) // 0, 1, 2, 4, 8 ..: twice the room
        t->facts = xgrow(t->facts, 2 * (size_t)t->num_facts + 1, sizeof *t->facts);
    t->facts[t->num_facts++] = fact;
}

static void read_values_of_rivals(Fact *fact, char *rest) {
    char *list = field(&rest), *place;
    for (char *r = strtok_r(list, ",", &place); r; r = strtok_r(NULL, ",", &place))
        if (atoi(r) >= 0 && atoi(r) < MOST_RIVALS) fact->rivals[atoi(r)] = rest;
}

Transcript transcript_read(char *text) {
    Transcript t = {.text = text};
    Fact at = {.group = "", .test = ""}; // where in the file we are
    Ended *ended = NULL;
    for (char *line = text, *next; line && *line; line = next) {
        if ((next = strchr(line, '\n'))) *next++ = '\0';
        char *rest = line, *tag = field(&rest);
        if (strcmp(tag, "=") == 0) {
            read_fact(&t, at, rest);
        } else if (strcmp(tag, "~") == 0 && t.num_facts > 0) {
            read_values_of_rivals(&t.facts[t.num_facts - 1], rest);
        } else if (strcmp(tag, "case") == 0) {
            at.test = rest;
            at.number++;
            if (ended) ended->last_case = rest;
        } else if (strcmp(tag, "group") == 0 && t.num_groups < MOST_GROUPS) {
            at = (Fact){.group = rest, .test = ""};
            ended = &t.groups[t.num_groups++];
            *ended = (Ended){.group = rest, .last_case = "its first case", .how = "no end"};
        } else if (strcmp(tag, "through") == 0 && ended) {
            ended->through = true;
        } else if (strcmp(tag, "ended") == 0 && ended) {
            ended->how = rest;
        } else if (strcmp(tag, "part") == 0 && t.num_parts < MOST_PARTS) {
            t.points[++t.num_parts] = atoi(field(&rest));
            t.what[t.num_parts] = rest;
        } else if (strcmp(tag, "rival") == 0 && t.num_rivals < MOST_RIVALS) {
            Rival *rival = &t.rivals[t.num_rivals++];
            rival->name = field(&rest);
            rival->parts = field(&rest);
            rival->hint = rest;
        }
    }
    return t;
}

bool transcript_open(Transcript *t, const char *path) {
    struct stat status;
    int file = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) return false;
    bool is_plain = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
    char *text = xmalloc(MOST_BYTES + 1);
    size_t n = 0;
    for (ssize_t came; is_plain && (came = read(file, text + n, MOST_BYTES - n)) > 0;)
        n += (size_t)came;
    close(file);
    text[n] = '\0';
    *t = transcript_read(text);
    return is_plain;
}

void transcript_free(Transcript *t) {
    free(t->facts);
    free(t->text);
}

// Facts come in the same order in every run, but for those of several processes; so mostly it is
// the one behind the last that was found.
const Fact *transcript_find(const Transcript *t, const Fact *like) {
    static int at;
    for (int i = 0; i < t->num_facts; i++, at++) {
        if (at >= t->num_facts) at = 0;
        const Fact *fact = &t->facts[at];
        if (fact->number == like->number && strcmp(fact->name, like->name) == 0 &&
            strcmp(fact->test, like->test) == 0 && strcmp(fact->group, like->group) == 0)
            return &t->facts[at++];
    }
    return NULL;
}
