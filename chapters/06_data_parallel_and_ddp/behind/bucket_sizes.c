// bucket_sizes.c: how long a step of DDP is with buckets of many sizes.
#include "behind.h"

#include "common/book.h"

// The machine of the modelled clock, and one with other links.
static const Machine *other_machine(const Machine *machine) {
    return machine_find(strcmp(machine->name, "dgx-a100") == 0 ? "rtx4090-pcie" : "dgx-a100");
}

enum { NUM_SIZES = 9 };
static const size_t sizes[NUM_SIZES] = {4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20,
                                        4 << 20, 10 << 20, 25 << 20, ONE_BUCKET};

typedef struct Sweep {
    const NetworkKind *network;
    const Machine *machine;
    int k, rows;
    double seconds[NUM_SIZES]; // of a step
    int buckets[NUM_SIZES];
    double without; // without any exchange: as if all of it were hidden
    int best;
} Sweep;

static double seconds_with(const Sweep *s, size_t bucket_bytes, int *buckets) {
    Setup setup = {
        .is_ddp = true, .network = s->network, .classes = 10, .k = s->k, .rows = s->rows};
    setup.options.bucket_bytes = bucket_bytes;
    StepRecord *r = record_one_step(&setup, s->machine);
    double seconds = r->seconds;
    *buckets = r->buckets;
    step_record_free(r);
    return seconds;
}

static double seconds_without_exchange(const Sweep *s) {
    const Allreduce *chosen = chosen_allreduce();
    int buckets;
    choose_this_allreduce(&no_exchange);
    double seconds = seconds_with(s, ONE_BUCKET, &buckets);
    choose_this_allreduce(chosen);
    return seconds;
}

static Sweep sweep(const NetworkKind *network, const Machine *machine, int k, int rows) {
    Sweep s = {.network = network, .machine = machine, .k = k, .rows = rows};
    if (!machine_has_devices(machine, k)) s.k = machine->devices;
    for (int i = 0; i < NUM_SIZES; i++) {
        s.seconds[i] = seconds_with(&s, sizes[i], &s.buckets[i]);
        if (s.seconds[i] < s.seconds[s.best]) s.best = i;
    }
    s.without = seconds_without_exchange(&s);
    return s;
}

static void print_sweeps(const Sweep of[NUM_NETWORKS]) {
    printf("\n");
    Table t = TABLE(NULL, WORDS("buckets of", 12), WHOLE(of[0].network->title),
                    DIGITS("a step", 4, .unit = "ms"), WHOLE(of[1].network->title),
                    DIGITS("a step", 4, .unit = "ms"));
    for (int i = 0; i < NUM_SIZES; i++) {
        if (sizes[i] == 16 << 10 || sizes[i] == 10 << 20) continue; // only in the CSV
        table_text(&t, "%s", sizes[i] == ONE_BUCKET ? "one for all" : binary_size(sizes[i]).text);
        table_numbers(&t, of[0].buckets[i], of[0].seconds[i], of[1].buckets[i], of[1].seconds[i]);
    }
    table_text(&t, "no exchange");
    table_numbers(&t, NAN, of[0].without, NAN, of[1].without);
}

static void write_csv(const char *path, const Sweep sweeps[], int n) {
    OutputFile out = output_open(path);
    fprintf(out.stream, "network,machine,devices,rows,bucket_bytes,buckets,seconds,without,best\n");
    for (const Sweep *s = sweeps; s < sweeps + n; s++)
        for (int i = 0; i < NUM_SIZES; i++)
            fprintf(out.stream, "%s,%s,%d,%d,%.0f,%d,%.9g,%.9g,%d\n", s->network->title,
                    s->machine->name, s->k, s->rows,
                    sizes[i] == ONE_BUCKET ? (double)NAN : (double)sizes[i], s->buckets[i],
                    s->seconds[i], s->without, i == s->best);
    output_close(&out);
}

bool sweep_bucket_sizes(int k, int rows) {
    const Machine *machine = modelled_machine();
    Sweep sweeps[2 * NUM_NETWORKS];
    for (int n = 0; n < NUM_NETWORKS; n++) {
        sweeps[n] = sweep(&networks[n], machine, k, rows);
        sweeps[n + NUM_NETWORKS] = sweep(&networks[n], other_machine(machine), k, rows);
    }
    print_sweeps(sweeps);
    const char *csv = book_csv("_buckets.csv"), *png = book_output("_buckets.png");
    write_csv(csv, sweeps, 2 * NUM_NETWORKS);
    plot_draw(png, "bucket_sizes.gp", csv);
    return sweeps[0].seconds[0] < sweeps[0].seconds[NUM_SIZES - 1];
}
