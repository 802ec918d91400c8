// mpi.h: what chapter 8 uses of MPI, for a program that is built without it: one rank, which sends
// nothing. (This folder is searched for headers then.) What is called all the same does nothing.
#ifndef MPI_H
#define MPI_H

#include <stdlib.h>
#include <unistd.h>

#define MPI_VERSION 0
typedef int MPI_Comm, MPI_Request, MPI_Message, MPI_Datatype, MPI_Op, MPI_Info;
typedef struct MPI_Status {
    int MPI_SOURCE;
} MPI_Status;
enum { MPI_SUCCESS, MPI_ERR_TRUNCATE, MPI_ERRORS_RETURN, MPI_COMM_TYPE_SHARED, MPI_INFO_NULL };
enum { MPI_COMM_NULL, MPI_COMM_WORLD, MPI_ANY_SOURCE, MPI_BYTE, MPI_INT, MPI_FLOAT, MPI_SUM };
enum { MPI_THREAD_MULTIPLE, MPI_MAX_ERROR_STRING = 64 };
#define MPI_IN_PLACE      NULL
#define MPI_STATUS_IGNORE NULL

// Its arguments are used, its result is MPI_SUCCESS.
static inline int mpi_nothing(int first, ...) {
    (void)first;
    return MPI_SUCCESS;
}
#define MPI_Init_thread(a, b, level, provided) (*(provided) = (level), MPI_SUCCESS)
#define MPI_Finalize()                         mpi_nothing(0)
#define MPI_Abort(comm, status)                _exit(status)
#define MPI_Comm_rank(comm, rank)              (*(rank) = 0, MPI_SUCCESS)
#define MPI_Comm_size(comm, size)              (*(size) = 1, MPI_SUCCESS)
#define MPI_Comm_dup(comm, copy)               (*(copy) = (comm), MPI_SUCCESS)
#define MPI_Comm_free(comm)                    (*(comm) = MPI_COMM_NULL, MPI_SUCCESS)
#define MPI_Comm_split(comm, ...)              mpi_nothing(comm, __VA_ARGS__)
#define MPI_Comm_split_type(comm, ...)         mpi_nothing(comm, __VA_ARGS__)
#define MPI_Comm_set_errhandler(comm, ...)     mpi_nothing(comm, __VA_ARGS__)
#define MPI_Error_string(error, ...)           mpi_nothing(error, __VA_ARGS__)
#define MPI_Error_class(error, class)          (*(class) = (error), MPI_SUCCESS)
#define MPI_Bcast(data, n, ...)                mpi_nothing(n, data, __VA_ARGS__)
#define MPI_Allgather(data, n, ...)            mpi_nothing(n, data, __VA_ARGS__)
#define MPI_Isend(data, n, ...)                mpi_nothing(n, data, __VA_ARGS__)
#define MPI_Irecv(data, n, ...)                mpi_nothing(n, data, __VA_ARGS__)
#define MPI_Iallreduce(in, data, n, ...)       mpi_nothing(n, data, __VA_ARGS__)
#define MPI_Test(request, arrived, status)                                                         \
    ((void)(request), (void)(status), *(arrived) = 1, MPI_SUCCESS)
#define MPI_Get_count(status, type, count) ((void)(status), (void)(count), MPI_SUCCESS)
#define MPI_Improbe(from, tag, comm, is_there, message, status)                                    \
    ((void)(message), (void)(status), *(is_there) = 0, MPI_SUCCESS)
#define MPI_Mrecv(data, n, ...)   mpi_nothing(n, data, __VA_ARGS__)
#define MPI_Request_free(request) mpi_nothing(0, request)

#endif
