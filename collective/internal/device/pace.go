package device

import (
	"time"

	"github.com/treerun/treerun/internal/backoff"
)

// The driver takes about 1024 operations per stream, and then lets the caller
// wait inside it, with locks that others need. A stream gets no more than
// paceTicks times paceSteps steps ahead of the device.
const (
	paceSteps = 32
	paceTicks = 4
)

// pace counts one step of a stream, and waits where that is too far ahead.
func (g *Group) pace(s *lineup) error {
	if s.steps++; s.steps%paceSteps != 0 || s.ticks[0] == nil {
		return nil
	}
	tick := s.ticks[s.steps/paceSteps%paceTicks]
	err := g.wait(func() (bool, error) { return tick.Query() })
	if err != nil {
		return err
	}
	return s.Record(tick)
}

// wait returns when ready does, or the Group has failed.
func (g *Group) wait(ready func() (bool, error)) error {
	return backoff.Poll(200*time.Microsecond, g.Err, ready)
}
