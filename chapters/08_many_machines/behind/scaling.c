// scaling.c: see behind.h.
#include "behind.h"

#include "common/base/file.h"
#include "common/model/many_ranks.h"
#include "common/program/book.h"
#include "common/program/say.h"
#include "common/program/table.h"

#include <stdio.h>

// The two rules for when gradients are sent: as soon as there are 64 MiB of them, or, as Horovod
// did, every 5 ms what is ready, up to 64 MiB.
void show_scaling(void) {
    const SendRule large = {.bytes = 64 << 20}, often = {64 << 20, 0.005};
    OutputFile csv = output_open(book_csv("_scaling.csv"));
    fprintf(csv.stream, "network,sent,ranks,efficiency\n");
    say("\nEfficiency in %%, %d images on each GPU", PUBLISHED_IMAGES);
    Table t =
        TABLE(NULL, WORDS("", 12), WHOLE("16 GPUs, published", .width = 9),
              WHOLE("512 GPUs, published", .width = 9), WHOLE("modelled, at 64 MiB", .width = 9),
              WHOLE("modelled, every 5 ms", .width = 9));
    for (int n = 0; n < NUM_PUBLISHED_SCALINGS; n++) {
        const PublishedScaling *p = &published_scalings[n];
        const double at[] = {published_modelled(p, large, 512), published_modelled(p, often, 512)};
        const char *name = p->network().name;
        table_text(&t, "%s", name);
        table_numbers(&t, 100 * p->sixteen / (16 * p->one), 100 * p->efficiency_512, 100 * at[0],
                      100 * at[1]);
        fprintf(csv.stream, "%s,64 MiB,512,%.6g\n%s,5 ms,512,%.6g\n", name, at[0], name, at[1]);
    }
    output_close(&csv);
}
