// # Exercise 1: four mistakes on a 2-D mesh
//
// Chapter 10 splits layers over tp devices. As in chapter 11, dp such *tensor groups* share the
// rows of a minibatch, and each host has tp devices. The step below uses sequence parallelism and
// clips the gradient. It runs without an error message, but it contains four mistakes that people
// make in practice.
//
// Difficulty: ★★★☆
//
// **Aim.** You find mistakes that the losses hardly show, by comparing facts with undivided
// training.
//
// **Your task.** Read small_mesh.h. Then find the four mistakes and correct them. The comments say
// what the functions should do. You do not have to rewrite any of them.
//
// **How it is checked.** A small network trains on 1 x 1, 1 x 2, 2 x 1, 2 x 2, 2 x 4 and 4 x 2
// devices, and functions get gradients that are drawn. Losses, parameters, norms and Adam's
// averages must be those of one device, copies equal in every bit, and bytes as few as necessary.
//
// **How to run.** Look at the facts before you change anything, and after each change.
//
//     make exercise-11-1 ARGS=--check       builds and checks it: seconds
//     build/11_a_mesh_of_devices_exercise_1  shows the facts, right or wrong: seconds
//
// **What to hand in.** This file, and your answers. For each mistake, which number showed it, and
// on which meshes? Which would you have noticed in the losses, and why do they say so little?
#include "your_part.h"

#include <math.h>

// YOUR CODE HERE: in the functions that are wrong.

// Says which devices work together: fills m->tensor_groups and m->data_groups (small_mesh.h).
void groups_of(Mesh *m) {
    for (int d = 0; d < m->dp; d++)
        for (int t = 0; t < m->tp; t++) {
            m->tensor_groups[d][t] = t * m->dp + d;
            m->data_groups[t][d] = t * m->dp + d;
        }
}

// On each device, m->grads of what it keeps becomes the sum over the whole minibatch.
void reduce_gradients(Mesh *m) {
    for (int p = 0; p < NUM_PARAMS; p++)
        for (int t = 0; t < m->tp; t++) sum_over(m->grads[p], m->data_groups[t], m->dp);
}

// norms[r], the same on all devices, is the length of the mean gradient of the whole minibatch: the
// root of the sum of the squares of all its numbers. m->grads has the sums.
void global_norm(Mesh *m, float norms[]) {
    for (int d = 0; d < m->dp; d++) {
        for (int t = 0; t < m->tp; t++) {
            int r = m->tensor_groups[d][t];
            tensor_fill(m->squares[r], 0);
            for (int p = 0; p < NUM_PARAMS; p++) add_squares(m->squares[r], m->grads[p][r]);
        }
        sum_over(m->squares, m->tensor_groups[d], m->tp);
    }
    for (int r = 0; r < m->dp * m->tp; r++)
        norms[r] = sqrtf(item(m->squares[r])) / (float)(m->rows * m->dp);
}

// Clips the mean gradient to the length max_norm if it is longer, and makes a step of Adam, which
// divides m->grads by a number of rows, and then sets them to zero. Returns the norm from before.
float step(Mesh *m, float lr, float max_norm) {
    float norms[MOST_DEVICES];
    global_norm(m, norms);
    for (int r = 0; r < m->dp * m->tp; r++)
        for (int p = 0; p < NUM_PARAMS; p++)
            if (norms[r] > max_norm) multiply(m->grads[p][r], max_norm / norms[r]);
    adam_step(m->adam, lr, m->rows * m->dp * m->tp);
    return norms[0];
}
