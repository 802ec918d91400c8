// checkpoint.c: a training that goes on later, on any number of devices.
#include "vit.h"

#include "common/data/safetensors.h"

enum { KINDS = 3 };
static const char *const kinds[KINDS] = {"parameters", "exp_avg", "exp_avg_sq"};

static Tensor *new_whole(int width, int kind) {
    Tensor *t = tensor_new(host(), (int)vit_numbers(width));
    t->name = kinds[kind];
    return t;
}

// What the devices have of one kind.
static void list_parts(const Vit *v, int kind, Tensor *parts[]) {
    for (int i = 0; i < v->k; i++) {
        AdamState adam = adam_state(v->shards[i].adam, 0);
        parts[i] = kind == 0 ? v->shards[i].flat : kind == 1 ? adam.exp_avg : adam.exp_avg_sq;
    }
}

void vit_save(const Vit *v, const char *path) {
    Tensor *whole[KINDS], *parts[MOST_SPLIT];
    NamedCount step = {"step", *adam_state(v->shards[0].adam, 0).step};
    for (int kind = 0; kind < KINDS; kind++) {
        whole[kind] = new_whole(v->options.width, kind);
        list_parts(v, kind, parts);
        vit_put_together(v, parts, whole[kind]->data);
    }
    safetensors_save_with(path, whole, KINDS,
                          &(SafetensorsExtras){.counts = &step, .num_counts = 1});
    for (int kind = 0; kind < KINDS; kind++) tensor_free(whole[kind]);
}

void vit_resume(Vit *v, const char *path) {
    Tensor *whole[KINDS], *parts[MOST_SPLIT];
    NamedCount step = {"step", 0};
    for (int kind = 0; kind < KINDS; kind++) whole[kind] = new_whole(v->options.width, kind);
    safetensors_load_with(path, whole, KINDS,
                          &(SafetensorsExtras){.counts = &step, .num_counts = 1});
    for (int kind = 0; kind < KINDS; kind++) {
        list_parts(v, kind, parts);
        vit_cut(v, whole[kind]->data, parts);
        tensor_free(whole[kind]);
    }
    for (int i = 0; i < v->k; i++) *adam_state(v->shards[i].adam, 0).step = (long)step.value;
}
