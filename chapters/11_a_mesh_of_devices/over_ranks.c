// over_ranks.c: see over_ranks.h. A network is on neighbours. So with as many ranks on each host,
// layers are split inside hosts, and only the gradients of data parallelism go to others.
#include "over_ranks.h"

#include "common/base/error.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/08_many_machines/ranks.h"

static ProcessGroup *network; // ranks d T .. d T + T-1
static ProcessGroup *peers;   // rank t of each network: they have the same part of the parameters

static void sum_over_network(Tensor *const data[], int k) {
    CHECK(k == 1, "a rank has one device");
    dist_note_part("sum"); // for the watch
    dist_all_reduce(network, data[0]);
}

Vit *over_ranks_new(VitOptions options, int tensor, const float *start) {
    Device *device = dist_device();
    int d = dist_get_rank() / tensor, t = dist_get_rank() % tensor;
    network = dist_new_group(d);
    peers = dist_new_group(t);
    dist_choose_all_reduce("tree"); // neighbours first, then pairs: halves to halves
    options.data = group_size(peers);
    options.parts = tensor;
    options.part = t;
    options.sum = sum_over_network;
    return vit_new(options, &device, 1, start);
}

void over_ranks_free(Vit *v) {
    vit_free(v);
    dist_free_group(network);
    dist_free_group(peers);
}

void over_ranks_train_batch(Vit *v, const Tensor *X, const Tensor *y, float lr, Tensor **loss) {
    int images = X->shape[0];
    vit_gradients(v, X, y, equal_range(images, group_size(peers), group_rank(peers)), loss);
    dist_note_part("gradients");
    dist_all_reduce(peers, v->shards[0].flat->grad);
    adam_step(v->shards[0].adam, lr, images);
}

size_t over_ranks_bytes(const Vit *v, int images) {
    long own = equal_range(images, group_size(peers), group_rank(peers)).count;
    size_t tokens = (size_t)own * TOKENS * (size_t)v->options.width;
    int k = group_size(network), i = group_rank(network);
    return 4 * BLOCKS * allreduce_tree_floats(tokens, k, i).sent * sizeof(float);
}

size_t over_ranks_bytes_to_others(const Vit *v) {
    size_t own = numel(v->shards[0].flat);
    return allreduce_tree_floats(own, group_size(peers), group_rank(peers)).sent * sizeof(float);
}
