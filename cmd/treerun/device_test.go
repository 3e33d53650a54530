//go:build cgo

package main

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/internal/testutil/fakegpu"
)

// gpucheck builds the program whose ranks make device calls, for the length of a
// test, and returns its file.
func gpucheck(t *testing.T) string {
	t.Helper()
	testutil.Need(t, testutil.Compilers, fakegpu.Missing())
	return builtIn(t, "../../scripts/gpucheck", "gpucheck")
}

// onFakeHost runs a job on a fake host, and returns what it printed.
func onFakeHost(t *testing.T, env []string, code int, flags string, program ...string) (stdout, stderr string) {
	t.Helper()
	return startOnFakeHost(t, env, code, append(strings.Fields(flags), program...)...)()
}

// startOnFakeHost starts a job and returns what waits for it.
func startOnFakeHost(t *testing.T, env []string, code int, args ...string) (wait func() (stdout, stderr string)) {
	t.Helper()
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
		_ = c.Wait() // the state says how it ended
		if got := c.ProcessState.ExitCode(); got != code {
			t.Errorf("treerun %s: exit code %d, want %d\n%s\n%s", strings.Join(args, " "), got, code, &out, &errs)
		}
		return out.String(), errs.String()
	}
}

// Every kind of device call, with every type, operation and count, is right: a
// sample of them on a DGX-1V, with two ranks on each GPU, with a peer link that is
// broken, and on two hosts.
func TestDeviceCallsOfProcesses(t *testing.T) {
	program := gpucheck(t)
	sample := strconv.Itoa(testutil.Count(12, 40))
	for name, w := range map[string]struct {
		graph, flags string
		env          string
		says         string // with -v
	}{
		"dgx1v":       {"dgx1v", "-np 8", "TREERUN_FAKE_GPU_JITTER=20:1", "devices of 8 ranks"},
		"two a GPU":   {"dgx1v/0-3", "-np 8 --ranks-per-gpu 2", "TREERUN_FAKE_GPU_JITTER=20:2", "devices of 8 ranks"},
		"broken link": {"dgx1v/0-3", "-np 4", "TREERUN_FAKE_GPU_BROKEN=0-3", "does not read that of rank"},
	} {
		t.Run(name, func(t *testing.T) {
			out, errs := onFakeHost(t, append(fakegpu.Start(t, w.graph), w.env), 0, w.flags+" -v", program, "rank", "matrix",
				"--sample", sample, "--seed", "7")
			if !strings.Contains(out, sample+" calls are right") || !strings.Contains(errs, w.says) {
				t.Errorf("%s\n%s", out, errs)
			}
		})
	}
	t.Run("two hosts", func(t *testing.T) {
		here, there := fakegpu.Start(t, "dgx1v/0-3"), fakegpu.Start(t, "dgx1v/4-7")
		// Ranks have the environment of the first treerun, also those of the other.
		script := "test $RANK -lt 4 || export " + there[0] + "; exec " + program + " rank matrix --seed 9 --sample " + sample
		nodes := newNodes(t, 2)
		flags := func(i int) []string {
			return []string{"--nnodes", "2", "--node-rank", strconv.Itoa(i), "--seed", nodes.seed, "--key-file", nodes.key,
				"--ppn", "4", "sh", "-c", script}
		}
		first, second := startOnFakeHost(t, here, 0, flags(0)...), startOnFakeHost(t, there, 0, flags(1)...)
		out, errs := first()
		second()
		if !strings.Contains(out, sample+" calls are right on 8 ranks") {
			t.Errorf("%s\n%s", out, errs)
		}
	})
}

// So is every sparse call, and where a GPU fails in one it is said.
func TestDeviceSparseCallsOfProcesses(t *testing.T) {
	program := gpucheck(t)
	out, _ := onFakeHost(t, append(fakegpu.Start(t, "dgx1v/0-3"), "TREERUN_FAKE_GPU_JITTER=10:4"), 0, "-np 4", program,
		"rank", "sparse")
	if !strings.Contains(out, "144 sparse calls are right on 4 ranks") {
		t.Error(out)
	}
	_, errs := onFakeHost(t, append(fakegpu.Start(t, "dgx1v/0-2"), "TREERUN_FAKE_GPU_FAIL=cuLaunchKernel:8:719@1"), 1,
		"-np 3", program, "rank", "sparse")
	for _, want := range []string{"rank 1 in sparse AllReduceDevice (sum of", "cuLaunchKernel", "rank 0: ", "rank 2: "} {
		if !strings.Contains(errs, want) {
			t.Errorf("%q is missing in\n%s", want, errs)
		}
	}
}

// A rank that is killed in the middle of AllReduces ends the others' calls and
// streams; each hears of it by itself.
func TestDeviceRankKilled(t *testing.T) {
	program := gpucheck(t)
	for name, w := range map[string]struct{ flags, after, calls string }{
		"8 ranks":   {"-np 8", "150ms", "--sparse=false"},
		"two a GPU": {"-np 4 --gpus 0,1 --ranks-per-gpu 2", "40ms", "--sparse=false"},
		"sparse":    {"-np 4", "60ms", "--sparse"},
	} {
		t.Run(name, func(t *testing.T) {
			out, _ := onFakeHost(t, fakegpu.Start(t, "dgx1v"), 137, w.flags, program, "rank", "loop", "--victim", "1", "--after",
				w.after, "--bytes", "300000", w.calls)
			killed, ended := stampsOf(t, out, `killed at (\d+)`), stampsOf(t, out, `ended at (\d+)`)
			np, _ := strconv.Atoi(strings.Fields(w.flags)[1])
			if len(killed) != 1 || len(ended) != np-1 {
				t.Fatalf("%d killed, %d of %d others ended:\n%s", len(killed), len(ended), np-1, out)
			}
			for _, at := range ended {
				if late := time.Duration(at - killed[0]); late > patience/2 { // a second, on a machine with nothing else to do
					t.Errorf("a rank ended %v after the kill", late)
				}
			}
		})
	}
}

func stampsOf(t *testing.T, text, pattern string) []int64 {
	t.Helper()
	var all []int64
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseInt(m[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}

// A rank that makes another device call than the others is named to all.
func TestDeviceMismatch(t *testing.T) {
	out, _ := onFakeHost(t, fakegpu.Start(t, "dgx1v"), 0, "-np 4", gpucheck(t), "rank", "odd")
	if n := strings.Count(out, "BroadcastDevice #"); n < 4 || strings.Count(out, "heard after") != 4 {
		t.Errorf("4 ranks heard:\n%s", out)
	}
}

// What is wrong with a driver or a GPU is said, with the rank and the call, and
// the job ends.
func TestDeviceTrouble(t *testing.T) {
	program := gpucheck(t)
	for env, want := range map[string]string{
		"TREERUN_FAKE_GPU_DRIVER=11060": "it supports CUDA 11.6 at most, and CUDA 11.7 is needed (a " +
			"driver from 515 on)",
		"TREERUN_FAKE_GPU_NO_MEMOPS=1":                     "device calls need it: a driver from 515 on (CUDA 11.7)",
		"TREERUN_FAKE_GPU_FAIL=cuMemHostRegister:1@1":      "rank 1: cuMemHostRegister",
		"TREERUN_FAKE_GPU_FAIL=cuMemAlloc:5@1":             "rank 1: cuMemAlloc",
		"TREERUN_FAKE_GPU_FAIL=cuIpcGetMemHandle:2:999@1":  "cuIpcGetMemHandle",
		"TREERUN_FAKE_GPU_FAIL=cuIpcOpenMemHandle:3:999@0": "rank 0: staging memory of rank 1: cuIpcOpenMemHandle",
		"TREERUN_FAKE_GPU_FAIL=cuLaunchKernel:5:719@1":     "cuLaunchKernel",
		"TREERUN_FAKE_GPU_MEMORY=100000":                   "out of memory",
		"TREERUN_FAKE_GPU_LOST=1@400":                      "device 1",
	} {
		t.Run(env, func(t *testing.T) {
			_, errs := onFakeHost(t, append(fakegpu.Start(t, "dgx1v/0-1"), env), 1, "-np 2", program, "rank", "matrix",
				"--sample", "20")
			if !strings.Contains(errs, want) {
				t.Errorf("%q is missing in\n%s", want, errs)
			}
		})
	}
}

// bench measures device calls and compares every element.
func TestBenchOnGPUs(t *testing.T) {
	out, _ := onFakeHost(t, fakegpu.Start(t, "dgx1v/0-3"), 0,
		"bench --device cuda -np 4 --collective all -b 1K -e 64K -f 64 -n 3 -w 1 -d float32,bfloat16 -o sum,avg --inflight "+
			"1,3")
	for _, name := range []string{"allreduce", "reduce", "broadcast", "allgather", "reducescatter", "barrier",
		"sparse-allreduce"} {
		if !strings.Contains(out, "# Collective test concluded: "+name) {
			t.Errorf("%s is missing in\n%s", name, out)
		}
	}
	if strings.Contains(out, "FAILED") || strings.Contains(out, "alltoall") || !strings.Contains(out, "(fake)") {
		t.Errorf("%s", out)
	}
	for _, flags := range []string{"--collective alltoall", "--gpu-bind none"} {
		onFakeHost(t, nil, 64, "bench --device cuda "+flags)
	}
	onFakeHost(t, nil, 64, "bench --gpus 0")
	_, errs := onFakeHost(t, fakegpu.Start(t, "dgx1v/0"), 125, "bench --device cuda -np 1 -b 64M -e 64M")
	if want := "rank 0: buffers of float32: cuMemAlloc of 67108864 bytes"; !strings.Contains(errs, want) {
		t.Errorf("%q is missing in\n%s", want, errs)
	}
	onFakeHost(t, nil, 64, "bench --device gpu")
	onFakeHost(t, nil, 64, "bench --device cuda --alloc")
}

// The ranks of bench get the GPUs that the command line says.
func TestBenchOnChosenGPUs(t *testing.T) {
	env := fakegpu.Start(t, "dgx1v/0-3")
	const short = "bench --device cuda -b 8 -e 8 -n 3 -w 1 -np "
	out, _ := onFakeHost(t, env, 0, short+"2 --gpus 2,1")
	if bus := busesOf(out); len(bus) != 2 || !(bus[0] > bus[1]) {
		t.Errorf("not GPUs 2 and 1, but %q, in\n%s", bus, out)
	}
	out, _ = onFakeHost(t, env, 0, short+"2 --gpus 3 --ranks-per-gpu 2")
	if bus := busesOf(out); len(bus) != 2 || bus[0] != bus[1] {
		t.Errorf("not one GPU for both, but %q, in\n%s", bus, out)
	}
	for flags, want := range map[string]string{
		"2 --gpus 9": "no GPU 9",
		"2 --gpus 1": "--ranks-per-gpu 2 lets them share",
	} {
		if _, errs := onFakeHost(t, env, 64, short+flags); !strings.Contains(errs, want) {
			t.Errorf("%s: %q is missing in\n%s", flags, want, errs)
		}
	}
}

// busesOf returns the PCI addresses in the head of a table, rank by rank.
func busesOf(table string) (list []string) {
	for _, m := range regexp.MustCompile(`# +Rank .*\[([0-9a-f:.]+)\]`).FindAllStringSubmatch(table, -1) {
		list = append(list, m[1])
	}
	return list
}
