// mpi.h: what chapter 8 uses of MPI, for a program that is built without it: one rank, which sends
// nothing. (This folder is searched for headers then.) These functions do nothing, and say that it
// went well.
#pragma once

#include <unistd.h>

#define MPI_VERSION       0
#define MPI_IN_PLACE      ((void *)0)
#define MPI_STATUS_IGNORE ((void *)0)
typedef int MPI_Comm, MPI_Request, MPI_Message;
typedef struct MPI_Status {
    int MPI_SOURCE;
} MPI_Status;
enum { MPI_SUCCESS, MPI_ERR_TRUNCATE, MPI_ERRORS_RETURN, MPI_COMM_TYPE_SHARED, MPI_INFO_NULL };
enum {
    MPI_COMM_NULL,
    MPI_REQUEST_NULL,
    MPI_COMM_WORLD,
    MPI_ANY_SOURCE,
    MPI_BYTE,
    MPI_INT,
    MPI_FLOAT,
    MPI_SUM
};
enum { MPI_THREAD_MULTIPLE, MPI_MAX_ERROR_STRING = 64 };

static inline int mpi_set(int *value, int to) {
    *value = to;
    return MPI_SUCCESS;
}
static inline int mpi_nothing(int first, ...) { return first * MPI_SUCCESS; }

#define MPI_Init_thread(a, b, level, provided) mpi_set(provided, level)
#define MPI_Comm_rank(comm, rank)              mpi_set(rank, (comm)*0)
#define MPI_Comm_size(comm, size)              mpi_set(size, (comm)*0 + 1)
#define MPI_Comm_dup(comm, copy)               mpi_set(copy, comm)
#define MPI_Comm_free(comm)                    mpi_set(comm, MPI_COMM_NULL)
#define MPI_Error_class(error, class)          mpi_set(class, error)
#define MPI_Abort(comm, status)                _exit(status)
#define MPI_Finalize()                         mpi_nothing(0)
#define MPI_Comm_split(...)                    mpi_nothing(__VA_ARGS__)
#define MPI_Comm_split_type(...)               mpi_nothing(__VA_ARGS__)
#define MPI_Comm_set_errhandler(...)           mpi_nothing(__VA_ARGS__)
#define MPI_Error_string(...)                  mpi_nothing(__VA_ARGS__)
#define MPI_Improbe(...)                       mpi_nothing(__VA_ARGS__)
#define MPI_Bcast(data, ...)                   mpi_nothing(0, data, __VA_ARGS__)
#define MPI_Allgather(data, ...)               mpi_nothing(0, data, __VA_ARGS__)
#define MPI_Isend(data, ...)                   mpi_nothing(0, data, __VA_ARGS__)
#define MPI_Irecv(data, ...)                   mpi_nothing(0, data, __VA_ARGS__)
#define MPI_Mrecv(data, ...)                   mpi_nothing(0, data, __VA_ARGS__)
#define MPI_Test(request, arrived, status)     (*(status) = (MPI_Status){0}, mpi_set(arrived, 1))
#define MPI_Get_count(status, ...)             mpi_nothing(0, status, __VA_ARGS__)
#define MPI_Request_free(request)              mpi_set(request, 0)
