// nccl_model.h: how long NVIDIA's library NCCL would take to sum a vector over the devices of a
// machine. To get that time, call nccl_allreduce_seconds().
//
// Before each allreduce, NCCL estimates how long every pair of algorithm and protocol would take,
// and runs the fastest pair. This is a short version of its estimate.
//
//     algorithm   ring    several at once: over all NVLinks, or one for each network card
//                 tree    along each host's devices, in a tree between hosts
//                 NVLS    the NVLink switch adds (Hopper and later); between hosts, a tree
//     protocol    LL      each 8 bytes carry 4 bytes of flag: soonest there, at half the rate
//                 LL128   8 bytes of flag in 128: over NVLink only
//                 Simple  large pieces, and one flag for each: the best rate, the latest start
#pragma once

#include "common/model/machine.h"

typedef enum { NCCL_TREE, NCCL_RING, NCCL_NVLS, NUM_NCCL_ALGORITHMS } NcclAlgorithm;
typedef enum { NCCL_LL, NCCL_LL128, NCCL_SIMPLE, NUM_NCCL_PROTOCOLS } NcclProtocol;

typedef struct NcclChoice {
    NcclAlgorithm algorithm;
    NcclProtocol protocol;
} NcclChoice;

// Seconds of an allreduce of that many bytes over `ranks` devices, hosts filled one after the
// other. INFINITY if the machine cannot run this pair.
double nccl_seconds(const Machine *machine, NcclChoice pair, int ranks, double bytes);

// By the pair that takes the least, which goes to *choice if that is not NULL.
double nccl_allreduce_seconds(const Machine *machine, int ranks, double bytes, NcclChoice *choice);
