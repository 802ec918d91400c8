// queue_observer.c: the list of observers, in the order in which they came.
#include "queue_observer.h"
#include "common/base/error.h"

const QueueObserver *queue_observers[MAX_OBSERVERS + 1];

void queue_observe(const QueueObserver *observer) {
    int i = 0;
    while (queue_observers[i] && queue_observers[i] != observer) i++;
    CHECK(i < MAX_OBSERVERS, "make MAX_OBSERVERS larger");
    queue_observers[i] = observer;
}
