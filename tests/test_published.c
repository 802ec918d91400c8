// test_published.c: the networks whose modelled times are compared with published ones
// (tests/bench/truth.c) are the networks that others mean by these names, and the modelled times
// of training them are sane.
#include "test.h"

#include "common/device/device.h"
#include "common/tensor/tensor.h"
#include "published/book_steps.h"
#include "published/synthetic_step.h"

// ---- the tables ------------------------------------------------------------------------------

static double auxiliary_part(const NetworkTable *network, double of(const TableLayer *l)) {
    double sum = 0;
    for (int l = 0; l < network->num_layers; l++)
        if (network->layers[l].auxiliary) sum += of(&network->layers[l]);
    return sum;
}

// Parameters and "GFLOPS", which are multiplications with an addition, as torchvision gives them
// with its weights (docs.pytorch.org/vision, "Models and pre-trained weights").
static void networks_have_torchvisions_totals(void **state) {
    (void)state;
    NetworkTable networks[] = {resnet50(), resnet101(), vgg16(), inception_v3(true)};
    const double params[] = {25557032, 44549160, 138357544, 27161264};
    const double giga_macs[] = {4.09, 7.80, 15.47, 5.71};
    for (int n = 0; n < 4; n++) {
        double macs = table_macs(&networks[n]) - auxiliary_part(&networks[n], table_layer_macs);
        assert_true(table_params(&networks[n]) == params[n]);
        if (!(fabs(macs / 1e9 - giga_macs[n]) <= 0.01))
            fail_msg("%s has %g multiplications", networks[n].name, macs);
    }
    assert_true(27161264 - auxiliary_part(&networks[3], table_layer_params) == 23834568);
}

// Where a layer that goes on from one other has just that one before it, shapes must meet.
static void shapes_of_a_chain_meet(void **state) {
    (void)state;
    NetworkTable vgg = vgg16();
    for (int l = 1; l < vgg.num_layers; l++) {
        const TableLayer *a = &vgg.layers[l - 1], *b = &vgg.layers[l];
        assert_true(a->out * a->out_side * a->out_side == b->in * b->side * b->side);
    }
}

// ---- a step ----------------------------------------------------------------------------------

// More devices train more images in a second, but not more each.
static void more_devices_are_faster_but_not_more_than_so_many_times(void **state) {
    (void)state;
    NetworkTable network = resnet50();
    double one = 0, before = INFINITY;
    for (int k = 1; k <= 16; k *= 2) {
        Step step = {&network, k, 16, 25 << 20, false};
        double seconds = step_seconds(machine_find("p100-25gbe"), &step);
        if (k == 1) one = seconds;
        assert_true(seconds >= one && seconds / k < before);
        before = seconds / k;
    }
}

static void buckets_hide_behind_backward(void **state) {
    (void)state;
    NetworkTable network = resnet50();
    Step alone = {&network, 1, 32, 25 << 20, false}, buckets = alone;
    buckets.devices = 8;
    Step after = buckets;
    after.bucket_bytes = INFINITY;
    const Machine *machine = machine_find("dgx-v100");
    assert_true(step_seconds(machine, &alone) <= step_seconds(machine, &buckets));
    assert_true(step_seconds(machine, &buckets) < step_seconds(machine, &after));
}

static void faster_networks_and_tf32_never_take_longer(void **state) {
    (void)state;
    Machine faster = *machine_find("p100-25gbe");
    NetworkTable vgg = vgg16();
    Step step = {&vgg, 8, 8, 64 << 20, false};
    double before = step_seconds(&faster, &step);
    for (int times = 0; times < 3; times++) {
        faster.network.bandwidth *= 2;
        faster.network.latency /= 2;
        double now = step_seconds(&faster, &step);
        assert_true(now <= before);
        before = now;
    }
    step = (Step){&vgg, 1, 8, 64 << 20, false};
    double fp32 = step_seconds(machine_find("dgx-a100"), &step);
    step.tf32 = true;
    assert_true(step_seconds(machine_find("dgx-a100"), &step) < fp32);
}

// In a framework the book's LeNet is bound by launches: a second GPU doubles them. A CUDA graph
// does without them.
static void launches_are_what_takes_lenets_time(void **state) {
    (void)state;
    const Machine *dgx1 = machine_find("dgx-v100");
    BookStep step = {.devices = 1, .images = 256, .framework = true};
    double one = book_step_seconds(dgx1, &step);
    assert_true(one > 20 * dgx1->framework);
    step.devices = 2;
    assert_true(book_step_seconds(dgx1, &step) > one);
    step.devices = 1;
    step.graph = true;
    assert_true(book_step_seconds(dgx1, &step) < one);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks_have_torchvisions_totals),
        cmocka_unit_test(shapes_of_a_chain_meet),
        cmocka_unit_test(more_devices_are_faster_but_not_more_than_so_many_times),
        cmocka_unit_test(buckets_hide_behind_backward),
        cmocka_unit_test(faster_networks_and_tf32_never_take_longer),
        cmocka_unit_test(launches_are_what_takes_lenets_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
