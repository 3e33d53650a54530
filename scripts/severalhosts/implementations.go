package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/treerun/treerun/internal/testutil/nethosts"
	"github.com/treerun/treerun/scripts/internal/jobs"
)

// job is one run of one implementation's benchmark.
type job struct {
	h     *nethosts.Hosts
	who   string
	group group
	check bool
	cap   float64
	cache string // folder for what treerun keeps
}

// slots returns the hosts with their slots.
func (j *job) slots() string { return jobs.Slots(j.h, j.h.Len(), j.group.perHost) }

func (j *job) np() int { return j.h.Len() * j.group.perHost }

// perf are the options of the kit's benchmarks.
func (j *job) perf() []string {
	g := j.group
	iters := g.iters
	if iters == 0 {
		iters = 200
	}
	args := []string{"-j", "-o", g.ops, "-b", fmt.Sprint(g.begin), "-e", fmt.Sprint(g.end), "-f", fmt.Sprint(g.factor), "-n", fmt.Sprint(iters), "-w", fmt.Sprint(j.warmup())}
	if g.iters == 0 {
		args = append(args, "-T", fmt.Sprint(j.cap))
	}
	if !j.check {
		args = append(args, "-c", "0")
	}
	return args
}

func (j *job) warmup() int {
	if j.group.iters == 0 {
		return 5
	}
	return j.group.warmup
}

// bench are the same for treerun's own, for some operations.
func (j *job) bench(ops, inPlace string) []string {
	g := j.group
	iters, seconds := g.iters, 0.0
	if iters == 0 {
		iters, seconds = 200, j.cap
	}
	check := "0"
	if j.check {
		check = "1"
	}
	return []string{"--collective", ops, "--in-place=" + inPlace, "-b", fmt.Sprint(g.begin), "-e", fmt.Sprint(g.end), "-f", fmt.Sprint(g.factor),
		"-n", strconv.Itoa(iters), "-w", strconv.Itoa(j.warmup()), "--max-seconds", fmt.Sprint(seconds), "-c", check, "--json", "-"}
}

// commands returns what is to be run, one after the other, on host 0.
func (m *measurement) commands(j *job) [][]string {
	if j.who != "treerun" {
		return [][]string{m.peer(j, m.peerProgram(j.who), j.perf())}
	}
	var all [][]string
	for op := range strings.SplitSeq(j.group.ops, ",") {
		// As the peers: MPI_Bcast is always in place.
		inPlace := map[bool]string{true: "yes", false: "no"}[op == "broadcast"]
		all = append(all, append([]string{m.treerun, "bench", "-H", j.slots(), "--launch-agent", j.h.Agent()}, j.bench(op, inPlace)...))
	}
	return all
}

// job returns the command line of treerun without the program.
func (m *measurement) job(j *job) []string {
	return []string{m.treerun, "-H", j.slots(), "--launch-agent", j.h.Agent(), "--tag-output=false", "--timeout", "120"}
}

func (m *measurement) peerProgram(who string) string {
	name, _, _ := strings.Cut(who, ":")
	return filepath.Join(m.peers, "bin", map[string]string{"openmpi": "mpi_perf.openmpi", "mpich": "mpi_perf.mpich", "gloo": "gloo_perf"}[name])
}

// peer returns the command line of a peer.
func (m *measurement) peer(j *job, program string, args []string) []string {
	name, setting, _ := strings.Cut(j.who, ":")
	var line []string
	switch name {
	case "openmpi":
		line = jobs.OpenMPI(j.h, j.slots(), j.np(), setting == "ring")
	case "mpich":
		line = jobs.MPICH(j.h, j.slots(), j.np(), filepath.Join(m.peers, "bin", "mpich_shim.so"))
	case "gloo": // one process per rank, which the shell starts and waits for
		script := `s=$1 n=$2 enter=$3; shift 3; pids=; for r in $(seq 0 $((n - 1))); do sh "$enter" "$(echo "$s" | cut -d, -f$((r + 1)) | cut -d: -f1)" "$@" -r $r -s $n & pids="$pids $!"; done; for p in $pids; do wait $p || exit 1; done`
		store, err := os.MkdirTemp(m.work, "store")
		if err != nil {
			store = m.work // gloo then says what is wrong
		}
		line = []string{"sh", "-c", script, "sh", j.slots(), fmt.Sprint(j.np()), j.h.Enter(), program, "-S", filepath.Join(store, "s"), "-I", j.h.Device(0)}
		if setting != "" {
			line = append(line, "-A", setting)
		}
		return append(line, args...)
	}
	return append(append(line, program), args...)
}

// output runs a command on host 0 and returns its stdout.
func (m *measurement) output(ctx context.Context, j *job, line []string) ([]byte, error) {
	cmd := j.h.Command(0, line[0], line[1:]...)
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+j.cache)
	return jobs.Output(ctx, j.h, jobLimit, cmd)
}

// empty returns the command line of a job that does nothing.
func (m *measurement) empty(j *job) []string {
	if j.who == "treerun" {
		return append(m.job(j), m.hello)
	}
	return m.peer(j, filepath.Join(m.peers, "bin", "mpi_null."+j.who), nil)
}
