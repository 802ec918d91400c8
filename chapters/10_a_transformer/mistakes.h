// mistakes.h: four mistakes that people make when they split a transformer. None of them crashes,
// and with each the loss falls.
#pragma once

#include "vit.h"

typedef struct Mistake {
    const char *what;
    Mlp *mlp;              // instead of vit_mlp(); or
    void (*spoil)(Vit *v); // what is done to the parameters before the first step
} Mistake;

enum { NUM_MISTAKES = 4 };
extern const Mistake mistakes[NUM_MISTAKES];

// Makes the mistake in a new network. NULL: none.
void make_mistake(Vit *v, const Mistake *mistake);
