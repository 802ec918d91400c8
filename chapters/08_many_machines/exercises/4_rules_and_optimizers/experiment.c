// experiment.c: two networks, by gradient descent and by Adam, with four times the batch: which
// rule for the learning rate keeps the accuracy? Three seeds each.
#include "common/base/error.h"
#include "common/program/exercise.h"
#include "common/program/interrupt.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "chapters/08_many_machines/exercises/start_ranks.h"
#include "your_part.h"

static const int times_of[MOST_TIMES] = {4, 16};
enum { MOST_NETWORKS = 2 };
static const RuleNetwork job_networks[MOST_NETWORKS] = {RULES_NARROW, RULES_LENET};

static int num_times(const Trainings *t) { return t->full ? 2 : 1; }
static int num_networks(const Trainings *t) { return t->full ? 2 : 1; }

// ## Figures

// What one rule came to, with one batch.
typedef struct Cell {
    const RuleJob *job;
    const RuleResult *first; // of the seeds
    double accuracy[NUM_SEEDS];
    int diverged;
    Summary summary;
    double last_lr, lr_sum; // by your rule
} Cell;

static Cell cell_of(const Trainings *t, RuleOptimizer o, RuleNetwork network, LrRule rule,
                    int times) {
    Cell c = {0};
    int j = accuracies(t, o, network, rule, times, c.accuracy);
    c.job = &t->jobs[j];
    c.first = &t->results[j];
    for (int s = 0; s < NUM_SEEDS; s++) c.diverged += !isfinite(c.accuracy[s]);
    c.summary = summary_of(c.accuracy, NUM_SEEDS);
    long updates = (long)c.first->updates, warm_up = updates / 4; // lr_rules.c: a quarter
    for (long step = 0; step < updates; step++) {
        c.last_lr = lr_of(rule, c.job->base_lr, times, step, warm_up);
        c.lr_sum += c.last_lr;
    }
    CHECK(c.diverged > 0 || fabs(c.lr_sum - c.first->lr_sum) <= 1e-9 * c.lr_sum,
          "the trainings had the learning rates that your rule gives");
    return c;
}

// One optimizer and network: the base batch, and each rule with larger ones.
typedef struct Block {
    Cell base, cells[MOST_TIMES][NUM_LR_RULES];
} Block;

static Block block_of(const Trainings *t, RuleOptimizer o, RuleNetwork network) {
    Block b = {.base = cell_of(t, o, network, RULE_NONE, 1)};
    for (int i = 0; i < num_times(t); i++)
        for (int rule = 0; rule < NUM_LR_RULES; rule++)
            b.cells[i][rule] = cell_of(t, o, network, (LrRule)rule, times_of[i]);
    return b;
}

static void add_cell(Table *t, const Cell *c, const char *name, const char *kept) {
    table_numbers(t, c->job->times * c->job->base_batch, c->first->updates);
    table_text(t, "%s", name);
    table_numbers(t, c->last_lr, c->lr_sum, c->summary.mean, c->summary.low, c->summary.high);
    table_text(t, "%s", c->diverged > 0 ? "some diverged" : kept);
}

// Linear minus square root, seed by seed.
static double pair_of(const Cell cells[NUM_LR_RULES], int s) {
    return summary_of(&cells[RULE_LINEAR].accuracy[s], 1).mean -
           summary_of(&cells[RULE_SQRT].accuracy[s], 1).mean;
}

// The two, by your judge().
static void print_pairs(const Cell cells[NUM_LR_RULES]) {
    static const char *const verdicts[] = {"nobody knows", "linear", "square root"};
    double pairs[NUM_SEEDS];
    int won = 0;
    for (int s = 0; s < NUM_SEEDS; s++) won += (pairs[s] = pair_of(cells, s)) > 0;
    Summary d = summary_of(pairs, NUM_SEEDS);
    say("  Batch x%d, linear minus square root, seed by seed: %+.3f (%+.3f to %+.3f), above 0 %d "
        "times of %d. By your judge() better is: %s",
        cells->job->times, d.mean, d.low, d.high, won, NUM_SEEDS,
        verdicts[judge(cells[RULE_LINEAR].accuracy, cells[RULE_SQRT].accuracy, NUM_SEEDS)]);
}

static void print_block(const Block *b, int times) {
    say("\n  %s, %s", rule_network_titles[b->base.job->network],
        rule_optimizer_names[b->base.job->optimizer]);
    Table t = TABLE(NULL, WHOLE("batch"), WHOLE("updates"), WORDS("rule", 19), DIGITS("last lr", 3),
                    DIGITS("sum of lr", 3), FIXED("accuracy", 3), FIXED("lowest", 3),
                    FIXED("highest", 3), WORDS("kept", 13));
    add_cell(&t, &b->base, "(all the same)", "");
    for (int i = 0; i < times; i++)
        for (int rule = 0; rule < NUM_LR_RULES; rule++) {
            const Cell *c = &b->cells[i][rule];
            bool kept = keeps(b->base.accuracy, c->accuracy, NUM_SEEDS);
            add_cell(&t, c, lr_rule_names[rule], kept ? "yes" : "");
        }
    for (int i = 0; i < times; i++) print_pairs(b->cells[i]);
}

static void write_cell(FILE *csv, const Cell *c, const char *rule) {
    fprintf(csv, "%s,%s,%s,%d,%d,%d,%.4f,%.4f,%.4f,%.6g,%.6g\n",
            rule_network_titles[c->job->network], rule_optimizer_names[c->job->optimizer], rule,
            c->job->times, c->job->times * c->job->base_batch, c->diverged, c->summary.mean,
            c->summary.low, c->summary.high, c->last_lr, c->lr_sum);
}

static void write_block(FILE *csv, const Block *b, int times) {
    write_cell(csv, &b->base, "base");
    for (int i = 0; i < times; i++) {
        for (int rule = 0; rule < NUM_LR_RULES; rule++)
            write_cell(csv, &b->cells[i][rule], lr_rule_names[rule]);
        const RuleJob *job = b->cells[i][0].job;
        for (int s = 0; s < NUM_SEEDS; s++)
            fprintf(csv, "%s,%s,pair %d,%d,%d,0,%.4f,,,,\n", rule_network_titles[job->network],
                    rule_optimizer_names[job->optimizer], s + 1, job->times,
                    job->times * job->base_batch, pair_of(b->cells[i], s));
    }
}

// ## The experiment

static void experiment(const Flags *flags, FILE *csv) {
    static Trainings t;
    static Block blocks[NUM_RULE_OPTIMIZERS][MOST_NETWORKS];
    const char *why;
    t = list_trainings(flags->full, flags->train_size, flags->test_size);
    say("Question: linear rule or square root, and for which optimizer?");
    say("%d trainings: the narrow ResNet-18%s, gradient descent and Adam, the base batch and x4%s, "
        "%d seeds; dealt out to ranks.",
        t.n, t.full ? " and LeNet" : "", t.full ? " and x16" : "", NUM_SEEDS);
    fprintf(csv, "network,optimizer,rule,times,batch,diverged,mean,low,high,lr,lr_sum\n");
    Prediction wins = predict_first("The narrow ResNet-18, four times the batch, Adam, six seeds: "
                                    "with how many of them will the square root be better than the "
                                    "linear rule?");
    run_trainings(&t, flags->data, &why);
    if (interrupted()) return;
    if (why) say("Left out: ranks; this process did all, one after the other: %s.", why);
    for (int o = 0; o < NUM_RULE_OPTIMIZERS; o++)
        for (int n = 0; n < num_networks(&t); n++) {
            blocks[o][n] = block_of(&t, (RuleOptimizer)o, job_networks[n]);
            print_block(&blocks[o][n], num_times(&t));
            write_block(csv, &blocks[o][n], num_times(&t));
        }
    int root_won = 0;
    for (int s = 0; s < NUM_SEEDS; s++) root_won += pair_of(blocks[RULES_ADAM][0].cells[0], s) < 0;
    predict_compare(wins, root_won, "");
}

// The smallest that fills a batch of 16 times the base batch's images.
static void prepare(const Flags *flags) {
    if (flags->train_size < 128)
        die_usage("--train-size 128 or more", "%d images do not fill the largest batch",
                  flags->train_size);
}

int main(int argc, char *argv[]) {
    const char *name = case_of(argc, argv);
    Flags defaults = default_flags;
    defaults.train_size = 1024;
    defaults.test_size = 1000; // to save time; all rules have the same ones
    defaults.quick_means = "--train-size 512 --test-size 500";
    if (name) return train_as_rank(name);
    return exercise_main(
        argc, argv,
        &(Exercise){.about =
                        "Exercise 4: linear rule or square root: for which optimizer?\nStarted "
                        "by hand, it starts ranks of its own that train.",
                    .flags = "full train-size test-size -machine",
                    .defaults = defaults,
                    .prepare = prepare,
                    .parts = check_parts,
                    .passed = "rules are the chapter's, and judgements go seed by seed",
                    .experiment = experiment,
                    .plot = "exercise_optimizers.gp"});
}
