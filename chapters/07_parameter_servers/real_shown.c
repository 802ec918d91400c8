// real_shown.c: see real_shown.h.
#include "real_shown.h"

#include "common/base/error.h"
#include "common/program/interrupt.h"
#include "common/program/say.h"
#include "disciplines.h"
#include "real.h"
#include "scaled_start.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// ---- every push once, and whole ----------------------------------------------------------------

enum { ONES = 16 }; // steps of each worker

// Each push takes 1/1024 from every parameter, which floats have room for: so a number that is not
// the number of pushes over 1024 has been given a push twice, or not at all.
static void check_ones(const PsLesson *lesson) {
    PsLesson l = *lesson;
    RealOptions options = {.clocks = ONES, .dies = -1, .timeout = 10, .ones = true};
    long wrong = 0;
    l.lr = (float)l.batch_size / 1024;
    l.test_data = NULL;
    RealResult r = real_run(&l, &options);
    for (size_t i = 0; i < lenet_floats(); i++) wrong += r.params[i] != -(float)r.pushes / 1024;
    if (!interrupted()) {
        say("  With gradients that are all 1, %ld pushes: %ld of %zu parameters differ from what "
            "these make, each applied once; %ld of %ld pulls were torn (had half an update).",
            r.pushes, wrong, lenet_floats(), r.torn, r.pushes * l.S);
        CHECK(wrong == 0 && r.torn == 0 && r.pushes == (long)ONES * l.W,
              "every push is applied once, and as a whole");
    }
    real_result_free(&r);
}

// ---- a training --------------------------------------------------------------------------------

static PsResult modelled_training(const PsLesson *lesson, const Pace *pace, long clocks) {
    PsLesson l = *lesson;
    l.points = 1;
    Schedule s = schedule_make(pace, (Discipline){NO_BOUND, 0}, clocks);
    PsResult r = train_in_one_way(&l, &s);
    schedule_free(&s);
    return r;
}

static RealResult real_training(const PsLesson *lesson, const Pace *pace, long clocks) {
    PsLesson l = *lesson;
    RealOptions options = {
        .clocks = clocks, .slow = pace->slow, .dies = pace->dies, .at = pace->at, .timeout = 2};
    float *start = scaled_start(l.seed);
    l.start = start;
    RealResult r = real_run(&l, &options);
    free(start);
    return r;
}

static void say_lost(const RealResult *r, const Pace *pace) {
    if (r->lost_worker < 0 && pace->dies >= 0)
        say("  Worker %d never came to its step %d: nobody died.", pace->dies, pace->at);
    if (r->lost_worker < 0) return;
    if (pace->W == 1)
        die("--workers 2, say", "worker 0 has not pushed for %.1f s, and there are no others",
            r->noticed);
    say("  Worker %d has not pushed for %.1f s and was given up; the others went on.",
        r->lost_worker, r->noticed);
}

static void explain(const PsResult *modelled, const RealResult *real, int W) {
    if (W == 1 || real->most_staleness <= modelled->most_staleness) return;
    say("  N-1 is %d, and the means are %.2f and %.2f. But the most stale of the real pushes "
        "missed %ld others, of the modelled ones %ld: real workers share this computer's cores, "
        "and whoever waits for one between its pull and its push misses all that the others push "
        "meanwhile. Modelled ones have a machine each. The accuracies are of one training each, "
        "from one --seed.",
        W - 1, modelled->mean_staleness, real->mean_staleness, real->most_staleness,
        modelled->most_staleness);
}

void show_real(const PsLesson *lesson, const Pace *pace, long clocks) {
    check_ones(lesson);
    PsResult modelled = modelled_training(lesson, pace, clocks);
    RealResult real = real_training(lesson, pace, clocks);
    printf("\n  asynchronous   pushes   staleness    test accuracy         s\n"
           "                          mean, max\n");
    printf("  modelled      %7ld %7.2f, %3ld %16.4f %9.3g (modelled)\n", modelled.applied,
           modelled.mean_staleness, modelled.most_staleness, last_accuracy(&modelled),
           modelled.seconds);
    printf("  for real      %7ld %7.2f, %3ld %16.4f %9.3g (measured)\n", real.pushes,
           real.mean_staleness, real.most_staleness, real.accuracy, real.seconds);
    long sum = 0;
    for (int s = 0; s < lesson->S; s++) sum += real.applied[s];
    say("  For real: %ld pushes, each applied at %d server%s: %ld in all.", real.pushes, lesson->S,
        lesson->S > 1 ? "s" : "", sum);
    if (!interrupted()) {
        say_lost(&real, pace);
        explain(&modelled, &real, lesson->W);
    }
    real_result_free(&real);
    ps_result_free(&modelled);
}
