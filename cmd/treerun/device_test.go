//go:build cgo && linux

package main

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/internal/testutil/fakegpu"
)

// runOnFakeHost runs a job on a fake host, and returns its output.
func runOnFakeHost(t *testing.T, env []string, code int, flags string, program ...string) (stdout, stderr string) {
	t.Helper()
	return startOnFakeHost(t, env, code, append(strings.Fields(flags), program...)...)()
}

// startOnFakeHost starts a job and returns a function that waits for it.
func startOnFakeHost(t *testing.T, env []string, code int, args ...string) (wait func() (stdout, stderr string)) {
	t.Helper()
	testutil.NotUnderRace(t, "the library of the fake GPUs is C")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self, args...)
	c.Args[0] = "treerun" // see TestMain
	// Links are measured with a few megabytes where GPUs have little memory.
	c.Env = append(append(os.Environ(), "TMPDIR="+t.TempDir(), "XDG_CACHE_HOME="+t.TempDir(),
		"TREERUN_FAKE_GPU_MEMORY=100000000"), env...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return func() (string, string) {
		t.Helper()
		_ = c.Wait() // ProcessState holds the exit status
		if got := c.ProcessState.ExitCode(); got != code {
			t.Errorf("treerun %s: exit code %d, want %d\n%s\n%s", strings.Join(args, " "), got, code, &out, &errs)
		}
		return out.String(), errs.String()
	}
}

// Faults of a driver or a GPU are reported, with the rank and the call, and
// the job ends.
func TestDeviceTrouble(t *testing.T) {
	const dense = "allreduce"
	for _, c := range []struct{ env, collective, want string }{
		{"TREERUN_FAKE_GPU_DRIVER=11060", dense, "it supports CUDA 11.6 at most, and CUDA 11.7 is needed (a " +
			"driver from 515 on)"},
		{"TREERUN_FAKE_GPU_NO_MEMOPS=1", dense, "device calls need it: a driver from 515 on (CUDA 11.7)"},
		{"TREERUN_FAKE_GPU_FAIL=cuMemHostRegister:1@1", dense,
			"rank 1: memory that the ranks of this host share: cuMemHostRegister"},
		{"TREERUN_FAKE_GPU_FAIL=cuMemAlloc:5@1", dense, "rank 1: cuMemAlloc of"},
		{"TREERUN_FAKE_GPU_FAIL=cuIpcGetMemHandle:2:999@1", dense, "cuIpcGetMemHandle"},
		{"TREERUN_FAKE_GPU_FAIL=cuIpcOpenMemHandle:3:999@0", dense, "rank 0: staging memory of rank 1: cuIpcOpenMemHandle"},
		{"TREERUN_FAKE_GPU_FAIL=cuLaunchKernel:5:719@1", dense, "cuLaunchKernel"},
		{"TREERUN_FAKE_GPU_FAIL=cuLaunchKernel:10:719@1", "sparse-allreduce --form trees",
			"rank 1 in sparse AllReduceDevice (sum of"},
		{"TREERUN_FAKE_GPU_MEMORY=100000", dense, "out of memory"},
		{"TREERUN_FAKE_GPU_LOST=1@400", dense, "device 1"},
	} {
		t.Run(c.env, func(t *testing.T) {
			t.Parallel()
			_, errs := runOnFakeHost(t, append(fakegpu.Start(t, "dgx1v/0-1"), c.env), 125, deviceCalls+c.collective)
			if !strings.Contains(errs, c.want) {
				t.Errorf("%q is missing in\n%s", c.want, errs)
			}
		})
	}
}

// deviceCalls measures few calls of two ranks; the name of a collective follows.
const deviceCalls = "bench --device cuda -np 2 -v -b 1K -e 64K -f 64 -i 3 -w 1 --collective "

// bench measures device calls and compares every element.
func TestBenchOnGPUs(t *testing.T) {
	t.Parallel()
	out, _ := runOnFakeHost(t, fakegpu.Start(t, "dgx1v/0-3"), 0,
		"bench --device cuda -np 4 --collective all -b 1K -e 64K -f 64 -i 3 -w 1 -d float32,bfloat16 -o sum,avg --inflight "+
			"1,3")
	for _, name := range []string{"allreduce", "reduce", "broadcast", "allgather", "reducescatter", "alltoall", "gather",
		"scatter", "sendrecv", "barrier", "sparse-allreduce"} {
		if !strings.Contains(out, "# Collective test concluded: "+name) {
			t.Errorf("%s is missing in\n%s", name, out)
		}
	}
	if strings.Contains(out, "FAILED") || !strings.Contains(out, "(fake)") {
		t.Errorf("%s", out)
	}
	for _, flags := range []string{"--collective send", "--gpu-bind none"} {
		runOnFakeHost(t, nil, 64, "bench --device cuda "+flags)
	}
	runOnFakeHost(t, nil, 64, "bench --gpus 0")
	_, errs := runOnFakeHost(t, fakegpu.Start(t, "dgx1v/0"), 125, "bench --device cuda -np 1 -b 64M -e 64M")
	if want := "rank 0: buffers of float32: cuMemAlloc of 67108864 bytes"; !strings.Contains(errs, want) {
		t.Errorf("%q is missing in\n%s", want, errs)
	}
	runOnFakeHost(t, nil, 64, "bench --device gpu")
	runOnFakeHost(t, nil, 64, "bench --device cuda --alloc")
}

// The ranks of bench get the GPUs of the command line.
func TestBenchOnChosenGPUs(t *testing.T) {
	t.Parallel()
	env := fakegpu.Start(t, "dgx1v/0-3")
	const short = "bench --device cuda -b 8 -e 8 -i 3 -w 1 -np "
	out, _ := runOnFakeHost(t, env, 0, short+"2 --gpus 2,1")
	if bus := pciAddresses(out); len(bus) != 2 || !(bus[0] > bus[1]) {
		t.Errorf("not GPUs 2 and 1, but %q, in\n%s", bus, out)
	}
	out, _ = runOnFakeHost(t, env, 0, short+"2 --gpus 3 --ranks-per-gpu 2")
	if bus := pciAddresses(out); len(bus) != 2 || bus[0] != bus[1] {
		t.Errorf("not one GPU for both, but %q, in\n%s", bus, out)
	}
	for flags, want := range map[string]string{
		"2 --gpus 9": "no GPU 9",
		"2 --gpus 1": "--ranks-per-gpu 2 lets them share",
	} {
		if _, errs := runOnFakeHost(t, env, 64, short+flags); !strings.Contains(errs, want) {
			t.Errorf("%s: %q is missing in\n%s", flags, want, errs)
		}
	}
}

// pciAddresses returns the PCI addresses in the head of a table, rank by rank.
func pciAddresses(table string) (list []string) {
	for _, m := range regexp.MustCompile(`# +Rank .*\[([0-9a-f:.]+)\]`).FindAllStringSubmatch(table, -1) {
		list = append(list, m[1])
	}
	return list
}
