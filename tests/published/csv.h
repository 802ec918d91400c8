// csv.h: reads the tables of published figures, for truth.c. If something is wrong with a file, the
// program ends with its name, the line and the column: a figure that cannot be read must not become
// a row.
#pragma once

#include "common/base/error.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

typedef struct Csv {
    const char *path;
    int num_columns, num_rows;
    char **cells; // row after row, the names of the columns first
} Csv;

// Cuts the first cell off a line. *line is then what follows it, or NULL. Returns NULL if there is
// no end to its quotes, or something behind them.
static char *cut_cell(char **line) {
    bool quoted = **line == '"';
    char *cell = *line + quoted, *end = strpbrk(cell, quoted ? "\"" : ",\n");
    if (quoted && (!end || !strchr(",\n", end[1]))) return NULL;
    char *separator = end ? end + quoted : NULL;
    *line = separator && *separator == ',' ? separator + 1 : NULL;
    if (end) *end = '\0';
    return cell;
}

static void csv_add_line(Csv *csv, int number, char *line) {
    int columns = 0;
    size_t before = (size_t)(number - 1) * (size_t)csv->num_columns;
    while (line) {
        char *cell = cut_cell(&line);
        if (!cell) die("\"a cell, in quotes\"", "%s:%d: wrong quotes", csv->path, number);
        csv->cells = xgrow(csv->cells, before + (size_t)columns + 1, sizeof *csv->cells);
        csv->cells[before + (size_t)columns++] = cell;
    }
    if (number == 1) csv->num_columns = columns;
    if (columns != csv->num_columns)
        die("a comma in a cell? Put the cell in quotes", "%s:%d: %d cells in %d columns", csv->path,
            number, columns, csv->num_columns);
    csv->num_rows = number - 1;
}

// Cells are separated by commas; one in quotes may contain commas. They live for ever.
static Csv csv_read(const char *path) {
    Csv csv = {.path = path};
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t room = 0;
    for (int number = 1; file && getline(&line, &room, file) >= 0; number++)
        csv_add_line(&csv, number, xstrdup(line));
    if (csv.num_rows < 1) die("start in the project's folder", "%s: no rows", path);
    free(line);
    fclose(file);
    return csv;
}

static const char *csv_text(const Csv *csv, int row, const char *column) {
    for (int c = 0; c < csv->num_columns; c++)
        if (strcmp(csv->cells[c], column) == 0) return csv->cells[(row + 1) * csv->num_columns + c];
    die("its first line names the columns", "%s: no column %s", csv->path, column);
}

static _Noreturn void csv_refuse(const Csv *csv, int row, const char *column, const char *hint) {
    die(hint, "%s:%d: %s is \"%s\"", csv->path, row + 2, column, csv_text(csv, row, column));
}

// A number above zero. (NaN is none.)
static double csv_number(const Csv *csv, int row, const char *column) {
    const char *text = csv_text(csv, row, column);
    char *end;
    double number = strtod(text, &end);
    if (*end || !(number > 0 && number < INFINITY))
        csv_refuse(csv, row, column, "it has to be a number above zero");
    return number;
}

// Which of these words, the last followed by NULL, is in the cell.
static int csv_word(const Csv *csv, int row, const char *column, const char *const words[]) {
    const char *text = csv_text(csv, row, column);
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], text) == 0) return i;
    csv_refuse(csv, row, column, "tests/bench/truth.c does not know this word");
}
