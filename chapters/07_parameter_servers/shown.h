// shown.h: towers and synchronous servers, next to what chapter 4 computes and moves.
#ifndef SHOWN_H
#define SHOWN_H

#include "replay.h"

// Some steps of towers, with the sum and with the mean, with plain gradient descent and with Adam:
// how far the parameters have moved next to one device's with the same steps. CHECKs what the text
// beside it says.
void show_towers(const PsLesson *lesson, int k, int steps);
// Bytes of a step of towers, of the star, of the ring, of S servers, and of a device that is worker
// and server: counted, next to the formulas.
void show_bytes(const PsLesson *lesson);
// Some synchronous steps with servers, next to chapter 4's train_batch() on as many devices: are
// they equal to the bit? CHECKs it.
void show_synchronous(const PsLesson *lesson, int steps);

#endif
