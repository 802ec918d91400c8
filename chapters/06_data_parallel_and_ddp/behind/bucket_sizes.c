// bucket_sizes.c: how long a step of DDP is with buckets of many sizes.
#include "behind.h"

#include "common/book.h"

enum { NUM_SIZES = 8, NONE = NUM_SIZES }; // and one step without an exchange
static const size_t sizes[NUM_SIZES] = {4 << 10, 64 << 10, 256 << 10, 1 << 20,
                                        4 << 20, 10 << 20, 25 << 20,  ONE_BUCKET};

// Many devices on a slow network, where the fixed cost of an exchange is large.
static const char *const many_machine = "p100-25gbe";
enum { MANY = 64, NUM_SWEEPS = 2 * NUM_NETWORKS + 1 };

typedef struct Sweep {
    Setup setup;
    const Machine *machine;
    double seconds[NUM_SIZES + 1], exchange[NUM_SIZES + 1];
    int buckets[NUM_SIZES + 1], best;
} Sweep;

static Sweep sweep(const NetworkKind *network, const Machine *machine, int k, int rows) {
    Sweep s = {.machine = machine, .setup = {true, network, 10, k, rows, 0, {0}}};
    const Allreduce *chosen = chosen_allreduce();
    if (!machine_has_devices(machine, k)) s.setup.k = machine->devices;
    for (int i = 0; i <= NONE; i++) {
        s.setup.options.bucket_bytes = i == NONE ? ONE_BUCKET : sizes[i];
        if (i == NONE) choose_this_allreduce(&no_exchange);
        StepRecord *r = record_one_step(&s.setup, machine);
        s.seconds[i] = r->seconds;
        s.exchange[i] = exchange_of(r).seconds;
        s.buckets[i] = r->num_buckets;
        step_record_free(r);
        if (i < NONE && s.seconds[i] < s.seconds[s.best]) s.best = i;
    }
    choose_this_allreduce(chosen);
    return s;
}

static void print_sweeps(const Sweep *a, const Sweep *b, const Sweep *many) {
    printf("\n");
    Table t = TABLE(NULL, WORDS("buckets of", 12), WHOLE("LeNet: buckets"),
                    DIGITS("a step", 4, .unit = "ms"), WHOLE("ResNet-18: buckets"),
                    DIGITS("a step", 4, .unit = "ms"), DIGITS("on 64 P100", 4, .unit = "ms"));
    for (int i = 0; i <= NONE; i++) {
        table_text(&t, "%s",
                   i == NONE                ? "no exchange"
                   : sizes[i] == ONE_BUCKET ? "one for all"
                                            : binary_size(sizes[i]).text);
        table_numbers(&t, i == NONE ? (double)NAN : a->buckets[i], a->seconds[i],
                      i == NONE ? (double)NAN : b->buckets[i], b->seconds[i], many->seconds[i]);
    }
}

static void write_sweep(FILE *csv, const Sweep *s) {
    for (int i = 0; i < NUM_SIZES; i++)
        fprintf(csv, "%s,%s,%d,%d,%.0f,%d,%.9g,%.9g,%d,%.9g\n", s->setup.network->title,
                s->machine->name, s->setup.k, s->setup.rows,
                sizes[i] == ONE_BUCKET ? (double)NAN : (double)sizes[i], s->buckets[i],
                s->seconds[i], s->seconds[NONE], i == s->best, s->exchange[i]);
}

bool sweep_bucket_sizes(int k, int rows) {
    const Machine *machine = modelled_machine();
    const Machine *other =
        machine_find(strcmp(machine->name, "dgx-a100") == 0 ? "rtx4090-pcie" : "dgx-a100");
    const char *csv = book_output("_buckets.csv"), *png = book_output("_buckets.png");
    Sweep s[NUM_SWEEPS];
    for (int i = 0; i < 2 * NUM_NETWORKS; i++)
        s[i] = sweep(&networks[i / 2], i % 2 ? other : machine, k, rows);
    s[NUM_SWEEPS - 1] = sweep(&networks[1], machine_find(many_machine), MANY, rows);
    print_sweeps(&s[0], &s[2], &s[NUM_SWEEPS - 1]);
    OutputFile out = output_open(csv);
    fprintf(out.stream,
            "network,machine,devices,rows,bucket_bytes,buckets,seconds,without,best,exchange\n");
    for (int i = 0; i < NUM_SWEEPS; i++) write_sweep(out.stream, &s[i]);
    output_close(&out);
    plot_draw(png, "bucket_sizes.gp", csv);
    return s[0].seconds[0] < s[0].seconds[NUM_SIZES - 1];
}
