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

// What device i has at first at place j, and what all must have afterwards.
static float first_value(int i, int j) { return (float)((i + 1) * (j % 100 + 1)); }
static float sum_of(int k, int j) { return (float)(k * (k + 1) / 2 * (j % 100 + 1)); }

static int part_of(const Case *c, int j) {
    int part = 0;
    while (j >= equal_range(c->n, c->k, part).first + equal_range(c->n, c->k, part).count) part++;
    return part;
}

static const char *hint_for_value(const Case *c, int i, int j, float value) {
    if (value > sum_of(c->k, j))
        return c->hub == IN_PARTS ? "something is added twice: do parts overlap? part j is that of "
                                    "equal_range(n, k, j), and data begins at its .first"
                                  : "something is added twice: the hub has its own vector already";
    if (value < sum_of(c->k, j) && value != first_value(i, j))
        return "a sum that is not complete: send it back after the last addition";
    if (c->hub == IN_PARTS)
        return "no sum came here: are there k parts, and nothing left over? equal_range() sees to "
               "that where k does not divide n";
    return i == c->hub ? "the hub has added nothing: copy what each other device has, and add it"
                       : "no sum came back: copy it from the hub to each other device";
}

static void check_values(const Case *c, Tensor *const data[]) {
    for (int i = 0; i < c->k; i++) {
        float *values = tensor_values(data[i]);
        for (int j = 0; j < c->n; j++) {
            char part[32] = "";
            if (c->hub == IN_PARTS) snprintf(part, sizeof part, " (of part %d)", part_of(c, j));
            EXPECT(values[j] == sum_of(c->k, j), hint_for_value(c, i, j, values[j]),
                   "%s: element %d%s on device %d is %g, expected %g; it was %g there", c->text, j,
                   part, i, (double)values[j], (double)sum_of(c->k, j), (double)first_value(i, j));
        }
        free(values);
    }
}

// How many of the n elements device i should sum.
static long share_of(const Case *c, int i) {
    if (c->hub == IN_PARTS) return equal_range(c->n, c->k, i).count;
    return i == c->hub ? c->n : 0;
}

// Of what it sums, a device receives k - 1 vectors; of the rest, the sum. It sends as much. So the
// bytes tell who sums how much, if k > 2. Whether they do, and each element is summed once.
static bool shares_seen(const Case *c, Device *const devices[], long shares[]) {
    long all = 0;
    if (c->k <= 2) return false;
    for (int i = 0; i < c->k; i++) {
        uint64_t received = bytes_received(devices, c->k, i);
        long beyond = (long)(received / sizeof(float)) - c->n;
        if (received != bytes_sent(devices, c->k, i) || beyond % (c->k - 2) != 0) return false;
        shares[i] = beyond / (c->k - 2);
        if (shares[i] < 0) return false;
        all += shares[i];
    }
    return all == c->n;
}

// "; so devices 0 to 2 summed 10 0 0 of the elements, expected 4 3 3", or nothing if the bytes are
// those of another way to sum. The text is replaced by the next call.
static const char *shares_text(const Case *c, Device *const devices[]) {
    static char text[128];
    long seen[MAX_DEVICES];
    if (!shares_seen(c, devices, seen)) return "";
    int length = snprintf(text, sizeof text, "; so devices 0 to %d summed", c->k - 1);
    for (int i = 0; i < c->k; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, " %ld", seen[i]);
    length += snprintf(text + length, sizeof text - (size_t)length, " elements, expected");
    for (int i = 0; i < c->k; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, " %ld", share_of(c, i));
    return text;
}

static void check_bytes(const Case *c, Device *const devices[], int i) {
    long share = share_of(c, i);
    uint64_t expected = sizeof(float) * (uint64_t)(c->n - share + (c->k - 1) * share);
    uint64_t received = bytes_received(devices, c->k, i), sent = bytes_sent(devices, c->k, i);
    EXPECT(received == expected && sent == expected,
           c->hub == IN_PARTS
               ? "device j is the hub of part j, and only that part is copied to it"
               : "the sum is made on device `hub`: one copy from each other device to it, and one "
                 "back; none anywhere else",
           "%s: device %d received %llu bytes and sent %llu, expected %llu of each%s", c->text, i,
           (unsigned long long)received, (unsigned long long)sent, (unsigned long long)expected,
           shares_text(c, devices));
}

static void write_numbers(Tensor *t, int i, int n) {
    float *values = xmalloc(sizeof(float) * (size_t)n);
    for (int j = 0; j < n; j++) values[j] = first_value(i, j);
    tensor_write(t, values);
    free(values);
}

// What a part of the check looks at, in each call.
typedef enum { VALUES, BYTES } Looked;

static void check_case(const Case *c, Looked at) {
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
    if (at == BYTES)
        for (int i = 0; i < c->k; i++) check_bytes(c, devices, i);
    else
        check_values(c, data);
    for (int i = 0; i < c->k; i++) tensor_free(data[i]);
}

static void check_sum(int n, int k, int hub, Looked at) {
    Case c = {.n = n, .k = k, .hub = hub};
    if (hub == IN_PARTS)
        snprintf(c.text, sizeof c.text, "allreduce_parts(), k = %d, n = %d", k, n);
    else
        snprintf(c.text, sizeof c.text, "allreduce_at(), k = %d, hub %d, n = %d", k, hub, n);
    check_case(&c, at);
}

static void check_hubs(Looked at) {
    for (int k = 1; k <= 5; k++)
        for (int n = 1; n <= 1000; n = 9 * n + 1)
            for (int hub = 0; hub < k; hub++) check_sum(n, k, hub, at);
}
static void check_in_parts(Looked at) {
    for (int k = 1; k <= 5; k++)
        for (int n = 1; n <= 1000; n = 9 * n + 1) check_sum(n, k, IN_PARTS, at);
}

static void check_sums_at_hubs(const Flags *flags) {
    (void)flags;
    check_hubs(VALUES);
}
static void check_bytes_at_hubs(const Flags *flags) {
    (void)flags;
    check_hubs(BYTES);
}
static void check_sums_in_parts(const Flags *flags) {
    (void)flags;
    check_in_parts(VALUES);
}
static void check_bytes_in_parts(const Flags *flags) {
    (void)flags;
    check_in_parts(BYTES);
}

const CheckPart check_parts[] = {
    {"allreduce_at(): each device has the sum, whichever is the hub", 3, check_sums_at_hubs},
    {"allreduce_at(): bytes of each device are those of a star", 2, check_bytes_at_hubs},
    {"allreduce_parts(): each device has the sum of all parts", 3, check_sums_in_parts},
    {"allreduce_parts(): bytes of each device are those of the formula", 2, check_bytes_in_parts},
    {0}};
