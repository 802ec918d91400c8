// tracing.h: the flags --trace and --timeline, which every program has: what all devices did from
// the first to the last, as a file and as a picture. book.c calls these.
#ifndef TRACING_H
#define TRACING_H

#include "flags.h"

// Starts the trace if one of the two flags was given. It keeps the first half a million pieces of
// work or so: more would fill the memory, and no viewer shows them.
void tracing_begin(const Flags *flags);
// Ends it, writes the files, and says where they are and what was left out. The devices must still
// be open.
void tracing_end(const Flags *flags);

#endif
