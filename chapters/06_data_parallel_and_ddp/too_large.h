// too_large.h: a network that is too large for a device.
#ifndef TOO_LARGE_H
#define TOO_LARGE_H

// Eight fully connected layers on k devices that have this many bytes of memory each (0: too few
// for a replica): DP and DDP are refused, in child processes, with the bytes that are missing;
// chapter 1's ways to split the network run, modelled. Nothing without a machine, or if the network
// has fewer pieces than there are devices.
void try_too_large(int k, double memory);

#endif
