package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/treerun/treerun/collective/internal/p2p"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/shm"
)

// connectShm connects all ranks of a layout over a shared memory file. Ranks read and
// write each other's own memory by system calls, as processes do.
func connectShm(l transport.Layout) ([]transport.Endpoint, error) {
	return together(l, func(ctx context.Context, r int, exchange exchange) (transport.Endpoint, error) {
		return shm.Connect(ctx, shm.Config{
			Rank: r, Layout: l, Key: make([]byte, shm.KeyBytes), JobID: "test", Exchange: exchange,
		})
	})
}

// TestUnexpected receives messages that both ends copy behind one of another tag, so
// that they come before their receives, and compares all bytes.
func TestUnexpected(t *testing.T) {
	const rounds = 60
	sizes := []int{16 << 10, 64 << 10, 100 << 10, 1 << 20, 3 << 20}
	for r, err := range everyPair(t, 2, 8, 4096, func(k *Engine, rank int, w *Waiter) error {
		rng := rand.New(rand.NewPCG(12, 2)) // the same on both ranks
		wait := func(all ...*p2p.Message) error {
			for _, p := range all {
				if fault, failed := k.WaitMessage(context.Background(), p, w); failed {
					return fmt.Errorf("%v: %+v", p, fault)
				}
			}
			return nil
		}
		for round := range rounds {
			var messages []*p2p.Message
			var want [][]byte
			for tag := 1; tag <= 3; tag++ {
				n := sizes[rng.IntN(len(sizes))] / 4
				want = append(want, numbers(10*round+tag, n))
				messages = append(messages, message(1-rank, tag, n, make([]byte, 4*n)))
			}
			empty := message(1-rank, 4, 0, nil)
			if rank == 0 {
				for i, p := range messages {
					copy(p.Buf, want[i])
					if err := k.StartMessage(p, true); err != nil {
						return err
					}
				}
				if err := k.StartMessage(empty, true); err != nil {
					return err
				}
				if err := wait(append(messages, empty)...); err != nil { // copies its part: it receives nothing
					return err
				}
				answer := message(1, 5, 0, nil)
				if err := k.StartMessage(answer, false); err != nil {
					return err
				}
				if err := wait(answer); err != nil {
					return err
				}
				continue
			}
			if err := k.StartMessage(empty, false); err != nil {
				return err
			}
			if err := wait(empty); err != nil {
				return err
			}
			answer := message(0, 5, 0, nil)
			if err := k.StartMessage(answer, true); err != nil {
				return err
			}
			for i, p := range messages {
				got := p.Buf // p drops it
				if err := k.StartMessage(p, false); err != nil {
					return err
				}
				if err := wait(p); err != nil {
					return err
				}
				if !bytes.Equal(got, want[i]) {
					return fmt.Errorf("round %d: %d of %d bytes under tag %d are not what was sent",
						round, differ(got, want[i]), len(got), i+1)
				}
			}
			if err := wait(answer); err != nil {
				return err
			}
		}
		return nil
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

func differ(a, b []byte) (n int) {
	for i := range a {
		if a[i] != b[i] {
			n++
		}
	}
	return n
}

// TestWideMismatch: a payload that is read from its sender's own memory and belongs to another
// call ends the call; as many bytes of another type are no result.
func TestWideMismatch(t *testing.T) {
	const count = 64 << 10
	p := fromTrees(t, plan.Broadcast, binomials(2)[:1], plan.Single)
	eachRank(t, []*plan.Plan{p}, 4, 16<<10, func(r int, programs []*Program, w *Waiter) error {
		c := sumOf(1, count)
		c.ID.Kind, c.ID.Root, c.ID.Op, c.Op = call.Broadcast, 0, 0, 0
		if r == 1 {
			c.DType = kernel.Float32
			c.ID.DType = kernel.Float32
		}
		c.In, c.Out = numbers(r, count), make([]byte, 4*count)
		fault, failed := programs[0].Run(context.Background(), &c, w)
		switch {
		case !c.wide:
			return errors.New("it goes through slots")
		case r == 1 && (!failed || fault.Kind != transport.FaultMismatch):
			return fmt.Errorf("what rank 0 sent of another call is taken: %+v", fault)
		}
		return nil
	})
}
