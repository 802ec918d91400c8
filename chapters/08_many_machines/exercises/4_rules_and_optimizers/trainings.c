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

enum { DEADLINE = 1800 };

Trainings list_trainings(bool full, int train_images, int test_images) {
    Trainings t = {.full = full, .train_images = train_images, .test_images = test_images};
    for (int o = 0; o < NUM_RULE_OPTIMIZERS; o++)
        for (uint64_t seed = 1; seed <= NUM_SEEDS; seed += MOST_JOB_SEEDS) {
            RuleJob jobs[MOST_RULE_JOBS];
            int n = rule_jobs((RuleOptimizer)o, false, seed, MOST_JOB_SEEDS, jobs);
            for (int j = 0; j < n; j++) {
                bool narrow = jobs[j].network == RULES_NARROW;
                jobs[j].images = narrow ? train_images : 2 * train_images;
                if (full || (jobs[j].times <= 4 && narrow)) t.jobs[t.n++] = jobs[j];
            }
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
                    fashion_mnist_open(data, false, t->test_images)};
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
// Where the images are, the ranks read from the environment; which trainings there are, from the
// name of their case: "full 0, 1024 training and 1000 test images".

#define CASE "full %d, %d training and %d test images"

int train_as_rank(const char *case_name) {
    int full, train_images, test_images;
    int found = sscanf(case_name, CASE, &full, &train_images, &test_images);
    CHECK(found == 3, "run_ranks() has named the case");
    Trainings t = list_trainings(full, train_images, test_images);
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
    char *name = xprintf(CASE, t->full, t->train_images, t->test_images);
    int status = run_as_ranks(ranks, name, said, sizeof said, DEADLINE);
    free(name);
    if (status != 0) {
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
