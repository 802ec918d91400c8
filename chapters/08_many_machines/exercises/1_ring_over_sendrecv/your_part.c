// # Exercise 1: a ring over MPI_Sendrecv
//
// Chapter 8, "Sums over ranks": "There the host enqueued the work of all devices; here each rank
// does its own part and knows nothing of the others but what they send." This time without a
// process group: with MPI itself.
//
// Difficulty: ★★★☆
//
// **Aim.** Chapter 2's ring, seen from one of k ranks: which part it sends in which step, which one
// it gets, and what becomes of it. Every rank sends and receives at the same time, and so nobody
// may wait until a neighbour has received.
//
// **Your task.** Write `ring_all_reduce()`. (allreduce_ring.c of chapter 2 has a drawing of it.)
//
// **How it is checked.** 1 to 5 ranks sum short vectors, and long ones. Sums of whole numbers must
// be exact; others must be added in the order of the ring, so that they have the bits of chapter
// 2's. Each rank sends the bytes of `allreduce_bytes()` to its right neighbour alone, in no more
// than 2(k-1) messages: the check is between your part and MPI, and counts (counted.h). If ranks
// wait in vain, it says where they are.
//
// **How to run.** The program starts its ranks itself; it needs MPI (`make setup`).
//
//     make exercise-08-1 ARGS=--check    the check alone: some seconds
//     make exercise-08-1                 the check, then the experiment: a minute
//
// **What to hand in.** This file, and your answer: for which sizes is your ring faster than a
// star (all send to rank 0, which adds and sends back), and why? What does `MPI_Allreduce()` do
// better? With 4 ranks a short vector takes your ring 6 messages one after the other: how many
// could do?
#include "your_part.h"

// `ring_all_reduce()`: data[i] becomes the sum of all ranks' data[i], for n numbers on each of the
// k ranks of `comm`.
//
// - The vector is cut into k parts: part p is `equal_range((long)n, k, p)`, which has a .first and
//   a .count. The first n % k parts have one number more; with n < k, some have none.
// - A rank sends to the one on its right, rank + 1, and receives from the one on its left; the last
//   one's right neighbour is rank 0.
// - Reduce-scatter: in step s = 0 .. k-2 rank r sends its part r - s, and adds what comes to its
//   part r - s - 1 (both modulo k; in C -1 % k is -1, so add k first). What comes needs a place
//   of its own: xmalloc() and free(). After these steps it has the whole sum of part r + 1.
// - All-gather: in step s it sends part r + 1 - s; what comes takes the place of part r - s.
void ring_all_reduce(float *data, size_t n, MPI_Comm comm) {
    // YOUR CODE HERE
}
