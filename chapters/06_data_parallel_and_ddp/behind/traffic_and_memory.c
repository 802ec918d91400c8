// traffic_and_memory.c: what a step moves, and what each device holds; and which images each rank
// gets.
#include "behind.h"

#include "common/book.h"
#include "../sampler.h"

// A step of LeNet by DP, and the same by DDP.
static void record_both(int classes, int k, int rows, StepRecord *both[2]) {
    for (int is_ddp = 0; is_ddp < 2; is_ddp++)
        both[is_ddp] = record_one_step(&(Setup){is_ddp, &networks[0], classes, k, rows, 0, {0}},
                                       modelled_machine());
}

void print_traffic(int k, int rows) {
    printf("\n");
    StepRecord *both[2];
    Table t =
        TABLE(NULL, WHOLE("devices"), WHOLE("DP: device 0 sends"), WHOLE("receives", .width = 9),
              WHOLE("device 1 sends"), WHOLE("receives", .width = 9), WHOLE("DDP: a rank sends"),
              WHOLE("receives", .width = 9));
    record_both(10, k, rows, both);
    Traffic first = both[0]->total[0], other = both[0]->total[1], rank = both[1]->total[0];
    table_numbers(&t, k, (double)first.sent, (double)first.received, (double)other.sent,
                  (double)other.received, (double)rank.sent, (double)rank.received);
    for (int i = 0; i < 2; i++) step_record_free(both[i]);
}

double print_memory(int k, int rows) {
    StepRecord *both[2];
    double first = NAN, other = NAN;
    printf("\n");
    Table t = TABLE(NULL, WHOLE("classes"), FIXED("DP: device 0", 1, .unit = "MB"),
                    FIXED("device 1", 1, .unit = "MB"), FIXED("DDP: a rank", 1, .unit = "MB"));
    for (int classes = 10; classes <= 10000; classes *= 1000) {
        record_both(classes, k, rows, both);
        first = (double)both[0]->memory[0];
        other = (double)both[0]->memory[1];
        table_numbers(&t, classes, first, other, (double)both[1]->memory[0]);
        for (int i = 0; i < 2; i++) step_record_free(both[i]);
    }
    return first / other;
}

void print_samplers(void) {
    static const char *const modes[] = {"padded", "dropped", "exact"};
    printf("\n");
    Table t = TABLE(NULL, WORDS("10 images", 9), WORDS("rank 0", 7), WORDS("rank 1", 7),
                    WORDS("rank 2", 7), WORDS("rank 3", 7), WHOLE("of 10,000, 3 ranks count"));
    for (SamplerMode mode = SAMPLER_PAD; mode <= SAMPLER_EXACT; mode++) {
        int of[3], count = 0;
        table_text(&t, "%s", modes[mode]);
        for (int rank = 0; rank < 4; rank++) {
            DistributedSampler s = {10, 4, rank, mode, false, 0, 0};
            sampler_indices(&s, of);
            table_text(&t, sampler_count(&s) == 2 ? "%d %d" : "%d %d %d", of[0], of[1], of[2]);
        }
        for (int rank = 0; rank < 3; rank++)
            count += sampler_count(&(DistributedSampler){10000, 3, rank, mode, false, 0, 0});
        table_numbers(&t, count);
    }
}
