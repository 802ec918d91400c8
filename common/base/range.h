// range.h: some of n things that stand in a row: rows of a minibatch, channels of a layer, numbers
// of a vector.
#ifndef RANGE_H
#define RANGE_H

// `count` things from number `first` on.
typedef struct Range {
    long first, count;
} Range;

// This is part i if n things are cut into k parts. A part has n / k things, and the first n % k
// parts have one more. So if n < k, the last parts are empty.
static inline Range equal_range(long n, int k, int i) {
    long each = n / k, extra = n % k;
    return (Range){.first = i * each + (i < extra ? i : extra), .count = each + (i < extra)};
}

#endif
