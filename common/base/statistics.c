// statistics.c: medians and quartiles by sorting a copy of the values.
#include "statistics.h"
#include "error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

Quartiles quartiles(const double values[], int n) {
    CHECK(n > 0, "there is no middle of nothing");
    for (int i = 0; i < n; i++)
        if (isnan(values[i])) return (Quartiles){NAN, NAN, NAN};
    double *sorted = xmalloc(sizeof *sorted * (size_t)n);
    memcpy(sorted, values, sizeof *sorted * (size_t)n);
    qsort(sorted, (size_t)n, sizeof *sorted, by_size);
    Quartiles q = {sorted[n / 4], sorted[n / 2], sorted[n - 1 - n / 4]};
    free(sorted);
    return q;
}

double median(const double values[], int n) { return quartiles(values, n).median; }

double mean(const double values[], int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += values[i];
    return sum / n;
}

double minimum(const double values[], int n) {
    double least = values[0];
    for (int i = 0; i < n && !isnan(least); i++)
        if (!(values[i] >= least)) least = values[i]; // a NaN stays
    return least;
}

double maximum(const double values[], int n) {
    double most = values[0];
    for (int i = 0; i < n && !isnan(most); i++)
        if (!(values[i] <= most)) most = values[i];
    return most;
}
