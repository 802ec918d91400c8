// check.c: shards must cover the rows in order, in proportion to the speeds; with them training
// must be what it is with equal shards.
#include "common/program/exercise.h"
#include "your_part.h"

#include <math.h>
#include <stdlib.h>

// ## Shards

static double quota_of(int n, const double speed[], int k, int i) {
    double total = 0;
    for (int j = 0; j < k; j++) total += speed[j];
    return n * speed[i] / total;
}

// "shards_for(), 7 rows, speeds 3 1 0 (quotas 5.25 1.75 0)"; the text is replaced by the next call.
static const char *call_text(int n, const double speed[], int k) {
    static char text[256];
    int length = snprintf(text, sizeof text, "shards_for(), %d rows, speeds", n);
    for (int i = 0; i < k; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, " %g", speed[i]);
    length += snprintf(text + length, sizeof text - (size_t)length, " (quotas");
    for (int i = 0; i < k; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, " %.4g",
                           quota_of(n, speed, k, i));
    snprintf(text + length, sizeof text - (size_t)length, ")");
    return text;
}

// "5 2 0", the rows of the shards; the text is replaced by the next call.
static const char *rows_text(const Range shards[], int k) {
    static char text[256];
    int length = 0;
    for (int i = 0; i < k; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, "%s%ld", i > 0 ? " " : "",
                           shards[i].count);
    return text;
}

static void check_cover(const char *call, int n, int k, const Range shards[]) {
    int rows = 0;
    for (int i = 0; i < k; i++) {
        EXPECT(shards[i].count >= 0,
               "a device of speed 0 gets no rows: rows go by speed, not by time",
               "%s: shard %d has %ld rows, expected 0 or more", call, i, shards[i].count);
        EXPECT(shards[i].first == rows, "a shard begins where the one before it ends",
               "%s: shard %d begins at row %ld, expected row %d; the shards have %s rows", call, i,
               shards[i].first, rows, rows_text(shards, k));
        rows += shards[i].count;
    }
    EXPECT(rows == n,
           "the whole parts of the quotas leave rows over, which go one by one to the devices with "
           "the largest remainders: rounding is not enough",
           "%s: the shards have %s rows, together %d, expected %d", call, rows_text(shards, k),
           rows, n);
}

static const char *hint_for_rows(const Range shards[], int n, int k) {
    bool equal = true;
    for (int i = 0; i < k; i++) equal = equal && shards[i].count == equal_range(n, k, i).count;
    return equal ? "these are equal shards: n speed[i] / (sum of speeds) is the quota of device i"
                 : "each device gets the whole part of its quota n speed[i] / (sum of speeds), or "
                   "one row more";
}

static void check_shards(int n, const double speed[], int k) {
    Range shards[MAX_DEVICES];
    const char *call = call_text(n, speed, k);
    double least_up = 1, most_down = 0; // remainders of those rounded up, and down
    shards_for(n, speed, k, shards);
    check_cover(call, n, k, shards);
    for (int i = 0; i < k; i++) {
        double quota = quota_of(n, speed, k, i), over = shards[i].count - quota;
        EXPECT(fabs(over) < 1 + 1e-9, hint_for_rows(shards, n, k),
               "%s: the shards have %s rows; device %d gets %ld, expected %.4g, rounded up or down",
               call, rows_text(shards, k), i, shards[i].count, quota);
        if (over > 1e-9) least_up = fmin(least_up, 1 - over);
        if (over < -1e-9) most_down = fmax(most_down, -over);
    }
    EXPECT(least_up >= most_down - 1e-9,
           "the rows that are left over go to the devices with the largest remainders",
           "%s: the shards have %s rows; a remainder of %.3f was rounded up and one of %.3f down, "
           "expected the larger one up",
           call, rows_text(shards, k), least_up, most_down);
}

static const char *hint_for_seconds(double came, double expected, double exchange) {
    if (isnan(came)) return "0 rows at 0 rows per second take no time, but 0 / 0 is no number";
    if (fabs(came - (expected - exchange)) <= 1e-9) return "after computing comes the exchange";
    return "the devices work side by side, so the slowest one counts, not the sum; a device needs "
           "rows / speed seconds";
}

static void check_prediction(void) {
    const Range shards[] = {{0, 12}, {12, 3}, {15, 0}};
    const double speed[] = {6, 1, 0}, exchange = 0.5, expected = 3.5;
    double came = predict_step(shards, speed, 3, exchange);
    EXPECT(fabs(came - expected) <= 1e-9, hint_for_seconds(came, expected, exchange),
           "predict_step(), shards of %s rows, speeds 6 1 0 rows per second, exchange %g s: %g s, "
           "expected %g s",
           rows_text(shards, 3), exchange, came, expected);
}

// ## Training

// Trains on k devices with shards for these speeds. The values of device 0 at the end; free() them.
static float *train_with(Module *net, const Dataset *data, BatchNormMode bn, const double speed[],
                         int k, double *loss) {
    Tensor *X, *y, *losses[MAX_DEVICES];
    Range shards[MAX_DEVICES];
    DataParallel dp = network_on(net, k, bn, 7);
    DataIter *iter = data_iter_new(data, CHECKED_BATCH, false, 0);
    data_iter_start(iter, 0);
    while (data_iter_next(iter, &X, &y)) {
        shards_for(X->shape[0], speed, k, shards);
        train_step_as(&dp, shards, X, y, 0.5f, losses);
        *loss = 0;
        for (int i = 0; i < k; i++) *loss += (double)item(losses[i]);
    }
    data_iter_free(iter);
    return network_values(net, dp.devices[0]);
}

double effect_of_shards(Module *net, const Dataset *data, BatchNormMode bn, const double speed[],
                        int k, double losses[2]) {
    const double equal[] = {1, 1, 1, 1};
    network_on(net, 1, bn, 7);
    float *start = network_values(net, try_gpu(0));
    float *expected = train_with(net, data, bn, equal, k, &losses[0]);
    float *came = train_with(net, data, bn, speed, k, &losses[1]);
    double difference = relative_difference(came, expected, start, network_numel(net));
    free(start);
    free(expected);
    free(came);
    return difference;
}

static void check_training(const Flags *flags) {
    static const double speeds[][4] = {{3, 1}, {1, 0.01}, {5, 2, 1, 0}, {0, 1, 1, 1}};
    static const int ks[] = {2, 2, 4, 4};
    Dataset *data = small_images(flags->data, false, CHECKED_STEPS * CHECKED_BATCH);
    Module *net = small_network();
    for (int c = 0; c < 4; c++) {
        double losses[2];
        double difference = effect_of_shards(net, data, BN_SYNC, speeds[c], ks[c], losses);
        EXPECT(difference <= 1e-2 && fabs(losses[1] - losses[0]) <= 1e-2 * losses[0],
               "each row belongs to one shard; the same call must give the same shards each time",
               "%s, then training: the parameters differ from those with equal shards by %.2g of "
               "what training changed, the loss is %.6f, expected at most 0.01 and %.6f",
               call_text(CHECKED_BATCH, speeds[c], ks[c]), difference, losses[1], losses[0]);
    }
    leave_devices(net, 0);
    module_free(net);
    dataset_free(data);
}

static void check(const Flags *flags) {
    static const double speeds[][5] = {{1, 1, 1, 1, 1},   {3, 1, 0, 0, 0},  {0, 0, 7, 0, 0},
                                       {100, 1, 1, 1, 1}, {2, 3, 5, 7, 11}, {0.1, 0.2, 0.3, 0, 1}};
    for (int c = 0; c < 6; c++)
        for (int n = 0; n <= 100; n++) check_shards(n, speeds[c], 5);
    check_shards(256, (const double[]){1}, 1);
    check_prediction();
    check_training(flags);
}

const CheckPart check_parts[] = {
    {"shards cover the rows, in proportion; training is that of equal shards", 10, check}, {0}};
