// plan.h: which rows of a minibatch a rank works on when, and replicas to try it out with.
#ifndef PLAN_H
#define PLAN_H

#include "common/base/range.h"
#include "common/data/fashion_mnist.h"
#include "chapters/06_data_parallel_and_ddp/ddp.h"

// In part j rank i has rows[i][j] of the minibatch.
enum { MOST_RANKS = 8, MOST_PARTS = 16 };
typedef struct Plan {
    int k, m; // ranks and parts
    Range rows[MOST_RANKS][MOST_PARTS];
} Plan;

// The shard that a rank would have of the whole minibatch, in m parts, as equal as can be.
Plan shards_in_parts(int n, int k, int m);
// The minibatch in m parts, and the shard that a rank has of each: as who gets m small minibatches.
Plan parts_in_shards(int n, int k, int m);

// Begins part j on all ranks, which forget the activations of the part before, and brings each its
// rows: X_shards[i] and y_shards[i] are on device i. X (n,...) and y (n) are on the host.
void load_part(const Ddp *ddp, const Plan *plan, int j, const Tensor *X, const Tensor *y,
               Tensor *X_shards[], Tensor *y_shards[]);

// All trained parameters of rank i, one behind the other; free() them.
float *ddp_values(const Ddp *ddp, int i, size_t *n);

#endif
