// ways.c: see behind.h.
#include "behind.h"

#include "common/book.h"

enum { NUM_POINTS = 8, NUM_WAYS = 5, ASYNC = 1, BOUNDS = 3 };
static const Discipline ways[NUM_WAYS] = {{0, 0}, {NO_BOUND, 0}, {1, 0}, {3, 0}, {0, 1}};

// The same for all disciplines: about W times `clocks` pushes are taken.
static Schedule schedule_of(const Pace *pace, Discipline how, long clocks) {
    return schedule_make(pace, how, clocks * pace->W / (pace->W - how.backup));
}

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

static double seconds_of(const Pace *pace, Discipline how, long clocks) {
    Schedule s = schedule_of(pace, how, clocks);
    double seconds = schedule_seconds(&s);
    schedule_free(&s);
    return seconds;
}

static double times_as_long(const Pace *pace, long clocks) {
    return seconds_of(pace, ways[0], clocks) / seconds_of(pace, ways[ASYNC], clocks);
}

#define WAY_COLUMNS                                                                                \
    WORDS("", 12, .csv = "way"), WHOLE("dropped", .csv = "dropped"),                               \
        FIXED("stale", 2, .width = 4, .csv = "mean"), WHOLE("max", .width = 3, .csv = "most"),     \
        DIGITS("modelled", 3, .unit = "ms", .csv = "seconds")

static void add_way(Table *t, const Pace *pace, Discipline how, long clocks) {
    Schedule s = schedule_of(pace, how, clocks);
    Staleness stale = staleness_of(&s);
    char *name = discipline_name(how);
    table_text(t, "%s", name);
    table_numbers(t, (double)schedule_events(&s, EVENT_DROP), staleness_mean(&stale),
                  (double)stale.most, schedule_seconds(&s));
    free(name);
    schedule_free(&s);
}

void show_machines(const PsLesson *l, const Pace *pace, long clocks) {
    enum { MACHINES = 2, ROWS = 6 };
    const char *const names[MACHINES] = {"dgx-a100", "laptops-1gbe"};
    const char *const rows[ROWS] = {"a worker computes, ms", "a push or a pull, ms",
                                    "one worker is slow",    "only its GPU is slow",
                                    "all equally fast",      "and links never busy"};
    double values[MACHINES][ROWS];
    for (int m = 0; m < MACHINES; m++) {
        Pace p = pace_on(machine_find(names[m]), l, pace->slow), slow_gpu = p, alike = p;
        slow_gpu.even_links = true;
        alike.slow = NULL;
        Pace free_links = alike;
        free_links.busy = 0;
        values[m][0] = 1e3 * p.compute;
        values[m][1] = 1e3 * p.transfer;
        values[m][2] = times_as_long(&p, clocks);
        values[m][3] = times_as_long(&slow_gpu, clocks);
        values[m][4] = times_as_long(&alike, clocks);
        values[m][5] = times_as_long(&free_links, clocks);
    }
    printf("\n");
    Table t = TABLE(NULL, WORDS("", 21), DIGITS(names[0], 3), DIGITS(names[1], 3));
    for (int r = 0; r < ROWS; r++) {
        table_text(&t, "%s", rows[r]);
        table_numbers(&t, values[0][r], values[1][r]);
    }
}

static void add_span(Timeline *t, int w, double start, double end, char *label) {
    TraceSpan *span = (TraceSpan *)&t->set.spans[t->set.count];
    *span = (TraceSpan){.device = try_gpu(w), .work = "LeNet", .label = label};
    span->start = start;
    span->end = end;
    span->number = t->set.count++;
}

// An arrow below the last worker, from its first pull to its push: how many others this missed.
static void add_arrow(Timeline *t, const Schedule *s) {
    int missed = 0;
    bool has_pulled = false;
    for (const Happening *e = s->list; e < s->list + s->count && !t->arrow; e++) {
        bool is_last = e->worker == s->W - 1;
        if (!is_last) missed += has_pulled && e->kind == EVENT_PUSH;
        if (is_last && e->kind == EVENT_PULL) t->from = e->time;
        if (is_last && e->kind == EVENT_PUSH) {
            t->to = e->time;
            t->arrow = xprintf("worker %d's push misses %d others", e->worker, missed);
        }
        has_pulled = has_pulled || is_last;
    }
}

// What each worker does until `end`; free() title, arrow, spans and their labels.
static Timeline timeline_of_way(const Pace *pace, Discipline how, double end) {
    enum { STEPS = 64 };
    Schedule s = schedule_of(pace, how, STEPS);
    TraceSpan *spans = xcalloc(2 * (size_t)s.count, sizeof *spans);
    Timeline t = {.set = {"modelled", spans, 0, true}, .end = end, .lane = "worker"};
    t.other = "dropped push";
    double pulled[MOST_WORKERS] = {0};
    int pushes = 0, steps[MOST_WORKERS] = {0};
    for (const Happening *e = s.list; e < s.list + s.count; e++) {
        int w = e->worker;
        double transfer = pace->transfer * pace->slow[w];
        pushes += e->kind == EVENT_PUSH && e->time <= end;
        if (e->kind == EVENT_PULL) {
            pulled[w] = e->time + transfer;
            add_span(&t, w, e->time, pulled[w], xstrdup("exchange pull"));
            continue;
        }
        bool dropped = e->kind == EVENT_DROP;
        add_span(&t, w, pulled[w], e->computed, xprintf("compute %d", steps[w]++));
        add_span(&t, w, e->time - transfer, e->time,
                 xstrdup(dropped ? "other dropped" : "exchange push"));
    }
    trace_order(spans, t.set.count);
    if (how.staleness == NO_BOUND && pace->W > 1) add_arrow(&t, &s);
    char *name = discipline_name(how);
    t.title = xprintf("%s: %d pushes", name, pushes);
    free(name);
    schedule_free(&s);
    return t;
}

// The first steps in up to two ways: three steps of the slowest worker, if it never waited.
static void draw_first_steps(const char *path, const Pace *pace, const Discipline hows[], int n) {
    Timeline timelines[2];
    double slowest = maximum(pace->slow, pace->W);
    double end = 3 * slowest * (pace->compute + 2 * pace->transfer);
    for (int i = 0; i < n; i++) timelines[i] = timeline_of_way(pace, hows[i], end);
    char *heading = xprintf("%d workers, one of them %g times slower (modelled)", pace->W, slowest);
    timelines_draw(path, heading, "training began", timelines, n);
    for (int i = 0; i < n; i++) {
        const SpanSet *set = &timelines[i].set;
        for (int span = 0; span < set->count; span++) free((char *)set->spans[span].label);
        free((TraceSpan *)set->spans);
        free(timelines[i].title);
        free(timelines[i].arrow);
    }
    free(heading);
}

double show_slow_worker(const Pace *pace, long clocks) {
    double sync = seconds_of(pace, ways[0], clocks), async = seconds_of(pace, ways[ASYNC], clocks);
    printf("modelled: synchronous %.0f ms, asynchronous %.1f ms\n", 1e3 * sync, 1e3 * async);
    draw_first_steps(book_timeline("_slow_worker.png"), pace, ways, ASYNC + 1);
    return sync / async;
}

void show_bounds(const Pace *pace, long clocks) {
    Pace rest = *pace, stalls = *pace;
    rest.slow = stalls.slow = NULL;
    rest.W--; // the slow one
    stalls.odds = 0.1, stalls.stall = 4;
    printf("\n");
    Table t = TABLE(NULL, WORDS("", 20), DIGITS("sync.", 3, .unit = "ms"),
                    DIGITS("async.", 3, .unit = "ms"), DIGITS("SSP 1", 3, .unit = "ms"),
                    DIGITS("SSP 3", 3, .unit = "ms"), DIGITS("backup", 3, .unit = "ms"),
                    DIGITS("unplugged", 3, .unit = "ms"));
    for (const Pace *p = pace; p; p = p == pace ? &stalls : NULL) {
        table_text(&t, p == pace ? "1 worker is slow" : "1 step in 10 is slow");
        for (int i = 0; i < NUM_WAYS; i++)
            table_numbers(&t, ways[i].backup < p->W ? seconds_of(p, ways[i], clocks) : NAN);
        bool unplugged = p == pace && rest.W > 0;
        table_numbers(&t, unplugged ? seconds_of(&rest, ways[0], clocks * pace->W / rest.W) : NAN);
    }
    draw_first_steps(book_timeline("_bounds.png"), pace, ways + BOUNDS, pace->W > 1 ? 2 : 1);
}

void model_schedule(const Pace *pace, Discipline how, long clocks) {
    const Discipline three[] = {how, ways[0], ways[ASYNC]};
    OutputFile file = output_open(book_output("_schedule.csv"));
    Table t = TABLE(file.stream, WAY_COLUMNS);
    for (int i = 0; i < 3; i++) add_way(&t, pace, three[i], clocks);
    output_close(&file);
    draw_first_steps(book_timeline("_schedule.svg"), pace, &how, 1);
    book_result("this way takes %.3g ms", 1e3 * seconds_of(pace, how, clocks));
}

// One way, trained with several seeds, from the lesson's seed on.
typedef struct Way {
    PsResult results[NUM_SEEDS];
    double accuracies[NUM_SEEDS]; // at the end
} Way;

static Way train_way(const PsLesson *lesson, const Pace *pace, Discipline how, long clocks) {
    Way way = {.accuracies = {0}};
    PsLesson l = *lesson;
    Pace p = *pace;
    for (int i = 0; i < NUM_SEEDS && !interrupted(); i++, p.seed = ++l.seed) {
        PsResult *r = &way.results[i];
        float *start = scaled_params(l.seed);
        Schedule s = schedule_of(&p, how, clocks);
        Staleness stale = staleness_of(&s);
        l.start = start;
        *r = ps_replay(&l, &s);
        CHECK(interrupted() || memcmp(&stale, &r->staleness, sizeof stale) == 0,
              "the servers count the staleness that the schedule has");
        if (r->count > 0) way.accuracies[i] = r->points[r->count - 1].accuracy;
        free(start);
        schedule_free(&s);
    }
    return way;
}

static void free_way(Way *way) {
    for (int i = 0; i < NUM_SEEDS; i++) ps_result_free(&way->results[i]);
}

// The mean, and half of its 95 % confidence interval (Student's t with 9 degrees of freedom).
static void add_mean(Table *t, const double values[NUM_SEEDS]) {
    double middle = mean(values, NUM_SEEDS), squares = 0;
    for (int i = 0; i < NUM_SEEDS; i++) squares += (values[i] - middle) * (values[i] - middle);
    table_numbers(t, middle, 2.262 * sqrt(squares / (NUM_SEEDS - 1) / NUM_SEEDS));
}

// The accuracy at each point, over pushes and time of the first seed.
static void write_points(const char *path, const Way trained[], int n, const Pace *pace,
                         const PsLesson *l) {
    OutputFile out = output_open(path);
    fprintf(out.stream, "machine,workers,servers,seeds,slow,way,pushes,seconds,accuracy,least,most,"
                        "lr,batch\n");
    for (int i = 0; i < n * NUM_POINTS; i++) {
        const Way *way = &trained[i / NUM_POINTS];
        const PsPoint *first = &way->results[0].points[i % NUM_POINTS];
        double all[NUM_SEEDS];
        char *name = discipline_name(ways[i / NUM_POINTS]);
        for (int s = 0; s < NUM_SEEDS; s++)
            all[s] = way->results[s].points[i % NUM_POINTS].accuracy;
        fprintf(out.stream, "%s,%d,%d,%d,%g,%s,%ld,%.9g,%.6f,%.6f,%.6f,%g,%d\n",
                modelled_machine_name(), pace->W, l->S, NUM_SEEDS, maximum(pace->slow, pace->W),
                name, first->pushes, first->time, mean(all, NUM_SEEDS), minimum(all, NUM_SEEDS),
                maximum(all, NUM_SEEDS), (double)l->lr, l->batch_size);
        free(name);
    }
    output_close(&out);
}

static void train_ways(const PsLesson *lesson, const Pace *pace, const Discipline hows[], int n,
                       long clocks, Way trained[]) {
    PsLesson l = *lesson;
    l.points = NUM_POINTS;
    printf("\n");
    Table t = TABLE(NULL, WAY_COLUMNS, FIXED("accuracy", 3), FIXED("more", 3, .width = 6),
                    FIXED("±", 3, .width = 5));
    for (int i = 0; i < n; i++) {
        trained[i] = train_way(&l, pace, hows[i], clocks);
        if (interrupted()) continue;
        add_way(&t, pace, hows[i], clocks);
        table_numbers(&t, mean(trained[i].accuracies, NUM_SEEDS));
        double more[NUM_SEEDS]; // than the first way with the same seed
        for (int s = 0; s < NUM_SEEDS; s++)
            more[s] = i > 0 ? trained[i].accuracies[s] - trained[0].accuracies[s] : NAN;
        add_mean(&t, more);
    }
}

void compare_ways(const PsLesson *l, const Pace *pace, long clocks) {
    const char *csv = book_output("_disciplines.csv"), *png = book_output("_disciplines.png");
    Way trained[NUM_WAYS];
    int n = l->W > 1 ? NUM_WAYS : NUM_WAYS - 1; // a backup needs another worker
    train_ways(l, pace, ways, n, clocks, trained);
    if (!interrupted()) {
        write_points(csv, trained, n, pace, l);
        plot_draw(png, "disciplines.gp", csv);
    }
    for (int w = 0; w < n; w++) free_way(&trained[w]);
}

void train_one_way(const PsLesson *l, const Pace *pace, Discipline how, long clocks) {
    Way way;
    train_ways(l, pace, &how, 1, clocks, &way);
    book_result("the test accuracy is %.3f, the mean of %d seeds", mean(way.accuracies, NUM_SEEDS),
                NUM_SEEDS);
    free_way(&way);
}

double compare_rates(const PsLesson *lesson, long clocks) {
    enum { MANY = 8, NUM_COLUMNS = 3 };
    static const int bounds[NUM_COLUMNS] = {0, NO_BOUND, NO_BOUND}; // the last is one worker
    double control = NAN;
    if (lesson->batch_size % MANY != 0) return NAN;
    printf("\n");
    Table t = TABLE(NULL, WORDS("rate of a push", 14), FIXED("synchronous", 3), FIXED("±", 3),
                    FIXED("asynchronous", 3), FIXED("±", 3), FIXED("one worker", 3), FIXED("±", 3));
    for (int part = MANY; part > 0 && !interrupted(); part /= 2) {
        table_text(&t, part > 1 ? "lr/%d" : "lr", part);
        for (int i = 0; i < NUM_COLUMNS; i++) {
            PsLesson l = *lesson;
            l.W = i + 1 < NUM_COLUMNS ? MANY : 1;
            l.batch_size = lesson->batch_size * l.W / MANY; // one worker: the pushes of the eight
            l.lr *= (float)l.W / (float)part;
            Pace pace = pace_on(modelled_machine(), &l, NULL);
            Way way = train_way(&l, &pace, (Discipline){bounds[i], 0},
                                (clocks + 1) / 2 * MANY / l.W); // half of the images are enough
            add_mean(&t, way.accuracies);
            if (i == 0) control = mean(way.accuracies, NUM_SEEDS);
            free_way(&way);
        }
    }
    return control;
}
