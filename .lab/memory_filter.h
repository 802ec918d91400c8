// memory_filter.h: no memory that belongs to no process.
#ifndef MEMORY_FILTER_H
#define MEMORY_FILTER_H

// From now on this process, and all that it starts, gets no memory that is nobody's: files in
// memory (memfd_create), segments of System V, and shared memory without a file. What is nobody's
// cannot be counted as somebody's. Files in a sandbox's /tmp and /dev/shm remain, which are small.
// Ends the process, with a message, if the kernel does not allow that.
void refuse_memory_without_owner(void);

#endif
