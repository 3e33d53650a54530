package host

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
)

// link is the launcher's end of one rank's control socket.
type link struct {
	r *Pipe
	// out gets messages for the rank: at most one per rank of the job, and one more. A rank
	// that never reads keeps its goroutine waiting, until close.
	out wire.Queue[*job.Message]
}

// newLink opens a control socket and appends the rank's end to theirs.
func newLink(theirs *[]int) (*link, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	*theirs = append(*theirs, fds[1])
	r, err := NewPipe(fds[0], "control socket")
	if err != nil {
		return nil, err
	}
	l, broken := &link{r: r}, false // broken: the rank has closed its end
	l.out.Begin(func(queue []*job.Message) {
		for _, m := range queue {
			broken = broken || job.WriteMessage(r.File(), m) != nil
		}
	})
	return l, nil
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

func (l *link) close() { _ = l.r.Close() }
