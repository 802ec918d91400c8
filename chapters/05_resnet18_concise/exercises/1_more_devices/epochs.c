// epochs.c: see epochs.h.
#include "epochs.h"
#include "common/model/modelled_clock.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "chapters/05_resnet18_concise/behind/modelled_steps.h"

#include <math.h>

void model_epochs(Module *net, FILE *csv, const char *way, bool for_each) {
    const char *machine = modelled_machine()->name;
    double one = NAN;
    say("\nResNet-18, an epoch of 60,000 images of 28 x 28, modelled: %s; %s", machine, way);
    Table t =
        TABLE(NULL, WHOLE("devices"), WHOLE("batch"), DIGITS("seconds", 3), FIXED("speed-up", 2));
    for (int k = 1; k <= 16 && machine_has_devices(modelled_machine(), k); k *= 2) {
        int batch_size = for_each ? k * 256 : 256;
        ModelledEpoch e = modelled_epoch(net, k, BN_LOCAL, 60000, 28, batch_size);
        if (k == 1) one = e.seconds;
        table_numbers(&t, k, batch_size, e.seconds, one / e.seconds);
        fprintf(csv, "%s,%d,local,%d,,,,,,,,,,%.8g,%.6f,%s\n", way, k, batch_size, e.seconds,
                e.copies, machine);
    }
}
