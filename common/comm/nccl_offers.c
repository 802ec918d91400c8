// nccl_offers.c: see nccl_obstacle() in nccl.h. Each rank compares the same texts, so all come to
// the same answer without another word.
#include "nccl.h"

#include "common/base/error.h"

#include <stdlib.h>
#include <string.h>

// A word of an offer, and who offers it.
typedef struct Word {
    const char *text;
    size_t length;
    int rank;
} Word;

static bool same_word(const Word *a, const Word *b) {
    return a->length == b->length && memcmp(a->text, b->text, a->length) == 0;
}

// Appends a rank's words; returns how many there are then.
static int add_words(Word words[], int n, const char *offer, int rank) {
    while (*offer) {
        size_t length = strcspn(offer, " ");
        words[n++] = (Word){.text = offer, .length = length, .rank = rank};
        offer += length;
        offer += strspn(offer, " ");
    }
    return n;
}

// The first word of each is its library's version, the others are its GPUs.
static char *compare(const Word words[], int n, const char *const hosts[]) {
    for (int i = 1; i < n; i++) {
        const Word *mine = &words[i], *first = &words[0];
        bool is_version = mine->rank != words[i - 1].rank;
        if (is_version && !same_word(mine, first))
            return xprintf("rank %d on %s has version %.*s of it, rank 0 has %.*s", mine->rank,
                           hosts[mine->rank], (int)mine->length, mine->text, (int)first->length,
                           first->text);
        for (int j = 1; j < i && !is_version; j++)
            if (same_word(mine, &words[j]))
                return mine->rank == words[j].rank
                           ? xprintf("rank %d on %s has two devices on one GPU", mine->rank,
                                     hosts[mine->rank])
                           : xprintf("ranks %d and %d on %s share a GPU", words[j].rank, mine->rank,
                                     hosts[mine->rank]);
    }
    return NULL;
}

char *nccl_obstacle(char *const offers[], const char *const hosts[], int ranks) {
    size_t letters = 0;
    for (int r = 0; r < ranks; r++) {
        if (offers[r][0] == '!') return xprintf("rank %d on %s: %s", r, hosts[r], offers[r] + 1);
        letters += strlen(offers[r]);
    }
    Word *words = xmalloc(sizeof *words * (letters + 1)); // more than enough
    int n = 0;
    for (int r = 0; r < ranks; r++) n = add_words(words, n, offers[r], r);
    char *why = compare(words, n, hosts);
    free(words);
    return why;
}
