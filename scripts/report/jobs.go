//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// run is a measurement: the settings of the command line, and the results.
type run struct {
	treerun, before, program string // executables
	peers                    string // folder of the peers' kit; empty: treerun alone
	about                    string // version of treerun
	sets, args               string // of calls
	quick                    bool
	repeat                   int

	*record
	work string // temporary folder
	rep  int
}

// load describes the measurements of one job of a benchmark.
type load struct {
	ops                string
	begin, end, factor int64
	iters, warmup      int
	seconds            float64 // of timed iterations of a row; 0: no limit
	check              bool    // make one more call, of which every element is compared
	inPlace            string  // in the form of the flag of treerun bench
}

// perf returns the options of the kit's benchmarks.
func (l *load) perf() []string {
	args := []string{"-j", "-o", l.ops, "-b", fmt.Sprint(l.begin), "-e", fmt.Sprint(l.end), "-f", fmt.Sprint(l.factor),
		"-n", fmt.Sprint(l.iters), "-w", fmt.Sprint(l.warmup)}
	if l.seconds > 0 {
		args = append(args, "-T", fmt.Sprint(l.seconds))
	}
	if !l.check {
		args = append(args, "-c", "0")
	}
	if l.inPlace == "yes" && l.ops != "broadcast" { // Broadcast always is
		args = append(args, "-i")
	}
	return args
}

// bench returns the same options for treerun bench, and more.
func (l *load) bench(more ...string) []string {
	check := "0"
	if l.check {
		check = "1"
	}
	return append([]string{"bench", "--collective", l.ops, "--in-place=" + l.inPlace, "-b", fmt.Sprint(l.begin),
		"-e", fmt.Sprint(l.end), "-f", fmt.Sprint(l.factor), "-i", fmt.Sprint(l.iters), "-w", fmt.Sprint(l.warmup),
		"--max-seconds", fmt.Sprint(l.seconds), "-c", check, "--json", "-"}, more...)
}

// ranks returns treerun's arguments for the ranks of a job.
func (s *site) ranks() []string {
	if s.h == nil {
		return []string{"-np", fmt.Sprint(s.np())}
	}
	return []string{"-H", s.h.Slots(s.perHost), "--launch-agent", s.h.Agent()}
}

// gloo starts one process per rank, and waits for them.
const gloo = `s=$1 n=$2 enter=$3; shift 3; pids=; for r in $(seq 0 $((n - 1))); do
sh "$enter" "$(echo "$s" | cut -d, -f$((r + 1)) | cut -d: -f1)" "$@" -r $r -s $n & pids="$pids $!"; done
for p in $pids; do wait $p || exit 1; done`

// settings holds the options of the peers' settings. Release_gather is MPICH's form in shared memory.
var settings = map[string][]string{
	"openmpi:ring":   {"--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm", "4"},
	"openmpi:collsm": {"--mca", "coll_sm_priority", "90"},
	"openmpi:nocma":  {"--mca", "btl_vader_single_copy_mechanism", "none"},
	"openmpi:core":   {"--bind-to", "core:overload-allowed"},
	"mpich:gather": {"-env", "MPIR_CVAR_BARRIER_POSIX_INTRA_ALGORITHM", "release_gather",
		"-env", "MPIR_CVAR_BCAST_POSIX_INTRA_ALGORITHM", "release_gather",
		"-env", "MPIR_CVAR_REDUCE_POSIX_INTRA_ALGORITHM", "release_gather",
		"-env", "MPIR_CVAR_ALLREDUCE_POSIX_INTRA_ALGORITHM", "release_gather"},
}

// peer returns the command line of a program of the peers' kit: perf, null or calls. Between hosts Open MPI runs on
// network 0, with the option to yield the cores, which the hosts share, as it cannot detect that. MPICH never yields a
// core by itself: a library does it.
func (m *run) peer(s *site, who, program string, args []string) []string {
	name, setting, _ := strings.Cut(who, ":")
	bin := func(name string) string { return filepath.Join(m.peers, "bin", name) }
	np, path := fmt.Sprint(s.np()), bin("mpi_"+program+"."+name)
	var line []string
	switch name {
	case "openmpi":
		line = []string{"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", np}
		if s.h != nil {
			line = append(line, "--leave-session-attached", "--host", s.h.Slots(s.perHost), "--mca", "plm_rsh_agent",
				s.h.Shell(), "--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "oob_tcp_if_include", "10.77.0.0/24",
				"--mca", "btl_tcp_if_include", "10.77.0.0/24", "--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp",
				"--mca", "mpi_yield_when_idle", "1")
		}
	case "mpich":
		line = []string{"mpirun.mpich", "-np", np}
		if s.h != nil {
			line = append(line, "-launcher", "ssh", "-launcher-exec", s.h.Shell(), "-iface", s.h.Device(0),
				"-hosts", s.h.Slots(s.perHost), "-env", "UCX_NET_DEVICES", s.h.Device(0))
		}
		if s.h != nil || s.np() > runtime.NumCPU() {
			line = append(line, "-env", "LD_PRELOAD", bin("mpich_shim.so"))
		}
	case "gloo":
		store, err := os.MkdirTemp(m.work, "store")
		if err != nil {
			store = m.work // gloo then reports the error
		}
		line = []string{"sh", "-c", gloo, "sh", s.h.Slots(s.perHost), np, s.h.Enter()}
		path, args = bin("gloo_perf"), append([]string{"-S", filepath.Join(store, "s"), "-I", s.h.Device(0)}, args...)
		if setting != "" {
			args = append(args, "-A", setting)
		}
	}
	return slices.Concat(line, settings[who], []string{path}, args)
}

// jobLimit is the time limit of one job.
const jobLimit = 3 * time.Minute

// output runs a command on host 0, or on this one, with a cache folder for treerun, and returns its stdout. After the
// limit, or when ctx ends, it ends the command's process group and all processes on the hosts.
func (m *run) output(ctx context.Context, s *site, cache string, line ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, jobLimit)
	defer cancel()
	cmd := exec.Command(line[0], line[1:]...)
	if s.h != nil {
		cmd = s.h.Command(0, line[0], line[1:]...)
	}
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(m.work, cache))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		for i := 0; s.h != nil && i < s.h.Len(); i++ {
			_ = s.h.Kill(i)
		}
	})
	err := cmd.Wait()
	stop()
	if err = errors.Join(err, ctx.Err()); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, errs.String())
	}
	return out.Bytes(), nil
}

// job runs a benchmark and records the rows that it prints, with part and implementation.
func (m *run) job(ctx context.Context, s *site, who string, line ...string) error {
	clock := startStopwatch()
	out, err := m.output(ctx, s, "cache-"+s.part, line...)
	if err != nil {
		return err
	}
	away := clock.otherCores()
	all, err := parseRows(out)
	for _, v := range all {
		v.Part, v.Who, v.NP, v.Rep, v.Away = s.part, who, s.np(), m.rep, away
		m.add(v)
	}
	if err == nil {
		fmt.Fprintf(os.Stderr, "%s, %s: %.1f s\n", s.part, who, clock.seconds())
	}
	return err
}

// recordFailure records the failure of a job.
func (m *run) recordFailure(what string, err error) {
	m.fact("failed", "%s: %.300s", what, strings.ReplaceAll(err.Error(), "\n", " "))
	fmt.Fprintf(os.Stderr, "failed: %s: %v\n", what, err)
}

// measure measures at all sites, in the given number of repetitions. If it is interrupted after the first repetition,
// the complete repetitions count.
func (m *run) measure(ctx context.Context, sites []site) error {
	for m.rep = 1; m.rep <= m.repeat; m.rep++ {
		begin := time.Now()
		load, _ := os.ReadFile("/proc/loadavg")
		facts, whole := len(m.Facts), len(m.rows)
		var err error
		for i := 0; i < len(sites) && err == nil; i++ {
			err = m.measureSite(ctx, &sites[i])
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			if ctx.Err() == nil || m.rep == 1 {
				return err
			}
			m.Facts, m.rows = m.Facts[:facts], m.rows[:whole]
			m.fact("stopped", "in repetition %d of %d", m.rep, m.repeat)
			return nil
		}
		m.fact("repetition", "%d: load before %.14s, %.0f s", m.rep, load, time.Since(begin).Seconds())
		fmt.Fprintf(os.Stderr, "repetition %d of %d: %.0f s\n", m.rep, m.repeat, time.Since(begin).Seconds())
	}
	return nil
}

// isPeer reports whether an implementation is one of the kit's.
func isPeer(who string) bool {
	name, _, _ := strings.Cut(who, ":")
	return slices.Contains([]string{"openmpi", "mpich", "gloo"}, name)
}

// order returns the implementations that take part, in this repetition's order.
func (m *run) order(who ...string) []string {
	all := slices.DeleteFunc(slices.Clone(who), func(s string) bool { return m.peers == "" && isPeer(s) })
	if len(all) == 0 {
		return nil
	}
	k := (m.rep - 1) % len(all)
	return append(slices.Clone(all[k:]), all[:k]...)
}
