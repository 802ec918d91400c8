// bucket_sizes.h: how large should buckets be?
#ifndef BUCKET_SIZES_H
#define BUCKET_SIZES_H

// Modelled: a step of DDP with buckets from 4 KB to one of everything, of both networks, on k
// devices of two machines, `rows` rows on each device: a table, a CSV, a plot, what is best, and
// why. The files are book_csv("_buckets.csv") and book_output("_buckets.png"). Returns the bytes of
// the best bucket for ResNet-18 on the machine of the modelled clock, in MB; NAN without a machine.
double sweep_bucket_sizes(int k, int rows);

#endif
