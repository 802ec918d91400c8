// ranks.c: see ranks.h. How a process finds the others, and which device it uses. (What else its
// start needs is in behind/launch.c.) What ranks do together is in group.c, star.c and nccl.c.
#include "group.h"

#include "common/base/error.h"

struct World world;

bool dist_is_mpi_available(void) { return MPI_VERSION > 0; } // else: common/without/mpi/mpi.h
bool dist_is_initialized(void) { return world.all.size > 0; }
int dist_get_rank(void) { return group_or_all(NULL)->rank; }
int dist_get_world_size(void) { return group_or_all(NULL)->size; }
int dist_local_rank(void) { return world.local_rank; }
int dist_local_size(void) { return world.local_size; }
Device *dist_device(void) { return world.device; }
int dist_num_hosts(void) { return world.num_hosts; }
int dist_host_of(int rank) { return world.host_numbers ? world.host_numbers[rank] : 0; }
const char *dist_host_name(int rank) {
    return world.host_names ? world.host_names[rank] : "its host";
}

int group_rank(const ProcessGroup *group) { return group_or_all(group)->rank; }
int group_size(const ProcessGroup *group) { return group_or_all(group)->size; }
ProcessGroup *group_or_all(const ProcessGroup *group) {
    CHECK(dist_is_initialized(), "dist_init_process_group() comes first");
    return group ? (ProcessGroup *)group : &world.all;
}

// Messages between ranks of a group go over a communicator of MPI.
ProcessGroup group_of(MPI_Comm comm) {
    ProcessGroup g = {.comm = comm, .size = 1};
    if (comm != MPI_COMM_NULL) {
        mpi_check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
        mpi_check(MPI_Comm_rank(comm, &g.rank), "MPI_Comm_rank");
        mpi_check(MPI_Comm_size(comm, &g.size), "MPI_Comm_size");
    }
    g.world_rank = xmalloc(sizeof *g.world_rank * (size_t)g.size);
    for (int r = 0; r < g.size; r++) g.world_rank[r] = r;
    return g;
}

// Two threads will use MPI, one that communicates and one that watches. The communicator
// MPI_COMM_WORLD contains all ranks. `world.host` gets the ranks that share this host's memory.
void find_the_others(void) {
    int provided;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
    if (provided < MPI_THREAD_MULTIPLE)
        die("install an MPI that was built with threads (Debian: openmpi-bin)",
            "this MPI does not let two threads call it at once (MPI_THREAD_MULTIPLE)");
    world.all = group_of(MPI_COMM_WORLD); // asks MPI_Comm_rank() and MPI_Comm_size()
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &world.host);
    MPI_Comm_rank(world.host, &world.local_rank);
    MPI_Comm_size(world.host, &world.local_size);
    MPI_Comm_dup(MPI_COMM_WORLD, &world.watched);
}

void open_device(void) {
    int gpus = num_gpus(); // that this process sees
    world.device = try_gpu(gpus > 0 ? world.local_rank % gpus : 0);
}
