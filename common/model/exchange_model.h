// exchange_model.h: how long it takes many ranks to add up their gradients in three ways: in one
// ring, in two levels, by parameter servers. Modelled, for hosts that are all alike.
#ifndef EXCHANGE_MODEL_H
#define EXCHANGE_MODEL_H

#include "common/model/machine.h"

#include <stdbool.h>

// N bytes on each of k ranks, D of which share a host; H = k/D hosts.
//
//     ring           one ring of all ranks, host after host, as in chapter 2: 2 (k-1) steps of N/k
//     hierarchical   reduce-scatter by a ring in each host (D-1 steps of N/D), allreduce of each
//                    part by a ring across the hosts (2 (H-1) steps of N/(D H), D rings at once),
//                    all-gather in each host. So does Horovod with HOROVOD_HIERARCHICAL_ALLREDUCE,
//                    but across by MPI and the hosts' memory (nccl_operations.cc); here by devices.
//     servers        a server on the first device of each host has N/H of the parameters: all ranks
//                    push to all servers, then pull from them (chapter 7, and all at one time)
typedef enum { BY_RING, BY_LEVELS, BY_SERVERS, NUM_EXCHANGE_WAYS } ExchangeWay;
extern const char *const exchange_way_names[NUM_EXCHANGE_WAYS];

typedef struct ExchangeModel {
    double seconds;
    double card_bytes; // that leave a host by its network cards
    double rank_bytes; // the most that any rank sends
} ExchangeModel;

// `ranks` is at most machine->devices, or a multiple of it on a machine with network cards;
// CHECKed. Device i of the machine is rank i. Parts are equal, if need be with fractions of a
// number. A copy takes its route (machine.h) and an addition its kernel; launches are free, as in
// NCCL, where a whole exchange is one kernel. One host is simulated, and stands for all; with
// `all_hosts` each host is, which takes H times as long and must come to the same.
ExchangeModel exchange_model(const Machine *machine, ExchangeWay way, int ranks, double bytes,
                             bool all_hosts);

// The formulas for the bytes: what leaves a host by its cards. 2 (k-1)/k N in a ring (of several
// hosts), 2 (H-1)/H N in two levels, 2 D (H-1)/H N with servers.
double exchange_card_bytes(ExchangeWay way, int hosts, int per_host, double bytes);

#endif
