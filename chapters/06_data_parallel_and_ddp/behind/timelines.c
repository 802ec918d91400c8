// timelines.c: steps as pictures: which queue is at work when.
#include "behind.h"

#include "common/book.h"

// A copy occupies the link of its sender, too, so it is drawn in both lanes.
static void add_senders(StepRecord *r) {
    int count = r->count;
    r->spans = xgrow(r->spans, (size_t)(2 * count + 1), sizeof *r->spans);
    for (int i = 0; i < count; i++) {
        TraceSpan copy = r->spans[i];
        copy.device = copy.from;
        if (copy.from && copy.from != copy.to && copy.from != host()) r->spans[r->count++] = copy;
    }
    trace_order(r->spans, r->count);
}

// The seconds in which device 0's compute queue computes.
static double compute_seconds(const StepRecord *r) {
    double seconds = 0;
    for (const TraceSpan *s = r->spans; s < r->spans + r->count; s++)
        if (s->device == r->devices[0] && !s->communicates && !s->from &&
            strncmp(s->label, "exchange", 8) != 0)
            seconds += s->end - s->start;
    return seconds;
}

static Timeline timeline(const char *name, const StepRecord *r) {
    return (Timeline){.title = xprintf("%s: %.3g ms", name, 1e3 * r->seconds),
                      .set = {name, r->spans, r->count, true},
                      .end = r->seconds};
}

double compare_timelines(int k, int rows, size_t bucket_bytes) {
    enum { NUM_STEPS = 3 };
    const char *const names[NUM_STEPS] = {"DP", "DDP, one bucket", "DDP, buckets of 4 MiB"};
    const char *png = book_timeline("_modelled.png");
    StepRecord *steps[NUM_STEPS];
    Timeline timelines[NUM_STEPS];
    printf("\n");
    Table t = TABLE(NULL, WORDS("ResNet-18, device 0", 21), FIXED("a step", 2, .unit = "ms"),
                    FIXED("computes", 2, .unit = "ms"), FIXED("waits", 2, .unit = "ms"),
                    FIXED("exchange", 2, .unit = "ms"), FIXED("under backward", 0, .unit = "%"));
    for (int s = 0; s < NUM_STEPS; s++) {
        Setup setup = {s > 0, &networks[1], 10, k, rows, 0, {0}};
        setup.options.bucket_bytes = s == 1 ? ONE_BUCKET : bucket_bytes;
        StepRecord *r = steps[s] = record_one_step(&setup, modelled_machine());
        Exchange e = exchange_of(r);
        double computes = compute_seconds(r);
        table_text(&t, "%s", names[s]);
        table_numbers(&t, r->seconds, computes, r->seconds - computes, s == 0 ? NAN : e.seconds,
                      e.hidden / e.seconds);
        add_senders(r);
        timelines[s] = timeline(names[s], r);
    }
    char *heading = xprintf("A step of ResNet-18 with %d images on each of %d devices of %s", rows,
                            k, modelled_machine_name());
    timelines_draw(png, heading, "the step began", timelines, NUM_STEPS);
    free(heading);
    double ratio = steps[0]->seconds / steps[2]->seconds;
    for (int s = 0; s < NUM_STEPS; s++) {
        free(timelines[s].title);
        step_record_free(steps[s]);
    }
    return ratio;
}

const char overlap_names[] = "none|lenet|resnet-18";

// Only the two queues of rank 0, because all ranks do the same.
static void draw_overlap(StepRecord *r, const char *svg) {
    int n = 0;
    while (n < r->count && r->spans[n].device == r->devices[0]) n++;
    r->count = n;
    char *name = xprintf("%s, buckets: %d", r->setup.network->title, r->num_buckets);
    Timeline t = timeline(name, r);
    timelines_draw(svg, "The two queues of rank 0, modelled", "the step began", &t, 1);
    free(t.title);
    free(name);
}

void model_one_overlap(const char *network, int k, int rows, size_t bucket_bytes, const char *csv,
                       const char *svg) {
    const Allreduce *chosen = chosen_allreduce();
    const size_t sizes[] = {bucket_bytes, ONE_BUCKET, ONE_BUCKET};
    Setup setup = {true, &networks[strcmp(network, "lenet") != 0], 10, k, rows, 0, {0}};
    StepRecord *r[3]; // with these buckets, with one, without an exchange
    for (int s = 0; s < 3; s++) {
        setup.options.bucket_bytes = sizes[s];
        if (s == 2) choose_this_allreduce(&no_exchange);
        r[s] = record_one_step(&setup, modelled_machine());
    }
    choose_this_allreduce(chosen);
    Exchange e = exchange_of(r[0]);
    OutputFile file = output_open(csv);
    Table t = TABLE(file.stream, WORDS("network", 9, .csv = "network"),
                    WHOLE("devices", .csv = "devices"), WHOLE("buckets", .csv = "buckets"),
                    DIGITS("a step", 4, .unit = "ms", .csv = "seconds"),
                    DIGITS("one bucket", 4, .unit = "ms", .csv = "one_bucket"),
                    DIGITS("no exchange", 4, .unit = "ms", .csv = "without"),
                    DIGITS("exchange", 4, .unit = "ms", .csv = "exchange"),
                    FIXED("under backward", 0, .unit = "%", .csv = "hidden"));
    table_text(&t, "%s", setup.network->title);
    table_numbers(&t, k, r[0]->num_buckets, r[0]->seconds, r[1]->seconds, r[2]->seconds, e.seconds,
                  e.hidden / e.seconds);
    output_close(&file);
    draw_overlap(r[0], svg);
    book_result("%.0f %% of the exchange is under backward", 100 * e.hidden / e.seconds);
    for (int s = 0; s < 3; s++) step_record_free(r[s]);
}
