//go:build linux

package agent

import (
	"slices"
	"strings"
)

// srunOptions are the variables from which srun takes options that its command line does not have, and that change the
// output of the agent, start other programs around it, or give its step less than the job has on a host. sbatch sets
// some of them for the steps of users. They are those of the manual of srun, and of its later versions; without the
// variables that describe the job, such as SLURM_JOB_ID and SLURM_NTASKS, which the options of an agent override.
var srunOptions = strings.Fields(`SLURM_BCAST SLURM_BCAST_EXCLUDE SLURM_COMPRESS SLURM_CONSTRAINT SLURM_CONTAINER
	SLURM_CORE_SPEC SLURM_CPUS_PER_GPU SLURM_CPU_BIND SLURM_DEBUG SLURM_DISTRIBUTION SLURM_DIST_PLANESIZE SLURM_EPILOG
	SLURM_EXACT SLURM_EXCLUSIVE SLURM_EXPORT_ENV SLURM_GPUS SLURM_GPUS_PER_NODE SLURM_GPUS_PER_SOCKET
	SLURM_GPUS_PER_TASK SLURM_GPU_BIND SLURM_GRES SLURM_GRES_FLAGS SLURM_HINT SLURM_IMMEDIATE SLURM_KILL_BAD_EXIT
	SLURM_LABELIO SLURM_MEM_BIND SLURM_MEM_PER_GPU SLURM_MPI_TYPE SLURM_NCORES_PER_SOCKET SLURM_NSOCKETS_PER_NODE
	SLURM_NTASKS_PER_CORE SLURM_NTASKS_PER_GPU SLURM_NTASKS_PER_SOCKET SLURM_NTASKS_PER_TRES SLURM_OPEN_MODE
	SLURM_OVERCOMMIT SLURM_PROLOG SLURM_REMOTE_CWD SLURM_RESV_PORTS SLURM_SIGNAL SLURM_SPREAD_JOB SLURM_SRUN_MULTI
	SLURM_STDERRMODE SLURM_STDINMODE SLURM_STDOUTMODE SLURM_STEP_GRES SLURM_TASK_EPILOG SLURM_TASK_PROLOG
	SLURM_TEST_EXEC SLURM_THREADS SLURM_THREADS_PER_CORE SLURM_THREAD_SPEC SLURM_TIMELIMIT SLURM_TRES_BIND
	SLURM_TRES_PER_TASK SLURM_UNBUFFEREDIO SLURM_USE_MIN_NODES SLURM_WAIT SLURM_WHOLE SLURM_WORKING_DIR SRUN_CONTAINER
	SRUN_CPUS_PER_TASK SRUN_EXPORT_ENV`)

// withoutSrunOptions returns the variables of env that are no options of srun.
func withoutSrunOptions(env []string) []string {
	return slices.DeleteFunc(env, func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains(srunOptions, name)
	})
}
