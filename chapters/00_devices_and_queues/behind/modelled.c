// modelled.c: the chapter with --backend model. The devices compute nothing, so an event that is
// asked for too early and the gradient, which are about values, are not shown.
#include "behind.h"

#include "common/book.h"

void queues_without_values(Job *job) {
    say("They compute nothing and have no values (--backend model): there are modelled times, and "
        "there are bytes.");
    enqueue_in_three_ways(job);
    draw_the_queues(job);
    copy_and_count(job);
}
