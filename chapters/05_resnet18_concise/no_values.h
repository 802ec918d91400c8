// no_values.h: what cannot be had from devices that compute nothing (--backend model).
#ifndef NO_VALUES_H
#define NO_VALUES_H

#include "common/program/flags.h"

// With --backend model, die_usage()s if a flag asks for values to be read or written: parameters,
// losses, curves. There are none, and no file may look as if there were.
void refuse_what_needs_values(const Flags *flags);

#endif
