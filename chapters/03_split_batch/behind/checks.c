// checks.c: splits rows, checks that none is lost and that gradients are right, and prints it.
#include "behind.h"

#include "common/book.h"
#include "../split_batch.h"

static Tensor *arange(int rows, int cols) {
    Tensor *t = cols ? tensor_new(host(), rows, cols) : tensor_new(host(), rows);
    for (size_t i = 0; i < numel(t); i++) t->data[i] = (float)i;
    return t;
}

static void check_rows(const Tensor *whole, Tensor *const shards[], int k) {
    size_t next = 0;
    for (int i = 0; i < k; i++) {
        size_t n = numel(shards[i]);
        CHECK(next + n <= numel(whole), "the shards have no more rows than there are");
        float *values = tensor_values(shards[i]);
        CHECK(memcmp(values, whole->data + next, n * sizeof(float)) == 0,
              "each row is where it belongs");
        free(values);
        next += n;
    }
    CHECK(next == numel(whole), "no rows are missing");
}

void check_shards(const Tensor *X, const Tensor *y, Tensor *const X_shards[],
                  Tensor *const y_shards[], int k) {
    check_rows(X, X_shards, k);
    check_rows(y, y_shards, k);
    for (int i = 0; i < k; i++)
        CHECK(X_shards[i]->shape[0] == y_shards[i]->shape[0], "X and y are split alike");
}

Table table_of_sizes(void) {
    return TABLE(NULL, WHOLE("rows"), WHOLE("devices"), WORDS("shards", 20));
}

static void add_sizes(Table *t, int n, int k, Tensor *const X_shards[]) {
    char sizes[128] = "";
    for (int i = 0; i < k; i++) {
        CHECK(X_shards[i]->shape[0] == n / k + (i < n % k), "the first shards get what is left");
        size_t end = strlen(sizes);
        snprintf(sizes + end, sizeof sizes - end, "%s%d", i ? " " : "", X_shards[i]->shape[0]);
    }
    if (!t->has_head) printf("\nRows on each device\n");
    table_numbers(t, n, k);
    table_text(t, "%s", sizes);
}

void print_sizes(Table *t, int n, int k) {
    Tensor *X = arange(n, 3), *y = arange(n, 0), *X_shards[MAX_DEVICES], *y_shards[MAX_DEVICES];
    Device *devices[MAX_DEVICES];
    open_step(devices, k);
    split_batch(X, y, devices, k, X_shards, y_shards);
    if (has_values(devices[0])) check_shards(X, y, X_shards, y_shards, k);
    add_sizes(t, n, k, X_shards);
    tensor_free(X);
    tensor_free(y);
}

void split_a_matrix(void) {
    Device *devices[2];
    Tensor *data = arange(4, 5), *labels = arange(4, 0), *split[2], *split_labels[2];
    open_step(devices, 2);
    split_batch(data, labels, devices, 2, split, split_labels);

    tensor_print("input", data);
    printf("load into %s\n", device_names(devices, 2));
    tensor_print("output", split[0]);
    tensor_print("      ", split[1]);
    check_shards(data, labels, split, split_labels, 2);
    tensor_free(data);
    tensor_free(labels);
}

Table table_of_errors(void) {
    return TABLE(NULL, WHOLE("n"), WHOLE("over k"), WORDS("sum / n", 9),
                 WORDS("average of averages", 19));
}

double print_errors(Table *t, int n, int k, const float one[], const float summed[],
                    const float averaged[]) {
    double error = relative_difference(summed, one, NULL, NUM_GRADS);
    double error_of_averages = relative_difference(averaged, one, NULL, NUM_GRADS);
    if (!t->has_head) printf("\nErrors of the gradient\n");
    table_numbers(t, n, k);
    table_text(t, "%.1e", error);
    table_text(t, "%.1e", error_of_averages); // which a number of table.h would print as "-": nan
    CHECK(error <= 1e-5, "the sum over the shards, divided by n, is the gradient");
    if (n % k == 0)
        CHECK(error_of_averages <= 1e-5, "with equal shards both are the same");
    else
        CHECK(!(error_of_averages <= 1e-4), "with unequal shards an average of averages is wrong");
    book_result("k devices that sum, and divide once, get the gradient of one device");
    return error_of_averages;
}
