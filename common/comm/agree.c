// agree.c: texts of all ranks, and whether they are the same; see process_group.h.
#include "process_group.h"

#include "common/base/error.h"
#include "group.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

// First their lengths, then as many bytes of each as the longest has.
char **dist_gather_texts(ProcessGroup *group, const char *mine) {
    int size = group_size(group);
    double length = (double)strlen(mine), longest = 0;
    double *lengths = xmalloc(sizeof *lengths * (size_t)size);
    dist_gather(group, &length, 1, lengths);
    for (int r = 0; r < size; r++) longest = fmax(longest, lengths[r]);
    size_t room = (size_t)longest + 1;
    char *padded = xcalloc(1, room), *all = xmalloc(room * (size_t)size);
    char **texts = xmalloc(sizeof *texts * (size_t)size);
    memcpy(padded, mine, strlen(mine));
    group_gather("gather", group, padded, room, all);
    for (int r = 0; r < size; r++) texts[r] = xstrdup(all + room * (size_t)r);
    free(all);
    free(padded);
    free(lengths);
    return texts;
}

void dist_free_texts(ProcessGroup *group, char **texts) {
    for (int r = 0; r < group_size(group); r++) free(texts[r]);
    free(texts);
}

// "rank 2 on node7 has", "ranks 1, 2, 3, 4 and 11 more have": those with the same text as rank r.
static char *who_has(char *const texts[], int r) {
    enum { MOST_NAMED = 4 };
    int last = r, count = 0, named = 1;
    for (int other = r; other < dist_get_world_size(); other++)
        if (strcmp(texts[other], texts[r]) == 0) count++;
    if (count == 1) return xprintf("rank %d on %s has", r, dist_host_name(r));
    char *list = xprintf("ranks %d", r);
    while (named < count && named < MOST_NAMED) {
        do last++;
        while (strcmp(texts[last], texts[r]) != 0);
        char *longer = xprintf("%s%s%d", list, ++named == count ? " and " : ", ", last);
        free(list);
        list = longer;
    }
    char *all = named == count ? xprintf("%s have", list)
                               : xprintf("%s and %d more have", list, count - named);
    free(list);
    return all;
}

// (All find the same, and rank 0 says it: let_another_speak().)
static void must_agree(const char *what, const char *value, const char *hint) {
    char **values = dist_gather_texts(NULL, value);
    for (int r = 1; r < dist_get_world_size(); r++)
        if (strcmp(values[r], values[0]) != 0)
            die(hint, "%s %s %s, rank 0 has %s", who_has(values, r), what, values[r], values[0]);
    dist_free_texts(NULL, values);
}

void dist_must_agree(const char *what, const char *value) {
    must_agree(what, value,
               "start all ranks with the same program, the same flags and the same data");
}

void dist_must_agree_on_devices(void) {
    for (int i = 0; i < dist_local_devices(); i++) {
        char *kind = device_kind(dist_device(i));
        must_agree(
            "a device of the kind", kind,
            "start all ranks on one kind of device; CPUs are of one kind with BOOK_ISA=v1 in the "
            "environment of all ranks");
        free(kind);
    }
}

void dist_must_agree_on_program(void) {
    unsigned char bytes[1 << 16];
    uLong sum = crc32(0, NULL, 0);
    FILE *program = fopen("/proc/self/exe", "rb");
    if (!program) return;
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, program)) > 0;)
        sum = crc32(sum, bytes, (uInt)n);
    fclose(program);
    char text[32];
    snprintf(text, sizeof text, "%08lx", sum);
    dist_must_agree("a program with the checksum", text);
}
