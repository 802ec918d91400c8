// exchange.c: the two places of a block where the devices meet. In Megatron-LM's paper, enter() is
// f and leave() is g.
#include "vit.h"

#include "common/device/trace.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"

// ## Before and after what is split

static void enter_backward(Node *const nodes[], int k) {
    const Vit *v = nodes[0]->context;
    Tensor *gradients[MOST_SPLIT];
    for (int i = 0; i < k; i++) gradients[i] = nodes[i]->out->grad;
    v->options.sum(gradients, k); // sum_in_halves()
}

void enter(Vit *v, Tensor *X[]) {
    if (v->options.parts == 1) return;
    if (v->options.sequence) { // sequence.c
        enter_from_tokens(v, X);
        return;
    }
    for (int i = 0; i < v->k; i++)
        tape_push(
            (Node){.backward_together = enter_backward, .out = X[i], .in = {X[i]}, .context = v});
}

void leave(Vit *v, Tensor *X[]) {
    if (v->options.sequence)
        leave_to_tokens(v, X);
    else
        v->options.sum(X, v->k);
}

// ## The sum

// The sum of parts[first] to parts[first + n - 1], in one of them; in device j's own if that is
// among them. (a + b is b + a.)
static float *add_parts(Device *device, float *const parts[], int first, int n, int j,
                        size_t floats) {
    if (n == 1) return parts[first];
    int half = n / 2, middle = first + half;
    float *a = add_parts(device, parts, first, half, j, floats);
    float *b = add_parts(device, parts, middle, n - half, j, floats);
    float *sum = middle <= j && j < first + n ? b : a;
    launch(device, add, .y = sum, .x = sum == a ? b : a, .n = floats);
    return sum;
}

// Device j gets part j of all others, and adds up.
static void sum_part(Tensor *const data[], int k, int j, const Event ready[]) {
    Device *device = data[j]->device;
    Range part = equal_range((long)numel(data[0]), k, j);
    size_t floats = (size_t)part.count, bytes = floats * sizeof(float);
    float *received = arena_lend(device, (size_t)(k - 1) * bytes), *parts[MOST_SPLIT];
    for (int turn = 0; turn < k; turn++) { // not all begin with device 0
        int i = (j + turn) % k;
        parts[i] = turn == 0 ? part_data(data[j], part) : received + (size_t)(turn - 1) * floats;
        if (turn > 0)
            device_copy_after(ready[i], device, parts[i], part_data(data[i], part), bytes);
    }
    add_parts(device, parts, 0, k, j, floats);
    arena_give_back(device, received);
}

static Tensor part_of(const Tensor *data, int k, int j) {
    Range part = equal_range((long)numel(data), k, j);
    return (Tensor){.data = part_data(data, part),
                    .ndim = 1,
                    .shape = {(int)part.count},
                    .device = data->device};
}

static void sum_parts(Tensor *const data[], int k) {
    Event ready[MOST_SPLIT];
    record_all(data, k, ready);
    for (int j = 0; j < k; j++) sum_part(data, k, j, ready);
}

void sum_in_halves(Tensor *const data[], int k) {
    Tensor own[MOST_SPLIT], *parts[MOST_SPLIT];
    if (k == 1) return;
    const char *before = trace_label("exchange");
    sum_parts(data, k);
    for (int j = 0; j < k; j++) {
        own[j] = part_of(data[j], k, j);
        parts[j] = &own[j];
    }
    all_gather(data, parts, k);
    trace_label(before);
}

void reduce_scatter_in_halves(Tensor *const sums[], Tensor *const data[], int k) {
    Event read[MOST_SPLIT];
    const char *before = trace_label("exchange");
    sum_parts(data, k);
    record_all(data, k, read);
    for (int j = 0; j < k; j++) {
        device_copy(sums[j]->device, sums[j]->data, data[j]->device, part_of(data[j], k, j).data,
                    tensor_bytes(sums[j]));
        for (int i = 0; i < k; i++) device_wait(data[j]->device, read[i]); // before it is reused
    }
    trace_label(before);
}
