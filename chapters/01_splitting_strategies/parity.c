// parity.c: see parity.h.
#include "parity.h"

#include "common/base/error.h"

#include <math.h>
#include <stdlib.h>

static const double TOLERANCE = 1e-5;

double check_same_loss(const Spread *s, double expected) {
    double difference = fabs(spread_loss(s) / expected - 1);
    if (!(difference <= TOLERANCE))
        die("a bug: please report it", "%s, k = %d: loss %.8g, one device has %.8g",
            s->strategy->name, s->k, spread_loss(s), expected);
    return difference;
}

static double check_same_gradient(const Spread *s, int p, const Tensor *param,
                                  const float *expected) {
    float *grad = spread_grad(s, p, param);
    double largest = 0, difference = 0;
    for (size_t i = 0; i < numel(param); i++) {
        double off = fabs((double)grad[i] - (double)expected[i]);
        largest = fmax(largest, fabs((double)expected[i]));
        difference = off <= difference ? difference : off; // a NaN stays
    }
    free(grad);
    if (!(difference <= TOLERANCE * largest))
        die("a bug: please report it",
            "%s, k = %d: the gradient of %s differs by %g from one device's", s->strategy->name,
            s->k, param->name, difference);
    return largest > 0 ? difference / largest : 0;
}

double check_same_gradients(const Spread *s, const Problem *problem, const Reference *r) {
    double worst = 0;
    for (int p = 0; p < num_params(problem->network); p++)
        worst = fmax(worst, check_same_gradient(s, p, problem->params[p], r->grads[p]));
    return worst;
}
