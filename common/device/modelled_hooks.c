// modelled_hooks.c: at first there is no modelled clock. common/model/modelled_clock.c sets it.
#include "modelled_hooks.h"

const ModelledHooks *modelled;
