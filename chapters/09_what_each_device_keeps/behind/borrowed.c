// borrowed.c: what a device holds at each unit of a step of ZeRO-3, as a picture.
#include "behind.h"

#include "common/book.h"
#include "chapters/05_resnet18_concise/resnet18.h"

static const char columns[] = "pass,unit,parameters,kept,gathered,gradients,received\n";

// The unit with this first parameter. "resnet_block4.1.conv1.weight": "4.1"; "fc.1.weight": "fc"
static char *short_name(const char *parameter) {
    if (strcmp(parameter, "0.weight") == 0) return xprintf("conv");
    if (strcmp(parameter, "1.weight") == 0) return xprintf("bn");
    const char *prefix = "resnet_block";
    if (strncmp(parameter, prefix, strlen(prefix)) == 0)
        return xprintf("%.3s", parameter + strlen(prefix));
    return xprintf("%.*s", (int)strcspn(parameter, "."), parameter);
}

static double bytes_of(const Zero *z, int u) {
    return u >= 0 && u < z->num_units ? (double)(sizeof(float) * z->units[u].floats) : 0;
}

// While unit u computes on device 0. Returns what is there only for a part of the step.
static double write_row(FILE *csv, const Zero *z, double kept, bool forward, int u) {
    double gathered = bytes_of(z, u) + bytes_of(z, forward ? u + 1 : u - 1);
    double gradients = forward ? 0 : bytes_of(z, u) + bytes_of(z, u + 1), received = 0;
    if (!forward && u + 1 < z->num_units)
        received = (double)sizeof(float) * (z->k - 1) * (double)own_part(z, u + 1, 0).count;
    char *name = short_name(unit_name(z, u));
    fprintf(csv, "%s,%s,%.0f,%.0f,%.0f,%.0f,%.0f\n", forward ? "forward" : "backward", name,
            bytes_of(z, u), kept, gathered, gradients, received);
    free(name);
    return gathered + gradients + received;
}

static void write_step(FILE *csv, const Zero *z) {
    ZeroMemory formula = zero_memory(z, 0);
    double kept = (double)(formula.parameters + formula.gradients + formula.moments), most = 0;
    fputs(columns, csv);
    for (int u = 0; u < z->num_units; u++) write_row(csv, z, kept, true, u);
    for (int u = z->num_units - 1; u >= 0; u--)
        most = fmax(most, write_row(csv, z, kept, false, u));
    CHECK(most == (double)formula.temporary, "the picture's highest bar is what was counted");
}

void draw_borrowed(int k) {
    const char *csv = book_output("_step.csv"), *png = book_output("_step.png");
    ModelledRun run = {.machine = modelled_machine(), .k = k};
    modelled_begin(&run);
    Module *net = resnet18(10, 1);
    initialize_without_values(net);
    Zero *z = zero_new(net, run.devices, k, ZERO_3, (AdamOptions){0});
    OutputFile file = output_open(csv);
    write_step(file.stream, z);
    output_close(&file);
    zero_free(z);
    module_free(net);
    modelled_end(&run);
    plot_draw(png, "memory_in_step.gp", csv);
}
