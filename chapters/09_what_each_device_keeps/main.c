// main.c: the story of chapter 9. README.md says how to run it and what to read.
#include "common/book.h"
#include "behind/behind.h"

// ## The program

enum { IMAGES = 32 }; // of each device in the modelled parts

static const char stage_choices[] = "all|ddp|zero-1|zero-2|zero-3";

static void tell(int k, Dataset *data, int batch_size, uint64_t seed, double limit) {
    ZeroRun one = train(STAGE_DDP, 1, data, batch_size / k, seed), of[NUM_STAGES];
    print_where_memory_goes(&one);
    for (Stage s = 0; s < NUM_STAGES; s++) of[s] = train(s, k, data, batch_size, seed);
    print_stages((const ZeroRun *const[]){&of[0], &of[1], &of[2], &of[3]}, 4, &of[0]);
    double before = devices_limit_memory(limit);
    ZeroRun limited = train(ZERO_3, k, data, batch_size, seed);
    devices_limit_memory(before);
    print_losses(&of[STAGE_DDP], &limited, limit);
    print_machines(IMAGES);
    zero_run_free(&one);
    zero_run_free(&limited);
    for (Stage s = 0; s < NUM_STAGES; s++) zero_run_free(&of[s]);
}

int main(int argc, char *argv[]) {
    Flags defaults = default_flags;
    defaults.batch_size = 16;
    defaults.machine = "rtx4090-pcie";
    Flags flags = book_begin(argc, argv, "Trains with ZeRO: each device keeps a part of the state.",
                             "devices seed batch-size train-size data", defaults);
    choose_allreduce("sharded");
    int k = book_devices(flags.devices, 4, modelled_machine() ? modelled_machine()->devices : 4);
    Dataset *data = fashion_mnist_open(flags.data, true, flags.train_size);
    tell(k, data, flags.batch_size, flags.seed, 140e6);
    dataset_free(data);
    return book_end();
}
