// # Exercise 1: a ring over MPI_Sendrecv
//
// In chapter 8's "A sum between two processes", each rank does its own part and knows nothing of
// the others but what they send. This time there is no process group, only MPI itself.
//
// Difficulty: ★★★☆
//
// **Aim.** You see chapter 2's ring from one of k ranks. Which part does it send in each step,
// which part does it get, and what becomes of that part? Every rank sends and receives at the same
// time, so no rank may wait until a neighbour has received.
//
// **Your task.** Write `ring_all_reduce()`. (Chapter 2's allreduce_ring.c has a drawing of it.)
//
// **How it is checked.** 1 to 5 ranks sum short and long vectors. Sums of whole numbers must be
// exact. Other sums must be added in the order of the ring, so that they are bit-identical to
// chapter 2's. Each rank must send the bytes of `allreduce_bytes()` to its right neighbour alone,
// in at most 2(k-1) messages. The check sits between your part and MPI and counts them (counted.h).
// If ranks wait forever, it says where they are.
//
// **How to run.** The program starts its ranks itself. It needs MPI (`make setup`).
//
//     make exercise-08-1 ARGS=--check    the check alone: some seconds
//     make exercise-08-1                 the check, then the experiment: a minute
//
// **What to hand in.** This file, and your answer. For which sizes is your ring faster than a star
// (all send to rank 0, which adds and sends back), and why? What does `MPI_Allreduce()` do better?
// With 4 ranks, your ring takes 6 messages one after the other for a short vector. How many would
// be enough?
#include "your_part.h"

// `ring_all_reduce()`: data[i] becomes the sum of all ranks' data[i], for n numbers on each of the
// k ranks of `comm`.
//
// - The vector is cut into k parts: part p is `equal_range((long)n, k, p)`, which has a .first and
//   a .count. The first n % k parts have one more number. If n < k, some have none.
// - A rank sends to the one on its right, rank + 1, and receives from the one on its left. The last
//   one's right neighbour is rank 0. (In C, -1 % k is -1.) What arrives needs memory: xmalloc().
// - Reduce-scatter, k - 1 messages of each rank: part p starts at rank p and goes once around the
//   ring. Each rank adds its own numbers. So rank p - 1 has the whole sum of part p.
// - All-gather, k - 1 messages again: each part's sum goes on from there to all the others.
void ring_all_reduce(float *data, size_t n, MPI_Comm comm) {
    // YOUR CODE HERE
}
