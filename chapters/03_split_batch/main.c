// main.c: the story of chapter 3. README.md says how to run it and what to read.
#include "common/book.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "behind/behind.h"
#include "one_layer.h"
#include "split_batch.h"

// ## Shards
//
// A minibatch is a tensor X with one row for each image, and a vector y with the labels. To train
// on k devices, cut X into k runs of consecutive rows, and y in the same way. Each run of rows,
// with its labels, is a *shard*. If k does not divide the number of rows, the first shards have one
// row more than the others. For 7 devices, 96 rows become five shards of 14 rows and two of 13:
//
// ![A minibatch of 96 images on 7 devices. The color of the frame shows which device has the image.
// The last two devices have one image fewer.](plots/03_split_batch.png "96 small images of clothes
// in six rows, each framed in the color of one of seven devices and numbered. The colors follow one
// another: 14 images each for devices 0 to 4, 13 each for devices 5 and 6.")
//
// ## Divide once
//
// Device i gets a shard of $n_i$ of the n rows. The loss of the minibatch is the *mean* over all n
// rows. What should each device compute so that together they get the same gradient as one device?
//
// Suppose three rows have the gradients 1, 2 and 6. Their mean is 3. Device 0 gets the first two
// rows, and device 1 gets the last one:
//
// - If each device *sums*, they get 3 and 6. Their sum is 9, and 9 divided by 3 rows is 3.
// - If each device *averages*, they get 1.5 and 6. The average of these two is 3.75.
//
// The second result is wrong, because the row with the gradient 6 counts as much as the other two
// together. So each device computes $g_i$, the gradient of the *sum* of its losses. For a network
// with one layer:
//
// one_layer.c:gradient_of_sum
//
// Add all $g_i$, then divide once, by n.
//
// main.c:sum_then_divide
//
// It is tempting to let each device compute the mean over its own rows, $m_i = g_i / n_i$, and then
// average these means:
//
// main.c:average_the_averages
//
// Means can be combined, but each needs its own weight:
//
// $$\frac{g_0 + \dots + g_{k-1}}{n} = \frac{n_0}{n}\, m_0 + \dots + \frac{n_{k-1}}{n}\, m_{k-1}$$
//
// An average of averages gives each mean the weight $1/k$, which is right only if all $n_i$ are
// equal.

static void sum_then_divide(const ShardGradient shards[], int k, int n, float gradient[]) {
    for (int j = 0; j < NUM_GRADS; j++) {
        gradient[j] = 0;
        for (int i = 0; i < k; i++) gradient[j] += shards[i].g[j];
        gradient[j] /= (float)n;
    }
}

static void average_the_averages(const ShardGradient shards[], int k, float gradient[]) {
    for (int j = 0; j < NUM_GRADS; j++) {
        gradient[j] = 0;
        for (int i = 0; i < k; i++) gradient[j] += shards[i].g[j] / (float)shards[i].rows;
        gradient[j] /= (float)k;
    }
}

// ## How wrong is it?
//
// The table compares both results with the gradient that one device computes for all n rows. The
// error is the largest difference, divided by the largest number in that gradient. An error of
// about 1e-7 is only rounding.
//
// main.c:ask_whether_usable
//
// behind/checks.c:print_errors
//
// With 3 rows, the fourth device has none. Its mean is 0/0, which is not a number (nan), and so is
// the average. On 7 devices, an image in a shard of 14 has the weight $1/14 \cdot 1/7 = 1/98$ in
// the average of averages, and an image in a shard of 13 has $1/91$. Each should have $1/96$. The
// sum divided by n is right in all three rows.
//
// This mistake is easy to miss. With 256 rows on 2, 4 or 8 devices you never see it, and in a loss
// curve you would hardly notice an error of 0.3 %. But it keeps you from testing that k devices
// compute the same gradient as one. So in this book each device sums, and `sgd()` divides once.
//
// ## Split the rows
//
// split_batch.c:split_batch
//
// The first line ends the program if X and y do not have the same number of rows. Otherwise the
// network would be trained with wrong labels for some images, and no later check would notice.
//
// Which rows does device i get?
//
// common/base/range.h:equal_range
//
// The book (*Dive into Deep Learning*, "Distributing Data") tries `split_batch` on a 4 x 5 matrix
// and two devices:
//
// behind/checks.c:split_a_matrix
//
// 256 rows are easy to split. But an epoch's last minibatch has only the rows that are left, here
// 96, because $60000 = 234 \times 256 + 96$. With fewer rows than devices, some shards are empty:
//
// behind/checks.c:print_sizes
//
// An empty shard does no harm if devices sum, because the sum over no rows is zero and so is its
// gradient.
//
// ## If you use DDP
//
// PyTorch's DDP does average averages. It adds up the gradients of all W processes and divides by
// W. This is right if all processes have the same number of rows, and DDP's sampler sees to that:
// it repeats a few images until W divides their number. (The repeated images count twice.)
//
// In a language model, the rows are tokens, and their number differs. Suppose that process 0 has
// 900 tokens with a mean loss of 2, and process 1 has 100 tokens with a mean loss of 4. The mean
// over all tokens is $(900 \cdot 2 + 100 \cdot 4) / 1000 = 2.2$. DDP trains as if it were $(2 + 4)
// / 2 = 3$.
//
// To get the right mean, let each process r compute the gradient $g_r$ of its sum, multiply it by W
// and divide it by n, the number of rows in all processes. When DDP divides by W, this is left:
//
// $$\frac{1}{W} \left( \frac{W}{n}\, g_0 + \dots + \frac{W}{n}\, g_{W-1} \right) =
// \frac{g_0 + \dots + g_{W-1}}{n}$$
//
//     n = torch.tensor(y.numel(), device=y.device)
//     dist.all_reduce(n)  # the rows, or tokens, of all processes
//     loss = F.cross_entropy(model(X), y, reduction="sum")
//     (loss * dist.get_world_size() / n).backward()  # DDP divides by the world size

// ## Summary
//
// - Each device *sums* the gradients of its rows. You divide *once*, by the number of rows in the
//   whole minibatch. Then shards may be unequal or even empty.
// - DDP averages averages. If its processes have different numbers of rows, scale the loss.
// - Each device gets a run of consecutive rows of X and the same rows of y.
//
// ## Questions
//
// 1. A minibatch of 256 rows on 3 devices has shards of 86, 85 and 85 rows. If a device's time is
//    proportional to its number of rows, what is the speedup with 3 devices? And with 100?
// 2. Row r could go to device r mod k instead. Would training change? Would `split_batch()` become
//    slower?

// ## The program

enum { ROWS = 96 };

static Prediction ask_whether_usable(void) {
    return predict_yes_no(
        "3 rows are split over 4 devices. Each device computes the mean gradient of its own rows. "
        "Is the average of the 4 means a gradient to train with?");
}

// What both ways to combine gradients make of the first n rows on k devices.
static double compare(Table *t, const Tensor *X, const Tensor *y, Tensor *const params[2], int n,
                      int k) {
    static float expected[NUM_GRADS], summed[NUM_GRADS], averaged[NUM_GRADS];
    ShardGradient *one = gradients_of_shards(X, y, n, 1, params);
    ShardGradient *shards = gradients_of_shards(X, y, n, k, params);
    sum_then_divide(one, 1, n, expected);
    sum_then_divide(shards, k, n, summed);
    average_the_averages(shards, k, averaged);
    free(one);
    free(shards);
    return print_errors(t, n, k, expected, summed, averaged);
}

int main(int argc, char *argv[]) {
    int only_rows = 0; // 0: all that the story tells
    const Flag own_flags[] = {
        {"rows", FLAG_INTEGER, &only_rows, "N",
         .help = "split only the first N rows, over K devices", .least = 1, .most = ROWS,
         .otherwise = "as in the text"},
        {0},
    };
    Flags flags =
        book_begin(argc, argv, "Splits minibatches over devices: rows in order, none lost.",
                   "devices=7 seed no-shuffle data",
                   (Program){.own = own_flags, .next = "make exercise-03-1, or make run-04"});
    int k = flags.devices;
    book_needs_devices(k > 7 ? k : 7);
    book_outputs(".png");
    Dataset *data = fashion_mnist_open(flags.data, true, ROWS);
    DataIter *iter = data_iter_new(data, ROWS, flags.shuffle, flags.seed);
    Tensor *X, *y;     // 96 images and their labels
    Tensor *params[2]; // of a network of one layer
    data_iter_first(iter, &X, &y);
    one_layer_new(params, flags.seed);

    Table sizes = table_of_sizes(), errors = table_of_errors();
    if (flags.backend == BACKEND_MODEL) {
        split_without_values(X, y, params, only_rows, k);
    } else if (only_rows) {
        print_sizes(&sizes, only_rows, k);
        compare(&errors, X, y, params, only_rows, k);
    } else {
        Prediction usable = ask_whether_usable();
        compare(&errors, X, y, params, ROWS, 4);
        compare(&errors, X, y, params, ROWS, k);
        double error = compare(&errors, X, y, params, 3, 4);
        predict_compare_yes_no(usable, !isnan(error));
        draw_minibatch(book_output(".png"), X, y, k);
        split_a_matrix();
        print_sizes(&sizes, 256, 2);
        print_sizes(&sizes, 96, 7);
        print_sizes(&sizes, 3, 4);
    }

    free_params(params, 2);
    data_iter_free(iter);
    dataset_free(data);
    return book_end();
}
