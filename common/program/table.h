// table.h: a table whose columns are declared once, printed and written as CSV row by row:
//
//     Table t = TABLE(csv, WORDS("way", 12, .csv = "way"), WHOLE("devices", .csv = "devices"),
//                     FIXED("a step", 2, .unit = "ms", .csv = "seconds"));
//     table_text(&t, "%s", "ring");
//     table_numbers(&t, 4, 0.00125);
//
// prints this, and writes `way,devices,seconds` and `ring,4,0.00125`:
//
//       way           devices  a step, ms
//       ring                4        1.25
//
// At least two spaces separate columns, in the head too; numbers are aligned on the right.
#pragma once

#include <stdbool.h>
#include <stdio.h>

// A column without a title is not printed. A column without `csv` is not in the CSV. An empty text,
// and a number that is not finite, are printed as "-". By default a column has whole numbers.
typedef struct Column {
    const char *title;
    const char *csv;  // its name there; values are written in full
    const char *unit; // "ms": values are seconds, and the table prints milliseconds; see table.c
    int text;         // texts, aligned on the left; the most characters that they have
    int width;        // or numbers; the most characters that they have; 0: 7
    int decimals;     // digits after the point;
    int digits;       // or significant digits
    bool bytes;       // or "64 KiB"
    bool modelled;    // not printed with --machine none, when no time is modelled
    int count;        // this many columns, with a "%d" in title and csv: each number of `of`, or,
    const int *of;    // if that is NULL, 0, 1, ..
} Column;

// Short forms of the usual ones. Other members may follow: FIXED("a step", 2, .unit = "ms").
#define WORDS(name, most, ...)                                                                     \
    { .title = (name), .text = (most), __VA_ARGS__ }
#define WHOLE(name, ...)                                                                           \
    { .title = (name), __VA_ARGS__ }
#define FIXED(name, after, ...)                                                                    \
    { .title = (name), .decimals = (after), __VA_ARGS__ }
#define DIGITS(name, number, ...)                                                                  \
    { .title = (name), .digits = (number), __VA_ARGS__ }

enum { MOST_COLUMNS = 32, LONGEST_TITLE = 48 };
typedef struct Table {
    FILE *csv; // NULL: not written
    bool has_head;
    int n, next, last_printed, last_written; // columns; the one that is filled next
    struct {
        Column is;
        char title[LONGEST_TITLE], csv[LONGEST_TITLE]; // with unit and number
    } columns[MOST_COLUMNS];
} Table;

// Writes the head of the CSV. TABLE(NULL, ..) is only printed. TABLE(csv, ..) without titles is
// only written.
#define TABLE(csv, ...) table_begin((csv), (const Column[]){__VA_ARGS__, {.count = -1}})
Table table_begin(FILE *csv, const Column *columns);
// Prints the head now, to have it before the first row is known, or once more. Otherwise the first
// row prints it.
void table_head(Table *t);

// Fill the next columns. A row ends with the last one. A text may be in a column of numbers, too.
void table_text(Table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define table_numbers(t, ...)                                                                      \
    table_add_numbers((t), sizeof((double[]){__VA_ARGS__}) / sizeof(double),                       \
                      (const double[]){__VA_ARGS__})
void table_add_numbers(Table *t, size_t n, const double numbers[]);
