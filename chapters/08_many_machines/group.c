// group.c: what the ranks of a group do together; see ranks.h. Each collective is work for the
// communication queue, whose thread carries it out in messages (star.c), or NCCL does it (nccl.c).
#include "group.h"

#include "common/base/error.h"

#include <stdlib.h>
#include <string.h>

// ## A collective, enqueued

typedef struct Exchange {
    const char *what; // for the watch
    char why[WHAT_LENGTH];
    ProcessGroup group; // with the tag of this exchange
    float *data;        // n numbers in host memory,
    size_t n;
    Collective *run; // and what becomes of them; NULL: all get those of rank
    int root;
    const void *mine; // Or, if `all` is given: n bytes
    void *all;        // of each rank.
} Exchange;

static void carry_out(void *context) {
    const Exchange *x = context;
    watch_enter(x->what, x->why);
    if (x->n > 0 && x->all)
        gather_bytes(&x->group, x->mine, x->n, x->all);
    else if (x->n > 0 && x->run)
        x->run(&x->group, x->data, x->n);
    else if (x->n > 0)
        broadcast_tree(&x->group, x->data, x->n, x->root);
    watch_leave(NULL);
    free(context);
}

static void enter(void *context) {
    const Exchange *x = context;
    watch_enter(x->what, x->why);
    free(context);
}

// The tags of two collectives differ if one comes after the other, or if they are of different
// kinds. So messages of one are never taken for the other's. (All numbers up to 32767 are tags.)
static void enqueue(ProcessGroup *g, void (*function)(void *context), Exchange x) {
    enum { KINDS = 8, NUMBERS = 4096 };
    static const char *const kinds[] = {"all_reduce", "broadcast", "reduce_scatter", "all_gather"};
    Exchange *copy = xmalloc(sizeof *copy);
    int kind = 0;
    while (kind < 4 && strcmp(kinds[kind], x.what) != 0) kind++;
    x.group = *g;
    x.group.tag = (int)(++g->number % NUMBERS) * KINDS + kind;
    memcpy(x.why, world.why, sizeof x.why);
    *copy = x;
    queue_call(comm_queue(world.device), function, copy);
}

void enqueue_enter(ProcessGroup *g, const char *what) {
    enqueue(g, enter, (Exchange){.what = what});
}
void enqueue_leave(void) { queue_call(comm_queue(world.device), watch_leave, NULL); }

static float *stage_of(size_t n) {
    if (n <= world.stage_floats) return world.stage;
    synchronize_all();
    device_free(host(), world.stage);
    world.stage_floats = n;
    return world.stage = device_alloc(host(), n * sizeof(float));
}

// A CPU's tensor is in host memory. Without NCCL a GPU's is copied there and back.
static void through_the_host(ProcessGroup *g, Tensor *t, Exchange x) {
    Queue *queue = comm_queue(t->device);
    bool is_gpu = device_gpu(t->device) >= 0;
    x.n = numel(t);
    x.data = is_gpu ? stage_of(x.n) : t->data;
    queue_wait(queue, device_record(t->device)); // what the current queue has to do before
    if (is_gpu) queue_copy(queue, host(), x.data, t->device, t->data, tensor_bytes(t));
    enqueue(g, carry_out, x);
    if (is_gpu)
        queue_copy(queue, t->device, t->data, host(), x.data, tensor_bytes(t));
    else
        queue_uses(queue, t->data);
    device_wait(t->device, queue_record(queue));
}

// ## The collectives

// NCCL's, or ours.
static bool by_nccl(const ProcessGroup *g, const Tensor *t) {
    CHECK(t->device == world.device, "what is exchanged is on this rank's device");
    CHECK(has_values(t->device), "devices without values have nothing to exchange");
    return !chosen_sum() && numel(t) > 0 && g->size > 1;
}

void dist_all_reduce(ProcessGroup *group, Tensor *t) {
    ProcessGroup *g = group_or_all(group);
    if (by_nccl(g, t))
        nccl_all_reduce(g, t);
    else if (chosen_sum())
        through_the_host(g, t, (Exchange){"all_reduce", .run = chosen_sum()});
}
void dist_broadcast(ProcessGroup *group, Tensor *t, int root) {
    ProcessGroup *g = group_or_all(group);
    if (by_nccl(g, t))
        nccl_broadcast(g, t, root);
    else if (chosen_sum())
        through_the_host(g, t, (Exchange){"broadcast", .root = root});
}
void dist_reduce_scatter(ProcessGroup *group, Tensor *t) {
    through_the_host(group_or_all(group), t,
                     (Exchange){"reduce_scatter", .run = reduce_scatter_ring});
}
void dist_all_gather(ProcessGroup *group, Tensor *t) {
    through_the_host(group_or_all(group), t, (Exchange){"all_gather", .run = all_gather_ring});
}

void group_gather(const char *what, ProcessGroup *g, const void *mine, size_t bytes, void *all) {
    enqueue(g, carry_out, (Exchange){what, .n = bytes, .mine = mine, .all = all});
    event_synchronize(queue_record(comm_queue(world.device)));
}
void dist_gather(ProcessGroup *group, const double mine[], int n, double all[]) {
    group_gather("gather", group_or_all(group), mine, sizeof *mine * (size_t)n, all);
}
void dist_sum(ProcessGroup *group, double values[], int n) {
    int size = group_size(group);
    double *all = xmalloc(sizeof *all * (size_t)(size * n));
    dist_gather(group, values, n, all);
    for (int i = 0; i < n; i++) values[i] = 0;
    for (int r = 0; r < size; r++)
        for (int i = 0; i < n; i++) values[i] += all[r * n + i];
    free(all);
}
