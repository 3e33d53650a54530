//go:build linux

package main

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
)

// builds are the programs that tests have built, each once, by package.
var builds struct {
	sync.Mutex
	dir   string
	files map[string]string
}

// processTests are tests of processes. The programs they have built are removed when all have ended.
type processTests struct{ *testing.M }

func (m processTests) Run() int {
	testutil.Waiting()
	defer func() {
		if builds.dir != "" {
			os.RemoveAll(builds.dir)
		}
	}()
	if signal.Ignored(syscall.SIGINT) { // the tests run behind & in a script, and their processes would ignore it
		signal.Notify(make(chan os.Signal, 1), syscall.SIGINT)
	}
	return m.M.Run()
}

// build puts the program of a package into a file, which other users may run, too. Every
// caller has its own name for the file: tests find their processes by it.
func build(t *testing.T, pkg, file string) {
	t.Helper()
	builds.Lock()
	defer builds.Unlock()
	from := builds.files[pkg]
	if from == "" {
		if builds.dir == "" {
			dir, err := os.MkdirTemp("", "treerun-builds-")
			if err != nil {
				t.Fatal(err)
			}
			builds.dir, builds.files = dir, make(map[string]string)
		}
		from = filepath.Join(builds.dir, filepath.Base(file))
		if err := testutil.Build(pkg, from); err != nil {
			t.Fatal(err)
		}
		builds.files[pkg] = from
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(from, file); err != nil {
		t.Fatal(err)
	}
}

// installLooper puts a looper next to a program that was built into this folder: tests find its processes by it.
func installLooper(t *testing.T, dir string) (file string) {
	t.Helper()
	return install(t, dir, "looper")
}

// install puts the test binary, under the name of one of its programs, into a folder.
func install(t *testing.T, dir, name string) (file string) {
	t.Helper()
	file = filepath.Join(dir, name)
	self, err := exec.LookPath(name)
	if err == nil {
		err = os.Link(self, file)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// chaosBinaries returns a real treerun, which a test binary is not, and a looper.
func chaosBinaries(t *testing.T) (launcher, looper string) {
	t.Helper()
	dir := t.TempDir()
	launcher = filepath.Join(dir, "treerun")
	build(t, ".", launcher)
	return launcher, installLooper(t, dir)
}
