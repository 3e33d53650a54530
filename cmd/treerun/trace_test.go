//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/rank"
)

// tracer is a rank whose calls and phases are recorded. Rank 1 is late for its last call. With the argument kill rank 2
// kills itself after its calls, while others wait for it.
func tracer() {
	ctx := context.Background()
	w, err := rank.Init(ctx)
	if err == nil {
		err = traced(ctx, w)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(3)
	}
}

func traced(ctx context.Context, w *rank.World) error {
	c, err := collective.New(ctx, w)
	if err != nil {
		return err
	}
	buf := make([]float32, 1<<18)
	small := buf[:2]
	end := rank.Span(w, "train")
	for range 5 {
		if err := collective.AllReduce(ctx, c, buf, buf, collective.Sum); err != nil {
			return err
		}
	}
	for range 1000 {
		if err := collective.AllReduce(ctx, c, small, small, collective.Sum); err != nil {
			return err
		}
	}
	end()
	r, err := collective.StartBroadcast(c, buf, buf, 0)
	if err != nil {
		return err
	}
	if err := r.Wait(ctx); err != nil {
		return err
	}
	if w.Rank() == 1 {
		late := rank.Span(w, "late")
		time.Sleep(100 * time.Millisecond)
		late()
	}
	if w.Rank() == 2 && slices.Contains(os.Args, "kill") {
		time.Sleep(200 * time.Millisecond) // the others wait by then
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	if err := collective.Barrier(ctx, c); err != nil {
		return err
	}
	return w.Close()
}

// timeline is a file of --trace in the form of JSON.
type timeline struct {
	Events []struct {
		Phase string  `json:"ph"`
		Name  string  `json:"name"`
		At    float64 `json:"ts"`
		Group int     `json:"pid"`
		Row   int     `json:"tid"`
		ID    int     `json:"id"`
		Args  map[string]any
	} `json:"traceEvents"`
}

// readTimeline reads a timeline and checks that each slice has an end, and each arrow two ends.
func readTimeline(t *testing.T, file string) (groups, rows map[int]string, slicesOf map[string]map[string]int,
	job map[string]any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all timeline
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	groups, rows, slicesOf = map[int]string{}, map[int]string{}, map[string]map[string]int{}
	open, arrows := map[int]int{}, map[int]int{}
	for _, e := range all.Events {
		switch e.Phase {
		case "M":
			name, _ := e.Args["name"].(string)
			switch e.Name {
			case "process_name":
				groups[e.Group] = name
			case "thread_name":
				rows[e.Row] = name
				slicesOf[name] = map[string]int{}
			}
		case "B":
			if e.Name == "job" {
				job = e.Args
			}
			open[e.Row]++
			slicesOf[rows[e.Row]][e.Name]++
		case "E":
			if open[e.Row]--; open[e.Row] < 0 {
				t.Fatalf("row %s: an end without a beginning at %v", rows[e.Row], e.At)
			}
		case "s":
			arrows[e.ID]++
		case "f":
			arrows[e.ID] += 10
		}
	}
	for row, n := range open {
		if n != 0 {
			t.Errorf("row %s: %d slices without an end", rows[row], n)
		}
	}
	for id, n := range arrows {
		if n != 11 {
			t.Errorf("arrow %d has ends %d", id, n)
		}
	}
	return groups, rows, slicesOf, job
}

// The file of --trace has the calls, waits and phases of all ranks: large calls, samples of small ones, the ends of
// arrows.
func TestTrace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.json")
	l := startTreerun(t, nil, "-np", "3", "--trace", file, install(t, t.TempDir(), "tracer"))
	l.checkExit(0)
	groups, rows, all, job := readTimeline(t, file)
	if len(groups) != 2 || !slices.Contains(slices.Collect(maps.Values(rows)), "rank 2") {
		t.Errorf("groups %v, rows %v", groups, rows)
	}
	for _, rank := range []string{"rank 0", "rank 1", "rank 2"} {
		for name, n := range map[string]int{"AllReduce 1 MiB": 5, "train": 1, "joining": 1, "making communicator world": 1,
			"StartBroadcast 1 MiB": 1} {
			if all[rank][name] != n {
				t.Errorf("%s has %d slices %q, want %d, of %v", rank, all[rank][name], name, n, all[rank])
			}
		}
		if n := all[rank]["AllReduce 8 B"]; n < 30 || n > 40 {
			t.Errorf("%s has %d slices of small calls", rank, n)
		}
	}
	late := func(rank string) bool {
		return slices.ContainsFunc(slices.Collect(maps.Keys(all[rank])), func(name string) bool {
			return strings.HasPrefix(name, "waits for rank") && strings.Contains(name, "1")
		})
	}
	if all["rank 1"]["late"] != 1 || !late("rank 0") && !late("rank 2") {
		t.Errorf("no rank waits for rank 1: %v", all)
	}
	if job["exit code"] != 0.0 || !strings.HasSuffix(job["command"].(string), "tracer") {
		t.Errorf("the job: %v", job)
	}
}

// What a killed rank has recorded is in the file, with the waits of those that were stopped then.
func TestTraceOfKilledRank(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.json")
	l := startTreerun(t, nil, "-np", "3", "--trace", file, install(t, t.TempDir(), "tracer"), "kill")
	l.checkExit(128 + int(syscall.SIGKILL))
	_, _, all, job := readTimeline(t, file)
	for _, rank := range []string{"rank 0", "rank 1", "rank 2"} {
		if all[rank]["AllReduce 1 MiB"] != 5 {
			t.Errorf("%s: %v", rank, all[rank])
		}
	}
	marks := all["rank 2"]
	if job["exit code"] != 137.0 || marks["rank 0 waits for this rank"]+marks["rank 1 waits for this rank"] < 1 {
		t.Errorf("the job: %v, rank 2: %v", job, all["rank 2"])
	}
}

// Each process of a rank that is started again has a row of its own.
func TestTraceOfRestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.json")
	l := startTreerun(t, nil, "-np", "3", "--on-failure", "restart", "--max-restarts", "1", "--trace", file,
		install(t, t.TempDir(), "tracer"), "kill")
	l.checkExit(128 + int(syscall.SIGKILL))
	_, rows, all, _ := readTimeline(t, file)
	for _, rank := range []string{"rank 0", "rank 2", "rank 0, process 2", "rank 2, process 2"} {
		if all[rank]["AllReduce 1 MiB"] != 5 {
			t.Errorf("%s: %v, rows %v", rank, all[rank], rows)
		}
	}
}

// Each host has a group, and the clocks of other hosts are compared with that of the launcher.
func TestTraceOfHosts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.json")
	l := launchHosts(t, "-H", "a:1,b:2", "--trace", file, install(t, t.TempDir(), "tracer"))
	l.checkExit(0)
	groups, _, all, job := readTimeline(t, file)
	names := slices.Sorted(maps.Values(groups))
	if len(names) != 3 || names[0] != "host a" || names[1] != "host b" {
		t.Errorf("groups %q", names)
	}
	for _, rank := range []string{"rank 0", "rank 1", "rank 2"} {
		if all[rank]["AllReduce 1 MiB"] != 5 {
			t.Errorf("%s: %v", rank, all[rank])
		}
	}
	for _, host := range []string{"a", "b"} {
		if text := fmt.Sprint(job["clock of "+host]); !strings.Contains(text, "at most") {
			t.Errorf("the clock of %s: %s", host, text)
		}
	}
}

// A file that cannot be written is an error before the job starts.
func TestTraceWithoutFile(t *testing.T) {
	l := startTreerun(t, nil, "-np", "1", "--trace", filepath.Join(t.TempDir(), "none", "a.json"), "true")
	l.checkExit(125)
	if text := l.stderr.String(); !strings.Contains(text, "--trace: open ") {
		t.Error(text)
	}
}

// A rank that replaces a lost one has a row of its own, and the time of Renew is shown on all.
func TestTraceOfRenewal(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.json")
	l := startTreerun(t, nil, "-np", "3", "--on-failure", "respawn", "--trace", file, install(t, t.TempDir(), "lives"),
		"10", "5:1:0:kill")
	l.checkExit(0)
	_, rows, all, job := readTimeline(t, file)
	for row, want := range map[string][2]int{"rank 0": {1, 1}, "rank 1": {1, 0}, "rank 1, process 2": {0, 1},
		"rank 2": {1, 1}} {
		if got := [2]int{all[row]["joining"], all[row]["renewing"]}; got != want {
			t.Errorf("%s has joined and renewed %v times, want %v: %v, rows %v, job %v", row, got, want, all[row], rows, job)
		}
	}
}

// A host that is lost has no recordings, and the file names its ranks. Those of the other host are complete.
func TestTraceOfLostHost(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.json")
	l := launchHosts(t, "-H", "a:2,b:1", "--trace", file, installLooper(t, t.TempDir()), "-kind", "AllReduce", "-bytes",
		"100000")
	l.expect(3, "ready ")
	syscall.Kill(l.agentOf("b"), syscall.SIGKILL)
	l.checkEnd(125)
	_, _, all, job := readTimeline(t, file)
	if text := fmt.Sprint(job["rank 2"]); !strings.Contains(text, "its host") {
		t.Errorf("rank 2: %s", text)
	}
	for _, rank := range []string{"rank 0", "rank 1"} {
		if len(all[rank]) < 4 || job[rank] != nil {
			t.Errorf("%s: %v, %v", rank, all[rank], job[rank])
		}
	}
}
