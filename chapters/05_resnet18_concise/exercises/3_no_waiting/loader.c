// loader.c: see loader.h.
#include "loader.h"
#include "common/base/error.h"
#include "common/model/modelled_clock.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

Loader *loader_new(const Dataset *data, int batch_size, int k, int num_slots) {
    Loader *loader = xcalloc(1, sizeof *loader);
    *loader = (Loader){.data = data, .batch_size = batch_size, .k = k, .num_slots = num_slots};
    for (int s = 0; s < num_slots; s++) {
        Slot *slot = &loader->slots[s];
        slot->X = tensor_new(host(), batch_size, 1, data->rows, data->cols);
        slot->y = tensor_new(host(), batch_size);
        slot->step = -1;
        for (int i = 0; i < k; i++) slot->losses[i] = tensor_new(host(), 1);
    }
    return loader;
}

void loader_free(Loader *loader) {
    for (int s = 0; s < loader->num_slots; s++) {
        tensor_free(loader->slots[s].X);
        tensor_free(loader->slots[s].y);
        for (int i = 0; i < loader->k; i++) tensor_free(loader->slots[s].losses[i]);
    }
    free(loader);
}

Slot *slot_of(Loader *loader, int step) { return &loader->slots[step % loader->num_slots]; }

static bool is_done(const Loader *loader, const Slot *slot) {
    int i = 0;
    while (i < loader->k && event_reached(slot->done[i])) i++;
    return i == loader->k;
}

static void note_begin(Loader *loader, int step) {
    StepLog *log = &loader->log[step];
    int under_way = 0;
    log->prepared++;
    log->began = modelled_seconds();
    log->not_waited_for = 0;
    for (int n = 0; n < MOST_STEPS; n++)
        log->not_waited_for += loader->log[n].kept > 0 && loader->log[n].waited == 0;
    for (int s = 0; s < loader->num_slots; s++) under_way += !is_done(loader, &loader->slots[s]);
    if (under_way > loader->most_under_way) loader->most_under_way = under_way;
}

Slot *prepare(Loader *loader, int step) {
    const Dataset *data = loader->data;
    Slot *slot = slot_of(loader, step);
    int pixels = data->rows * data->cols;
    note_begin(loader, step);
    slot->prepared = step;
    for (int i = 0; i < loader->batch_size; i++) {
        int from = (step * loader->batch_size + i) % data->count;
        const uint8_t *image = data->images + (size_t)(from * pixels);
        for (int p = 0; p < pixels; p++) slot->X->data[i * pixels + p] = image[p] / 255.0f;
        slot->y->data[i] = data->labels[from];
    }
    double work = loader->work[step];
    nanosleep(&(struct timespec){(time_t)work, (long)(fmod(work, 1) * 1e9)}, NULL);
    return slot;
}

void keep_losses(Loader *loader, Slot *slot, Tensor *const losses[]) {
    slot->step = slot->prepared;
    loader->log[slot->step].kept++;
    for (int i = 0; i < loader->k; i++) {
        tensor_copy(slot->losses[i], losses[i]);
        slot->done[i] = device_record(losses[i]->device);
    }
}

double wait_for(Loader *loader, const Slot *slot) {
    double loss = 0;
    if (slot->step >= 0) loader->log[slot->step].waited++;
    for (int i = 0; i < loader->k; i++) {
        device_wait(host(), slot->done[i]);
        loss += (double)slot->losses[i]->data[0];
    }
    return loss / loader->batch_size;
}
