// queue_observer.c: the list of observers, in the order in which they came.
#include "queue_observer.h"
#include "common/base/error.h"

const QueueObserver *queue_observers[MAX_OBSERVERS + 1];

static const QueueObserver **place_of(const QueueObserver *observer) {
    const QueueObserver **place = queue_observers;
    while (*place && *place != observer) place++;
    return place;
}

void queue_observe(const QueueObserver *observer) {
    const QueueObserver **place = place_of(observer);
    CHECK(place < queue_observers + MAX_OBSERVERS, "make MAX_OBSERVERS larger");
    *place = observer;
}

void queue_unobserve(const QueueObserver *observer) {
    for (const QueueObserver **place = place_of(observer); *place; place++) place[0] = place[1];
}
