// replicas.c: vectors on k devices, and whether they are equal to the bit.
#include "behind.h"

#include "common/book.h"
#include "../allreduce.h"
#include "../get_params.h"

void vectors_on_devices(Tensor *data[], int k, int n) {
    Device *devices[MAX_DEVICES];
    open_devices(devices, k);
    for (int i = 0; i < k; i++) data[i] = tensor_new(devices[i], n);
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

// Changing a copy leaves the original alone, so copies[i] is no copy any more.
void check_copies(Tensor *const copies[], Tensor *const params[], int n) {
    bool good = true;
    for (int i = 0; i < n; i++) {
        Tensor *zeros = tensor_zeros_like(params[i]);
        good = good && same_bits(copies[i], params[i]) && same_bits(copies[i]->grad, zeros);
        tensor_fill(copies[i], 1);
        good = good && !same_bits(copies[i], params[i]);
        tensor_free(zeros);
    }
    say_checked(good, "the copies have the same bits, their own memory, and gradients of zero");
}

void check_sum_of_1_and_2(Tensor *const data[2]) {
    float *sums = tensor_values(data[0]);
    char *what = xprintf("%s: both devices have 1 + 2 = 3", chosen_allreduce()->name);
    say_checked(sums[0] == 3 && sums[1] == 3 && same_bits(data[0], data[1]), what);
    free(what);
    free(sums);
}

static void weights_on_two_devices(Tensor *W[2]) {
    for (int i = 0; i < 2; i++) {
        W[i] = tensor_new(try_gpu(i), 1, 2);
        tensor_fill(W[i], 1);
        attach_grad(W[i]);
        tensor_fill(W[i]->grad, (float)(i + 1));
    }
}

static bool are_equal_with_allreduce(void) {
    Tensor *W[2];
    weights_on_two_devices(W);
    allreduce((Tensor *[]){W[0]->grad, W[1]->grad}, 2);
    for (int i = 0; i < 2; i++) sgd(&W[i], 1, 0.1f, 1);
    bool equal = all_replicas_equal(W, 2);
    free_params(W, 2);
    return equal;
}

void show_rebinding(void (*mistaken)(Tensor *data[], int k)) {
    Tensor *W[2];
    weights_on_two_devices(W); // 1, with gradients 1 and 2
    Tensor *grads[2] = {W[0]->grad, W[1]->grad};
    mistaken(grads, 2);
    tensor_print("in the list, grads[1]", grads[1]);
    tensor_print("used in the step, W[1].grad", W[1]->grad);
    for (int i = 0; i < 2; i++) sgd(&W[i], 1, 0.1f, 1);
    tensor_print("after the step, W[0]", W[0]);
    tensor_print("after the step, W[1]", W[1]);
    say_checked(!all_replicas_equal(W, 2) && are_equal_with_allreduce(),
                "noticed: the replicas differ after a step; with allreduce() they are equal");
    tensor_free(grads[1]);
    free_params(W, 2);
}

void show_sharing(void) {
    Tensor *data[2] = {tensor_new(cpu_device(0), 1, 2)};
    Tensor same_memory = *data[0];
    same_memory.device = cpu_device(1); // what a get_params that skips the copy would return
    data[1] = &same_memory;
    tensor_fill(data[0], 1);
    synchronize(cpu_device(0));
    tensor_fill(data[1], 2);
    synchronize(cpu_device(1));
    const char *mistake = allreduce_mistake(data, 2);
    allreduce_star(data, 2); // bypasses the check
    tensor_print("one buffer: 1 + 2 is", data[0]);
    float *sums = tensor_values(data[0]);
    char *what = xprintf("allreduce() refuses them: \"%s\"", mistake ? mistake : "");
    say_checked(mistake && sums[0] == 4, what);
    free(what);
    free(sums);
    tensor_free(data[0]);
}
