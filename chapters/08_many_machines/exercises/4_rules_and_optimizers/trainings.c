// trainings.c: see trainings.h.
#include "trainings.h"

#include "common/base/cores.h"
#include "common/base/error.h"
#include "common/comm/process_group.h"
#include "common/program/interrupt.h"
#include "chapters/08_many_machines/exercises/start_ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ## The list

// Fewer test images than there are, to save time: all rules have the same ones.
enum { TEST_IMAGES = 1000, DEADLINE = 1800 };

Trainings list_trainings(bool full) {
    Trainings t = {.full = full};
    for (int o = 0; o < NUM_RULE_OPTIMIZERS; o++)
        for (uint64_t seed = 1; seed <= NUM_SEEDS; seed += 3) { // three at a time
            RuleJob jobs[MOST_RULE_JOBS];
            int n = rule_jobs((RuleOptimizer)o, false, seed, jobs);
            for (int j = 0; j < n; j++)
                if (full || (jobs[j].times <= 4 && jobs[j].network == RULES_NARROW))
                    t.jobs[t.n++] = jobs[j];
        }
    return t;
}

int accuracies(const Trainings *t, RuleOptimizer optimizer, RuleNetwork network, LrRule rule,
               int times, double accuracy[NUM_SEEDS]) {
    int n = 0, first = 0;
    for (int j = 0; j < t->n && n < NUM_SEEDS; j++) {
        const RuleJob *job = &t->jobs[j];
        if (job->optimizer != optimizer || job->network != network || job->times != times) continue;
        if (times > 1 && job->rule != rule) continue;
        if (n == 0) first = j;
        accuracy[n++] = t->results[j].diverged != 0 ? NAN : t->results[j].accuracy;
    }
    CHECK(n == NUM_SEEDS, "each rule has all seeds");
    return first;
}

// ## In one process

typedef struct Images {
    Dataset *train, *test;
} Images;

static Images images_open(const Trainings *t, const char *data) {
    return (Images){fashion_mnist_open(data, true, rule_images(t->jobs, t->n)),
                    fashion_mnist_open(data, false, TEST_IMAGES)};
}

static void images_free(Images images) {
    dataset_free(images.train);
    dataset_free(images.test);
}

static void run_alone(Trainings *t, const char *data) {
    Images images = images_open(t, data);
    for (int j = 0; j < t->n && !interrupted(); j++)
        t->results[j] = run_rule_job(&t->jobs[j], try_gpu(0), images.train, images.test);
    images_free(images);
}

// ## As ranks
//
// Job j is done by rank j modulo W, and rank 0 says all results: the job's number and its doubles.
// Where the images are, the ranks read from the environment.

static const char *const case_names[] = {"quick", "full"};

int train_as_rank(const char *case_name) {
    Trainings t = list_trainings(strcmp(case_name, case_names[1]) == 0);
    set_program_name("training");
    devices_init(BACKEND_CPU, 0);
    dist_before_flags();
    dist_init_process_group((DistOptions){.devices = 1, .threads = 1, .timeout = DEADLINE});
    Images images = images_open(&t, NULL);
    deal_rule_jobs(t.jobs, t.results, t.n, images.train, images.test);
    const double *results = (const double *)t.results;
    for (int i = 0; i < t.n * RULE_RESULT_DOUBLES && dist_get_rank() == 0; i++)
        printf("result %d %.17g\n", i, results[i]);
    dist_destroy_process_group();
    images_free(images);
    devices_close();
    return EXIT_SUCCESS;
}

static bool run_ranks(Trainings *t, const char *data) {
    static char said[1 << 18];
    static double results[MOST_JOBS * RULE_RESULT_DOUBLES];
    int ranks = num_cores() < 8 ? num_cores() : 8, i, found = 0;
    double value;
    if (data) setenv("FASHION_MNIST_DIR", data, 1);
    if (run_as_ranks(ranks, case_names[t->full], said, sizeof said, DEADLINE) != 0) {
        fprintf(stderr, "%s", said);
        return false;
    }
    for (char *line = strtok(said, "\n"); line; line = strtok(NULL, "\n"))
        if (sscanf(line, "result %d %lf", &i, &value) == 2 && i == found &&
            i < t->n * RULE_RESULT_DOUBLES)
            results[found++] = value;
    memcpy(t->results, results, sizeof *t->results * (size_t)t->n);
    return found == t->n * RULE_RESULT_DOUBLES;
}

void run_trainings(Trainings *t, const char *data, const char **why) {
    *why = NULL;
    if (!dist_is_mpi_available() || system("command -v mpirun >/dev/null 2>&1") != 0)
        *why = "there is no MPI to start ranks with (make setup installs it)";
    else if (!run_ranks(t, data))
        *why = "the ranks did not come to an end";
    if (*why) run_alone(t, data);
}
