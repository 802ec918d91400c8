// compare.c: what there is to say about two runs. The book writes: "we see that the test accuracy
// obtained is basically the same ... unfortunately there is no meaningful speedup". Here is why.
#include "compare.h"

#include "common/device/modelled_clock.h"
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
    say("  Accuracy: %.4f on 1 device, %.4f on %d.", one->test_acc, two->test_acc, two->k);
    if (one->test_acc < LEARNED && two->test_acc < LEARNED)
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

// CPU devices that do not share the cores: each has some of its own, if there are enough.
static void explain_own_cores(const Result *two) {
    int each = two->threads_per_device, all = each * two->k;
    if (all <= num_threads())
        say("    Each device is a worker with %d core%s of its own, so %d cores are at work "
            "instead of %d, as with GPUs: %.2f at best. The exchange of gradients, the memory that "
            "they share, and what else the machine was doing take the rest.",
            each, each > 1 ? "s" : "", all, each, 1.0 / two->k);
    else
        say("    %d devices with %d core%s each would need %d cores, and there are %d: they take "
            "turns, so this says little.",
            two->k, each, each > 1 ? "s" : "", all, num_threads());
}

enum { ENOUGH_STEPS = 50 };

static void explain_measured_time(const Result *one, const Result *two) {
    double ratio = two->sec_per_epoch / one->sec_per_epoch;
    say("  Time: an epoch on %d devices took %.2f times as long as on 1 (measured).", two->k,
        ratio);
    if (two->steps < ENOUGH_STEPS)
        say("    That says little: %ld step%s, of which the first also got its memory.", two->steps,
            two->steps > 1 ? "s" : "");
    if (num_gpus() == 0 && two->threads_per_device > 0)
        explain_own_cores(two);
    else if (num_gpus() == 0)
        say("    The devices are workers that share the same %d core%s: the same arithmetic on "
            "the same cores, so about 1.00 is to be expected. The exchange of gradients adds to "
            "it, smaller pieces of work may save, and what else the machine was doing counts too.",
            num_threads(), num_threads() > 1 ? "s" : "");
    else if (num_gpus() < two->k)
        say("    The devices are %d queues on %d GPU: no more arithmetic per second, only more "
            "exchange.",
            two->k, num_gpus());
    else if (ratio > 0.9)
        say("    Each GPU has half the images, but LeNet is so small that starting kernels and "
            "exchanging gradients takes longer than the arithmetic that is saved.");
    else
        say("    Each GPU has half the images, and that outweighs the exchange of gradients.");
    if (one->fastest > 0 && two->fastest > 0)
        say("    How exact is that? The slowest epoch of a run took up to %.2f times as long as "
            "its fastest.",
            fmax(one->slowest / one->fastest, two->slowest / two->fastest));
}

static void explain_modelled_time(const Result *one, const Result *two) {
    if (!modelled_machine()) return;
    double ratio = two->modelled_sec_per_epoch / one->modelled_sec_per_epoch;
    say("  %s: on %d devices of %s an epoch takes %.2f times as long as on 1.",
        one->no_values ? "Time, modelled" : "  Modelled", two->k, modelled_machine()->name, ratio);
}

uint64_t bytes_per_step(const Result *r) {
    uint64_t sent = 0;
    for (int i = 0; i < r->k; i++)
        sent += allreduce_bytes(chosen_allreduce(), r->num_params, r->k, i).sent;
    return sent;
}

static void explain_bytes(const Result *r) {
    say("  Bytes: each step moved %.0f bytes between the devices, counted.\n"
        "    The formula of an allreduce (%s), 2 (k-1) times the %zu bytes of the gradients, says "
        "%llu.",
        (double)r->bytes_between / (double)r->steps, chosen_allreduce()->name,
        r->num_params * sizeof(float), (unsigned long long)bytes_per_step(r));
}

void explain(const Result *one, const Result *two) {
    say("\nWhat the comparison shows");
    if (!one->no_values) {
        explain_accuracy(one, two);
        explain_measured_time(one, two);
    }
    explain_modelled_time(one, two);
    explain_bytes(two);
    printf("\n");
}
