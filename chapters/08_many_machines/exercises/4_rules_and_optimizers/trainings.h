// trainings.h: the trainings of this exercise: chapter 8's (lr_rules.h), by gradient descent and by
// Adam, dealt out to ranks.
#ifndef TRAININGS_H
#define TRAININGS_H

#include "chapters/08_many_machines/lr_rules.h"

enum { NUM_SEEDS = 6, MOST_TIMES = 2, MOST_JOBS = 4 * MOST_RULE_JOBS };

typedef struct Trainings {
    bool full; // not only the narrow ResNet-18 and batch x4, but LeNet and x16, too
    int train_images, test_images;
    int n;
    RuleJob jobs[MOST_JOBS];
    RuleResult results[MOST_JOBS];
} Trainings;

// All jobs: for each optimizer, network and seed the base batch once, and each rule. LeNet has
// twice as many training images.
Trainings list_trainings(bool full, int train_images, int test_images);

// The accuracies of a rule, seed by seed; NaN if a training diverged. times 1: of the base batch,
// whichever the rule. Returns the first of the trainings.
int accuracies(const Trainings *t, RuleOptimizer optimizer, RuleNetwork network, LrRule rule,
               int times, double accuracy[NUM_SEEDS]);

// Does them, on as many ranks as there are cores (up to 8), or, where none can be started, one
// after the other in this process: then *why says why. `data` is the folder of the images, or NULL.
void run_trainings(Trainings *t, const char *data, const char **why);

// For main(): what each of these ranks does. Returns its exit status.
int train_as_rank(const char *case_name);

#endif
