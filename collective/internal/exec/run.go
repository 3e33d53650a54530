package exec

import (
	"context"
	"errors"
	"fmt"

	"github.com/treerun/treerun/collective/internal/kernel"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/transport"
)

// Run executes the program for call c and returns when this rank's part is
// done. It returns the fault of the Endpoint when the call could not be
// completed here or on any other rank; the Endpoint is then of no further use.
// A cancelled ctx is such a fault.
func (pr *Program) Run(ctx context.Context, c *Call, w *Waiter) (transport.Fault, bool) {
	pr.reset(c)
	pr.history[c.Header.Seq%past] = c.Header
	pr.ep.Enter(&c.Header)
	err := ctx.Err()
	if err == nil {
		var done bool
		if done, err = pr.poll(); err == nil && !done {
			err = w.wait(ctx, pr)
		}
	}
	if err != nil && err != errAborted {
		pr.ep.Abort(pr.faultOf(err, c.Header, pr.waitsFor))
	}
	return pr.ep.Aborted()
}

// poll lets every track take the steps it can take now. It reports whether all
// tracks are done.
func (pr *Program) poll() (done bool, err error) {
	done = true
	for i := range pr.tracks {
		t := &pr.tracks[i]
		if t.chunk >= t.lane.chunks {
			continue
		}
		if err := pr.advance(t); err != nil {
			return false, err
		}
		if t.chunk < t.lane.chunks {
			done = false
		}
	}
	return done, nil
}

// advance takes the steps of t until one has to wait or the track is done.
func (pr *Program) advance(t *track) error {
	for t.chunk < t.lane.chunks {
		ok, err := pr.take(t, &t.steps[t.next])
		if err != nil || !ok {
			return err
		}
		pr.steps++
		if t.next++; t.next == len(t.steps) {
			t.next = 0
			t.chunk++
		}
	}
	return nil
}

// take does step s of t, or reports false when a link is not ready. Both links
// of a fused step are checked before either is used.
func (pr *Program) take(t *track, s *step) (bool, error) {
	l := t.lane
	from := t.chunk * l.chunk
	n := min(l.chunk, l.bytes-from)
	from += l.start

	var in, out []byte
	if s.in != nil {
		window, ok, err := s.in.TryPeek(&t.got)
		if err != nil || !ok {
			return false, linkError(err, "receiving from", s.From)
		}
		if t.got != pr.call.Header {
			return false, &mismatch{peer: int(s.From), theirs: t.got, mine: pr.callAt(t.got.Seq)}
		}
		if len(window) != n {
			return false, fmt.Errorf("rank %d sent a chunk of %d bytes where %d belong", s.From, len(window), n)
		}
		in = window
	}
	if s.out != nil {
		window, ok, err := s.out.TryReserve(n)
		if err != nil || !ok {
			return false, linkError(err, "sending to", s.To)
		}
		out = window
	}
	pr.move(t, s, in, out, from, n)
	if s.out != nil {
		s.out.Commit(&pr.call.Header)
	}
	if s.in != nil {
		s.in.Release()
	}
	return true, nil
}

// move does what step s does with its chunk.
func (pr *Program) move(t *track, s *step, in, out []byte, from, n int) {
	c := pr.call
	switch s.Op {
	case plan.Send:
		copy(out, t.buffer(c, s.Src, from, n))
	case plan.Recv:
		copy(t.buffer(c, s.Dst, from, n), in)
	case plan.RecvReduce:
		kernel.Reduce(c.Op, c.DType, t.buffer(c, s.Dst, from, n), t.buffer(c, s.Src, from, n), in)
	case plan.RecvReduceSend:
		kernel.Reduce(c.Op, c.DType, out, t.buffer(c, s.Src, from, n), in)
	case plan.RecvReduceCopySend:
		dst := t.buffer(c, s.Dst, from, n)
		kernel.Reduce(c.Op, c.DType, dst, t.buffer(c, s.Src, from, n), in)
		copy(out, dst)
	case plan.RecvCopySend:
		copy(t.buffer(c, s.Dst, from, n), in)
		copy(out, in)
	case plan.Copy:
		if dst, src := t.buffer(c, s.Dst, from, n), t.buffer(c, s.Src, from, n); n > 0 && &dst[0] != &src[0] {
			copy(dst, src)
		}
	default:
		panic(fmt.Sprintf("exec: plan %s has step %d, which Verify rejects", pr.plan.Name, s.Op))
	}
}

// buffer returns n bytes of b, from the message's byte from on.
func (t *track) buffer(c *Call, b plan.Buf, from, n int) []byte {
	switch b {
	case plan.In:
		return c.In[from : from+n : from+n]
	case plan.Out:
		return c.Out[from : from+n : from+n]
	default:
		return t.tmp[:n:n]
	}
}

func linkError(err error, doing string, peer int32) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, transport.ErrPeerClosed) {
		return &closedEarly{peer: int(peer)}
	}
	return fmt.Errorf("%s rank %d: %w", doing, peer, err)
}
