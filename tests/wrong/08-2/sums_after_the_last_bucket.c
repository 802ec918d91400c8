// wrong: waits for all buckets before the first is summed; and thinks that exchange() hangs
// loses: 1 4
// says: does it hang at all

#include "your_part.h"

const Where found[NUM_FUNCTIONS][RANKS_WATCHED] = {
    [REPORT] = {ALL_REDUCE, BARRIER, BARRIER},
    [TRAIN_UNTIL] = {BARRIER, ALL_REDUCE, ALL_REDUCE},
    [EXCHANGE] = {ALL_REDUCE, ALL_REDUCE, ALL_REDUCE},
    [TRAIN_EPOCH] = {ALL_REDUCE, ALL_REDUCE, BROADCAST},
};

void report(Training *t) {
    float sum = my_loss(t);
    sum_over_ranks(&sum, "the loss");
    t->mean_loss = sum / (float)dist_get_world_size();
}

int train_until(Training *t, float goal) {
    report(t);
    while (t->mean_loss >= goal) {
        float gradient = my_gradient(t, 0, t->rows);
        sum_over_ranks(&gradient, "the gradient");
        t->w += gradient;
        t->step++;
        report(t);
    }
    return t->step;
}

void exchange(Buckets *b) {
    for (int i = 0; i < NUM_BUCKETS; i++) next_arrived(b);
    for (int i = 0; i < NUM_BUCKETS; i++) sum_bucket(b, i);
}

void train_epoch(Training *t, int batch) {
    int steps = (t->most_rows + batch - 1) / batch;
    for (int s = 0; s < steps; s++, t->step++) {
        int first = s * batch, left = t->rows - first;
        float gradient = 0;
        if (left > 0) gradient = my_gradient(t, first, left < batch ? left : batch);
        sum_over_ranks(&gradient, "the gradient");
        t->w += gradient;
    }
}
