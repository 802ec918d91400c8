// mistakes.c: two mistakes that are made on purpose, and how they are noticed.
#include "mistakes.h"

#include "common/program/say.h"
#include "common/tensor/functional.h"
#include "allreduce.h"
#include "get_params.h"
#include "replicas.h"

#include <stdio.h>
#include <stdlib.h>

// ## A mistake: a new tensor in place of a sum
//
// The last line of allreduce has to write into `data[i]`. In the book's English text it does:
//
//     data[i][:] = data[0].to(data[i].device)
//
// The Chinese text and its notebook leave out the `[:]` in their PyTorch version:
//
//     data[i] = data[0].to(data[i].device)
//
// That looks the same, but makes a new tensor. `train_batch()` calls allreduce with a list that it
// makes for this call. The list then has the sum, but the parameter's own gradient is still the old
// one. So device 0 takes a step with the gradient of the whole minibatch, and each other device
// with that of its own shard. Nothing fails, no message appears: the replicas just drift apart.
// (The book's print after allreduce shows the list, so it looks right.)
//
// In C the same mistake does not get past the compiler if the parameter is declared as in
// `allreduce.h`: `Tensor *const data[]` says that the tensors may be written into and the pointers
// may not.

static void allreduce_rebinding(Tensor *data[], int k) {
    for (int i = 1; i < k; i++) {
        Tensor *received = tensor_to(data[i], data[0]->device);
        launch(data[0]->device, add, .y = data[0]->data, .x = received->data, .n = numel(received));
        tensor_free(received);
    }
    for (int i = 1; i < k; i++) data[i] = tensor_to(data[0], data[i]->device); // the mistake
}

// One step of training on two devices, with gradients 1 and 2. Returns whether the replicas agree
// after it.
static bool step_with(void (*sum_over_devices)(Tensor *data[], int k)) {
    Tensor *W[2], *grads[2];
    for (int i = 0; i < 2; i++) {
        W[i] = tensor_new(try_gpu(i), 1, 2);
        tensor_fill(W[i], 1);
        attach_grad(W[i]);
        tensor_fill(W[i]->grad, (float)(i + 1));
        grads[i] = W[i]->grad; // the list that is made for this call
    }
    sum_over_devices(grads, 2);
    print_values("  in the list, grads[1]", grads[1]);
    print_values("  used in the step, W[1].grad", W[1]->grad);
    for (int i = 0; i < 2; i++) sgd(&W[i], 1, 0.1f, 1);
    print_values("  after the step, W[0]", W[0]);
    print_values("  after the step, W[1]", W[1]);
    bool agree = all_replicas_equal(W, 2);
    if (grads[1] != W[1]->grad) tensor_free(grads[1]);
    free_params(W, 2);
    return agree;
}

static void allreduce_as_it_should(Tensor *data[], int k) { allreduce(data, k); }

void show_rebinding(void) {
    printf("\nA mistake: data[i] = a new tensor with the sum, instead of writing into data[i]\n");
    bool agree = step_with(allreduce_rebinding);
    say_checked_on(try_gpu(0), !agree,
                   "the mistake is noticed: after one step the replicas differ");
    printf("The same step with allreduce()\n");
    agree = step_with(allreduce_as_it_should);
    say_checked_on(try_gpu(0), agree, "after the step all replicas have the same bits");
}

// ## Another mistake: two devices, one buffer
//
// "Both devices are on the same GPU, so device 1 needs no copy of its own." PyTorch's
// `p.to(device)` thinks so, too: where `p` is on that device already it returns `p` itself. That is
// why the book's `get_params` says `p.clone().to(device)`. Without the copy, what one device writes
// is what the other one reads as its own.
//
// Our `allreduce` looks for shared memory before it does anything, and refuses. To show what it
// prevents, the last lines go round that check and call the star directly: 1 was written on one
// device and 2 on the other, both in the same place, so it adds 2 to 2.
//
// This is shown on CPU devices, even where there are GPUs: two real GPUs do not share a buffer.

void show_sharing(void) {
    printf("\nAnother mistake: two devices that share one buffer\n");
    Tensor *data[2] = {tensor_new(cpu_device(0), 1, 2)};
    Tensor same_memory = *data[0];
    same_memory.device = cpu_device(1); // what a get_params that saves the copy would return
    data[1] = &same_memory;
    tensor_fill(data[0], 1);
    synchronize(cpu_device(0));
    tensor_fill(data[1], 2);
    synchronize(cpu_device(1));
    print_values("  data[0], where 1 was written", data[0]);
    print_values("  data[1], where 2 was written", data[1]);

    const char *mistake = allreduce_mistake(data, 2);
    printf("  allreduce() refuses them: \"%s\"\n", mistake ? mistake : "");
    say_checked(mistake != NULL, "the mistake is noticed before it does harm");

    allreduce_star(data, 2); // goes round the check
    print_values("  without the check: 1 + 2 should be 3, but is", data[0]);
    float *sums = tensor_values(data[0]);
    say_checked_on(data[0]->device, sums[0] == 4,
                   "without the check a wrong sum comes out, and no message: so it is needed");
    free(sums);
    tensor_free(data[0]);
}
