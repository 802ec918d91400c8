// range.h: a part of n consecutive things: rows of a minibatch, channels of a layer, numbers of a
// vector. To cut them into k parts, call equal_range() for each.
#pragma once

// `count` things from number `first` on.
typedef struct Range {
    long first, count;
} Range;

// Part i of k of n things. Each part has n / k things, and the first n % k parts have one more. If
// n is smaller than k, the last parts are empty.
static inline Range equal_range(long n, int k, int i) {
    long each = n / k, extra = n % k;
    return (Range){.first = i * each + (i < extra ? i : extra), .count = each + (i < extra)};
}
