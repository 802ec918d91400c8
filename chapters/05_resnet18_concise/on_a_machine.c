// on_a_machine.c: the book's training on a machine that need not be there, modelled.
#include "on_a_machine.h"

#include "common/model/modelled_clock.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "modelled_steps.h"

#include <math.h>
#include <stdio.h>

// The book's training: so many images, and so many for each device in a minibatch.
enum { IMAGES = 60000, PIXELS = 28, BATCH = 256, MOST_DEVICES = 8 };

// ## Time

static const char *const algorithms[] = {"star", "ring"};
enum { NUM_ALGORITHMS = 2 };

// Returns the speed-up with the first algorithm.
static double add_row(Table *t, const Notebook *nb, int k, double alone[]) {
    double speed_up = NAN;
    table_numbers(t, k);
    for (int a = 0; a < NUM_ALGORITHMS; a++) {
        choose_allreduce(algorithms[a]);
        ModelledEpoch epoch =
            modelled_epoch(nb->net, k, batch_norm_mode(nb->bn), IMAGES, PIXELS, k * BATCH);
        if (k == 1) alone[a] = epoch.seconds;
        if (a == 0) speed_up = alone[a] / epoch.seconds;
        table_numbers(t, epoch.seconds, alone[a] / epoch.seconds, epoch.copies);
    }
    return speed_up;
}

static double print_times(const Notebook *nb, const Machine *machine) {
    double alone[NUM_ALGORITHMS], of_two = NAN;
    say("Modelled: the book's ResNet-18 on %s (%s)", machine->name, machine->about);
    say("  An epoch of all %d images, %d to a device in each step, batch norm's statistics: %s. "
        "Copies: the part of the time that would be saved if they took none. On 1 device these are "
        "the images on their way there; on more, nearly all of it is the exchange of gradients.",
        IMAGES, BATCH, nb->bn);
    Table t = TABLE(NULL, WHOLE("devices"), DIGITS("star: seconds", 3), FIXED("speed-up", 2),
                    FIXED("copies", 1, .unit = "%"), DIGITS("ring: seconds", 3),
                    FIXED("speed-up", 2), FIXED("copies", 1, .unit = "%"));
    for (int k = 1; k <= MOST_DEVICES && machine_has_devices(machine, k); k *= 2) {
        double speed_up = add_row(&t, nb, k, alone);
        if (k == 2) of_two = speed_up;
    }
    choose_allreduce(nb->flags.allreduce);
    say("  The book's, measured on GPUs that it does not name: 14.0 s on 1, 9.1 s on 2, a "
        "speed-up of 1.54; its Chinese edition: 12.2 s and 7.4 s, 1.65. They include what the host "
        "needs to prepare the minibatches; in the modelled ones that takes no time.");
    return of_two;
}

// ## Memory

static void add_largest(Table *t, Module *net, const Machine *machine) {
    int largest = largest_batch(net, machine, PIXELS);
    table_text(t, "%s", machine->name);
    table_numbers(t, machine->memory);
    table_text(t, "%d%s", largest, largest == MOST_IMAGES ? " or more" : "");
}

static void print_largest_batches(Module *net, const Machine *machine) {
    bool built_in = false;
    say("\nModelled: the largest minibatch that one device has memory for, with its parameters, "
        "gradients and activations as they are kept here; with one image more they do not fit");
    Table t = TABLE(NULL, WORDS("machine", 14), DIGITS("memory", 3, .unit = "GB"), WHOLE("images"));
    for (const MachineFile *file = machine_files; file->name; file++) {
        const Machine *other = machine_find(file->name);
        built_in = built_in || other == machine;
        add_largest(&t, net, other);
    }
    if (!built_in) add_largest(&t, net, machine);
}

double print_on_a_machine(const Notebook *nb) {
    const Machine *machine = modelled_machine();
    if (!machine) return NAN;
    double speed_up = print_times(nb, machine);
    print_largest_batches(nb->net, machine);
    printf("\n");
    return speed_up;
}
