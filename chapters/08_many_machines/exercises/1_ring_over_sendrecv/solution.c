// solution.c: the ring in one loop: its first half adds what comes, its second one keeps it.
#include "your_part.h"

void ring_all_reduce(float *data, size_t n, MPI_Comm comm) {
    int k, rank;
    MPI_Comm_size(comm, &k);
    MPI_Comm_rank(comm, &rank);
    int right = (rank + 1) % k, left = (rank + k - 1) % k, steps = 2 * (k - 1);
    float *arrived = xmalloc(sizeof *arrived * (n / (size_t)k + 1));
    for (int step = 0; step < steps; step++) {
        bool adds = step < k - 1; // then the second half, which begins with part rank + 1
        Range mine = equal_range((long)n, k, (rank - step + 2 * k) % k);
        Range theirs = equal_range((long)n, k, (rank - step - 1 + 2 * k) % k);
        float *target = data + theirs.first, *place = adds ? arrived : target;
        MPI_Sendrecv(data + mine.first, (int)mine.count, MPI_FLOAT, right, 0, place,
                     (int)theirs.count, MPI_FLOAT, left, 0, comm, MPI_STATUS_IGNORE);
        for (long i = 0; i < theirs.count && adds; i++) target[i] += arrived[i];
    }
    free(arrived);
}
