// four_ways.c: the four ways to sum in numbers: steps, bytes that the ledger counted, modelled
// times, and whether the sums are right.
#include "behind.h"

#include "common/book.h"
#include "../allreduce.h"
#include "../get_params.h"

// The book's LeNet has this many parameters; N is their size in bytes.
enum { LENET_FLOATS = 129068, N = LENET_FLOATS * sizeof(float) };

// The book's star sends whole vectors, the star of --allreduce pieces.
enum { NUM_WAYS = NUM_ALLREDUCES + 1, BOOK = 0, RING = 3 };

static Allreduce way(int w) {
    Allreduce a = allreduces[w == BOOK ? 0 : w - 1];
    if (w == BOOK) a.run = allreduce_book;
    if (w == BOOK + 1) a.name = "star in pieces";
    return a;
}

// "2, 4 and 8"; free() it.
static char *listed(const int numbers[], int n) {
    char *text = xstrdup("");
    for (int i = 0; i < n; i++) {
        const char *before = i == 0 ? "" : i == n - 1 ? " and " : ", ";
        char *longer = xprintf("%s%s%d", text, before, numbers[i]);
        free(text);
        text = longer;
    }
    return text;
}

// Whether each device sent and received what the formula says, by the ledger. *busiest: what the
// device that sends most sent.
static bool bytes_are_the_formula(const Allreduce *a, Tensor *const data[], int k,
                                  uint64_t *busiest) {
    uint64_t total = 0;
    bool right = true;
    *busiest = 0;
    for (int i = 0; i < k; i++) {
        uint64_t sent = 0, received = 0;
        for (int j = 0; j < k; j++) {
            sent += ledger_bytes(data[i]->device, data[j]->device);
            received += ledger_bytes(data[j]->device, data[i]->device);
        }
        Traffic formula = allreduce_bytes(a, LENET_FLOATS, k, i);
        right = right && sent == formula.sent && received == formula.received;
        total += sent;
        if (sent > *busiest) *busiest = sent;
    }
    return right && total == 2 * (uint64_t)(k - 1) * N;
}

// Sums vectors of normal numbers, and returns the bytes that the busiest device sent. Clears *right
// if bytes are not the formula's or, with values, if replicas differ.
static uint64_t busiest_sends(const Allreduce *a, int k, uint64_t seed, bool values_too,
                              bool *right) {
    Tensor *data[MAX_DEVICES];
    float *values = xmalloc(N);
    uint64_t busiest;
    vectors_on_devices(data, k, LENET_FLOATS);
    for (int i = 0; i < k; i++) {
        fill_normal(values, LENET_FLOATS, 1, seed, STREAM_TEST + (uint32_t)i);
        tensor_write(data[i], values);
        begin_step(data[i]->device);
    }
    ledger_reset();
    a->run(data, k);
    synchronize_all();
    *right = bytes_are_the_formula(a, data, k, &busiest) && *right;
    if (values_too) *right = all_replicas_equal(data, k) && *right;
    free_params(data, k);
    free(values);
    return busiest;
}

// Different on each device and in each place. All sums stay below 2^24, so they are exact.
static float whole_number(int i, int j) {
    return (float)((i + 1) * ((j * 37 + i * 11) % 201 - 100));
}

static bool sums_exactly(const Allreduce *a, int k, int n) {
    Tensor *data[MAX_DEVICES];
    vectors_on_devices(data, k, n);
    float *values = xcalloc((size_t)n + 1, sizeof(float));
    float *sums = xcalloc((size_t)n + 1, sizeof(float));
    for (int i = 0; i < k; i++) {
        for (int j = 0; j < n; j++) sums[j] += values[j] = whole_number(i, j);
        tensor_write(data[i], values);
        begin_step(data[i]->device);
    }
    a->run(data, k);
    bool exact = true;
    for (int i = 0; i < k; i++) {
        tensor_read(data[i], values);
        exact = exact && memcmp(values, sums, sizeof(float) * (size_t)n) == 0;
    }
    free_params(data, k);
    free(values);
    free(sums);
    return exact;
}

static void check_sums(void) {
    static const int ks[] = {1, 2, 3, 5, 8}, sizes[] = {0, 1, 7, 1000, 12345};
    bool exact = true;
    int tried = 0;
    for (; tried < 5 && book_can_use_devices(ks[tried]); tried++)
        for (int w = 0; w < NUM_WAYS; w++)
            for (int c = 0; c < 5; c++) {
                Allreduce a = way(w);
                exact = sums_exactly(&a, ks[tried], sizes[c]) && exact;
            }
    char *on = listed(ks, tried),
         *what = xprintf("on %s devices all sum whole numbers exactly", on);
    say_checked(exact, what);
    free(on);
    free(what);
}

static double write_time(const Figures *figures, const Allreduce *a, int k, size_t bytes) {
    int n = (int)(bytes / sizeof(float));
    double seconds = modelled_allreduce(figures->machine, a->run, k, n);
    write_figure(figures, figures->machine, a->name, k, bytes, seconds);
    return seconds;
}

void model_up_to_1024_devices(const Figures *figures) {
    const Machine *machine = figures->machine;
    static const size_t sizes[] = {8 << 10, 160 * 1000 * 1000};
    if (!machine || machine->cards == 0) return;
    for (int k = 2; k <= MAX_DEVICES; k *= 2)
        for (int w = 0; w < NUM_WAYS; w++)
            for (int s = 0; s < 2; s++) {
                Allreduce a = way(w);
                write_time(figures, &a, k, sizes[s]);
            }
}

void model_curves(const Figures *figures, int k) {
    for (int w = 0; w < NUM_WAYS; w++)
        for (size_t bytes = SMALLEST; bytes <= LARGEST; bytes *= 4) {
            Allreduce a = way(w);
            write_time(figures, &a, k, bytes);
        }
}

// On a machine where only starts take time, a second each, seconds are starts of the busiest host.
static double count_starts(const Machine *machine, const Allreduce *a, int k) {
    Machine counting = machine_with_free(machine, FREE_LINKS | FREE_DEVICES);
    counting.launch = 1;
    return round(modelled_allreduce(&counting, a->run, k, LENET_FLOATS));
}

static void add_way(Table *t, const Figures *figures, const Allreduce *a, int k, uint64_t busiest) {
    double starts = NAN, shortest = NAN, lenets = NAN, longest = NAN; // without a machine
    if (figures->machine) {
        starts = count_starts(figures->machine, a, k);
        shortest = write_time(figures, a, k, SMALLEST);
        lenets = modelled_allreduce(figures->machine, a->run, k, LENET_FLOATS);
        for (size_t bytes = 4 * SMALLEST; bytes <= LARGEST; bytes *= 4)
            longest = write_time(figures, a, k, bytes);
    }
    table_text(t, "%s", a->name);
    table_text(t, "%d of %s", a->steps(k), a->in_parts ? "N/k" : "N");
    table_numbers(t, (double)busiest, (double)busiest / N, starts, shortest, lenets, longest);
}

// The table. Clears *right as busiest_sends() does. Returns on which numbers of devices that was
// checked; free() it.
static char *print_four_ways(const Figures *figures, int k, uint64_t seed, bool values_too,
                             bool *right) {
    const Machine *machine = figures->machine;
    printf("\nFour ways to sum on %d devices, N = %s bytes (LeNet's gradients)", k,
           grouped(N).text);
    if (machine) printf("; modelled: %s, %.1f µs a start", machine->name, 1e6 * machine->launch);
    putchar('\n');
    Table t = TABLE(NULL, WORDS("method", 14), WORDS("steps", 8), WHOLE("busiest sends"),
                    FIXED("in N", 2), WHOLE("starts", .modelled = true),
                    DIGITS("1 KiB", 3, .unit = "µs", .modelled = true),
                    DIGITS("N", 3, .unit = "µs", .modelled = true),
                    DIGITS("64 MiB", 3, .unit = "ms", .modelled = true));
    int ks[4], n = 0;
    for (int j = 2; j <= (k > 8 ? k : 8); j++)
        if ((j == k || j == 2 || j == 4 || j == 8) && book_can_use_devices(j)) ks[n++] = j;
    for (int w = 0; w < NUM_WAYS; w++) {
        Allreduce a = way(w);
        for (int j = 0; j < n; j++) {
            uint64_t busiest = busiest_sends(&a, ks[j], seed, values_too, right);
            if (ks[j] == k) add_way(&t, figures, &a, k, busiest);
            if (w == RING && ks[j] == 8)
                book_result(
                    "of 8 devices the busiest sends %.3g N in the ring, and 7 N in the star",
                    (double)busiest / N);
        }
    }
    return listed(ks, n);
}

void compare_four_ways(const Figures *figures, int k, uint64_t seed) {
    bool right = true;
    char *on = print_four_ways(figures, k, seed, true, &right);
    char *what = xprintf("counted bytes are the formula's on %s devices, and all replicas are "
                         "equal to the bit",
                         on);
    say_checked(right, what);
    free(on);
    free(what);
    check_sums();
}

void compare_bytes_of_four_ways(const Figures *figures, int k, uint64_t seed) {
    bool right = true;
    char *on = print_four_ways(figures, k, seed, false, &right);
    char *what = xprintf("counted bytes are the formula's on %s devices", on);
    say_checked(right, what);
    free(on);
    free(what);
}
