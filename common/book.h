// book.h: what every chapter uses. A chapter includes this file, its own headers, and those of
// earlier chapters whose functions it calls. Only chapters, exercises and tests may include it:
// files in common/ include the headers that they need.
#pragma once

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// base: what any program needs
#include "common/base/error.h"      // die(), CHECK(), allocation that ends the program if it fails
#include "common/base/file.h"       // output_open(): files that are complete or absent
#include "common/base/number.h"     // grouped(): 1,234,567
#include "common/base/range.h"      // equal_range(): n things in k parts
#include "common/base/statistics.h" // means, medians

// device: where the work is done
#include "common/device/device.h" // try_gpu(), launch(), device_copy(), synchronize()
#include "common/device/ledger.h" // how many bytes crossed between devices
#include "common/device/queue.h"  // events, which order one queue after another
#include "common/device/timer.h"  // seconds, measured and modelled
#include "common/device/trace.h"  // which queue did what, and when

// model: how long the same work takes on a machine that you need not have
#include "common/model/machine.h"
#include "common/model/modelled_clock.h"

// tensor: what the devices compute
#include "common/tensor/autograd.h"   // tapes, backward(), the arena
#include "common/tensor/functional.h" // mm(), conv2d(), relu(), cross_entropy(), sgd()
#include "common/tensor/random.h"     // fill_normal(): the same numbers for the same seed
#include "common/tensor/tensor.h"

// data: training data, and saved parameters
#include "common/data/evaluate.h" // accuracy
#include "common/data/fashion_mnist.h"
#include "common/data/safetensors.h" // parameters in files

// program: from the command line to the last line of output
#include "common/program/curves.h"       // what a training loop shows and keeps
#include "common/program/interrupt.h"    // Ctrl-C
#include "common/program/modelled_run.h" // a step on devices that compute nothing
#include "common/program/plot.h"         // plots, drawn by gnuplot
#include "common/program/predict.h"      // questions for the reader
#include "common/program/program.h"      // book_begin(), book_output(), book_end()
#include "common/program/progress.h"     // a bar while a program works
#include "common/program/say.h"          // paragraphs, and "ok: ..."
#include "common/program/table.h"        // tables, printed and as CSV
#include "common/program/timeline.h"     // pictures of traces
