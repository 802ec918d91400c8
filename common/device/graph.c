// graph.c: a graph is what the backend has recorded, with its copies for the ledger and its work
// for the modelled clock. graph_launch() repeats all three.
#include "graph.h"
#include "backend.h"
#include "common/base/error.h"
#include "modelled_hooks.h"

#include <stdlib.h>
#include <string.h>

struct Graph {
    void *work; // the backend's own
    const Backend *backend;
    Device *devices[MAX_DEVICES];
    int k;
    bool has_work; // recording has begun
    Shipments *bytes;
    ModelledGraph *time; // NULL: none is modelled
};

static Graph *recorded; // between graph_begin() and graph_end()

bool has_graphs(const Device *device) { return device->backend && device->backend->graph_begin; }

void graph_begin(Device *const devices[], int k) {
    CHECK(!recorded && k > 0 && has_graphs(devices[0]), "one graph at a time, of GPUs");
    recorded = xcalloc(1, sizeof *recorded);
    recorded->backend = devices[0]->backend;
    recorded->k = k;
    memcpy(recorded->devices, devices, sizeof(Device *) * (size_t)k);
}

void graph_before_work(void) {
    if (!recorded || recorded->has_work) return;
    recorded->has_work = true;
    ledger_record();
    if (modelled) modelled->graph_begin(recorded->devices, recorded->k);
    recorded->backend->graph_begin(recorded->devices, recorded->k);
}

Graph *graph_end(void) {
    Graph *graph = recorded;
    graph_before_work(); // an empty graph is one, too
    recorded = NULL;
    graph->work = graph->backend->graph_end(graph->devices, graph->k);
    graph->time = modelled ? modelled->graph_end() : NULL;
    graph->bytes = ledger_recorded();
    return graph;
}

void graph_launch(const Graph *graph) {
    graph->backend->graph_launch(graph->work, graph->devices, graph->k);
    if (graph->time) modelled->graph_launch(graph->time);
    ledger_add_all(graph->bytes);
}

void graph_free(Graph *graph) {
    if (!graph) return;
    graph->backend->graph_free(graph->work);
    if (graph->time) modelled->graph_free(graph->time);
    shipments_free(graph->bytes);
    free(graph);
}
