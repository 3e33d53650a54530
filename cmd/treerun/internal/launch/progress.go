//go:build linux

package launch

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/output"
	"github.com/treerun/treerun/internal/numbers"
)

// waitShowing is wait. On a terminal a line shows for how long, until other output follows or the wait is over; doing
// returns what is waited for, "" for no line.
func (s *supervisor) waitShowing(doing func() string, until func() bool) {
	began, over, shown := time.Now(), false, false
	var tick func()
	tick = func() {
		if over {
			return
		}
		if text := doing(); text != "" {
			shown = s.job.Screen.Err.Status(fmt.Sprintf("treerun: %.65s ... %.0f s", text, time.Since(began).Seconds()))
		}
		s.after(output.ProgressEvery, tick)
	}
	s.after(output.ProgressEvery, tick)
	s.wait(until)
	if over = true; shown {
		s.job.Screen.Err.Status("")
	}
}

// reaching describes the wait for all hosts to reach a phase.
func (s *supervisor) reaching(least phase, what string) func() string {
	return func() string {
		var missing []string
		for _, h := range s.hosts {
			if h.phase < least {
				missing = append(missing, h.Name)
			}
		}
		if s.cause.kind != noCause || len(missing) == 0 {
			return ""
		}
		const most = 2
		more := ""
		if n := len(missing) - most; n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		slices.Sort(missing)
		return fmt.Sprintf("%s %d of %s, without %s%s", what, len(s.hosts)-len(missing), numbers.Count(len(s.hosts), "host"),
			strings.Join(missing[:min(len(missing), most)], ", "), more)
	}
}
