// allreduce.h: sum a vector over all devices. Book: "Multiple GPUs", section "Data
// Synchronization", and its exercise 3.
#ifndef ALLREDUCE_H
#define ALLREDUCE_H

#include "common/base/range.h"
#include "common/tensor/tensor.h"

// data[i] is on device i; afterwards each holds the sum of all, the same bits on each. Enqueued,
// not waited for. The k tensors have one shape, are on k different devices and share no memory;
// die()s if not. What arrives from other devices is kept in the arena until the next begin_step()
// of its device.
//
// `const`: the tensors are written into, never replaced. Whoever else holds data[i] sees the sum.
void allreduce(Tensor *const data[], int k);

// By which algorithm: "star" (at first), "sharded", "ring" or "tree", as --allreduce has it.
void choose_allreduce(const char *name);

// ---- the algorithms --------------------------------------------------------------------------
//
// For a vector of n floats, N = 4 n bytes. Each has the same sum at the end, up to rounding: the
// order of additions differs, but for one algorithm and one k it is always the same. In all,
// 2 (k-1) N bytes cross, whichever it is; what differs is how many of them one device has to send,
// and how many transfers have to come one after the other.

// The book's. Device 0 receives from all others, adds, and sends the sum back.
// 2 (k-1) steps of N bytes, all of them through device 0: it sends (k-1) N, each other device N.
void allreduce_star(Tensor *const data[], int k);
// The same in the book's own lines, with the same bits; nothing uses it but the test that says so.
void allreduce_book(Tensor *const data[], int k);

// The book's exercise 3: device j sums part j of the vector, so that all are at work, then each
// collects the parts (reduce-scatter, all-gather). The sums have the star's bits.
// 2 (k-1) steps of N/k bytes; each device sends 2 (k-1)/k N. Rabenseifner, "Optimization of
// collective reduction operations", ICCS 2004; as k parameter servers: [@li2014].
void allreduce_sharded(Tensor *const data[], int k);

// The same two halves, but each device sends to its right neighbour only, for links that form a
// ring.
// 2 (k-1) steps of N/k bytes; each device sends 2 (k-1)/k N, and less is not possible. Patarasuk
// and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009.
void allreduce_ring(Tensor *const data[], int k);

// Sums in pairs, pairs of pairs and so on up to device 0, and back the same way (a binomial tree).
// 2 log2(k) steps (rounded up) of N bytes; device 0 sends log2(k) N. For short vectors, where the
// number of steps is what counts. Thakur, Rabenseifner and Gropp, "Optimization of collective
// communication operations in MPICH", IJHPCA 2005.
void allreduce_tree(Tensor *const data[], int k);

// What one device sends to others and receives from them.
typedef struct Traffic {
    size_t sent, received;
} Traffic;

typedef struct Allreduce {
    const char *name;
    void (*run)(Tensor *const data[], int k);
    Traffic (*floats)(size_t n, int k, int i); // the formula, for device i of k
    int (*steps)(int k);                       // transfers that have to come one after the other,
    bool in_parts;                             // each of n/k floats (rounded up) if set, else of n
} Allreduce;

enum { NUM_ALLREDUCES = 4 };
extern const Allreduce allreduces[NUM_ALLREDUCES];
const Allreduce *chosen_allreduce(void);
// Chooses one that need not be in the table, for experiments.
void choose_this_allreduce(const Allreduce *algorithm);

// One that leaves all as it is: what a step takes with it, it takes without its exchange.
extern const Allreduce no_exchange;

// The formula: the bytes that device i of k sends and receives for a vector of n floats. Exact,
// whether or not k divides n.
Traffic allreduce_bytes(const Allreduce *algorithm, size_t n, int k, int i);

// NULL if allreduce() takes these tensors, else what is wrong with them.
const char *allreduce_mistake(Tensor *const data[], int k);

// ---- for those who write one -----------------------------------------------------------------

// Where some of a tensor's numbers begin; NULL in a tensor without elements. How n numbers are cut
// into k parts, equal_range(n, k, j) says, in range.h.
float *part_data(const Tensor *t, Range part);

// now[i] = the point that the queue of data[i] has come to.
void record_all(Tensor *const data[], int k, Event now[]);

// For algorithms that send whole vectors, a piece of at most 4 MiB at a time, so that starting a
// transfer is not what takes time. Each piece arrives at
// the same place and is added while the cache still has it, and a device needs no room for a second
// vector. The place is in this step's arena; a tensor without elements has no pieces.
enum { PIECE = 1 << 20 }; // floats
Tensor *place_to_receive(const Tensor *sum);
int num_pieces(const Tensor *t);
Range piece_of(const Tensor *t, int p);
// sum += from, in that piece, once `from` is ready.
void receive_and_add(Tensor *sum, const Tensor *from, Event ready, Range piece, Tensor *place);

Traffic allreduce_star_floats(size_t n, int k, int i);
Traffic allreduce_sharded_floats(size_t n, int k, int i);
Traffic allreduce_ring_floats(size_t n, int k, int i);
Traffic allreduce_tree_floats(size_t n, int k, int i);

#endif
