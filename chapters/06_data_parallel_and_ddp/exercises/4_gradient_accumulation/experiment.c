// experiment.c: a text with short and long sentences, on 4 ranks in 4 parts. It is trained with
// your steps, and with the mean of the parts' means: which losses have short and long sentences
// then? After that, what accumulation saves.
#include "common/program/exercise.h"
#include "common/base/error.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "common/tensor/random.h"
#include "chapters/06_data_parallel_and_ddp/networks.h"
#include "your_part.h"

#include <stdlib.h>

enum { K = 4, M = 4, TOKENS = 512, STEPS = 100, SHORTEST = 5 };
static const float LR = 0.5F;
static uint64_t seed;
static Tensor *text, *to;

// Every second part has sentences of `few` tokens. Those of short sentences are of classes 0 to 4,
// those of long ones of classes 5 to 9.
static Plan plan_of(int few) {
    Plan plan = {.k = K, .m = M, .text = text, .to = to};
    int n = 0, many = 2 * TOKENS / (K * M) - few;
    float classes[TOKENS];
    for (int i = 0; i < K; i++)
        for (int j = 0; j < M; j++) {
            int count = (i + j) % 2 ? few : many, first = (i + j) % 2 ? 0 : CLASSES / 2;
            plan.tokens[i][j] = (Range){n, count};
            for (int end = n + count; n < end; n++) classes[n] = (float)(first + n % (CLASSES / 2));
        }
    tensor_write(to, classes);
    return plan;
}

// The one part on all ranks: its mean is that of each.
static Plan one_part(const Plan *plan, int i, int j) {
    Plan one = {.k = K, .m = 1, .text = text, .to = to};
    for (int rank = 0; rank < K; rank++) one.tokens[rank][0] = plan->tokens[i][j];
    return one;
}

// ## Two trainings

static void write_all(const Ddp *ddp, const float values[]) {
    for (int i = 0; i < K; i++)
        tensor_write(flat_parameters(ddp->net, ddp->devices[i]).data, values);
}

// A step with each part alone is that of its mean. Their average is that of the mean of means.
static void step_of_means(Ddp *ddp, const Plan *plan) {
    const Tensor *all = flat_parameters(ddp->net, ddp->devices[0]).data;
    float *before = tensor_values(all), *average = xcalloc(numel(all), sizeof *average);
    for (int a = 0; a < K * M; a++) {
        Plan part = one_part(plan, a / M, a % M);
        write_all(ddp, before);
        step_in_parts(ddp, &part, LR);
        float *after = tensor_values(all);
        for (size_t x = 0; x < numel(all); x++) average[x] += after[x] / (K * M);
        free(after);
    }
    write_all(ddp, average);
    free(before);
    free(average);
}

typedef struct Losses {
    double all, few, many; // a token's: of all, of short, and of long sentences
} Losses;

// By steps that change nothing.
static Losses losses_of(Ddp *ddp, const Plan *plan) {
    double sum[2] = {0}, tokens[2] = {0};
    for (int i = 0; i < K; i++)
        for (int j = 0; j < M; j++) {
            Plan part = one_part(plan, i, j);
            double count = (double)plan->tokens[i][j].count;
            sum[(i + j) % 2] += count * step_in_parts(ddp, &part, 0);
            tokens[(i + j) % 2] += count;
        }
    return (Losses){(sum[0] + sum[1]) / TOKENS, sum[1] / tokens[1], sum[0] / tokens[0]};
}

static Losses train(const Plan *plan, bool means) {
    Module *net = token_network();
    Device *devices[K];
    initialize(net, seed);
    open_devices(devices, K);
    Ddp *ddp = ddp_new(net, devices, K, (DdpOptions){0});
    for (int step = 0; step < STEPS; step++) {
        if (means)
            step_of_means(ddp, plan);
        else
            step_in_parts(ddp, plan, LR);
    }
    Losses losses = losses_of(ddp, plan);
    ddp_free(ddp);
    module_free(net);
    return losses;
}

static void compare_losses(FILE *csv) {
    say("\n  Losses after %d steps: yours, and with the mean of the %d parts' means", STEPS, K * M);
    Table t = TABLE(NULL, WHOLE("short, tokens"), WHOLE("long"), FIXED("all, yours", 3),
                    FIXED("means", 3), FIXED("short, yours", 3), FIXED("means", 3),
                    FIXED("long, yours", 3), FIXED("means", 3));
    for (int a = 0; a < SHORTEST; a++) {
        int few = 32 >> a;
        Plan plan = plan_of(few);
        Losses yours = train(&plan, false), means = train(&plan, true);
        table_numbers(&t, few, 64 - few, yours.all, means.all, yours.few, means.few, yours.many,
                      means.many);
        fprintf(csv, "%d,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g\n", few, yours.all, means.all, yours.few,
                means.few, yours.many, means.many);
    }
}

static void experiment(const Flags *flags, FILE *csv) {
    static float values[TOKENS * TOKEN];
    seed = flags->seed;
    text = tensor_new(host(), TOKENS, TOKEN);
    to = tensor_new(host(), TOKENS);
    fill_normal(values, TOKENS * TOKEN, 1, seed, 1);
    tensor_write(text, values);
    say("Question: what does a mean of means train? %d tokens in sentences of two lengths, on %d "
        "ranks in %d parts.",
        TOKENS, K, M);
    fprintf(csv, "short_tokens,all,all_means,short,short_means,long,long_means\n");
    compare_losses(csv);
    tensor_free(text);
    tensor_free(to);
}

int main(int argc, char *argv[]) {
    const Exercise exercise = {.about = "Exercise 4: a large minibatch of sentences, in parts.",
                               .flags = "seed -machine",
                               .experiment = experiment,
                               .plot = "exercise_accumulation.gp"};
    return exercise_main(argc, argv, &exercise);
}
