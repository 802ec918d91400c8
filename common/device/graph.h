// graph.h: work that repeats itself, enqueued in one go.
//
// Between graph_begin() and graph_end(), what is enqueued on these devices is not done but written
// down, with its addresses and its order. graph_launch() then enqueues all of it at once, after all
// work that is now on their queues and before all later work. It saves the host the launch of each
// kernel. Recording begins with the first kernel. What is copied from the host before that is done
// at once and is not part of the graph. From then on, until graph_end(), only these devices may be
// used, and the host must not wait or copy. The memory that the work uses must still be there at
// the launch.
#pragma once

#include "device.h"

typedef struct Graph Graph;

bool has_graphs(const Device *device); // GPUs have
void graph_begin(Device *const devices[], int k);
Graph *graph_end(void);
void graph_launch(const Graph *graph); // enters the ledger, each time
void graph_free(Graph *graph);
