// wrong: an epoch has whole minibatches only; and the reported loss is the sum, not the mean
// loses: 2 5
// says: that is the sum: divide it by the number of ranks

#include "your_part.h"

const Where found[NUM_FUNCTIONS][RANKS_WATCHED] = {
    [REPORT] = {ALL_REDUCE, BARRIER, BARRIER},
    [TRAIN_UNTIL] = {BARRIER, ALL_REDUCE, ALL_REDUCE},
    [EXCHANGE] = {NOWHERE, NOWHERE, NOWHERE},
    [TRAIN_EPOCH] = {ALL_REDUCE, ALL_REDUCE, BROADCAST},
};

void report(Training *t) {
    float loss = my_loss(t);
    sum_over_ranks(&loss, "the loss");
    if (dist_get_rank() == 0) t->mean_loss = loss;
}

static float mean_over_ranks(float x) {
    sum_over_ranks(&x, "the loss");
    return x / (float)dist_get_world_size();
}

int train_until(Training *t, float goal) {
    while (mean_over_ranks(my_loss(t)) >= goal) {
        float gradient = my_gradient(t, 0, t->rows);
        sum_over_ranks(&gradient, "the gradient");
        t->w += gradient;
        t->step++;
    }
    return t->step;
}

void exchange(Buckets *b) {
    bool here[NUM_BUCKETS] = {false};
    for (int i = 0, next = 0; i < NUM_BUCKETS; i++) {
        here[next_arrived(b)] = true;
        for (; next < NUM_BUCKETS && here[next]; next++) sum_bucket(b, next);
    }
}

void train_epoch(Training *t, int batch) {
    for (int first = 0; first + batch <= t->most_rows; first += batch) {
        int left = t->rows - first;
        float gradient = my_gradient(t, first, left < batch ? left : batch);
        sum_over_ranks(&gradient, "the gradient");
        t->w += gradient;
        t->step++;
    }
}
