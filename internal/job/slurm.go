package job

import "strconv"

// InSlurmStep reports whether this process is a task that srun started, as opposed to a batch script, which has most of
// the variables, too. Steps with numbers from 0xfffffff0 are Slurm's own: batch script, interactive shell.
func InSlurmStep(get func(string) string) bool {
	step, err := strconv.ParseUint(get("SLURM_STEP_ID"), 10, 32)
	return err == nil && step < 0xfffffff0 && get("SLURM_PROCID") != ""
}
