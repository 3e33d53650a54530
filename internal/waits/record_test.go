package waits

import (
	"bytes"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/record"
)

// A wait is recorded for the ranks that it is for, while it is for them: its end ends all that had begun.
func TestRecordedWaits(t *testing.T) {
	const places = 64
	memory := make([]byte, record.Bytes(places))
	jobs := NewLocal(4).Jobs
	jobs[0].Record = record.NewWriter(memory, places)
	w := jobs[0].NewWait("", nil)
	began := time.Now().Add(-time.Second)
	w.Publish("AllReduce #1", began, []Blocker{{Rank: 1}, {Rank: 2}})
	w.Publish("AllReduce #1", began, []Blocker{{Rank: 2}, {Rank: 3}})
	w.Clear()
	head, err := record.Read(bytes.NewReader(memory), places)
	if err != nil {
		t.Fatal(err)
	}
	data, _, err := record.ReadEvents(bytes.NewReader(memory), places, 1, head.Count, places)
	if err != nil {
		t.Fatal(err)
	}
	events, err := record.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	open, took := map[int]int64{}, map[int]time.Duration{}
	for _, e := range events {
		if e.Flags&record.Open != 0 {
			open[e.Peer] = e.Start
			continue
		}
		if start, begun := open[e.Peer]; !begun || start != e.Start {
			t.Errorf("the end of a wait that has not begun: %+v", e)
		}
		delete(open, e.Peer)
		took[e.Peer] = e.Took
	}
	if len(open) > 0 || len(took) != 3 {
		t.Errorf("waits without an end for ranks %v, with one for %v", open, took)
	}
	if took[1] < time.Second || took[2] < time.Second || took[3] > time.Second/2 {
		t.Errorf("waits of %v", took)
	}
}
