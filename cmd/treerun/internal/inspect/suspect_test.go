//go:build linux

package inspect

import (
	"testing"
	"time"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/waits"
)

// Ranks that are stopped, or write output without a reader, cannot be at work. Others may be, and for longer where they
// have taken long between calls before. A call that takes long by itself may wait for long.
func TestSuspicion(t *testing.T) {
	const s = time.Second
	stopped := Process{State: job.ProcState{Code: 'T', Signal: 19}}
	for name, c := range map[string]struct {
		process Process
		unread  string
		gap     time.Duration
		usual   time.Duration
		circle  string
		after   time.Duration
		sure    bool
	}{
		"stopped":                    {process: stopped, after: s, sure: true},
		"stopped, in a long call":    {process: stopped, usual: 100 * time.Millisecond, after: 2 * s, sure: true},
		"a circle":                   {circle: "0, 1, 0", gap: 9 * s, after: s, sure: true},
		"sleeps":                     {after: 10 * s},
		"sleeps, and has before":     {gap: 3 * s, after: 15 * s},
		"writes":                     {process: Process{Call: "write"}, after: 10 * s},
		"writes, and nothing reads":  {process: Process{Call: "write"}, unread: "standard output", after: s, sure: true},
		"reads, and nothing is read": {process: Process{Call: "read"}, unread: "standard output", after: 10 * s},
	} {
		j := Job{Unread: c.unread, Ranks: []Rank{
			{Rank: 0, Waits: []waits.Waiting{{In: "Barrier #1", For: []int{1}, Usual: int64(c.usual)}}},
			{Rank: 1, Process: c.process, Gap: c.gap},
		}}
		v := waits.Verdict{AtFault: []int{1}}
		if c.circle != "" {
			v = waits.Verdict{Circle: c.circle}
		}
		if after, sure := j.Suspicion(&v); after != c.after || sure != c.sure {
			t.Errorf("%s: suspect after %v, sure %v; want %v, %v", name, after, sure, c.after, c.sure)
		}
	}
	w := waits.Waiting{Since: 1, Usual: int64(s)}
	if isSuspect(&w, int64(20*s)) || !isSuspect(&w, int64(20*s)+1) {
		t.Error("a call of 1 s is not suspect from 20 s on")
	}
}
