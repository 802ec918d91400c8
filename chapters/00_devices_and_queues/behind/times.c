// times.c: times work and copies, prints tables of that, and draws the queues.
#include "behind.h"

#include "common/book.h"

static bool is_modelled(void) { return modelled_machine() != NULL; }
static Clock *clock_of_tables(void) { return is_modelled() ? modelled_seconds : measured_seconds; }
static char *kind_of_time(void) {
    return is_modelled() ? xprintf("modelled on %s", modelled_machine_name())
                         : xstrdup("measured on this computer");
}

static Table table_of_times(void) {
    return TABLE(NULL, WORDS("milliseconds until", 33), FIXED("enqueued", 3), FIXED("done", 3));
}

static void add_times(Table *t, const char *label, Times times) {
    table_text(t, "%s", label);
    table_numbers(t, 1e3 * times.enqueued, 1e3 * times.done);
}

void show_both_times(Enqueue *enqueue, Job *job) {
    Table t = table_of_times();
    printf("\nProducts on device 0\n");
    if (!isnan(measured_seconds()))
        add_times(&t, "measured on this computer", time_by(measured_seconds, enqueue, job));
    if (!is_modelled()) return;
    char *kind = kind_of_time();
    add_times(&t, kind, time_by(modelled_seconds, enqueue, job));
    free(kind);
}

// ---- in several ways ---------------------------------------------------------------------------

// Each product and each copy has its own label, so that one sees where it ends.
static void label_products(TraceSpan spans[], int count) {
    static const char *const products[PRODUCTS] = {"compute mm 1", "compute mm 2", "compute mm 3",
                                                   "compute mm 4"};
    static const char *const copies[PRODUCTS] = {"copy 1", "copy 2", "copy 3", "copy 4"};
    int product = 0, copy = 0;
    for (int i = 0; i < count; i++) {
        if (i > 0 && spans[i].device != spans[i - 1].device) product = copy = 0;
        spans[i].label = spans[i].from ? copies[copy++ % PRODUCTS] : products[product++ % PRODUCTS];
    }
}

static Timeline run_way(const Way *way, Job *job, Times *times) {
    Timeline t = {.set.modelled = is_modelled()};
    trace_begin();
    *times = time_by(clock_of_tables(), way->enqueue, job);
    TraceSpan *spans = trace_end(&t.set.count);
    if (is_modelled()) {
        free(spans);
        spans = trace_modelled(&t.set.count);
    }
    label_products(spans, t.set.count);
    t.set.spans = spans;
    t.end = times->done;
    t.title = xprintf("%s: %.3f ms", way->name, 1e3 * times->done);
    return t;
}

double show_ways(const char *path, const char *title, const Way ways[], int n, Job *job) {
    enum { MOST = 4 };
    Timeline timelines[MOST];
    Times times[MOST];
    Table t = table_of_times();
    CHECK(n <= MOST, "room for the timelines");
    char *kind = kind_of_time();
    printf("\n%s, %s\n", title, kind);
    for (int i = 0; i < n; i++) {
        timelines[i] = run_way(&ways[i], job, &times[i]);
        add_times(&t, ways[i].name, times[i]);
    }
    char *heading = xprintf("The queues of the devices, %s", kind);
    timelines_draw(path, heading, "the host began to enqueue", timelines, n);
    for (int i = 0; i < n; i++) {
        free(timelines[i].title);
        free((void *)timelines[i].set.spans);
    }
    free(heading);
    free(kind);
    return times[1].done / times[0].done;
}

// ---- copies ------------------------------------------------------------------------------------

Table table_of_copies(void) {
    return TABLE(NULL, WORDS("a copy from", 22), WHOLE("bytes", .width = 9), FIXED("ms", 3));
}

// Modelled, as in the picture, "device 1" stands for a GPU of the machine; a name of this computer
// would mislead.
static char *name_of(const Device *device) {
    return is_modelled() && device != host() ? xprintf("device %d", device_id(device))
                                             : xstrdup(device_name(device));
}

void add_copy(Table *t, Tensor *copy, const Tensor *original, uint64_t bytes) {
    const Device *from = original->device, *to = copy->device;
    CHECK(bytes == (from == to ? 0 : tensor_bytes(original)), "the ledger counts the bytes");
    synchronize_all();
    double start = clock_of_tables()();
    tensor_copy(copy, original);
    synchronize_all();
    double seconds = clock_of_tables()() - start;
    char *kind = kind_of_time(), *name = name_of(from), *other = name_of(to);
    if (!t->has_head) printf("\nA matrix, and the sum of its numbers, %s\n", kind);
    table_text(t, "%s to %s", name, other);
    table_numbers(t, (double)bytes, 1e3 * seconds);
    free(kind);
    free(name);
    free(other);
}
