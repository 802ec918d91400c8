// wrong: a step is made before the mean is looked at
// loses: 3
// says: below the goal before the first step

#include "your_part.h"

const Where found[NUM_FUNCTIONS][RANKS_WATCHED] = {
    {ALL_REDUCE, BARRIER, BARRIER},
    {BARRIER, ALL_REDUCE, ALL_REDUCE},
    {NOWHERE, NOWHERE, NOWHERE},
    {ALL_REDUCE, ALL_REDUCE, BROADCAST},
};

void report(Training *t) {
    float loss = my_loss(t);
    sum_over_ranks(&loss, "the loss");
    if (dist_get_rank() == 0) t->mean_loss = loss / (float)dist_get_world_size();
}

int train_until(Training *t, float goal) {
    do {
        float gradient = my_gradient(t, 0, t->rows);
        sum_over_ranks(&gradient, "the gradient");
        t->w += gradient;
        t->step++;
        report(t);
        copy_from_rank_0(&t->mean_loss, "the loss");
    } while (t->mean_loss >= goal);
    return t->step;
}

void exchange(Buckets *b) {
    bool arrived[NUM_BUCKETS] = {false};
    int next = 0;
    while (next < NUM_BUCKETS) {
        arrived[next_arrived(b)] = true;
        while (next < NUM_BUCKETS && arrived[next]) sum_bucket(b, next++);
    }
}

void train_epoch(Training *t, int batch) {
    for (int first = 0; first < t->most_rows; first += batch) {
        int n = t->rows - first;
        if (n < 0) n = 0;
        if (n > batch) n = batch;
        float gradient = n > 0 ? my_gradient(t, first, n) : 0;
        sum_over_ranks(&gradient, "the gradient");
        t->w += gradient;
        t->step++;
    }
}
