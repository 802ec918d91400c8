// comparison.h: what there is to say about the book's two runs, with their own figures.
#ifndef COMPARISON_H
#define COMPARISON_H

#include "notebook.h"

// `bn` is what --bn says.
void compare_runs(const Run *one, const Run *two, const char *bn);

#endif
