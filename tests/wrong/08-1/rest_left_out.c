// wrong: all parts have n / k numbers, so the last n % k are in none
// loses: 5
// says: last n % k numbers were left out

#include "your_part.h"

void ring_all_reduce(float *data, size_t n, MPI_Comm comm) {
    int k, rank;
    MPI_Comm_size(comm, &k);
    MPI_Comm_rank(comm, &rank);
    int count = (int)n / k, right = (rank + 1) % k, left = (rank + k - 1) % k;
    float *arrived = xmalloc(sizeof *arrived * (size_t)(count + 1));
    for (int s = 0; s < k - 1; s++) {
        float *out = data + (size_t)((rank - s + k) % k) * (size_t)count;
        float *in = data + (size_t)((rank - s - 1 + k) % k) * (size_t)count;
        MPI_Sendrecv(out, count, MPI_FLOAT, right, s, arrived, count, MPI_FLOAT, left, s, comm,
                     MPI_STATUS_IGNORE);
        for (int i = 0; i < count; i++) in[i] += arrived[i];
    }
    for (int s = 0; s < k - 1; s++) {
        float *out = data + (size_t)((rank + 1 - s + k) % k) * (size_t)count;
        float *in = data + (size_t)((rank - s + k) % k) * (size_t)count;
        MPI_Sendrecv(out, count, MPI_FLOAT, right, s, in, count, MPI_FLOAT, left, s, comm,
                     MPI_STATUS_IGNORE);
    }
    free(arrived);
}
