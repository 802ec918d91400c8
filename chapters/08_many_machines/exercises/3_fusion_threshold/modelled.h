// modelled.h: the same on machines that you do not have.
#ifndef MODELLED_H
#define MODELLED_H

#include <stdio.h>

void show_modelled(FILE *csv);

#endif
