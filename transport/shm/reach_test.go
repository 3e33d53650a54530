//go:build linux

package shm

import (
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/treerun/treerun/transport/internal/osys"
	"github.com/treerun/treerun/transport/internal/segment"
)

// ownSample returns a sample of this process.
func ownSample() (sample, *[secretBytes]byte) {
	b := new([secretBytes]byte)
	_, _ = rand.Read(b[:])
	return sample{PID: os.Getpid(), Address: osys.Address(b[:]), Secret: *b}, b
}

// Only a process that can be read, and is the intended one, is reached.
func TestReachIsTried(t *testing.T) {
	good, memory := ownSample()
	for name, c := range map[string]struct {
		change func(*sample)
		want   string // "" for none
	}{
		"itself":         {func(*sample) {}, ""},
		"another secret": {func(s *sample) { s.Secret[3]++ }, "is another one here"},
		"no address":     {func(s *sample) { s.Address = 4096 }, "bad address"},
		"no process":     {func(s *sample) { s.PID = 1 << 22 }, "pidfd_open"},
		"zero":           {func(s *sample) { s.PID = 0 }, "process number 0"},
		"negative":       {func(s *sample) { s.PID = -1 }, "process number -1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := good
			c.change(&s)
			r := newReach(2)
			err := r.open(1, s)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if err := r.close(); err != nil {
				t.Error(err)
			}
		})
	}
	if *memory != good.Secret {
		t.Error("reading changed the memory")
	}
}

// All endpoints that reach a process share one descriptor of it, which is closed with the last of them. A number that
// has come to mean another process is opened again.
func TestOneDescriptorForEachProcess(t *testing.T) {
	s, _ := ownSample()
	before, _ := left(t)
	a, b := newReach(3), newReach(1)
	for _, err := range []error{a.open(0, s), a.open(2, s), b.open(0, s)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if fds, _ := left(t); fds != before+1 || a.procs[0] != b.procs[0] {
		t.Errorf("%d descriptors for one process", fds-before)
	}
	old := a.procs[0].fd
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
	if b.procs[0].ended() != nil || b.procs[0].fd != old {
		t.Error("the descriptor went while it was in use")
	}
	// The process that it means ends, and the number then belongs to another process, here our own.
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended, err := openProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	processes.mu.Lock()
	processes.byPID[s.PID] = ended
	processes.mu.Unlock()
	again, err := openProcess(s.PID)
	if err != nil || again == ended || again.ended() != nil {
		t.Errorf("a process that has ended is taken for this one: %v", err)
	}
	if err := errors.Join(again.release(), ended.release(), b.close()); err != nil {
		t.Error(err)
	}
	if fds, _ := left(t); fds != before || len(processes.byPID) != 0 {
		t.Errorf("%d descriptors left, of %d processes", fds-before, len(processes.byPID))
	}
}

// A read from a process that has ended, or from addresses that it does not have, returns an error, and never bytes.
func TestReachOfTheDead(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := newReach(2)
	defer r.close()
	fd, err := osys.OpenProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	r.procs[1] = &process{pid: cmd.Process.Pid, fd: fd, users: 1}
	b := []byte("unchanged")
	if err := r.Read(1, 64, b); err == nil || errors.Is(err, segment.ErrVanished) {
		t.Errorf("reading no memory of a live process: %v", err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err := r.Read(1, 64, b); !errors.Is(err, segment.ErrVanished) {
		t.Errorf("reading of a dead process: %v", err)
	}
	if r.procs[1].ended() == nil {
		t.Error("a process that was waited for counts as alive")
	}
	r.procs[1].pid = os.Getpid() // as if its number had been given to another process
	own, _ := ownSample()
	if err := r.Read(1, own.Address, make([]byte, secretBytes)); !errors.Is(err, segment.ErrVanished) {
		t.Errorf("reading of another process with the number of a dead one: %v", err)
	}
	if string(b) != "unchanged" {
		t.Errorf("read %q", b)
	}
}
