// main.c: the story of chapter 8. README.md says how to run it and what to read.
#include "common/book.h"
#include "common/program/say.h"
#include "accumulate.h"
#include "behind/behind.h"

static Flags flags;
static Dataset *train_data, *test_data;
static RankLesson lesson;

static void check_equal_parameters(const RankResult *r) {
    double mine = r->checksum, *all = xmalloc(sizeof *all * (size_t)dist_get_world_size());
    dist_gather(NULL, &mine, 1, all);
    for (int k = 1; k < dist_get_world_size(); k++)
        CHECK(all[k] == all[0], "all ranks have the same parameters, to the bit");
    free(all);
}

// Returns whether it came to its end.
static bool train(void) {
    int W = dist_get_world_size();
    say("\n%s on %d rank%s, %d images on each in a step; learning rate %g for one, %.3g for all "
        "(rule: %s); gradients travel in %s, summed by '%s'",
        lesson.network->title, W, W == 1 ? "" : "s", lesson.rows, (double)lesson.lr,
        rule_lr(lesson.rule, (double)lesson.lr, W, 1, 1), lr_rule_names[lesson.rule],
        rank_flags.exchange, dist_chosen_all_reduce());
    RankResult r = train_on_ranks(&lesson);
    check_equal_parameters(&r);
    if (r.stopped) {
        say("  stopped after %ld steps, on all ranks", r.steps);
        if (flags.checkpoint && r.epochs > 0)
            say("  --resume %s continues after epoch %d", flags.checkpoint, r.epochs);
        return false;
    }
    printf("  %ld steps; parameters %08x on all %d rank%s\n", r.steps, r.checksum, W,
           W == 1 ? "" : "s");
    book_result("%d rank%s with the same parameters: test acc %.2f", W, W == 1 ? "" : "s",
                r.test_acc);
    return true;
}

static void show_one_rank(void) {}

static void compare_rules(void) {
    RuleJob jobs[MOST_RULE_JOBS];
    RuleResult results[MOST_RULE_JOBS];
    int n = rule_jobs(RULES_SGD, flags.seed, rank_flags.seeds, train_data->count / 4, jobs);
    int most = jobs[n - 1].base_batch * jobs[n - 1].times;
    if (jobs[0].images < most) {
        say("\n(No learning rates: these trainings take at least %d images.)", 4 * most);
        return;
    }
    dist_wait_patiently(true);
    deal_rule_jobs(jobs, results, n, train_data, test_data);
    dist_wait_patiently(false);
    say("\nLeNet, %d epochs of %d images, seeds: %d", jobs[0].epochs, jobs[0].images,
        rank_flags.seeds);
    if (dist_get_rank() == 0) show_rule_results(jobs, results, n);
    Device *device = dist_device();
    share_cores(&device, 1);
}

static void prepare_outputs(void) {
    if (dist_get_rank() > 0) {
        book_another_writes();
        return;
    }
    if (!rank_flags.train) {
        book_csv("_scaling.csv");
        book_csv("_lr_rules.csv");
        book_output("_lr_rules.png");
    }
    book_check_outputs();
}

int main(int argc, char *argv[]) {
    dist_before_flags();
    flags = read_rank_flags(argc, argv);
    if (flags.backend == BACKEND_MODEL) {
        book_csv("_scaling.csv");
        book_check_outputs();
        show_scaling();
        return book_end();
    }
    dist_init_process_group((DistOptions){.timeout = (double)rank_flags.timeout,
                                          .threads = flags.threads,
                                          .ranks_per_host = rank_flags.ranks_per_host});
    choose_collective();
    train_data = fashion_mnist_open(flags.data, true, flags.train_size);
    test_data = fashion_mnist_open(flags.data, false, flags.test_size);
    prepare_outputs();
    ranks_must_agree(&flags, train_data, test_data);
    char *settings = rank_settings(&flags, train_data, test_data);
    lesson = rank_lesson(&flags, train_data, test_data, settings);
    dist_print_ranks();
    if (!rank_flags.train) show_collectives();
    if (rank_flags.train) finish_on_interrupt(); // there may be something to keep
    if (train() && !rank_flags.train) {
        show_exchanges(&lesson);
        compare_rules();
        show_one_rank();
        if (dist_get_rank() == 0) show_scaling();
    }
    dist_destroy_process_group();
    free(settings);
    dataset_free(train_data);
    dataset_free(test_data);
    return book_end();
}
