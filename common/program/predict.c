// predict.c: asks on the terminal, if there is one, and compares answers with results.
#include "predict.h"
#include "common/base/error.h"
#include "say.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static bool asks;

void predict_enable(bool enabled) {
    asks = enabled && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

// ---- questions -------------------------------------------------------------------------------

// Any word that begins with y says yes, and with n, no.
static bool is_yes_no(const char *line, double *value) {
    *value = strncasecmp(line, "y", 1) == 0;
    return *value > 0 || strncasecmp(line, "n", 1) == 0;
}

// A number, whatever unit follows it.
static bool is_number(const char *line, double *value) {
    char *end;
    *value = strtod(line, &end);
    return end != line && isfinite(*value);
}

typedef bool Reads(const char *line, double *value);

static Prediction ask(const char *question, const char *answer, Reads *reads) {
    Prediction given = {.question = question};
    if (!asks) return given;
    putchar('\n');
    say("Predict first. %s", question);
    // Reads lines until one of them is an answer, or empty, or there are no more.
    char *line = NULL;
    size_t room = 0;
    for (bool again = true; again;) {
        printf("  %s (or Enter): ", answer);
        fflush(stdout);
        if (getline(&line, &room, stdin) < 0) {
            putchar('\n');
            asks = false;
            break;
        }
        bool is_empty = line[strspn(line, " \t\n")] == '\0';
        given.given = !is_empty && reads(line, &given.value);
        again = !is_empty && !given.given;
    }
    free(line);
    return given;
}

Prediction predict_first(const char *question) { return ask(question, "a number", is_number); }
Prediction predict_yes_no(const char *question) { return ask(question, "yes or no", is_yes_no); }

// ---- answers ---------------------------------------------------------------------------------

// Says it, and appends it to the chapter's predictions.md, if the chapter is here.
static void say_and_keep(const char *question, char *text) {
    char *path = xprintf("chapters/%s/predictions.md", program_name());
    FILE *file = fopen(path, "a");
    say("%s", text);
    if (file) fprintf(file, "- %s\n  **%s**\n", question, text);
    if (file && fclose(file) != 0) warn("%s: not kept: %s", path, strerror(errno));
    free(path);
    free(text);
}

// Four digits, or all digits of large numbers, such as bytes.
static char *number(double value) {
    bool large = fabs(value) >= 1e4 && fabs(value) < 1e15;
    return xprintf(large ? "%.0f" : "%.4g", value);
}

void predict_compare(Prediction expected, double result, const char *unit) {
    if (!expected.given) return;
    char *said = number(expected.value), *is = number(result);
    const char *space = *unit ? " " : "";
    double distance = fabs(expected.value - result);
    char *text;
    if (isfinite(result) && distance <= 0.005 * fabs(result))
        text = xprintf("You said %s%s%s: right, it is %s.", said, space, unit, is);
    else if (result != 0 && expected.value / result > 0)
        text = xprintf("You said %s%s%s, and it is %s: your figure is %.2g times that.", said,
                       space, unit, is, expected.value / result);
    else
        text = xprintf("You said %s%s%s, and it is %s.", said, space, unit, is);
    say_and_keep(expected.question, text);
    free(said);
    free(is);
}

void predict_compare_yes_no(Prediction expected, bool result) {
    if (!expected.given) return;
    bool yes = expected.value > 0;
    say_and_keep(expected.question, xprintf("You said %s: %s.", yes ? "yes" : "no",
                                            yes == result ? "right" : "it is the other way"));
}
