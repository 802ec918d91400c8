// plan.c: see plan.h.
#include "plan.h"

#include "common/base/error.h"
#include "common/tensor/arena.h"
#include "common/tensor/autograd.h"
#include "chapters/03_split_batch/split_batch.h"

Module *token_network(void) { return Sequential(Linear(TOKEN, 32), ReLU(), Linear(32, CLASSES)); }

void load_part(const Ddp *ddp, const Plan *plan, int j, Tensor *X[], Tensor *y[]) {
    CHECK(plan->k == ddp->k && j >= 0 && j < plan->m, "a part of this plan");
    for (int i = 0; i < ddp->k; i++) {
        begin_step(ddp->devices[i]);
        X[i] = rows_on(plan->text, plan->tokens[i][j], ddp->devices[i]);
        y[i] = rows_on(plan->to, plan->tokens[i][j], ddp->devices[i]);
    }
}

Tensor *loss_over(Tensor *y_hat, Tensor *y, int divisor) {
    int n = y->shape[0];
    Tensor *weights = arena_tensor(y->device, 2, (int[]){n, 1}, false);
    tensor_fill(weights, 1 / (float)divisor);
    Tensor *losses = reshape_to(cross_entropy(y_hat, y), 2, (int[]){1, n});
    return sum(mm(losses, weights));
}
