// report.c: see report.h.
#include "report.h"
#include "visible.h"
#include "common/base/error.h"
#include "common/program/say.h"

#include <stdlib.h>
#include <string.h>

// ---- our own format --------------------------------------------------------------------------

// Strangers wrote most of it: names, and what their programs print.
static json_t *text_json(const char *text) {
    char *shown = visible(text);
    json_t *string = json_string(shown);
    free(shown);
    return string;
}

static void set_reason(json_t *object, const char *reason, const char *hint) {
    if (!reason) return;
    json_object_set_new(object, "reason", text_json(reason));
    json_object_set_new(object, "hint", text_json(hint ? hint : ""));
}

static json_t *part_json(const GradedPart *part, const PartGrade *grade) {
    json_t *object =
        json_pack("{s:s, s:i, s:i, s:b}", "what", part->what, "points",
                  grade->passed ? part->points : 0, "of", part->points, "passed", grade->passed);
    set_reason(object, grade->reason, grade->hint);
    return object;
}

static json_t *exercise_json(const Grade *grade) {
    const ExerciseFolder *e = grade->exercise;
    json_t *object = json_pack("{s:s, s:s, s:i, s:i}", "id", e->id, "title", e->title, "points",
                               grade->points, "of", e->points);
    json_t *parts = json_array();
    for (int i = 0; i < e->num_parts; i++)
        json_array_append_new(parts, part_json(&e->parts[i], &grade->parts[i]));
    if (!grade->reason) json_object_set_new(object, "seconds", json_real(grade->seconds));
    set_reason(object, grade->reason, grade->hint);
    if (grade->note) json_object_set_new(object, "note", text_json(grade->note));
    json_object_set_new(object, "parts", parts);
    return object;
}

static const char *const format_name = "training-on-multiple-gpus grades 2";

json_t *report_json(const char *name, bool contained, const Grade grades[], size_t n) {
    json_t *exercises = json_array();
    int points = 0, of = 0;
    for (size_t i = 0; i < n; i++) {
        json_array_append_new(exercises, exercise_json(&grades[i]));
        points += grades[i].points;
        of += grades[i].exercise->points;
    }
    json_t *report =
        json_pack("{s:s, s:o, s:b, s:i, s:i, s:o}", "format", format_name, "name", text_json(name),
                  "contained", contained, "points", points, "of", of, "exercises", exercises);
    CHECK(report, "a report is made of texts and numbers");
    return report;
}

json_t *report_error(const char *name, const char *error) {
    return json_pack("{s:s, s:o, s:o, s:i, s:i, s:[]}", "format", format_name, "name",
                     text_json(name), "error", text_json(error), "points", 0, "of", 0, "exercises");
}

// ---- reading it ------------------------------------------------------------------------------

static const char *text(const json_t *object, const char *key) {
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "";
}
static int number(const json_t *object, const char *key) {
    return (int)json_integer_value(json_object_get(object, key));
}
static bool has(const json_t *object, const char *key) { return json_object_get(object, key); }

// ---- for people ------------------------------------------------------------------------------

static void print_lost(const json_t *object, const char *what) {
    int lost = number(object, "of") - number(object, "points");
    say("      -%d  %s", lost, what);
    say("          %s", text(object, "reason"));
    if (*text(object, "hint")) say("          hint: %s", text(object, "hint"));
}

static void print_exercise(const json_t *exercise) {
    size_t i;
    json_t *part;
    printf("  %s  %-40s %3d of %d\n", text(exercise, "id"), text(exercise, "title"),
           number(exercise, "points"), number(exercise, "of"));
    if (has(exercise, "reason"))
        print_lost(exercise, "all of it");
    else
        json_array_foreach(json_object_get(exercise, "parts"), i, part) {
            if (!json_is_true(json_object_get(part, "passed")))
                print_lost(part, text(part, "what"));
        }
    if (has(exercise, "note")) say("      note: %s", text(exercise, "note"));
}

void report_print(const json_t *report) {
    size_t i;
    json_t *exercise;
    if (has(report, "error")) {
        say("%s: not graded: %s", text(report, "name"), text(report, "error"));
        return;
    }
    int room = 46 - columns_of(text(report, "name"));
    printf("%s%*s %3d of %d\n", text(report, "name"), room > 0 ? room : 0, "",
           number(report, "points"), number(report, "of"));
    json_array_foreach(json_object_get(report, "exercises"), i, exercise) print_exercise(exercise);
}

// ---- a class ---------------------------------------------------------------------------------

// A field of a CSV. One that a spreadsheet would take for a formula gets a ' in front.
static void print_field(FILE *csv, const char *field) {
    fputc('"', csv);
    if (*field && strchr("=+-@", *field)) fputc('\'', csv);
    for (const char *c = field; *c; c++) {
        if (*c == '"') fputc('"', csv);
        fputc(*c, csv);
    }
    fputc('"', csv);
}

static void print_remarks(FILE *csv, const json_t *report) {
    size_t i;
    json_t *e;
    char *remarks = xstrdup(text(report, "error"));
    json_array_foreach(json_object_get(report, "exercises"), i, e) {
        if (!has(e, "reason") && !has(e, "note")) continue;
        char *longer = xprintf("%s%s%s: %s%s%s", remarks, *remarks ? "; " : "", text(e, "id"),
                               text(e, "reason"), has(e, "reason") && has(e, "note") ? "; " : "",
                               text(e, "note"));
        free(remarks);
        remarks = longer;
    }
    print_field(csv, remarks);
    free(remarks);
}

void report_csv(FILE *csv, const json_t *reports, const ExerciseList *list) {
    size_t i, j;
    json_t *report, *exercise;
    fprintf(csv, "name,points,of");
    for (size_t e = 0; e < list->n; e++) fprintf(csv, ",%s", list->all[e].id);
    fprintf(csv, ",remarks\n");
    json_array_foreach(reports, i, report) {
        print_field(csv, text(report, "name"));
        if (has(report, "error")) { // no points, rather than 0
            for (size_t e = 0; e < list->n + 2; e++) fputc(',', csv);
        } else {
            fprintf(csv, ",%d,%d", number(report, "points"), number(report, "of"));
            json_array_foreach(json_object_get(report, "exercises"), j, exercise)
                fprintf(csv, ",%d", number(exercise, "points"));
        }
        fputc(',', csv);
        print_remarks(csv, report);
        fputc('\n', csv);
    }
}

// ---- Gradescope ------------------------------------------------------------------------------

static json_t *gradescope_test(const json_t *exercise, const json_t *part, size_t number_of_part) {
    const json_t *why = has(exercise, "reason") ? exercise : part;
    bool passed = json_is_true(json_object_get(part, "passed"));
    char *name =
        xprintf("%s %s: %s", text(exercise, "id"), text(exercise, "title"), text(part, "what"));
    char *output =
        passed ? xstrdup("") : xprintf("%s\nhint: %s", text(why, "reason"), text(why, "hint"));
    char *which = xprintf("%s.%zu", text(exercise, "id"), number_of_part + 1);
    json_t *test = json_pack("{s:i, s:i, s:s, s:s, s:s, s:s, s:s, s:s}", "score",
                             number(part, "points"), "max_score", number(part, "of"), "status",
                             passed ? "passed" : "failed", "name", name, "number", which, "output",
                             output, "output_format", "text", "visibility", "visible");
    free(name);
    free(output);
    free(which);
    return test;
}

json_t *report_gradescope(const json_t *report) {
    json_t *tests = json_array(), *exercise, *part;
    size_t i, j;
    double seconds = 0;
    json_array_foreach(json_object_get(report, "exercises"), i, exercise) {
        seconds += json_number_value(json_object_get(exercise, "seconds"));
        json_array_foreach(json_object_get(exercise, "parts"), j, part)
            json_array_append_new(tests, gradescope_test(exercise, part, j));
    }
    return json_pack("{s:o, s:i, s:f, s:s, s:s}", "tests", tests, "score", number(report, "points"),
                     "execution_time", seconds, "visibility", "visible", "stdout_visibility",
                     "hidden");
}
