// problem.c: makes a problem, of LeNet and its images or only of shapes, and runs its step.
#include "problem.h"

#include "common/book.h"
#include "costs.h"

// The book draws LeNet's parameters from N(0, 0.01^2). The scores are then so close to zero that an
// image's loss is ln 10 whatever the layers do, which would hide their mistakes. So the parameters
// are ten times as large here.
Problem problem_of_lenet(const Flags *flags, int microbatches) {
    const double scale = 0.1;
    Problem p = {.network = &lenet_network, .lr = flags->lr, .microbatches = microbatches};
    Tensor *X, *y;
    network_init(p.network, p.params, scale, flags->seed);
    if (flags->backend == BACKEND_MODEL) { // no values are needed
        p.X = tensor_new(host(), flags->batch_size, 1, 28, 28);
        p.y = tensor_new(host(), flags->batch_size);
        return p;
    }
    Dataset *data = fashion_mnist_open(flags->data, true, flags->train_size);
    DataIter *iter = data_iter_new(data, flags->batch_size, flags->shuffle, flags->seed);
    data_iter_first(iter, &X, &y);
    p.X = tensor_to(X, host()); // a copy, to outlive the iterator
    p.y = tensor_to(y, host());
    data_iter_free(iter);
    dataset_free(data);
    return p;
}

Problem problem_to_model(const Network *network, int images, int microbatches) {
    Problem p = {.network = network, .lr = 0.1f, .microbatches = microbatches, .only_time = true};
    network_shapes(network, p.params);
    p.X = tensor_new(host(), images, network->channels, network->side, network->side);
    p.y = tensor_new(host(), images);
    return p;
}

void problem_free(Problem *problem) {
    for (int p = 0; p < num_params(problem->network); p++) tensor_free(problem->params[p]);
    tensor_free(problem->X);
    tensor_free(problem->y);
}

bool problem_fits(const Problem *problem, const Strategy *strategy, int k) {
    const Network *network = problem->network;
    if (k > most_devices(strategy, network)) return false;
    if (!problem->only_time) return true;
    const Machine *machine = modelled_machine();
    if (!machine || !book_can_use_devices(k)) return false;
    // The formula for memory leaves out what is received. Within layers that is about as much as is
    // kept; across data, a gradient of each parameter.
    double most = memory_of(strategy, network, k, problem->X->shape[0], problem->microbatches).both;
    double received = strategy == &within_layers ? 1.3 * most
                      : strategy == &across_data ? network_params(network) * sizeof(float)
                                                 : 0;
    return 1.2 * most + received <= machine->memory;
}

Spread *problem_spread(const Problem *problem, const Strategy *strategy, int k) {
    Device *devices[MAX_DEVICES];
    if (problem->only_time)
        for (int i = 0; i < k; i++) devices[i] = model_device(i);
    else
        open_devices(devices, k);
    return spread_open(problem->network, problem->params, strategy, devices, k,
                       problem->microbatches);
}

double problem_step(const Problem *problem, Spread *s) {
    synchronize_all();
    double begin = modelled_seconds();
    spread_step(s, problem->X, problem->y, problem->lr);
    synchronize_all();
    return modelled_seconds() - begin;
}

double modelled_step(const Problem *problem, const Strategy *strategy, int k) {
    Spread *s = problem_spread(problem, strategy, k);
    double seconds = problem_step(problem, s);
    spread_close(s);
    arena_close(); // the next network has activations of other sizes
    return seconds;
}
