// test_published.c: the networks whose modelled times are compared with published ones
// (tests/bench/truth.c) are the networks that others mean by these names.
#include "cases.h"

#include "chapters/05_resnet18_concise/resnet18.h"
#include "common/model/layer_tables.h"
#include "tests/published/transformer.h"

static void assert_close(double a, double b, double relative) {
    if (!(fabs(a - b) <= relative * fabs(b))) fail_msg("%.17g is not %.17g", a, b);
}

// For one image, forward: each weight of a layer once for each pixel that comes out.
static double multiplications(const NetworkTable *network) {
    double sum = 0;
    for (const TableLayer *l = network->layers; l < network->layers + network->num_layers; l++) {
        double params = table_layer_params(l), weights = params - (l->norm ? 2 : 1) * l->out;
        if (params > 0) sum += weights * l->out_side * l->out_side;
    }
    return sum;
}

// Parameters and "GFLOPS", which are multiplications with an addition, as torchvision gives them
// with its weights (docs.pytorch.org/vision, "Models and pre-trained weights"; Inception V3 without
// the 3,326,696 of its auxiliary classifier).
TEST(networks_have_torchvisions_totals) {
    NetworkTable networks[] = {resnet50(), resnet101(), vgg16(), inception_v3()};
    const double params[] = {25557032, 44549160, 138357544, 23834568};
    const double giga_macs[] = {4.09, 7.80, 15.47, 5.71};
    for (int n = 0; n < 4; n++) {
        double macs = multiplications(&networks[n]);
        assert_true(table_params(&networks[n]) == params[n]);
        if (!(fabs(macs / 1e9 - giga_macs[n]) <= 0.01))
            fail_msg("%s has %g multiplications", networks[n].name, macs);
    }
    // Where a layer that goes on from one other has just that one before it, shapes must meet.
    for (int l = 1; l < networks[2].num_layers; l++) {
        const TableLayer *a = &networks[2].layers[l - 1], *b = &networks[2].layers[l];
        assert_true(a->out * a->out_side * a->out_side == b->in * b->side * b->side);
    }
}

// The table leaves out one bias for each output channel of the convolutions before batch norms.
TEST(the_books_resnet18_is_chapter_5s) {
    NetworkTable table = book_resnet18(28);
    Module *net = resnet18(10, 1);
    double biases = 0;
    for (int l = 0; l < table.num_layers; l++)
        if (table.layers[l].norm) biases += table.layers[l].out;
    initialize(net, 0);
    assert_true(table_params(&table) + biases == (double)parameter_bytes(net) / sizeof(float));
    module_free(net);
}

// Parameters (billions) and TFLOP/s are those of NVIDIA/Megatron-LM@19301985dd31:images/tables.tex.
TEST(transformers_have_megatrons_totals) {
    const struct {
        double hidden, layers, params, ms, tflops;
        int tensor;
    } cases[] = {{1920, 24, 1.16, 1121, 71.9, 1},
                 {2304, 30, 2.03, 1093, 64.2, 2},
                 {3072, 36, 4.24, 1238, 58.5, 4},
                 {4096, 42, 8.67, 1407, 52.2, 8}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        double hidden = cases[i].hidden;
        Transformer n = {.hidden = hidden, .layers = cases[i].layers, .ffn = 4 * hidden};
        n.vocab = 51200;
        n.sequence = 1024;
        n.recompute = RECOMPUTE_ALL;
        Split s = {.tensor = cases[i].tensor, .microbatch = 8, .accumulation = 1};
        assert_close(transformer_params(&n) / 1e9, cases[i].params, 0.005);
        assert_close(device_flop(&n, &s) / 1e9 / cases[i].ms, cases[i].tflops, 0.002);
    }
}

// A layer of 22B parameters, 4 sequences, on 8 GPUs: each sends 8 (t-1)/t b s h numbers, 705 MB.
// (NCCL reckons 240 GB/s on an A100, and adds latencies.)
TEST(a_split_layer_sends_four_allreduces) {
    Transformer n = {.hidden = 6144, .heads = 64, .layers = 1, .ffn = 24576, .sequence = 2048};
    Split s = {.tensor = 8, .data = 1, .microbatch = 4, .accumulation = 1, .gradient_bytes = 2};
    const Machine *machine = machine_find("dgx-a100");
    double seconds = transformer_step(machine, &n, &s).tensor;
    assert_close(seconds, 705e6 / 240e9, 0.1);
    n.recompute = RECOMPUTE_ALL;
    assert_close(transformer_step(machine, &n, &s).tensor, 1.5 * seconds, 1e-9);
    // Without sequence parallelism, 10 numbers for each of `hidden` are the same on all devices.
    Split tokens = s, one = s;
    tokens.sequence = true;
    one.tensor = 1;
    assert_close(8 * token_bytes(&n, &tokens), token_bytes(&n, &one), 1e-9);
    assert_close(token_bytes(&n, &s) - token_bytes(&n, &tokens), 2 * 4 * 10 * 6144 * 7. / 8, 1e-9);
}

// The groups that sum gradients share a host's 8 cards of 12 GB/s: with a stride of 4, for example,
// there are 4 groups, each of 4 of the 16 devices of 4 hosts, and each has 2 cards.
TEST(groups_across_hosts_share_their_cards) {
    Transformer n = {.hidden = 6144, .layers = 48, .ffn = 24576, .sequence = 1};
    for (int stride = 1; stride <= 8; stride *= 2) {
        Split s = {.tensor = stride, .data = 64 / stride, .gradient_bytes = 2};
        double bytes = 2 * transformer_params(&n) / stride, parts = s.data;
        const Machine *machine = machine_find("tests/published/dgx-2h.machine");
        assert_close(transformer_step(machine, &n, &s).data,
                     2 * bytes * (parts - 1) / parts / (12e9 * 8 / stride), 0.1);
    }
}

int main(void) { return run_all("published", NULL, NULL); }
