// main.c: the story of chapter 9. README.md says how to run it and what to read.
#include "common/book.h"
#include "behind/behind.h"

// ## The program

static ZeroRun runs[NUM_STAGES]; // all with the same devices, images and initial values

static Prediction ask_about_moments(int k) {
    if (k != 4) return (Prediction){0};
    return predict_first("ResNet-18's parameters take 44.7 MB. Four devices train it with ZeRO-1. "
                         "How many MB of parameters, gradients and moments does each of them "
                         "keep?");
}

static Prediction ask_about_bytes(void) {
    return predict_first("How many times as many bytes as in a step of DDP does a device send in a "
                         "step of ZeRO-3?");
}

static Prediction ask_about_time(void) {
    return predict_first("Eight hosts with one A100 each are connected by 10 Gb/s Ethernet. How "
                         "many times as long as a step of DDP is a step of ZeRO-3?");
}

static double kept(const ZeroMemory *m) {
    return (double)(m->parameters + m->gradients + m->moments);
}

static void train_in_all_stages(int k, Dataset *data, int batch_size, uint64_t seed) {
    ZeroRun one = train(STAGE_DDP, 1, data, batch_size / k, seed);
    print_one_device(&one);
    for (Stage s = STAGE_DDP; s < NUM_STAGES; s++) runs[s] = train(s, k, data, batch_size, seed);
    Prediction mb = ask_about_moments(k);
    print_zero1(runs);
    predict_compare(mb, kept(&runs[ZERO_1].memory) / 1e6, "MB");
    print_zero2(runs);
    Prediction times = ask_about_bytes();
    print_zero3(runs);
    predict_compare(times, (double)runs[ZERO_3].sent / (double)runs[STAGE_DDP].sent, "times");
    zero_run_free(&one);
}

// The limit is the peak of ZeRO-3, rounded up to the next 10 MB.
static void train_within_limit(int k, Dataset *data, int batch_size, uint64_t seed) {
    double limit = 10e6 * ceil((double)runs[ZERO_3].peak / 10e6);
    double before = devices_limit_memory(limit);
    ZeroRun limited = train(ZERO_3, k, data, batch_size, seed);
    devices_limit_memory(before);
    print_losses(&runs[STAGE_DDP], &limited, limit);
    zero_run_free(&limited);
}

static void compare_machines(int rows) {
    Prediction longer = modelled_machine() ? ask_about_time() : (Prediction){0};
    double times = print_machines(rows);
    predict_compare(longer, times, "times as long");
    if (modelled_machine())
        book_result("on 10 Gb/s Ethernet, a step of ZeRO-3 takes %.2f times as long as a step of "
                    "DDP",
                    times);
}

static void train_in_one_stage(Stage stage, int k, Dataset *data, int batch_size, uint64_t seed) {
    ZeroRun run = train(stage, k, data, batch_size, seed);
    print_one_run(&run);
    zero_run_free(&run);
}

int main(int argc, char *argv[]) {
    const char *name = "all";
    const Flag own_flags[] = {
        {"stage", FLAG_CHOICE, &name, "S", .help = "train in this stage only",
         .choices = "all|ddp|zero-1|zero-2|zero-3"},
        {0},
    };
    Flags defaults = default_flags;
    defaults.batch_size = 16;
    defaults.machine = "dgx-a100";
    defaults.own = own_flags;
    Flags flags = book_begin(argc, argv, "Trains ResNet-18 in stages that keep less and less.",
                             "devices seed batch-size train-size data", defaults);
    choose_allreduce("sharded");
    int k = book_devices(flags.devices, 4, modelled_machine() ? modelled_machine()->devices : 4);
    if (flags.batch_size < k)
        die_usage("a larger --batch-size, or fewer --devices",
                  "a minibatch of %d images has none for some of %d devices", flags.batch_size, k);
    book_timeline("_modelled.png");
    book_check_outputs();
    Dataset *data = fashion_mnist_open(flags.data, true, flags.train_size);
    Stage stage = STAGE_DDP;
    while (stage < NUM_STAGES && strcasecmp(name, stage_names[stage]) != 0) stage++;
    if (stage < NUM_STAGES)
        train_in_one_stage(stage, k, data, flags.batch_size, flags.seed);
    else {
        train_in_all_stages(k, data, flags.batch_size, flags.seed);
        train_within_limit(k, data, flags.batch_size, flags.seed);
        compare_machines(flags.batch_size / k);
        draw_step(k, flags.batch_size / k);
        for (Stage s = STAGE_DDP; s < NUM_STAGES; s++) zero_run_free(&runs[s]);
    }
    dataset_free(data);
    return book_end();
}
