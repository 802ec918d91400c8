// plan.h: a minibatch of tokens, in parts for the ranks, and a small network that classifies
// tokens.
#pragma once

#include "common/base/range.h"
#include "chapters/06_data_parallel_and_ddp/ddp.h"

// In part j rank i has tokens[i][j] of a text: sentences, between which there may be padding.
enum { MOST_RANKS = 8, MOST_PARTS = 16, TOKEN = 16, CLASSES = 10 };
typedef struct Plan {
    int k, m;                // ranks and parts
    const Tensor *text, *to; // (n,TOKEN) and (n), on the host: tokens, and the class of each
    Range tokens[MOST_RANKS][MOST_PARTS];
} Plan;

// For initialize() and module_free(): (n,TOKEN) -> (n,CLASSES).
Module *token_network(void);

// Begins part j on all ranks, which forget the activations of the part before, and brings each its
// tokens: X[i] and y[i] are on device i.
void load_part(const Ddp *ddp, const Plan *plan, int j, Tensor *X[], Tensor *y[]);

// The sum of the losses of these tokens, divided by `divisor`.
Tensor *loss_over(Tensor *y_hat, Tensor *y, int divisor);
