package device

import (
	"time"

	"github.com/treerun/treerun/cuda"
)

// The driver takes about 1024 operations per stream, and then lets the caller
// wait inside it, with locks that others need. A stream gets no more than
// paceTicks times paceSteps steps ahead of the device.
const (
	paceSteps = 32
	paceTicks = 4
)

// pace knows how far a stream is ahead of its device.
type pace struct {
	ticks [paceTicks]*cuda.Event // recorded every paceSteps steps, in turn
	steps int
}

// step counts one step, and waits where the stream is too far ahead.
func (p *pace) step(g *Group, s *lineup) error {
	if p.steps++; p.steps%paceSteps != 0 {
		return nil
	}
	tick := p.ticks[p.steps/paceSteps%paceTicks]
	err := g.wait(func() (bool, error) { return tick.Query() })
	if err != nil {
		return err
	}
	return s.Record(tick)
}

// wait returns when ready does, or the Group has failed.
func (g *Group) wait(ready func() (bool, error)) (err error) {
	until(200*time.Microsecond, func() bool {
		var ok bool
		if ok, err = ready(); !ok && err == nil {
			err = g.Err()
		}
		return ok || err != nil
	})
	return err
}

// until asks ready again and again until that is so, and sleeps in between, longer and
// longer up to rest.
func until(rest time.Duration, ready func() bool) {
	for pause := 5 * time.Microsecond; !ready(); pause = min(2*pause, rest) {
		time.Sleep(pause)
	}
}
