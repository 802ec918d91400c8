// allreduce.h: sum a vector over all devices. Book: "Multiple GPUs", section "Data
// Synchronization", and its exercise 3.
//
// To sum, call allreduce(); to choose how, choose_allreduce(). Do not call an algorithm by itself
// unless you compare them: it does not check what it gets.
#pragma once

#include "common/base/range.h"
#include "common/model/machine.h"
#include "common/tensor/tensor.h"

// data[i] is on device i. Afterwards each data[i] holds the sum of all, the same bits on each. The
// work is enqueued, not waited for. die()s unless the k tensors have one shape, are on k different
// devices and share no memory. What arrives from other devices stays in the arena until the
// device's next begin_step().
//
// `const`: the tensors are written into, never replaced. Every other pointer to data[i] sees the
// sum, too.
void allreduce(Tensor *const data[], int k);

// Choose the algorithm: "star" (the default), "sharded", "ring" or "tree", as --allreduce does.
void choose_allreduce(const char *name);

// ---- the algorithms --------------------------------------------------------------------------
//
// For a vector of n floats, N = 4 n bytes. In all, each moves 2 (k-1) N bytes. They differ in the
// bytes that the busiest device sends, and in the number of transfers that come one after the
// other. The order of additions differs too, so sums are equal up to rounding; for one algorithm
// and one k it is always the same.

// The book's: device 0 receives all vectors, adds them, and sends the sum back.
// 2 (k-1) steps of N bytes; device 0 sends (k-1) N, each other device N.
void allreduce_book(Tensor *const data[], int k);
// The same, with the same bits, in pieces of 4 MiB: the first pieces of the sum go back while the
// last pieces of the vectors still arrive.
void allreduce_star(Tensor *const data[], int k);

// The book's exercise 3: device j sums part j of the vector; then each device collects the parts
// (reduce-scatter, all-gather). The sums have the star's bits.
// 2 (k-1) steps of N/k bytes; each device sends 2 (k-1)/k N. Rabenseifner, "Optimization of
// collective reduction operations", ICCS 2004; as k parameter servers: [@li2014].
void allreduce_sharded(Tensor *const data[], int k);

// Its two halves, with tensors of your own (chapter 9).
//
// sums[j], on device j, becomes part j of the sum of all data[i]. It may be that part of data[j].
// Parts of data[i] are overwritten. received[j] has room for the other devices' part j, k-1 rows.
void reduce_scatter(Tensor *const sums[], Tensor *const data[], Tensor *const received[], int k);
// Part j of each full[i] becomes parts[j], which may be that part of full[j].
void all_gather(Tensor *const full[], Tensor *const parts[], int k);

// The same two halves, but each device sends to its right neighbour only.
// 2 (k-1) steps of N/k bytes; each device sends 2 (k-1)/k N, and less is not possible. Patarasuk
// and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009.
void allreduce_ring(Tensor *const data[], int k);

// Sums pairs, then pairs of pairs and so on up to device 0, and sends the sum back the same way (a
// binomial tree).
// 2 log2(k) steps (the logarithm rounded up) of N bytes; device 0 sends log2(k) N. Thakur,
// Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA
// 2005.
void allreduce_tree(Tensor *const data[], int k);

// What one device sends to others and receives from them.
typedef struct Traffic {
    size_t sent, received;
} Traffic;

typedef struct Allreduce {
    const char *name;
    void (*run)(Tensor *const data[], int k);
    Traffic (*floats)(size_t n, int k, int i); // the formula, for device i of k
    int (*steps)(int k);                       // transfers that come one after the other,
    bool in_parts;                             // each of n/k floats (rounded up) if set, else of n
} Allreduce;

enum { NUM_ALLREDUCES = 4 };
extern const Allreduce allreduces[NUM_ALLREDUCES];
const Allreduce *chosen_allreduce(void);
// Choose one that need not be in the table, for experiments.
void choose_this_allreduce(const Allreduce *algorithm);

// Leaves all vectors as they are: a step with it takes as long as a step without its exchange.
extern const Allreduce no_exchange;

// The formula: the bytes that device i of k sends and receives for a vector of n floats. Exact,
// whether or not k divides n.
Traffic allreduce_bytes(const Allreduce *algorithm, size_t n, int k, int i);

// NULL if allreduce() takes these tensors, else what is wrong with them.
const char *allreduce_mistake(Tensor *const data[], int k);

// Seconds of one allreduce of vectors of n floats on k devices of a machine that need not be here:
// the same code runs on devices that compute nothing.
double modelled_allreduce(const Machine *machine, void (*run)(Tensor *const data[], int k), int k,
                          int n);

// ---- for the algorithms ----------------------------------------------------------------------

// Where a part of a tensor's numbers begins; NULL in a tensor without elements. equal_range(n, k,
// j) in range.h is part j of n numbers that are cut into k parts.
float *part_data(const Tensor *t, Range part);

// now[i] = the point that the queue of data[i] has come to.
void record_all(Tensor *const data[], int k, Event now[]);

// Whole vectors travel in pieces of at most 4 MiB. Each piece arrives in the same place, in this
// step's arena, and is added while the cache still has it. A tensor without elements has no pieces.
enum { PIECE = 1 << 20 }; // floats
Tensor *place_to_receive(const Tensor *sum);
int num_pieces(const Tensor *t);
Range piece_of(const Tensor *t, int p);
// sum += from, in that piece, once `from` is ready.
void receive_and_add(Tensor *sum, const Tensor *from, Event ready, Range piece, Tensor *place);

Traffic allreduce_star_floats(size_t n, int k, int i);
Traffic allreduce_sharded_floats(size_t n, int k, int i);
Traffic reduce_scatter_floats(size_t n, int k, int i);
Traffic all_gather_floats(size_t n, int k, int i);
Traffic allreduce_ring_floats(size_t n, int k, int i);
Traffic allreduce_tree_floats(size_t n, int k, int i);
