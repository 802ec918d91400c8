// predict.c: what the formulas of costs.c say of larger networks and of more devices; see
// predict.h.
#include "predict.h"

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/program/book.h"
#include "common/program/plot.h"
#include "common/program/say.h"
#include "costs.h"

#include <stdio.h>
#include <stdlib.h>

// ## Larger networks
//
// The same formulas, for networks of a size at which the question comes up.

static void print_line(const char *network, int k, const char *name, Memory memory, double moved,
                       double syncs, double busiest) {
    printf("%-10s %2d  %-14s %8.0f %8.0f %8.0f %10.0f %7.0f %9.1f%%\n", network, k, name,
           megabytes(memory.params), megabytes(memory.activations), megabytes(memory.both),
           megabytes(moved), syncs, 100 * busiest);
}

static void print_costs(const Network *network, int n, int m) {
    print_line(network->name, 1, "one device", memory_of(&across_data, network, 1, n), 0, 0, 1);
    for (int k = 2; k <= 8; k *= 2)
        for (int i = 0; i < NUM_STRATEGIES; i++) {
            const Strategy *s = strategies[i];
            print_line("", k, s->name, memory_of(s, network, k, n),
                       s->bytes_moved(network, k, n, m), s->syncs(network, k, m),
                       busiest_share(s, network, k, n));
        }
}

static void explain_networks(int n, int m) {
    double data = across_data.bytes_moved(&resnet18_network, 4, n, m);
    double within = within_layers.bytes_moved(&resnet18_network, 4, n, m);
    Memory four = memory_of(&across_data, &alexnet_network, 4, n);
    say("Why split the data? Devices wait for each other once per step; all have equal work, in "
        "any network; and what moves does not grow with the minibatch. ResNet-18 on 4 devices "
        "moves %.0f MB, and %.0f times that within layers. The stages of a pipeline cannot be made "
        "equal (the busiest device has more than 1/k of the work), and it has its bubble.",
        megabytes(data), within / data);
    say("When not? More devices leave less of the activations to each, but all of the parameters: "
        "%.0f MB of AlexNet, however many there are. A network that does not fit on one device "
        "must be split across or within its layers. And AlexNet, whose fully connected layers have "
        "many parameters and few outputs, moves more across data than a pipeline does: the smaller "
        "the minibatch, the more so.\n",
        megabytes(four.params));
}

void larger_networks(void) {
    enum { IMAGES = 256, M = 8 };
    say("Larger networks, by the same formulas: ImageNet, %d images of 224 x 224, %d microbatches "
        "(gradients included; without room for what is being sent)",
        IMAGES, M);
    printf("                              most on one device, MB*     moved         the busiest\n"
           "network     k  strategy         params   activ.     both         MB   syncs  device "
           "has\n");
    print_costs(&alexnet_network, IMAGES, M);
    print_costs(&resnet18_network, IMAGES, M);
    say("* each maximum by itself: that of the parameters and that of the activations may be on "
        "different devices, so \"both\" may be less than their sum.");
    explain_networks(IMAGES, M);
}

// ## Many devices: a model, not a measurement
//
// costs.c says how long a step would take with links of a given speed. Compare where each curve
// leaves the dashed line, and why: the pipeline has no more layers, within layers too much moves,
// device 0 receives k-1 gradients one after the other, and in the ring messages become so many and
// so small that alpha counts.

static void write_model(const char *csv) {
    const Network *const networks[] = {&alexnet_network, &resnet18_network};
    enum { IMAGES = 1024, M = 32, MOST = 1024 };
    OutputFile file = output_open(csv);
    fprintf(file.stream, "network,link,strategy,devices,seconds\n");
    for (int a = 0; a < 2 * NUM_LINKS; a++) {
        const Network *network = networks[a / NUM_LINKS];
        const Link *link = &model_links[a % NUM_LINKS];
        // Across data twice: gradients summed on device 0, and around a ring.
        for (int i = 0; i <= NUM_STRATEGIES; i++) {
            const Strategy *s = strategies[i < NUM_STRATEGIES ? i : NUM_STRATEGIES - 1];
            bool ring = i == NUM_STRATEGIES;
            int most = s == &across_layers ? network_pieces(network) : MOST;
            for (int k = 1; k <= most; k = k < most && 2 * k > most ? most : 2 * k)
                fprintf(file.stream, "%s,\"%s\",%s%s,%d,%.6g\n", network->name, link->name, s->name,
                        ring ? " (ring)" : "", k,
                        model_seconds(s, network, k, IMAGES, M, link, ring));
        }
    }
    output_close(&file);
}

void many_devices(void) {
    const char *csv = book_csv("_model.csv"), *png = book_output("_model.png");
    write_model(csv);
    if (is_written_directly(csv)) // what went into a pipe or to the screen cannot be drawn
        printf("A model, not measured, of up to 1024 devices: its figures stand above\n");
    else if (plot_draw(png, "splitting_model.gp", csv))
        printf("A model, not measured, of up to 1024 devices: %s, figures: %s\n", png, csv);
    else
        printf("A model, not measured, of up to 1024 devices: figures: %s\n", csv);
}
