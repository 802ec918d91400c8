// timeline.c: a step of ZeRO-3 as a picture.
#include "behind.h"

#include "common/book.h"

// From the begin of the step on. Only the two queues of device 0: all devices do the same.
static SpanSet spans_of_device_0(ZeroRun *run) {
    int n = 0;
    double start = INFINITY;
    while (n < run->num_spans && run->spans[n].device == run->spans[0].device) n++;
    for (int i = 0; i < n; i++) start = fmin(start, run->spans[i].start);
    for (int i = 0; i < n; i++) {
        run->spans[i].start -= start;
        run->spans[i].end -= start;
    }
    return (SpanSet){"ZeRO-3", run->spans, n, true};
}

void draw_step(int k, int rows) {
    const char *png = book_timeline("_modelled.png");
    if (!modelled_machine()) return;
    ZeroRun run = model_stage(&(Plan){.stage = ZERO_3, .k = k}, rows, modelled_machine(), true);
    char *title = xprintf("ZeRO-3: %.3g ms", 1e3 * run.seconds);
    char *heading = xprintf("A step of ResNet-18 with %d images on each of %d devices of %s", rows,
                            k, modelled_machine_name());
    Timeline t = {.title = title, .set = spans_of_device_0(&run), .end = run.seconds};
    timelines_draw(png, heading, "the step began", &t, 1);
    free(title);
    free(heading);
    zero_run_free(&run);
}
