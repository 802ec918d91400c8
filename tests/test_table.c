// test_table.c: a table of all kinds of columns, printed and as CSV, to the last character.
#include "common/program/table.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void tables_are_printed_and_written(void **state) {
    (void)state;
    static char csv[1000];
    char printed[1000] = "";
    FILE *caught = tmpfile(), *written = fmemopen(csv, sizeof csv, "w");
    fflush(stdout);
    int kept = dup(STDOUT_FILENO);
    dup2(fileno(caught), STDOUT_FILENO);
    Table t = TABLE(written, {.csv = "machine"}, {"way", .text = 8, .csv = "way"},
                    {"bytes", .width = 9, .csv = "bytes"},
                    {"step", .width = 9, .unit = "ms", .decimals = 2, .csv = "seconds"},
                    {"error", .digits = 2}, {"bucket", .bytes = true},
                    {"k = %d", .csv = "of%d", .count = 2, .of = (const int[]){2, 16}});
    table_text(&t, "a, b");
    table_text(&t, "ring");
    table_numbers(&t, 1234567, 0.0123456789, 1.5e-7, 65536, 1e4, 9999);
    table_text(&t, "c");
    table_text(&t, "Größe");
    table_numbers(&t, NAN, 12.5, 123.4, NAN, -12345.6);
    table_text(&t, "%d (%d)", 1, 2);
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    rewind(caught);
    printed[fread(printed, 1, sizeof printed - 1, caught)] = '\0';
    fclose(caught);
    fclose(written);
    assert_string_equal(printed,
                        "  way           bytes   step, ms    error   bucket    k = 2   k = 16\n"
                        "  ring      1,234,567      12.35  1.5e-07   64 KiB   10,000     9999\n"
                        "  Größe             -  12,500.00      123        -  -12,346    1 (2)\n");
    assert_string_equal(csv, "machine,way,bytes,seconds,of2,of16\n"
                             "\"a, b\",ring,1234567,0.0123456789,10000,9999\n"
                             "c,Größe,nan,12.5,-12345.6,1 (2)\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(tables_are_printed_and_written)};
    return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
