package main

import (
	"fmt"
	"testing"
)

// A rank that is stopped before it has joined the job is named, with its state, on one
// host and on others.
func TestStoppedDuringTheStart(t *testing.T) {
	const script = `if [ $RANK = 2 ]; then echo pid $$; kill -STOP $$; fi; exec member init sleep 300s`
	for _, hosts := range [][]string{{"-np", "3"}, {"-H", "a:2,b:2"}} {
		l := launchHosts(t, append(hosts, "--timeout", "12", "sh", "-c", script)...)
		l.expect(1, "pid ")
		l.ends(124)
		for _, line := range l.seen {
			var rank, pid int
			if _, err := fmt.Sscanf(line, "[%d] pid %d", &rank, &pid); err == nil {
				l.says(fmt.Sprintf("rank 2 (pid %d) has not joined the job, and is stopped by SIGSTOP", pid))
			}
		}
	}
}
