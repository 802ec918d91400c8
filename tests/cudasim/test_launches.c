// test_launches.c: the modelled clock counts as many launches as a step really has on a GPU.
#include "tests/cases.h"

#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "chapters/04_lenet_multi_gpu/lenet.h"
#include "chapters/05_resnet18_concise/data_parallel.h"
#include "chapters/05_resnet18_concise/resnet18.h"
#include "common/device/trace.h"
#include "common/model/modelled_clock.h"
#include "cudasim.h"

// On this machine a launch takes a second, and nothing else takes any.
static const char seconds_are_launches[] =
    "about for a test\ndevices 2\nmemory 1 TB\nfp32 1e12 TFLOP/s\nmultiprocessors 1\n"
    "product 100 %\nconvolution 100 %\nelements 100 %\nmemory_bandwidth 1e15 GB/s\n"
    "kernel 1 s\nlaunch 0 s\ngraph_launch 0 s\ngraph_kernel 0 s\nframework 0 s\n"
    "link switch 1e15 GB/s 0 s\nhost_link 1e15 GB/s 0 s\n";

enum { MOST = 2, IMAGES = 7 };

static Device *devices[MOST];
static DataParallel resnet;
static Tensor *device_params[MOST][LENET_PARAMS];

static int launches_so_far(void) { return cudasim_calls("launch") + cudasim_calls("cublasSgemm"); }

static void step(int k, int side) {
    Tensor *X = tensor_new(host(), IMAGES, 1, side, side), *y = tensor_new(host(), IMAGES);
    Tensor *losses[MOST];
    tensor_fill(X, 1);
    tensor_fill(y, 1);
    if (resnet.net)
        train_step(&resnet, X, y, 0.1f, losses);
    else
        train_batch(X, y, device_params, devices, k, 0.1f, losses);
    synchronize_all();
    tensor_free(X);
    tensor_free(y);
}

// (An older GPU: the clock models convolutions by im2col, kernels/cuda/conv2d.cu.)
static void open_gpus(int k) {
    setenv("CUDASIM_CAPABILITY", "75", 1);
    cudasim_machine(k, 1, CUDASIM_PEERS);
    modelled_clock_start(machine_parse("test", seconds_are_launches));
    devices_init(BACKEND_CUDA, 1);
    open_devices(devices, k);
    choose_allreduce("sharded");
}

static void compare(int k, int side) {
    step(k, side); // the first one also allocates
    int launches = launches_so_far(), count;
    double counted = 0; // seconds in which the devices are busy
    trace_begin();
    step(k, side);
    free(trace_end(&count));
    launches = launches_so_far() - launches;
    TraceSpan *spans = trace_modelled(&count);
    for (int i = 0; i < count; i++) counted += spans[i].end - spans[i].start;
    free(spans);
    assert_true(launches > 0);
    if (!(fabs(counted - launches) <= 0.01))
        fail_msg("%d devices: %d launches, the clock counts %.3f", k, launches, counted);
}

static void close_gpus(void) {
    devices_close();
    modelled_clock_start(NULL);
}

TEST(a_step_of_lenet) {
    for (int k = 1; k <= MOST; k++) {
        Tensor *params[LENET_PARAMS];
        open_gpus(k);
        lenet_init(params, 1);
        for (int i = 0; i < k; i++) get_params(params, LENET_PARAMS, devices[i], device_params[i]);
        compare(k, 28);
        for (int i = 0; i < k; i++) free_params(device_params[i], LENET_PARAMS);
        free_params(params, LENET_PARAMS);
        close_gpus();
    }
}

// (Its convolutions are cut into chunks of few images here: the tests' workspace is small.)
TEST(a_step_of_resnet18) {
    open_gpus(1);
    Module *net = resnet18(10, 1);
    initialize(net, 1);
    resnet = data_parallel(net, devices, 1, BN_SYNC);
    compare(1, 8);
    module_free(net);
    close_gpus();
}

int main(void) { return run_all("launches", NULL, NULL); }
