// test_trace.c: traces (common/device/trace.h) know the sides of copies, steps, each other and
// their limit; and what is written of them: Chrome's trace format and pictures.
#include <jansson.h>

#include "common/device/trace.h"
#include "common/program/picture.h"
#include "common/program/sheet.h"
#include "common/program/timeline.h"
#include "cases.h"

DEATHS_FIRST

// ---- programs that are traced ------------------------------------------------------------------

enum { N = 1000 };

// Two devices and the host, each with something to read and something to write.
static const char letters[] = "01h";
static Device *places[3];
static Tensor *in[3], *out[3];

static void open_places(void) {
    open_devices(places, 2);
    places[2] = host();
    trace_pause(true);
    for (int i = 0; i < 3; i++) {
        in[i] = keep(tensor_new(places[i], N));
        out[i] = keep(tensor_new(places[i], N));
        tensor_fill(in[i], 1);
        tensor_fill(out[i], 1);
    }
    trace_pause(false);
}

// "0>1": a copy; "0~1": in the communication queue of the receiver, of a fourth of the bytes.
static void copy_between(const char *word) {
    long from = strchr(letters, word[0]) - letters, to = strchr(letters, word[2]) - letters;
    if (word[1] == '>') {
        tensor_copy(out[to], in[from]);
        return;
    }
    Queue *queue = comm_queue(places[to]);
    for (int i = 0; i < 2; i++) queue_wait(queue, device_record(places[i]));
    queue_copy(queue, places[to], out[to]->data, places[from], in[from]->data, N);
    for (int i = 0; i < 2; i++) device_wait(places[i], queue_record(queue));
}

static void run_word(const char *word, const char *arg) {
    int d = arg ? atoi(arg) : 0;
    if (strcmp(word, "open") == 0)
        open_places();
    else if (strcmp(word, "begin") == 0)
        d ? trace_begin_at_most(d) : trace_begin();
    else if (strcmp(word, "step") == 0)
        trace_step(d);
    else if (strcmp(word, "label") == 0)
        trace_label(arg);
    else if (strcmp(word, "fill") == 0)
        launch(places[d], fill, .x = out[d]->data, .value = 1, .n = N);
    else if (strcmp(word, "add") == 0)
        launch(places[d], add, .y = out[d]->data, .x = in[d]->data, .n = N);
    else
        copy_between(word);
}

// ---- what was recorded -------------------------------------------------------------------------

typedef struct Spans {
    TraceSpan *list;
    int count;
} Spans;

static char letter_of(const Device *device) {
    int i = 0;
    while (i < 2 && places[i] != device) i++;
    return letters[i];
}

// "1c copy outer 0>1:4000 #1.2": device 1's communication queue, label, copy, training and step.
static void say_spans(FILE *text, Spans spans) {
    int before = -1; // trainings are numbered in the program, not in the trace
    for (int i = 0; i < spans.count; i++) {
        const TraceSpan *s = &spans.list[i];
        if (s->training && before < 0) before = s->training - 1;
        fprintf(text, "%s%c%s %s", i ? ", " : "", letter_of(s->device), s->communicates ? "c" : "",
                s->work);
        if (*s->label) fprintf(text, " %s", s->label);
        if (s->from || s->bytes)
            fprintf(text, " %c>%c:%zu", letter_of(s->from), letter_of(s->to), s->bytes);
        if (s->training) fprintf(text, " #%d.%ld", s->training - before, s->step);
    }
    fprintf(text, "%s", trace_left_out() ? " and more" : "");
}

// One queue does one thing after the other. (CUDA gives times as floats.) And what is in an inner
// trace took as long in the outer one, which began before.
static void check_times(Spans inner, Spans spans) {
    for (int i = 0; i < spans.count; i++) {
        const TraceSpan *a = &spans.list[i], *b = a + 1;
        assert_true(a->start >= 0 && a->end >= a->start);
        if (i + 1 < spans.count && b->device == a->device && b->communicates == a->communicates)
            assert_true(b->start >= a->end - 1e-6 * (1 + a->end));
    }
    for (int i = 0; i < inner.count && !trace_left_out(); i++) {
        const TraceSpan *a = &inner.list[i];
        int found = 0;
        for (int j = 0; j < spans.count; j++) {
            const TraceSpan *b = &spans.list[j];
            found += strcmp(a->label, b->label) == 0 && b->start >= a->start &&
                     fabs((b->end - b->start) - (a->end - a->start)) < 1e-9;
        }
        assert_true(found > 0);
    }
}

static void check_ledger(Spans spans) {
    for (int pair = 0; pair < 9; pair++) {
        const Device *from = places[pair / 3], *to = places[pair % 3];
        uint64_t bytes = 0;
        for (int i = 0; i < spans.count; i++)
            if (spans.list[i].from == from && spans.list[i].to == to) bytes += spans.list[i].bytes;
        if (from != to) assert_int_equal(bytes, ledger_bytes(from, to));
    }
}

// Runs a program of such words, checks its traces and says what is in them, the inner ones first.
static void traced(const char *program, FILE *text) {
    char *words = strdup(program), *rest = NULL;
    Spans spans = {NULL, 0}, inner;
    ledger_reset();
    for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *arg = strchr(word, ':');
        if (arg) *arg++ = '\0';
        if (strcmp(word, "end") != 0) {
            run_word(word, arg);
            continue;
        }
        inner = spans;
        spans.list = trace_end(&spans.count);
        check_times(inner, spans);
        if (inner.list) fprintf(text, " | ");
        say_spans(text, spans);
        free(inner.list);
    }
    check_ledger(spans);
    free(spans.list);
    free(words);
    free_kept();
    devices_close();
}

TEST(traces_have_what_was_enqueued) {
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

TEST(equal_spans_stay_as_recorded) {
    TraceSpan spans[] = {{.end = 1, .number = 2}, {.end = 1, .number = 0}, {.end = 1, .number = 1}};
    for (int i = 0; i < 3; i++) spans[i].device = try_gpu(0);
    trace_order(spans, 3);
    for (int i = 0; i < 3; i++) assert_int_equal(spans[i].number, i);
}

// ---- kinds of work -----------------------------------------------------------------------------

TEST(kinds_of_work) {
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
        {{.work = "gemm", .label = "compute mm 1"}, WORK_COMPUTE, "mm 1"},
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
static const char *short_name(const char *name) {
    const char *colon = strchr(name, ':');
    if (colon) assert_memory_equal(name, device_name(try_gpu(0)), (size_t)(colon - name));
    return colon ? colon + 1 : name;
}

// Of a file's event: "X 0.1 10+5 gemm (forward) step 2, 0>1:400": phase, process and thread, start
// and length in microseconds, name, category, step of the training, sides and bytes. An end of an
// arrow: "s 0.1 10 #3", with the arrow's number. A lane's name: "M 0.1 thread_name=0 compute".
static void say_event(FILE *text, json_t *event) {
    const char *phase, *name = "", *category = "", *from = NULL, *to = "", *named = "";
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
    if (*phase == 'M') fprintf(text, "%s=%s", name, short_name(named));
    if (from) fprintf(text, " %s>%s:%d", short_name(from), short_name(to), (int)bytes);
    fprintf(text, "; ");
}

#define STRANGE "a \"label\"\\ with\n\x01 and µ"

TEST(a_file_for_chrome) {
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
    const char *const expected =
        "M 1.0 process_name=" STRANGE "; "
        "M 1.1 thread_name=0 compute; M 1.1 thread_sort_index=; "
        "M 1.3 thread_name=1 compute; M 1.3 thread_sort_index=; "
        "M 1.4 thread_name=1 communication; M 1.4 thread_sort_index=; "
        "X 1.1 0+10 gemm (forward conv1) step 2; X 1.1 10+0 add (forward); "
        "X 1.1 30+10 sgd (" STRANGE "); X 1.3 0+12 gemm (forward); "
        "X 1.3 12+8 copy (exchange) 0>1:400; X 1.3 20+5 copy (exchange) 1>0:800; "
        "X 1.3 25+1 copy (load) host>1:4; X 1.3 26+1 copy (other) 1>1:4; "
        "X 1.3 27+1 copy (read) 1>host:4; "
        "X 1.4 41+4 copy (exchange) 0>1:400; X 1.4 50+1 copy (exchange) 1>0:400; "
        "s 1.1 10 #1; f 1.3 12 #1; s 1.3 24.999 #2; f 1.1 30 #2; s 1.1 39.999 #3; f 1.4 41 #3; "
        "M 2.0 process_name=empty; M 3.0 process_name=some; "
        "M 3.1 thread_name=0 compute; M 3.1 thread_sort_index=; "
        "X 3.1 0+10 gemm (forward conv1) step 2; ";
    const SpanSet sets[] = {
        {STRANGE, spans, 11, false}, {"empty", spans, 0, false}, {"some", spans, 1, false}};
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
    return (TraceSpan){try_gpu(0), false, "sgd", "", start, end, NULL, NULL, 0, training, step, 0};
}

TEST(second_step_of_the_last_training) {
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
        Timeline t = timeline_of((SpanSet){"a", spans, cases[c].count, false});
        assert_true(fabs(t.start - cases[c].start) < 1e-12 && fabs(t.end - cases[c].end) < 1e-12);
        assert_string_equal(t.title, cases[c].title);
        free(t.title);
    }
}

static char *svg; // what draw() has drawn

static bool elsewhere; // draw() a modelled timeline

// Returns the height that the PNG says it has; the SVG beside it is in svg.
static int draw(const TraceSpan spans[], int n) {
    size_t size;
    Timeline t = timeline_of((SpanSet){"measured here", spans, n, elsewhere});
    timelines_draw(in_test_folder("as.png"), "A heading", "the step began", &t, 1);
    free(t.title);
    const unsigned char *png = keep_memory(read_bytes_of(in_test_folder("as.png"), &size));
    assert_true(size > 24 && memcmp(png, "\x89PNG", 4) == 0);
    svg = keep_memory(read_bytes_of(in_test_folder("as.svg"), &size));
    assert_int_equal(strlen(svg), size);
    assert_true(strncmp(svg, "<svg ", 5) == 0 && strcmp(svg + size - 7, "</svg>\n") == 0);
    return png[22] << 8 | png[23];
}

static int count_of(const char *part) {
    int n = 0;
    for (const char *text = svg; (text = strstr(text, part)); text++) n++;
    return n;
}

TEST_UNLESS_SIMULATED(pictures_have_a_lane_for_each_queue) {
    TraceSpan spans[MAX_COMPUTING + 1];
    for (int i = 0; i <= MAX_COMPUTING; i++) {
        spans[i] = of_step(0, 0, i, i + 1);
        spans[i].device = try_gpu(i % MAX_COMPUTING);
        spans[i].communicates = i == MAX_COMPUTING; // one more than there is room for
    }
    const int counts[] = {0, 1, 3, MAX_COMPUTING, MAX_COMPUTING + 1},
              lanes[] = {0, 1, 3, MAX_COMPUTING, MAX_COMPUTING};
    int heights[5];
    for (int c = 0; c < 5; c++) {
        heights[c] = draw(spans, counts[c]);
        assert_int_equal(heights[c] - heights[0], lanes[c] * (heights[c ? 1 : 0] - heights[0]));
    }
    assert_true(heights[1] > heights[0]);
}

TEST_UNLESS_SIMULATED(bars_say_what_when_and_how_much) {
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
    char *beside = sheet_svg_path("folder.png/x");
    assert_string_equal(beside, "folder.png/x.svg");
    free(beside);
    assert_null(sheet_svg_path("alone.svg"));
    draw(spans, 3);
    assert_int_equal(count_of("<rect"), 1 + 3); // the idle lane, and its work
    for (size_t i = 0; i < COUNT(expected); i++) assert_non_null(strstr(svg, expected[i]));
    assert_null(strstr(svg, ">device 0<"));
    elsewhere = true; // on another machine our devices' names say nothing
    draw(spans, 3);
    elsewhere = false;
    assert_non_null(strstr(svg, ">device 0<"));
}

// Many pieces in turn of two kinds, one behind the other, in some lanes.
TEST_UNLESS_SIMULATED(what_is_too_much_becomes_fewer_bars) {
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
        for (int i = 0; i < n; i++) {
            spans[i] = of_step(0, 0, i % cases[c].each, i % cases[c].each + 1);
            spans[i].device = try_gpu(i / cases[c].each);
            spans[i].label = i % 2 ? cases[c].one : cases[c].other;
        }
        draw(spans, n);
        int bars = count_of("<rect") - cases[c].lanes;
        assert_true(bars >= cases[c].least && bars <= cases[c].most);
        assert_int_equal(count_of("<title>5000 pieces of work"), bars == 1);
        if (c == 0) assert_int_equal(count_of("pieces of work"), 0);
        free(spans);
    }
}

TEST(a_box_has_its_color) {
    static const uint8_t expected[] = {10, 200, 250, 255, 0, 100};
    Picture p = picture_new(2, 1, (Color){10, 200, 250});
    picture_box(&p, 1, 0, 7, 7, (Color){255, 0, 100});
    assert_memory_equal(p.pixels, expected, sizeof expected);
    picture_free(&p);
}

// ---- mistakes ----------------------------------------------------------------------------------

DIES("trace_end() comes before", trace_begin(); devices_close())
DIES("trace_begin() comes first", int count; free(trace_end(&count)))
DIES("nowhere",
     chrome_trace_write(in_test_folder("nowhere/trace.json"), &(SpanSet){.name = "none"}, 1))

static void draw_into(const char *name) {
    timelines_draw(in_test_folder(name), "A heading", "the step began",
                   &(Timeline){.title = "none"}, 1);
}
DIES("taken.svg", mkdir(in_test_folder("taken.svg"), 0777); draw_into("taken.png"))

int main(void) { return run_all("trace", make_test_folder, close_and_clean); }
