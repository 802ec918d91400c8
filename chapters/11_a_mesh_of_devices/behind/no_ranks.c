// no_ranks.c: instead of ranks.c, in a page.
#include "behind.h"

void ranks_before_flags(void) {}

void compare_over_ranks(const VitPlan *plan, const Dataset *data, int threads) {
    (void)plan, (void)data, (void)threads;
}
