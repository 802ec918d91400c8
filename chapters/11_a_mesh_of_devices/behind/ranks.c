// ranks.c: the first steps on a mesh over chapter 8's ranks, beside one device.
#include "behind.h"

#include "common/book.h"
#include "chapters/08_many_machines/ranks.h"
#include "../over_ranks.h"

void ranks_before_flags(void) { dist_before_flags(); }

// Rank 0 trains it; its parameters go to all.
static VitRun run_one(VitPlan plan, const Dataset *data) {
    VitRun run = {.num_values = vit_numbers(plan.width)};
    Tensor *all = tensor_new(dist_device(), (int)run.num_values);
    plan.data = plan.tensor = 1;
    dist_wait_patiently(true);
    if (dist_get_rank() == 0) {
        run = run_steps(&plan, data);
        tensor_write(all, run.values);
        free(run.values);
    }
    dist_note("the parameters of one device");
    dist_broadcast(NULL, all, 0);
    run.values = tensor_values(all);
    dist_wait_patiently(false);
    tensor_free(all);
    return run;
}

static VitRun run_over_ranks(Vit *v, const VitPlan *plan, const Dataset *data) {
    VitRun run = {.plan = *plan};
    Tensor *X, *y, *loss;
    DistTraffic sent = {0};
    DataIter *batches = data_iter_new(data, plan->batch_size, plan->shuffle, plan->seed);
    data_iter_start(batches, 0);
    for (int s = 0; s < plan->steps; s++) {
        CHECK(data_iter_next(batches, &X, &y), "these steps are within an epoch");
        dist_note("step %d", s + 1);
        dist_reset_traffic();
        over_ranks_train_batch(v, X, y, plan->lr, &loss);
        sent = dist_traffic();
        run.losses[s] = (double)item(loss);
        dist_sum(NULL, &run.losses[s], 1);
        run.losses[s] /= X->shape[0] * plan->tensor; // all ranks of a network have its loss
    }
    run.sent = sent.bytes;
    run.sent_to_others = sent.bytes_to_hosts;
    data_iter_free(batches);
    return run;
}

// How many parameters of all ranks, copies counted, are not those of one device.
static double num_different_over_ranks(const Vit *v, const float *of_one) {
    Device *device = dist_device();
    Vit *expected = vit_new(v->options, &device, 1, of_one);
    const Tensor *own = v->shards[0].flat;
    VitRun a = {.values = tensor_values(own), .num_values = numel(own)};
    VitRun b = {.values = tensor_values(expected->shards[0].flat)};
    double different = num_different_numbers(&a, &b);
    dist_sum(NULL, &different, 1);
    vit_run_free(&a);
    vit_run_free(&b);
    vit_free(expected);
    return different;
}

static void print_ranks(const VitPlan *plan) {
    printf("%d steps on a mesh of ranks, and on one device: no more, this is only a comparison\n",
           plan->steps);
    for (int d = 0; d < plan->data; d++) {
        printf("  network %d:", d);
        for (int r = d * plan->tensor; r < (d + 1) * plan->tensor; r++)
            printf("%s rank %d on %s", r % plan->tensor ? "," : "", r, dist_host_name(r));
        printf("\n");
    }
}

static void print_over_ranks(const VitRun *one, const VitRun *run, double different, size_t formula,
                             size_t formula_to_others) {
    const VitPlan *plan = &run->plan;
    int last = plan->steps - 1;
    char title[48];
    snprintf(title, sizeof title, "loss of step %d", plan->steps);
    printf("\n");
    Table t = TABLE(NULL, WORDS("mesh", 15), FIXED(title, 3), WHOLE("differ"),
                    FIXED("sent within a network", 2, .unit = "MB"), FIXED("formula", 2),
                    FIXED("to others", 2, .unit = "MB"), FIXED("formula", 2));
    table_text(&t, "1 device");
    table_numbers(&t, one->losses[last], 0.0, 0.0, 0.0, 0.0, 0.0);
    table_text(&t, "%d x %d ranks", plan->data, plan->tensor);
    table_numbers(&t, run->losses[last], different, (double)(run->sent - run->sent_to_others),
                  (double)formula / 1e6, (double)run->sent_to_others,
                  (double)formula_to_others / 1e6);
    book_result("%d ranks: %g parameters differ from one device's", dist_get_world_size(),
                different);
}

void compare_over_ranks(const VitPlan *plan, const Dataset *data, int threads) {
    // To DistTraffic, each network is a host of its own.
    dist_init_process_group((DistOptions){.threads = threads, .ranks_per_host = plan->tensor});
    if (dist_get_rank() > 0) book_another_writes();
    print_ranks(plan);
    VitRun one = run_one(*plan, data);
    float *start = vit_start(plan->width, plan->seed);
    Vit *v = over_ranks_new((VitOptions){.width = plan->width}, plan->tensor, start);
    VitRun run = run_over_ranks(v, plan, data);
    double different = num_different_over_ranks(v, one.values);
    size_t inside = over_ranks_bytes(v, plan->batch_size), across = over_ranks_bytes_to_others(v);
    print_over_ranks(&one, &run, different, inside, across);
    if (run.sent != inside + across || run.sent_to_others != across)
        die("the formulas are in over_ranks.c",
            "in a step, it sent %zu bytes, %zu of them to others; by the formulas %zu and %zu",
            run.sent, run.sent_to_others, inside + across, across);
    over_ranks_free(v);
    free(start);
    vit_run_free(&one);
    dist_destroy_process_group();
}
