package launch

import (
	"testing"

	"github.com/treerun/treerun/cmd/treerun/internal/wire"
)

// A frame of a host that is not in the job, whatever its number, is nobody's end.
func TestFrameOfNoHost(t *testing.T) {
	for _, host := range []int{-7, wire.All, 1, 1 << 20} {
		s := &supervisor{
			job: &Job{Trace: func(string, ...any) {}}, hosts: []*hostState{{}}, events: make(chan func(), 1),
			quit: make(chan struct{}),
		}
		s.emit(wire.Encode(host, &wire.Finish{}), nil)
		(<-s.events)()
		if s.hosts[0].lost || s.cause.kind != none {
			t.Errorf("a frame of host %d ended the job", host)
		}
	}
}
