// launcher.c: a table of launchers and of the environment variables that they set.
//
// The names are from mpirun(1) of Open MPI 4, "Environmental Variables"; Hydra of MPICH and Intel
// MPI; MVAPICH's mpirun_rsh; flux-environment(7); jsrun(1); srun(1), "OUTPUT ENVIRONMENT
// VARIABLES"; torchrun, whose names deepspeed and Kubeflow also use; Horovod's launcher without
// MPI.
#include "launcher.h"

#include "error.h"
#include "number.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

typedef struct Launcher {
    const char *name, *rank, *size, *local_rank, *local_size;
} Launcher;

// srun comes late in the table, because it may have started another launcher's daemon. SLURM_STEP_*
// are set only in what srun has started; SLURM_NTASKS is also set in a batch script.
enum { MPIRUN, MPIRUN_RSH, FLUX, MPIEXEC, JSRUN, SRUN, TORCHRUN, HOROVODRUN, NUM_LAUNCHERS };
static const Launcher launchers[NUM_LAUNCHERS] = {
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"mpirun_rsh", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
     "MV2_COMM_WORLD_LOCAL_SIZE"},
    {"flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", ""},
    {"mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK",
     "JSM_NAMESPACE_LOCAL_SIZE"},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"horovodrun", "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE"},
};

static int number_in(const char *variable, int otherwise) {
    const char *text = getenv(variable);
    long value;
    return text && read_whole(text, 0, 1 << 24, &value) ? (int)value : otherwise;
}

// MPI processes learn their rank from variables with these prefixes. (PMIX_MCA_* are settings.)
static bool mpi_is_told(void) {
    static const char *const prefixes[] = {
        "OMPI_COMM_WORLD_", "PMIX_RANK=",   "PMI_",         "PMI2_",
        "MV2_COMM_WORLD_",  "MPIRUN_RANK=", "ALPS_APP_PE=", "PALS_"};
    for (char **variable = environ; *variable; variable++)
        for (size_t p = 0; p < sizeof prefixes / sizeof *prefixes; p++)
            if (strncmp(*variable, prefixes[p], strlen(prefixes[p])) == 0) return true;
    return false;
}

// `srun -n4 --pty bash` starts four shells, and three of them end at once. A program that is
// started by hand in the first one is no task of srun's, although it has all the variables of one.
static bool in_a_shell_of_srun(int rank) {
    bool has_terminal = getenv("SLURM_PTY_PORT") || isatty(STDIN_FILENO);
    return rank == 0 && has_terminal && number_in("SLURM_TASK_PID", -1) != (int)getpid();
}

// Returns the first launcher that started several processes, or else the first that started one.
Launch launch_read(void) {
    Launch found = {.size = 1, .local_size = 1, .by_mpi = mpi_is_told()};
    for (int l = 0; l < NUM_LAUNCHERS && found.size == 1; l++) {
        const Launcher *by = &launchers[l];
        int rank = number_in(by->rank, -1), size = number_in(by->size, -1);
        if (rank < 0 || size < 1 || rank >= size || (found.by && size == 1)) continue;
        // (srun --mpi=pmi2 gives numbers as mpiexec does, but no local ones.)
        if (l == MPIEXEC && getenv(launchers[SRUN].size) && !getenv(by->local_rank)) continue;
        if (l == SRUN && in_a_shell_of_srun(rank)) {
            found.by_mpi = found.by && found.by_mpi;
            continue;
        }
        found = (Launch){.by = by->name,
                         .variable = by->size,
                         .rank = rank,
                         .size = size,
                         .local_rank = number_in(by->local_rank, -1),
                         .local_size = number_in(by->local_size, -1),
                         .by_mpi = found.by_mpi};
    }
    return found;
}

void launch_must_be_one(void) {
    const double UNTIL_RANK_0_HAS_ENDED = 3;
    Launch launch = launch_read();
    if (launch.size == 1) return;
    if (launch.rank > 0) let_another_speak(UNTIL_RANK_0_HAS_ENDED);
    die(xprintf("start it once, without %s: it has many devices in one process. Runs that differ "
                "need an --out of their own",
                launch.by),
        "%s=%d says that %s started %d processes, but this program is one: all would write the "
        "same files",
        launch.variable, launch.size, launch.by, launch.size);
}
