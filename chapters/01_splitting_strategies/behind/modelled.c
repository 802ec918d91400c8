// modelled.c: the chapter with --backend model. The devices compute nothing, so no results are
// compared and nothing is measured; bytes are counted and times are modelled as in the story.
#include "behind.h"

#include "common/book.h"
#include "../bubble.h"

bool is_asked_for(const char *part, const char *name) {
    return strcmp(part, "all") == 0 || strcmp(part, name) == 0;
}

void splitting_without_values(const Problem *lenet, StepTable *table, const char *part) {
    int most = table->ks[table->num_ks - 1];
    if (is_asked_for(part, "splitting")) {
        network_print(lenet->network);
        printf("\nThe devices compute nothing (--backend model): there is time, there are bytes, "
               "and\nno values that could be compared.\n");
        for (int i = 0; i < NUM_STRATEGIES; i++) run_strategy(strategies[i], table, lenet, NULL);
        print_memory(table, lenet);
        if (most > 1) print_traffic(table, lenet);
        print_seconds(table);
        Problem alexnet = problem_to_model(&alexnet_network, 256, 8);
        for (int j = 1; j < table->num_ks; j++) show_timeline(NULL, &alexnet, table->ks[j]);
        problem_free(&alexnet);
    }
    if (is_asked_for(part, "bubble") && most > 1) model_bubble(most);
    if (is_asked_for(part, "model")) {
        larger_networks();
        many_devices();
    }
}
