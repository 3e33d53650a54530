package setup

import (
	"fmt"
	"strconv"
	"time"

	"github.com/treerun/treerun/internal/waits"
)

// settingStall is the launcher's setting after how long without progress a call fails.
const settingStall = "stall-timeout"

// jobOf returns what w knows of the waits of its job, and the job's ranks that are those of
// w, nil where all are. A World that can ask nobody knows its own waits only.
func jobOf(w World) (job *waits.Job, ranks []int) {
	for {
		part, is := w.(interface {
			Above() World
			InAbove(rank int) int
		})
		if !is {
			break
		}
		if ranks == nil {
			for r := range w.Size() {
				ranks = append(ranks, r)
			}
		}
		for i, r := range ranks {
			ranks[i] = part.InAbove(r)
		}
		w = part.Above()
	}
	if known, is := w.(interface{ Waits() *waits.Job }); is {
		return known.Waits(), ranks
	}
	return &waits.Job{Rank: w.Rank(), Size: w.Size()}, ranks
}

// FirstName is the name of the first communicator of a World.
const FirstName = "world"

// watchFor returns where the waits of a communicator of w are published.
func (c *Config) watchFor(w World) (watch *waits.Wait, name string, err error) {
	job, ranks := jobOf(w)
	name = c.Name
	if _, part := w.(interface{ Above() World }); !part {
		n := job.Comms() // counted in any case: the ranks' numbers are the same
		if name == "" {
			name = FirstName
			if n > 1 {
				name += "#" + strconv.Itoa(n)
			}
		}
	} else if name == "" {
		name = c.SplitName
	}
	limit := c.StallTimeout
	if text := w.Setting(settingStall); text != "" && limit == 0 {
		if limit, err = time.ParseDuration(text); err != nil || limit <= 0 {
			return nil, name, fmt.Errorf("--%s=%s: want a duration such as 30s", settingStall, text)
		}
	}
	watch = job.NewWait(name, ranks)
	watch.Every, watch.Limit = c.Stall, limit
	if c.Logger != nil {
		watch.Log = func(text string) { c.Logger.Warn(text) }
	}
	return watch, name, nil
}
