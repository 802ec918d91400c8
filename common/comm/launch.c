// launch.c: see launch.h. Names of variables: mpirun(1) of Open MPI 4, "Environmental Variables";
// Hydra of MPICH and Intel MPI; srun(1), "OUTPUT ENVIRONMENT VARIABLES".
#include "launch.h"

#include "common/base/error.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Launcher {
    const char *name, *rank, *size, *local_rank, *local_size;
} Launcher;

// srun comes last: what it starts may be another launcher's daemon. SLURM_STEP_* are there only in
// what srun has started, SLURM_NTASKS also in a batch script.
enum { MPIRUN, MPIEXEC, SRUN, NUM_LAUNCHERS };
static const Launcher launchers[NUM_LAUNCHERS] = {
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""},
};

static int number_in(const char *variable, int otherwise) {
    const char *text = getenv(variable);
    char *end;
    if (!text || !*text) return otherwise;
    long value = strtol(text, &end, 10);
    return *end || value < 0 || value > 1 << 24 ? otherwise : (int)value;
}

Launch launch_read(void) {
    for (int l = 0; l < NUM_LAUNCHERS; l++) {
        const Launcher *by = &launchers[l];
        int rank = number_in(by->rank, -1), size = number_in(by->size, -1);
        if (rank < 0 || size < 1 || rank >= size) continue;
        // (srun --mpi=pmi2 gives numbers as mpiexec does, but no local ones.)
        if (l == MPIEXEC && getenv(launchers[SRUN].size) && !getenv(by->local_rank)) continue;
        return (Launch){.by = by->name,
                        .rank = rank,
                        .size = size,
                        .local_rank = number_in(by->local_rank, -1),
                        .local_size = number_in(by->local_size, -1)};
    }
    return (Launch){.rank = 0, .size = 1, .local_rank = 0, .local_size = 1};
}

static bool is_by_srun(const Launch *launch) {
    return launch->by && strcmp(launch->by, launchers[SRUN].name) == 0;
}

void launch_prepare(const Launch *launch) {
    if (!is_by_srun(launch) || getenv("PMIX_RANK") || getenv("PMI_FD")) return;
    launch_check(launch, 1);
    unsetenv("SLURM_STEP_ID");
}

void launch_check(const Launch *launch, int found) {
    const unsigned UNTIL_RANK_0_HAS_SAID_IT = 3;
    if (found >= launch->size) return;
    if (launch->rank > 0) { // what srun has started may go on when rank 0 has ended
        sleep(UNTIL_RANK_0_HAS_SAID_IT);
        _exit(EXIT_FAILURE);
    }
    die(is_by_srun(launch)
            ? "srun --mpi=pmix (MPICH: pmi2) starts processes that find each other, if Slurm has "
              "it (srun --mpi=list); else let mpirun start them from the batch script"
            : "start it with the mpirun of the MPI that it was built with; without any, make setup "
              "installs one",
        "%s started %d processes, but each is a world of %d: all would do the same work",
        launch->by, launch->size, found);
}
