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
#ifndef TABLE_H
#define TABLE_H

#include <stdbool.h>
#include <stdio.h>

// A column without a title is not printed, one without `csv` is not in the CSV. What is no finite
// number, and an empty text, is printed as "-". By default a column has whole numbers.
typedef struct Column {
    const char *title;
    const char *csv;  // its name there; values are written in full
    const char *unit; // "ms": values are seconds, and the table prints milliseconds; see table.c
    int text;         // texts, aligned on the left, of at most so many characters
    int width;        // or numbers of at most so many characters; 0: 7
    int decimals;     // digits after the point;
    int digits;       // or significant digits
    bool bytes;       // or "64 KiB"
    bool modelled;    // not printed with --machine none, when no time is modelled
    int count;        // so many columns, with a "%d" in title and csv: for each number of `of`, or,
    const int *of;    // if that is NULL, from 0
} Column;

// The usual ones, for short; what else there is to say follows: FIXED("a step", 2, .unit = "ms").
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

// Writes the head of the CSV. TABLE(NULL, ..) is printed only; TABLE(csv, ..) without titles is
// written only.
#define TABLE(csv, ...) table_begin((csv), (const Column[]){__VA_ARGS__, {.count = -1}})
Table table_begin(FILE *csv, const Column *columns);
// Prints the head: at once, or once more, above the next rows. The first row sees to it by itself.
void table_head(Table *t);

// Fill the next columns; a row ends with the last one. A text may stand among numbers, too.
void table_text(Table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define table_numbers(t, ...)                                                                      \
    table_add_numbers((t), sizeof((double[]){__VA_ARGS__}) / sizeof(double),                       \
                      (const double[]){__VA_ARGS__})
void table_add_numbers(Table *t, size_t n, const double numbers[]);

#endif
