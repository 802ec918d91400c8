// no_values.c: see no_values.h.
#include "no_values.h"

#include "common/base/error.h"

void refuse_what_needs_values(const Flags *flags) {
    const struct {
        const char *name;
        bool given;
    } needs[] = {
        {"save", flags->save != NULL},
        {"load", flags->load != NULL},
        {"resume", flags->resume != NULL},
        {"checkpoint", flags->checkpoint != NULL},
        {"log-loss", flags->log_loss != NULL},
        {"csv", flags->csv != NULL},
        {"live", flags->live},
    };
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++)
        if (needs[i].given && flags->backend == BACKEND_MODEL)
            die_usage("leave one of the two flags out",
                      "--%s: with --backend model nothing is computed, so there are no values",
                      needs[i].name);
}
