// replicas.c: see replicas.h.
#include "replicas.h"

#include "common/model/modelled_clock.h"
#include "common/program/say.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void vectors_on_devices(Tensor *data[], int k, int n) {
    Device *devices[MAX_DEVICES];
    open_devices(devices, k);
    for (int i = 0; i < k; i++) data[i] = tensor_new(devices[i], n);
}

bool can_have_devices(int k) {
    return !modelled_machine() || machine_has_devices(modelled_machine(), k);
}

bool same_bits(const Tensor *a, const Tensor *b) {
    float *x = tensor_values(a), *y = tensor_values(b);
    bool same = same_shape(a, b) && memcmp(x, y, tensor_bytes(a)) == 0;
    free(x);
    free(y);
    return same;
}

bool all_replicas_equal(Tensor *const data[], int k) {
    for (int i = 1; i < k; i++)
        if (!same_bits(data[0], data[i])) return false;
    return true;
}

void say_checked_on(const Device *device, bool holds, const char *statement) {
    if (has_values(device))
        say_checked(holds, statement);
    else
        printf("  not checked, no values: %s\n", statement);
}
