// experiment.c: two networks, by gradient descent and by Adam, with four times the batch: which
// rule for the learning rate keeps the accuracy? Three seeds each.
#include "common/base/error.h"
#include "common/program/exercise.h"
#include "common/program/interrupt.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "chapters/08_many_machines/exercises/start_ranks.h"
#include "your_part.h"

#include <string.h>

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

static void print_cell(const Cell *c, const char *name, const char *kept) {
    printf("  %5d %8.0f  %-19s %8.3g %8.3g   %.3f  (%.3f to %.3f)  %s\n",
           c->job->times * c->job->base_batch, c->first->updates, name, c->last_lr, c->lr_sum,
           c->summary.mean, c->summary.low, c->summary.high,
           c->diverged > 0 ? "some diverged" : kept);
}

static void print_block(const Block *b, int times) {
    printf("\n  %s, %s\n  batch  updates  rule                 last lr  sum of   test accuracy\n"
           "                                                all lr   mean   (lowest to highest)\n",
           rule_network_titles[b->base.job->network], rule_optimizer_names[b->base.job->optimizer]);
    print_cell(&b->base, "(all the same)", "");
    for (int i = 0; i < times; i++)
        for (int rule = 0; rule < NUM_LR_RULES; rule++) {
            const Cell *c = &b->cells[i][rule];
            bool kept = keeps(b->base.accuracy, c->accuracy, NUM_SEEDS);
            print_cell(c, lr_rule_names[rule], kept ? "kept" : "");
        }
}

static void write_cell(FILE *csv, const Cell *c, const char *rule) {
    fprintf(csv, "%s,%s,%s,%d,%d,%d,%.4f,%.4f,%.4f,%.6g,%.6g\n",
            rule_network_titles[c->job->network], rule_optimizer_names[c->job->optimizer], rule,
            c->job->times, c->job->times * c->job->base_batch, c->diverged, c->summary.mean,
            c->summary.low, c->summary.high, c->last_lr, c->lr_sum);
}

// Linear minus square root, seed by seed.
static double pair_of(const Cell cells[NUM_LR_RULES], int s) {
    return summary_of(&cells[RULE_LINEAR].accuracy[s], 1).mean -
           summary_of(&cells[RULE_SQRT].accuracy[s], 1).mean;
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

// ## What they say

// "square root", "linear"; or no rule
static const char *kept_by(const Block *b, int i) {
    static char text[96];
    int kept = 0;
    for (int rule = 0; rule < NUM_LR_RULES; rule++) {
        if (!keeps(b->base.accuracy, b->cells[i][rule].accuracy, NUM_SEEDS)) continue;
        size_t length = kept ? strlen(text) : 0;
        snprintf(text + length, sizeof text - length, "%s\"%s\"", kept++ ? ", " : "",
                 lr_rule_names[rule]);
    }
    return kept ? text : "no rule";
}

static Verdict verdict_of(const Cell cells[NUM_LR_RULES]) {
    return judge(cells[RULE_LINEAR].accuracy, cells[RULE_SQRT].accuracy, NUM_SEEDS);
}

static void explain_pairs(const Cell cells[NUM_LR_RULES]) {
    static const char *const verdicts[] = {"nobody knows which is better here",
                                           "the linear rule is better here",
                                           "the square root is better here"};
    double pairs[NUM_SEEDS];
    int won = 0;
    for (int s = 0; s < NUM_SEEDS; s++) won += (pairs[s] = pair_of(cells, s)) > 0;
    Summary d = summary_of(pairs, NUM_SEEDS);
    say("  Seed by seed, linear minus square root is %+.3f in the mean (%+.3f to %+.3f), and more "
        "than 0 %d times of %d: %s.",
        d.mean, d.low, d.high, won, NUM_SEEDS, verdicts[verdict_of(cells)]);
}

static void explain_block(const Block *b, int times) {
    for (int i = 0; i < times; i++) {
        const Cell *cells = b->cells[i];
        say("- %s, %s, batch x%d: without a rule %.3f, square root %.3f, linear %.3f, with warm-up "
            "%.3f; the base batch has %.3f. That is kept, as far as %d seeds can tell, by %s.",
            rule_optimizer_names[b->base.job->optimizer], rule_network_titles[b->base.job->network],
            times_of[i], cells[RULE_NONE].summary.mean, cells[RULE_SQRT].summary.mean,
            cells[RULE_LINEAR].summary.mean, cells[RULE_WARM_UP].summary.mean, b->base.summary.mean,
            NUM_SEEDS, kept_by(b, i));
        explain_pairs(cells);
    }
}

typedef struct Votes {
    int of[3]; // by verdict on the linear rule and the square root
} Votes;

static Votes votes_of(const Trainings *t, const Block blocks[MOST_NETWORKS]) {
    Votes v = {0};
    for (int n = 0; n < num_networks(t); n++)
        for (int i = 0; i < num_times(t); i++) v.of[verdict_of(blocks[n].cells[i])]++;
    return v;
}

static void explain_together(Votes descent, Votes adam, bool all) {
    bool linear = descent.of[A_IS_BETTER] > descent.of[B_IS_BETTER];
    bool root = adam.of[B_IS_BETTER] > adam.of[A_IS_BETTER];
    say("- Linear better, square root better, left open: %d, %d, %d for gradient descent; %d, %d, "
        "%d "
        "for Adam.",
        descent.of[A_IS_BETTER], descent.of[B_IS_BETTER], descent.of[NOBODY_KNOWS],
        adam.of[A_IS_BETTER], adam.of[B_IS_BETTER], adam.of[NOBODY_KNOWS]);
    if (linear && root)
        say("  So both are right here: the linear rule, as Goyal et al. have it, for gradient "
            "descent, and the text's square root for the text's Adam.%s",
            all ? ""
                : " But these are two comparisons, on one network and with x4: --full has "
                  "LeNet and x16, too, and what it says is less simple.");
    else
        say("  Theory has the linear rule for gradient descent and the square root for Adam. These "
            "figures do not show %s: trainings are short here, and a rate can be too large for "
            "other reasons.",
            linear || root ? "both" : "either");
}

static void explain_theory(void) {
    const double k = times_of[0];
    say("- Why? Gradient descent steps by lr times the mean gradient, however large the batch is. "
        "With %g times the batch there is one update where there were %g; %g lr goes as far. Adam "
        "divides by the gradient's usual size. As long as that is mostly noise, it is %g times "
        "smaller with such a batch, so Adam goes %g times as far by itself, and with %g lr %g "
        "times: that is enough. With %g lr it would be %g times. (Malladi et al., \"On the SDEs "
        "and "
        "scaling rules for adaptive gradient algorithms\", 2022.)",
        k, k, k, sqrt(k), sqrt(k), sqrt(k), k, k, k * sqrt(k));
}

static void explain_indifferent(const Block *b) {
    const Cell *cells = b->cells[0];
    double linear = cells[RULE_LINEAR].summary.mean, root = cells[RULE_SQRT].summary.mean;
    if (fabs(linear - root) < 0.02)
        say("  %s with Adam hardly cares which of the two it is: %.3f and %.3f.",
            rule_network_titles[b->base.job->network], root, linear);
}

static void explain_chance(int comparisons) {
    say("- What %d seeds do not tell: of two rules that are equally good, one is taken for better "
        "once in 20 comparisons; here are %d. Seeds say nothing of other networks and data. And "
        "base learning rates were tried out: where they are far from too large, any rule may do.",
        NUM_SEEDS, comparisons);
}

static void explain(const Trainings *t, Block blocks[NUM_RULE_OPTIMIZERS][MOST_NETWORKS]) {
    say("\nAnswer");
    for (int o = 0; o < NUM_RULE_OPTIMIZERS; o++)
        for (int n = 0; n < num_networks(t); n++) explain_block(&blocks[o][n], num_times(t));
    explain_together(votes_of(t, blocks[RULES_SGD]), votes_of(t, blocks[RULES_ADAM]), t->full);
    explain_theory();
    for (int n = 0; n < num_networks(t); n++) explain_indifferent(&blocks[RULES_ADAM][n]);
    explain_chance(NUM_RULE_OPTIMIZERS * num_networks(t) * num_times(t));
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
    explain(&t, blocks);
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
                    .flags = "full train-size test-size",
                    .defaults = defaults,
                    .prepare = prepare,
                    .parts = check_parts,
                    .passed = "rules are the chapter's, and judgements go seed by seed",
                    .experiment = experiment,
                    .plot = "exercise_optimizers.gp"});
}
