// exchange_times.c: see exchange_times.h.
#include "exchange_times.h"

#include "common/base/file.h"
#include "common/program/book.h"
#include "common/program/modelled_run.h"
#include "common/program/plot.h"
#include "common/program/table.h"
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

static void add_exchange(Table *t, const Machine *machine, int W, int S) {
    double servers = servers_exchange_seconds(machine, W, S);
    double least = bound(network_bandwidth(machine), W, S);
    table_text(t, "%s", machine->name);
    table_numbers(t, W, S, servers, least, servers / least, W > 1 ? ring_seconds(machine, W) : NAN);
}

void compare_exchanges(int most) {
    const Machine *told = modelled_machine();
    if (!told || told->cards == 0) return;
    Machine hosts = *told; // one device each: servers and workers are machines of their own
    hosts.devices = 1;
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
    output_close(&out);
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
