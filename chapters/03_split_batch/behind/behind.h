// behind.h: something to split, the chapter's two tables and its picture, and what is shown with
// --backend model. Whatever prints a row of a table has also checked it.
#pragma once

#include "common/program/table.h"
#include "../one_layer.h"

// ---- checks.c: was it split as it should be? -----------------------------------------------------

// Checks that each row is there once, in order, and that X and y are split alike. Waits.
void check_shards(const Tensor *X, const Tensor *y, Tensor *const X_shards[],
                  Tensor *const y_shards[], int k);

// The table of shards. print_sizes() splits n rows over k devices, checks the shards (where they
// have values) and adds a row: n, k, their sizes.
Table table_of_sizes(void);
void print_sizes(Table *t, int n, int k);

// Splits d2l's 4 x 5 matrix over two devices and prints the shards.
void split_a_matrix(void);

// The table of errors. print_errors() compares two gradients from k devices with the gradient from
// one, and adds a row: n, k, both errors. The first must be right, the second exactly if k divides
// n. Returns the second error.
Table table_of_errors(void);
double print_errors(Table *t, int n, int k, const float one[], const float summed[],
                    const float averaged[]);

// ---- minibatch_picture.c -------------------------------------------------------------------------

// Splits X (n,1,28,28) and y over k devices, checks the shards, and draws X as read back from them,
// each image framed in the color of its device.
void draw_minibatch(const char *path, const Tensor *X, const Tensor *y, int k);

// ---- modelled.c: --backend model -----------------------------------------------------------------

// All of the chapter that needs no values: how many rows each device gets, and, for --timeline, two
// gradients, on one device and on k. only_rows is the number of --rows; 0: as in the story.
void split_without_values(const Tensor *X, const Tensor *y, Tensor *const params[2], int only_rows,
                          int k);
