// comparison.c: see comparison.h.
#include "comparison.h"

#include "common/program/say.h"

#include <stdio.h>
#include <string.h>

static const char *where_they_run(void) {
    if (num_gpus() >= 2) return "";
    return num_gpus() > 0 ? " They are queues on the same GPU." : " They share the same cores.";
}

void compare_runs(const Run *one, const Run *two, const char *bn) {
    const Training *first = &one->t, *second = &two->t;
    say("\nWhat the comparison shows");
    say("  Accuracy: %.3f on 1 device with minibatches of %d, %.3f on %d with minibatches of %d "
        "and twice the learning rate: half as many updates, each at twice the rate.",
        first->test_acc, one->batch_size, second->test_acc, second->k, two->batch_size);
    if (first->sec_per_epoch > 0 && second->sec_per_epoch > 0)
        say("  Time: an epoch on %d devices took %.2f times as long as on 1.%s", second->k,
            second->sec_per_epoch / first->sec_per_epoch, where_they_run());
    say("  Bytes: each step moved %llu bytes between the devices, as the formulas say.",
        (unsigned long long)two->bytes_per_step);
    say("  Batch norm: in training each device used mean and variance of its own shard%s. The "
        "statistics that the network is evaluated with: %s. (--bn local|rank0|averaged|sync; the "
        "book's PyTorch runs keep those of device 0 only, and ended with 0.44 to 0.91 on 2 GPUs.)",
        strcmp(bn, "sync") == 0 ? "s together" : "", bn);
    printf("\n");
}
