// zero1.c: each device keeps 1/k of Adam's moments.
#include "zero.h"

void zero1_step(Zero *z, float lr, int batch_size) {
    Tensor *params[MAX_DEVICES], *grads[MAX_DEVICES], *own[MAX_DEVICES], *own_grads[MAX_DEVICES];
    Tensor *received[MAX_DEVICES];
    for (int i = 0; i < z->k; i++) {
        Shard *s = &z->shards[0][i]; // the whole network is one unit
        params[i] = s->full;
        grads[i] = s->full_grad;
        own[i] = s->own;             // device i's part of params[i]
        own_grads[i] = s->own->grad; // device i's part of grads[i]
        received[i] = room_to_receive(z, 0, i);
    }
    reduce_scatter(own_grads, grads, received, z->k);
    for (int i = 0; i < z->k; i++) adam_step(z->adam[i], lr, batch_size);
    all_gather(params, own, z->k);
    for (int i = 0; i < z->k; i++) {
        tensor_fill(grads[i], 0); // adam_step() has cleared only own_grads[i]
        free_in_order(&received[i]);
    }
}
