// print_network.c: a network as a table, a row for each layer.
#include "behind.h"

// The largest layer's share of all, in percent.
static double largest(const Network *network, double (*cost)(const Layer *)) {
    double most = 0, sum = 0;
    for (int l = 0; l < network->num_layers; l++) {
        double of_layer = cost(&network->layers[l]);
        if (of_layer > most) most = of_layer;
        sum += of_layer;
    }
    return 100 * most / sum;
}

void print_network(const Network *network) {
    printf("  %-10s parameters  mult-adds  passed on  kept for backward\n", network->name);
    for (int l = 0; l < network->num_layers; l++) {
        const Layer *layer = &network->layers[l];
        printf("  %-10s %10.0f %10.0f %10.0f %18.0f\n", layer->name, layer_params(layer),
               layer_macs(layer), layer_sent(layer), layer_kept(layer));
    }
    printf("  %-10s %9.0f%% %9.0f%% %9.0f%% %17.0f%%\n", "largest", largest(network, layer_params),
           largest(network, layer_macs), largest(network, layer_sent),
           largest(network, layer_kept));
}
