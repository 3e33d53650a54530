#!/usr/bin/env bash
# Checks that treerun runs on all hosts of a list or an allocation, and on no others.
#
#   scripts/faults/allocations.sh
#
# Allocations whose hosts differ only in their domain, heterogeneous jobs of Slurm, hosts without slots, blanks around
# "=", Open MPI's numbers of hosts, and torchrun's range of nodes. Agents run on this host and only print the name of
# their host. Takes a few seconds.
#
# Needs go.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -o "$work/treerun" ./cmd/treerun
cd "$work"
export AGENT='env AS={host} sh -c '\''exec "$@"'\'' -'
host=$(uname -n)
host=${host%%.*}
failed=0

# expect WHAT WANTED COMMAND...: the hosts of the ranks, in order, or the first line of the error.
expect() {
    local what=$1 want=$2 got
    shift 2
    got=$("$@" sh -c 'echo rank $RANK ${AS:-here}' 2>err | sort -n -k2.2 -k3 | awk '{print $NF}' | xargs) || true
    [ -n "$got" ] || got=$(head -n 1 err)
    case $got in
    $want) ;;
    *) echo "fault: $what: $got; want $want" >&2; failed=1 ;;
    esac
}
# Without an agent a host may be taken for this one.
two() {
    vars=("$2")
    case $(env "${vars[@]}" ./treerun --dry-run true) in
    *" on 2 hosts; "*) ;;
    *) echo "fault: two domains, $1: $(env "${vars[@]}" ./treerun --dry-run true | head -n 1)" >&2; failed=1 ;;
    esac
}
run() { env "${vars[@]}" "$work/treerun" --launch-agent "$AGENT" "$@"; }

printf '%s\n' "$host.1.example" "$host.1.example" "$host.2.example" > pbs
two PBS PBS_NODEFILE=pbs
two Slurm "SLURM_JOB_NODELIST=$host.[1-2].example"
two LSF "LSB_MCPU_HOSTS=$host.1.example 1 $host.2.example 1"
printf '%s 1 q\n' "$host.1.example" "$host.2.example" > sge
two SGE PE_HOSTFILE=sge
vars=(PBS_NODEFILE=pbs)
expect "two domains" "$host.1.example $host.1.example $host.2.example" run

het=(SLURM_JOB_ID=7 SLURM_HET_SIZE=2 SLURM_JOB_NODELIST_HET_GROUP_0=n24 "SLURM_JOB_NODELIST_HET_GROUP_1=n[25-26]"
    SLURM_TASKS_PER_NODE_HET_GROUP_0=1 "SLURM_TASKS_PER_NODE_HET_GROUP_1=2(x2)")
vars=("${het[@]}"); expect "salloc, two components" "n24 n25 n25 n26 n26" run
vars=("${het[@]}" SLURM_JOB_NODELIST=n24 SLURM_TASKS_PER_NODE=1); expect "sbatch, two components" "n24 n25 n25 n26 n26" run
vars=("${het[@]}" SLURM_HET_SIZE=3); expect "a component is missing" "*SLURM_JOB_NODELIST_HET_GROUP_2 is not set*" run

vars=(A=b)
printf 'head slots=0\nn1 slots = 2\nn2 slots= 1\n' > hosts
expect "slots=0, blanks" "n1 n1 n2" run --hostfile hosts
expect "-H a:0" "n1 n1" run -H head:0,n1:2
expect "slots=0, oversubscribed" "n1 n1 n1" run -np 3 --oversubscribe -H head:0,n1:2
printf '+n0 slots=1\n' > hosts
expect "+n0" "*hosts:1:1: host \"+n0\": Open MPI takes +N *" run --hostfile hosts

head -c 32 /dev/zero | od -An -v -tx1 | tr -d ' \n' > key
chmod 600 key
nodes=(PET_NNODES=2:2 PET_MASTER_ADDR=localhost PET_MASTER_PORT=$((20000 + $$ % 10000)))
env "${nodes[@]}" PET_NODE_RANK=1 ./treerun -np 2 --key-file key --start-timeout 30 \
    sh -c 'echo rank $RANK ${AS:-here}' > node1 2>&1 &
expect "PET_NNODES=2:2" "here here" env "${nodes[@]}" PET_NODE_RANK=0 ./treerun -np 2 --key-file key --start-timeout 30
wait

[ $failed = 0 ] && echo "allocations: all hosts, and no others"
exit $failed
