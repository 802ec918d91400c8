// predict.c: see predict.h.
#include "predict.h"
#include "say.h"

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

// A word that begins so says yes, or no.
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
    Prediction none = {false, 0};
    char line[128];
    double value;
    if (!asks) return none;
    putchar('\n');
    say("Predict first. %s", question);
    for (;;) {
        printf("  %s (or Enter): ", answer);
        fflush(stdout);
        if (!fgets(line, sizeof line, stdin)) {
            putchar('\n');
            asks = false;
            return none;
        }
        if (line[strspn(line, " \t\n")] == '\0') return none;
        if (reads(line, &value)) return (Prediction){true, value};
    }
}

Prediction predict_first(const char *question) { return ask(question, "a number", is_number); }
Prediction predict_yes_no(const char *question) { return ask(question, "yes or no", is_yes_no); }

// ---- answers ---------------------------------------------------------------------------------

void predict_compare(Prediction expected, double result, const char *unit) {
    if (!expected.given) return;
    const char *space = *unit ? " " : "";
    double distance = fabs(expected.value - result);
    if (distance <= 0.005 * fabs(result))
        say("You said %g%s%s: right, it is %g.", expected.value, space, unit, result);
    else if (result != 0 && expected.value / result > 0)
        say("You said %g%s%s, and it is %g: your figure is %.2g times that.", expected.value, space,
            unit, result, expected.value / result);
    else
        say("You said %g%s%s, and it is %g.", expected.value, space, unit, result);
}

void predict_compare_yes_no(Prediction expected, bool result) {
    if (!expected.given) return;
    bool yes = expected.value > 0;
    say("You said %s: %s.", yes ? "yes" : "no", yes == result ? "right" : "it is the other way");
}
