// tables.c: what a step moves, and what each device holds; and which images each rank gets.
#include "behind.h"

#include "common/book.h"
#include "../sampler.h"

void print_traffic(int rows) {
    printf("\n");
    Table t = TABLE(NULL, WHOLE("devices"), WHOLE("DP: 0 sends"), WHOLE("receives", .width = 9),
                    WHOLE("another sends"), WHOLE("receives", .width = 9),
                    WHOLE("DDP: a rank sends"), WHOLE("receives", .width = 9));
    for (int k = 2; k <= 8; k *= 2) {
        if (!book_can_use_devices(k)) continue;
        Setup setup = {.network = &networks[0], .classes = 10, .k = k, .rows = rows};
        StepRecord *dp = record_one_step(&setup, modelled_machine());
        setup.is_ddp = true;
        StepRecord *ddp = record_one_step(&setup, modelled_machine());
        Traffic other = dp->total[busiest_other(dp)];
        table_numbers(&t, k, (double)dp->total[0].sent, (double)dp->total[0].received,
                      (double)other.sent, (double)other.received, (double)ddp->total[0].sent,
                      (double)ddp->total[0].received);
        step_record_free(dp);
        step_record_free(ddp);
    }
}

double print_memory(int k, int rows) {
    double ratio = NAN;
    printf("\n");
    Table t = TABLE(NULL, WHOLE("classes"), FIXED("DP: device 0", 1, .unit = "MB"),
                    FIXED("another", 1, .unit = "MB"), FIXED("DDP: a rank", 1, .unit = "MB"));
    for (int classes = 10; classes <= 10000; classes *= 1000) {
        Setup setup = {.network = &networks[0], .classes = classes, .k = k, .rows = rows};
        StepRecord *dp = record_one_step(&setup, modelled_machine());
        setup.is_ddp = true;
        StepRecord *ddp = record_one_step(&setup, modelled_machine());
        double first = (double)dp->memory[0], other = (double)most_memory_of_others(dp);
        table_numbers(&t, classes, first, other, (double)ddp->memory[0]);
        ratio = first / other;
        step_record_free(dp);
        step_record_free(ddp);
    }
    return ratio;
}

void print_samplers(void) {
    static const char *const modes[] = {"padded", "dropped", "exact"};
    enum { IMAGES = 10, RANKS = 4 };
    printf("\n");
    Table t = TABLE(NULL, WORDS("10 images", 9), WORDS("rank 0", 7), WORDS("rank 1", 7),
                    WORDS("rank 2", 7), WORDS("rank 3", 7));
    for (SamplerMode mode = SAMPLER_PAD; mode <= SAMPLER_EXACT; mode++) {
        table_text(&t, "%s", modes[mode]);
        for (int rank = 0; rank < RANKS; rank++) {
            DistributedSampler s = {.num_images = IMAGES, .k = RANKS, .rank = rank, .mode = mode};
            int indices[IMAGES];
            sampler_indices(&s, indices);
            if (sampler_count(&s) == 3)
                table_text(&t, "%d %d %d", indices[0], indices[1], indices[2]);
            else
                table_text(&t, "%d %d", indices[0], indices[1]);
        }
    }
}
