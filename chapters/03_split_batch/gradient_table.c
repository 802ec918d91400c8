// gradient_table.c: see gradient_table.h.
#include "gradient_table.h"

#include "common/base/error.h"
#include "common/base/range.h"
#include "common/program/say.h"

#include <math.h>
#include <stdio.h>

// The largest difference between a[] and b[], relative to the largest number of a[]; NAN if there
// is a NAN.
static double relative_error(const double a[], const double b[]) {
    double largest = 0, size = 0;
    for (int j = 0; j < NUM_GRADS; j++) {
        if (isnan(a[j]) || isnan(b[j])) return NAN;
        largest = fmax(largest, fabs(a[j] - b[j]));
        size = fmax(size, fabs(a[j]));
    }
    return largest / size;
}

void print_gradient_head(void) {
    printf("Gradients for n images over k devices\n"
           "               one device    (g_1+...+g_k) / n         average of averages\n"
           "   n over  k         b[0]          b[0]     error          b[0]     error\n");
}

double print_gradient_row(int n, int k, const double one[], const double sum_over_n[],
                          const double average_of_averages[], bool equal) {
    double error = relative_error(one, sum_over_n);
    double error_of_averages = relative_error(one, average_of_averages);
    printf("  %3d over %2d  %12.8f  %12.8f %9.1e", n, k, one[FIRST_BIAS], sum_over_n[FIRST_BIAS],
           error);
    if (isnan(error_of_averages))
        printf("  %12s %9s\n", "nan", "nan");
    else
        printf("  %12.8f %9.1e\n", average_of_averages[FIRST_BIAS], error_of_averages);
    CHECK(error <= 1e-5, "the sum over the shards, divided by n, is the gradient");
    if (equal)
        CHECK(error_of_averages <= 1e-5, "with equal shards both are the same");
    else
        CHECK(!(error_of_averages <= 1e-4), "with unequal shards an average of averages is wrong");
    return error_of_averages;
}

void explain_averages(int n, int k) {
    long large = equal_range(n, k, 0).count, small = equal_range(n, k, k - 1).count;
    if (large != small)
        say("In the average of averages, an image in a shard of %ld counts 1/%ld and one in a "
            "shard of %ld 1/%ld; each should count 1/%d. Equal shards hide the mistake, and a "
            "shard without rows makes it 0/0, which is no number (nan).",
            large, k * large, small, k * small, n);
    say("So devices sum, and sgd() divides once, by the full size of the minibatch.");
}
