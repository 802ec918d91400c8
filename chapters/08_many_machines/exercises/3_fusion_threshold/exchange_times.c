// exchange_times.c: see exchange_times.h.
#include "exchange_times.h"

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/comm/process_group.h"
#include "common/tensor/autograd.h"
#include "common/tensor/functional.h"
#include "chapters/05_resnet18_concise/data_parallel.h"
#include "chapters/08_many_machines/exercises/start_ranks.h"
#include "chapters/08_many_machines/fusion.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const size_t thresholds[NUM_THRESHOLDS] = {0,       4 << 10, 16 << 10, 64 << 10, 256 << 10,
                                           1 << 20, 4 << 20, 16 << 20, 64 << 20, 128 << 20};

// What is timed: 4, 16, 64, .. bytes, and all that there are.
static size_t size_of(int s, size_t all) {
    size_t bytes = (size_t)4 << 2 * s;
    return bytes < all ? bytes : all;
}

int gradient_bytes(const NetworkKind *kind, size_t bytes[MOST_GRADIENTS]) {
    Module *net = kind->make(10);
    initialize(net, 1);
    Parameters all = parameters_of(net);
    int n = 0;
    for (int p = 0; p < all.n; p++)
        if (all.list[p]->trained) bytes[n++] = numel(all.list[p]->start) * sizeof(float);
    CHECK(n <= MOST_GRADIENTS, "room for all gradients");
    module_free(net);
    return n;
}

// ## In a rank
//
// All of it is measured in turns, round by round: what else this machine does meanwhile then hits
// all of it. Rank 0 says what the clock said, a line for each figure: what, of which network, the
// threshold or the bytes, seconds, messages.

enum { ROUNDS = 5, IN_A_ROW = 16, FEW_BYTES = 1 << 20, ROWS = 2 };

static void say_time(const char *what, int network, size_t bytes, double seconds, long messages) {
    if (dist_get_rank() == 0)
        printf("%s %d %zu %.9g %ld\n", what, network, bytes, seconds, messages);
}

static double begin_together(void) {
    synchronize_all();
    dist_barrier(NULL);
    return seconds_now();
}

// Small parts come in a row, as the messages of an exchange do, and from all over the gradients:
// what is in a cache already is there many times as fast.
static int parts_of(const Tensor *all, size_t bytes, size_t at[IN_A_ROW]) {
    int n = bytes < FEW_BYTES ? IN_A_ROW : 2;
    size_t parts = tensor_bytes(all) / bytes;
    for (int i = 0; i < n; i++) at[i] = (size_t)i * parts / (size_t)n * (bytes / sizeof(float));
    return n;
}

static void time_sums(int network, Tensor *grads, size_t bytes) {
    size_t at[IN_A_ROW];
    Tensor *parts[IN_A_ROW];
    int count = (int)(bytes / sizeof(float)), n = parts_of(grads, bytes, at);
    for (int i = 0; i < n; i++) parts[i] = tensor_slice(grads, at[i], 1, &count);
    double begin = begin_together();
    communicate_begin();
    for (int i = 0; i < n; i++) dist_all_reduce(NULL, &parts[i]);
    communicate_end();
    synchronize_all();
    say_time("sum", network, bytes, (seconds_now() - begin) / n, 0);
    for (int i = 0; i < n; i++) tensor_free(parts[i]);
}

static void time_copies(int network, const Tensor *grads, const Tensor *buffer, size_t bytes) {
    size_t at[IN_A_ROW];
    int n = parts_of(grads, bytes, at);
    double begin = begin_together();
    for (int i = 0; i < n; i++)
        device_copy(grads->device, buffer->data + at[i], grads->device, grads->data + at[i], bytes);
    synchronize_all();
    say_time("copy", network, bytes, (seconds_now() - begin) / n, 0);
}

static void time_talk(int network, int gradients) {
    double votes[MOST_GRADIENTS] = {0}, begin = begin_together();
    for (int i = 0; i < IN_A_ROW; i++) dist_sum(NULL, votes, gradients);
    say_time("talk", network, 0, (seconds_now() - begin) / IN_A_ROW, 0);
}

// Gradients are computed first, and all of them are ready when the clock starts. The first time the
// buffer is made, so it is the second that counts.
static void time_fused(int network, Module *net, size_t threshold) {
    Device *device = dist_device(0);
    Fusion *fusion = fusion_new(net, (FusionOptions){.threshold = threshold});
    double seconds = 0;
    long before = 0;
    for (int turn = 0; turn < 2; turn++) {
        begin_step(device);
        Tensor *X = arena_tensor(device, 4, (int[]){ROWS, 1, 28, 28}, false), *y_hat;
        Tensor *y = arena_tensor(device, 1, (int[]){ROWS}, false);
        tensor_fill(X, 0.5f);
        tensor_fill(y, 1);
        forward_all(net, &X, 1, &y_hat);
        Tensor *loss = sum(cross_entropy(y_hat, y));
        fusion_begin(fusion);
        backward_all(&loss, 1);
        before = fusion_counts(fusion).exchanges;
        double begin = begin_together();
        fusion_exchange(fusion);
        synchronize_all();
        seconds = seconds_now() - begin;
        sgd_step(net, device, 0, 1); // clears the gradients
    }
    say_time("fused", network, threshold, seconds, fusion_counts(fusion).exchanges - before);
    fusion_free(fusion);
}

static void measure_network(int network, Module *net) {
    size_t bytes[MOST_GRADIENTS];
    Tensor *grads = flat_parameters(net, dist_device(0)).grad;
    Tensor *buffer = tensor_new(dist_device(0), (int)numel(grads));
    size_t size = 0, all = tensor_bytes(grads);
    tensor_fill(buffer, 0); // else its memory would be found in the first copies
    for (int s = 0; s < NUM_SIZES && size < all; s++) {
        size = size_of(s, all);
        time_sums(network, grads, size);
        time_copies(network, grads, buffer, size);
    }
    time_talk(network, gradient_bytes(&networks[network], bytes));
    for (int t = 0; t < NUM_THRESHOLDS; t++) time_fused(network, net, thresholds[t]);
    tensor_free(buffer);
}

// The first round warms up: nobody reads what it says.
int measure_as_rank(void) {
    Module *nets[NUM_NETWORKS];
    set_program_name("measure");
    devices_init(BACKEND_CPU, 0);
    dist_before_flags();
    dist_init_process_group((DistOptions){.devices = 1, .threads = 1, .timeout = 20});
    dist_choose_all_reduce("ring");
    for (int i = 0; i < NUM_NETWORKS; i++) {
        nets[i] = networks[i].make(10);
        initialize(nets[i], 1);
        place_on(nets[i], dist_device(0));
        set_training(nets[i], true);
    }
    for (int round = 0; round <= ROUNDS; round++) {
        if (dist_get_rank() == 0) printf("round %d\n", round);
        for (int i = 0; i < NUM_NETWORKS; i++) measure_network(i, nets[i]);
    }
    dist_destroy_process_group();
    for (int i = 0; i < NUM_NETWORKS; i++) module_free(nets[i]);
    devices_close();
    return EXIT_SUCCESS;
}

// ## What was measured

static void keep_time(Timings *t, size_t bytes, double seconds) {
    if (t->n == MOST_ROUNDS) return;
    t->bytes = (double)bytes;
    t->seconds[t->n++] = seconds;
}

static void read_line(MeasuredNetwork networks_times[NUM_NETWORKS], const char *line) {
    char what[8];
    int network, s = 0, t = 0;
    size_t bytes;
    double seconds;
    long messages;
    if (sscanf(line, "%7s %d %zu %lf %ld", what, &network, &bytes, &seconds, &messages) != 5)
        return;
    if (network < 0 || network >= NUM_NETWORKS) return;
    MeasuredNetwork *m = &networks_times[network];
    while (s < NUM_SIZES - 1 && size_of(s, bytes) < bytes) s++;
    while (t < NUM_THRESHOLDS - 1 && thresholds[t] < bytes) t++;
    if (strcmp(what, "sum") == 0 && s >= m->num_sizes) m->num_sizes = s + 1;
    if (strcmp(what, "sum") == 0) keep_time(&m->sums[s], bytes, seconds);
    if (strcmp(what, "copy") == 0) keep_time(&m->copies[s], bytes, seconds);
    if (strcmp(what, "talk") == 0) keep_time(&m->talk, 0, seconds);
    if (strcmp(what, "fused") != 0) return;
    keep_time(&m->fused[t], bytes, seconds);
    m->messages[t] = messages;
}

static bool there_is_mpirun(void) {
    return dist_is_mpi_available() && system("command -v mpirun >/dev/null 2>&1") == 0;
}

const char *measure_exchanges(int ranks, Measured *m) {
    static char said[1 << 17];
    *m = (Measured){.ranks = ranks};
    if (!there_is_mpirun()) return "there is no MPI to start ranks with: make setup installs it";
    if (run_as_ranks(ranks, "measure", said, sizeof said, 150) != 0) {
        fprintf(stderr, "%s", said);
        return "the ranks did not come to an end";
    }
    char *line = strstr(said, "round 1\n");
    for (line = line ? strtok(line, "\n") : NULL; line; line = strtok(NULL, "\n"))
        read_line(m->of, line);
    bool whole = m->of[NUM_NETWORKS - 1].fused[NUM_THRESHOLDS - 1].n == ROUNDS;
    return whole ? NULL : "the ranks have not said all";
}
