// exchange_times.c: see exchange_times.h.
#include "exchange_times.h"

#include "common/base/file.h"
#include "common/program/book.h"
#include "common/program/modelled_run.h"
#include "common/program/plot.h"
#include "common/tensor/autograd.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/03_split_batch/split_batch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// ## A cluster whose devices are hosts
//
// Device i is worker i, and after the workers come the servers. Servers have all the bandwidth of a
// host for themselves.

static double servers_exchange_seconds(const Machine *machine, int W, int S) {
    ModelledRun run = {.machine = machine, .k = W + S};
    Worker workers[MOST_WORKERS];
    modelled_begin(&run);
    Servers *v = servers_new(run.devices + W, S, W, 1, 0);
    for (int w = 0; w < W; w++) workers[w] = worker_new(run.devices[w], 1);
    while (modelled_run(&run)) servers_exchange(v, workers, 1);
    for (int w = 0; w < W; w++) worker_free(&workers[w]);
    servers_free(v);
    modelled_end(&run);
    return run.seconds;
}

static double ring_seconds(const Machine *machine, int W) {
    ModelledRun run = {.machine = machine, .k = W};
    Tensor *data[MOST_WORKERS];
    modelled_begin(&run);
    for (int w = 0; w < W; w++) {
        data[w] = tensor_new(run.devices[w], (int)lenet_floats());
        begin_step(data[w]->device);
    }
    while (modelled_run(&run)) allreduce_ring(data, W);
    for (int w = 0; w < W; w++) tensor_free(data[w]);
    modelled_end(&run);
    return run.seconds;
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

typedef struct Row {
    int W, S;
    double servers, bound, ring;
} Row;

static Row exchange_row(const Machine *machine, int W, int S) {
    return (Row){.W = W,
                 .S = S,
                 .servers = servers_exchange_seconds(machine, W, S),
                 .bound = bound(network_bandwidth(machine), W, S),
                 .ring = W > 1 ? ring_seconds(machine, W) : 0};
}

static void print_exchange(const Row *r) {
    printf("  %7d %7d  %9.2f  %9.2f  %8.2f", r->W, r->S, 1e3 * r->servers, 1e3 * r->bound,
           r->servers / r->bound);
    if (r->W > 1)
        printf("  %9.2f\n", 1e3 * r->ring);
    else
        printf("  %9s\n", "-");
}

static void write_rows(const char *path, const char *machine, const Row rows[], int n) {
    OutputFile out = output_open(path);
    fprintf(out.stream, "machine,workers,servers,seconds,bound,ring\n");
    for (int i = 0; i < n; i++)
        fprintf(out.stream, "%s,%d,%d,%.9g,%.9g,%.9g\n", machine, rows[i].W, rows[i].S,
                rows[i].servers, rows[i].bound, rows[i].ring);
    output_close(&out);
}

void compare_exchanges(int most) {
    const Machine *told = modelled_machine();
    Row rows[64];
    int n = 0;
    if (!told || told->cards == 0) return;
    Machine hosts = *told; // one device each: servers and workers are machines of their own
    hosts.devices = 1;
    printf("\n  workers servers  push and     bound  exchange      ring\n"
           "                   pull, ms        ms  to bound        ms\n");
    for (int share = 0; share < 3; share++)
        for (int W = 1; W <= most; W *= 2) {
            int S = share == 0 ? 1 : share == 1 ? W / 2 : W;
            if (S < 1 || (share > 0 && S == 1)) continue;
            rows[n] = exchange_row(&hosts, W, S);
            print_exchange(&rows[n++]);
        }
    const char *csv = book_csv("_exchange.csv"), *png = book_output("_exchange.png");
    write_rows(csv, told->name, rows, n);
    if (plot_draw(png, "parameter_servers.gp", csv))
        printf("\nexchange: %s, figures: %s\n", png, csv);
}

// ## The pace of workers

static double compute_seconds(const PsLesson *l) {
    ModelledRun run = {.machine = modelled_machine(), .k = 1, .warm_up = 1};
    const Tensor X = {.ndim = 4, .shape = {ps_rows(l, 0), 1, 28, 28}, .device = host()};
    const Tensor y = {.ndim = 1, .shape = {ps_rows(l, 0)}, .device = host()};
    modelled_begin(&run);
    Worker worker = worker_new(run.devices[0], 1);
    while (modelled_run(&run)) {
        Tensor *X_there, *y_there;
        begin_step(run.devices[0]);
        split_batch(&X, &y, run.devices, 1, &X_there, &y_there);
        worker_gradients(&worker, X_there, y_there);
    }
    worker_free(&worker);
    modelled_end(&run);
    return run.seconds;
}

Pace pace_on_machine(const PsLesson *l, double slow[]) {
    const Machine *told = modelled_machine();
    Link link = machine_route(told, 0, told->cards > 0 ? told->devices : 1).link;
    double P = (double)worker_bytes_per_step();
    Pace pace = {.W = l->W,
                 .compute = compute_seconds(l),
                 .slow = slow,
                 .jitter = 0.1,
                 .busy = P / (l->S * link.bandwidth),
                 .transfer = link.latency + fmax(P / link.bandwidth, P / (l->S * link.bandwidth)),
                 .timeout = INFINITY,
                 .dies = -1,
                 .seed = l->seed};
    return pace;
}
