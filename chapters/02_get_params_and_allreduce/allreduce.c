// allreduce.c: the table of allreduces, the checks of allreduce(), and what the algorithms share.
#include "allreduce.h"

#include "common/book.h"
#include "get_params.h"

// ## The table

static int there_and_back(int k) { return 2 * (k - 1); }

static int up_and_down(int k) {
    int levels = 0;
    for (int reached = 1; reached < k; reached *= 2) levels++;
    return 2 * levels;
}

const Allreduce allreduces[NUM_ALLREDUCES] = {
    {"star", allreduce_star, allreduce_star_floats, there_and_back, .in_parts = false},
    {"sharded", allreduce_sharded, allreduce_sharded_floats, there_and_back, .in_parts = true},
    {"ring", allreduce_ring, allreduce_ring_floats, there_and_back, .in_parts = true},
    {"tree", allreduce_tree, allreduce_tree_floats, up_and_down, .in_parts = false},
};

static const Allreduce *chosen = &allreduces[0];

void choose_allreduce(const char *name) {
    for (int a = 0; a < NUM_ALLREDUCES; a++)
        if (strcmp(allreduces[a].name, name) == 0) {
            chosen = &allreduces[a];
            return;
        }
    die("there are star, sharded, ring and tree", "there is no allreduce '%s'", name);
}

const Allreduce *chosen_allreduce(void) { return chosen; }
void choose_this_allreduce(const Allreduce *algorithm) { chosen = algorithm; }

static void sum_nothing(Tensor *const data[], int k) {
    (void)data;
    (void)k;
}

const Allreduce no_exchange = {.name = "none", .run = sum_nothing};

Traffic allreduce_bytes(const Allreduce *algorithm, size_t n, int k, int i) {
    Traffic floats = algorithm->floats(n, k, i);
    return (Traffic){floats.sent * sizeof(float), floats.received * sizeof(float)};
}

double modelled_allreduce(const Machine *machine, void (*run)(Tensor *const data[], int k), int k,
                          int n) {
    ModelledRun modelled = {.machine = machine, .k = k};
    Tensor *data[MAX_DEVICES];
    modelled_begin(&modelled);
    for (int i = 0; i < k; i++) {
        data[i] = tensor_new(modelled.devices[i], n);
        tensor_fill(data[i], 0); // as in training, each queue has had work: then waits take time
        begin_step(data[i]->device);
    }
    while (modelled_run(&modelled)) run(data, k);
    free_params(data, k);
    modelled_end(&modelled);
    return modelled.seconds;
}

// ## The book's function

// (Devices without values may have the same addresses.)
static bool share_memory(const Tensor *a, const Tensor *b) {
    if (!has_values(a->device)) return false;
    uintptr_t first_a = (uintptr_t)a->data, first_b = (uintptr_t)b->data;
    return first_a < first_b + tensor_bytes(b) && first_b < first_a + tensor_bytes(a);
}

const char *allreduce_mistake(Tensor *const data[], int k) {
    for (int i = 0; i < k; i++)
        for (int j = 0; j < i; j++) {
            if (!same_shape(data[i], data[j])) return "two tensors differ in shape";
            if (data[i]->device == data[j]->device) return "two tensors are on the same device";
            if (share_memory(data[i], data[j])) return "two devices share one buffer";
        }
    return NULL;
}

void allreduce(Tensor *const data[], int k) {
    const char *mistake = allreduce_mistake(data, k);
    if (mistake) die("give each device its own tensor, all of one shape", "allreduce: %s", mistake);
    chosen->run(data, k);
}

// ## For the algorithms

float *part_data(const Tensor *t, Range part) { return t->data ? t->data + part.first : NULL; }

void record_all(Tensor *const data[], int k, Event now[]) {
    for (int i = 0; i < k; i++) now[i] = device_record(data[i]->device);
}

Tensor *place_to_receive(const Tensor *sum) {
    size_t n = numel(sum);
    return arena_tensor(sum->device, 1, (int[]){n < PIECE ? (int)n : PIECE}, false);
}

int num_pieces(const Tensor *t) { return (int)((numel(t) + PIECE - 1) / PIECE); }

Range piece_of(const Tensor *t, int p) {
    long first = (long)p * PIECE, left = (long)numel(t) - first;
    return (Range){.first = first, .count = left < PIECE ? left : PIECE};
}

void receive_and_add(Tensor *sum, const Tensor *from, Event ready, Range piece, Tensor *place) {
    device_copy_after(ready, sum->device, place->data, part_data(from, piece),
                      piece.count * sizeof(float));
    launch(sum->device, add, .y = part_data(sum, piece), .x = place->data, .n = piece.count);
}
