// queues_picture.h: what each queue did, and when, as a picture.
#ifndef QUEUES_PICTURE_H
#define QUEUES_PICTURE_H

// Some work that is enqueued by a call, and what the picture calls it.
typedef struct Shown {
    const char *name;
    void (*enqueue)(void);
} Shown;

// Runs each of the n once, prepare() before it, and draws to the PNG which queue did what and when:
// measured here and, below that, on the machine of the modelled clock.
void draw_queues(const char *path, void (*prepare)(void), const Shown shown[], int n);

#endif
