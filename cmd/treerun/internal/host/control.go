package host

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/pipe"
	"github.com/treerun/treerun/rank/job"
)

// link is the launcher's end of one rank's control socket.
type link struct {
	r *pipe.Reader

	mu      sync.Mutex
	queue   []*job.Message // at most one per rank of the job, and one more
	writing bool           // a goroutine takes from queue
	broken  bool           // the rank has closed its end
}

// newLink opens a control socket and appends the rank's end to theirs.
func newLink(theirs *[]int) (*link, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	*theirs = append(*theirs, fds[1])
	r, err := pipe.NewReader(fds[0], "control socket")
	if err != nil {
		return nil, err
	}
	return &link{r: r}, nil
}

// receive passes the rank's messages on until there are no more, or one is
// broken: then the rank is not listened to any more.
func (l *link) receive(h *Host, rank int) {
	for {
		m, err := job.ReadMessage(l.r)
		if err != nil {
			h.k.Do(func() { h.silent(rank) })
			return
		}
		h.k.Do(func() { h.said(rank, m) })
	}
}

// finish makes receive end once it has passed on what the rank, which has
// ended, wrote before.
func (l *link) finish() { l.r.Finish() }

// send sends a message to the rank. It does not wait: a rank that never reads
// keeps a goroutine waiting, until close.
func (l *link) send(m *job.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken {
		return
	}
	l.queue = append(l.queue, m)
	if !l.writing {
		l.writing = true
		go l.write()
	}
}

// write sends what is in the queue.
func (l *link) write() {
	for m := l.next(); m != nil; m = l.next() {
		if err := job.WriteMessage(l.r.File(), m); err != nil {
			l.mu.Lock()
			l.broken = true
			l.mu.Unlock()
		}
	}
}

// next takes the next message from the queue; nil ends the writing.
func (l *link) next() *job.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 || l.broken {
		l.writing, l.queue = false, nil
		return nil
	}
	m := l.queue[0]
	l.queue = l.queue[1:]
	return m
}

func (l *link) close() { _ = l.r.Close() }
