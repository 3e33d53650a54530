//go:build linux

package main

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/internal/testutil/fakegpu"
	"github.com/treerun/treerun/topo"
)

// runOnGPUs starts treerun on a fake host, with a cache of its own.
func runOnGPUs(t *testing.T, env []string, args ...string) *launched {
	t.Helper()
	testutil.NotUnderRace(t, "the library of the fake GPUs is C")
	cache := t.TempDir()
	addEnv := func(cmd *exec.Cmd) { cmd.Env = append(append(cmd.Env, env...), "XDG_CACHE_HOME="+cache) }
	return startTreerun(t, addEnv, args...)
}

// sorted returns the lines that a job has printed, in order.
func (l *launched) sorted() []string {
	list := slices.Clone(l.output)
	slices.Sort(list)
	return list
}

// TestRanksGetGPUs: one each, as many ranks as GPUs, in the order of NUMA nodes and
// PCI addresses; shared, chosen, isolated or none with the flags for it.
func TestRanksGetGPUs(t *testing.T) {
	env := fakegpu.Start(t, "dgx1v")
	const show = `echo "$RANK ${TREERUN_DEVICE:-none} ${CUDA_VISIBLE_DEVICES-all}"`
	l := runOnGPUs(t, env, "--tag-output=false", "sh", "-c", show)
	l.checkEnd(0)
	all := make(map[string]string) // by rank: its GPU
	for _, line := range l.output {
		f := strings.Fields(line)
		if len(f) != 3 || !strings.HasPrefix(f[1], "GPU-") || f[2] != "all" {
			t.Errorf("line %q", line)
			continue
		}
		all[f[0]] = f[1]
	}
	if different := slices.Compact(slices.Sorted(slices.Values(valuesOf(all)))); len(all) != 8 || len(different) != 8 {
		t.Fatalf("%d ranks on %d GPUs:\n%s", len(all), len(different), strings.Join(l.sorted(), "\n"))
	}
	for _, c := range []struct {
		args string
		want string // of the highest rank
	}{
		{"-np 3", "2 " + all["2"] + " all"},
		{"-np 6 --ranks-per-gpu 2", "5 " + all["2"] + " all"},
		{"-np 2 --gpus 6,3", "1 " + all["3"] + " " + all["6"] + "," + all["3"]},
		{"--gpus 1-2", "1 " + all["2"] + " " + all["1"] + "," + all["2"]},
		{"-np 2 --gpu-bind isolate", "1 " + all["1"] + " " + all["1"]},
		{"-np 2 --gpu-bind none", "1 none all"},
		{"-np 9", "8 none all"},
	} {
		l := runOnGPUs(t, env, append(strings.Fields(c.args), "--tag-output=false", "sh", "-c", show)...)
		l.checkEnd(0)
		if list := l.sorted(); len(list) == 0 || list[len(list)-1] != c.want {
			t.Errorf("%s: %q, want %q last", c.args, list, c.want)
		}
		if noted := strings.Contains(l.stderr.String(),
			"9 ranks and 8 GPUs: --ranks-per-gpu 2 lets them share"); noted != (c.args == "-np 9") {
			t.Errorf("%s: stderr %s", c.args, &l.stderr)
		}
	}
	for args, want := range map[string]string{
		"--gpu-bind none": "2 none all", "--gpus 5 --gpu-bind isolate": "2 " + all["5"] + " " + all["5"]} {
		part := append(strings.Fields(": -np 1 "+args), "sh", "-c", show)
		l := runOnGPUs(t, env, append(strings.Fields("-np 2 --tag-output=false --gpus 6,3 sh -c"), append([]string{show},
			part...)...)...)
		l.checkEnd(0)
		if list := l.sorted(); len(list) != 3 || list[2] != want || !strings.HasPrefix(list[1], "1 "+all["3"]) {
			t.Errorf("a program with %s: %q, want %q last", args, list, want)
		}
	}
	l = runOnGPUs(t, env, "-np", "1", "true", ":", "-np", "1", "--gpus", "0", "true")
	l.checkEnd(64)
	if !strings.Contains(l.stderr.String(), "rank 1 gets GPU 0 (") {
		t.Errorf("stderr %s", &l.stderr)
	}
	l = runOnGPUs(t, env, "-np", "9", "--ranks-per-gpu", "1", "true")
	l.checkEnd(64)
	if !strings.Contains(l.stderr.String(), "--ranks-per-gpu 2 lets them share") {
		t.Errorf("stderr %s", &l.stderr)
	}
	l = runOnGPUs(t, env, "-np", "2", "-v", "true")
	l.checkEnd(0)
	if text := l.stderr.String(); !strings.Contains(text, "rank 1: GPU 1 (") || !strings.Contains(text, all["1"]) ||
		!strings.Contains(text, "core") {
		t.Errorf("-v says\n%s", text)
	}
}

func valuesOf(m map[string]string) (list []string) {
	for _, v := range m {
		list = append(list, v)
	}
	return list
}

// TestTopoMeasuresGPUs: ranks in processes of their own measure over CUDA IPC the links
// that NVML has declared, and both are shown.
func TestTopoMeasuresGPUs(t *testing.T) {
	t.Parallel()
	env := fakegpu.Start(t, "dgx1v")
	l := runOnGPUs(t, env, "topo", "-np", "4", "--format", "json")
	l.checkEnd(0)
	g, err := topo.ParseGraph([]byte(strings.Join(l.output, "\n")))
	if err != nil {
		t.Fatalf("%v\n%s", err, &l.stderr)
	}
	want, _ := topo.Machine("dgx1v")
	for _, w := range want.Links {
		if w.B >= 4 {
			continue
		}
		i := slices.IndexFunc(g.Links, func(k topo.Link) bool { return k.A == w.A && k.B == w.B })
		if i < 0 || g.Links[i].Source != topo.Measured || g.Links[i].Declared != w.GBytesPerSecond ||
			g.Links[i].Kind != "nvlink" {
			t.Errorf("link %d-%d of %v", w.A, w.B, g)
		}
	}
	l = runOnGPUs(t, append(env, "TREERUN_FAKE_GPU_BROKEN=0-3"), "topo", "-np", "4")
	l.checkEnd(0)
	text := strings.Join(l.output, "\n")
	for _, want := range []string{"declared, where it was measured", "rank 3: GPU 3 (",
		"the link of ranks 0 and 3 (", "is not used: ", "ACS or an IOMMU"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	l = runOnGPUs(t, env, "topo", "-np", "2", "--gpu-bind", "none")
	l.checkEnd(0)
	if text := strings.Join(l.output, "\n"); strings.Contains(text, "GPU") ||
		!strings.Contains(text, "measured: 2 ranks, 1 link\n") {
		t.Errorf("without GPUs:\n%s", text)
	}
}

// TestCheck: a line for each thing, and an exit code that is 1 if one of them is wrong.
func TestCheck(t *testing.T) {
	env := fakegpu.Start(t, "dgx1v/0-3")
	for _, c := range []struct {
		name string
		vars []string
		code int
		want []string
	}{
		{"all well", nil, 0, []string{"ok     driver", "ok     nvml", "ok     gpu 3", "ok     peers",
			"ok     ipc            4 processes", "ok     locked memory", "cores", "network"}},
		{"a link that is wrong", []string{"TREERUN_FAKE_GPU_BROKEN=1-2"}, 1,
			[]string{"WRONG  peers", "1 should, and transfer wrong data or hang", "ranks 1 and 2", "ok     ipc"}},
		{"a link that hangs", []string{"TREERUN_FAKE_GPU_BROKEN=1-2:hang"}, 1,
			[]string{"WRONG  peers", "does not end within"}},
		{"no permission", []string{"TREERUN_FAKE_GPU_NO_PERMISSION=1"}, 1,
			[]string{"WRONG  driver", "WRONG  nvml", "/dev/nvidiactl"}},
		{"no stream memory operations", []string{"TREERUN_FAKE_GPU_NO_MEMOPS=1"}, 1,
			[]string{"WRONG  gpu 0", "CUDA_ERROR_NOT_SUPPORTED", "a driver from 515 on"}},
		{"hidden", []string{"CUDA_VISIBLE_DEVICES=0,1"}, 1, []string{"ok     gpu 1", "WRONG  gpu 2", "CUDA_VISIBLE_DEVICES"}},
		{"one GPU", []string{"CUDA_VISIBLE_DEVICES=2"}, 1, []string{"ok     ipc            2 processes"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := runOnGPUs(t, append(slices.Clone(env), c.vars...), "check")
			l.checkEnd(c.code)
			text := strings.Join(l.output, "\n")
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in\n%s\nstderr:\n%s", want, text, &l.stderr)
				}
			}
		})
	}
}

// TestCheckGPUsOfHosts: the lines of several hosts about GPUs omit the parts of one host, and show faulty links.
func TestCheckGPUsOfHosts(t *testing.T) {
	testutil.NotUnderRace(t, "the library of the fake GPUs is C")
	env := fakegpu.Start(t, "dgx1v/0-3")
	named := namedTreerun(t)
	for broken, want := range map[string][]string{
		"": {"ok     hosts          2 of 2 answer", "ok     driver         CUDA ", "ok     gpu 3          Tesla",
			"ok     ipc            4 processes", "ok     tcp"},
		"1-2": {"ok     hosts          2 of 2 answer", "ok     gpu 3          Tesla", "WRONG  peers          6 pairs",
			"note   link           the link of ranks 1 and 2 ("},
	} {
		l := startTreerun(t, func(cmd *exec.Cmd) {
			cmd.Path = named
			cmd.Env = append(append(cmd.Env, env...), "TREERUN_FAKE_GPU_BROKEN="+broken, "XDG_CACHE_HOME="+t.TempDir())
		}, "check", "-H", "a:2,b:2", "--launch-agent", hostAgent)
		l.checkEnd(len(broken) / 3) // 1 where a link is
		text := strings.Join(l.output, "\n")
		for _, line := range want {
			if !strings.Contains(text, line) || strings.Contains(text, "GPU-") == (broken == "") {
				t.Errorf("no %q, or names of GPUs, in\n%s\nstderr:\n%s", line, text, &l.stderr)
			}
		}
	}
}

// A host without a GPU is no fault, and check prints a line about it.
func TestCheckWithoutGPU(t *testing.T) {
	testutil.NotUnderRace(t, "the library of the fake GPUs is C")
	noGPUs := func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH=", "CUDA_VISIBLE_DEVICES=") }
	l := startTreerun(t, noGPUs, "check")
	l.checkExit(0)
	if text := strings.Join(l.output, "\n"); !strings.Contains(text, "none   gpu") ||
		!strings.Contains(text, "ok     shared memory") {
		t.Errorf("%s", text)
	}
	for code, args := range map[int][]string{64: {"check", "x"}, 0: {"check", "--help"}} {
		l := startTreerun(t, nil, args...)
		l.checkEnd(code)
		if code == 0 && !strings.Contains(strings.Join(l.output, "\n"), "WRONG  jobs fail") {
			t.Error(fmt.Sprint(l.output))
		}
	}
}

// Agents assign GPUs to the ranks of their hosts, and print them with -v; hosts that are
// one machine take different ones.
func TestHostsGiveGPUs(t *testing.T) {
	testutil.NotUnderRace(t, "the library of the fake GPUs is C")
	for _, e := range fakegpu.Start(t, "dgx1v") {
		name, value, _ := strings.Cut(e, "=")
		t.Setenv(name, value)
	}
	l := launchHosts(t, "-H", "a:2,b:2", "-v", "--tag-output=false", "sh", "-c", `echo "$FAKEHOST $TREERUN_DEVICE"`)
	l.checkEnd(0)
	all := l.sorted()
	if len(all) != 4 || len(slices.Compact(slices.Clone(all))) != 4 || !strings.HasPrefix(all[3], "b GPU-") {
		t.Fatalf("%q\n%s", all, &l.stderr)
	}
	if job.MachineID(job.UsableCores()) != "" { // else it is not known that a and b are one
		if all[0][2:] == all[2][2:] || all[1][2:] == all[3][2:] {
			t.Errorf("hosts that are one machine share GPUs: %q", all)
		}
	}
	if text := l.stderr.String(); !strings.Contains(text, "b: rank 3: GPU ") {
		t.Errorf("-v says\n%s", text)
	}
	l = launchHosts(t, "-H", "a:1,b:1", "--gpus", "77", "true")
	l.checkExit(64)
	if text := l.stderr.String(); !strings.Contains(text, "this host has no GPU 77: it has 8 GPUs") {
		t.Errorf("%s", text)
	}
}
