// exchange_table.h: ways to let gradients travel: messages, bytes and time of a step.
#ifndef EXCHANGE_TABLE_H
#define EXCHANGE_TABLE_H

#include "rank_training.h"

// Trains a few steps in each way, all ranks together, from the same start; rank 0 prints. die()s if
// the parameters of two ways differ in a bit though the sums' order is the same.
void compare_exchanges_of_ranks(const RankLesson *lesson);

#endif
