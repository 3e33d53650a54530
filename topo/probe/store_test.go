package probe

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

func smallGraph(gbytes float64) []Pair {
	return []Pair{{A: 0, B: 1, LatencyUs: 1, GBytesPerSecond: gbytes}}
}

// TestMain: with TREERUN_TEST_STORE=FILE the test binary stores graphs in that
// file until it is killed; with TREERUN_TEST_HOST it measures as one host.
func TestMain(m *testing.M) {
	if file := os.Getenv("TREERUN_TEST_STORE"); file != "" {
		os.Stdout.WriteString("storing\n")
		for i := 1.0; ; i++ {
			if err := (Cache{}).Store(file, Graph(2, smallGraph(i))); err != nil {
				os.Stdout.WriteString(err.Error())
				os.Exit(1)
			}
		}
	}
	if job := os.Getenv("TREERUN_TEST_HOST"); job != "" {
		if err := runHost(job); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// unnamed tells whether files without a name can be had here.
func unnamed(t *testing.T) bool {
	t.Helper()
	err := storeUnnamed(filepath.Join(t.TempDir(), "probe"), nil)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		t.Fatal(err)
	}
	return err == nil
}

// A process that is killed while it stores leaves a whole graph or none, and
// nothing else.
func TestKilledWhileStoring(t *testing.T) {
	hidden := unnamed(t)
	for i := range 20 {
		dir := t.TempDir()
		file := filepath.Join(dir, "graph.json")
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "TREERUN_TEST_STORE="+file)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		out.Read(make([]byte, 8)) // it stores
		time.Sleep(time.Duration(i) * 300 * time.Microsecond)
		cmd.Process.Kill()
		cmd.Wait() // killed
		left, err := filepath.Glob(filepath.Join(dir, "*"))
		more, err2 := filepath.Glob(filepath.Join(dir, ".*"))
		if err = errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		if len(left) > 1 || hidden && len(more) > 0 {
			t.Fatalf("left behind: %v %v", left, more)
		}
		if _, err := (Cache{}).Load(file, 2); err != nil {
			t.Fatal(err)
		}
	}
}

// Where temporary files need names, what a killed process has left is removed
// once it is old, and not before.
func TestStaleFiles(t *testing.T) {
	dir := t.TempDir()
	old, young, other := filepath.Join(dir, temporary+"1"), filepath.Join(dir, temporary+"2"), filepath.Join(dir, "graph")
	for _, name := range []string{old, young, other} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-2 * staleAfter)
	for _, name := range []string{old, other} {
		if err := os.Chtimes(name, past, past); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "file")
	for _, text := range []string{"first", "second"} {
		if err := storeNamed(file, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, []byte(text)) {
			t.Fatalf("%q, %v, want %q", got, err, text)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Errorf("%v, %v; want the young one, the other's and the file", entries, err)
	}
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old temporary file is still there: %v", err)
	}
}

// Jobs that store at the same time: all succeed, and one whole graph remains.
func TestStoreTogether(t *testing.T) {
	file := filepath.Join(t.TempDir(), "deep", "graph.json")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 50 {
				if err := (Cache{}).Store(file, Graph(2, smallGraph(float64(i+1)))); err != nil {
					t.Error(err)
				}
				if _, err := (Cache{}).Load(file, 2); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if g, err := (Cache{}).Load(file, 2); g == nil || err != nil {
		t.Errorf("%v, %v, want a graph", g, err)
	}
	entries, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v, want one file", entries, err)
	}
}
