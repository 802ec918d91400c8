// solution.c: exercise 2, without the four mistakes.
#include "your_part.h"

#include <math.h>

// Says which devices work together: fills m->tensor_groups and m->data_groups (small_mesh.h).
void groups_of(Mesh *m) {
    for (int d = 0; d < m->dp; d++)
        for (int t = 0; t < m->tp; t++) {
            m->tensor_groups[d][t] = d * m->tp + t;
            m->data_groups[t][d] = d * m->tp + t;
        }
}

// On each device, m->grads of what it keeps becomes the sum over the whole minibatch.
void reduce_gradients(Mesh *m) {
    for (int p = 0; p < NUM_PARAMS; p++) {
        for (int d = 0; d < m->dp && !is_split(p); d++)
            sum_over(m->grads[p], m->tensor_groups[d], m->tp);
        for (int t = 0; t < m->tp; t++) sum_over(m->grads[p], m->data_groups[t], m->dp);
    }
}

// norms[r], the same on all devices, is the length of the mean gradient of the whole minibatch: the
// root of the sum of the squares of all its numbers. m->grads has the sums.
void global_norm(Mesh *m, float norms[]) {
    for (int d = 0; d < m->dp; d++) {
        for (int t = 0; t < m->tp; t++) {
            int r = m->tensor_groups[d][t];
            tensor_fill(m->squares[r], 0);
            for (int p = 0; p < NUM_PARAMS; p++)
                if (is_split(p) || t == 0) add_squares(m->squares[r], m->grads[p][r]);
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
    adam_step(m->adam, lr, m->rows * m->dp);
    return norms[0];
}
