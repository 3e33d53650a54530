//go:build linux

package launch

import (
	"fmt"
	"slices"

	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
)

// causeText describes why the job did not end well, "" where it did.
func (s *supervisor) causeText() string {
	switch s.cause.kind {
	case noCause:
		return ""
	case byFailure:
		f, ok := s.failure()
		if !ok {
			return ""
		}
		return f.String()
	case bySignal:
		return fmt.Sprintf("stopped by %s%s%s", job.SignalName(s.cause.signal), s.signaled, s.sigtermNote())
	case byTimeout:
		return timeoutText(s.job.Timeout, s.job.Size, s.runningAtTimeout, s.startingAtTimeout)
	}
	return fmt.Sprint(s.cause.err)
}

// failure returns the content of the block about the first rank that has failed.
func (s *supervisor) failure() (f failure, ok bool) {
	f.ends = s.ends()
	if f.first, ok = firstFailure(f.ends); !ok {
		return f, false
	}
	f.resumed = s.start.Add(f.first.After).Sub(s.lastContinue).Abs() < s.job.Remote.PeerTimeout
	for _, r := range slices.Concat(s.before, s.ranks) {
		if r.Rank == f.first.Rank && r.Attempt == f.first.Attempt {
			f.merged, f.stderr = r.merged(), r.lastLines(wire.Stderr, stderrLines)
		}
	}
	if f.first.ReadJobFile { // else it never waited for another rank
		f.unclosed = exitedUnclosed(f.ends, f.first)
	}
	return f, true
}
