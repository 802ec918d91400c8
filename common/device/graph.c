// graph.c: a graph is what the backend has recorded, with what each observer of the queues keeps of
// it. graph_launch() repeats all of them.
#include "graph.h"
#include "backend.h"
#include "common/base/error.h"
#include "queue_observer.h"

#include <stdlib.h>
#include <string.h>

struct Graph {
    void *work; // the backend's own
    const Backend *backend;
    Device *devices[MAX_DEVICES];
    int k;
    bool has_work; // recording has begun
    struct {
        const QueueObserver *observer;
        void *kept; // by its graph_end()
    } seen[MAX_OBSERVERS];
    int num_seen;
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
    TELL(graph_begin, recorded->devices, recorded->k);
    recorded->backend->graph_begin(recorded->devices, recorded->k);
}

Graph *graph_end(void) {
    Graph *graph = recorded;
    graph_before_work(); // an empty graph is one, too
    recorded = NULL;
    graph->work = graph->backend->graph_end(graph->devices, graph->k);
    FOR_OBSERVERS(o) {
        if (!(*o)->graph_end) continue;
        graph->seen[graph->num_seen].observer = *o;
        graph->seen[graph->num_seen++].kept = (*o)->graph_end();
    }
    return graph;
}

void graph_launch(const Graph *graph) {
    graph->backend->graph_launch(graph->work, graph->devices, graph->k);
    for (int i = 0; i < graph->num_seen; i++)
        graph->seen[i].observer->graph_launch(graph->seen[i].kept);
}

void graph_free(Graph *graph) {
    if (!graph) return;
    graph->backend->graph_free(graph->work);
    for (int i = 0; i < graph->num_seen; i++)
        graph->seen[i].observer->graph_free(graph->seen[i].kept);
    free(graph);
}
