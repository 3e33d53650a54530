package report

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/recording"
	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/internal/record"
	"github.com/treerun/treerun/topo"
)

const ms = int64(time.Millisecond)

// at makes an event of a process: times are in milliseconds.
func at(kind record.Kind, start, took int64, more record.Event) record.Event {
	e := more
	e.Kind, e.Start, e.Took = kind, start*ms, time.Duration(took*ms)
	return e
}

// lossy is the recording of a job of four ranks on two hosts, of which rank 1 was lost and started again, and rank 3
// made the others wait.
func lossy(t *testing.T) *recording.Job {
	t.Helper()
	g, _ := topo.Machine("two-sockets")
	pl, err := planner.New(g, planner.Machine{Cores: 4}, planner.Options{})
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"", "world", "ring", "epoch", "AllReduce"}
	total := record.Total{Row: 1, Size: 25, Calls: 10, Bytes: 160 << 20, Bus: 240 << 20, Busy: 100 * ms, Least: 8 * ms,
		Predicted: 80 * ms, Bound: 50 * ms, Waited: 30 * ms}
	j := &recording.Job{ID: "x1", Program: "./train", Args: []string{"./train", "-x"}, Start: time.Unix(0, 0).UTC(),
		Took: 2 * time.Second, Hosts: []recording.Host{{Name: "a"}, {Name: "b", Clocks: []recording.Clock{{Error: 5000}}}}}
	process := func(rank, attempt int, ended time.Duration, events ...record.Event) *recording.Process {
		p := recording.Process{Rank: rank, Attempt: attempt, PID: 70 + rank, Host: rank / 2, Ended: ended,
			Outcome: "exited with code 0", Recording: record.Recording{Head: record.Head{Count: uint64(len(events)), Places: 9,
				Names: names, Totals: []record.Total{total}}, Events: events}}
		j.Processes = append(j.Processes, p)
		return &j.Processes[len(j.Processes)-1]
	}
	call := record.Event{Row: 1, Comm: 1, Label: 2, Peer: -1, Bytes: 16 << 20, Number: 7, Predicted: 8e6, Waited: 200e6}
	wait := func(peer int) record.Event { return record.Event{Comm: 1, Label: 4, Peer: peer} }
	p := process(0, 0, 2*time.Second, at(record.Join, 0, 10, record.Event{Peer: -1}), at(record.Wait, 100, 200, wait(2)),
		at(record.Wait, 100, 200, wait(3)), at(record.Call, 95, 210, call),
		at(record.Span, 400, 100, record.Event{Label: 3, Peer: -1}))
	p.Planner = pl.Portable()
	lost := process(1, 0, time.Second, at(record.Call, 98, 206, call))
	lost.Outcome, lost.Failed = "killed by SIGKILL", true
	process(1, 1, 2*time.Second, at(record.Join, 1200, 10, record.Event{Peer: -1}))
	process(2, 0, 2*time.Second, at(record.Wait, 101, 190, wait(3)), at(record.Wait, 900, 0,
		record.Event{Comm: 1, Label: 4, Peer: 1, Flags: record.Open}))
	process(3, 0, 2*time.Second).Why = "its host does not answer"
	return j
}

// TestFacts: the figures of the page are those of the recording.
func TestFacts(t *testing.T) {
	p := newPage(lossy(t), "v1")
	if p.Command != "./train -x" || p.Outcome != "ended well, after the loss of a process" || p.Failed ||
		len(p.Ranks) != 5 {
		t.Errorf("%q, %q, %v, %d ranks", p.Command, p.Outcome, p.Failed, len(p.Ranks))
	}
	if p.Totals.Calls != 50 || p.Totals.Bytes != 5*160<<20 {
		t.Errorf("%+v", p.Totals)
	}
	if r := p.Ranks[2]; r.Rank != 1 || r.Attempt != 1 || r.From != 1.2 || r.Setup != 0.01 || r.Wait != 0.03 ||
		r.Moving != 0.07 {
		t.Errorf("%+v", r)
	}
	if len(p.Calls) != 1 {
		t.Fatalf("%+v", p.Calls)
	}
	if c := p.Calls[0]; c.Call != "AllReduce" || c.Calls != 50 || c.Mean != 0.01 || c.Best != 0.008 ||
		c.Predicted != 0.008 || c.Bound != 0.5 || c.From != 16<<20 || c.Sampled {
		t.Errorf("%+v", c)
	}
	// Rank 0 has waited for 2 and 3, and rank 2 for 3 at that time, and for 1 until its end.
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
	if m := p.Matrix; m == nil || len(m.Rows) != 2 || len(m.Columns) != 2 || !near(m.Cells[0][1], 0.2) ||
		!near(m.Cells[1][1], 0.19) || !near(m.Cells[1][0], 1.1) {
		t.Errorf("%+v", m)
	}
	if l := p.Late; len(l) != 2 || l[0].Rank != 1 || l[0].Host != "a" || l[0].Ranks != 1 || l[1].Ranks != 2 {
		t.Errorf("%+v", l)
	}
	if len(p.Slow) != 3 || p.Slow[1].Rank != 0 || p.Slow[1].Number != 7 || p.Slow[1].For != "2,3" ||
		p.Slow[1].Took != 0.21 || p.Slow[2].Rank != 2 || p.Slow[2].Took != 0.19 {
		t.Errorf("%+v", p.Slow)
	}
	if s := p.Slow[0]; s.Rank != 2 || s.Call != "AllReduce (not returned)" || s.For != "1" || !near(s.Took, 1.1) {
		t.Errorf("%+v", s)
	}
	if r := p.Ranks[3]; r.Rank != 2 || !near(r.Wait, 1.13) {
		t.Errorf("%+v", r)
	}
	const became = "Its process 2 took its place on a, called rank.Init 200ms later."
	if f := p.Faults; len(f) != 1 || f[0].Became != became {
		t.Errorf("%+v", f)
	}
	if len(p.Pictures) != 1 || p.Graph != "" || !strings.HasPrefix(p.Pictures[0].Title, "AllReduce of 16 MiB: ") {
		t.Errorf("%d pictures, %s, %.80s", len(p.Pictures), p.Graph, p.Pictures)
	}
	if i := len(p.Phases); i != 2 || p.Phases[0].Name != "epoch" || !p.Phases[0].Own || p.Phases[1].Count != 2 {
		t.Errorf("%+v", p.Phases)
	}
	notes := strings.Join(p.Notes, "\n")
	for _, want := range []string{"Of rank 3 the recording is missing or has only a part: its host does not answer.",
		"Times of host b are exact to 5µs."} {
		if !strings.Contains(notes, want) {
			t.Errorf("no %q in\n%s", want, notes)
		}
	}
	if _, err := html(p); err != nil {
		t.Error(err)
	}
}

// TestLarge: the page of a job of 512 ranks, each of which has waited for each, stays of a size that browsers can show.
func TestLarge(t *testing.T) {
	j := &recording.Job{Hosts: []recording.Host{{Name: "a"}}, Took: time.Second}
	for r := range 512 {
		p := recording.Process{Rank: r, Ended: time.Second}
		p.Names = []string{"", "world"}
		for to := range 512 {
			p.Events = append(p.Events, at(record.Wait, int64(to), 30, record.Event{Comm: 1, Peer: to}))
		}
		j.Processes = append(j.Processes, p)
	}
	p := newPage(j, "v1")
	page, err := html(p)
	if err != nil || len(page) > 2<<20 || len(p.Matrix.Rows) != maxMatrix || p.Matrix.LeftOut != 512-maxMatrix {
		t.Errorf("%d bytes, %v", len(page), err)
	}
}

// TestNothing: a job whose ranks have recorded nothing has a page.
func TestNothing(t *testing.T) {
	j := &recording.Job{Code: 3, Hosts: []recording.Host{{Name: "a"}}, Processes: []recording.Process{
		{Outcome: "exited with code 3", Failed: true, Why: "it has not called rank.Init"}}}
	p := newPage(j, "v1")
	if p.Ranks[0].Why == "" || p.Outcome != "rank 0 exited with code 3; exit code 3" || p.Matrix != nil || p.Calls != nil {
		t.Errorf("%+v", p)
	}
	j.Processes[0].Planner = []byte("no planner")
	if p := newPage(j, "v1"); !strings.HasPrefix(p.Graph, "The graph cannot be shown: a planner from another process: ") {
		t.Error(p.Graph)
	}
}
