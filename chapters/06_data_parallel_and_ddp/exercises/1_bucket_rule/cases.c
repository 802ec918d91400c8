// cases.c: buckets of gradients that are drawn, and of the book's networks; predictions from times
// that are drawn, and from those of a backward pass on the modelled clock.
#include "common/model/modelled_clock.h"
#include "common/program/facts.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "your_part.h"

#include <math.h>
#include <stdio.h>

enum { ORDER_AND_CAPS = 1, JUST_HIT, NUMBER, TIMES, MODELLED };
const Part parts[] = {{"fill_buckets(): the last gradient goes first, into buckets of two caps", 3},
                      {"fill_buckets(): a bucket that has just reached its cap is closed", 1},
                      {"fill_buckets(): returns the number of buckets", 1},
                      {"predict(): right for times that are given", 3},
                      {"predict(): what DDP takes on the modelled clock", 2},
                      {0}};

// "8 20 4", of at most 16; the text stays until the second call after this one.
static const char *list(const int numbers[], int n) {
    static char texts[3][160];
    static int which;
    char *text = texts[which = (which + 1) % 3];
    int length = 0;
    for (int i = 0; i < n && i < 16; i++)
        length +=
            snprintf(text + length, 160 - (size_t)length, "%s%d", i > 0 ? " " : "", numbers[i]);
    return text;
}

// ---- buckets -----------------------------------------------------------------------------------

// What stands before and behind the arrays is not the student's: sizes there would fill any bucket.
// The number is that of the student's buckets, be they the right ones or not.
static void fill(int part, const int gradients[], int n, size_t first_bytes, size_t bytes) {
    const int not_yours = -77;
    size_t sizes[MOST_PARAMS + 2];
    int buckets[MOST_PARAMS + 2], last = 0;
    for (int p = 0; p < n; p++) {
        sizes[p + 1] = (size_t)gradients[p] / sizeof(float);
        buckets[p + 1] = -1;
    }
    sizes[0] = sizes[n + 1] = 1 << 28;
    buckets[0] = buckets[n + 1] = not_yours;
    int number = fill_buckets(sizes + 1, n, first_bytes, bytes, buckets + 1);
    for (int p = 1; p <= n; p++)
        if (buckets[p] > last) last = buckets[p];
    record_ints(part, buckets + 1, (size_t)n, "bucket_of[] (-1: not written)");
    record_ints(part, (int[]){buckets[0], buckets[n + 1]}, 2, "bucket_of[-1] and [%d]", n);
    record_int(NUMBER, number - last, "buckets, as returned, beyond the largest of bucket_of[]");
}

static size_t odd_cap(long most) {
    size_t cap = 4 * (size_t)draw(4, most);
    return cap + (size_t)draw(1, 3);
}

// Sizes are multiples of 4 bytes and caps are not, so no cap is just hit.
static void caps_that_are_passed(void) {
    for (int c = 0; c < 24; c++) {
        int gradients[8], n = (int)draw(1, 2 + c / 4);
        for (int p = 0; p < n; p++) {
            gradients[p] = 4 * (int)(c % 3 == 0 ? 7 : c % 3 == 1 ? draw(3, 9) : draw(1, 5));
            if (c % 3 == 2) gradients[p] *= (int)draw(1, 40);
        }
        size_t first = odd_cap(20), bytes = c < 6 ? first : odd_cap(60);
        begin_case("gradients of %s bytes, caps of %zu and %zu", list(gradients, n), first, bytes);
        fill(ORDER_AND_CAPS, gradients, n, first, bytes);
    }
    int three[3];
    for (int p = 0; p < 3; p++) three[p] = 4 * (int)draw(5, 9);
    begin_case("gradients of %s bytes, caps of %zu, the largest there is", list(three, 3),
               ONE_BUCKET);
    fill(ORDER_AND_CAPS, three, 3, ONE_BUCKET, ONE_BUCKET);
}

// The cap of the first bucket is just hit, that of the others, or both; once one is just missed.
static void caps_that_are_hit(void) {
    for (int c = 0; c < 6; c++) {
        int gradients[8], n = (int)draw(6, 8), size = 4 * (int)draw(2, 50);
        for (int p = 0; p < n; p++) gradients[p] = size;
        size_t first = (size_t)size * (size_t)draw(1, 2) - (c == 2) + (c == 3);
        size_t bytes = (size_t)size * (size_t)draw(2, 3) - (c == 1);
        begin_case("%d gradients of %d bytes, caps of %zu and %zu", n, size, first, bytes);
        fill(JUST_HIT, gradients, n, first, bytes);
    }
}

static void buckets_of_networks(void) {
    for (int i = 0; i < NUM_NETWORKS; i++) {
        Module *net = networks[i].make(10);
        size_t sizes[MOST_PARAMS];
        int gradients[MOST_PARAMS], n;
        initialize(net, 1);
        n = sizes_of_network(net, sizes);
        for (int p = 0; p < n; p++) gradients[p] = (int)(sizes[p] * sizeof(float));
        for (int c = 0; c < 4; c++) {
            size_t first = 4 * (size_t)draw(1, 1 << 18) + 2,
                   bytes = 4 * (size_t)draw(1, 1 << 21) + 2;
            begin_case("%s, caps of %zu and %zu bytes", networks[i].title, first, bytes);
            fill(ORDER_AND_CAPS, gradients, n, first, bytes);
        }
        module_free(net);
    }
}

// ---- predictions -------------------------------------------------------------------------------

static double given_time(size_t bytes) { return 20e-6 + (double)bytes / 100e6; }

// In every second case exchanges take long beside backward, so that they wait for each other; else
// there is time enough for most.
static void given_times(void) {
    for (int c = 0; c < 16; c++) {
        int n = (int)draw(1, 2 + c / 3), final[8], bytes[8], bucket_of[8], bucket = 0, us = 0;
        Backward b = {.num_params = n};
        b.sizes[n] = 1 << 20;
        b.final[n] = 1;
        for (int p = n - 1; p >= 0; p--) {
            bucket += p < n - 1 && draw(0, 1);
            bucket_of[p] = bucket;
            final[p] = us += (int)draw(5, c % 2 ? 30 : 120);
            b.final[p] = 1e-6 * us;
            b.sizes[p] = (size_t)draw(10, c % 2 ? 2500 : 900);
            bytes[p] = (int)(b.sizes[p] * sizeof(float));
        }
        bucket_of[n] = bucket; // what stands behind the last gradient is none
        us += (int)draw(0, c % 2 ? 40 : 200);
        b.seconds = 1e-6 * us;
        begin_case("gradients of %s bytes, final after %s us, in buckets %s, backward takes %d us",
                   list(bytes, n), list(final, n), list(bucket_of, n), us);
        record_int(TIMES, lround(1e9 * predict(&b, bucket_of, bucket + 1, given_time)),
                   "ns, if an exchange of b bytes takes 20000 + 10 b");
    }
}

// Buckets are those of the chapter's DDP, whatever fill_buckets() makes. (That DDP takes as long as
// the solution predicts, tests/exercises_test.sh makes sure.)
static void modelled_times(void) {
    const Machine *machine = machine_find("rtx4090-pcie");
    choose_allreduce("ring");
    for (int i = 0; i < NUM_NETWORKS; i++) {
        Module *net = networks[i].make(10);
        initialize(net, 1);
        int rows = 16 * (int)draw(1, 8), k = (int)draw(2, 6);
        model_ranks(machine, HOST_EACH, net, k, rows);
        Backward b = model_backward();
        for (int c = 0; c < 4; c++) {
            // First a bucket for each gradient: then the last ones surely wait for each other.
            size_t bytes = c == 0 ? 1 : (size_t)1 << draw(10, 22);
            size_t first = c == 0 ? 1 : (size_t)draw(1, 1 << 16);
            int last_first[MOST_PARAMS], bucket_of[MOST_PARAMS];
            for (int p = 0; p < b.num_params; p++) last_first[p] = b.num_params - 1 - p;
            Buckets buckets = buckets_of(b.sizes, last_first, b.num_params, first, bytes);
            for (int p = 0; p < b.num_params; p++) bucket_of[p] = bucket_with(&buckets, p);
            begin_case("%s, k = %d, %d images each, %d buckets (caps of %zu and %zu bytes)",
                       networks[i].title, k, rows, buckets.n, first, bytes);
            record_real(MODELLED, round(1e9 * predict(&b, bucket_of, buckets.n, model_exchange)),
                        1e-5, "predicted ns");
            buckets_free(&buckets);
        }
        module_free(net);
    }
}

const Group groups[] = {
    {"buckets", caps_that_are_passed, 5},  {"caps that are just hit", caps_that_are_hit, 5},
    {"networks", buckets_of_networks, 0},  {"given times", given_times, 5},
    {"modelled times", modelled_times, 0}, {0}};
