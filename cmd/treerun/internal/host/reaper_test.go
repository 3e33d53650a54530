//go:build linux

package host

import (
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/internal/job"
)

// A rank that notices the end of another one and exits is not taken for the first to end, in either order of the
// checks.
func TestEndsOfOneReap(t *testing.T) {
	r := reaper()
	r.Call(func() { // no other goroutine waits for children meanwhile
		before, held, reaped := r.onExit, r.held, r.onExitsNoted
		defer func() { r.onExit, r.held, r.onExitsNoted = before, held, reaped }()
		for range 20 {
			r.onExit, r.held = make(map[int]func(unix.WaitStatus)), make(map[int]bool)
			var pids []int
			for range 3 {
				p, err := os.StartProcess("/bin/sleep", []string{"sleep", "60"}, &os.ProcAttr{})
				if err != nil {
					t.Error(err)
					return
				}
				pids = append(pids, p.Pid)
			}
			end := func(pid int) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				for begin := time.Now(); !job.StatProc(pid).Ended(); {
					if time.Since(begin) > 10*time.Second {
						t.Errorf("process %d has not ended", pid)
						return
					}
				}
			}
			seen := 0
			for i, pid := range pids {
				r.held[pid] = true
				r.OnExit(pid, func(unix.WaitStatus) {
					if seen++; i+1 < len(pids) {
						end(pids[i+1])
					}
				})
			}
			r.onExitsNoted = func() {
				if seen != len(pids) {
					t.Errorf("%d ends were seen at one moment, want %d", seen, len(pids))
				}
			}
			end(pids[0])
			r.reap()
			for _, pid := range pids {
				end(pid)
				reap(pid)
			}
		}
	})
}
