// cases.c: epochs of all kinds, and where the mistake shows in them.
#include "common/program/facts.h"
#include "your_part.h"

#include <stdbool.h>

enum { FULL = 1, SHORT, EMPTY, FEWEST };
const Part parts[] = {{"full minibatches alone: the first wrong one, or none", 3},
                      {"a last minibatch that is shorter, perhaps the only one", 3},
                      {"minibatches with fewer rows than devices", 2},
                      {"the fewest devices on which the mistake shows", 2},
                      {0}};

enum { MOST_DEVICES = 8 };

// An epoch has `full` minibatches of `batch_size` images, and `rest` in a last one.
static void find(int part, int full, int batch_size, int rest, int k) {
    int images = full * batch_size + rest;
    begin_case("first_wrong_minibatch(), %d images in minibatches of %d, k = %d", images,
               batch_size, k);
    record_int(part, first_wrong_minibatch(images, batch_size, k), "the first wrong minibatch");
}

static void count(int part, int full, int batch_size, int rest) {
    int images = full * batch_size + rest;
    begin_case("fewest_devices(), %d images in minibatches of %d", images, batch_size);
    record_int(part, fewest_devices(images, batch_size), "the fewest devices");
}

// A number of rows that k divides, or that it does not: at least k * least, less than
// k * (least + 10).
static int rows(int k, int least, bool divides) {
    int whole = k * (int)draw(least, least + 9);
    return whole + (divides ? 0 : (int)draw(1, k - 1));
}

// In the second epoch, k divides the number of images, but not the size of any minibatch.
static void full_minibatches(void) {
    int batch_size = (int)draw(2, 30);
    find(FULL, (int)draw(2, 9), batch_size, 0, 1);
    for (int k = 2; k <= MOST_DEVICES; k++) {
        batch_size = rows(k, 1, true);
        find(FULL, (int)draw(1, 9), batch_size, 0, k);
        batch_size = rows(k, 1, false);
        find(FULL, k * (int)draw(1, 3), batch_size, 0, k);
    }
}

static void short_minibatches(void) {
    int rest = (int)draw(1, 9), batch_size = (int)draw(10, 30);
    find(SHORT, (int)draw(2, 9), batch_size, rest, 1);
    for (int k = 2; k <= MOST_DEVICES; k++)
        for (int c = 0; c < 4; c++) { // k divides one of the two, or both
            rest = rows(k, 1, c != 2);
            batch_size = rows(k, 11, c == 1 || c == 2);
            find(SHORT, c == 0 ? 0 : (int)draw(1, 20), batch_size, rest, k);
        }
}

static void few_rows(void) {
    for (int k = 2; k <= MOST_DEVICES; k++) {
        int rest = (int)draw(1, k - 1);
        find(EMPTY, 0, rows(k, 1, true), rest, k);
        rest = (int)draw(1, k - 1);
        int batch_size = rows(k, 1, true);
        find(EMPTY, (int)draw(1, 20), batch_size, rest, k);
        batch_size = (int)draw(1, k - 1);
        find(EMPTY, (int)draw(1, 20), batch_size, 0, k);
    }
}

// Minibatches of at least 3 rows, so that no device is without rows, and with many divisors, so
// that 2 is seldom the answer. All devices up to 6 divide the images of the first epoch.
static void devices(void) {
    static const int times[] = {3, 4, 6, 12, 24, 60, 120, 420};
    for (int c = 0; c < 8; c++) {
        int batch_size = times[c] * (int)draw(1, 9);
        count(FEWEST, (c == 0 ? 20 : 1) * (int)draw(1, 9), batch_size, 0);
    }
    for (int c = 0; c < 5; c++) {
        int rest = times[c] * (int)draw(1, 4), batch_size = 60 * (int)draw(2, 9);
        count(PART_IF(FEWEST, SHORT), (int)draw(1, 20), batch_size, rest);
    }
}

const Group groups[] = {{"full minibatches", full_minibatches, 2},
                        {"a shorter one", short_minibatches, 2},
                        {"few rows", few_rows, 2},
                        {"fewest devices", devices, 2},
                        {0}};
