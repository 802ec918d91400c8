// exchange_times.c: see exchange_times.h.
#include "exchange_times.h"

#include "common/base/platform.h"
#include "common/base/error.h"
#include "chapters/08_many_machines/ranks.h"
#include "common/tensor/autograd.h"
#include "common/tensor/functional.h"
#include "chapters/05_resnet18_concise/data_parallel.h"
#include "chapters/08_many_machines/exercises/start_ranks.h"
#include "chapters/08_many_machines/fusion.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const size_t thresholds[NUM_THRESHOLDS] = {0,       4 << 10, 16 << 10, 64 << 10, 256 << 10,
                                           1 << 20, 4 << 20, 16 << 20, 64 << 20, 128 << 20};

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
// all of it. The first round warms up, and is not kept.

enum { ROUNDS = 5, IN_A_ROW = 16, FEW_BYTES = 1 << 20, ROWS = 2 };

static bool warming_up;

static void keep_time(Timings *t, size_t bytes, double seconds) {
    if (warming_up) return;
    t->bytes = (double)bytes;
    t->seconds[t->n++] = seconds;
}

static double begin_together(void) {
    synchronize_all();
    dist_barrier(NULL);
    return seconds_now();
}

static double seconds_since(double begin) {
    synchronize_all();
    return seconds_now() - begin;
}

// Small parts come in a row, as the messages of an exchange do, and from all over the gradients:
// what is in a cache already is there many times as fast.
static int parts_of(const Tensor *all, size_t bytes, size_t at[IN_A_ROW]) {
    int n = bytes < FEW_BYTES ? IN_A_ROW : 2;
    size_t parts = tensor_bytes(all) / bytes;
    for (int i = 0; i < n; i++) at[i] = (size_t)i * parts / (size_t)n * (bytes / sizeof(float));
    return n;
}

static void time_sums(Timings *t, Tensor *grads, size_t bytes) {
    size_t at[IN_A_ROW];
    Tensor *parts[IN_A_ROW];
    int count = (int)(bytes / sizeof(float)), n = parts_of(grads, bytes, at);
    for (int i = 0; i < n; i++) parts[i] = tensor_slice(grads, at[i], 1, &count);
    double begin = begin_together();
    communicate_begin();
    for (int i = 0; i < n; i++) dist_all_reduce(NULL, parts[i]);
    communicate_end();
    keep_time(t, bytes, seconds_since(begin) / n);
    for (int i = 0; i < n; i++) tensor_free(parts[i]);
}

static void time_copies(Timings *t, const Tensor *grads, const Tensor *buffer, size_t bytes) {
    size_t at[IN_A_ROW];
    int n = parts_of(grads, bytes, at);
    double begin = begin_together();
    for (int i = 0; i < n; i++)
        device_copy(grads->device, buffer->data + at[i], grads->device, grads->data + at[i], bytes);
    keep_time(t, bytes, seconds_since(begin) / n);
}

static void time_talk(Timings *t, int gradients) {
    double votes[MOST_GRADIENTS] = {0}, begin = begin_together();
    for (int i = 0; i < IN_A_ROW; i++) dist_sum(NULL, votes, gradients);
    keep_time(t, 0, seconds_since(begin) / IN_A_ROW);
}

// Gradients are computed first, and all of them are ready when the clock starts. The first time the
// buffer is made, so it is the second that counts. Returns the number of messages.
static long time_fused(Timings *t, Module *net, size_t threshold) {
    Device *device = dist_device();
    Fusion *fusion = fusion_new(net, (FusionOptions){.threshold = threshold});
    double seconds = 0;
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
        double begin = begin_together();
        fusion_exchange(fusion);
        seconds = seconds_since(begin);
        sgd_step(net, device, 0, 1); // clears the gradients
    }
    keep_time(t, threshold, seconds);
    long messages = fusion_counts(fusion).exchanges / 2;
    fusion_free(fusion);
    return messages;
}

// Vectors of 4, 16, 64, .. bytes, and all that there are.
static void measure_network(MeasuredNetwork *m, const NetworkKind *kind, Module *net) {
    size_t gradients[MOST_GRADIENTS], size = 0;
    Tensor *grads = flat_parameters(net, dist_device()).grad;
    Tensor *buffer = tensor_new(dist_device(), (int)numel(grads));
    tensor_fill(buffer, 0); // else its memory would be found in the first copies
    for (int s = 0; s < NUM_SIZES && size < tensor_bytes(grads); s++) {
        size = (size_t)4 << 2 * s;
        if (size > tensor_bytes(grads)) size = tensor_bytes(grads);
        time_sums(&m->sums[s], grads, size);
        time_copies(&m->copies[s], grads, buffer, size);
        m->num_sizes = s + 1;
    }
    time_talk(&m->talk, gradient_bytes(kind, gradients));
    for (int t = 0; t < NUM_THRESHOLDS; t++)
        m->messages[t] = time_fused(&m->fused[t], net, thresholds[t]);
    tensor_free(buffer);
}

static void write_times(const char *path, const Measured *m) {
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(m, sizeof *m, 1, file) == 1 && fclose(file) == 0, "the times are kept");
}

int measure_as_rank(const char *path) {
    static Measured m;
    Module *nets[NUM_NETWORKS];
    set_program_name("measure");
    devices_init(BACKEND_CPU, 0);
    dist_before_flags();
    dist_init_process_group((DistOptions){.threads = 1, .timeout = 20});
    dist_choose_all_reduce("ring");
    for (int i = 0; i < NUM_NETWORKS; i++) {
        nets[i] = networks[i].make(10);
        initialize(nets[i], 1);
        place_on(nets[i], dist_device());
        set_training(nets[i], true);
    }
    for (int round = 0; round <= ROUNDS; round++) {
        warming_up = round == 0;
        for (int i = 0; i < NUM_NETWORKS; i++) measure_network(&m.of[i], &networks[i], nets[i]);
    }
    if (dist_get_rank() == 0) write_times(path, &m);
    dist_destroy_process_group();
    for (int i = 0; i < NUM_NETWORKS; i++) module_free(nets[i]);
    devices_close();
    return EXIT_SUCCESS;
}

// ## What was measured

const char *measure_exchanges(int ranks, Measured *m) {
    static char said[SAID_BYTES];
    char path[] = P_tmpdir "/exchange_times_XXXXXX";
    if (!dist_is_mpi_available() || system("command -v mpirun >/dev/null 2>&1") != 0)
        return "there is no MPI to start ranks with: make setup installs it";
    int file = mkstemp(path);
    if (file < 0) return xprintf("no file can be made in " P_tmpdir ": %s", strerror(errno));
    bool ended = run_as_ranks(ranks, path, said, sizeof said, 300) == 0;
    bool whole = ended && read(file, m, sizeof *m) == (ssize_t)sizeof *m;
    if (!ended) fprintf(stderr, "%s", said);
    close(file);
    unlink(path);
    return whole ? NULL : "the ranks did not come to an end";
}
