// figures.c: models the time of one allreduce, and writes and draws the chapter's figures.
#include "behind.h"

#include "common/book.h"
#include "../get_params.h"

double modelled_allreduce(const Machine *machine, void (*run)(Tensor *const data[], int k), int k,
                          int n) {
    ModelledRun modelled = {.machine = machine, .k = k};
    Tensor *data[MAX_DEVICES];
    modelled_begin(&modelled);
    for (int i = 0; i < k; i++) {
        data[i] = tensor_new(modelled.devices[i], n);
        tensor_fill(data[i], 0); // as in training, each queue has had work: then waits take time
        begin_step(data[i]->device);
    }
    while (modelled_run(&modelled)) run(data, k);
    free_params(data, k);
    modelled_end(&modelled);
    return modelled.seconds;
}

Figures figures_open(const char *csv) {
    Figures figures = {.machine = modelled_machine(), .csv = output_open(csv)};
    fputs("time,machine,algorithm,devices,bytes,seconds,algbw,busbw,about\n", figures.csv.stream);
    return figures;
}

void figures_close(Figures *figures, const char *png) {
    char *csv = xstrdup(figures->csv.path);
    output_close(&figures->csv);
    if (png && figures->machine && !is_written_directly(csv)) plot_draw(png, "allreduce.gp", csv);
    free(csv);
}

double algbw(size_t bytes, double seconds) { return (double)bytes / seconds; }

double busbw(size_t bytes, double seconds, int k) {
    return algbw(bytes, seconds) * 2 * (k - 1) / k;
}

void write_figure(const Figures *figures, const Machine *machine, const char *algorithm, int k,
                  size_t bytes, double seconds) {
    FILE *csv = figures->csv.stream;
    fprintf(csv, "%s,%s,%s,%d,%zu,%.9g,%.4g,%.4g,", machine ? "modelled" : "measured",
            machine ? machine->name : "here", algorithm, k, bytes, seconds, algbw(bytes, seconds),
            busbw(bytes, seconds, k));
    for (const char *c = machine ? machine->about : ""; *c; c++) // a comma would end the column
        fputc(*c == ',' || *c == '"' ? ';' : *c, csv);
    fputc('\n', csv);
}
