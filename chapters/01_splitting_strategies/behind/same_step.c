// same_step.c: compares a step on k devices with the same step on one.
#include "behind.h"

#include "common/book.h"

typedef struct Step {
    double loss, next_loss; // summed over the rows: before the update, and after it
    float *grads[MAX_PARAMS];
} Step;

static Step take_step(const Problem *problem, const Strategy *strategy, int k) {
    Step step;
    Spread *s = problem_spread(problem, strategy, k);
    strategy->gradients(s, problem->X, problem->y);
    step.loss = spread_loss(s);
    for (int p = 0; p < num_params(problem->network); p++)
        step.grads[p] = spread_grad(s, p, problem->params[p]);
    spread_update(s, problem->lr, problem->X->shape[0]);
    strategy->gradients(s, problem->X, problem->y);
    step.next_loss = spread_loss(s);
    spread_close(s);
    return step;
}

static void step_free(Step *step, const Network *network) {
    for (int p = 0; p < num_params(network); p++) free(step->grads[p]);
}

// A cell of the table, to be freed: the largest difference, such as "1e-07" or "exact", or "-" if
// the network has too few layers for k devices. A loss's difference is measured against the loss,
// and a gradient's against its largest number.
static char *compare(const Problem *problem, const Strategy *strategy, int k, const Step *one) {
    if (!problem_fits(problem, strategy, k)) return xstrdup("-");
    Step step = take_step(problem, strategy, k);
    double worst = fabs(step.loss / one->loss - 1) + fabs(step.next_loss / one->next_loss - 1);
    for (int p = 0; p < num_params(problem->network); p++) {
        double difference =
            relative_difference(step.grads[p], one->grads[p], NULL, numel(problem->params[p]));
        if (isnan(difference) || difference > worst) worst = difference;
    }
    step_free(&step, problem->network);
    if (!(worst <= 1e-5))
        die("a bug: please report it", "%s, k = %d: a loss or a gradient differs by %g",
            strategy->name, k, worst);
    return worst > 0 ? xprintf("%.0e", worst) : xstrdup("exact");
}

void compare_steps_with_one_device(const Problem *problem, const int ks[], int n) {
    Step one = take_step(problem, &across_data, 1);
    int rows = problem->X->shape[0];
    // If an update makes the loss much larger (or NaN), it enlarges differences by rounding as
    // much, and the comparison would fail for no good reason.
    if (!(one.next_loss <= 10 * one.loss))
        die("start again with a smaller --lr", "one update with lr %g takes the loss from %g to %g",
            (double)problem->lr, one.loss / rows, one.next_loss / rows);
    printf("  difference from one device");
    for (int j = 0; j < n; j++) printf("%8s%2d", "k =", ks[j]);
    for (int i = 0; i < NUM_STRATEGIES; i++) {
        printf("\n  %-26s", strategies[i]->name);
        for (int j = 0; j < n; j++) {
            char *difference = compare(problem, strategies[i], ks[j], &one);
            printf("%10s", difference);
            free(difference);
        }
    }
    printf("\n");
    book_result("split in three ways, a step computes what one device computes");
    step_free(&one, problem->network);
}
