// comparison.c: what there is to say about the book's two runs, with their own figures.
#include "comparison.h"

#include "common/device/modelled_clock.h"
#include "common/program/say.h"

#include <stdio.h>
#include <string.h>

static const double LEARNED = 0.2;

static void compare_accuracy(const Run *one, const Run *two) {
    say("  Accuracy: %.3f on 1 device with minibatches of %d, %.3f on %d with minibatches of %d "
        "and twice the learning rate: half as many updates, each at twice the rate.",
        one->t.test_acc, one->batch_size, two->t.test_acc, two->t.k, two->batch_size);
    if (one->t.test_acc < LEARNED || two->t.test_acc < LEARNED)
        say("    But 0.1 is guessing: %s learned nothing yet, or cannot show it (see "
            "--experiment), so this compares no trainings.",
            one->t.test_acc >= LEARNED || two->t.test_acc >= LEARNED ? "one of them has"
                                                                     : "they have");
}

static void compare_steps(const Run *one, const Run *two) {
    if (one->t.batches == 0) return; // before --resume, and nobody counted
    say("    A step took %.2g s on 1 device, with %d images, and %.2g s on %d, with %d.",
        one->t.sec_per_epoch / one->t.batches, one->batch_size,
        two->t.sec_per_epoch / two->t.batches, two->t.k, two->batch_size);
}

static void explain_where_they_run(int k) {
    if (num_gpus() >= k) return;
    if (num_gpus() > 0)
        say("    The devices are queues on the same GPU.");
    else if (num_threads() < k)
        say("    Each device is a worker of one thread, so %d may use more cores than 1.", k);
    else
        say("    The devices share the same %d cores. What makes the difference this run does not "
            "measure. Likely it is waiting: cores of one device wait for each other after each "
            "piece of work, devices only for the exchange. That costs most while other programs "
            "use the cores, too.",
            num_threads());
}

// Measured times say something of this computer, modelled ones of another machine.
static void compare_measured(const Run *one, const Run *two) {
    if (!(one->t.sec_per_epoch > 0 && two->t.sec_per_epoch > 0)) return;
    say("  Time, measured: an epoch on %d devices took %.2f times as long as on 1.", two->t.k,
        two->t.sec_per_epoch / one->t.sec_per_epoch);
    compare_steps(one, two);
    explain_where_they_run(two->t.k);
}

static void compare_modelled(const Training *one, const Training *two) {
    // (Of a run before --resume it is not known.)
    if (one->modelled_sec_per_epoch > 0 && two->modelled_sec_per_epoch > 0)
        say("  Time, modelled: on %s, %d devices would take %.2f times as long for it as 1.",
            modelled_machine()->name, two->k,
            two->modelled_sec_per_epoch / one->modelled_sec_per_epoch);
}

void compare_runs(const Run *one, const Run *two, const char *bn) {
    bool values = !one->t.no_values;
    say("\nWhat the comparison shows");
    if (values) compare_accuracy(one, two);
    if (values) compare_measured(one, two);
    compare_modelled(&one->t, &two->t);
    say("  Bytes: each step moved %llu bytes between the devices, as the formulas say.",
        (unsigned long long)two->bytes_per_step);
    say("  Batch norm: in training each device used mean and variance of its own shard%s. The "
        "statistics that the network is evaluated with: %s. (--bn local|rank0|averaged|sync; the "
        "book's PyTorch runs keep those of device 0 only, and ended with 0.44 to 0.91 on 2 GPUs; "
        "--experiment looks for the reason.)",
        strcmp(bn, "sync") == 0 ? "s together" : "", bn);
    printf("\n");
}
