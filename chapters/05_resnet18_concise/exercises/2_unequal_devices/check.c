// check.c: shards must cover the rows in order, in proportion to the speeds; with them training
// must be what it is with equal shards.
#include "common/program/exercise.h"
#include "your_part.h"

#include <math.h>
#include <stdlib.h>

// ## Shards

// "shards_for(), 7 rows, speeds 3 1 0"; the text is replaced by the next call.
static const char *call_text(int n, const double speed[], int k) {
    static char text[128];
    int length = snprintf(text, sizeof text, "shards_for(), %d rows, speeds", n);
    for (int i = 0; i < k; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, " %g", speed[i]);
    return text;
}

static void check_cover(const char *call, int n, int k, const Range shards[]) {
    int rows = 0;
    for (int i = 0; i < k; i++) {
        EXPECT(shards[i].first == rows && shards[i].count >= 0,
               "a shard begins where the one before it ends",
               "%s: shard %d has %ld rows from row %ld on, expected row %d", call, i,
               shards[i].count, shards[i].first, rows);
        rows += shards[i].count;
    }
    EXPECT(rows == n, "whole parts leave rows over: are all of them given out, one to a device?",
           "%s: the shards have %d rows together, expected %d", call, rows, n);
}

static void check_shards(int n, const double speed[], int k) {
    Range shards[MAX_DEVICES];
    const char *call = call_text(n, speed, k);
    double total = 0, least_up = 1, most_down = 0; // remainders of those rounded up, and down
    for (int i = 0; i < k; i++) total += speed[i];
    shards_for(n, speed, k, shards);
    check_cover(call, n, k, shards);
    for (int i = 0; i < k; i++) {
        double quota = n * speed[i] / total, over = shards[i].count - quota;
        EXPECT(fabs(over) <= 1, "the whole part of n speed[i] / (sum of speeds), or one row more",
               "%s: device %d gets %ld rows, expected %.3f, up or down", call, i, shards[i].count,
               quota);
        if (over > 1e-9) least_up = fmin(least_up, 1 - over);
        if (over < -1e-9) most_down = fmax(most_down, -over);
    }
    EXPECT(
        least_up >= most_down - 1e-9, "the largest remainders get the rows that are left over",
        "%s: a remainder of %.3f was rounded up and one of %.3f down, expected the larger one up",
        call, least_up, most_down);
}

static void check_prediction(void) {
    const Range shards[] = {{0, 12}, {12, 3}, {15, 0}};
    const double speed[] = {6, 1, 0}, expected = 3.5;
    double came = predict_step(shards, speed, 3, 0.5);
    EXPECT(fabs(came - expected) <= 1e-9,
           "the slowest device counts, not the sum; one without rows takes no time; then comes the "
           "exchange",
           "predict_step(), 12 rows at 6 a second, 3 at 1, none at 0, and 0.5 s of exchange: %g s, "
           "expected %g s",
           came, expected);
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
               "%s, then training: the parameters end %.2g of their change away from those with "
               "equal shards, the loss is %.6f, expected at most 0.01 and %.6f",
               call_text(CHECKED_BATCH, speeds[c], ks[c]), difference, losses[1], losses[0]);
    }
    leave_devices(net, 0);
    module_free(net);
    dataset_free(data);
}

void check(const Flags *flags) {
    static const double speeds[][5] = {{1, 1, 1, 1, 1},   {3, 1, 0, 0, 0},  {0, 0, 7, 0, 0},
                                       {100, 1, 1, 1, 1}, {2, 3, 5, 7, 11}, {0.1, 0.2, 0.3, 0, 1}};
    for (int c = 0; c < 6; c++)
        for (int n = 0; n <= 100; n++) check_shards(n, speeds[c], 5);
    check_shards(256, (const double[]){1}, 1);
    check_prediction();
    check_training(flags);
}
