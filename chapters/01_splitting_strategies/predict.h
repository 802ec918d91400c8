// predict.h: larger networks and more devices than there are here: by formulas, not measured.
#ifndef PREDICT_H
#define PREDICT_H

// A table: AlexNet and ResNet-18 on up to 8 devices; and what follows from it.
void larger_networks(void);
// A CSV and a plot: their time on up to 1024 devices, over three kinds of links. The files
// are book_csv("_model.csv") and book_output("_model.png").
void many_devices(void);

#endif
