//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/probe"
)

// topo -np N measures every pair of ranks of this host, even with a cached result, and
// caches the new one.
func TestTopoMeasuresThisHost(t *testing.T) {
	testutil.NotUnderRace(t, "package probe has tests of its own")
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	kept := func() (name string) {
		err := filepath.WalkDir(cache, func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				if name != "" {
					t.Errorf("kept: %s and %s", name, path)
				}
				name = path
			}
			return err
		})
		if err != nil || name == "" {
			t.Fatalf("nothing is kept: %v", err)
		}
		return name
	}
	startTreerun(t, nil, "topo", "-np", "5").checkEnd(0)
	slow := []probe.Pair{{B: 1, GBytesPerSecond: 1}}
	wrong, err := json.Marshal(&probe.Findings{Places: make([]probe.Place, 5), Pairs: slow})
	if err == nil {
		err = os.WriteFile(kept(), wrong, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	l := startTreerun(t, nil, "topo", "-np", "5", "--format", "json")
	l.checkEnd(0)
	g, err := topo.ParseGraph([]byte(strings.Join(l.output, "\n")))
	if err != nil {
		t.Fatalf("%v\n%s", err, &l.stderr)
	}
	if g.Ranks != 5 || len(g.Links) != 10 || l.stderr.Len() > 0 {
		t.Errorf("%d ranks, %d links; stderr %s", g.Ranks, len(g.Links), &l.stderr)
	}
	for _, k := range g.Links {
		if k.Source != topo.Measured || k.LatencyUs <= 0 || k.Kind == "" {
			t.Errorf("link %+v", k)
		}
	}
	var again probe.Findings
	if text, err := os.ReadFile(kept()); err != nil {
		t.Error(err)
	} else if err := json.Unmarshal(text, &again); err != nil || again.Graph().Digest() != g.Digest() {
		t.Errorf("kept is another graph than was shown: %v\n%s", err, text)
	}
}

// A rank that dies while it measures, and a signal, end topo as they end any
// job: with the cause, the code, and nothing left.
func TestTopoFails(t *testing.T) {
	testutil.NotUnderRace(t, "package probe has tests of its own")
	t.Run("a rank is killed", func(t *testing.T) {
		l := startTreerun(t, nil, "topo", "-np", "24")
		if err := syscall.Kill(l.firstRank(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		l.checkEnd(137)
		if text := l.stderr.String(); !strings.Contains(text, "failed first: it was killed by SIGKILL") || len(l.output) > 0 {
			t.Errorf("stderr:\n%s\nstdout: %q", text, l.output)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		l := startTreerun(t, nil, "topo", "-np", "24")
		l.firstRank()
		l.signal(syscall.SIGINT)
		l.checkEnd(130)
		if len(l.output) > 0 {
			t.Errorf("stdout: %q", l.output)
		}
	})
}

// A reader that goes away ends topo as it ends any program: without a message, with 141.
func TestTopoWithoutReader(t *testing.T) {
	testutil.NotUnderRace(t, "package probe has tests of its own")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd := exec.Command(self, "topo", "-np", "2")
	cmd.Args[0] = "treerun" // see TestMain
	cmd.Stdout, cmd.Stderr = w, &stderr
	err = cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != 141 || stderr.Len() > 0 {
		t.Errorf("code %d, %v, stderr %s", code, err, &stderr)
	}
}

// firstRank waits for a rank of the job and returns its process id.
func (l *launched) firstRank() int {
	l.t.Helper()
	for deadline := time.Now().Add(maxWait); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		for _, pid := range processesWith(l.mark) {
			env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)) // it may have ended
			if bytes.Contains(env, []byte("\x00"+job.EnvRank+"=")) {
				return pid
			}
		}
	}
	l.t.Fatal("treerun has started no rank")
	return 0
}
