//go:build linux

package inspect

import (
	"testing"
	"time"

	"github.com/treerun/treerun/internal/job"
)

// The state of the rank's own thread counts before that of the others, which may be ready to run on a busy machine.
func TestIs(t *testing.T) {
	sleeps := job.ProcState{Code: 'S'}
	for want, p := range map[string]Process{
		"is stopped by SIGSTOP":                             {State: job.ProcState{Code: 'T', Signal: 19}},
		"sleeps":                                            {State: sleeps, Over: time.Second},
		"computes (40 % of a core)":                         {State: sleeps, Over: 10, Used: 4, Ready: true},
		"is ready to run and gets 10 % of a core":           {State: sleeps, Over: 10, Used: 1, Ready: true},
		"is blocked in the system call read":                {State: sleeps, Over: 10, Call: "read", Ready: true},
		"is blocked in the kernel":                          {State: sleeps, Over: 10, Hangs: true},
		"is blocked in the kernel in the system call fsync": {State: sleeps, Over: 10, Hangs: true, Call: "fsync"},
	} {
		if got := p.Is(7); got != "its process 7 "+want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
