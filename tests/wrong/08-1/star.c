// wrong: rank 0 gets all vectors, adds them up and sends the sum out: that is a star
// loses: 2 3
// says: that is the star, where all goes through rank 0

#include "your_part.h"

// Rank 0's part of it.
static void be_the_hub(float *data, int n, int k, MPI_Comm comm) {
    float *arrived = xmalloc(sizeof *arrived * (size_t)(n + 1));
    for (int r = 1; r < k; r++) {
        MPI_Recv(arrived, n, MPI_FLOAT, r, 0, comm, MPI_STATUS_IGNORE);
        for (int i = 0; i < n; i++) data[i] += arrived[i];
    }
    for (int r = 1; r < k; r++) MPI_Send(data, n, MPI_FLOAT, r, 0, comm);
    free(arrived);
}

void ring_all_reduce(float *data, size_t n, MPI_Comm comm) {
    int k, rank;
    MPI_Comm_size(comm, &k);
    MPI_Comm_rank(comm, &rank);
    if (rank == 0) {
        be_the_hub(data, (int)n, k, comm);
        return;
    }
    MPI_Send(data, (int)n, MPI_FLOAT, 0, 0, comm);
    MPI_Recv(data, (int)n, MPI_FLOAT, 0, 0, comm, MPI_STATUS_IGNORE);
}
