#!/bin/bash
# A batch script for a program that continues after the loss of a rank or a node, as those that use rank.Worlds do:
#
#   sbatch examples/slurm/continues.sh ./train --elastic
#
# A rank that fails gets a new process on its node, up to three times. A node that is lost takes its ranks with it, and
# the others continue. Only the loss of the first node ends the job, as its treerun knows who takes part.
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=01:00:00
#SBATCH --no-kill

set -eu

# The treeruns of this job authenticate with a key, in a folder that all nodes share.
umask 077
key=$(mktemp "${TREERUN_KEY_DIR:-$HOME}/treerun-key.XXXXXX")
trap 'rm -f "$key"' EXIT
od -An -N32 -tx1 /dev/urandom | tr -d ' \n' > "$key"
export TREERUN_KEY_FILE=$key

# srun ends no task because another one has failed. It exits with the highest code of a task: that of treerun on the
# first node counts, which is 0 if the job has ended well, and the job's output says so.
srun --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" --no-kill --kill-on-bad-exit=0 --wait=0 \
    treerun --on-failure respawn --max-restarts 3 "$@"
