// cases.c: sums of whole numbers, which no rounding hides, and the bytes that devices received and
// sent.
#include "common/device/trace.h"
#include "common/tensor/autograd.h"
#include "common/program/facts.h"
#include "your_part.h"

#include <stdlib.h>
#include <string.h>

enum { SUM_AT = 1, BYTES_AT, SUM_PARTS, BYTES_PARTS };
const Part parts[] = {{"allreduce_at(): each device has the sum, whichever is the hub", 3},
                      {"allreduce_at(): bytes of each device are those of a star", 2},
                      {"allreduce_parts(): each device has the sum of all parts", 3},
                      {"allreduce_parts(): bytes of each device are those of the formula", 2},
                      {0}};

enum { IN_PARTS = -1, MOST = 40 };

// Random numbers: who has one vector alone cannot know the sum.
static Tensor *vector(Device *device, int n) {
    float values[MOST];
    Tensor *t = tensor_new(device, n);
    for (int j = 0; j < n; j++) values[j] = (float)draw(1, 9999);
    tensor_write(t, values);
    return t;
}

static void record_all(int k, Device *const devices[], Tensor *const data[], int sum, int bytes) {
    for (int i = 0; i < k; i++) {
        long received = 0, sent = 0;
        for (int j = 0; j < k; j++) {
            if (j != i) received += (long)ledger_bytes(devices[j], devices[i]);
            if (j != i) sent += (long)ledger_bytes(devices[i], devices[j]);
        }
        record_int(bytes, received, "bytes that device %d received", i);
        record_int(bytes, sent, "bytes that device %d sent", i);
        for (int j = 0; j < k; j++)
            if (j != i)
                record_int(PART_IF(bytes, sum), (long)ledger_cargo(devices[i], devices[j]),
                           "sum of all numbers that went from device %d to device %d", i, j);
    }
    for (int i = 0; i < k; i++) {
        float *values = tensor_values(data[i]);
        record_floats(sum, values, numel(data[i]), 0, "what device %d has", i);
        free(values);
    }
}

// Sums are made where the vectors are: whoever has to add does so with kernels.
static void record_kernels(int part, const TraceSpan spans[], int count, Device *device, int i) {
    bool any = false;
    for (int s = 0; s < count; s++)
        any = any || (spans[s].device == device && strcmp(spans[s].work, "copy") != 0 &&
                      strcmp(spans[s].work, "call") != 0);
    record_text(part, any ? "some" : "none", "kernels on device %d", i);
}

static void run(int k, int n, int hub) {
    Device *devices[MAX_COMPUTING];
    Tensor *data[MAX_COMPUTING];
    for (int i = 0; i < k; i++) {
        devices[i] = try_gpu(i);
        begin_step(devices[i]);
        data[i] = vector(devices[i], n);
    }
    ledger_reset();
    ledger_watch_cargo();
    trace_begin();
    if (hub == IN_PARTS)
        allreduce_parts(data, k);
    else
        allreduce_at(data, k, hub);
    int count, sum = hub == IN_PARTS ? SUM_PARTS : SUM_AT, bytes = sum + 1;
    TraceSpan *spans = trace_end(&count);
    record_all(k, devices, data, sum, bytes);
    for (int i = 0; i < k && k > 1; i++)
        if (i == hub || (hub == IN_PARTS && n % k == 0))
            record_kernels(PART_IF(bytes, sum), spans, count, devices[i], i);
    free(spans);
    for (int i = 0; i < k; i++) tensor_free(data[i]);
}

static void at_hubs(void) {
    for (int k = 1; k <= 5; k++)
        for (int hub = 0; hub < k; hub++) {
            int n = (int)draw(1, 12);
            begin_case("allreduce_at(), k = %d, hub %d, n = %d", k, hub, n);
            run(k, n, hub);
        }
}

// n that k divides, and then others, also fewer than devices.
static void in_parts(void) {
    for (int even = 1; even >= 0; even--)
        for (int k = 1; k <= 5; k++)
            for (int times = 1; times <= 2; times++) {
                int n = even ? k * (int)draw(1, 3) : (int)draw(1, MOST);
                begin_case("allreduce_parts(), k = %d, n = %d", k, n);
                run(k, n, IN_PARTS);
            }
}

const Group groups[] = {{"allreduce_at()", at_hubs, 0}, {"allreduce_parts()", in_parts, 0}, {0}};
