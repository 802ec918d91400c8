// exercise.c: the main() of all exercises.
#include "exercise.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "program.h"
#include "facts.h"
#include "plot.h"

#include <stdlib.h>
#include <string.h>

int exercise_main(int argc, char *argv[], const Exercise *exercise) {
    if (argc > 1 && strcmp(argv[1], "--facts") == 0) return facts_main(argc, argv);
    char *names = xprintf("%s data", exercise->flags);
    Flags flags = book_begin(argc, argv, exercise->about, names, exercise->program);
    free(names);
    if (exercise->prepare) exercise->prepare(&flags);
    book_outputs(".csv .png");
    const char *csv = book_output(".csv"), *png = book_output(".png");
    OutputFile file = output_open(csv);
    exercise->experiment(&flags, file.stream);
    output_close(&file);
    fflush(stdout); // gnuplot's warnings come after it
    if (plot_draw(png, exercise->plot, csv)) printf("\nplot: %s, figures: %s\n", png, csv);
    return book_end();
}
