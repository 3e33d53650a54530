package shm

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/osys"
	"github.com/treerun/treerun/transport/internal/segment"
)

var _ segment.Reach = (*reach)(nil)

// secretBytes is the size of the memory that ranks read of each other to find out whether they can.
const secretBytes = 16

// sample is memory of a rank that the other ranks try to read: the result shows whether the system allows it (Yama,
// another user, a filter of system calls), and whether the process number has the same meaning to them.
type sample struct {
	PID     int
	Address uint64
	Secret  [secretBytes]byte // contents of the memory
}

// makeSample makes this rank's sample. Its memory stays until the second
// exchange is done.
func (c *connecting) makeSample() sample {
	osys.LetSiblingsRead()
	c.sample = new([secretBytes]byte)
	_, _ = rand.Read(c.sample[:])
	return sample{PID: os.Getpid(), Address: osys.Address(c.sample[:]), Secret: *c.sample}
}

// readSamples tries to read the memory of all other ranks, and returns the reason if it cannot, "" if it can.
func (c *connecting) readSamples(all []report) (why string) {
	c.reach = newReach(c.cfg.Layout.Size)
	for i := range all {
		r := c.cfg.Layout.Member(i)
		if r == c.cfg.Rank {
			continue
		}
		if err := c.reach.open(r, all[i].Sample); err != nil {
			return fmt.Sprintf("reading rank %d's: %v", r, err)
		}
	}
	return ""
}

func (c *connecting) closeReach() {
	_ = c.reach.close()
	c.reach = nil
}

// reach reads and writes the memory of the other ranks' processes.
type reach struct {
	procs []*process // by rank; nil: not open
}

// process is another process, or this one, with a descriptor that never refers to another process, even if the number
// is reused.
type process struct {
	pid, fd int
	users   int // endpoints; guarded by processes.mu
}

// processes holds one descriptor per process for all endpoints that reach it.
var processes = struct {
	mu    sync.Mutex
	byPID map[int]*process
}{byPID: make(map[int]*process)}

// openProcess returns the process that has this number. Its users release it.
func openProcess(pid int) (*process, error) {
	processes.mu.Lock()
	defer processes.mu.Unlock()
	p := processes.byPID[pid]
	if p == nil || p.ended() != nil { // the number may belong to another process by now
		fd, err := osys.OpenProcess(pid)
		if err != nil {
			return nil, err
		}
		p = &process{pid: pid, fd: fd}
		processes.byPID[pid] = p
	}
	p.users++
	return p, nil
}

func (p *process) release() error {
	processes.mu.Lock()
	defer processes.mu.Unlock()
	if p.users--; p.users > 0 {
		return nil
	}
	if processes.byPID[p.pid] == p {
		delete(processes.byPID, p.pid)
	}
	return osys.CloseFD(p.fd)
}

// ended returns segment.ErrVanished if the process has ended, and another error if the system does not report it. If it
// returns nil, the number still belongs to the process.
func (p *process) ended() error {
	ended, err := osys.Ended(p.fd)
	if ended {
		return segment.ErrVanished
	}
	return err
}

func newReach(ranks int) *reach { return &reach{procs: make([]*process, ranks)} }

// among returns the reach of some of the ranks of r, which are the members of a layout, nil if r is.
func (r *reach) among(ranks []int, l *transport.Layout) (*reach, error) {
	if r == nil {
		return nil, nil
	}
	processes.mu.Lock()
	defer processes.mu.Unlock()
	sub := newReach(l.Size)
	for i, q := range ranks {
		sub.procs[l.Member(i)] = r.procs[q]
		if p := r.procs[q]; p != nil && p.users == 0 {
			return nil, transport.ErrClosed
		}
	}
	for _, p := range sub.procs {
		if p != nil {
			p.users++
		}
	}
	return sub, nil
}

// open tries to read the memory of rank's process.
func (r *reach) open(rank int, s sample) error {
	if s.PID < 1 {
		return fmt.Errorf("process number %d", s.PID)
	}
	p, err := openProcess(s.PID)
	if err != nil {
		return err
	}
	r.procs[rank] = p
	var got [secretBytes]byte
	if err := r.Read(rank, s.Address, got[:]); err != nil {
		return err
	}
	if got != s.Secret {
		return fmt.Errorf("process %d is another one here", s.PID)
	}
	return nil
}

func (r *reach) close() error {
	if r == nil {
		return nil
	}
	var err error
	for _, p := range r.procs {
		if p != nil {
			err = errors.Join(err, p.release())
		}
	}
	return err
}

// Address returns the address of the window in this process.
func (r *reach) Address(window []byte) uint64 { return osys.Address(window) }

// Read reads from the process of a rank. If that process has not ended afterwards, its number meant no other process
// during the read. Only this check decides whether it has ended: no error of the read does.
func (r *reach) Read(rank int, address uint64, b []byte) error {
	p := r.procs[rank]
	err := osys.ReadMemory(p.pid, address, b)
	return cmp.Or(p.ended(), err)
}

// Write writes to the process of a rank. Its number refers to that process as long as its parent has not waited for it,
// which is checked immediately before.
func (r *reach) Write(rank int, address uint64, b []byte) error {
	p := r.procs[rank]
	if err := p.ended(); err != nil {
		return err
	}
	err := osys.WriteMemory(p.pid, address, b)
	if err != nil {
		return cmp.Or(p.ended(), err)
	}
	return nil
}

// Ended reports whether the process of a rank has ended.
func (r *reach) Ended(rank int) bool { return errors.Is(r.procs[rank].ended(), segment.ErrVanished) }
