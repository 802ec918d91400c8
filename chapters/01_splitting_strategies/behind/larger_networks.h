// larger_networks.h: larger networks and more devices than there are here: bytes by formulas, time
// on modelled machines.
#ifndef LARGER_NETWORKS_H
#define LARGER_NETWORKS_H

#include "../problem.h"

// A table of AlexNet and ResNet-18 on 1, 2 and 8 devices, and what follows from it.
void larger_networks(void);

// A CSV, a plot, and a table of the fastest steps: their modelled time on up to 128 devices of
// three machines. The files are book_csv("_model.csv") and book_output("_model.png").
void many_devices(void);

#endif
