// exchange.c: see behind.h.
#include "behind.h"

#include "common/book.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/03_split_batch/split_batch.h"

// If all workers sent to server 0 first, the other servers would have to wait. So server s begins
// with worker s W/S and continues with the next ones, and so do pulls.
static void exchange(Servers *v, Worker workers[]) {
    Event ready[MOST_WORKERS], updated[MOST_SERVERS];
    int W = v->W, S = v->S;
    for (int w = 0; w < W; w++) ready[w] = device_record(workers[w].device);
    for (int i = 0; i < W * S; i++) {
        int s = i % S, w = (s * W / S + i / S) % W;
        device_copy_after(ready[w], v->devices[s], v->received[s][w]->data,
                          workers[w].grads->data + v->keys[s].first,
                          tensor_bytes(v->received[s][w]));
        v->waits[w] = true;
    }
    servers_update(v);
    for (int s = 0; s < S; s++) updated[s] = device_record(v->devices[s]);
    for (int i = 0; i < W * S; i++) {
        int w = i % W, s = (w * S / W + i / W) % S;
        device_copy_after(updated[s], workers[w].device, workers[w].params->data + v->keys[s].first,
                          v->params[s]->data, tensor_bytes(v->params[s]));
    }
}

static double exchange_seconds(const Machine *machine, int W, int S) {
    ModelledRun run = {.machine = machine, .k = W + S};
    Worker workers[MOST_WORKERS];
    modelled_begin(&run);
    Servers *v = servers_new(run.devices + W, S, W, 1);
    for (int w = 0; w < W; w++) workers[w] = worker_new(run.devices[w], 1);
    while (modelled_run(&run)) exchange(v, workers);
    for (int w = 0; w < W; w++) worker_free(&workers[w]);
    servers_free(v);
    modelled_end(&run);
    return run.seconds;
}

static Link network_of(const Machine *machine) {
    return machine_route(machine, 0, machine->cards > 0 ? machine->devices : 1).link;
}

void draw_exchanges(void) {
    const Machine *machine = machine_find("laptops-1gbe");
    const char *csv = book_output("_exchange.csv"), *png = book_output("_exchange.png");
    double P = (double)lenet_floats() * sizeof(float), B = network_of(machine).bandwidth;
    OutputFile out = output_open(csv);
    fprintf(out.stream, "machine,workers,servers,seconds,bound,ring\n");
    for (int W = 1; W <= 16; W *= 2) {
        const int servers[] = {1, W / 2, W};
        double ring =
            W > 1 ? modelled_allreduce(machine, allreduce_ring, W, (int)lenet_floats()) : NAN;
        for (int i = 0; i < 3; i++) {
            int S = servers[i];
            if (S < 1 || (i > 0 && S == 1)) continue;
            fprintf(out.stream, "%s,%d,%d,%.9g,%.9g,%.9g\n", machine->name, W, S,
                    exchange_seconds(machine, W, S), 2 * fmax(P / B, W * P / (S * B)), ring);
        }
    }
    output_close(&out);
    plot_draw(png, "parameter_servers.gp", csv);
}

static double compute_seconds(const Machine *machine, const PsLesson *l) {
    ModelledRun run = {.machine = machine, .k = 1, .warm_up = 1};
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

Pace pace_on(const Machine *machine, const PsLesson *l, double slow[]) {
    Link link = network_of(machine);
    double P = (double)lenet_floats() * sizeof(float);
    return (Pace){.W = l->W,
                  .compute = compute_seconds(machine, l),
                  .slow = slow,
                  .jitter = 0.1,
                  .busy = P / (l->S * link.bandwidth),
                  .transfer = link.latency + P / link.bandwidth,
                  .seed = l->seed};
}
