// Package jobs runs benchmarks of treerun, Open MPI and MPICH on the hosts of
// internal/testutil/nethosts, and reads the rows that they print. Only programs below scripts
// import it.
package jobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/treerun/treerun/internal/testutil/nethosts"
)

// Slots returns the first n hosts with so many slots each, as all launchers take it.
func Slots(h *nethosts.Hosts, n, perHost int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%s:%d", h.Name(i), perHost))
	}
	return strings.Join(all, ",")
}

// OpenMPI returns the command line of Open MPI, without the program: on network 0,
// told to give up the cores, which the hosts share, as it cannot know that. With ring
// AllReduce is always its ring.
func OpenMPI(h *nethosts.Hosts, slots string, np int, ring bool) []string {
	line := []string{"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", fmt.Sprint(np), "--leave-session-attached",
		"--host", slots, "--mca", "plm_rsh_agent", h.Shell(), "--mca", "plm_rsh_no_tree_spawn", "1",
		"--mca", "oob_tcp_if_include", "10.77.0.0/24", "--mca", "btl_tcp_if_include", "10.77.0.0/24",
		"--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp", "--mca", "mpi_yield_when_idle", "1"}
	if ring {
		line = append(line, "--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm", "4")
	}
	return line
}

// MPICH returns the command line of MPICH, without the program. It never gives up a
// core by itself: shim is a library that does it.
func MPICH(h *nethosts.Hosts, slots string, np int, shim string) []string {
	return []string{"mpirun.mpich", "-np", fmt.Sprint(np), "-launcher", "ssh", "-launcher-exec", h.Shell(), "-iface", h.Device(0), "-hosts", slots,
		"-env", "UCX_NET_DEVICES", h.Device(0), "-env", "LD_PRELOAD", shim}
}

// Output runs a command and returns its stdout. After limit, or when ctx ends, it
// ends the command's process group and all that runs on the hosts.
func Output(ctx context.Context, h *nethosts.Hosts, limit time.Duration, cmd *exec.Cmd) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out, told bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &told
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		for i := range h.Len() {
			_ = h.Kill(i)
		}
	})
	err := cmd.Wait()
	stop()
	if err = errors.Join(err, ctx.Err()); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, told.String())
	}
	return out.Bytes(), nil
}
