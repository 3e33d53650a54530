#!/bin/bash
# A batch script for Slurm: sbatch examples/slurm/job.sh ./train --epochs 5
#
# One task per node: each is a treerun, which runs the ranks of its node, one
# per GPU, or per core on a node without GPUs. Their output is in the job's
# output file, and the exit code of the job is that of the first rank that fails.
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=01:00:00

set -eu

# The treeruns of this job authenticate with a key, in a folder that all nodes
# share.
umask 077
key=$(mktemp "${TREERUN_KEY_DIR:-$HOME}/treerun-key.XXXXXX")
trap 'rm -f "$key"' EXIT
od -An -N32 -tx1 /dev/urandom | tr -d ' \n' > "$key"
export TREERUN_KEY_FILE=$key

# treerun reads the numbers of the nodes, and the address of node 0, from Slurm's
# variables. If the nodes have several networks, add --iface; flags stand before
# the program.
srun --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" --kill-on-bad-exit=1 treerun "$@"
