// behind.h: the tables and pictures of the chapter. (All that is modelled is left out where the
// machine of the modelled clock has too few devices, or too little memory.)
#pragma once

#include "../record.h"

// costs_of_a_step.c: parameters, work and activations of each layer, and the largest layer's share.
void print_network(const Network *network);

// same_step.c: a table of how far the step on each number of devices is from one device's: the
// loss, all gradients, and the loss after one update. Ends the program with an error if it is more
// than rounding, or if the update makes the loss much larger.
void compare_steps_with_one_device(const Problem *problem, const int ks[], int n);

// costs_of_a_step.c: a table of what a step holds, moves and takes, on one device and on k in each
// way. Ends the program with an error if bytes or synchronization points are not what the formulas
// say. Returns the share of one device's activations that the fullest of k has across layers.
double show_costs(const Problem *problem, int k);

// pictures.c: modelled steps of the three strategies below each other, a lane for each device:
// book_timeline("_timeline.png").
void draw_three_ways(const Network *network, int images, int microbatches, int k);

// pictures.c: a table of the idle share of pipelines of k devices with 1 to 8 microbatches, of
// equal layers and of AlexNet; and a picture of the former, book_timeline("_bubble.png").
void show_bubbles(int k);

// larger_networks.c: a table of AlexNet and ResNet-18 on 8 devices.
void larger_networks(void);
// larger_networks.c: the fastest steps on up to 128 devices of three machines as a table, and all
// of them as book_output("_model.csv") and its plot, book_output("_model.png").
void many_devices(void);

// ring.c: across_data with another sum of the gradients, for modelled time.
const Strategy *across_data_in_a_ring(void);

// pictures.c, for the figure to move: draws a pipeline of one network (SVG), and writes how long
// its step and the steps of the other strategies take (CSV).
extern const char pipeline_names[]; // "none|lenet|.."
void model_one_pipeline(const char *name, int k, int m, const char *csv, const char *svg);
