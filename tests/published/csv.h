// csv.h: reads the tables of published figures. If something is wrong with a file, the program ends
// with its name, the line and the column: a figure that cannot be read must not become a row.
#ifndef CSV_H
#define CSV_H

typedef struct Csv {
    const char *path;
    int num_columns, num_rows;
    char **cells; // row after row, the names of the columns first
} Csv;

// Cells are separated by commas; one in quotes may contain commas. They live as long as the
// program.
Csv csv_read(const char *path);
const char *csv_text(const Csv *csv, int row, const char *column);
// A number above zero. (NaN is none.)
double csv_number(const Csv *csv, int row, const char *column);
// Which of these words, the last followed by NULL, is in the cell.
int csv_word(const Csv *csv, int row, const char *column, const char *const words[]);

#endif
