// test_trace.c: traces (common/device/trace.h) know the sides of copies, steps, each other and
// their limit; and what is written of them: Chrome's trace format and pictures.
#include <jansson.h>

#include "common/device/trace.h"
#include "common/program/chrome_trace.h"
#include "common/program/sheet.h"
#include "common/program/timeline.h"
#include "common/tensor/tensor.h"
#include "dies.h"

// ---- programs that are traced ------------------------------------------------------------------

enum { N = 1000, HOST = 2 };

// Two devices and the host, each with something to read and something to write.
typedef struct Places {
    Device *device[3];
    Tensor *in[3], *out[3];
} Places;

static Places places_new(void) {
    Places p;
    open_devices(p.device, 2);
    p.device[HOST] = host();
    for (int i = 0; i < 3; i++) {
        p.in[i] = tensor_new(p.device[i], N);
        p.out[i] = tensor_new(p.device[i], N);
    }
    return p;
}

static void places_free(Places *p) {
    for (int i = 0; i < 3; i++) {
        tensor_free(p->in[i]);
        tensor_free(p->out[i]);
    }
}

static int place_named(char letter) { return letter == 'h' ? HOST : letter - '0'; }

// "0>1": a copy; "0~1": in the communication queue of the receiver, of a fourth of the bytes.
static void copy_between(const Places *p, const char *word) {
    int from = place_named(word[0]), to = place_named(word[2]);
    if (word[1] == '>') {
        tensor_copy(p->out[to], p->in[from]);
        return;
    }
    Queue *queue = comm_queue(p->device[to]);
    for (int i = 0; i < 2; i++) queue_wait(queue, device_record(p->device[i]));
    queue_copy(queue, p->device[to], p->out[to]->data, p->device[from], p->in[from]->data, N);
    for (int i = 0; i < 2; i++) device_wait(p->device[i], queue_record(queue));
}

static void run_word(Places *p, const char *word, const char *arg) {
    int d = arg ? atoi(arg) : 0;
    if (strcmp(word, "open") == 0)
        *p = places_new();
    else if (strcmp(word, "begin") == 0)
        d ? trace_begin_at_most(d) : trace_begin();
    else if (strcmp(word, "step") == 0)
        trace_step(d);
    else if (strcmp(word, "label") == 0)
        trace_label(arg);
    else if (strcmp(word, "fill") == 0)
        launch(p->device[d], fill, .x = p->out[d]->data, .value = 1, .n = N);
    else if (strcmp(word, "add") == 0)
        launch(p->device[d], add, .y = p->out[d]->data, .x = p->in[d]->data, .n = N);
    else
        copy_between(p, word);
}

// ---- what was recorded -------------------------------------------------------------------------

typedef struct Spans {
    TraceSpan *list;
    int count;
} Spans;

static char name_of_place(const Places *p, const Device *device) {
    return device == host() ? 'h' : device == p->device[0] ? '0' : '1';
}

// "1c copy outer 0>1:4000 #1.2": device 1's communication queue, label, copy, training and step.
static void say_spans(FILE *text, const Places *p, Spans spans) {
    int before = -1; // trainings are numbered in the program, not in the trace
    for (int i = 0; i < spans.count; i++) {
        const TraceSpan *s = &spans.list[i];
        if (s->training && before < 0) before = s->training - 1;
        fprintf(text, "%s%c%s %s", i ? ", " : "", name_of_place(p, s->device),
                s->communicates ? "c" : "", s->work);
        if (*s->label) fprintf(text, " %s", s->label);
        if (s->from || s->bytes)
            fprintf(text, " %c>%c:%zu", name_of_place(p, s->from), name_of_place(p, s->to),
                    s->bytes);
        if (s->training) fprintf(text, " #%d.%ld", s->training - before, s->step);
    }
    fprintf(text, "%s", trace_left_out() ? " and more" : "");
}

// One queue does one thing after the other. (CUDA gives times as floats.)
static void check_times(Spans spans) {
    for (int i = 0; i < spans.count; i++) {
        const TraceSpan *a = &spans.list[i], *b = a + 1;
        assert_true(a->start >= 0 && a->end >= a->start);
        if (i + 1 < spans.count && b->device == a->device && b->communicates == a->communicates)
            assert_true(b->start >= a->end - 1e-6 * (1 + a->end));
    }
}

// What is in an inner trace took as long in the outer one, which began before.
static void check_inner(Spans inner, Spans outer) {
    for (int i = 0; i < inner.count; i++) {
        const TraceSpan *a = &inner.list[i];
        int found = 0;
        for (int j = 0; j < outer.count; j++) {
            const TraceSpan *b = &outer.list[j];
            found += strcmp(a->label, b->label) == 0 && b->start >= a->start &&
                     fabs((b->end - b->start) - (a->end - a->start)) < 1e-9;
        }
        assert_true(found > 0);
    }
}

static void check_ledger(const Places *p, Spans spans) {
    for (int from = 0; from < 3; from++)
        for (int to = 0; to < 3; to++) {
            uint64_t bytes = 0;
            for (int i = 0; i < spans.count; i++)
                if (spans.list[i].from == p->device[from] && spans.list[i].to == p->device[to])
                    bytes += spans.list[i].bytes;
            if (from != to) assert_int_equal(bytes, ledger_bytes(p->device[from], p->device[to]));
        }
}

// Runs a program of such words, checks its traces and says what is in them, the inner ones first.
static void traced(const char *program, FILE *text) {
    Places p;
    char *words = strdup(program), *rest = NULL;
    Spans spans = {NULL, 0}, inner;
    ledger_reset();
    for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *arg = strchr(word, ':');
        if (arg) *arg++ = '\0';
        if (strcmp(word, "end") != 0) {
            run_word(&p, word, arg);
            continue;
        }
        inner = spans;
        spans.list = trace_end(&spans.count);
        check_times(spans);
        if (!trace_left_out()) check_inner(inner, spans);
        if (inner.list) fprintf(text, " | ");
        say_spans(text, &p, spans);
        free(inner.list);
    }
    check_ledger(&p, spans);
    free(spans.list);
    free(words);
    places_free(&p);
    devices_close();
}

static void traces_have_what_was_enqueued(void **state) {
    (void)state;
    const struct {
        const char *program, *expected;
    } cases[] = {
        {"open begin end", ""},
        // devices may be opened later
        {"begin open fill 0~1 end", "0 fill, 1c copy 0>1:1000"},
        {"open label:nobody fill begin fill label:first 0>0 label:second add end fill",
         "0 fill, 0 copy first 0>0:4000, 0 add second"},
        {"open begin h>0 fill:0 fill:1 0>1 1>0 1>1 0~1 fill:1 1>h end",
         "0 copy h>0:4000, 0 fill, 0 copy 1>0:4000, 1 fill, 1 copy 0>1:4000, "
         "1 copy 1>1:4000, 1 fill, 1 copy 1>h:4000, 1c copy 0>1:1000"},
        // an inner trace begins without a label, and has no limit of the outer one's
        {"open begin label:outer fill begin fill label:inner fill end fill end",
         "0 fill, 0 fill inner | 0 fill outer, 0 fill, 0 fill inner, 0 fill outer"},
        {"open begin:3 fill fill begin label:inner fill fill end fill end",
         "0 fill inner, 0 fill inner | 0 fill, 0 fill, 0 fill inner and more"},
        {"open begin:2 fill fill end", "0 fill, 0 fill"},
        {"open begin fill step:1 fill step:2 fill step:0 fill step:3 fill step:1 fill step:1 fill "
         "step:7 fill step:0 fill end",
         "0 fill, 0 fill #1.1, 0 fill #1.2, 0 fill, 0 fill #1.3, 0 fill #2.1, 0 fill #3.1, "
         "0 fill #3.7, 0 fill"},
    };
    for (size_t c = 0; c < COUNT(cases); c++) {
        char got[2048] = "";
        FILE *text = fmemopen(got, sizeof got, "w");
        traced(cases[c].program, text);
        fclose(text);
        assert_string_equal(got, cases[c].expected);
    }
}

static void equal_spans_stay_as_recorded(void **state) {
    (void)state;
    TraceSpan spans[] = {{.end = 1, .number = 2}, {.end = 1, .number = 0}, {.end = 1, .number = 1}};
    for (int i = 0; i < 3; i++) spans[i].device = try_gpu(0);
    trace_order(spans, 3);
    for (int i = 0; i < 3; i++) assert_int_equal(spans[i].number, i);
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
    for (size_t i = 0; i < COUNT(cases); i++) {
        kind = work_kind(&cases[i].span, kind);
        assert_int_equal(kind, cases[i].kind);
        assert_string_equal(work_detail(&cases[i].span), cases[i].detail);
    }
}

// ---- Chrome's trace format ---------------------------------------------------------------------

// "cpu:1 compute": "1 compute"
static void say_name(FILE *text, const char *name) {
    for (int d = 0; d < 2; d++) {
        size_t length = strlen(device_name(try_gpu(d)));
        if (strncmp(name, device_name(try_gpu(d)), length) == 0) {
            fprintf(text, "%d%s", d, name + length);
            return;
        }
    }
    fprintf(text, "%s", name);
}

// Of a file's event: "X 0.1 10+5 gemm (forward) step 2, 0>1:400": phase, process and thread, start
// and length in microseconds, name, category, step of the training, sides and bytes. An end of an
// arrow: "s 0.1 10 #3", with the arrow's number. A lane's name: "M 0.1 thread_name=0 compute".
static void say_event(FILE *text, json_t *event) {
    const char *phase, *name = "", *category = "", *from = NULL, *to = "", *named = NULL;
    json_int_t pid, tid, id = -1, bytes = -1, step = -1;
    double start = -1, length = -1;
    int unpacked =
        json_unpack(event, "{s:s, s:I, s:I, s?s, s?s, s?I, s?F, s?F, s?{s?s, s?s, s?I, s?s, s?I}}",
                    "ph", &phase, "pid", &pid, "tid", &tid, "name", &name, "cat", &category, "id",
                    &id, "ts", &start, "dur", &length, "args", "from", &from, "to", &to, "bytes",
                    &bytes, "name", &named, "step", &step);
    assert_int_equal(unpacked, 0);
    fprintf(text, "%s %d.%d ", phase, (int)pid, (int)tid);
    if (*phase == 'X') fprintf(text, "%.6g+%.6g %s (%s)", start, length, name, category);
    if (*phase == 's' || *phase == 'f') fprintf(text, "%.6g #%d", start, (int)id);
    if (step >= 0) fprintf(text, " step %d", (int)step);
    if (*phase == 'M') fprintf(text, "%s=", name);
    if (named) say_name(text, named);
    if (from) {
        fprintf(text, " ");
        say_name(text, from);
        fprintf(text, ">");
        say_name(text, to);
        fprintf(text, ":%d", (int)bytes);
    }
    fprintf(text, "\n");
}

#define STRANGE "a \"label\"\\ with\n\x01 and µ"

static void a_file_for_chrome(void **state) {
    (void)state;
    const Device *a = try_gpu(0), *b = try_gpu(1), *h = host();
    const TraceSpan spans[] = {
        // a GPU's times are floats: they may seem to overlap by a little
        {a, false, "gemm", "forward conv1", -1e-6, 10e-6, NULL, NULL, 0, 1, 2, 0},
        {a, false, "add", "", 8e-6, 9e-6, NULL, NULL, 0, 0, 0, 1},
        {a, false, "sgd", STRANGE, 30e-6, 40e-6, NULL, NULL, 0, 0, 0, 2},
        {b, false, "gemm", "", 0, 12e-6, NULL, NULL, 0, 0, 0, 3},
        {b, false, "copy", "", 12e-6, 20e-6, a, b, 400, 0, 0, 4}, // since the add,
        {b, false, "copy", "", 20e-6, 25e-6, b, a, 800, 0, 0, 5}, // for the sgd
        {b, false, "copy", "", 25e-6, 26e-6, h, b, 4, 0, 0, 6},
        {b, false, "copy", "", 26e-6, 27e-6, b, b, 4, 0, 0, 7},
        {b, false, "copy", "", 27e-6, 28e-6, b, h, 4, 0, 0, 10},
        {b, true, "copy", "", 41e-6, 45e-6, a, b, 400, 0, 0, 8}, // since the sgd,
        {b, true, "copy", "", 50e-6, 51e-6, b, a, 400, 0, 0, 9}, // for nothing
    };
    const char *const expected = "M 1.0 process_name=" STRANGE "\n"
                                 "M 1.1 thread_name=0 compute\n"
                                 "M 1.1 thread_sort_index=\n"
                                 "M 1.3 thread_name=1 compute\n"
                                 "M 1.3 thread_sort_index=\n"
                                 "M 1.4 thread_name=1 communication\n"
                                 "M 1.4 thread_sort_index=\n"
                                 "X 1.1 0+10 gemm (forward conv1) step 2\n"
                                 "X 1.1 10+0 add (forward)\n"
                                 "X 1.1 30+10 sgd (" STRANGE ")\n"
                                 "X 1.3 0+12 gemm (forward)\n"
                                 "X 1.3 12+8 copy (exchange) 0>1:400\n"
                                 "X 1.3 20+5 copy (exchange) 1>0:800\n"
                                 "X 1.3 25+1 copy (load) host>1:4\n"
                                 "X 1.3 26+1 copy (other) 1>1:4\n"
                                 "X 1.3 27+1 copy (read) 1>host:4\n"
                                 "X 1.4 41+4 copy (exchange) 0>1:400\n"
                                 "X 1.4 50+1 copy (exchange) 1>0:400\n"
                                 "s 1.1 10 #1\n"
                                 "f 1.3 12 #1\n"
                                 "s 1.3 24.999 #2\n"
                                 "f 1.1 30 #2\n"
                                 "s 1.1 39.999 #3\n"
                                 "f 1.4 41 #3\n"
                                 "M 2.0 process_name=empty\n"
                                 "M 3.0 process_name=some\n"
                                 "M 3.1 thread_name=0 compute\n"
                                 "M 3.1 thread_sort_index=\n"
                                 "X 3.1 0+10 gemm (forward conv1) step 2\n";
    const SpanSet sets[] = {{STRANGE, spans, 11}, {"empty", spans, 0}, {"some", spans, 1}};
    char got[4096] = "";
    FILE *text = fmemopen(got, sizeof got, "w");
    chrome_trace_write(in_test_folder("trace.json"), sets, 3);
    json_t *file = json_load_file(in_test_folder("trace.json"), JSON_REJECT_DUPLICATES, NULL);
    const json_t *events = json_object_get(file, "traceEvents");
    assert_true(json_is_array(events));
    for (size_t i = 0; i < json_array_size(events); i++) say_event(text, json_array_get(events, i));
    fclose(text);
    json_decref(file);
    if (strcmp(got, expected) != 0) fail_msg("expected:\n%sgot:\n%s", expected, got);
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

static void second_step_of_the_last_training(void **state) {
    (void)state;
    const TraceSpan spans[] = {
        of_step(0, 0, 0, 1), of_step(1, 1, 1, 2), of_step(1, 2, 2, 3), of_step(1, 3, 3, 4),
        of_step(2, 6, 4, 5), of_step(2, 8, 7, 8), of_step(2, 7, 5, 6), of_step(2, 7, 6, 6.5),
    };
    const struct {
        int count;
        double start, end;
        const char *title;
    } cases[] = {{8, 5, 6.5, "a: step 7 of the last training, 1.5 s"},
                 {5, 4, 5, "a: step 6 of the last training, 1 s"},
                 {3, 2, 3, "a: step 2 of the training, 1 s"},
                 {1, 0, 1, "a: all that was enqueued, 1 s"},
                 {0, 0, 0, "a: all that was enqueued, 0 µs"}};
    for (size_t c = 0; c < COUNT(cases); c++) {
        Timeline t = timeline_of((SpanSet){"a", spans, cases[c].count});
        assert_true(fabs(t.start - cases[c].start) < 1e-12 && fabs(t.end - cases[c].end) < 1e-12);
        assert_string_equal(t.title, cases[c].title);
        free(t.title);
    }
}

// Returns the height that the PNG says it has, and the text of the SVG beside it; free() that.
static int draw(SpanSet set, char **svg) {
    Timeline t = timeline_of(set);
    size_t size;
    timelines_draw(in_test_folder("as.png"), "A heading", "the step began", &t, 1);
    free(t.title);
    char *bytes = read_bytes_of(in_test_folder("as.png"), &size);
    assert_true(size > 24 && memcmp(bytes, "\x89PNG", 4) == 0);
    int height = (unsigned char)bytes[22] << 8 | (unsigned char)bytes[23];
    free(bytes);
    *svg = read_bytes_of(in_test_folder("as.svg"), &size);
    assert_non_null(*svg);
    assert_int_equal(strlen(*svg), size);
    assert_true(strncmp(*svg, "<svg ", 5) == 0 && strcmp(*svg + size - 7, "</svg>\n") == 0);
    assert_true(size < 1000000);
    return height;
}

static int count_of(const char *text, const char *part) {
    int n = 0;
    for (; (text = strstr(text, part)); text++) n++;
    return n;
}

static void pictures_have_a_lane_for_each_queue(void **state) {
    (void)state;
    TraceSpan spans[MAX_COMPUTING + 1];
    char *svg;
    for (int i = 0; i <= MAX_COMPUTING; i++) {
        spans[i] = of_step(0, 0, i, i + 1);
        spans[i].device = try_gpu(i % MAX_COMPUTING);
        spans[i].communicates = i == MAX_COMPUTING; // one more than there is room for
    }
    const int counts[] = {0, 1, 3, MAX_COMPUTING, MAX_COMPUTING + 1},
              lanes[] = {0, 1, 3, MAX_COMPUTING, MAX_COMPUTING};
    int heights[5];
    for (int c = 0; c < 5; c++) {
        heights[c] = draw((SpanSet){"a", spans, counts[c]}, &svg);
        assert_int_equal(heights[c] - heights[0], lanes[c] * (heights[c ? 1 : 0] - heights[0]));
        free(svg);
    }
    assert_true(heights[1] > heights[0]);
}

static void bars_say_what_when_and_how_much(void **state) {
    (void)state;
    Device *device = try_gpu(0);
    const TraceSpan spans[] = {
        {device, false, "copy", "", 0, 1e-3, host(), device, 3000000, 0, 0, 0},
        {device, false, "conv2d_forward", "forward conv1", 1e-3, 3.5e-3, NULL, NULL, 0, 0, 0, 0},
        {device, false, "sgd", "a < b & \"c\" \xff\x01 µ", 3.5e-3, 4e-3, NULL, NULL, 0, 0, 0, 0}};
    const char *const expected[] = {
        device_name(device),
        "<title>load (copy) on ",
        ", 0.000 ms to 1.000 ms, 3 MB from host to ",
        "<title>forward conv1 (conv2d_forward) on ",
        ", 1.000 ms to 3.500 ms</title>",
        "a &lt; b &amp; &quot;c&quot; ?? µ (sgd)",
        ">milliseconds since the step began<",
    };
    char *svg;
    draw((SpanSet){"measured here", spans, 3}, &svg);
    assert_int_equal(count_of(svg, "<rect"), 1 + 3); // the idle lane, and its work
    for (size_t i = 0; i < COUNT(expected); i++) assert_non_null(strstr(svg, expected[i]));
    free(svg);
}

// Many pieces in turn of two kinds, one behind the other, in some lanes.
static void what_is_too_much_becomes_fewer_bars(void **state) {
    (void)state;
    const struct {
        int lanes, each;
        const char *one, *other;
        int least, most; // bars
    } cases[] = {{1, 4000, "forward", "backward", 4000, 4000},
                 {1, 5000, "forward", "forward", 1, 1},
                 {MAX_COMPUTING, 1500, "forward", "exchange", 1001, 4000}};
    for (size_t c = 0; c < COUNT(cases); c++) {
        int n = cases[c].lanes * cases[c].each;
        TraceSpan *spans = calloc((size_t)n, sizeof *spans);
        char *svg;
        for (int i = 0; i < n; i++) {
            spans[i] = of_step(0, 0, i % cases[c].each, i % cases[c].each + 1);
            spans[i].device = try_gpu(i / cases[c].each);
            spans[i].label = i % 2 ? cases[c].one : cases[c].other;
        }
        draw((SpanSet){"measured here", spans, n}, &svg);
        int bars = count_of(svg, "<rect") - cases[c].lanes;
        assert_true(bars >= cases[c].least && bars <= cases[c].most);
        assert_int_equal(count_of(svg, "<title>5000 pieces of work"), bars == 1);
        if (c == 0) assert_int_equal(count_of(svg, "pieces of work"), 0);
        free(spans);
        free(svg);
    }
}

// ---- mistakes ----------------------------------------------------------------------------------

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

static void write_into(void *path) { chrome_trace_write(path, &(SpanSet){.name = "nothing"}, 1); }

static void draw_into(void *path) {
    timelines_draw(path, "A heading", "the step began", &(Timeline){.title = "none"}, 1);
}

static void mistakes_end_the_program(void **state) {
    (void)state;
    devices_close(); // the child has no threads but its own
    assert_int_equal(mkdir(in_test_folder("taken.svg"), 0777), 0);
    assert_int_equal(symlink("/dev/full", in_test_folder("full.svg")), 0);
    expect_death(1, "trace_end() comes before", close_while_traced, NULL);
    expect_death(1, "trace_begin() comes first", end_without_begin, NULL);
    expect_death(1, "nowhere", write_into, (char *)in_test_folder("nowhere/trace.json"));
    expect_death(1, "taken.svg", draw_into, (char *)in_test_folder("taken.png"));
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
        cmocka_unit_test(traces_have_what_was_enqueued),
        cmocka_unit_test(equal_spans_stay_as_recorded),
        cmocka_unit_test(kinds_of_work),
        cmocka_unit_test(a_file_for_chrome),
        cmocka_unit_test(second_step_of_the_last_training),
        UNLESS_SIMULATED(pictures_have_a_lane_for_each_queue),
        UNLESS_SIMULATED(bars_say_what_when_and_how_much),
        UNLESS_SIMULATED(what_is_too_much_becomes_fewer_bars),
        cmocka_unit_test(mistakes_end_the_program),
    };
    return cmocka_run_group_tests_name("trace", tests, make_test_folder, close_and_remove);
}
