// wrong: each rank sends, then receives: long messages wait for a receiver that never comes
// loses: 4
// says: all send and nobody receives

#include "your_part.h"

void ring_all_reduce(float *data, size_t n, MPI_Comm comm) {
    int k, rank;
    MPI_Comm_size(comm, &k);
    MPI_Comm_rank(comm, &rank);
    int right = (rank + 1) % k, left = (rank - 1 + k) % k;
    float *arrived = xmalloc(sizeof *arrived * (n / (size_t)k + 1));
    for (int s = 0; s < k - 1; s++) {
        Range out = equal_range((long)n, k, (rank - s + k) % k);
        Range in = equal_range((long)n, k, (rank - s - 1 + k) % k);
        MPI_Send(data + out.first, (int)out.count, MPI_FLOAT, right, 0, comm);
        MPI_Recv(arrived, (int)in.count, MPI_FLOAT, left, 0, comm, MPI_STATUS_IGNORE);
        for (long i = 0; i < in.count; i++) data[in.first + i] += arrived[i];
    }
    for (int s = 0; s < k - 1; s++) {
        Range out = equal_range((long)n, k, (rank + 1 - s + k) % k);
        Range in = equal_range((long)n, k, (rank - s + k) % k);
        MPI_Send(data + out.first, (int)out.count, MPI_FLOAT, right, 0, comm);
        MPI_Recv(data + in.first, (int)in.count, MPI_FLOAT, left, 0, comm, MPI_STATUS_IGNORE);
    }
    free(arrived);
}
