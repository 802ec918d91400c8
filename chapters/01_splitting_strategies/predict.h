// predict.h: larger networks and more devices than there are here: bytes by formulas, time on
// modelled machines.
#ifndef PREDICT_H
#define PREDICT_H

// A table: AlexNet and ResNet-18 on up to 8 devices; and what follows from it.
void larger_networks(void);
// A CSV and a plot: their modelled time on up to 128 devices of three machines. The files are
// book_csv("_model.csv") and book_output("_model.png").
void many_devices(void);

#endif
