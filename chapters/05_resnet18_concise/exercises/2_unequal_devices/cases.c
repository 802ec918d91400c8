// cases.c: rows divided among drawn speeds, so that no two remainders are equal; then training with
// such shards, and the seconds of drawn steps.
#include "common/device/ledger.h"
#include "common/program/facts.h"
#include "your_part.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WHOLE_QUOTAS = 1, ROUNDED, REMAINDERS, SLOWEST, WITHOUT_ROWS };
const Part parts[] = {
    {"shards_for(): quotas that are whole numbers", 2},
    {"shards_for(): all quotas, rounded up or down; training is as with equal shards", 3},
    {"shards_for(): rows left over go by the largest remainders", 2},
    {"predict_step(): the slowest device, and the exchange", 2},
    {"predict_step(): a device without rows takes no time", 1},
    {0}};

enum { MOST = 5 };

static void add_number(char text[200], double number) {
    size_t used = strlen(text);
    snprintf(text + used, 200 - used, " %g", number);
}

// ---- shards_for() ------------------------------------------------------------------------------

// What is n speed[i] / (sum of speeds), times that sum: in whole numbers, so nothing is rounded.
typedef struct Split {
    int n, k, speeds;
    double speed[MOST];
} Split;
static int times_quota(const Split *s, int i) { return s->n * (int)s->speed[i]; }

static bool two_remainders_are_equal(const Split *s) {
    for (int i = 0; i < s->k; i++)
        for (int j = 0; j < i; j++) {
            int a = times_quota(s, i) % s->speeds, b = times_quota(s, j) % s->speeds;
            if (a == b && a > 0) return true;
        }
    return false;
}

// If `whole`, all quotas are: n is a multiple of the speeds' sum, which is a power of 2.
static Split draw_split(int k, bool whole) {
    Split s;
    do {
        s = (Split){.k = k};
        for (int i = 0; i < k; i++) {
            s.speed[i] = draw(0, 3) == 0 ? 0 : (double)draw(1, 12);
            s.speeds += (int)s.speed[i];
        }
        int sum = 1;
        while (whole && sum < s.speeds) sum *= 2;
        if (whole) s.speed[k - 1] += sum - s.speeds, s.speeds = sum;
        s.n = whole ? sum * (int)draw(1, 3) : (int)draw(1, 100);
    } while (s.speeds == 0 || two_remainders_are_equal(&s));
    return s;
}

static void begin_split(const Split *s, const char *what) {
    char text[200] = "", quotas[200] = "";
    for (int i = 0; i < s->k; i++) {
        add_number(text, s->speed[i]);
        add_number(quotas, (double)times_quota(s, i) / s->speeds);
    }
    begin_case("%s, %d rows, speeds%s (quotas%s)", what, s->n, text, quotas);
}

static void split(int part, const Split *s) {
    Range shards[MOST];
    int rows[MOST], gaps[MOST], whole[MOST], most = 0, sum = 0;
    memset(shards, -1, sizeof shards);
    shards_for(s->n, s->speed, s->k, shards);
    for (int i = 0; i < s->k; i++) {
        int quota = times_quota(s, i) / s->speeds, over = (int)shards[i].count - quota;
        rows[i] = (int)shards[i].count;
        whole[i] = over < 0 ? rows[i] : quota;
        most = over > most ? over : most;
        gaps[i] = (int)shards[i].first - sum;
        sum += rows[i];
    }
    // What holds whoever gets the rows that are left over:
    record_int(part, sum, "rows of all shards");
    record_ints(part, whole, (size_t)s->k,
                "rows, without those beyond the whole part of the quota");
    record_int(part, most, "most rows of a device beyond the whole part of its quota");
    record_ints(part, gaps, (size_t)s->k, "rows between a shard's begin and the end before it");
    record_ints(part == ROUNDED ? REMAINDERS : part, rows, (size_t)s->k, "rows of the shards");
}

static void splits(void) {
    for (int c = 0; c < 60; c++) {
        Split s = draw_split(1 + c % 30 / 6, c < 30);
        begin_split(&s, "shards_for()");
        split(c < 30 ? WHOLE_QUOTAS : ROUNDED, &s);
    }
}

// ---- training ----------------------------------------------------------------------------------

static void training(void) {
    Module *net = small_network();
    for (int k = 2; k <= 4; k++) {
        Tensor *X, *y, *losses[MAX_DEVICES];
        Split s = draw_split(k, false);
        s.n += 20; // (What each gets is not recorded here.)
        Dataset *data = drawn_images(s.n);
        DataIter *iter = data_iter_new(data, s.n, false, 0);
        DataParallel dp = network_on(net, k, BN_SYNC, (uint64_t)draw(1, 1000000));
        begin_split(&s, "three steps with shards_for()");
        for (int step = 0; step < 3; step++) {
            Range shards[MOST];
            double loss = 0;
            data_iter_first(iter, &X, &y);
            shards_for(s.n, s.speed, k, shards);
            train_step_as(&dp, shards, X, y, 0.2f, losses);
            for (int i = 0; i < k; i++) loss += (double)item(losses[i]);
            record_real(ROUNDED, loss, 1e-4, "loss of step %d", step);
        }
        record_biases(ROUNDED, net, dp.devices[0]);
        data_iter_free(iter);
        dataset_free(data);
        leave_devices(net, 0);
    }
    module_free(net);
}

// ---- predict_step() ----------------------------------------------------------------------------

static void steps(void) {
    for (int c = 0; c < 20; c++) {
        int k = 1 + c % 10 / 2, part = c < 10 ? SLOWEST : WITHOUT_ROWS, first = 0;
        char text[200] = "", speeds[200] = "";
        Range shards[MOST];
        double speed[MOST], exchange = (double)draw(1, 100) / 16;
        int idle = part == SLOWEST ? -1 : (int)draw(0, 1) * (k - 1); // the first or the last
        for (int i = 0; i < k; i++) {
            speed[i] = i == idle ? 0 : (double)draw(1, 12);
            shards[i] = (Range){first, i == idle ? 0 : (int)draw(1, 40)};
            first += (int)shards[i].count;
            add_number(text, (double)shards[i].count);
            add_number(speeds, speed[i]);
        }
        begin_case("predict_step(), shards of%s rows, speeds of%s rows per second, exchange %g s",
                   text, speeds, exchange);
        double seconds = predict_step(shards, speed, k, exchange);
        record_real(part, isnan(seconds) ? -1 : seconds, 1e-9, "seconds (-1: not a number)");
    }
}

const Group groups[] = {
    {"shards_for()", splits, 5}, {"training", training, 10}, {"predict_step()", steps, 5}, {0}};
