// test_published.c: the networks whose modelled times are compared with published ones
// (tests/bench/truth.c) are the networks that others mean by these names.
#include "cases.h"

#include "chapters/05_resnet18_concise/resnet18.h"
#include "common/model/layer_tables.h"

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

int main(void) { return run_all("published", NULL, NULL); }
