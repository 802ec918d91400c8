// exchange_times.h: how long workers and servers need to exchange gradients for parameters.
#ifndef EXCHANGE_TIMES_H
#define EXCHANGE_TIMES_H

#include "schedule.h"
#include "replay.h"

// Modelled: push and pull of all W workers at S servers, for W = 1, 2, 4, ... on hosts of one
// device each, with S = 1, W/2 and W servers, next to max(P/Bw, W P/(S Bs)) each way, and to a
// ring: a table, a CSV and a plot, book_csv("_exchange.csv") and book_output("_exchange.png").
// Nothing without a machine that has a network.
void compare_exchanges(int most_workers);

// The pace of such workers on the machine of the modelled clock: one computes its shard of the
// lesson's minibatch on a device, and sends and gets all parameters over the network (or the link
// between two devices). `slow` has a number for each worker.
Pace pace_on_machine(const PsLesson *lesson, double slow[]);

#endif
