// solution.c: chapter 6's exercise 4.
#include "common/tensor/functional.h"
#include "your_part.h"

double step_in_parts(Ddp *ddp, const Plan *plan, float lr) {
    Tensor *X[MOST_RANKS], *y[MOST_RANKS], *y_hat[MOST_RANKS], *losses[MOST_RANKS];
    double loss = 0;
    int tokens = 0;
    for (int i = 0; i < plan->k; i++)
        for (int j = 0; j < plan->m; j++) tokens += (int)plan->tokens[i][j].count;
    for (int j = 0; j < plan->m; j++) {
        load_part(ddp, plan, j, X, y);
        ddp_no_sync(ddp, j < plan->m - 1);
        ddp_forward(ddp, X, y_hat);
        for (int i = 0; i < ddp->k; i++) losses[i] = loss_over(y_hat[i], y[i], tokens);
        ddp_backward(ddp, losses);
        for (int i = 0; i < ddp->k; i++) loss += item(losses[i]);
    }
    ddp_update(ddp, lr, 1);
    return loss;
}
