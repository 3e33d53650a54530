//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

// TestWindows: programs for Windows print under Wine the same as those for Linux: a job of one rank, a job whose ranks
// are goroutines, and the commands that need no job. A job of several ranks is an error that names Linux.
func TestWindows(t *testing.T) {
	testutil.NotUnderRace(t, "the programs are built without the detector")
	t.Parallel()
	wine := newWine(t)
	folder := t.TempDir()
	for _, system := range []string{"linux", "windows"} {
		build := exec.Command("go", "build", "-o", filepath.Join(folder, system)+"/", ".", "./testdata/alone")
		build.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("go build for %s: %v\n%s", system, err, out)
		}
	}
	graph := filepath.Join(folder, "graph.json")
	linux := func(args ...string) *exec.Cmd {
		return exec.Command(filepath.Join(folder, "linux", args[0]), args[1:]...)
	}
	windows := func(args ...string) *exec.Cmd {
		return wine.command(append([]string{filepath.Join(folder, "windows", args[0]+".exe")}, args[1:]...)...)
	}
	text, err := linux("treerun", "topo", "--graph", "dgx1v", "--format", "json").Output()
	if err == nil {
		err = os.WriteFile(graph, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"alone", "treerun topo --graph dgx1v", "treerun plan --graph " + graph, "treerun plan --help",
		"treerun sim --graph dgx1v", "treerun completion bash",
	} {
		want, err := linux(strings.Fields(line)...).Output()
		if err != nil || len(want) == 0 {
			t.Fatalf("%s prints %d bytes: %v", line, len(want), err)
		}
		got, err := windows(strings.Fields(line)...).Output()
		if err != nil || string(got) != string(want) {
			t.Errorf("%s: %v\n%s\nwant\n%s", line, err, got, want)
		}
	}
	two := windows("alone")
	two.Env = append(two.Env, "RANK=0", "WORLD_SIZE=2")
	for _, c := range []struct {
		command *exec.Cmd
		want    string
	}{
		{two, "rank: Init: environment of torchrun: jobs of several ranks need Linux"},
		{windows("treerun", "-np", "2", "./alone"), "treerun: starting a job needs Linux (hint: a Linux container"},
		{windows("treerun", "-np", "1", "--dry-run", "./alone"), "treerun: starting a job needs Linux (hint: "},
		{windows("treerun", "status"), "treerun: status needs Linux (hint: "},
		{windows("treerun", "topo"), "treerun: links are measured on Linux only (hint: --graph"},
	} {
		_, err := c.command.Output()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || !strings.Contains(string(exit.Stderr), c.want) ||
			strings.Count(string(exit.Stderr), "\n") != 1 {
			t.Errorf("%v: %v\n%s\nwant a line with %q", c.command.Args, err, stderrOf(exit), c.want)
		}
	}
}

func stderrOf(e *exec.ExitError) []byte {
	if e == nil {
		return nil
	}
	return e.Stderr
}

// wine runs programs for Windows.
type wine struct {
	t      *testing.T
	path   string
	folder string // its home
}

// newWine returns a Wine with a folder of its own. Debian's has no bcryptprimitives.dll, without which no program of Go
// starts: here it is a DLL that forwards the one function to the same one of another DLL.
func newWine(t *testing.T) *wine {
	const debian = "/usr/lib/wine/"
	w := &wine{t: t, folder: t.TempDir()}
	server, err := exec.LookPath(debian + "wineserver")
	if err == nil {
		w.path, err = exec.LookPath(debian + "wine64")
	}
	testutil.Need(t, testutil.Wine, err)
	system := filepath.Join(w.folder, "prefix/drive_c/windows/system32")
	exports := filepath.Join(w.folder, "bcryptprimitives.def")
	if err := errors.Join(os.MkdirAll(system, 0o700),
		os.WriteFile(exports, []byte("EXPORTS ProcessPrng = advapi32.SystemFunction036\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	dll := filepath.Join(system, "bcryptprimitives.dll")
	if out, err := exec.Command("ld", "-m", "i386pep", "-shared", "-o", dll, exports).CombinedOutput(); err != nil {
		t.Fatalf("ld: %v\n%s", err, out)
	}
	t.Cleanup(func() { // its processes would stay for some seconds
		for _, flag := range []string{"-k", "-w"} {
			end := exec.Command(server, flag)
			end.Env = w.environment()
			if out, err := end.CombinedOutput(); err != nil && flag == "-w" {
				t.Errorf("wineserver %s: %v\n%s", flag, err, out)
			}
		}
	})
	if out, err := w.command("wineboot").CombinedOutput(); err != nil {
		t.Fatalf("wineboot: %v\n%s", err, out)
	}
	return w
}

func (w *wine) environment() []string {
	return append(os.Environ(), "HOME="+w.folder, "WINEPREFIX="+filepath.Join(w.folder, "prefix"), "TMPDIR="+w.folder,
		"WINEDEBUG=-all", "WINEDLLOVERRIDES=mscoree,mshtml=") // the server may leave its folder in TMPDIR
}

// command returns a program for Windows, which has five minutes.
func (w *wine) command(args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Minute)
	w.t.Cleanup(cancel)
	c := exec.CommandContext(ctx, w.path, args...)
	c.Env = w.environment()
	return c
}
