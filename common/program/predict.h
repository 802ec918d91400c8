// predict.h: predict first, then measure. Before a table that matters, a program asks what its
// reader expects, and below the table it says how near that was. This needs --predict and a
// terminal. Otherwise these functions ask and print nothing, so a pipe gets the same with and
// without the flag.
//
//     Prediction idle = predict_first("How much of the time ... idle, in percent?");
//     ... the table ...
//     predict_compare(idle, 27.3, "%");
//
// On the book's pages each question is a box above the code that asks it, so the call must have the
// whole question as one string.
#pragma once

#include <stdbool.h>

// What the reader expects. `given` is false if nobody was asked, or there was no answer.
typedef struct Prediction {
    bool given;
    double value; // yes: 1, no: 0
    const char *question;
} Prediction;

// Whether questions are asked. parse_flags() calls it.
void predict_enable(bool asks);

// Asks for a number, in the unit that the question names, or for yes or no. An empty line is no
// answer; after the end of the input nothing is asked any more.
Prediction predict_first(const char *question);
Prediction predict_yes_no(const char *question);

// Says what was expected, what came out, and how far these are apart. The unit may be "". Started
// in the repository, a chapter's program also appends question and answer to its predictions.md,
// which a student can hand in.
void predict_compare(Prediction expected, double result, const char *unit);
void predict_compare_yes_no(Prediction expected, bool result);
