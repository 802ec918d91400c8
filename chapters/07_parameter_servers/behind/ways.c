// ways.c: see behind.h.
#include "behind.h"

#include "common/book.h"

enum { NUM_POINTS = 8, NUM_WAYS = 5, ASYNC = 1 };
static const Discipline ways[NUM_WAYS] = {{0, 0}, {NO_BOUND, 0}, {1, 0}, {3, 0}, {0, 1}};

// The same for all disciplines: about W times `clocks` pushes are taken.
static Schedule schedule_of(const Pace *pace, Discipline how, long clocks, uint64_t seed) {
    Pace p = *pace;
    p.seed = seed;
    return schedule_make(&p, how, clocks * pace->W / (pace->W - how.backup));
}

// ---- without values ----------------------------------------------------------------------------

// How stale the pushes are, as the servers count it.
static Staleness staleness_of(const Schedule *s) {
    Staleness all = {.count = 0};
    long applied = 0, based_on[MOST_WORKERS] = {0};
    for (int i = 0; i < s->count; i++) {
        const Happening *e = &s->list[i];
        if (e->kind == EVENT_PULL) based_on[e->worker] = applied;
        if (e->kind != EVENT_PUSH) continue;
        staleness_add(&all, in_rounds(s->how) ? 0 : applied - based_on[e->worker]);
        applied++;
    }
    return all;
}

// Of one schedule: the one of the first seed.
typedef struct Times {
    double seconds, taken, dropped, stale, most;
} Times;

static Times times_of(const Pace *pace, Discipline how, long clocks) {
    Schedule s = schedule_of(pace, how, clocks, pace->seed);
    Staleness stale = staleness_of(&s);
    Times t = {schedule_seconds(&s), (double)schedule_events(&s, EVENT_PUSH),
               (double)schedule_events(&s, EVENT_DROP), staleness_mean(&stale), (double)stale.most};
    schedule_free(&s);
    return t;
}

static double times_as_long(const Pace *pace, long clocks) {
    return times_of(pace, ways[0], clocks).seconds / times_of(pace, ways[ASYNC], clocks).seconds;
}

// ---- timelines ---------------------------------------------------------------------------------

static void add_span(TraceSpan spans[], int *n, int w, double start, double end, char *label) {
    spans[*n] = (TraceSpan){
        .device = try_gpu(w), .work = "LeNet", .label = label, .start = start, .end = end};
    spans[*n].number = *n;
    ++*n;
}

// What each worker does; free() the spans and their labels.
static TraceSpan *spans_of(const Schedule *s, const Pace *pace, int *n) {
    TraceSpan *spans = xcalloc(2 * (size_t)s->count, sizeof *spans);
    double pulled[MOST_WORKERS] = {0};
    *n = 0;
    for (int i = 0; i < s->count; i++) {
        const Happening *e = &s->list[i];
        int w = e->worker;
        double transfer = pace->transfer * pace->slow[w];
        if (e->kind == EVENT_PULL) {
            pulled[w] = e->time + transfer;
            add_span(spans, n, w, e->time, pulled[w], xstrdup("exchange pull"));
        } else {
            add_span(spans, n, w, pulled[w], e->computed, xprintf("compute %ld", e->clock));
            add_span(spans, n, w, e->time - transfer, e->time,
                     xstrdup(e->kind == EVENT_DROP ? "other dropped" : "exchange push"));
        }
    }
    trace_order(spans, *n);
    return spans;
}

// The first steps of each way: three steps of the slowest worker, if it never waited.
static void draw_first_steps(const char *path, const Pace *pace, const Discipline hows[], int n) {
    enum { MOST = 2, STEPS = 64 };
    Timeline timelines[MOST];
    double slowest = maximum(pace->slow, pace->W);
    double end = 3 * slowest * (pace->compute + 2 * pace->transfer);
    for (int i = 0; i < n; i++) {
        Schedule s = schedule_of(pace, hows[i], STEPS, pace->seed);
        int count, by_then = 0;
        TraceSpan *spans = spans_of(&s, pace, &count);
        char *name = discipline_name(hows[i]);
        for (int e = 0; e < s.count; e++)
            by_then += s.list[e].kind == EVENT_PUSH && s.list[e].time <= end;
        timelines[i] = (Timeline){.title = xprintf("%s: %d pushes", name, by_then),
                                  .set = {"modelled", spans, count, true},
                                  .end = end,
                                  .lane = "worker"};
        free(name);
        schedule_free(&s);
    }
    char *heading = xprintf("%d workers, one of them %g times slower, modelled as on %s", pace->W,
                            slowest, modelled_machine_name());
    timelines_draw(path, heading, "training began", timelines, n);
    for (int i = 0; i < n; i++) {
        for (int span = 0; span < timelines[i].set.count; span++)
            free((char *)timelines[i].set.spans[span].label);
        free((TraceSpan *)timelines[i].set.spans);
        free(timelines[i].title);
    }
    free(heading);
}

double show_slow_worker(const Pace *pace, long clocks) {
    Table t = TABLE(NULL, WORDS("", 12), WHOLE("pushes"), DIGITS("modelled", 3, .unit = "ms"));
    for (int i = 0; i <= ASYNC; i++) {
        char *name = discipline_name(ways[i]);
        Times times = times_of(pace, ways[i], clocks);
        table_text(&t, "%s", name);
        table_numbers(&t, times.taken, times.seconds);
        free(name);
    }
    draw_first_steps(book_timeline("_slow_worker.png"), pace, ways, ASYNC + 1);
    return times_as_long(pace, clocks);
}

void draw_bounds(const Pace *pace) {
    draw_first_steps(book_timeline("_bounds.png"), pace, ways + 3, pace->W > 1 ? 2 : 1);
}

void model_schedule(const Pace *pace, Discipline how, long clocks, const char *csv,
                    const char *svg) {
    const Discipline three[] = {how, ways[0], ways[ASYNC]};
    OutputFile file = output_open(csv);
    Table t = TABLE(file.stream, WORDS("", 12, .csv = "way"), WHOLE("workers", .csv = "workers"),
                    DIGITS("modelled", 3, .unit = "ms", .csv = "seconds"),
                    FIXED("mean stale", 2, .csv = "mean"), WHOLE("max", .csv = "most"),
                    WHOLE("dropped", .csv = "dropped"));
    for (int i = 0; i < 3; i++) {
        char *name = discipline_name(three[i]);
        Times times = times_of(pace, three[i], clocks);
        table_text(&t, "%s", name);
        table_numbers(&t, pace->W, times.seconds, times.stale, times.most, times.dropped);
        if (i == 0) book_result("%s training takes %.3g ms", name, 1e3 * times.seconds);
        free(name);
    }
    output_close(&file);
    draw_first_steps(svg, pace, &how, 1);
}

void show_machines(const PsLesson *l, const Pace *pace, long clocks) {
    const char *const names[] = {"dgx-a100", "p100-25gbe", "cluster-10gbe", "laptops-1gbe"};
    double even[MOST_WORKERS];
    for (int w = 0; w < pace->W; w++) even[w] = 1;
    printf("\n");
    Table t = TABLE(NULL, WORDS("", 13), DIGITS("compute", 2, .unit = "ms"),
                    DIGITS("transfer", 2, .unit = "ms"), DIGITS("links busy", 2, .unit = "ms"),
                    FIXED("one slow", 2), FIXED("links free", 2), FIXED("none slow", 2));
    for (int m = 0; m < 4; m++) {
        Pace p = pace_on(machine_find(names[m]), l, pace->slow), free_links = p, alike = p;
        free_links.busy = 0;
        alike.slow = even;
        table_text(&t, "%s", names[m]);
        table_numbers(&t, p.compute, p.transfer, p.busy, times_as_long(&p, clocks),
                      times_as_long(&free_links, clocks), times_as_long(&alike, clocks));
    }
}

// ---- trainings ---------------------------------------------------------------------------------

// One way, trained with several seeds, from the lesson's seed on.
typedef struct Way {
    char *name;
    PsResult results[NUM_SEEDS];
} Way;

static double last_accuracy(const PsResult *r) {
    return r->count > 0 ? r->points[r->count - 1].accuracy : NAN;
}

static PsResult train_once(const PsLesson *lesson, const Pace *pace, Discipline how, long clocks) {
    PsLesson l = *lesson;
    float *start = scaled_params(l.seed);
    Schedule s = schedule_of(pace, how, clocks, l.seed);
    l.start = start;
    PsResult r = ps_replay(&l, &s);
    Staleness stale = staleness_of(&s);
    CHECK(interrupted() || memcmp(&stale, &r.staleness, sizeof stale) == 0,
          "the servers count the staleness that the schedule has");
    free(start);
    schedule_free(&s);
    return r;
}

static Way train_way(const PsLesson *lesson, const Pace *pace, Discipline how, long clocks) {
    Way way = {.name = discipline_name(how)};
    for (int i = 0; i < NUM_SEEDS && !interrupted(); i++) {
        PsLesson l = *lesson;
        l.seed += (uint64_t)i;
        way.results[i] = train_once(&l, pace, how, clocks);
    }
    return way;
}

static void free_way(Way *way) {
    for (int i = 0; i < NUM_SEEDS; i++) ps_result_free(&way->results[i]);
    free(way->name);
}

static void accuracies_of(const Way *way, double values[NUM_SEEDS]) {
    for (int i = 0; i < NUM_SEEDS; i++) values[i] = last_accuracy(&way->results[i]);
}

static double mean_accuracy(const Way *way) {
    double values[NUM_SEEDS];
    accuracies_of(way, values);
    return mean(values, NUM_SEEDS);
}

// The mean, the least and the most over the seeds.
static void add_accuracies(Table *t, const Way *way) {
    double values[NUM_SEEDS];
    accuracies_of(way, values);
    table_numbers(t, mean(values, NUM_SEEDS), minimum(values, NUM_SEEDS),
                  maximum(values, NUM_SEEDS));
}

// How much larger the accuracy is than the other way's with the same seed: the mean, and half of
// its 95 % confidence interval (Student's t with 9 degrees of freedom).
static void add_difference(Table *t, const Way *way, const Way *other) {
    double a[NUM_SEEDS], b[NUM_SEEDS], squares = 0;
    accuracies_of(way, a);
    accuracies_of(other, b);
    for (int i = 0; i < NUM_SEEDS; i++) a[i] -= b[i];
    double middle = mean(a, NUM_SEEDS);
    for (int i = 0; i < NUM_SEEDS; i++) squares += (a[i] - middle) * (a[i] - middle);
    double half = 2.262 * sqrt(squares / (NUM_SEEDS - 1) / NUM_SEEDS);
    table_numbers(t, way == other ? NAN : middle, way == other ? NAN : half);
}

static void add_way(Table *t, const Way *way, const Way *sync, const Times *times) {
    table_text(t, "%s", way->name);
    table_numbers(t, times->taken, times->dropped, times->stale, times->most, times->seconds);
    add_accuracies(t, way);
    add_difference(t, way, sync);
}

static void write_points(const char *path, const Way trained[], int n, const Pace *pace,
                         const PsLesson *l) {
    OutputFile out = output_open(path);
    Table t = TABLE(out.stream, {.csv = "machine"}, {.csv = "workers"}, {.csv = "servers"},
                    {.csv = "seeds"}, {.csv = "slow"}, {.csv = "way"}, {.csv = "pushes"},
                    {.csv = "seconds"}, {.csv = "accuracy"}, {.csv = "least"}, {.csv = "most"},
                    {.csv = "lr"}, {.csv = "batch"});
    for (int w = 0; w < n; w++)
        for (int p = 0; p < NUM_POINTS; p++) {
            const PsPoint *first = &trained[w].results[0].points[p];
            double accuracy[NUM_SEEDS];
            for (int i = 0; i < NUM_SEEDS; i++)
                accuracy[i] = trained[w].results[i].points[p].accuracy;
            table_text(&t, "%s", modelled_machine_name());
            table_numbers(&t, pace->W, l->S, NUM_SEEDS, maximum(pace->slow, pace->W));
            table_text(&t, "%s", trained[w].name);
            table_numbers(&t, (double)first->pushes, first->time, mean(accuracy, NUM_SEEDS),
                          minimum(accuracy, NUM_SEEDS), maximum(accuracy, NUM_SEEDS), l->lr,
                          l->batch_size);
        }
    output_close(&out);
}

// Of the first seed, three at a time.
static void print_staleness(const Way *way) {
    enum { EACH = 3 };
    const PsResult *r = &way->results[0];
    printf("\n");
    Table t = TABLE(NULL, WORDS("stale", 8), WHOLE("pushes"), WORDS("", 50));
    for (long first = 0; first <= r->staleness.most; first += EACH) {
        long pushes = 0;
        for (long stale = first; stale < first + EACH && stale <= MOST_STALE; stale++)
            pushes += r->staleness.pushes[stale];
        table_text(&t, "%ld to %ld", first, first + EACH - 1);
        table_numbers(&t, (double)pushes);
        table_text(&t, "%.*s", (int)(50 * pushes / (r->applied + 1)),
                   "##################################################");
    }
}

double compare_ways(const PsLesson *lesson, const Pace *pace, long clocks) {
    PsLesson l = *lesson;
    l.points = NUM_POINTS;
    Way trained[NUM_WAYS];
    Times times[NUM_WAYS];
    int n = l.W > 1 ? NUM_WAYS : NUM_WAYS - 1, done = 0; // a backup needs another worker
    for (; done < n && !interrupted(); done++) {
        trained[done] = train_way(&l, pace, ways[done], clocks);
        times[done] = times_of(pace, ways[done], clocks);
    }
    if (!interrupted()) {
        const char *csv = book_csv("_disciplines.csv"), *png = book_output("_disciplines.png");
        printf("\n");
        Table t =
            TABLE(NULL, WORDS("", 12), WHOLE("pushes", .width = 5), WHOLE("dropped", .width = 3),
                  FIXED("stale", 2, .width = 4), WHOLE("max", .width = 3),
                  DIGITS("modelled", 3, .unit = "ms"), FIXED("accuracy", 3, .width = 5),
                  FIXED("least", 3, .width = 5), FIXED("most", 3, .width = 5),
                  FIXED("more", 3, .width = 6), FIXED("±", 3, .width = 5));
        for (int w = 0; w < n; w++) add_way(&t, &trained[w], &trained[0], &times[w]);
        write_points(csv, trained, n, pace, &l);
        print_staleness(&trained[ASYNC]);
        plot_draw(png, "disciplines.gp", csv);
    }
    for (int w = 0; w < done; w++) free_way(&trained[w]);
    return interrupted() ? NAN : times[ASYNC].stale;
}

double compare_rates(const PsLesson *lesson, long clocks) {
    enum { MANY = 8, NUM = 5 };
    static const struct {
        const char *name;
        int W, staleness, times; // the learning rate of a push is `times` times lr/8
    } rows[NUM] = {{"synchronous, lr/8", MANY, 0, 1},
                   {"asynchronous, lr/8", MANY, NO_BOUND, 1},
                   {"synchronous, lr", MANY, 0, MANY},
                   {"asynchronous, lr", MANY, NO_BOUND, MANY},
                   {"one worker, lr", 1, NO_BOUND, MANY}};
    if (lesson->batch_size % MANY != 0) return NAN;
    double control = NAN, even[MANY] = {1, 1, 1, 1, 1, 1, 1, 1};
    printf("\n");
    Table t = TABLE(NULL, WORDS("", 18), WHOLE("pushes"), FIXED("stale", 2), FIXED("accuracy", 3),
                    FIXED("least", 3), FIXED("most", 3));
    for (int i = 0; i < NUM && !interrupted(); i++) {
        PsLesson l = *lesson;
        long steps = clocks / 2 * MANY / rows[i].W; // half of the images are enough here
        l.W = rows[i].W;
        l.batch_size = lesson->batch_size * l.W / MANY; // one worker: the pushes of the eight
        l.lr *= (float)rows[i].times * (float)l.W / MANY;
        l.points = 1;
        Pace pace = pace_on(modelled_machine(), &l, even);
        Way way = train_way(&l, &pace, (Discipline){rows[i].staleness, 0}, steps);
        if (!interrupted()) {
            table_text(&t, "%s", rows[i].name);
            table_numbers(&t, (double)way.results[0].applied,
                          staleness_mean(&way.results[0].staleness));
            add_accuracies(&t, &way);
            if (rows[i].staleness == 0) control = mean_accuracy(&way);
        }
        free_way(&way);
    }
    return control;
}

void train_one_way(const PsLesson *lesson, const Pace *pace, Discipline how, long clocks) {
    PsLesson l = *lesson;
    l.points = NUM_POINTS;
    char *name = discipline_name(how);
    PsResult r = train_once(&l, pace, how, clocks);
    for (size_t i = 0; i < r.n; i++)
        if (!isfinite(r.params[i]))
            die("start again with a smaller --lr",
                "parameter %zu of LeNet is not a number any more", i);
    Table t = TABLE(NULL, WORDS("", 12), WHOLE("pushes"), WHOLE("dropped"), FIXED("stale", 2),
                    WHOLE("max"), DIGITS("modelled", 3, .unit = "ms"), FIXED("accuracy", 3));
    table_text(&t, "%s", name);
    table_numbers(&t, (double)r.applied, (double)r.dropped, staleness_mean(&r.staleness),
                  (double)r.staleness.most, r.seconds, last_accuracy(&r));
    book_result("%s training ends with a test accuracy of %.3f", name, last_accuracy(&r));
    free(name);
    ps_result_free(&r);
}
