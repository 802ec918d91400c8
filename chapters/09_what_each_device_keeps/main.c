// main.c: the story of chapter 9. README.md says how to run it and what to read.
#include "common/book.h"
#include "chapters/03_split_batch/split_batch.h"
#include "chapters/06_data_parallel_and_ddp/networks.h"
#include "zero.h"

int main(int argc, char *argv[]) {
    Flags flags = book_begin(argc, argv, "What each device keeps.", "devices seed batch-size train-size allreduce data", default_flags);
    choose_allreduce("sharded");
    int ks[] = {1, 2, 3, 4, 7};
    Dataset *data = fashion_mnist_open(flags.data, true, flags.train_size);
    for (int net = 0; net < 2; net++)
        for (int c = 0; c < 5; c++) {
            int k = ks[c];
            float *values[NUM_STAGES];
            size_t n = 0;
            for (Stage stage = 0; stage < NUM_STAGES; stage++) {
                Device *devices[MAX_DEVICES];
                Tensor *X, *y, *X_shards[MAX_DEVICES], *y_shards[MAX_DEVICES], *losses[MAX_DEVICES];
                float loss[MAX_DEVICES];
                open_devices(devices, k);
                Module *m = networks[net].make(10);
                initialize(m, 1);
                Zero *z = zero_new(m, devices, k, stage, (AdamOptions){0});
                DataIter *batches = data_iter_new(data, 2 * k + 1, true, 1);
                data_iter_start(batches, 0);
                double sum_of_losses = 0;
                for (int s = 0; s < 3 && data_iter_next(batches, &X, &y); s++) {
                    for (int i = 0; i < k; i++) begin_step(devices[i]);
                    split_batch(X, y, devices, k, X_shards, y_shards);
                    ledger_reset();
                    zero_step(z, X_shards, y_shards, 1e-3f, 2 * k + 1, losses);
                    items(losses, k, loss);
                    for (int i = 0; i < k; i++) sum_of_losses += loss[i];
                }
                uint64_t sent = 0;
                for (int j = 1; j < k; j++) sent += ledger_bytes(devices[0], devices[j]);
                n = parameter_bytes(m) / 4;
                values[stage] = xmalloc(n * 4);
                zero_read(z, values[stage]);
                ZeroMemory f = zero_memory(z, 0);
                printf("%s k=%d %s loss %.9g %s sent %zu formula %zu; peak %zu formula %zu\n", networks[net].name, k, stage_names[stage],
                       sum_of_losses, memcmp(values[0], values[stage], n * 4) ? "DIFFERENT" : "equal", (size_t)sent,
                       zero_bytes(z, 0).sent, (size_t)(device_peak_bytes(devices[0]) - arena_reserved_bytes(devices[0])), zero_peak(&f) + buffer_bytes(m));
                data_iter_free(batches);
                zero_free(z);
                module_free(m);
                devices_close();
            }
            for (int s = 0; s < NUM_STAGES; s++) free(values[s]);
        }
    return book_end();
}
