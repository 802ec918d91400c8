// range.h: some of n things that stand in a row: rows of a minibatch, channels of a layer, numbers
// of a vector.
#ifndef RANGE_H
#define RANGE_H

// `count` things from number `first` on.
typedef struct Range {
    long first, count;
} Range;

// Part i of k of n things: in order, and as equal as can be. Each part has n / k things, and the
// first n % k parts have one more. Where n < k, the last ones have none.
static inline Range equal_range(long n, int k, int i) {
    long each = n / k, extra = n % k;
    return (Range){.first = i * each + (i < extra ? i : extra), .count = each + (i < extra)};
}

#endif
