// test_modelled_steps.c: what chapter 5 says of a training on a machine that need not be there: the
// time is that of its own training loop.
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/05_resnet18_concise/behind/modelled_steps.h"
#include "chapters/05_resnet18_concise/resnet18.h"
#include "common/model/modelled_clock.h"
#include "cases.h"

enum { PIXELS = 28 };

static Module *net; // one for all: to fill it takes most of the time

// (Each test begins so, and leaves its devices to the next one.)
static void start(const char *machine, BackendChoice backend) {
    if (net) restart(net);
    devices_close();
    modelled_clock_start(machine_find(machine));
    devices_init(backend, 2);
    choose_allreduce("star");
    if (net) return;
    net = resnet18(10, 1);
    initialize(net, 0);
}

// A training loop: `images` in minibatches, the host waiting after each step. Returns its modelled
// seconds.
static double train(Device *const devices[], int k, int images, int batch_size) {
    DataParallel dp = data_parallel(net, devices, k, BN_AVERAGED);
    synchronize_all();
    double begin = modelled_seconds();
    for (int first = 0; first < images; first += batch_size) {
        int rows = images - first < batch_size ? images - first : batch_size;
        Tensor *X = keep(tensor_new(host(), rows, 1, PIXELS, PIXELS));
        Tensor *y = keep(tensor_new(host(), rows));
        Tensor *losses[MAX_DEVICES];
        float values[MAX_DEVICES];
        train_step(&dp, X, y, 0.1f, losses);
        items(losses, k, values);
        synchronize_all();
        free_kept();
    }
    return modelled_seconds() - begin;
}

static ModelledEpoch ask(const char *machine, BackendChoice backend, int k, BatchNormMode bn,
                         int images, int batch_size) {
    start(machine, backend);
    return modelled_epoch(net, k, bn, images, PIXELS, batch_size);
}

static void check_time(const char *machine, int k, bool framework) {
    Device *devices[MAX_DEVICES];
    start(machine, BACKEND_MODEL);
    open_devices(devices, k);
    modelled_clock_use_framework(framework);
    double loop = train(devices, k, 200, 64);
    ModelledEpoch epoch = ask(machine, BACKEND_CPU, k, BN_AVERAGED, 200, 64);
    double said = framework ? epoch.framework : epoch.seconds;
    if (!(fabs(said - loop) <= 1e-9 * loop))
        fail_msg("%s, k = %d: %.12g s, the loop takes %.12g", machine, k, said, loop);
}

TEST(the_time_is_that_of_the_training_loop) {
    static const char *const machines[] = {"dgx-h100", "rtx4090-pcie", "laptops-1gbe"};
    for (int m = 0; m < 3; m++)
        for (int k = 1; k <= 4; k++) check_time(machines[m], k, false);
    check_time("dgx-a100", 2, true);
}

// It is the same beside devices that compute, and when it is asked again.
TEST(it_is_the_same_each_time) {
    start("dgx-v100", BACKEND_CPU);
    place_on(net, try_gpu(0));
    double first = modelled_epoch(net, 4, BN_AVERAGED, 1000, PIXELS, 256).seconds;
    modelled_epoch(net, 2, BN_SYNC, 100, PIXELS, 50);
    double again = modelled_epoch(net, 4, BN_AVERAGED, 1000, PIXELS, 256).seconds;
    assert_ptr_equal(modelled_machine(), machine_find("dgx-v100"));
    assert_true(first == again);
    assert_true(first == ask("dgx-v100", BACKEND_MODEL, 4, BN_AVERAGED, 1000, 256).seconds);
}

// More on more devices and slower links. Synchronised batch norm exchanges figures in each step;
// the others do so when they evaluate.
TEST(copies_take_time) {
    double before = 0, local = ask("dgx-a100", BACKEND_MODEL, 4, BN_LOCAL, 64, 64).seconds;
    for (int k = 1; k <= 8; k *= 2) {
        ModelledEpoch fast = ask("dgx-a100", BACKEND_MODEL, k, BN_LOCAL, 64 * k, 64 * k);
        ModelledEpoch slow = ask("laptops-1gbe", BACKEND_MODEL, k, BN_LOCAL, 64 * k, 64 * k);
        assert_true(fast.copies > before && fast.copies < 1);
        assert_true(k == 1 || slow.copies > fast.copies);
        before = fast.copies;
    }
    assert_true(ask("dgx-a100", BACKEND_MODEL, 4, BN_RANK0, 64, 64).seconds == local);
    assert_true(ask("dgx-a100", BACKEND_MODEL, 4, BN_AVERAGED, 64, 64).seconds == local);
    assert_true(ask("dgx-a100", BACKEND_MODEL, 4, BN_SYNC, 64, 64).seconds > local);
}

static int end(void **state) {
    restart(net);
    return devices_end(state);
}

int main(void) { return run_all("modelled_steps", NULL, end); }
