// figures.c: writes and draws the chapter's figures.
#include "behind.h"

#include "common/book.h"

Figures figures_open(const char *csv) {
    Figures figures = {.machine = modelled_machine(), .csv = output_open(csv)};
    fputs("time,machine,algorithm,devices,bytes,seconds,algbw,busbw,about\n", figures.csv.stream);
    return figures;
}

void figures_close(Figures *figures, const char *png) {
    char *csv = xstrdup(figures->csv.path);
    output_close(&figures->csv);
    if (png && figures->machine) plot_draw(png, "allreduce.gp", csv);
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
