// test_published.c: the networks whose modelled times are compared with published ones
// (tests/bench/truth.c) are the networks that others mean by these names, and the modelled times
// of training them are sane.
#include "test.h"

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
    // Where a layer that goes on from one other has just that one before it, shapes must meet.
    for (int l = 1; l < networks[2].num_layers; l++) {
        const TableLayer *a = &networks[2].layers[l - 1], *b = &networks[2].layers[l];
        assert_true(a->out * a->out_side * a->out_side == b->in * b->side * b->side);
    }
}

// ---- a step ----------------------------------------------------------------------------------

static double seconds_on(const char *machine, const NetworkTable *network, int devices, int images,
                         double bucket_bytes, bool tf32) {
    Step step = {network, devices, images, bucket_bytes, tf32};
    return step_seconds(machine_find(machine), &step);
}

static void steps_of_tables_are_sane(void **state) {
    (void)state;
    const NetworkTable resnet = resnet50(), vgg = vgg16();
    const double MIB = 1 << 20;
    // More devices train more images in a second, but not more each.
    double one = seconds_on("p100-25gbe", &resnet, 1, 16, 25 * MIB, false), before = one;
    for (int k = 2; k <= 16; k *= 2) {
        double seconds = seconds_on("p100-25gbe", &resnet, k, 16, 25 * MIB, false);
        assert_true(seconds >= one && seconds / k < before);
        before = seconds / k;
    }
    // Buckets hide behind backward.
    double alone = seconds_on("dgx-v100", &resnet, 1, 32, 25 * MIB, false);
    double buckets = seconds_on("dgx-v100", &resnet, 8, 32, 25 * MIB, false);
    assert_true(alone <= buckets);
    assert_true(buckets < seconds_on("dgx-v100", &resnet, 8, 32, INFINITY, false));
    // Faster networks and TF32 never take longer.
    Machine faster = *machine_find("p100-25gbe");
    faster.network.bandwidth *= 8;
    faster.network.latency /= 8;
    Step step = {&vgg, 8, 8, 64 * MIB, false};
    assert_true(step_seconds(&faster, &step) <= step_seconds(machine_find("p100-25gbe"), &step));
    assert_true(seconds_on("dgx-a100", &vgg, 1, 8, INFINITY, true) <
                seconds_on("dgx-a100", &vgg, 1, 8, INFINITY, false));
}

// In a framework the book's LeNet is bound by launches: a second GPU doubles them. A CUDA graph
// does without them.
static void launches_are_what_takes_lenets_time(void **state) {
    (void)state;
    const Machine *dgx1 = machine_find("dgx-v100");
    const BookStep step = {.devices = 1, .images = 256, .framework = true};
    BookStep two = step, graph = step;
    two.devices = 2;
    graph.graph = true;
    double one = book_step_seconds(dgx1, &step);
    assert_true(one > 20 * dgx1->framework);
    assert_true(book_step_seconds(dgx1, &two) > one);
    assert_true(book_step_seconds(dgx1, &graph) < one);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks_have_torchvisions_totals),
        cmocka_unit_test(steps_of_tables_are_sane),
        cmocka_unit_test(launches_are_what_takes_lenets_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
