// transcript.h: the facts of one run of an exercise (common/program/facts.h), read from its file. A
// file of expected facts, expected.tsv, has lines more, which `judge derive` adds:
//
//     seed   SEED                    from which its cases were drawn (derive.sh writes it)
//     rival  NAME  PARTS  HINT       a known mistake, the parts that it loses ("3 4"), what to say
//     ~      RIVALS  VALUE           below a fact: rivals number 0,3,7 have this value there, or
//                                    #hash of a long one; "-": none, as they did not come so far
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { MOST_PARTS = 16, MOST_RIVALS = 64, MOST_GROUPS = 32 };

typedef struct Fact {
    char *group, *test, *name, *value;
    int number;     // of its case in the group, from 1
    uint32_t part;  // from 1
    uint32_t given; // bit p: counts only with the points of part p
    bool at_most;   // the value may be smaller
    double tolerance;
    char *rivals[MOST_RIVALS]; // their values; NULL: this one
} Fact;

typedef struct Ended {
    char *group, *last_case, *how;
    bool through;
} Ended;

typedef struct Rival {
    char *name, *parts, *hint;
} Rival;

typedef struct Transcript {
    char *text; // that all the others point into
    Fact *facts;
    int num_facts, num_parts, num_rivals, num_groups;
    bool forged; // a fact came twice in its case, or far too many: facts.c does not let it
    int points[MOST_PARTS + 1]; // of part p, from 1
    char *what[MOST_PARTS + 1];
    Rival rivals[MOST_RIVALS];
    Ended groups[MOST_GROUPS];
} Transcript;

// Cuts up the text, which is kept until transcript_free(). Lines that make no sense are passed
// over: no fact is in them.
Transcript transcript_read(char *text);
// That of a plain file, of which up to 8 MB are read. Returns false, without a word, if there is
// none.
bool transcript_open(Transcript *t, const char *path);
void transcript_free(Transcript *t);

// The fact of `t` with the same group, case and name; NULL: there is none.
const Fact *transcript_find(const Transcript *t, const Fact *like);
