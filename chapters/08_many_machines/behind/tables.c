// tables.c: what is compared over the ranks, as tables; see behind.h.
#include "behind.h"

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/launcher.h"
#include "common/base/platform.h"
#include "common/base/statistics.h"
#include "common/model/many_ranks.h"
#include "common/program/program.h"
#include "common/program/plot.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "common/tensor/autograd.h"
#include "common/tensor/random.h"
#include "chapters/03_split_batch/split_batch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void show_ranks(void) {
    int size = dist_get_world_size(), threads = num_threads(), hosts = dist_num_hosts();
    const char *by = launch_read().by;
    char *mine = xprintf("local rank %d, %s, %d thread%s", dist_local_rank(),
                         device_name(dist_device()), threads, threads == 1 ? "" : "s");
    char **of = gather_texts(mine);
    printf("%d rank%s on %d host%s, started by %s%s\n", size, size == 1 ? "" : "s", hosts,
           hosts == 1 ? "" : "s", by ? by : "hand",
           dist_is_mpi_available() ? "" : " (built without MPI; make setup installs it)");
    for (int r = 0; of[r]; r++) printf("  rank %d on %s: %s\n", r, dist_host_name(r), of[r]);
    free_texts(of);
    free(mine);
}

// ## Ways to sum

enum { NUMBERS = 129068 }; // LeNet's parameters

// What rank r has.
static Tensor *vector_of(Device *device, int r) {
    Tensor *t = tensor_new(device, NUMBERS);
    float *values = xmalloc(sizeof *values * NUMBERS);
    fill_normal(values, NUMBERS, 1, 8, (uint32_t)r);
    tensor_write(t, values);
    free(values);
    return t;
}

// The sum of the k vectors, by k devices of this process and chapter 2's algorithm.
static float *sum_in_one_process(const char *algorithm, int k) {
    Tensor *data[MAX_COMPUTING];
    choose_allreduce(algorithm);
    for (int r = 0; r < k; r++) {
        begin_step(try_gpu(r));
        data[r] = vector_of(try_gpu(r), r);
    }
    allreduce(data, k);
    float *sum = tensor_values(data[0]);
    for (int r = 0; r < k; r++) tensor_free(data[r]);
    return sum;
}

// Rank 0 compares.
static const char *compare_bits(const char *name, const Tensor *mine) {
    int k = dist_get_world_size();
    if (k > MAX_COMPUTING || dist_get_rank() != 0) return "not compared";
    float *sum = tensor_values(mine), *expected = sum_in_one_process(name, k);
    bool same = memcmp(sum, expected, sizeof *sum * NUMBERS) == 0;
    free(sum);
    free(expected);
    CHECK(same, "k ranks add up in the order of k devices in one process");
    return "the same";
}

static void add_sum(Table *t, const Allreduce *algorithm) {
    int size = dist_get_world_size();
    double *all = xmalloc(sizeof *all * 2 * (size_t)size), most = 0;
    Tensor *mine = vector_of(dist_device(), dist_get_rank());
    dist_choose_all_reduce(algorithm->name);
    dist_note("the table of sums, %s", algorithm->name);
    dist_reset_traffic();
    dist_all_reduce(NULL, mine);
    DistTraffic sent = dist_traffic();
    dist_gather(NULL, (double[]){(double)sent.bytes, (double)sent.messages}, 2, all);
    for (int r = 0; r < size; r++) {
        if (r > 0) most = fmax(most, all[2 * r]);
        CHECK(all[2 * r] == (double)allreduce_bytes(algorithm, NUMBERS, size, r).sent,
              "bytes are those of chapter 2's formula");
    }
    table_text(t, "%s", algorithm->name);
    table_numbers(t, all[0], most, all[1]);
    table_text(t, "%s", compare_bits(algorithm->name, mine));
    tensor_free(mine);
    free(all);
}

void show_collectives(void) {
    const char *before = dist_chosen_all_reduce();
    say("\nSums of %d numbers over %d ranks: what rank 0 sends, the most that another sends, and "
        "the bits of one process with %d devices",
        NUMBERS, dist_get_world_size(), dist_get_world_size());
    Table t = TABLE(NULL, WORDS("sum", 8), WHOLE("bytes", .width = 11), WHOLE("most", .width = 11),
                    WHOLE("messages"), WORDS("bits", 12));
    for (int a = 0; a < NUM_ALLREDUCES; a++) add_sum(&t, &allreduces[a]);
    dist_choose_all_reduce(before);
}

// ## The training

bool show_training(const RankLesson *lesson) {
    int W = dist_get_world_size();
    const char *s = W == 1 ? "" : "s";
    say("\nLeNet on %d rank%s, %d images on each in a step; learning rate %g for one, %.3g for all "
        "(rule: linear); gradients travel in buckets, summed by '%s'",
        W, s, lesson->rows, (double)lesson->lr, (double)lr_of_all(lesson),
        dist_chosen_all_reduce());
    check_fault(last_step(lesson));
    RankResult r = train_on_ranks(lesson);
    double mine = r.checksum, *all = xmalloc(sizeof *all * (size_t)W);
    dist_gather(NULL, &mine, 1, all);
    for (int k = 1; k < W; k++)
        CHECK(all[k] == all[0], "all ranks have the same parameters, to the bit");
    free(all);
    if (r.stopped) {
        say("  stopped after %ld steps, on all ranks; %d whole epochs", r.steps, r.epochs);
        return false;
    }
    printf("  %ld steps; parameters %08x on all %d rank%s\n", r.steps, r.checksum, W, s);
    book_result("%d rank%s with the same parameters: test acc %.2f", W, s, r.test_acc);
    return true;
}

// ## Ways for gradients to travel

typedef struct Travel {
    const char *title;
    RankNetOptions net;
} Travel;

static const Travel travels[] = {
    {"each gradient alone", {.exchange = EXCHANGE_TENSORS}},
    {"DDP, buckets of 64 KiB", {.exchange = EXCHANGE_BUCKETS, .ddp = {.bucket_bytes = 64 << 10}}},
    {"DDP, one bucket", {.exchange = EXCHANGE_BUCKETS, .ddp = {.bucket_bytes = ONE_BUCKET}}},
    {"fusion, 128 MiB, 5 ms",
     {.exchange = EXCHANGE_FUSION, .fusion = {.threshold = FUSION_THRESHOLD, .cycle = 5e-3}}},
    {"one bucket, hosts first",
     {.exchange = EXCHANGE_BUCKETS, .ddp = {.bucket_bytes = ONE_BUCKET}, .hosts_first = true}},
};
enum { NUM_TRAVELS = sizeof travels / sizeof travels[0], STEPS = 16 };

// (What NCCL sends is not counted.)
static uint32_t add_travel(Table *t, const Travel *travel, const RankLesson *lesson,
                           uint32_t first) {
    RankLesson l = *lesson;
    l.net = travel->net;
    l.steps = STEPS;
    l.epochs = 1 << 20; // STEPS is less
    l.quiet = true;
    l.checkpoint = l.resume = NULL;
    RankResult r = train_on_ranks(&l);
    double each = dist_order_is_fixed() ? 1.0 / STEPS : NAN;
    if (first == 0) first = r.checksum;
    table_text(t, "%s", travel->title);
    table_numbers(t, (double)r.traffic.messages * each, floor((double)r.traffic.bytes * each),
                  floor((double)r.traffic.bytes_to_hosts * each));
    table_text(t, "%08x", r.checksum);
    // The sharded sum adds a number in the order of the ranks, wherever in a vector it is.
    CHECK(!dist_order_is_fixed() || travel->net.hosts_first || r.checksum == first,
          "how gradients travel changes no bit of their sums");
    return first;
}

void show_exchanges(const RankLesson *lesson) {
    int size = dist_get_world_size();
    bool pretend = dist_num_hosts() == 1 && size >= 4 && size % 2 == 0;
    uint32_t first = 0;
    if (size == 1) return;
    if (pretend) dist_pretend_hosts(size / 2);
    say("\nA step's messages and bytes of rank 0%s; the parameters after %d steps",
        pretend ? ", as if each half of the ranks had a host" : "", STEPS);
    Table t = TABLE(NULL, WORDS("", 24), FIXED("messages", 1), WHOLE("bytes", .width = 11),
                    WHOLE("to other hosts", .width = 11), WORDS("parameters", 8));
    for (int w = 0; w < NUM_TRAVELS; w++)
        if (!travels[w].net.hosts_first || dist_hosts_are_equal())
            first = add_travel(&t, &travels[w], lesson, first);
    if (pretend) dist_pretend_hosts(0);
}

// ## Ranks, or one rank

static uint32_t checksum_after(int steps, const RankLesson *lesson, bool as_ranks) {
    int W = dist_get_world_size();
    Device *device = dist_device();
    Tensor *X, *y, *loss;
    Module *net = lenet_modules(FASHION_MNIST_CLASSES);
    initialize(net, lesson->seed);
    place_on(net, device);
    RankNet one = {.net = net}, *n = as_ranks ? rank_net_new(net, lesson->net) : &one;
    DataIter *iter = data_iter_new(lesson->train_data, W * lesson->rows, false, 0);
    data_iter_start(iter, 0);
    for (int step = 0; step < steps && data_iter_next(iter, &X, &y); step++) {
        Range rows = equal_range(X->shape[0], W, dist_get_rank());
        if (as_ranks) {
            begin_step(device);
            rank_net_step(n, rows_on(X, rows, device), rows_on(y, rows, device), lesson->lr,
                          X->shape[0], &loss);
            synchronize(device);
        } else {
            accumulate(net, device, X, y, W);
            sgd_step(net, device, lesson->lr, X->shape[0]);
        }
    }
    uint32_t sum = rank_net_checksum(n);
    data_iter_free(iter);
    if (as_ranks) rank_net_free(n);
    module_free(net);
    return sum;
}

bool show_one_rank(const RankLesson *lesson) {
    enum { SOME = 5 };
    int W = dist_get_world_size();
    uint32_t ranks = checksum_after(SOME, lesson, true);
    uint32_t one = dist_get_rank() == 0 ? checksum_after(SOME, lesson, false) : 0;
    printf("\nParameters after %d steps: %08x on %d ranks, %08x on one rank in %d parts\n", SOME,
           ranks, W, one, W);
    return ranks == one;
}

// ## Larger minibatches

// The seeds of one minibatch and rule. With the base minibatch all rules are the same.
static void add_rule(Table *t, FILE *csv, const RuleJob jobs[], const RuleResult results[], int n,
                     int times, LrRule rule) {
    double accuracy[MOST_JOB_SEEDS];
    int first = 0, seeds = 0;
    for (int j = n - 1; j >= 0; j--)
        if (jobs[j].times == times && jobs[j].rule == rule) {
            accuracy[seeds++] = results[j].accuracy;
            first = j;
        }
    double all = mean(accuracy, seeds), low = minimum(accuracy, seeds),
           high = maximum(accuracy, seeds);
    int batch = jobs[first].base_batch * times;
    table_numbers(t, batch, results[first].updates);
    table_text(t, "%s", times == 1 ? "(all the same)" : lr_rule_names[rule]);
    table_numbers(t, results[first].last_lr, all, low, high);
    for (LrRule r = rule; r < (times == 1 ? NUM_LR_RULES : rule + 1); r++)
        fprintf(csv, "%d,%s,%.6g,%.6g,%.6g,%d\n", batch, lr_rule_names[r], all, low, high, seeds);
}

void show_rule_results(const RuleJob jobs[], const RuleResult results[], int n) {
    const char *csv = book_output("_lr_rules.csv"), *png = book_output("_lr_rules.png");
    say("\nLeNet, %d epochs of %d images, %d training%s of each kind", jobs[0].epochs,
        jobs[0].images, n / 9, n == 9 ? "" : "s");
    OutputFile out = output_open(csv);
    fprintf(out.stream, "batch,rule,accuracy,lowest,highest,seeds\n");
    {
        Table t = TABLE(NULL, WHOLE("minibatch"), WHOLE("updates"), WORDS("rule", 19),
                        DIGITS("last lr", 3), FIXED("accuracy", 3), FIXED("lowest", 3),
                        FIXED("highest", 3));
        add_rule(&t, out.stream, jobs, results, n, 1, RULE_NONE);
        for (int times = 4; times <= 16; times *= 4)
            for (LrRule rule = 0; rule < NUM_LR_RULES; rule++)
                add_rule(&t, out.stream, jobs, results, n, times, rule);
    }
    output_close(&out);
    plot_draw(png, "lr_rules.gp", csv);
}

// ## 512 GPUs

// Gradients are sent as soon as there are 64 MiB of them, or, in the CSV alone, every 5 ms, as
// Horovod did (how_true.md).
void show_scaling(void) {
    const SendRule large = {.bytes = 64 << 20}, often = {64 << 20, 0.005};
    OutputFile csv = output_open(book_output("_scaling.csv"));
    fprintf(csv.stream, "network,sent,ranks,efficiency\n");
    say("\nEfficiency in %%, %d images on each GPU: published for 16 and for 512 GPUs, and for 512 "
        "by our model",
        PUBLISHED_IMAGES);
    Table t = TABLE(NULL, WORDS("", 12), WHOLE("published, 16", .width = 9),
                    WHOLE("published, 512", .width = 9), WHOLE("model, 512", .width = 9));
    for (int n = 0; n < NUM_PUBLISHED_SCALINGS; n++) {
        const PublishedScaling *p = &published_scalings[n];
        const double at[] = {published_modelled(p, large, 512), published_modelled(p, often, 512)};
        const char *name = p->network().name;
        table_text(&t, "%s", name);
        table_numbers(&t, 100 * p->sixteen / (16 * p->one), 100 * p->efficiency_512, 100 * at[0]);
        fprintf(csv.stream, "%s,64 MiB,512,%.6g\n%s,5 ms,512,%.6g\n", name, at[0], name, at[1]);
    }
    output_close(&csv);
}
