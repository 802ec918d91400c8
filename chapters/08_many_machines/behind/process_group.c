// process_group.c: groups of ranks, and how a collective is enqueued; see ranks.h. The messages are
// in star.c and collectives.c.
#include "group.h"

#include "common/base/error.h"
#include "chapters/08_many_machines/watch.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    float *stage; // host memory for what a GPU exchanges without NCCL
    size_t stage_floats;
    char note[WHAT_LENGTH];
    char *why_no_nccl;   // NULL: there is
    DistTraffic traffic; // of the thread that communicates, unless its queue is empty
} here;

int group_rank(const ProcessGroup *group) { return group_or_all(group)->rank; }
int group_size(const ProcessGroup *group) { return group_or_all(group)->size; }

void dist_note(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(here.note, sizeof here.note, format, args);
    va_end(args);
}

void dist_wait_patiently(bool on) { watch_patiently(on); }

// ## A collective, enqueued

typedef struct Work {
    Collective *run; // NULL: another queue's library does it
    Exchange x;
    const char *what;
    char why[WHAT_LENGTH];
} Work;

static void carry_out(void *context) {
    Work *work = context;
    watch_enter(work->what, work->why);
    if (work->run) {
        if (work->x.n > 0) work->run(&work->x);
        watch_leave(NULL);
    }
    free(work);
}

// The tags of two collectives differ if one comes after the other, or if they are of different
// kinds. So messages of one are never taken for the other's. (All numbers up to 32767 are tags.)
static int tag_of(long number, const char *what) {
    enum { KINDS = 8, NUMBERS = 4096 };
    static const char *const kinds[] = {"all_reduce", "broadcast", "reduce_scatter", "all_gather"};
    int kind = 0;
    while (kind < 4 && strcmp(kinds[kind], what) != 0) kind++;
    return (int)(number % NUMBERS) * KINDS + kind;
}

static void enqueue(const char *what, Collective *run, Exchange x) {
    Work *work = xmalloc(sizeof *work);
    *work = (Work){.run = run, .x = x, .what = what};
    work->x.tag = tag_of(++x.group->number, what);
    memcpy(work->why, here.note, sizeof work->why);
    queue_call(comm_queue(dist_device()), carry_out, work);
}

void enqueue_enter(ProcessGroup *g, const char *what) {
    enqueue(what, NULL, (Exchange){.group = g});
}
void enqueue_leave(void) { queue_call(comm_queue(dist_device()), watch_leave, NULL); }

static float *stage_of(size_t n) {
    if (n <= here.stage_floats) return here.stage;
    synchronize_all();
    device_free(host(), here.stage);
    here.stage_floats = n;
    return here.stage = device_alloc(host(), n * sizeof(float));
}

// A CPU's tensor is in host memory. Without NCCL a GPU's is copied there and back.
static void through_the_host(const char *what, Collective *run, ProcessGroup *g, Tensor *t,
                             int root) {
    Queue *queue = comm_queue(t->device);
    bool is_gpu = device_gpu(t->device) >= 0;
    Exchange x = {.group = g, .data = t->data, .n = numel(t), .root = root};
    queue_wait(queue, device_record(t->device)); // what the current queue has to do before
    if (is_gpu) {
        x.data = stage_of(x.n);
        queue_copy(queue, host(), x.data, t->device, t->data, tensor_bytes(t));
    }
    enqueue(what, run, x);
    if (is_gpu)
        queue_copy(queue, t->device, t->data, host(), x.data, tensor_bytes(t));
    else
        queue_uses(queue, t->data);
    device_wait(t->device, queue_record(queue));
}

void group_gather(const char *what, const ProcessGroup *group, const void *mine, size_t bytes,
                  void *all) {
    enqueue(what, gather_bytes,
            (Exchange){.group = group_or_all(group), .n = bytes, .mine = mine, .all = all});
    event_synchronize(queue_record(comm_queue(dist_device())));
}

// ## The collectives

static const struct {
    const char *name;
    Collective *run;
} sums[] = {{"star", all_reduce_star}, {"sharded", all_reduce_sharded}, {"ring", all_reduce_ring},
            {"tree", all_reduce_tree}, {"mpi", all_reduce_mpi},         {"nccl", NULL}};
enum { NUM_SUMS = sizeof sums / sizeof sums[0], STAR = 0, MPI = 4, NCCL = 5, NOT_CHOSEN = -1 };
static int choice = NOT_CHOSEN;

static void must_have_nccl(void) {
    if (choice == NCCL && here.why_no_nccl)
        die("leave the choice to the program: GPUs then exchange through host memory",
            "no NCCL: %s", here.why_no_nccl);
}

void dist_choose_all_reduce(const char *name) {
    for (int s = 0; s < NUM_SUMS; s++)
        if (strcmp(sums[s].name, name) == 0) {
            choice = s;
            must_have_nccl();
            return;
        }
    die("there are star, sharded, ring, tree, mpi and nccl", "there is no all_reduce '%s'", name);
}

static int chosen(void) {
    if (choice != NOT_CHOSEN) return choice;
    bool several = dist_is_initialized() && dist_get_world_size() > 1;
    return several && !here.why_no_nccl ? NCCL : STAR;
}
const char *dist_chosen_all_reduce(void) { return sums[chosen()].name; }
bool dist_order_is_fixed(void) { return chosen() != MPI && chosen() != NCCL; }
const char *dist_why_no_nccl(void) { return here.why_no_nccl; }

// All ranks can, or none does.
void find_nccl(bool shares_gpu) {
    const char *mine = device_gpu(dist_device()) < 0 ? "its device is no GPU"
                       : shares_gpu                  ? "it shares a GPU with another rank"
                                                     : nccl_obstacle();
    char **all = gather_texts(mine ? mine : "");
    for (int r = 0; all[r] && !here.why_no_nccl; r++)
        if (*all[r]) here.why_no_nccl = xprintf("rank %d on %s: %s", r, dist_host_name(r), all[r]);
    free_texts(all);
    must_have_nccl();
    if (choice == NOT_CHOSEN && num_gpus() > 0 && dist_get_world_size() > 1 && here.why_no_nccl)
        warn("GPUs exchange through host memory, not by NCCL: %s", here.why_no_nccl);
}

static bool by_nccl(const ProcessGroup *group, const Tensor *t) {
    CHECK(t->device == dist_device(), "what is exchanged is on this rank's device");
    CHECK(has_values(t->device), "devices without values have nothing to exchange");
    return chosen() == NCCL && numel(t) > 0 && group_size(group) > 1;
}

void dist_all_reduce(ProcessGroup *group, Tensor *t) {
    ProcessGroup *g = group_or_all(group);
    if (by_nccl(g, t))
        nccl_all_reduce(g, t);
    else if (chosen() != NCCL)
        through_the_host("all_reduce", sums[chosen()].run, g, t, 0);
}
void dist_broadcast(ProcessGroup *group, Tensor *t, int root) {
    ProcessGroup *g = group_or_all(group);
    if (by_nccl(g, t))
        nccl_broadcast(g, t, root);
    else if (chosen() != NCCL)
        through_the_host("broadcast", broadcast_tree, g, t, root);
}
void dist_reduce_scatter(ProcessGroup *group, Tensor *t) {
    through_the_host("reduce_scatter", reduce_scatter_ring, group_or_all(group), t, 0);
}
void dist_all_gather(ProcessGroup *group, Tensor *t) {
    through_the_host("all_gather", all_gather_ring, group_or_all(group), t, 0);
}

void dist_barrier(ProcessGroup *group) {
    char one = 1, *all = xmalloc((size_t)group_or_all(group)->size);
    group_gather("barrier", group, &one, 1, all);
    free(all);
}

void dist_gather(ProcessGroup *group, const double mine[], int n, double all[]) {
    group_gather("gather", group, mine, sizeof *mine * (size_t)n, all);
}

void dist_sum(ProcessGroup *group, double values[], int n) {
    int size = group_or_all(group)->size;
    double *all = xmalloc(sizeof *all * (size_t)(size * n));
    dist_gather(group, values, n, all);
    for (int i = 0; i < n; i++) values[i] = 0;
    for (int r = 0; r < size; r++)
        for (int i = 0; i < n; i++) values[i] += all[r * n + i];
    free(all);
}

// ## Texts of all ranks, and whether they are the same

char **gather_texts(const char *mine) {
    enum { LONGEST = 2048 };
    int size = dist_get_world_size();
    char padded[LONGEST] = "", *texts = xmalloc(LONGEST * (size_t)size);
    char **list = xcalloc((size_t)size + 1, sizeof *list);
    snprintf(padded, sizeof padded, "%s", mine);
    group_gather("gather", NULL, padded, sizeof padded, texts);
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

// Messages between ranks of a group go over a communicator of MPI.
ProcessGroup *group_of(MPI_Comm comm) {
    ProcessGroup *g = xcalloc(1, sizeof *g);
    *g = (ProcessGroup){.comm = comm, .size = 1};
    if (comm != MPI_COMM_NULL) {
        mpi_check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
        mpi_check(MPI_Comm_rank(comm, &g->rank), "MPI_Comm_rank");
        mpi_check(MPI_Comm_size(comm, &g->size), "MPI_Comm_size");
    }
    g->world_rank = xmalloc(sizeof *g->world_rank * (size_t)g->size);
    for (int r = 0; r < g->size; r++) g->world_rank[r] = r;
    return g;
}

ProcessGroup *dist_new_group(int colour) {
    CHECK(colour >= 0, "a group has a colour from 0 on");
    const ProcessGroup *all = group_or_all(NULL);
    int me = all->rank;
    MPI_Comm comm = MPI_COMM_NULL;
    synchronize_all();
    if (all->size > 1) mpi_check(MPI_Comm_split(all->comm, colour, me, &comm), "MPI_Comm_split");
    ProcessGroup *g = group_of(comm);
    group_gather("gather", g, &me, sizeof me, g->world_rank);
    return g;
}

void group_free(ProcessGroup *g) {
    bool is_last = g == group_or_all(NULL);
    free(g->place);
    free(g->world_rank);
    free(g);
    if (!is_last) return;
    device_free(host(), here.stage);
    free(here.why_no_nccl);
    memset(&here, 0, sizeof here);
}

void dist_free_group(ProcessGroup *group) {
    if (!group) return;
    synchronize_all();
    nccl_close(group);
    if (group->comm != MPI_COMM_NULL) mpi_check(MPI_Comm_free(&group->comm), "MPI_Comm_free");
    group_free(group);
}

void count_traffic(const ProcessGroup *g, int to, size_t bytes) {
    here.traffic.messages++;
    here.traffic.bytes += bytes;
    if (dist_host_of(dist_get_rank()) != dist_host_of(g->world_rank[to]))
        here.traffic.bytes_to_hosts += bytes;
}

DistTraffic dist_traffic(void) {
    synchronize_all();
    return here.traffic;
}
void dist_reset_traffic(void) {
    synchronize_all();
    here.traffic = (DistTraffic){0};
}
