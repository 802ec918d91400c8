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

// Each row belongs to one shard, in order.
static void check_cover(const char *call, int n, int k, const Range shards[]) {
    int rows = 0;
    for (int i = 0; i < k; i++) {
        EXPECT(shards[i].count >= 0,
               shards[i].count < -n
                   ? "a device of speed 0 gets no rows: rows go by speed, not by time"
                   : "the devices before it got more rows than there are: give each the whole part "
                     "of its quota first, then the rows that are left over, one by one",
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
                 : "each device gets the whole part of its quota n speed[i] / (sum of speeds), and "
                   "of the rows that are left over one or none";
}

typedef enum { WHOLE, ROUNDED, LARGEST_UP } Looked; // at quotas that are whole numbers; at all

// Each quota, if it is no whole number, is rounded up or down.
static void check_quotas(const char *call, int n, const double speed[], int k, const Range shards[],
                         Looked at) {
    for (int i = 0; i < k; i++) {
        double quota = quota_of(n, speed, k, i);
        EXPECT(fabs((double)shards[i].count - quota) < (at == WHOLE ? 1e-9 : 1 + 1e-9),
               hint_for_rows(shards, n, k),
               "%s: the shards have %s rows; device %d gets %ld, expected %.4g%s", call,
               rows_text(shards, k), i, shards[i].count, quota,
               at == WHOLE ? "" : ", rounded up or down");
    }
}

// No remainder is rounded down that is larger than one that is rounded up.
static void check_remainders(const char *call, int n, const double speed[], int k,
                             const Range shards[]) {
    double least_up = 1, most_down = 0;
    for (int i = 0; i < k; i++) {
        double over = (double)shards[i].count - quota_of(n, speed, k, i);
        if (over > 1e-9) least_up = fmin(least_up, 1 - over);
        if (over < -1e-9) most_down = fmax(most_down, -over);
    }
    EXPECT(least_up >= most_down - 1e-9,
           "the rows that are left over go to the devices with the largest remainders",
           "%s: the shards have %s rows; a remainder of %.3f was rounded up and one of %.3f down, "
           "expected the larger one up",
           call, rows_text(shards, k), least_up, most_down);
}

static void check_shards(int n, const double speed[], int k, Looked at) {
    Range shards[MAX_DEVICES];
    const char *call = call_text(n, speed, k);
    shards_for(n, speed, k, shards);
    check_cover(call, n, k, shards);
    check_quotas(call, n, speed, k, shards, at);
    if (at == LARGEST_UP) check_remainders(call, n, speed, k, shards);
}

static void check_five_devices(Looked at) {
    static const double speeds[][5] = {{1, 1, 1, 1, 1},   {3, 1, 0, 0, 0},  {0, 0, 7, 0, 0},
                                       {100, 1, 1, 1, 1}, {2, 3, 5, 7, 11}, {0.1, 0.2, 0.3, 0, 1}};
    for (int c = 0; c < 6; c++)
        for (int n = 0; n <= 100; n++) check_shards(n, speeds[c], 5, at);
}

// ## Seconds

typedef struct Step {
    Range shards[3];
    double speed[3], exchange, expected;
} Step;

static const char *hint_for_seconds(const Step *s, double came) {
    double rows = 0, speeds = 0, sum = 0;
    for (int i = 0; i < 3; i++) {
        rows += (double)s->shards[i].count;
        speeds += s->speed[i];
        if (s->shards[i].count > 0) sum += (double)s->shards[i].count / s->speed[i];
    }
    if (!isfinite(came)) return "a device without rows has nothing to do: leave 0 / 0 out";
    if (fabs(came - (s->expected - s->exchange)) <= 1e-9)
        return "after computing comes the exchange";
    if (fabs(came - (sum + s->exchange)) <= 1e-9)
        return "that is the sum of the devices' times, but they work side by side: the slowest "
               "one counts";
    if (fabs(came - (rows / speeds + s->exchange)) <= 1e-9)
        return "that is all rows at the speed of all devices together, as if they were ready at "
               "the same time: but the slowest one counts, with rows / speed of its own";
    return "the devices work side by side, so the slowest one counts, not the sum; a device needs "
           "rows / speed seconds";
}

static void check_seconds(const Step *s) {
    double came = predict_step(s->shards, s->speed, 3, s->exchange);
    EXPECT(fabs(came - s->expected) <= 1e-9, hint_for_seconds(s, came),
           "predict_step(), shards of %s rows, speeds %g %g %g rows per second, exchange %g s: %g "
           "s, expected %g s",
           rows_text(s->shards, 3), s->speed[0], s->speed[1], s->speed[2], s->exchange, came,
           s->expected);
}

// ## Training

enum { CHECKED_STEPS = 3, CHECKED_BATCH = 30 };

// Trains on k devices with shards for these speeds. The values of device 0 at the end; free() them.
static float *train_with(Module *net, const Dataset *data, const double speed[], int k,
                         double *loss) {
    Tensor *X, *y, *losses[MAX_DEVICES];
    Range shards[MAX_DEVICES];
    DataParallel dp = network_on(net, k, BN_SYNC, 7);
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

// How far apart some steps of training end with equal shards and with shards_for() these speeds, as
// a part of the change. The losses of the last step: with equal shards, and with those.
static double effect_of_shards(Module *net, const Dataset *data, const double speed[], int k,
                               double losses[2]) {
    const double equal[] = {1, 1, 1, 1};
    network_on(net, 1, BN_SYNC, 7);
    float *start = network_values(net, try_gpu(0));
    float *expected = train_with(net, data, equal, k, &losses[0]);
    float *came = train_with(net, data, speed, k, &losses[1]);
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
        check_shards(CHECKED_BATCH, speeds[c], ks[c], ROUNDED); // else there is nothing to train
        double difference = effect_of_shards(net, data, speeds[c], ks[c], losses);
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

// ## The parts

// Quotas that are whole numbers, and in floats, too, in whichever order they are computed.
static void check_whole_quotas(const Flags *flags) {
    static const double speeds[][5] = {
        {3, 1, 0, 0, 0}, {0, 0, 7, 0, 0}, {1, 1, 1, 1, 0}, {2, 1, 4, 0, 1}};
    (void)flags;
    for (int c = 0; c < 4; c++)
        for (int n = 0; n <= 96; n += 8) check_shards(n, speeds[c], 5, WHOLE);
    check_shards(256, (const double[]){1}, 1, WHOLE);
}

static void check_rounded(const Flags *flags) {
    check_five_devices(ROUNDED);
    check_training(flags);
}

static void check_largest(const Flags *flags) {
    (void)flags;
    check_five_devices(LARGEST_UP);
}

static void check_slowest(const Flags *flags) {
    static const Step steps[] = {
        {{{0, 12}, {12, 3}, {15, 4}}, {6, 1, 2}, 0.5, 3.5},
        {{{0, 8}, {8, 2}, {10, 1}}, {2, 1, 4}, 0.25, 4.25},
    };
    (void)flags;
    for (int c = 0; c < 2; c++) check_seconds(&steps[c]);
}

static void check_without_rows(const Flags *flags) {
    static const Step steps[] = {
        {{{0, 12}, {12, 3}, {15, 0}}, {6, 1, 0}, 0.5, 3.5},
        {{{0, 0}, {0, 3}, {3, 12}}, {0, 1, 6}, 0.5, 3.5},
        {{{0, 0}, {0, 0}, {0, 0}}, {6, 1, 0}, 0.5, 0.5},
    };
    (void)flags;
    for (int c = 0; c < 3; c++) check_seconds(&steps[c]);
}

const CheckPart check_parts[] = {
    {"shards_for(): quotas that are whole numbers", 2, check_whole_quotas},
    {"shards_for(): all quotas, rounded up or down; training is as with equal shards", 3,
     check_rounded},
    {"shards_for(): rows left over go by the largest remainders", 2, check_largest},
    {"predict_step(): the slowest device, and the exchange", 2, check_slowest},
    {"predict_step(): a device without rows takes no time", 1, check_without_rows},
    {0}};
