// solution.c: what each of three ranks is in, and the four functions, mended.
#include "your_part.h"

const Where found[NUM_FUNCTIONS][RANKS_WATCHED] = {
    [REPORT] = {ALL_REDUCE, BARRIER, BARRIER},
    [TRAIN_UNTIL] = {BARRIER, ALL_REDUCE, ALL_REDUCE},
    [EXCHANGE] = {NOWHERE, NOWHERE, NOWHERE},
    [TRAIN_EPOCH] = {ALL_REDUCE, ALL_REDUCE, BROADCAST},
};

void report(Training *t) {
    float sum = my_loss(t);
    sum_over_ranks(&sum, "the loss");
    t->mean_loss = sum / (float)dist_get_world_size();
}

int train_until(Training *t, float goal) {
    for (report(t); t->mean_loss >= goal; report(t)) {
        float all = my_gradient(t, 0, t->rows);
        sum_over_ranks(&all, "the gradient");
        t->w += all;
        t->step++;
    }
    return t->step;
}

void exchange(Buckets *b) {
    bool here[NUM_BUCKETS] = {false};
    for (int i = 0, next = 0; i < NUM_BUCKETS; i++) {
        here[next_arrived(b)] = true;
        while (next < NUM_BUCKETS && here[next]) sum_bucket(b, next++);
    }
}

void train_epoch(Training *t, int batch) {
    for (int first = 0; first < t->most_rows; first += batch) {
        int left = t->rows > first ? t->rows - first : 0;
        float gradient = left > 0 ? my_gradient(t, first, left < batch ? left : batch) : 0;
        sum_over_ranks(&gradient, "the gradient");
        t->w += gradient;
        t->step++;
    }
}
