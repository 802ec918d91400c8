// cross_entropy.c: softmax and its loss in one kernel. This is both faster and safer than one after
// the other, where exp() of a large logit overflows and log() of a small probability loses all
// digits.
#include "cpu.h"

#include <math.h>

// The class that a label names, or -1 if there is no such class.
static int class_of(float label, int classes) {
    return label >= 0 && label < (float)classes ? (int)label : -1;
}

// The largest logit is subtracted first. It cancels out, so the result is the same, but no exp()
// exceeds 1. A NaN among the logits makes the whole row NaN, including the loss.
CPU_KERNEL(cross_entropy_forward) {
    for (int row = 0; row < a->rows; row++) {
        const float *logits = a->logits + (size_t)row * (size_t)a->classes;
        float *probs = a->probs + (size_t)row * (size_t)a->classes;
        float largest = logits[0];
        for (int c = 1; c < a->classes; c++)
            if (!(logits[c] <= largest)) largest = logits[c];
        double total = 0;
        for (int c = 0; c < a->classes; c++) total += probs[c] = expf(logits[c] - largest);
        for (int c = 0; c < a->classes; c++) probs[c] = (float)(probs[c] / total);
        int label = class_of(a->labels[row], a->classes);
        a->losses[row] = label < 0 ? NAN : (float)(log(total) - (double)(logits[label] - largest));
    }
}

CPU_KERNEL(cross_entropy_backward) {
    for (int row = 0; row < a->rows; row++) {
        int label = class_of(a->labels[row], a->classes);
        for (int c = 0; c < a->classes; c++) {
            size_t i = (size_t)row * (size_t)a->classes + (size_t)c;
            float d = a->dlosses[row] * (a->probs[i] - (c == label ? 1.0f : 0.0f));
            a->dlogits[i] = a->beta != 0 ? a->dlogits[i] + d : d;
        }
    }
}

// Correct if no other logit is larger and none before it is equal. A comparison with NaN is false.
static bool row_is_correct(const float *logits, int classes, int label) {
    if (label < 0) return false;
    for (int c = 0; c < classes; c++) {
        bool below = c < label ? logits[c] < logits[label] : logits[c] <= logits[label];
        if (!below) return false;
    }
    return true;
}

CPU_KERNEL(count_correct) {
    int correct = 0;
    for (int row = 0; row < a->rows; row++)
        correct += row_is_correct(a->logits + (size_t)row * (size_t)a->classes, a->classes,
                                  class_of(a->labels[row], a->classes));
    a->count[0] += (float)correct;
}
