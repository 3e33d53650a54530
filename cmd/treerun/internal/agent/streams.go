package agent

import (
	"errors"
	"io"
	"net"
	"os"

	"github.com/treerun/treerun/cmd/treerun/internal/host"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
)

// forward sends what a rank prints to the launcher, as fast as that is shown there.
func (a *agent) forward(rank, stream int, src *host.Pipe) {
	go func() {
		defer src.Close() // only read from
		s, err := a.up.Stream(&wire.Frame{Host: a.join.Index, Body: &wire.Stream{Rank: rank, Number: stream}})
		if err == nil {
			wire.Relay(s, src)
		}
	}()
}

// serve takes a stream that comes from the launcher.
func (a *agent) serve(f *wire.Frame, s net.Conn) {
	push, isPush := f.Body.(*wire.Push)
	switch {
	case isPush:
		a.receive(f, push, s)
	case f.Host != a.join.Index:
		relay(a.tree.Stream, f, s)
		return
	default:
		select {
		case a.stdin <- s: // feed closes it
			return
		default:
		}
	}
	_ = s.Close()
}

// receive takes a program, and hands it on to the hosts below.
func (a *agent) receive(f *wire.Frame, push *wire.Push, s io.Reader) {
	if a.join.Path != "" {
		a.refuse(errors.New("a program comes that was not announced"))
		return
	}
	path, err := receiveProgram(s, push.Sum)
	if err != nil {
		a.refuse(err)
		return
	}
	a.tree.Push(f, path)
	a.look(path)
}

// feed carries the launcher's stdin to rank 0. What that does not read is dropped.
func (a *agent) feed(rank0 *os.File) {
	defer rank0.Close() // the reader has everything that was written
	select {
	case s := <-a.stdin:
		defer s.Close()
		_, _ = io.Copy(rank0, s)
		_ = rank0.Close()
		_, _ = io.Copy(io.Discard, s)
	case <-a.over:
	}
}
