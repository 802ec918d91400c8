// wrong: exchanges after each part, so what is summed over the ranks is summed again with the next
// loses: 2 3 4
// says: what is summed over the ranks once is summed again with the next part

#include "common/tensor/functional.h"
#include "your_part.h"

void step_in_parts(Ddp *ddp, const Plan *plan, const Tensor *X, const Tensor *y, float lr) {
    Tensor *X_shards[MOST_RANKS], *y_shards[MOST_RANKS], *y_hat[MOST_RANKS], *losses[MOST_RANKS];
    for (int j = 0; j < plan->m; j++) {
        load_part(ddp, plan, j, X, y, X_shards, y_shards);
        ddp_forward(ddp, X_shards, y_hat);
        for (int i = 0; i < ddp->k; i++) losses[i] = sum(cross_entropy(y_hat[i], y_shards[i]));
        ddp_backward(ddp, losses);
    }
    ddp_update(ddp, lr, X->shape[0]);
}
