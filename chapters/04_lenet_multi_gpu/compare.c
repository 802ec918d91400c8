// compare.c: what there is to say about two runs. The book writes: "we see that the test accuracy
// obtained is basically the same ... unfortunately there is no meaningful speedup". Here is why.
#include "compare.h"

#include "common/base/number.h"
#include "common/model/modelled_clock.h"
#include "common/program/say.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// ## Is it the same training?
//
// Both runs take the same steps, so in exact arithmetic they would end with the same parameters.
// Computers round each sum, so the order of additions counts: it may change the last digits.

static double largest_difference(const Result *one, const Result *two) {
    double largest = 0;
    for (size_t i = 0; i < one->num_params; i++) {
        double difference = fabs((double)one->params[i] - (double)two->params[i]);
        if (!(difference <= largest)) largest = difference; // a NaN stays
    }
    return largest;
}

bool equal_to_the_bit(const Result *one, const Result *two) {
    return memcmp(one->params, two->params, one->num_params * sizeof(float)) == 0;
}

static void explain_accuracy(const Result *one, const Result *two) {
    static const double LEARNED = 0.2;
    say("  Accuracy: %.4f on 1 device, %.4f on %d.", one->t.test_acc, two->t.test_acc, two->t.k);
    if (one->t.test_acc < LEARNED && two->t.test_acc < LEARNED)
        say("    Nothing is learned yet: 0.1 is guessing, so these accuracies do not show that the "
            "runs are alike. The parameters can be compared all the same. (Take more --epochs, "
            "--steps or images.)");
    say("    Both runs take the same steps: the gradients of the shards add up to the gradient of "
        "the whole minibatch.");
    if (!equal_to_the_bit(one, two)) {
        say("    The parameters differ by up to %.2g. That comes from the order in which numbers "
            "are added, at first in the seventh digit; training makes such differences grow, most "
            "while the loss falls steeply, so the curves may part a little, and come together "
            "again.",
            largest_difference(one, two));
        return;
    }
    say("    The parameters of both runs, %zu numbers, were compared: they are equal to the bit.",
        one->num_params);
    if (num_gpus() == 0)
        say("    Why even the last bit? A CPU device sums the images of a minibatch as a tree: 16 "
            "images one by one, then these sums in pairs. Two devices with as many whole sixteens "
            "each (and not more than 256 images together) compute the two halves of that tree, "
            "and the exchange adds the halves: the order of additions is the same.");
}

// ## Is it faster?
//
// What there is to gain depends on whether a second device brings cores, or a GPU, of its own.
// CPU devices that share the cores do the same arithmetic on the same cores, so about 1 is to be
// expected, and what else the machine does decides on which side of it a run ends. With
// `--threads-per-device` a second device brings cores of its own, as a second GPU would: 0.5 at
// best, less the exchange of gradients. Two GPUs have half the images each, but LeNet is so small
// that starting kernels and exchanging gradients may take longer than the arithmetic that is saved.
// Two queues on one GPU add only the exchange. A difference that is smaller than that between the
// epochs of one run says nothing, and then nothing is said (`compare_epochs()`).

static void explain_modelled_time(const Result *one, const Result *two) {
    if (!modelled_machine()) return;
    say("  Time, modelled: on %d devices of %s an epoch takes %.2f times as long as on 1.",
        two->t.k, modelled_machine()->name,
        two->t.modelled_sec_per_epoch / one->t.modelled_sec_per_epoch);
}

uint64_t bytes_per_step(const Result *r) {
    uint64_t sent = 0;
    for (int i = 0; i < r->t.k; i++)
        sent += allreduce_bytes(chosen_allreduce(), r->num_params, r->t.k, i).sent;
    return sent;
}

static void explain_bytes(const Result *r) {
    say("  Bytes: each step moved %s bytes between the devices, counted.\n"
        "    The formula of an allreduce (%s), 2 (k-1) times the %s bytes of the gradients, says "
        "%s.",
        grouped(r->bytes_between / (uint64_t)r->t.steps).text, chosen_allreduce()->name,
        grouped(r->num_params * sizeof(float)).text, grouped(bytes_per_step(r)).text);
}

double explain(const Result *one, const Result *two) {
    bool values = !one->t.no_values;
    say("\nWhat the comparison shows");
    if (values) explain_accuracy(one, two);
    double times = values ? compare_epochs(&one->t, &two->t) : (double)NAN;
    explain_modelled_time(one, two);
    explain_bytes(two);
    printf("\n");
    return times;
}
