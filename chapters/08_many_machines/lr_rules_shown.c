// lr_rules_shown.c: the trainings of lr_rules.c, in a table, in words and in a picture.
#include "lr_rules.h"

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/statistics.h"
#include "common/program/book.h"
#include "common/program/plot.h"
#include "common/program/say.h"
#include "common/program/table.h"

#include <math.h>

// ## What is known of a rule
//
// The same training from several seeds: the mean, and the range from the lowest to the highest.

enum { MOST_RULE_SEEDS = 16 };
typedef struct RuleCell {
    const RuleJob *job; // the first of them
    LrRule rule;
    int n, diverged;
    double accuracy[MOST_RULE_SEEDS]; // in the order of the seeds
    double mean, low, high;
    double updates, last_lr, lr_sum;
} RuleCell;

static void add_to_cell(RuleCell *c, const RuleJob *job, const RuleResult *r) {
    CHECK(c->n < MOST_RULE_SEEDS, "room for a rule's seeds");
    if (c->n == 0) c->job = job;
    c->accuracy[c->n] = r->accuracy;
    c->diverged += r->diverged != 0;
    c->n++;
    c->mean = mean(c->accuracy, c->n);
    c->low = minimum(c->accuracy, c->n);
    c->high = maximum(c->accuracy, c->n);
    if (r->diverged && c->n > 1) return; // it made fewer updates than the others
    c->updates = r->updates;
    c->last_lr = r->last_lr;
    c->lr_sum = r->lr_sum;
}

// With the base batch there is one training for all rules.
static RuleCell rule_cell(const RuleJob jobs[], const RuleResult results[], int n,
                          RuleNetwork network, LrRule rule, int times) {
    RuleCell c = {.rule = rule};
    for (int j = 0; j < n; j++)
        if (jobs[j].network == network && jobs[j].times == times &&
            (times == 1 || jobs[j].rule == rule))
            add_to_cell(&c, &jobs[j], &results[j]);
    return c;
}

enum { NUM_RULE_TIMES = 3 };
static const int rule_times[NUM_RULE_TIMES] = {1, 4, 16};

typedef struct RuleGrid {
    RuleCell cells[NUM_RULE_TIMES][NUM_LR_RULES];
} RuleGrid;

// Returns whether there are trainings of that network.
static bool rule_grid(const RuleJob jobs[], const RuleResult results[], int n, RuleNetwork network,
                      RuleGrid *g) {
    bool whole = true;
    for (int t = 0; t < NUM_RULE_TIMES; t++)
        for (int rule = 0; rule < NUM_LR_RULES; rule++) {
            g->cells[t][rule] = rule_cell(jobs, results, n, network, (LrRule)rule, rule_times[t]);
            whole = whole && g->cells[t][rule].n > 0;
        }
    return whole;
}

// ## A table

static void add_cell(Table *t, const RuleCell *c, const char *rule) {
    table_numbers(t, c->job->times * c->job->base_batch, c->updates);
    table_text(t, "%s", rule);
    table_numbers(t, c->last_lr, c->lr_sum, c->mean, c->low, c->high, c->diverged);
}

static void print_rule_table(const RuleGrid *g) {
    const RuleJob *job = g->cells[0][0].job;
    int seeds = g->cells[0][0].n;
    say("\n%s, %s: %d epoch%s of %d images, %d seed%s", rule_network_titles[job->network],
        rule_optimizer_names[job->optimizer], job->epochs, job->epochs > 1 ? "s" : "", job->images,
        seeds, seeds > 1 ? "s" : "");
    Table t = TABLE(NULL, WHOLE("batch"), WHOLE("updates"), WORDS("rule", 19), DIGITS("last lr", 3),
                    DIGITS("sum of lr", 3), FIXED("accuracy", 3), FIXED("lowest", 3),
                    FIXED("highest", 3), WHOLE("diverged"));
    add_cell(&t, &g->cells[0][0], "(all the same)");
    for (int i = 1; i < NUM_RULE_TIMES; i++)
        for (int rule = 0; rule < NUM_LR_RULES; rule++)
            add_cell(&t, &g->cells[i][rule], lr_rule_names[rule]);
}

// ## What it says

static const RuleCell *best_rule(const RuleCell cells[NUM_LR_RULES]) {
    const RuleCell *best = &cells[0];
    for (int rule = 1; rule < NUM_LR_RULES; rule++)
        if (cells[rule].mean > best->mean) best = &cells[rule];
    return best;
}

// With one seed two rules have the same start and the same images: so many times a is above b.
static int seeds_won(const RuleCell *a, const RuleCell *b) {
    int won = 0;
    for (int s = 0; s < a->n; s++) won += a->accuracy[s] > b->accuracy[s];
    return won;
}

static void explain_best(const RuleCell *best, const RuleCell *base) {
    const char *name = lr_rule_names[best->rule];
    if (base->n == 1) // one seed has no range
        say("    The best of all is \"%s\" with %.3f. The base batch has %.3f.", name, best->mean,
            base->mean);
    else if (best->high < base->low)
        say("    The best of all is \"%s\" with %.3f. The base batch has %.3f: even its worst seed "
            "(%.3f) is above this rule's best (%.3f).",
            name, best->mean, base->mean, base->low, best->high);
    else
        say("    The best of all is \"%s\" with %.3f. The base batch has %.3f%s", name, best->mean,
            base->mean,
            best->low <= base->high ? ", and the seeds' ranges overlap."
                                    : ": less than this rule, with each seed.");
}

// Fewer updates than these are no training by which to judge a rule.
enum { LEAST_UPDATES = 16 };

static void explain_batch(const RuleCell cells[NUM_LR_RULES], const RuleCell *base) {
    if (cells[0].updates < LEAST_UPDATES) {
        say("  - Batch x%d: %.0f updates instead of %.0f. So few say nothing of a rule.",
            cells[0].job->times, cells[0].updates, base->updates);
        return;
    }
    const RuleCell *best = best_rule(cells), *root = &cells[RULE_SQRT], *line = &cells[RULE_LINEAR];
    const RuleCell *won = line->mean > root->mean ? line : root, *lost = won == line ? root : line;
    say("  - Batch x%d: %.0f updates instead of %.0f. Without a rule %.3f, square root %.3f, "
        "linear %.3f.",
        cells[0].job->times, cells[0].updates, base->updates, cells[0].mean, root->mean,
        line->mean);
    if (won->mean > lost->mean)
        say("    In the mean \"%s\" is the better of these two; seed by seed it is better %d times "
            "of %d.",
            lr_rule_names[won->rule], seeds_won(won, lost), won->n);
    else
        say("    In the mean these two are equal.");
    explain_best(best, base);
}

// It begins with small rates, so their sum is smaller than the linear rule's: see explain_sums().
static void explain_warm_up(const RuleGrid *g) {
    say("  - Warm-up, over the first quarter of the updates:");
    for (int t = 1; t < NUM_RULE_TIMES; t++) {
        const RuleCell *warm = &g->cells[t][RULE_WARM_UP], *line = &g->cells[t][RULE_LINEAR];
        if (line->updates < LEAST_UPDATES) continue;
        bool is_shorter = warm->lr_sum < line->lr_sum && !line->diverged && !warm->diverged;
        say("    x%d: %.3f with it and %.3f without, better with %d of %d seeds. The sum of all "
            "learning rates is %.3g with it and %.3g without%s",
            warm->job->times, warm->mean, line->mean, seeds_won(warm, line), warm->n, warm->lr_sum,
            line->lr_sum,
            !is_shorter               ? "."
            : warm->mean < line->mean ? ": that it gets less far may be all that it loses by."
                                      : ": it gets less far, and does not lose by it.");
    }
}

static void explain_network(const RuleGrid *g) {
    const RuleCell *base = &g->cells[0][0];
    say("\n  %s", rule_network_titles[base->job->network]);
    for (int t = 1; t < NUM_RULE_TIMES; t++) explain_batch(g->cells[t], base);
    explain_warm_up(g);
}

// Why, for gradient descent: the linear rule keeps the sum of all learning rates.
static void explain_sums(const RuleGrid *g) {
    const RuleCell *base = &g->cells[0][0], *last = g->cells[NUM_RULE_TIMES - 1];
    say("\n  Why? The sum of all learning rates is how far the updates go if the gradients stay as "
        "they are: %.3g with the base batch of %s. With 16 times the batch it is %.3g without a "
        "rule, %.3g with the square root, with the linear rule the same again, and %.3g with its "
        "warm-up. So as long as steps are small, the linear rule ends where the base batch does, "
        "and the others end too early. But it takes steps with a rate of %.3g, and on such a long "
        "step the gradients need not stay as they are.",
        base->lr_sum, rule_network_titles[base->job->network], last[RULE_NONE].lr_sum,
        last[RULE_SQRT].lr_sum, last[RULE_WARM_UP].lr_sum, last[RULE_LINEAR].last_lr);
    if (last[RULE_LINEAR].high < base->low)
        say("  Here they do not: with x16 the linear rule's best seed, %.3f, is below the base "
            "batch's worst, %.3f.",
            last[RULE_LINEAR].high, base->low);
    say("  (With 8192 images, 90 epochs of ImageNet's 1281167 are %d updates. Here x16 leaves "
        "%.0f: what helped there, a long warm-up, has no room here.)",
        90 * 1281167 / 8192, last->updates);
}

static void explain_chance(const RuleGrid *g) {
    int n = g->cells[0][0].n;
    say("\n  (%d seed%s say%s little: if two rules were equally good, one would still be better "
        "with all of them in %.0f %% of such comparisons.)",
        n, n > 1 ? "s" : "", n > 1 ? "" : "s", 100 * exp2(1 - n));
}

void print_rule_results(const RuleJob jobs[], const RuleResult results[], int n) {
    RuleGrid g;
    for (int network = 0; network < NUM_RULE_NETWORKS; network++)
        if (rule_grid(jobs, results, n, (RuleNetwork)network, &g)) print_rule_table(&g);
    for (int network = 0; network < NUM_RULE_NETWORKS; network++)
        if (rule_grid(jobs, results, n, (RuleNetwork)network, &g)) explain_network(&g);
    if (jobs[0].optimizer == RULES_SGD && rule_grid(jobs, results, n, jobs[0].network, &g))
        explain_sums(&g);
    if (rule_grid(jobs, results, n, jobs[0].network, &g)) explain_chance(&g);
}

// ## Files

void write_rule_results(FILE *csv, const RuleJob jobs[], const RuleResult results[], int n) {
    RuleGrid g;
    fprintf(csv,
            "network,optimizer,rule,times,batch,seeds,diverged,mean,low,high,updates,lr,lr_sum\n");
    for (int network = 0; network < NUM_RULE_NETWORKS; network++) {
        if (!rule_grid(jobs, results, n, (RuleNetwork)network, &g)) continue;
        for (int rule = 0; rule < NUM_LR_RULES; rule++)
            for (int t = 0; t < NUM_RULE_TIMES; t++) {
                const RuleCell *c = &g.cells[t][rule];
                fprintf(csv, "%s,%s,%s,%d,%d,%d,%d,%.4f,%.4f,%.4f,%.0f,%.6g,%.6g\n",
                        rule_network_titles[network], rule_optimizer_names[c->job->optimizer],
                        lr_rule_names[rule], c->job->times, c->job->times * c->job->base_batch,
                        c->n, c->diverged, c->mean, c->low, c->high, c->updates, c->last_lr,
                        c->lr_sum);
            }
    }
}

void show_rule_results(const RuleJob jobs[], const RuleResult results[], int n) {
    const char *csv = book_csv("_lr_rules.csv"), *png = book_output("_lr_rules.png");
    print_rule_results(jobs, results, n);
    OutputFile out = output_open(csv);
    write_rule_results(out.stream, jobs, results, n);
    output_close(&out);
    if (plot_draw(png, "lr_rules.gp", csv)) printf("\nrules: %s, figures: %s\n", png, csv);
}
