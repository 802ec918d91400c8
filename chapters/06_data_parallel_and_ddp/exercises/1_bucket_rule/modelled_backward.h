// modelled_backward.h: what a backward pass with an exchange under it takes on the machine of the
// modelled clock: what predict() is given, and what it is compared with.
#pragma once

#include "common/model/machine.h"
#include "chapters/06_data_parallel_and_ddp/ddp.h"
#include "chapters/06_data_parallel_and_ddp/networks.h"

// A backward pass of one device that exchanges nothing. Gradient p has sizes[p] floats and is final
// final[p] seconds after backward began, which takes `seconds` in all.
enum { MOST_PARAMS = 128 };
typedef struct Backward {
    int num_params;
    size_t sizes[MOST_PARAMS];
    double final[MOST_PARAMS];
    double seconds;
} Backward;

// What an exchange of so many bytes takes, in seconds.
typedef double ExchangeTime(size_t bytes);

// From now on time is told on this machine. Each of k devices is a rank and has `rows` images of a
// minibatch. The network must be initialize()d.
typedef enum {
    HOST_EACH, // each rank is a process, with a host thread of its own that launches
    ONE_HOST,  // one host thread launches for all, as in our programs
} Hosts;
void model_ranks(const Machine *machine, Hosts hosts, Module *net, int k, int rows);
// One rank's backward, alone.
Backward model_backward(void);
// That of chapter 6's DDP with these buckets: from its begin to its end and that of its last
// exchange.
double model_ddp(const int bucket_of[]);
// The buckets of PyTorch's rule, the chapter's buckets_of(). Returns how many there are.
int fill_buckets(const Backward *b, size_t first_bytes, size_t bytes, int bucket_of[]);
// An exchange alone, by the chosen allreduce, on the communication queues; one of no bytes takes no
// time.
double model_exchange(size_t bytes);
