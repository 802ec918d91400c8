// test_vit.c: chapters 10 and 11: k devices that split a transformer's layers against one device,
// to the bit where the sums have equal groups; gradients of the whole network; PyTorch's figures
// (tests/reference/vit.safetensors; make_vit.py there says what it holds); bytes; late queues; and
// that each mistake of mistakes.h shows. To be run from the repository root.
#include "chapters/10_a_transformer/mesh.h"
#include "chapters/10_a_transformer/mistakes.h"
#include "chapters/11_a_mesh_of_devices/sixteen_bits.h"
#include "common/device/ledger.h"
#include "common/tensor/autograd.h"
#include "figures.h"
#include "formula.h"
#include "late.h"

DEATHS_FIRST

enum { WIDTH = 16, ROWS = 6, ROWS_OF_MESH = 8, STEPS = 4 };

// After 4 devices come 8: 5 to 7 have unequal parts, as 3 have.
static int step_from(int k) { return k == 4 ? 4 : 1; }

// ---- networks ----------------------------------------------------------------------------------

#define OPTIONS(...) ((VitOptions){.width = WIDTH, __VA_ARGS__})

static float *start_of(void) { return keep_memory(vit_start(WIDTH, 7)); }

// With Adam's usual eps of 1e-8, a gradient of 0 but for rounding moves a parameter as far as any
// other.
static Vit *vit_on(void **state, int k) {
    Device *devices[MOST_SPLIT];
    devices_under_test(state, k, devices);
    return vit_new(OPTIONS(.adam.eps = 1e-2f), devices, k, start_of());
}

static void take_steps(Vit *v, int steps, Tensor *losses[]) {
    Tensor *X, *y;
    formula_batch(ROWS, &X, &y);
    keep(X), keep(y);
    for (int s = 0; s < steps; s++) vit_train_batch(v, X, y, 1e-2f, losses);
}

// All parameters after some steps.
static float *trained_on(void **state, int k, int steps, const Mistake *mistake) {
    Tensor *losses[MOST_SPLIT];
    Vit *v = vit_on(state, k);
    make_mistake(v, mistake);
    take_steps(v, steps, losses);
    float *values = keep_memory(vit_join(v));
    vit_free(v);
    return values;
}

static bool equal_bits(const float *a, const float *b) {
    return memcmp(a, b, vit_numbers(WIDTH) * sizeof *a) == 0;
}

// ---- what k devices compute ----------------------------------------------------------------------

// Otherwise only apart from rounding; and GPUs add in an order of their own.
TEST_ON_BOTH(k_devices_compute_what_one_computes) {
    bool gpu = device_gpu(device_under_test(state)) >= 0;
    const float *one = trained_on(state, 1, STEPS, NULL), *start = start_of();
    for (int k = 2; k <= MOST_SPLIT; k += step_from(k)) {
        const float *split = trained_on(state, k, STEPS, NULL);
        double apart = relative_difference(split, one, start, vit_numbers(WIDTH));
        if (GROUPS % k == 0 && !gpu && !equal_bits(split, one))
            fail_msg("%d devices do not have the bits of one (apart by %g)", k, apart);
        if (!(apart <= 1e-5)) fail_msg("%d devices are apart from one by %g", k, apart);
    }
}

TEST_ON_BOTH(losses_and_copies_are_equal_on_all_devices) {
    for (int k = 1; k <= MOST_SPLIT; k += step_from(k)) {
        Tensor *losses[MOST_SPLIT];
        Vit *v = vit_on(state, k);
        take_steps(v, STEPS, losses);
        for (int i = 1; i < k; i++) assert_true(item(losses[i]) == item(losses[0]));
        assert_true(vit_copies_are_equal(v));
        if (k > 1) { // a single number of a copy is noticed
            Tensor *number = tensor_slice(v->shards[k - 1].norm_bias, WIDTH - 1, 1, (int[]){1});
            tensor_fill(number, 5);
            assert_false(vit_copies_are_equal(v));
            tensor_free(number);
        }
        vit_free(v);
    }
}

// ---- meshes --------------------------------------------------------------------------------------

static void check_bytes(const Mesh *m, Device *const devices[]) {
    int k = m->data * m->tensor;
    for (int i = 0; i < k; i++) {
        size_t sent = 0;
        for (int j = 0; j < k; j++)
            if (j != i) sent += ledger_bytes(devices[i], devices[j]);
        assert_int_equal(sent, mesh_bytes(m, i, ROWS_OF_MESH));
    }
}

// All parameters after some steps. All copies must be equal.
static float *trained_on_mesh(void **state, int data, int tensor, bool sequence) {
    Device *devices[MOST_SPLIT];
    Tensor *X, *y, *losses[MOST_SPLIT];
    devices_under_test(state, data * tensor, devices);
    formula_batch(ROWS_OF_MESH, &X, &y);
    keep(X), keep(y);
    VitOptions options = OPTIONS(.sequence = sequence, .adam.eps = 1e-2f);
    Mesh *m = mesh_new(options, devices, data, tensor, start_of());
    for (int s = 0; s < STEPS; s++) {
        ledger_reset();
        mesh_train_batch(m, X, y, 1e-2f, losses);
    }
    check_bytes(m, devices);
    assert_true(mesh_copies_are_equal(m));
    float *values = keep_memory(vit_join(m->nets[data - 1]));
    mesh_free(m);
    return values;
}

static void check_mesh(void **state, const float *one, int data, int tensor, bool sequence) {
    bool gpu = device_gpu(device_under_test(state)) >= 0;
    const float *values = trained_on_mesh(state, data, tensor, sequence), *start = start_of();
    double apart = relative_difference(values, one, start, vit_numbers(WIDTH));
    bool exact = GROUPS % (data * tensor) == 0 && !gpu;
    if (!(apart <= 1e-5) || (exact && !equal_bits(values, one)))
        fail_msg("%d x %d devices%s are apart from one by %g", data, tensor,
                 sequence ? ", tokens split," : "", apart);
}

TEST_ON_BOTH(meshes_compute_what_one_device_computes) {
    const float *one = trained_on_mesh(state, 1, 1, false);
    for (int data = 1; data <= MOST_SPLIT; data *= 2)
        for (int tensor = 1; data * tensor <= MOST_SPLIT; tensor *= 2)
            for (int sequence = 0; sequence < 2; sequence++)
                check_mesh(state, one, data, tensor, sequence);
    check_mesh(state, one, 3, 2, false); // 3, 3 and 2 images
    check_mesh(state, one, 2, 3, false);
}

// A single number of a copy is noticed.
TEST(copies_that_differ_are_noticed) {
    Device *devices[4];
    open_devices(devices, 4);
    for (int i = 1; i < 4; i++) {
        Mesh *m = mesh_new(OPTIONS(.data = 0), devices, 2, 2, start_of());
        assert_true(mesh_copies_are_equal(m));
        const VitShard *shard = &m->nets[i / 2]->shards[i % 2];
        size_t last = numel(shard->flat) - 1; // of a part that one device of each network has
        Tensor *number = tensor_slice(shard->flat, i == 1 ? 0 : last, 1, (int[]){1});
        tensor_fill(number, 5);
        assert_false(mesh_copies_are_equal(m));
        tensor_free(number);
        mesh_free(m);
    }
}

TEST_ON_BOTH(cut_and_joined_parameters_are_whole) {
    const float *start = start_of();
    for (int k = 1; k <= MOST_SPLIT; k += step_from(k)) {
        Vit *v = vit_on(state, k);
        assert_true(equal_bits(keep_memory(vit_join(v)), start));
        vit_free(v);
    }
}

TEST_ON_BOTH_UNLESS_SIMULATED(late_queues_change_no_bit) {
    for (int k = 2; k <= 4; k++) {
        const float *calm = trained_on(state, k, STEPS, NULL);
        queues_are_late(true);
        const float *late = trained_on(state, k, STEPS, NULL);
        queues_are_late(false);
        assert_true(equal_bits(calm, late));
    }
    for (int sequence = 0; sequence < 2; sequence++) {
        const float *calm = trained_on_mesh(state, 2, 2, sequence);
        queues_are_late(true);
        const float *late = trained_on_mesh(state, 2, 2, sequence);
        queues_are_late(false);
        assert_true(equal_bits(calm, late));
    }
}

// ---- gradients -----------------------------------------------------------------------------------

static double loss_at(Vit *v, float *values, const Tensor *X, const Tensor *y) {
    Tensor *images[MOST_SPLIT], *labels[MOST_SPLIT], *y_hat[MOST_SPLIT];
    tensor_write(v->shards[0].flat, values);
    set_grad_enabled(false);
    vit_load(v, X, y, (Range){0, X->shape[0]}, images, labels);
    vit_forward(v, images, y_hat);
    float *losses = tensor_values(cross_entropy(y_hat[0], labels[0]));
    set_grad_enabled(true);
    double loss = 0;
    for (int i = 0; i < X->shape[0]; i++) loss += (double)losses[i];
    free(losses);
    return loss;
}

// The loss along the gradient's direction: its slope is the gradient's length.
TEST(the_loss_falls_as_its_gradient_says) {
    Tensor *X, *y, *images[MOST_SPLIT], *labels[MOST_SPLIT], *y_hat[MOST_SPLIT];
    Device *device = cpu_device(0);
    Vit *v = vit_new(OPTIONS(.data = 0), &device, 1, start_of());
    size_t n = vit_numbers(WIDTH);
    formula_batch(ROWS, &X, &y);
    keep(X), keep(y);
    vit_load(v, X, y, (Range){0, X->shape[0]}, images, labels);
    vit_forward(v, images, y_hat);
    backward(sum(cross_entropy(y_hat[0], labels[0])));
    const float *g = values_of(v->shards[0].flat->grad), *start = values_of(v->shards[0].flat);
    float *at = keep_memory(xmalloc(n * sizeof *at));
    double length = 0, slope = 0;
    for (size_t j = 0; j < n; j++) length += (double)g[j] * (double)g[j];
    length = sqrt(length);
    for (int sign = -1; sign <= 1; sign += 2) {
        const double eps = 2e-3;
        for (size_t j = 0; j < n; j++) at[j] = start[j] + (float)(sign * eps * g[j] / length);
        slope += sign * loss_at(v, at, X, y) / (2 * eps);
    }
    assert_true(length > 1);
    if (!(fabs(slope - length) <= 2e-3 * length))
        fail_msg("the slope is %g, the gradient's length %g", slope, length);
    vit_free(v);
}

// ---- PyTorch's figures ---------------------------------------------------------------------------

enum { OF_BLOCK = 12, BEFORE = 3, AFTER = 4, PARAMETERS = BEFORE + OF_BLOCK * BLOCKS + AFTER };

// All tensors with parameters on a device, in the order of VitShard, with their names.
static Tensor *const *named(const VitShard *shard) {
    static const char *const outside[] = {"patch_weight", "patch_bias",  "position", "norm_weight",
                                          "norm_bias",    "head_weight", "head_bias"};
    static const char *const of_block[] = {
        "norm1_weight", "norm1_bias", "qkv_weight", "qkv_bias", "out_weight",  "out_bias",
        "norm2_weight", "norm2_bias", "up_weight",  "up_bias",  "down_weight", "down_bias"};
    static char names[PARAMETERS][32];
    Tensor *const *all = (Tensor *const *)(const void *)shard;
    assert_int_equal(offsetof(VitShard, flat), sizeof *all * PARAMETERS);
    for (int p = 0; p < PARAMETERS; p++) {
        int i = p - BEFORE, b = i / OF_BLOCK;
        if (i >= 0 && b < BLOCKS)
            snprintf(names[p], sizeof *names, "blocks.%d.%s", b, of_block[i % OF_BLOCK]);
        else
            snprintf(names[p], sizeof *names, "%s", outside[i < 0 ? p : p - OF_BLOCK * BLOCKS]);
        all[p]->name = names[p];
    }
    return all;
}

static float *formula_start(void) {
    Device *device = cpu_device(0);
    Vit *v = vit_new(OPTIONS(.data = 0), &device, 1, NULL);
    Tensor *const *all = named(&v->shards[0]);
    for (int p = 0; p < PARAMETERS; p++) fill(all[p], (uint32_t)p);
    float *values = keep_memory(vit_join(v));
    vit_free(v);
    return values;
}

static Vit *formula_vit(void **state, int k) {
    Device *devices[MOST_SPLIT];
    devices_under_test(state, k, devices);
    return vit_new(OPTIONS(.adam.eps = part("adam")->values[1]), devices, k, formula_start());
}

// Of the logits, and of each loss.
static const double allowed_part = 1e-6;

TEST_ON_BOTH(logits_and_losses_are_those_of_pytorch) {
    const SafetensorsEntry *logits = part("logits"), *losses = part("losses");
    float lr = part("adam")->values[0];
    Tensor *X, *y, *images[MOST_SPLIT], *labels[MOST_SPLIT], *ours[MOST_SPLIT];
    formula_batch(ROWS, &X, &y);
    keep(X), keep(y);
    for (int k = 1; k <= MOST_SPLIT; k += step_from(k)) {
        Vit *v = formula_vit(state, k);
        vit_load(v, X, y, (Range){0, X->shape[0]}, images, labels);
        vit_forward(v, images, ours);
        const float *y_hat = values_of(ours[k - 1]);
        double largest = largest_of(logits->values, logits->count);
        assert_int_equal(numel(ours[k - 1]), logits->count);
        for (size_t j = 0; j < logits->count; j++)
            check(logits->name, j, (double)y_hat[j], (double)logits->values[j],
                  allowed_part * largest);
        for (size_t s = 0; s < losses->count; s++) {
            vit_train_batch(v, X, y, lr, ours);
            check(losses->name, s, (double)item(ours[0]) / ROWS, (double)losses->values[s],
                  allowed_part * (double)losses->values[s]);
        }
        vit_free(v);
    }
}

// Each number may be wrong by a part of itself, or of its tensor's mean.
TEST_ON_BOTH(gradients_are_those_of_pytorch) {
    static const double allowed = 1e-5;
    Tensor *X, *y, *images[MOST_SPLIT], *labels[MOST_SPLIT], *y_hat[MOST_SPLIT];
    Vit *v = formula_vit(state, 1);
    Tensor *const *all = named(&v->shards[0]);
    formula_batch(ROWS, &X, &y);
    keep(X), keep(y);
    vit_load(v, X, y, (Range){0, X->shape[0]}, images, labels);
    vit_forward(v, images, y_hat);
    backward(sum(cross_entropy(y_hat[0], labels[0])));
    for (int p = 0; p < PARAMETERS; p++) {
        double norm = (double)part("grad.%s.norm", all[p]->name)->values[0];
        check_gradient("grad.", all[p]->grad, all[p]->name, ROWS, allowed,
                       allowed * norm / sqrt((double)numel(all[p])));
    }
    vit_free(v);
}

// ---- the exchange --------------------------------------------------------------------------------

static float sum_of(float *const values[], int first, int n, size_t j) {
    if (n == 1) return values[first][j];
    return sum_of(values, first, n / 2, j) + sum_of(values, first + n / 2, n - n / 2, j);
}

TEST_ON_BOTH(sums_are_added_halves_to_halves) {
    for (int k = 1; k <= MOST_SPLIT; k += step_from(k))
        for (int n = 0; n <= 1000; n += 1 + n * 9) {
            Device *devices[MOST_SPLIT];
            Tensor *data[MOST_SPLIT];
            float *before[MOST_SPLIT];
            devices_under_test(state, k, devices);
            for (int i = 0; i < k; i++) {
                begin_step(devices[i]);
                data[i] = RANDOM(devices[i], n);
                before[i] = values_of(data[i]);
            }
            sum_in_halves(data, k);
            for (int i = 0; i < k; i++) {
                const float *sum = values_of(data[i]);
                for (int j = 0; j < n; j++) assert_true(sum[j] == sum_of(before, 0, k, (size_t)j));
            }
        }
}

TEST_ON_BOTH(devices_send_the_bytes_of_the_formula) {
    for (int k = 1; k <= MOST_SPLIT; k += step_from(k)) {
        Tensor *losses[MOST_SPLIT];
        Vit *v = vit_on(state, k);
        ledger_reset();
        take_steps(v, 1, losses);
        for (int i = 0; i < k; i++) {
            size_t sent = 0;
            for (int j = 0; j < k; j++)
                if (j != i) sent += ledger_bytes(v->devices[i], v->devices[j]);
            assert_int_equal(sent, vit_bytes(&v->options, k, i, ROWS));
            // 4 exchanges in each block, 2 (k-1)/k of all tokens in each.
            if (GROUPS % k == 0)
                assert_int_equal(sent, 4 * BLOCKS * 2 * (k - 1) * ROWS * TOKENS * WIDTH * 4 / k);
        }
        vit_free(v);
    }
}

// ---- sixteen bits --------------------------------------------------------------------------------

// From the definition: a multiple of a power of two that leaves 8 significant bits, or fewer below
// the smallest normal number.
static float rounded(float x) {
    int exponent;
    if (x == 0 || !isfinite(x)) return x;
    frexp((double)x, &exponent);
    int last = exponent - 8 > -133 ? exponent - 8 : -133;
    return (float)ldexp(rint(ldexp((double)x, -last)), last);
}

// All upper halves, with lower halves at and beside a tie: denormals, infinities and NaN, too.
TEST(rounds_to_the_nearest_bfloat16) {
    static const uint32_t lower[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
    for (uint32_t upper = 0; upper <= 0xffff; upper++)
        for (size_t i = 0; i < COUNT(lower); i++) {
            uint32_t bits = upper << 16 | lower[i], got_bits;
            float x, got, expected;
            memcpy(&x, &bits, sizeof x);
            got = x;
            round_to_bfloat16(&got, 1);
            memcpy(&got_bits, &got, sizeof got);
            expected = rounded(x);
            if (isnan(x) ? !isnan(got) : memcmp(&got, &expected, sizeof got) != 0)
                fail_msg("%08x becomes %08x", bits, got_bits);
            if (got_bits & 0xffff) fail_msg("%08x has more than 16 bits", got_bits);
        }
}

static float sum_of_ones(SumOfDevices *way, int k) {
    float one = 1, *x[1024], sum[1];
    for (int i = 0; i < k; i++) x[i] = &one;
    way(x, k, 1, sum);
    return sum[0];
}

TEST(sums_lose_what_sixteen_bits_cannot_hold) {
    assert_true(sum_of_ones(sum_along_ring, 1024) == 256);
    assert_true(sum_of_ones(sum_up_tree, 1024) == 1024);
    assert_true(sum_of_ones(sum_in_float32, 1024) == 1024);
    assert_true(sum_of_ones(sum_up_tree, 257) == 256); // 257 and 259: ties
    assert_true(sum_of_ones(sum_in_float32, 259) == 260);
    assert_true(sum_of_ones(sum_up_tree, 3) == 3 && sum_of_ones(sum_in_float32, 1) == 1);
}

// The network computes with rounded weights in any case.
TEST(only_a_float32_copy_keeps_small_updates) {
    Tensor *X, *y;
    Device *device = cpu_device(0);
    size_t n = vit_numbers(WIDTH);
    float losses[2];
    formula_batch(ROWS, &X, &y);
    keep(X), keep(y);
    for (int copy = 0; copy <= 1; copy++) {
        size_t ones = 0, moved = 0;
        Vit *v = vit_new(OPTIONS(.data = 0), &device, 1, start_of());
        float *weights = values_of(v->shards[0].flat);
        const float *start = values_of(v->shards[0].flat);
        if (!copy) round_to_bfloat16(weights, n);
        losses[copy] = train_batch_in_bfloat16(v, weights, copy, X, y, 1e-4f);
        for (int s = 1; s < 30; s++) train_batch_in_bfloat16(v, weights, copy, X, y, 1e-4f);
        round_to_bfloat16(weights, n);
        for (size_t j = 0; j < n; j++) {
            ones += start[j] == 1;
            moved += start[j] == 1 && weights[j] != 1;
        }
        assert_int_equal(ones, (2 * BLOCKS + 1) * WIDTH);
        if (copy ? moved < ones / 4 : moved > 0) fail_msg("%zu of %zu moved", moved, ones);
        vit_free(v);
    }
    assert_true(losses[0] == losses[1]);
}

// ---- mistakes ------------------------------------------------------------------------------------

// With one device, none can be made; with more, each shows within two steps.
TEST_ON_BOTH_UNLESS_SIMULATED(each_mistake_shows) {
    for (int m = 0; m < NUM_MISTAKES; m++) {
        assert_true(
            equal_bits(trained_on(state, 1, 2, &mistakes[m]), trained_on(state, 1, 2, NULL)));
        for (int k = 2; k <= 4; k += 2)
            if (equal_bits(trained_on(state, k, 2, &mistakes[m]), trained_on(state, k, 2, NULL)))
                fail_msg("not noticed with %d devices: %s", k, mistakes[m].what);
    }
}

DIES("1 to 8 networks", { mesh_new(OPTIONS(.data = 0), NULL, 9, 1, NULL); })
DIES("split over 1 to 8 devices", {
    Device *devices[9] = {NULL};
    vit_new(OPTIONS(.data = 0), devices, 9, NULL);
})
DIES("each group has equally many numbers", {
    Device *device = cpu_device(0);
    vit_new((VitOptions){.width = WIDTH + 4}, &device, 1, NULL);
})

static int open_reference(void **state) {
    reference = safetensors_open("tests/reference/vit.safetensors");
    return (void)state, 0;
}

int main(void) { return run_all("vit", open_reference, close_reference); }
