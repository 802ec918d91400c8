// epochs.c: see epochs.h.
#include "epochs.h"
#include "common/model/modelled_clock.h"

enum { IMAGES = 60000, PIXELS = 28, BATCH = 256, MOST_DEVICES = 16 };

static int batch_size_of(int way, int k) { return way == SAME_MINIBATCH ? BATCH : k * BATCH; }

static void model_row(Module *net, int k, Epochs *e) {
    printf("  %7d", k);
    for (int way = 0; way < NUM_WAYS; way++) {
        ModelledEpoch *epoch = &e->of[way][e->n];
        *epoch = modelled_epoch(net, k, BN_LOCAL, IMAGES, PIXELS, batch_size_of(way, k));
        printf("%s%9.3g %14.2f", way == 0 ? "  " : "    ", epoch->seconds,
               e->of[way][0].seconds / epoch->seconds);
    }
    printf("\n");
    e->n++;
}

Epochs model_epochs(Module *net) {
    const Machine *machine = modelled_machine();
    Epochs e = {0};
    if (!machine) return e;
    printf("\n  ResNet-18, an epoch of %d images of %d x %d, modelled: %s\n"
           "             %d images for all devices     %d images for each\n"
           "  devices    seconds  times as fast      seconds  times as fast\n",
           IMAGES, PIXELS, PIXELS, machine->name, BATCH, BATCH);
    for (int k = 1; k <= MOST_DEVICES && machine_has_devices(machine, k); k *= 2)
        model_row(net, k, &e);
    return e;
}

void write_epochs(FILE *csv, const Epochs *e) {
    static const char *const parts[NUM_WAYS] = {"same minibatch", "minibatch for each"};
    for (int way = 0; way < NUM_WAYS; way++)
        for (int i = 0; i < e->n; i++)
            fprintf(csv, "%s,%d,local,%d,,,,,,,,,,%.8g,%.6f,%s\n", parts[way], 1 << i,
                    batch_size_of(way, 1 << i), e->of[way][i].seconds, e->of[way][i].copies,
                    modelled_machine()->name);
}
