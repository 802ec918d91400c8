// late.h: queues that are late, so that what waits for nothing comes too early.
#pragma once

#include "common/device/queue_observer.h"

#include <time.h>

static inline void sleep_so_long(void *duration) { nanosleep(duration, NULL); }

static bool sends_late;
static inline void be_late(Queue *queue, const Device *to, const void *dst, const Device *from,
                           size_t bytes) {
    static struct timespec a_little = {0, 300000};
    (void)to, (void)dst, (void)from, (void)bytes;
    if (sends_late) queue_call(queue, sleep_so_long, &a_little);
}

// From now on, what is sent arrives late, or (false) it no longer does.
static inline void queues_are_late(bool yes) {
    static const QueueObserver late = {.copy = be_late};
    queue_observe(&late);
    sends_late = yes;
}

// Every second device begins its step late.
static inline void begin_late(Device *const devices[], int k) {
    static struct timespec longer = {0, 5000000};
    for (int i = 0; i < k; i += 2) queue_call(compute_queue(devices[i]), sleep_so_long, &longer);
}
