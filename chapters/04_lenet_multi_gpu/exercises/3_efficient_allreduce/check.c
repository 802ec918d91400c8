// check.c: whole numbers are added without rounding, so the sums must be exact. And each device
// must send and receive what the formula says: see chapter 2.
#include "common/base/error.h"
#include "common/program/exercise.h"
#include "common/tensor/autograd.h"
#include "chapters/03_split_batch/split_batch.h"
#include "your_part.h"

#include <stdlib.h>

uint64_t bytes_received(Device *const devices[], int k, int i) {
    uint64_t bytes = 0;
    for (int j = 0; j < k; j++)
        if (j != i) bytes += ledger_bytes(devices[j], devices[i]);
    return bytes;
}

static uint64_t bytes_sent(Device *const devices[], int k, int i) {
    uint64_t bytes = 0;
    for (int j = 0; j < k; j++)
        if (j != i) bytes += ledger_bytes(devices[i], devices[j]);
    return bytes;
}

// One call of your part. `text` is the call, for messages.
typedef struct Case {
    int n, k, hub; // hub IN_PARTS: it is allreduce_parts() that is called
    char text[64];
} Case;
enum { IN_PARTS = -1 };

static void check_values(const Case *c, Tensor *const data[]) {
    for (int i = 0; i < c->k; i++) {
        float *values = tensor_values(data[i]);
        for (int j = 0; j < c->n; j++) {
            float sum = (float)(c->k * (c->k + 1) / 2 * (j % 100 + 1));
            EXPECT(
                values[j] == sum,
                c->hub == IN_PARTS
                    ? "part j of all devices begins at equal_range(n, k, j).first; are all parts "
                      "summed, each once?"
                    : "does the hub add what each other device has, its own once? and does each "
                      "get the sum after the last addition?",
                "%s: element %d on device %d is %g, expected %g", c->text, j, i, (double)values[j],
                (double)sum);
        }
        free(values);
    }
}

// Of what it sums, a device receives k - 1 vectors; of the rest, the sum. It sends as much.
static void check_bytes(const Case *c, Device *const devices[], int i) {
    int own = i == c->hub ? c->n : 0;
    if (c->hub == IN_PARTS) own = equal_range(c->n, c->k, i).count;
    uint64_t expected = sizeof(float) * (uint64_t)(c->n - own + (c->k - 1) * own);
    uint64_t received = bytes_received(devices, c->k, i), sent = bytes_sent(devices, c->k, i);
    EXPECT(received == expected && sent == expected,
           c->hub == IN_PARTS
               ? "device j is the hub of part j, and only that part is copied to it"
               : "one copy from each other device to the hub, and one back; none anywhere else",
           "%s: device %d received %llu bytes and sent %llu, expected %llu of each", c->text, i,
           (unsigned long long)received, (unsigned long long)sent, (unsigned long long)expected);
}

// Element j of device i is (i + 1) (j % 100 + 1).
static void write_numbers(Tensor *t, int i, int n) {
    float *values = xmalloc(sizeof(float) * (size_t)n);
    for (int j = 0; j < n; j++) values[j] = (float)((i + 1) * (j % 100 + 1));
    tensor_write(t, values);
    free(values);
}

static void check_case(const Case *c) {
    Device *devices[MAX_DEVICES];
    Tensor *data[MAX_DEVICES];
    for (int i = 0; i < c->k; i++) {
        devices[i] = try_gpu(i);
        begin_step(devices[i]);
        data[i] = tensor_new(devices[i], c->n);
        write_numbers(data[i], i, c->n);
    }
    ledger_reset();
    if (c->hub == IN_PARTS)
        allreduce_parts(data, c->k);
    else
        allreduce_at(data, c->k, c->hub);
    synchronize_all();
    check_values(c, data);
    for (int i = 0; i < c->k; i++) check_bytes(c, devices, i);
    for (int i = 0; i < c->k; i++) tensor_free(data[i]);
}

static void check_sum(int n, int k, int hub) {
    Case c = {.n = n, .k = k, .hub = hub};
    if (hub == IN_PARTS)
        snprintf(c.text, sizeof c.text, "allreduce_parts(), k = %d, n = %d", k, n);
    else
        snprintf(c.text, sizeof c.text, "allreduce_at(), k = %d, hub %d, n = %d", k, hub, n);
    check_case(&c);
}

void check(const Flags *flags) {
    (void)flags;
    for (int k = 1; k <= 5; k++)
        for (int n = 1; n <= 1000; n = 9 * n + 1) {
            for (int hub = 0; hub < k; hub++) check_sum(n, k, hub);
            check_sum(n, k, IN_PARTS);
        }
}
