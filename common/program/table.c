// table.c: prints each value as soon as it is known, with the width and the unit of its column, and
// writes it to the CSV in full.
#include "table.h"
#include "common/base/error.h"
#include "common/base/number.h"
#include "common/model/modelled_clock.h"
#include "say.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

// Any other unit is printed, and changes no value.
static double times_of(const char *unit) {
    static const struct {
        const char *name;
        double times;
    } units[] = {{"ms", 1e3}, {"µs", 1e6}, {"%", 100}, {"MB", 1e-6}, {"GB", 1e-9}, {"GB/s", 1e-9}};
    for (size_t i = 0; unit && i < sizeof units / sizeof *units; i++)
        if (strcmp(unit, units[i].name) == 0) return units[i].times;
    return 1;
}

// "-12345.6" becomes "-12,345.6". Four digits are easy to read without a comma.
static void separate_thousands(char *text) {
    char *first = text + (*text == '-');
    size_t digits = strspn(first, "0123456789");
    for (size_t i = digits; digits > 4 && i > 3; i -= 3) {
        memmove(first + i - 2, first + i - 3, strlen(first + i - 3) + 1);
        first[i - 3] = ',';
    }
}

static void as_printed(const Column *c, double value, char *text, size_t size) {
    double scaled = value * times_of(c->unit);
    int before = isnormal(scaled) ? (int)floor(log10(fabs(scaled))) + 1 : c->digits; // the point
    int decimals = c->digits == 0 ? c->decimals : c->digits > before ? c->digits - before : 0;
    if (!isfinite(value))
        *text = '\0';
    else if (c->bytes)
        snprintf(text, size, "%s", binary_size((size_t)value).text);
    else if (c->digits > 0 && before < -3)
        snprintf(text, size, "%.*e", c->digits - 1, scaled);
    else
        snprintf(text, size, "%.*f", decimals, scaled);
    if (!c->bytes) separate_thousands(text);
}

// All digits that matter. For a float, such as --lr, these are the digits that were given.
static void as_written(double value, char *text, size_t size) {
    snprintf(text, size, "%.6g", value);
    if (strtof(text, NULL) != value)
        snprintf(text, size, "%.*g", value == rint(value) ? 15 : 9, value);
}

static void print_next(const Table *t, const char *text) {
    const Column *c = &t->columns[t->next].is;
    bool is_last = t->next == t->last_printed;
    int title = columns_of(t->columns[t->next].title), fill = -columns_of(text);
    int least = c->text ? c->text : c->width ? c->width : 7;
    if (!c->title) return;
    fill += title > least ? title : least;
    printf("  %*s%s", c->text || fill < 0 ? 0 : fill, "", text);
    printf("%*s%s", c->text && !is_last && fill > 0 ? fill : 0, "", is_last ? "\n" : "");
}

static void write_next(const Table *t, const char *text) {
    if (!t->csv || !t->columns[t->next].is.csv) return;
    fprintf(t->csv, strchr(text, ',') ? "\"%s\"" : "%s", text);
    fputc(t->next == t->last_written ? '\n' : ',', t->csv);
}

void table_head(Table *t) {
    for (t->next = 0; t->next < t->n; t->next++) print_next(t, t->columns[t->next].title);
    t->next = 0;
    t->has_head = true;
}

static void fill_next(Table *t, const char *printed, const char *written) {
    if (!t->has_head) table_head(t);
    print_next(t, *printed ? printed : "-");
    write_next(t, written);
    t->next = (t->next + 1) % t->n;
}

void table_text(Table *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *text = xvprintf(format, args);
    va_end(args);
    fill_next(t, text, text);
    free(text);
}

void table_add_numbers(Table *t, size_t n, const double numbers[]) {
    for (size_t i = 0; i < n; i++) {
        char printed[64], written[64];
        as_printed(&t->columns[t->next].is, numbers[i], printed, sizeof printed);
        as_written(numbers[i], written, sizeof written);
        fill_next(t, printed, written);
    }
}

static void add_column(Table *t, const Column *c, int number) {
    CHECK(t->n < MOST_COLUMNS, "room for a table's columns");
    char *title = t->columns[t->n].title, *csv = t->columns[t->n].csv;
    t->columns[t->n].is = *c;
    if (c->modelled && !modelled_machine()) t->columns[t->n].is.title = NULL;
    if (t->columns[t->n].is.title) t->last_printed = t->n;
    if (c->csv) t->last_written = t->n;
    t->n++;
    snprintf(csv, LONGEST_TITLE, c->csv ? c->csv : "", number);
    int length = snprintf(title, LONGEST_TITLE, c->title ? c->title : "", number);
    CHECK(length < LONGEST_TITLE, "room for a table's title");
    if (c->unit)
        snprintf(title + length, LONGEST_TITLE - (size_t)length, length ? ", %s" : "%s", c->unit);
}

Table table_begin(FILE *csv, const Column *columns) {
    Table t = {.csv = csv};
    for (const Column *c = columns; c->count >= 0; c++)
        for (int i = 0; i < (c->count ? c->count : 1); i++) add_column(&t, c, c->of ? c->of[i] : i);
    for (; t.next < t.n; t.next++) write_next(&t, t.columns[t.next].csv);
    t.next = 0;
    return t;
}
