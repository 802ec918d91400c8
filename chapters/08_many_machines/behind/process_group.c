// process_group.c: groups of ranks, which sum they use, and what they tell each other; see ranks.h.
// How a collective is enqueued is in group.c.
#include "behind.h"

#include "common/base/error.h"
#include "chapters/08_many_machines/group.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void dist_note(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(world.note, sizeof world.note, format, args);
    va_end(args);
    memcpy(world.why, world.note, sizeof world.why);
    world.parts = 0;
}

void dist_note_part(const char *part) {
    snprintf(world.why, sizeof world.why, "%s %d, %.64s", part, world.parts++, world.note);
}

void dist_wait_patiently(bool on) { watch_patiently(on); }

// ## The sum

static const struct {
    const char *name;
    Collective *run;
} sums[] = {{"star", all_reduce_star},
            {"sharded", all_reduce_sharded},
            {"ring", all_reduce_ring},
            {"tree", all_reduce_tree},
            {"nccl", NULL}};
enum { NUM_SUMS = sizeof sums / sizeof sums[0], STAR = 0, NCCL = 4, NOT_CHOSEN = -1 };
static int choice = NOT_CHOSEN;

void dist_choose_all_reduce(const char *name) {
    choice = 0;
    while (choice < NUM_SUMS && strcmp(sums[choice].name, name) != 0) choice++;
    CHECK(choice < NUM_SUMS, "there are star, sharded, ring, tree and nccl");
}

static int chosen(void) {
    if (choice != NOT_CHOSEN) return choice;
    return world.all.size > 1 && !world.why_no_nccl ? NCCL : STAR;
}
Collective *chosen_sum(void) { return sums[chosen()].run; }
const char *dist_chosen_all_reduce(void) { return sums[chosen()].name; }
bool dist_order_is_fixed(void) { return chosen() != NCCL; }
const char *dist_why_no_nccl(void) { return world.why_no_nccl; }

// All ranks can, or none does.
void find_nccl(bool shares_gpu) {
    const char *mine = device_gpu(dist_device()) < 0 ? "its device is no GPU"
                       : shares_gpu                  ? "it shares a GPU with another rank"
                                                     : nccl_obstacle();
    char **all = gather_texts(mine ? mine : "");
    for (int r = 0; all[r] && !world.why_no_nccl; r++)
        if (*all[r]) world.why_no_nccl = xprintf("rank %d on %s: %s", r, dist_host_name(r), all[r]);
    free_texts(all);
    if (choice == NOT_CHOSEN && num_gpus() > 0 && dist_get_world_size() > 1 && world.why_no_nccl)
        warn("GPUs exchange through host memory, not by NCCL: %s", world.why_no_nccl);
}

// ## Groups

ProcessGroup *dist_new_group(int colour) {
    CHECK(colour >= 0, "a group has a colour from 0 on");
    const ProcessGroup *all = group_or_all(NULL);
    MPI_Comm comm = MPI_COMM_NULL;
    synchronize_all();
    if (all->size > 1)
        mpi_check(MPI_Comm_split(all->comm, colour, all->rank, &comm), "MPI_Comm_split");
    ProcessGroup *g = xmalloc(sizeof *g);
    *g = group_of(comm);
    group_gather("gather", g, &all->rank, sizeof all->rank, g->world_rank);
    return g;
}

void dist_free_group(ProcessGroup *group) {
    if (!group) return;
    synchronize_all();
    nccl_close(group);
    if (group->comm != MPI_COMM_NULL) mpi_check(MPI_Comm_free(&group->comm), "MPI_Comm_free");
    free(group->world_rank);
    free(group);
}

void dist_barrier(ProcessGroup *group) {
    char one = 1, *all = xmalloc((size_t)group_size(group));
    group_gather("barrier", group_or_all(group), &one, 1, all);
    free(all);
}

DistTraffic dist_traffic(void) {
    synchronize_all();
    return world.sent;
}
void dist_reset_traffic(void) {
    synchronize_all();
    world.sent = (DistTraffic){0};
}

// ## Texts of all ranks, and whether they are the same

char **gather_texts(const char *mine) {
    enum { LONGEST = 2048 };
    int size = dist_get_world_size();
    char padded[LONGEST] = "", *texts = xmalloc(LONGEST * (size_t)size);
    char **list = xcalloc((size_t)size + 1, sizeof *list);
    snprintf(padded, sizeof padded, "%s", mine);
    group_gather("gather", group_or_all(NULL), padded, sizeof padded, texts);
    for (int r = 0; r < size; r++) list[r] = xstrdup(texts + LONGEST * r);
    free(texts);
    return list;
}

void free_texts(char **texts) {
    for (int r = 0; texts[r]; r++) free(texts[r]);
    free(texts);
}

void dist_must_agree(const char *text) {
    char **texts = gather_texts(text);
    for (int r = 1; texts[r]; r++)
        for (const char *ours = texts[0], *theirs = texts[r]; *ours;) {
            int n = (int)strcspn(ours, "\n"), m = (int)strcspn(theirs, "\n");
            if (n != m || memcmp(ours, theirs, (size_t)n) != 0)
                die("start all ranks with the same program, the same flags and the same data, on "
                    "one kind of device",
                    "rank %d on %s has %.*s, rank 0 has %.*s", r, dist_host_name(r), m, theirs, n,
                    ours);
            ours += n + (ours[n] != '\0');
            theirs += m + (theirs[m] != '\0');
        }
    free_texts(texts);
}
