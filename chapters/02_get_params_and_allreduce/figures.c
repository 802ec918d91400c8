// figures.c: see figures.h.
#include "figures.h"

#include "common/base/cores.h"
#include "common/base/file.h"
#include "common/program/plot.h"

#include <string.h>

int fastest(const Times *times) {
    int best = 0;
    for (int a = 1; a < NUM_ALLREDUCES; a++)
        if (times->seconds[a] < times->seconds[best]) best = a;
    return best;
}

const char *fastest_names(const Times *times) {
    static char names[64];
    double least = times->seconds[fastest(times)];
    names[0] = '\0';
    for (int a = 0; a < NUM_ALLREDUCES; a++) {
        if (times->seconds[a] > 1.001 * least) continue;
        if (names[0]) strcat(names, ", ");
        strcat(names, allreduces[a].name);
    }
    return names;
}

double algbw(size_t bytes, double seconds) { return (double)bytes / seconds; }

double busbw(size_t bytes, double seconds, int k) {
    return algbw(bytes, seconds) * 2 * (k - 1) / k;
}

// ---- the CSV ---------------------------------------------------------------------------------

void write_figures_header(FILE *csv) {
    fprintf(csv, "time,machine,algorithm,devices,bytes,seconds,algbw,busbw,about\n");
}

// A comma would end the column.
static void write_about(FILE *csv, const Machine *machine) {
    if (!machine && num_gpus() > 0)
        fprintf(csv, "%d GPU%s", num_gpus(), num_gpus() == 1 ? "" : "s");
    else if (!machine)
        fprintf(csv, "CPU devices: %d core%s; one memory", num_threads(),
                num_threads() == 1 ? "" : "s");
    for (const char *c = machine ? machine->about : ""; *c; c++)
        fputc(*c == ',' || *c == '"' ? ';' : *c, csv);
    fputc('\n', csv);
}

void write_figure(FILE *csv, const Machine *machine, const char *algorithm, int k, size_t bytes,
                  double seconds) {
    fprintf(csv, "%s,%s,%s,%d,%zu,%.9g,%.4g,%.4g,", machine ? "modelled" : "measured",
            machine ? machine->name : "here", algorithm, k, bytes, seconds, algbw(bytes, seconds),
            busbw(bytes, seconds, k));
    write_about(csv, machine);
}

void write_figures(FILE *csv, const Machine *machine, int k, size_t bytes, const Times *times) {
    for (int a = 0; a < NUM_ALLREDUCES; a++)
        write_figure(csv, machine, allreduces[a].name, k, bytes, times->seconds[a]);
}

void draw_figures(const char *csv, const char *png, const char *growth_png) {
    if (is_written_directly(csv)) return; // what went into a pipe cannot be drawn
    if (plot_draw(png, "allreduce.gp", csv))
        printf("\nTimes by size; below, time / time of the star: %s\n", png);
    if (growth_png && plot_draw(growth_png, "allreduce_devices.gp", csv))
        printf("Modelled times, up to 1024 devices: %s\n", growth_png);
    printf("figures: %s\n", csv);
}

// ---- tables ----------------------------------------------------------------------------------

const char *size_text(size_t bytes) {
    static char text[24];
    if (bytes % 1000000 == 0)
        snprintf(text, sizeof text, "%zu MB", bytes / 1000000);
    else if (bytes < 1 << 20)
        snprintf(text, sizeof text, "%zu KB", bytes >> 10);
    else
        snprintf(text, sizeof text, "%zu MB", bytes >> 20);
    return text;
}

void add_times(Table *t, const Times *times, double unit) {
    for (int a = 0; a < NUM_ALLREDUCES; a++) table_numbers(t, times->seconds[a] / unit);
}
