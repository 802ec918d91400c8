// timelines.c: steps as pictures: which queue is at work when.
#include "behind.h"

#include "common/book.h"

// A copy occupies the link of its sender, too, so it is drawn in both lanes.
static void add_senders(StepRecord *r) {
    int count = r->count;
    r->spans = xgrow(r->spans, (size_t)(2 * count + 1), sizeof *r->spans);
    for (int i = 0; i < count; i++) {
        TraceSpan copy = r->spans[i];
        if (!copy.from || copy.from == copy.to || copy.from == host() || copy.to == host())
            continue;
        copy.device = copy.device == copy.to ? copy.from : copy.to;
        r->spans[r->count++] = copy;
    }
    trace_order(r->spans, r->count);
}

// The seconds in which device 0's compute queue computes.
static double compute_seconds(const StepRecord *r) {
    double seconds = 0;
    for (int i = 0; i < r->count; i++) {
        const TraceSpan *span = &r->spans[i];
        if (span->device == r->devices[0] && !span->communicates && !span->from &&
            strncmp(span->label, "exchange", 8) != 0)
            seconds += span->end - span->start;
    }
    return seconds;
}

enum { NUM_STEPS = 3 };

double compare_timelines(int k, int rows, size_t bucket_bytes) {
    const char *const names[NUM_STEPS] = {"DP", "DDP, one bucket", "DDP, buckets of 4 MiB"};
    const Machine *machine = modelled_machine();
    const char *png = book_timeline("_modelled.png"), *json = book_output("_modelled.json");
    StepRecord *steps[NUM_STEPS];
    Timeline timelines[NUM_STEPS];
    SpanSet sets[NUM_STEPS];
    printf("\n");
    Table t =
        TABLE(NULL, WORDS("ResNet-18", 21), FIXED("a step", 2, .unit = "ms"),
              FIXED("device 0 computes", 2, .unit = "ms"),
              FIXED("its second queue", 2, .unit = "ms"), FIXED("under backward", 0, .unit = "%"));
    for (int s = 0; s < NUM_STEPS; s++) {
        Setup setup = {
            .is_ddp = s > 0, .network = &networks[1], .classes = 10, .k = k, .rows = rows};
        setup.options.bucket_bytes = s == 1 ? ONE_BUCKET : bucket_bytes;
        steps[s] = record_one_step(&setup, machine);
        Exchange e = exchange_of(steps[s], 0);
        table_text(&t, "%s", names[s]);
        table_numbers(&t, steps[s]->seconds, compute_seconds(steps[s]), s == 0 ? NAN : e.seconds,
                      s == 0 ? NAN : e.hidden / e.seconds);
        add_senders(steps[s]);
        sets[s] = (SpanSet){names[s], steps[s]->spans, steps[s]->count, true};
        timelines[s] =
            (Timeline){.title = xprintf("%s: %.3g ms", names[s], 1e3 * steps[s]->seconds),
                       .set = sets[s],
                       .end = steps[s]->seconds};
    }
    char *heading = xprintf("A step of ResNet-18 with %d images on each of %d devices of %s", rows,
                            k, modelled_machine_name());
    timelines_draw(png, heading, "the step began", timelines, NUM_STEPS);
    chrome_trace_write(json, sets, NUM_STEPS);
    double ratio = steps[0]->seconds / steps[2]->seconds;
    for (int s = 0; s < NUM_STEPS; s++) {
        free(timelines[s].title);
        step_record_free(steps[s]);
    }
    free(heading);
    return ratio;
}

// ---- the figure to move ---------------------------------------------------------------------------

const char overlap_names[] = "none|lenet|resnet-18";

// Only the two queues of rank 0, because all ranks do the same.
static void keep_rank_0(StepRecord *r) {
    int n = 0;
    for (int i = 0; i < r->count; i++)
        if (r->spans[i].device == r->devices[0]) r->spans[n++] = r->spans[i];
    r->count = n;
}

static void draw_overlap(StepRecord *r, const char *svg) {
    keep_rank_0(r);
    Timeline t = {.title = xprintf("%s, %d bucket%s: %.3g ms", r->setup.network->title, r->buckets,
                                   r->buckets > 1 ? "s" : "", 1e3 * r->seconds),
                  .set = {"modelled", r->spans, r->count, true},
                  .end = r->seconds};
    timelines_draw(svg, "The two queues of rank 0, modelled", "the step began", &t, 1);
    free(t.title);
}

void model_one_overlap(const char *network, int k, int rows, size_t bucket_bytes, const char *csv,
                       const char *svg) {
    const Machine *machine = modelled_machine();
    const Allreduce *chosen = chosen_allreduce();
    Setup setup = {.is_ddp = true, .classes = 10, .k = k, .rows = rows};
    setup.network = &networks[strcmp(network, "lenet") == 0 ? 0 : 1];
    setup.options.bucket_bytes = bucket_bytes;
    StepRecord *step = record_one_step(&setup, machine);
    setup.options.bucket_bytes = ONE_BUCKET;
    StepRecord *one = record_one_step(&setup, machine);
    choose_this_allreduce(&no_exchange);
    StepRecord *none = record_one_step(&setup, machine);
    choose_this_allreduce(chosen);
    Exchange e = exchange_of(step, 0);
    OutputFile file = output_open(csv);
    Table t = TABLE(file.stream, WORDS("network", 9, .csv = "network"),
                    WHOLE("devices", .csv = "devices"), WHOLE("buckets", .csv = "buckets"),
                    DIGITS("a step", 4, .unit = "ms", .csv = "seconds"),
                    DIGITS("one bucket", 4, .unit = "ms", .csv = "one_bucket"),
                    DIGITS("no exchange", 4, .unit = "ms", .csv = "without"),
                    DIGITS("exchange", 4, .unit = "ms", .csv = "exchange"),
                    FIXED("under backward", 0, .unit = "%", .csv = "hidden"));
    table_text(&t, "%s", step->setup.network->title);
    table_numbers(&t, k, step->buckets, step->seconds, one->seconds, none->seconds, e.seconds,
                  e.hidden / e.seconds);
    output_close(&file);
    draw_overlap(step, svg);
    step_record_free(step);
    step_record_free(one);
    step_record_free(none);
}
