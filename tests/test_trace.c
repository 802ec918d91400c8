// test_trace.c: traces (common/device/trace.h) know the sides of copies, steps, each other and
// their limit; and what is written of them: Chrome's trace format and pictures.
#include <jansson.h>

#include "common/device/trace.h"
#include "common/program/chrome_trace.h"
#include "common/program/sheet.h"
#include "common/program/timeline.h"
#include "common/tensor/tensor.h"
#include "dies.h"

enum { N = 1000 };

static void fill_on(Device *device, Tensor *t, float value) {
    launch(device, fill, .x = t->data, .value = value, .n = N);
}

// Work on two devices with copies of all kinds: from the host, there and back, within a device, to
// the host, and one in a communication queue.
typedef struct Work {
    Device *devices[2];
    Tensor *a[2], *b[2], *from_host, *to_host;
} Work;

static Work work_new(void) {
    Work w = {.from_host = tensor_new(host(), N), .to_host = tensor_new(host(), N)};
    tensor_fill(w.from_host, 1);
    open_devices(w.devices, 2);
    for (int i = 0; i < 2; i++) {
        w.a[i] = tensor_new(w.devices[i], N);
        w.b[i] = tensor_new(w.devices[i], N);
    }
    return w;
}

static void work_free(Work *w) {
    for (int i = 0; i < 2; i++) {
        tensor_free(w->a[i]);
        tensor_free(w->b[i]);
    }
    tensor_free(w->from_host);
    tensor_free(w->to_host);
}

static void send_beside(Work *w) {
    Queue *queue = comm_queue(w->devices[1]);
    for (int i = 0; i < 2; i++) queue_wait(queue, device_record(w->devices[i]));
    queue_copy(queue, w->devices[1], w->b[1]->data, w->devices[0], w->a[0]->data, N);
    device_wait(w->devices[0], queue_record(queue));
    device_wait(w->devices[1], queue_record(queue));
}

static void work_once(Work *w) {
    tensor_copy(w->a[0], w->from_host);
    fill_on(w->devices[0], w->b[0], 2);
    fill_on(w->devices[1], w->a[1], 3);
    tensor_copy(w->a[1], w->a[0]);
    tensor_copy(w->b[0], w->a[1]);
    tensor_copy(w->b[1], w->a[1]);
    send_beside(w);
    fill_on(w->devices[1], w->b[1], 4);
    tensor_copy(w->to_host, w->a[1]);
}

// ---- spans -------------------------------------------------------------------------------------

static uint64_t traced_bytes(const TraceSpan spans[], int count, const Device *from,
                             const Device *to) {
    uint64_t bytes = 0;
    for (int i = 0; i < count; i++)
        if (spans[i].from == from && spans[i].to == to) bytes += spans[i].bytes;
    return bytes;
}

static void copies_have_the_bytes_of_the_ledger(void **state) {
    (void)state;
    Work w = work_new();
    const Device *places[] = {w.devices[0], w.devices[1], host()};
    ledger_reset();
    trace_begin();
    work_once(&w);
    int count;
    TraceSpan *spans = trace_end(&count);
    for (int from = 0; from < 3; from++)
        for (int to = 0; to < 3; to++)
            assert_true(from == to || traced_bytes(spans, count, places[from], places[to]) ==
                                          ledger_bytes(places[from], places[to]));
    assert_true(traced_bytes(spans, count, w.devices[0], w.devices[1]) == N * sizeof(float) + N);
    assert_true(traced_bytes(spans, count, w.devices[1], w.devices[1]) == N * sizeof(float));
    for (int i = 0; i < count; i++)
        if (strcmp(spans[i].work, "fill") == 0)
            assert_true(!spans[i].from && !spans[i].to && spans[i].bytes == 0);
    free(spans);
    work_free(&w);
}

static void traces_nest(void **state) {
    (void)state;
    Device *device = try_gpu(0);
    Tensor *t = tensor_new(device, N);
    int in_inner, in_outer;
    trace_begin();
    trace_label("outer");
    fill_on(device, t, 1);
    trace_begin();
    fill_on(device, t, 2);
    trace_label("inner");
    fill_on(device, t, 3);
    TraceSpan *inner = trace_end(&in_inner);
    fill_on(device, t, 4);
    TraceSpan *outer = trace_end(&in_outer);
    const char *const labels[4] = {"outer", "", "inner", "outer"};
    assert_int_equal(in_inner, 2);
    assert_int_equal(in_outer, 4);
    for (int i = 0; i < 4; i++) assert_string_equal(outer[i].label, labels[i]);
    for (int i = 0; i < 2; i++) {
        const TraceSpan *a = &inner[i], *b = &outer[i + 1];
        assert_string_equal(a->label, b->label);
        assert_true(a->start >= 0 && b->start >= a->start);
        assert_true(fabs((b->end - b->start) - (a->end - a->start)) < 1e-9);
    }
    free(inner);
    free(outer);
    tensor_free(t);
}

// A trace may begin before the devices that it will see are open.
static void devices_may_open_later(void **state) {
    (void)state;
    devices_close();
    trace_begin();
    Device *device = try_gpu(0);
    Tensor *t = tensor_new(device, N), *u = tensor_new(device, N);
    fill_on(device, t, 1);
    launch_on(comm_queue(device), fill, .x = u->data, .value = 2, .n = N);
    int count;
    TraceSpan *spans = trace_end(&count);
    assert_int_equal(count, 2);
    assert_true(!spans[0].communicates && spans[1].communicates);
    free(spans);
    tensor_free(t);
    tensor_free(u);
}

static void a_full_trace_keeps_the_first(void **state) {
    (void)state;
    Device *device = try_gpu(0);
    Tensor *t = tensor_new(device, N);
    int count;
    trace_begin_at_most(3);
    for (int i = 1; i <= 2; i++) fill_on(device, t, (float)i);
    trace_begin(); // has no limit of its own
    trace_label("inner");
    for (int i = 1; i <= 4; i++) fill_on(device, t, (float)i);
    free(trace_end(&count));
    assert_int_equal(count, 4);
    assert_false(trace_left_out());
    fill_on(device, t, 5);
    TraceSpan *spans = trace_end(&count);
    assert_int_equal(count, 3);
    assert_true(trace_left_out());
    assert_string_equal(spans[1].label, "");
    assert_string_equal(spans[2].label, "inner");
    free(spans);
    trace_begin_at_most(2);
    for (int i = 1; i <= 2; i++) fill_on(device, t, (float)i);
    free(trace_end(&count));
    assert_int_equal(count, 2);
    assert_false(trace_left_out());
    tensor_free(t);
}

static void steps_have_numbers(void **state) {
    (void)state;
    Device *device = try_gpu(0);
    Tensor *t = tensor_new(device, N);
    const long steps[] = {0, 1, 2, 0, 3, 1, 1, 7};
    const int trainings[] = {0, 1, 1, 0, 1, 2, 3, 3};
    int count, before = 0;
    trace_begin();
    for (int i = 0; i < 8; i++) {
        trace_step(steps[i]);
        fill_on(device, t, 1);
    }
    trace_step(0);
    TraceSpan *spans = trace_end(&count);
    assert_int_equal(count, 8);
    before = spans[1].training - 1; // of the program, not of the trace
    for (int i = 0; i < 8; i++) {
        assert_int_equal(spans[i].step, steps[i]);
        assert_int_equal(spans[i].training, trainings[i] ? trainings[i] + before : 0);
    }
    free(spans);
    tensor_free(t);
}

static void close_while_traced(void *nothing) {
    (void)nothing;
    trace_begin();
    devices_close();
}

static void end_without_begin(void *nothing) {
    int count;
    (void)nothing;
    free(trace_end(&count));
}

static void mistakes_end_the_program(void **state) {
    (void)state;
    devices_close(); // the child has no threads but its own
    expect_death(1, "trace_end() comes before", close_while_traced, NULL);
    expect_death(1, "trace_begin() comes first", end_without_begin, NULL);
}

// ---- kinds of work -----------------------------------------------------------------------------

static void kinds_of_work(void **state) {
    (void)state;
    Device *a = try_gpu(0), *b = try_gpu(1);
    const struct {
        TraceSpan span;
        WorkKind kind;
        const char *detail;
    } cases[] = {
        {{.work = "gemm", .label = ""}, WORK_FORWARD, "gemm"},
        {{.work = "copy", .label = "", .from = host(), .to = a}, WORK_LOAD, "copy"},
        {{.work = "gemm", .label = ""}, WORK_FORWARD, "gemm"},
        {{.work = "copy", .label = "", .from = host(), .to = a}, WORK_LOAD, "copy"},
        {{.work = "fill", .label = ""}, WORK_OTHER, "fill"},
        {{.work = "conv2d_forward", .label = ""}, WORK_FORWARD, "conv2d_forward"},
        {{.work = "gemm", .label = ""}, WORK_FORWARD, "gemm"},
        {{.work = "conv2d_backward_input", .label = ""}, WORK_BACKWARD, "conv2d_backward_input"},
        {{.work = "gemm", .label = ""}, WORK_BACKWARD, "gemm"},
        {{.work = "copy", .label = "", .from = a, .to = b}, WORK_EXCHANGE, "copy"},
        {{.work = "add", .label = ""}, WORK_EXCHANGE, "add"},
        {{.work = "copy", .label = "", .from = a, .to = a}, WORK_EXCHANGE, "copy"},
        {{.work = "fill", .label = ""}, WORK_OTHER, "fill"},
        {{.work = "sgd", .label = ""}, WORK_UPDATE, "sgd"},
        {{.work = "copy", .label = "", .from = b, .to = host()}, WORK_READ, "copy"},
        {{.work = "sgd", .label = "forward conv1"}, WORK_FORWARD, "conv1"},
        {{.work = "copy", .label = "load", .from = a, .to = b}, WORK_LOAD, ""},
        {{.work = "sgd", .label = "forwarding"}, WORK_UPDATE, "forwarding"},
    };
    WorkKind kind = WORK_OTHER;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kind = work_kind(&cases[i].span, kind);
        assert_int_equal(kind, cases[i].kind);
        assert_string_equal(work_detail(&cases[i].span), cases[i].detail);
    }
}

// ---- Chrome's trace format ---------------------------------------------------------------------

static json_t *read_events(const char *path) {
    json_t *file = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(file);
    json_t *events = json_incref(json_object_get(file, "traceEvents"));
    json_decref(file);
    assert_true(json_is_array(events));
    return events;
}

static bool is_phase(const json_t *event, const char *phase) {
    return strcmp(json_string_value(json_object_get(event, "ph")), phase) == 0;
}

static long long field(const json_t *event, const char *name) {
    const json_t *value = json_object_get(event, name);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

// Microseconds, as whole nanoseconds.
static long long time_field(const json_t *event, const char *name) {
    const json_t *value = json_object_get(event, name);
    assert_true(json_is_number(value));
    return llround(1e3 * json_number_value(value));
}

static bool same_lane(const json_t *a, const json_t *b) {
    return field(a, "pid") == field(b, "pid") && field(a, "tid") == field(b, "tid");
}

static void assert_nothing_overlaps(const json_t *events) {
    const json_t *last = NULL;
    size_t i;
    json_t *event;
    json_array_foreach(events, i, event) {
        if (!is_phase(event, "X")) continue;
        assert_true(time_field(event, "ts") >= 0 && time_field(event, "dur") >= 0);
        if (last && same_lane(event, last))
            assert_true(time_field(event, "ts") >=
                        time_field(last, "ts") + time_field(last, "dur"));
        last = event;
    }
}

// The piece of work that an end of an arrow lies in.
static const json_t *work_around(const json_t *events, const json_t *end) {
    long long time = time_field(end, "ts");
    size_t i;
    json_t *event;
    json_array_foreach(events, i, event) {
        if (!is_phase(event, "X") || !same_lane(event, end)) continue;
        long long start = time_field(event, "ts"), dur = time_field(event, "dur");
        if (time >= start && (time < start + dur || dur == 0)) return event;
    }
    fail_msg("an arrow ends in no piece of work");
    return NULL;
}

static const json_t *head_of(const json_t *events, long long id) {
    const json_t *head = NULL;
    size_t i;
    json_t *event;
    json_array_foreach(events, i, event) {
        if (!is_phase(event, "f") || field(event, "id") != id) continue;
        assert_null(head);
        head = event;
    }
    assert_non_null(head);
    return head;
}

// Each arrow has both ends, in two lanes of one process, goes forward in time, and has a copy at
// one end. Returns how many there are.
static int count_arrows(const json_t *events) {
    int arrows = 0, heads = 0;
    size_t i;
    json_t *event;
    json_array_foreach(events, i, event) {
        heads += is_phase(event, "f");
        if (!is_phase(event, "s")) continue;
        const json_t *head = head_of(events, field(event, "id"));
        const json_t *from = work_around(events, event), *to = work_around(events, head);
        assert_true(field(event, "pid") == field(head, "pid") && !same_lane(event, head));
        assert_true(time_field(head, "ts") >= time_field(event, "ts"));
        assert_true(strcmp(json_string_value(json_object_get(from, "name")), "copy") == 0 ||
                    strcmp(json_string_value(json_object_get(to, "name")), "copy") == 0);
        arrows++;
    }
    assert_int_equal(arrows, heads);
    return arrows;
}

static uint64_t written_bytes(const json_t *events, const char *from, const char *to) {
    uint64_t bytes = 0;
    size_t i;
    json_t *event;
    json_array_foreach(events, i, event) {
        const json_t *args = json_object_get(event, "args");
        const char *its_from = json_string_value(json_object_get(args, "from"));
        const char *its_to = json_string_value(json_object_get(args, "to"));
        if (its_from && strcmp(its_from, from) == 0 && strcmp(its_to, to) == 0)
            bytes += (uint64_t)field(args, "bytes");
    }
    return bytes;
}

static void a_file_for_chrome(void **state) {
    (void)state;
    Work w = work_new();
    ledger_reset();
    trace_begin();
    trace_step(1);
    for (int i = 0; i < 3; i++) work_once(&w);
    trace_step(0);
    SpanSet sets[2] = {{.name = "measured here"}, {.name = "twice"}};
    TraceSpan *spans = trace_end(&sets[0].count);
    sets[0].spans = sets[1].spans = spans;
    sets[1].count = sets[0].count;
    const char *path = in_test_folder("trace.json");
    chrome_trace_write(path, sets, 2);
    json_t *events = read_events(path);
    assert_nothing_overlaps(events);
    assert_int_equal(count_arrows(events), 2 * 3 * 3); // sets, times, copies between the devices
    for (int i = 0; i < 2; i++)
        assert_true(
            written_bytes(events, device_name(w.devices[i]), device_name(w.devices[1 - i])) ==
            2 * ledger_bytes(w.devices[i], w.devices[1 - i]));
    json_decref(events);
    free(spans);
    work_free(&w);
}

// Of the process or of a thread, by what `of_what` says.
static const char *name_in(const json_t *events, const char *of_what, long long tid) {
    size_t i;
    json_t *event;
    json_array_foreach(events, i, event) {
        const char *name = json_string_value(json_object_get(event, "name"));
        if (is_phase(event, "M") && field(event, "tid") == tid && strcmp(name, of_what) == 0)
            return json_string_value(json_object_get(json_object_get(event, "args"), "name"));
    }
    return "";
}

static void names_are_escaped(void **state) {
    (void)state;
    const char *strange = "a \"label\"\\ with\n\x01 and µ";
    Device *device = try_gpu(0);
    TraceSpan spans[] = {
        {.device = device, .work = "gemm", .label = strange, .start = 0, .end = 1},
        {.device = device, .communicates = true, .work = strange, .label = "", .end = 1e-9}};
    const char *path = in_test_folder("strange.json");
    chrome_trace_write(path, &(SpanSet){strange, spans, 2}, 1);
    json_t *events = read_events(path);
    assert_string_equal(name_in(events, "process_name", 0), strange);
    char *compute = NULL, *communication = NULL;
    long long tid = 0;
    size_t i;
    json_t *event;
    json_array_foreach(events, i, event) {
        if (!is_phase(event, "X")) continue;
        bool first = strcmp(json_string_value(json_object_get(event, "name")), "gemm") == 0;
        const char *text = json_string_value(json_object_get(event, first ? "cat" : "name"));
        assert_string_equal(text, strange);
        tid = field(event, "tid");
        if (first) compute = strdup(name_in(events, "thread_name", tid));
        if (!first) communication = strdup(name_in(events, "thread_name", tid));
    }
    char expected[64];
    snprintf(expected, sizeof expected, "%s compute", device_name(device));
    assert_string_equal(compute, expected);
    snprintf(expected, sizeof expected, "%s communication", device_name(device));
    assert_string_equal(communication, expected);
    free(compute);
    free(communication);
    json_decref(events);
}

// A GPU's times are floats: they may seem to overlap by a little.
static void what_seems_to_overlap_does_not(void **state) {
    (void)state;
    Device *a = try_gpu(0), *b = try_gpu(1);
    const TraceSpan spans[] = {
        {.device = a, .work = "gemm", .label = "", .start = -1e-6, .end = 1e-3},
        {.device = a, .work = "add", .label = "", .start = 0.8e-3, .end = 0.9e-3},
        {.device = b, .work = "gemm", .label = "", .start = 1e-3, .end = 3e-3},
        {.device = b, .work = "copy", .label = "", .start = 2e-3, .end = 4e-3, .from = a, .to = b},
        {.device = b, .work = "add", .label = "", .start = 2.5e-3, .end = 5e-3}};
    const char *path = in_test_folder("overlap.json");
    chrome_trace_write(path, &(SpanSet){"measured here", spans, 5}, 1);
    json_t *events = read_events(path);
    assert_nothing_overlaps(events);
    assert_int_equal(count_arrows(events), 1);
    json_decref(events);
}

static void an_empty_trace_is_a_file(void **state) {
    (void)state;
    const char *path = in_test_folder("empty.json");
    chrome_trace_write(path, &(SpanSet){.name = "nothing"}, 1);
    json_t *events = read_events(path);
    assert_int_equal(json_array_size(events), 1);
    json_decref(events);
}

static void write_into(void *path) { chrome_trace_write(path, &(SpanSet){.name = "nothing"}, 1); }

static void an_unwritable_file_ends_the_program(void **state) {
    (void)state;
    expect_death(1, "nowhere", write_into, (char *)in_test_folder("nowhere/trace.json"));
}

// ---- pictures ----------------------------------------------------------------------------------

static TraceSpan of_step(int training, long step, double start, double end) {
    return (TraceSpan){.device = try_gpu(0),
                       .work = "sgd",
                       .label = "",
                       .start = start,
                       .end = end,
                       .training = training,
                       .step = step};
}

static void assert_shows(const TraceSpan spans[], int count, double start, double end,
                         const char *title) {
    Timeline t = timeline_of((SpanSet){"measured here", spans, count});
    assert_true(fabs(t.start - start) < 1e-12 && fabs(t.end - end) < 1e-12);
    assert_string_equal(t.title, title);
    free(t.title);
}

static void second_step_of_the_last_training(void **state) {
    (void)state;
    const TraceSpan spans[] = {
        of_step(0, 0, 0, 1), of_step(1, 1, 1, 2), of_step(1, 2, 2, 3), of_step(1, 3, 3, 4),
        of_step(2, 6, 4, 5), of_step(2, 8, 7, 8), of_step(2, 7, 5, 6), of_step(2, 7, 6, 6.5),
    };
    assert_shows(spans, 8, 5, 6.5, "measured here: step 7 of the last training, 1.5 s");
    assert_shows(spans, 5, 4, 5, "measured here: step 6 of the last training, 1 s");
    assert_shows(spans, 3, 2, 3, "measured here: step 2 of the training, 1 s");
    assert_shows(spans, 1, 0, 1, "measured here: all that was enqueued, 1 s");
    assert_shows(spans, 0, 0, 0, "measured here: all that was enqueued, 0 µs");
}

static void equal_spans_stay_as_recorded(void **state) {
    (void)state;
    TraceSpan spans[] = {of_step(0, 0, 1, 1), of_step(0, 0, 1, 1), of_step(0, 0, 1, 1)};
    for (int i = 0; i < 3; i++) spans[i].number = (i + 2) % 3;
    trace_order(spans, 3);
    for (int i = 0; i < 3; i++) assert_int_equal(spans[i].number, i);
}

// Returns the height that the PNG says it has.
static int draw(const char *name, SpanSet set) {
    const char *path = in_test_folder(name);
    Timeline t = timeline_of(set);
    size_t size;
    timelines_draw(path, "A heading", "the step began", &t, 1);
    free(t.title);
    char *bytes = read_bytes_of(path, &size);
    assert_true(size > 24 && memcmp(bytes, "\x89PNG", 4) == 0);
    int height = (unsigned char)bytes[22] << 8 | (unsigned char)bytes[23];
    free(bytes);
    return height;
}

static void pictures_have_a_lane_for_each_queue(void **state) {
    (void)state;
    TraceSpan spans[MAX_COMPUTING + 1];
    for (int i = 0; i < MAX_COMPUTING; i++) {
        spans[i] = of_step(0, 0, i, i + 1);
        spans[i].device = try_gpu(i);
    }
    int none = draw("0.png", (SpanSet){"a", spans, 0});
    int one = draw("1.png", (SpanSet){"a", spans, 1});
    assert_int_equal(draw("3.png", (SpanSet){"a", spans, 3}) - none, 3 * (one - none));
    int all = draw("64.png", (SpanSet){"a", spans, MAX_COMPUTING});
    assert_int_equal(all - none, 64 * (one - none));
    spans[MAX_COMPUTING] = spans[MAX_COMPUTING - 1];
    spans[MAX_COMPUTING].communicates = true; // one more than there is room for
    assert_int_equal(draw("65.png", (SpanSet){"a", spans, MAX_COMPUTING + 1}), all);
}

// ---- the same as SVG ---------------------------------------------------------------------------

// Draws, and returns the text of the SVG; free() it.
static char *draw_svg(SpanSet set) {
    size_t size;
    draw("as.png", set);
    char *svg = read_bytes_of(in_test_folder("as.svg"), &size);
    assert_non_null(svg);
    assert_int_equal(strlen(svg), size);
    assert_true(strncmp(svg, "<svg ", 5) == 0 && strcmp(svg + size - 7, "</svg>\n") == 0);
    assert_true(size < 1000000);
    return svg;
}

static int count_of(const char *text, const char *part) {
    int n = 0;
    for (; (text = strstr(text, part)); text++) n++;
    return n;
}

static void bars_say_what_when_and_how_much(void **state) {
    (void)state;
    Device *device = try_gpu(0);
    const TraceSpan spans[] = {{.device = device,
                                .work = "copy",
                                .label = "",
                                .start = 0,
                                .end = 1e-3,
                                .from = host(),
                                .to = device,
                                .bytes = 3000000},
                               {.device = device,
                                .work = "conv2d_forward",
                                .label = "forward conv1",
                                .start = 1e-3,
                                .end = 3.5e-3},
                               {.device = device,
                                .work = "sgd",
                                .label = "a < b & \"c\" \xff\x01 µ",
                                .start = 3.5e-3,
                                .end = 4e-3}};
    char *svg = draw_svg((SpanSet){"measured here", spans, 3}), expected[200];
    const char *name = device_name(device);
    assert_int_equal(count_of(svg, "<rect"), 1 + 3); // the idle lane, and its work
    snprintf(expected, sizeof expected,
             "<title>load (copy) on %s, 0.000 ms to 1.000 ms, 3 MB from host to %s</title>", name,
             name);
    assert_non_null(strstr(svg, expected));
    snprintf(expected, sizeof expected,
             "<title>forward conv1 (conv2d_forward) on %s, 1.000 ms to 3.500 ms</title>", name);
    assert_non_null(strstr(svg, expected));
    assert_non_null(strstr(svg, "a &lt; b &amp; &quot;c&quot; ?? µ (sgd)"));
    assert_non_null(strstr(svg, ">milliseconds since the step began<"));
    free(svg);
}

// Many pieces in turn of these two kinds, one behind the other, in `lanes` lanes.
static char *draw_many(int lanes, int each, const char *one, const char *other) {
    TraceSpan *spans = calloc((size_t)(lanes * each), sizeof *spans);
    assert_non_null(spans);
    for (int i = 0; i < lanes * each; i++) {
        spans[i] = of_step(0, 0, i % each, i % each + 1);
        spans[i].device = try_gpu(i / each);
        spans[i].label = i % 2 ? one : other;
    }
    char *svg = draw_svg((SpanSet){"measured here", spans, lanes * each});
    free(spans);
    return svg;
}

static void what_is_too_much_becomes_fewer_bars(void **state) {
    (void)state;
    char *all = draw_many(1, 4000, "forward", "backward");
    assert_int_equal(count_of(all, "<rect"), 1 + 4000);
    assert_null(strstr(all, "pieces of work"));
    free(all);
    char *one_kind = draw_many(1, 5000, "forward", "forward");
    assert_int_equal(count_of(one_kind, "<rect"), 1 + 1);
    assert_non_null(strstr(one_kind, "<title>5000 pieces of work"));
    free(one_kind);
    char *two_kinds = draw_many(MAX_COMPUTING, 1500, "forward", "exchange");
    int bars = count_of(two_kinds, "<rect") - MAX_COMPUTING;
    assert_true(bars > 1000 && bars <= 4000);
    free(two_kinds);
}

static void draw_into(void *path) {
    timelines_draw(path, "A heading", "the step began", &(Timeline){.title = "none"}, 1);
}

static void an_svg_is_whole_or_not_there(void **state) {
    (void)state;
    assert_int_equal(mkdir(in_test_folder("taken.svg"), 0777), 0);
    expect_death(1, "taken.svg", draw_into, (char *)in_test_folder("taken.png"));
    assert_int_equal(symlink("/dev/full", in_test_folder("full.svg")), 0);
    expect_death(1, "No space left", draw_into, (char *)in_test_folder("full.png"));
    char *beside = sheet_svg_path("folder.png/x");
    assert_string_equal(beside, "folder.png/x.svg");
    free(beside);
    assert_null(sheet_svg_path("/dev/null"));
}

static int close_and_remove(void **state) {
    devices_close();
    return remove_test_folder(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_have_the_bytes_of_the_ledger),
        cmocka_unit_test(traces_nest),
        cmocka_unit_test(devices_may_open_later),
        cmocka_unit_test(a_full_trace_keeps_the_first),
        cmocka_unit_test(steps_have_numbers),
        cmocka_unit_test(mistakes_end_the_program),
        cmocka_unit_test(kinds_of_work),
        cmocka_unit_test(a_file_for_chrome),
        cmocka_unit_test(names_are_escaped),
        cmocka_unit_test(what_seems_to_overlap_does_not),
        cmocka_unit_test(an_empty_trace_is_a_file),
        cmocka_unit_test(an_unwritable_file_ends_the_program),
        cmocka_unit_test(second_step_of_the_last_training),
        cmocka_unit_test(equal_spans_stay_as_recorded),
        UNLESS_SIMULATED(pictures_have_a_lane_for_each_queue),
        UNLESS_SIMULATED(bars_say_what_when_and_how_much),
        UNLESS_SIMULATED(what_is_too_much_becomes_fewer_bars),
        UNLESS_SIMULATED(an_svg_is_whole_or_not_there),
    };
    return cmocka_run_group_tests_name("trace", tests, make_test_folder, close_and_remove);
}
