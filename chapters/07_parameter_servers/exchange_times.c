// exchange_times.c: see exchange_times.h.
#include "exchange_times.h"

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/model/modelled_clock.h"
#include "common/program/book.h"
#include "common/program/plot.h"
#include "common/program/table.h"
#include "common/tensor/autograd.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// ## A cluster whose devices are hosts
//
// Device i is worker i, and after the workers come the servers. Servers have all the bandwidth of a
// host for themselves.

static double begin_exchange(void) {
    synchronize_all();
    return modelled_seconds();
}

static double seconds_since(double begin) {
    synchronize_all();
    return modelled_seconds() - begin;
}

static double servers_exchange_seconds(int W, int S) {
    Device *devices[MOST_SERVERS];
    Worker workers[MOST_WORKERS];
    for (int s = 0; s < S; s++) devices[s] = model_device(W + s);
    Servers *v = servers_new(devices, S, W, 1, 0);
    for (int w = 0; w < W; w++) workers[w] = worker_new(model_device(w), 1);
    double begin = begin_exchange();
    servers_exchange(v, workers, 1);
    double seconds = seconds_since(begin);
    for (int w = 0; w < W; w++) worker_free(&workers[w]);
    servers_free(v);
    return seconds;
}

static double ring_seconds(int W) {
    Tensor *data[MOST_WORKERS];
    for (int w = 0; w < W; w++) {
        data[w] = tensor_new(model_device(w), (int)lenet_floats());
        begin_step(data[w]->device);
    }
    double begin = begin_exchange();
    allreduce_ring(data, W);
    double seconds = seconds_since(begin);
    for (int w = 0; w < W; w++) tensor_free(data[w]);
    autograd_close();
    return seconds;
}

// Push and pull, each at least max(P/Bw, W P/(S Bs)).
static double bound(double bandwidth, int W, int S) {
    double P = (double)worker_bytes_per_step();
    return 2 * fmax(P / bandwidth, W * P / (S * bandwidth));
}

static double network_bandwidth(const Machine *machine) {
    return machine_route(machine, 0, machine->devices).link.bandwidth;
}

// ## A table

static void add_exchange(Table *t, const Machine *machine, int W, int S) {
    double servers = servers_exchange_seconds(W, S);
    double least = bound(network_bandwidth(machine), W, S);
    table_text(t, "%s", machine->name);
    table_numbers(t, W, S, servers, least, servers / least, W > 1 ? ring_seconds(W) : NAN);
}

void compare_exchanges(int most) {
    const Machine *told = modelled_machine();
    if (!told || told->cards == 0) return;
    Machine hosts = *told; // one device each: servers and workers are machines of their own
    hosts.devices = 1;
    modelled_clock_start(&hosts);
    const char *csv = book_csv("_exchange.csv"), *png = book_output("_exchange.png");
    OutputFile out = output_open(csv);
    printf("\n");
    Table t = TABLE(out.stream, {.csv = "machine"}, {"workers", .csv = "workers"},
                    {"servers", .csv = "servers"},
                    FIXED("push and pull", 2, .unit = "ms", .csv = "seconds"),
                    FIXED("bound", 2, .unit = "ms", .csv = "bound"), FIXED("exchange to bound", 2),
                    FIXED("ring", 2, .unit = "ms", .csv = "ring"));
    for (int share = 0; share < 3; share++)
        for (int W = 1; W <= most; W *= 2) {
            int S = share == 0 ? 1 : share == 1 ? W / 2 : W;
            if (S >= 1 && (share == 0 || S > 1)) add_exchange(&t, &hosts, W, S);
        }
    modelled_clock_start(told);
    output_close(&out);
    if (plot_draw(png, "parameter_servers.gp", csv))
        printf("\nexchange: %s, figures: %s\n", png, csv);
}

// ## The pace of workers

static double compute_seconds(const PsLesson *l) {
    Device *device = model_device(0);
    const Tensor X = {.ndim = 4, .shape = {ps_rows(l, 0), 1, 28, 28}, .device = host()};
    const Tensor y = {.ndim = 1, .shape = {ps_rows(l, 0)}, .device = host()};
    Worker worker = worker_new(device, 1);
    double begin = 0;
    for (int step = 0; step < 2; step++) { // the first takes memory
        begin = begin_exchange();
        begin_step(device);
        Tensor *X_shard = arena_tensor(device, 4, X.shape, false);
        Tensor *y_shard = arena_tensor(device, 1, y.shape, false);
        tensor_copy(X_shard, &X);
        tensor_copy(y_shard, &y);
        worker_gradients(&worker, X_shard, y_shard);
    }
    double seconds = seconds_since(begin);
    worker_free(&worker);
    autograd_close();
    return seconds;
}

Pace pace_on_machine(const PsLesson *l, double slow[]) {
    const Machine *told = modelled_machine();
    Link link = machine_route(told, 0, told->cards > 0 ? told->devices : 1).link;
    double P = (double)worker_bytes_per_step();
    modelled_clock_start(told);
    Pace pace = {.W = l->W,
                 .compute = compute_seconds(l),
                 .slow = slow,
                 .jitter = 0.1,
                 .busy = P / (l->S * link.bandwidth),
                 .transfer = link.latency + fmax(P / link.bandwidth, P / (l->S * link.bandwidth)),
                 .timeout = INFINITY,
                 .dies = -1,
                 .seed = l->seed};
    modelled_clock_start(told);
    return pace;
}
