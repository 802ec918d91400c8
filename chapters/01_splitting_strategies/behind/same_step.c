// same_step.c: computes a step on one device, and compares the same step on k devices with it: loss,
// gradients, and the loss after one update.
#include "behind.h"

#include "common/book.h"

// What one device computes for a minibatch.
typedef struct Reference {
    double loss, next_loss; // summed over the rows: before the update, and after it
    float *grads[MAX_PARAMS];
} Reference;

// ---- one device ------------------------------------------------------------------------------

static Tensor *loss_on(Device *device, const Problem *problem, Tensor *const there[]) {
    begin_step(device);
    Tensor *X = tensor_to(problem->X, device), *y = tensor_to(problem->y, device);
    Range all_layers = {0, problem->network->num_layers};
    Tensor *loss = sum(cross_entropy(layers_forward(problem->network, all_layers, X, there), y));
    backward(loss);
    tensor_free(X);
    tensor_free(y);
    return loss;
}

// If an update makes the loss much larger (or NaN), it enlarges differences by rounding as much,
// and the comparison would fail for no good reason.
static void refuse_large_lr(const Problem *problem, const Reference *r) {
    int n = problem->X->shape[0];
    if (!(r->next_loss <= 10 * r->loss))
        die("start again with a smaller --lr", "one update with lr %g takes the loss from %g to %g",
            (double)problem->lr, r->loss / n, r->next_loss / n);
}

static Reference one_device_step(const Problem *problem) {
    Reference r;
    Device *device;
    Tensor *there[MAX_PARAMS];
    int count = num_params(problem->network);
    open_devices(&device, 1);
    for (int p = 0; p < count; p++) {
        there[p] = tensor_to(problem->params[p], device);
        attach_grad(there[p]);
    }
    r.loss = (double)item(loss_on(device, problem, there));
    for (int p = 0; p < count; p++) r.grads[p] = tensor_values(there[p]->grad);
    sgd(there, count, problem->lr, problem->X->shape[0]);
    r.next_loss = (double)item(loss_on(device, problem, there));
    for (int p = 0; p < count; p++) tensor_free(there[p]);
    refuse_large_lr(problem, &r);
    return r;
}

// ---- k devices -------------------------------------------------------------------------------

static const double TOLERANCE = 1e-5;

static double check_same_loss(const Spread *s, double expected) {
    double difference = fabs(spread_loss(s) / expected - 1);
    if (!(difference <= TOLERANCE))
        die("a bug: please report it", "%s, k = %d: loss %.8g, one device has %.8g",
            s->strategy->name, s->k, spread_loss(s), expected);
    return difference;
}

static double check_same_gradient(const Spread *s, int p, const Tensor *param,
                                  const float *expected) {
    float *grad = spread_grad(s, p, param);
    double difference = relative_difference(grad, expected, NULL, numel(param));
    free(grad);
    if (!(difference <= TOLERANCE))
        die("a bug: please report it",
            "%s, k = %d: the gradient of %s differs by %g of its largest number from one device's",
            s->strategy->name, s->k, param->name, difference);
    return difference;
}

static double check_same_gradients(const Spread *s, const Problem *problem, const Reference *r) {
    double worst = 0;
    for (int p = 0; p < num_params(problem->network); p++)
        worst = fmax(worst, check_same_gradient(s, p, problem->params[p], r->grads[p]));
    return worst;
}

// Ends the program with an error if a loss or a gradient differs from one device's by more than
// rounding. Returns the largest difference: of a loss, as a part of it; of a gradient, as a part of
// its largest number.
static double check_same_step(Spread *s, const Problem *problem, const Reference *r) {
    s->strategy->gradients(s, problem->X, problem->y);
    double loss = check_same_loss(s, r->loss), grads = check_same_gradients(s, problem, r);
    spread_update(s, problem->lr, problem->X->shape[0]);
    s->strategy->gradients(s, problem->X, problem->y);
    double next_loss = check_same_loss(s, r->next_loss);
    return fmax(grads, fmax(loss, next_loss));
}

// "exact", "1e-07", or "-" if the network has too few layers for k devices; free() it.
static char *difference_on(const Problem *problem, const Reference *r, const Strategy *strategy,
                           int k) {
    if (!problem_fits(problem, strategy, k)) return xstrdup("-");
    Spread *s = problem_spread(problem, strategy, k);
    double difference = check_same_step(s, problem, r);
    spread_close(s);
    return difference > 0 ? xprintf("%.0e", difference) : xstrdup("exact");
}

void compare_steps_with_one_device(const Problem *problem, const int ks[], int n) {
    Reference r = one_device_step(problem);
    printf("  difference from one device");
    for (int j = 0; j < n; j++) printf("%8s%2d", "k =", ks[j]);
    printf("\n");
    for (int i = 0; i < NUM_STRATEGIES; i++) {
        printf("  %-26s", strategies[i]->name);
        for (int j = 0; j < n; j++) {
            char *difference = difference_on(problem, &r, strategies[i], ks[j]);
            printf("%10s", difference);
            free(difference);
        }
        printf("\n");
    }
    book_result("split in three ways, a step is that of one device");
    for (int p = 0; p < num_params(problem->network); p++) free(r.grads[p]);
}
