// loader.h: a rank's loader is declared in sampler.h.
#ifndef LOADER_H
#define LOADER_H

#include "sampler.h"

#endif
