// comparison.c: what there is to say about the book's two runs, with their own figures.
#include "comparison.h"

#include "common/base/number.h"
#include "common/model/modelled_clock.h"
#include "common/program/say.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double LEARNED = 0.2;

static void compare_accuracy(const Run *one, const Run *two) {
    say("Accuracy: %.3f on 1 device with minibatches of %d, %.3f on %d with minibatches of %d "
        "and twice the learning rate: half as many updates, each at twice the rate.",
        one->t.test_acc, one->batch_size, two->t.test_acc, two->t.k, two->batch_size);
    if (one->t.test_acc < LEARNED || two->t.test_acc < LEARNED)
        say("  But 0.1 is guessing: %s learned nothing yet, or cannot show it (see "
            "--experiment), so this compares no trainings.",
            one->t.test_acc >= LEARNED || two->t.test_acc >= LEARNED ? "one of them has"
                                                                     : "they have");
}

static void compare_steps(const Run *one, const Run *two) {
    say("  A step took %.2g s on 1 device, with %d images, and %.2g s on %d, with %d.",
        one->t.sec_per_epoch / one->t.batches, one->batch_size,
        two->t.sec_per_epoch / two->t.batches, two->t.k, two->batch_size);
}

static void compare_modelled(const Training *one, const Training *two) {
    // (Of a run before --resume it is not known.)
    if (one->modelled_sec_per_epoch > 0 && two->modelled_sec_per_epoch > 0)
        say("Time, modelled: on %s, %d devices would take %.2f times as long for it as 1.",
            modelled_machine()->name, two->k,
            two->modelled_sec_per_epoch / one->modelled_sec_per_epoch);
}

void compare_runs(const Run *one, const Run *two, const char *bn) {
    bool values = !one->t.no_values;
    say("\nWhat the comparison shows");
    if (values) compare_accuracy(one, two);
    if (values && !isnan(compare_epochs(&one->t, &two->t))) compare_steps(one, two);
    compare_modelled(&one->t, &two->t);
    say("Bytes: each step moved %s bytes between the devices, as the formulas say.",
        grouped(two->bytes_per_step).text);
    say("Batch norm: in training each device used mean and variance of its own shard%s. The "
        "statistics that the network is evaluated with: %s. (--bn local|rank0|averaged|sync; the "
        "book's PyTorch runs keep those of device 0 only, and ended with 0.44 to 0.91 on 2 GPUs; "
        "--experiment looks for the reason.)",
        strcmp(bn, "sync") == 0 ? "s together" : "", bn);
    printf("\n");
}
