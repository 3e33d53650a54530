package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/transport"
)

// announced is the receiving end of a link with a chunk of that many bytes.
type announced struct {
	transport.LentReceiver
	bytes int
}

func (a announced) TryHead(h *call.Header) (int, bool, error) {
	*h = call.Header{}
	return a.bytes, true, nil
}

// TestWideChunkOfAnotherLength: a chunk of a wide call that is longer than its step, or empty, is an error.
func TestWideChunkOfAnotherLength(t *testing.T) {
	for _, bytes := range []int{0, 5} {
		tr := track{e: new(Engine), call: new(Call)}
		s := &step{operands: []operand{{Operand: plan.Operand{From: 1}, in: announced{bytes: bytes}}}}
		want := fmt.Sprintf("rank 1 sent %d bytes where 4 belong", bytes)
		if _, _, err := tr.recvChunk(s, 0, 4); err == nil || err.Error() != want {
			t.Errorf("a chunk of %d bytes: %v, want %q", bytes, err, want)
		}
	}
}

// TestLentUntilRead: a root whose memory the other rank reads where it lies has to wait until it is read.
func TestLentUntilRead(t *testing.T) {
	const count = 64 << 10
	p := fromTrees(t, plan.Broadcast, binomials(2)[:1], plan.Single)
	eachRank(t, []*plan.Plan{p}, 4, 16<<10, func(r int, programs []*Program, w *Waiter) error {
		c := sumOf(1, count)
		c.ID.Kind, c.ID.Root, c.ID.Op, c.Op = call.Broadcast, 0, 0, 0
		in, out := numbers(0, count), make([]byte, 4*count)
		c.In, c.Out = in, out
		if r == 1 {
			time.Sleep(20 * time.Millisecond)
		}
		if fault, failed := programs[0].Run(context.Background(), &c, w); failed {
			return fault
		}
		switch {
		case r == 0:
			clear(in)
		case !c.wide:
			return errors.New("it goes through slots")
		case !slices.Equal(out, in):
			return errors.New("the root has returned before its memory was read")
		}
		return nil
	})
}
