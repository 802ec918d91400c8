// test_predict.c: what a program says on a terminal, to the last character: what a reader expects
// (predict.h) is asked there, and nowhere else; tables.
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/statistics.h"
#include "common/program/predict.h"
#include "common/program/table.h"
#include "common/tensor/tensor.h"
#include "cases.h"

static bool is_terminal[2] = {true, true}; // the input, the output

// Before the C library's own.
int isatty(int file) { return file <= STDOUT_FILENO && is_terminal[file]; }

// Runs the program, whose reader has typed these lines, and compares what it printed.
static void assert_prints(void (*program)(void), const char *lines, const char *expected) {
    char *text, *typed = strdup(lines);
    size_t size;
    FILE *in = stdin, *out = stdout;
    stdin = fmemopen(typed, strlen(typed), "r");
    stdout = open_memstream(&text, &size);
    program();
    fclose(stdin);
    fclose(stdout);
    stdin = in;
    stdout = out;
    assert_string_equal(text, expected);
    free(typed);
    free(text);
}

static void two_numbers(void) {
    predict_enable(true);
    Prediction idle = predict_first("How idle is a device?");
    Prediction bytes = predict_first("How many MB move?");
    predict_compare(idle, 54.6, "%");
    predict_compare(bytes, 12, "MB");
}

static void one_yes_or_no(void) {
    predict_enable(true);
    predict_compare_yes_no(predict_yes_no("Are all bits the same?"), true);
}

static void without_the_flag(void) {
    predict_enable(false);
    predict_compare(predict_first("How many MB move?"), 1, "");
    predict_compare_yes_no(predict_yes_no("Are all bits the same?"), true);
}

#define AGAIN      "  a number (or Enter): "
#define ASKS_IDLE  "\nPredict first. How idle is a device?\n" AGAIN
#define ASKS_BYTES "\nPredict first. How many MB move?\n" AGAIN
#define SAID_HALF  "You said 27.3 %, and it is 54.6: your figure is 0.5 times that.\n"
#define SAID_12    "You said 12 MB: right, it is 12.\n"
#define ASKS_SAME  "\nPredict first. Are all bits the same?\n  yes or no (or Enter): "

TEST(the_reader_is_asked_on_a_terminal) {
    char long_line[1000];
    snprintf(long_line, sizeof long_line, "27.3%600d\n12\n", 7); // one answer
    const struct {
        void (*program)(void);
        const char *typed, *printed;
    } readers[] = {
        {two_numbers, "27.3\n12 MB\n", ASKS_IDLE ASKS_BYTES SAID_HALF SAID_12},
        {two_numbers, "much\nnan\n-inf\n%\n 27.3%\n\n",
         ASKS_IDLE AGAIN AGAIN AGAIN AGAIN ASKS_BYTES SAID_HALF},
        {two_numbers, "\n  \t\n", ASKS_IDLE ASKS_BYTES},
        {two_numbers, "\n12\n", ASKS_IDLE ASKS_BYTES SAID_12},
        // After the end nothing is asked.
        {two_numbers, "", ASKS_IDLE "\n"},
        {two_numbers, "54.6\n", ASKS_IDLE ASKS_BYTES "\nYou said 54.6 %: right, it is 54.6.\n"},
        {one_yes_or_no, "Yes\n", ASKS_SAME "You said yes: right.\n"},
        {one_yes_or_no, "n\n", ASKS_SAME "You said no: it is the other way.\n"},
        {one_yes_or_no, "1\ny\n", ASKS_SAME "  yes or no (or Enter): You said yes: right.\n"},
        {one_yes_or_no, "\n", ASKS_SAME},
        {without_the_flag, "1\ny\n", ""},
        {two_numbers, long_line, ASKS_IDLE ASKS_BYTES SAID_HALF SAID_12},
    };
    for (size_t i = 0; i < COUNT(readers); i++)
        assert_prints(readers[i].program, readers[i].typed, readers[i].printed);
    for (int file = 0; file < 2; file++) {
        is_terminal[file] = false;
        assert_prints(two_numbers, "1\n2\n", "");
        is_terminal[file] = true;
    }
}

static Prediction said;
static double result;
static void compare(void) { predict_compare(said, result, "ms"); }

// (A program that went wrong, NaN, has not proved anybody right.)
TEST(figures_are_compared) {
    static const struct {
        double value, result;
        const char *printed;
    } rows[] = {
        {1.004, 1, "You said 1.004 ms: right, it is 1.\n"},
        {-1.004, -1, "You said -1.004 ms: right, it is -1.\n"},
        {3, 2, "You said 3 ms, and it is 2: your figure is 1.5 times that.\n"},
        {0, 2, "You said 0 ms, and it is 2.\n"},
        {-3, 2, "You said -3 ms, and it is 2.\n"},
        {0, 0, "You said 0 ms: right, it is 0.\n"},
        {1e-9, 0, "You said 1e-09 ms, and it is 0.\n"},
        {3, (double)NAN, "You said 3 ms, and it is nan.\n"},
        {3, (double)INFINITY, "You said 3 ms, and it is inf.\n"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        said = (Prediction){.given = true, .value = rows[i].value};
        result = rows[i].result;
        assert_prints(compare, "", rows[i].printed);
    }
}

// In the chapter's folder, after what is there; and nowhere, if that folder is not here.
TEST_IN_A_FOLDER(predictions_are_kept) {
#define HALF "You said 3 ms, and it is 2: your figure is 1.5 times that."
    said = (Prediction){.given = true, .value = 3, .question = "How long?"};
    result = 2;
    set_program_name("build/08_many");
    assert_prints(compare, "", HALF "\n");
    make_directory("chapters/08_many");
    assert_entries(2);
    assert_prints(compare, "", HALF "\n");
    result = 3;
    assert_prints(compare, "", "You said 3 ms: right, it is 3.\n");
    assert_holds("chapters/08_many/predictions.md",
                 "- How long?\n  **" HALF "**\n"
                 "- How long?\n  **You said 3 ms: right, it is 3.**\n");
}

TEST(measured_values_are_summarised) {
    const double numbers[] = {2, -1, 5, NAN, 1};
    Quartiles q = quartiles((double[]){3, 1, 2, 5, 4}, 5);
    assert_true(q.low == 2 && q.median == 3 && q.high == 4);
    assert_true(mean(numbers, 3) == 2 && minimum(numbers, 3) == -1 && maximum(numbers, 3) == 5);
    assert_true(isnan(mean(numbers, 5)) && isnan(minimum(numbers, 5)) &&
                isnan(maximum(numbers, 5)));
    assert_true(isnan(relative_difference((float[]){1, NAN}, (float[]){1, 2}, NULL, 2)));
    assert_true(relative_difference((float[]){2, 3}, (float[]){2, 4}, (float[]){2, 2}, 2) == 0.5);
}

static char *csv;

static void print_table(void) {
    size_t n;
    FILE *written = open_memstream(&csv, &n);
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
    fclose(written);
}

TEST(tables_are_printed_and_written) {
    assert_prints(print_table, "",
                  "  way           bytes   step, ms    error   bucket    k = 2   k = 16\n"
                  "  ring      1,234,567      12.35  1.5e-07   64 KiB   10,000     9999\n"
                  "  Größe             -  12,500.00      123        -  -12,346    1 (2)\n");
    assert_string_equal(csv, "machine,way,bytes,seconds,of2,of16\n"
                             "\"a, b\",ring,1234567,0.0123456789,10000,9999\n"
                             "c,Größe,nan,12.5,-12345.6,1 (2)\n");
    free(csv);
}

int main(void) { return run_all("predict", NULL, NULL); }
