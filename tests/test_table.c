// test_table.c: a table of all kinds of columns, printed and as CSV, to the last character.
#include "common/program/table.h"

#include "test.h"

static void tables_are_printed_and_written(void **state) {
    (void)state;
    char *csv, *printed;
    size_t n;
    FILE *written = open_memstream(&csv, &n), *kept = stdout;
    stdout = open_memstream(&printed, &n);
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
    fclose(stdout);
    stdout = kept;
    fclose(written);
    assert_string_equal(printed,
                        "  way           bytes   step, ms    error   bucket    k = 2   k = 16\n"
                        "  ring      1,234,567      12.35  1.5e-07   64 KiB   10,000     9999\n"
                        "  Größe             -  12,500.00      123        -  -12,346    1 (2)\n");
    assert_string_equal(csv, "machine,way,bytes,seconds,of2,of16\n"
                             "\"a, b\",ring,1234567,0.0123456789,10000,9999\n"
                             "c,Größe,nan,12.5,-12345.6,1 (2)\n");
    free(printed);
    free(csv);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(tables_are_printed_and_written)};
    return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
