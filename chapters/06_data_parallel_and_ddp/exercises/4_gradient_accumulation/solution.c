// solution.c: chapter 6's exercise 4.
#include "common/tensor/functional.h"
#include "your_part.h"

void step_in_parts(Ddp *ddp, const Plan *plan, const Tensor *X, const Tensor *y, float lr) {
    Tensor *X_shards[MOST_RANKS], *y_shards[MOST_RANKS], *y_hat[MOST_RANKS], *losses[MOST_RANKS];
    for (int j = 0; j < plan->m; j++) {
        load_part(ddp, plan, j, X, y, X_shards, y_shards);
        ddp_no_sync(ddp, j < plan->m - 1);
        ddp_forward(ddp, X_shards, y_hat);
        for (int i = 0; i < ddp->k; i++) losses[i] = sum(cross_entropy(y_hat[i], y_shards[i]));
        ddp_backward(ddp, losses);
    }
    ddp_update(ddp, lr, X->shape[0]);
}
