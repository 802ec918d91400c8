// plan.c: see plan.h.
#include "plan.h"

#include "common/base/error.h"
#include "common/tensor/autograd.h"
#include "chapters/03_split_batch/split_batch.h"

Plan shards_in_parts(int n, int k, int m) {
    Plan plan = {.k = k, .m = m};
    CHECK(k <= MOST_RANKS && m <= MOST_PARTS, "room for ranks and parts");
    for (int i = 0; i < k; i++) {
        Range shard = equal_range(n, k, i);
        for (int j = 0; j < m; j++) {
            plan.rows[i][j] = equal_range(shard.count, m, j);
            plan.rows[i][j].first += shard.first;
        }
    }
    return plan;
}

Plan parts_in_shards(int n, int k, int m) {
    Plan plan = {.k = k, .m = m};
    CHECK(k <= MOST_RANKS && m <= MOST_PARTS, "room for ranks and parts");
    for (int j = 0; j < m; j++) {
        Range part = equal_range(n, m, j);
        for (int i = 0; i < k; i++) {
            plan.rows[i][j] = equal_range(part.count, k, i);
            plan.rows[i][j].first += part.first;
        }
    }
    return plan;
}

void load_part(const Ddp *ddp, const Plan *plan, int j, const Tensor *X, const Tensor *y,
               Tensor *X_shards[], Tensor *y_shards[]) {
    CHECK(plan->k == ddp->k && j >= 0 && j < plan->m, "a part of this plan");
    for (int i = 0; i < ddp->k; i++) {
        begin_step(ddp->devices[i]);
        X_shards[i] = rows_on(X, plan->rows[i][j], ddp->devices[i]);
        y_shards[i] = rows_on(y, plan->rows[i][j], ddp->devices[i]);
    }
}

float *ddp_values(const Ddp *ddp, int i, size_t *n) {
    Tensor *all = flat_parameters(ddp->net, ddp->devices[i]).data;
    *n = numel(all);
    return tensor_values(all);
}
