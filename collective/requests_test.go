package collective

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/treerun/treerun/collective/internal/comm"
	"github.com/treerun/treerun/topo"
)

// TestInFlight starts more calls than can be in flight, of several kinds, and waits for some of them in another order.
func TestInFlight(t *testing.T) {
	const calls = 3 * comm.InFlight / 2
	for _, size := range []int{1, 2, 5} {
		mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
			requests := make([]Request, calls)
			sums := make([][]int32, calls)
			for i := range requests {
				x := make([]int32, 1+i*37%3000)
				for j := range x {
					x[j] = int32(c.Rank() + i + j)
				}
				sums[i] = x
				var err error
				switch i % 3 {
				case 0:
					requests[i], err = StartAllReduce(c, x, x, Sum)
				case 1:
					requests[i], err = StartBroadcast(c, x, x, i%size)
				default:
					requests[i], err = StartAllReduceCoalesced(c, [][]int32{x[:len(x)/2], x[len(x)/2:]},
						[][]int32{x[:len(x)/2], x[len(x)/2:]}, Max)
				}
				if err != nil {
					return err
				}
			}
			for _, i := range []int{5, calls - 1, 100} {
				if err := requests[i].Wait(t.Context()); err != nil {
					return err
				}
			}
			for i, x := range sums {
				if done, err := requests[i].Test(); !done || err != nil {
					return fmt.Errorf("request %d after the last: %v, %v", i, done, err)
				}
				for j := range x {
					want := int32(size*(i+j) + size*(size-1)/2)
					switch i % 3 {
					case 1:
						want = int32(i%size + i + j)
					case 2:
						want = int32(size - 1 + i + j)
						if h := len(x) / 2; j >= h {
							want = int32(size - 1 + i + j)
						}
					}
					if x[j] != want {
						return fmt.Errorf("call %d: element %d is %d, want %d", i, j, x[j], want)
					}
				}
			}
			return nil
		})
	}
}

// TestReceiveThatStaysOpen: a receive may wait indefinitely while any number of other messages is exchanged, and one
// that was done long ago stays done.
func TestReceiveThatStaysOpen(t *testing.T) {
	const rounds = 300
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		peer, last, first := 1-c.in.Rank, make([]int32, 100), Message{}
		open, err := StartRecv(c, last, peer, 99)
		if err != nil {
			return err
		}
		for i := range int32(rounds) {
			send, recv := []int32{i, i + 1}, make([]int32, 2)
			out, err := StartSend(c, send, peer, int(i%7))
			if err != nil {
				return err
			}
			if err := received(t.Context(), c, recv, peer, int(i%7)); err != nil {
				return err
			}
			if !slices.Equal(send, recv) {
				return fmt.Errorf("round trip %d brought %v", i, recv)
			}
			if i == 0 {
				first = out
			}
			if err := out.Wait(t.Context()); err != nil {
				return err
			}
		}
		if done, err := open.Test(); done || err != nil {
			return fmt.Errorf("the open receive is done: %v, %v", done, err)
		}
		if done, err := first.Test(); !done || err != nil {
			return fmt.Errorf("the first message is done: %v, %v", done, err)
		}
		if err := Barrier(t.Context(), c); err != nil { // the peer may be ahead
			return err
		}
		want := slices.Repeat([]int32{7}, len(last))
		if err := errors.Join(Send(t.Context(), c, want, peer, 99), open.Wait(t.Context()),
			first.Wait(t.Context())); err != nil {
			return err
		}
		if !slices.Equal(last, want) {
			return fmt.Errorf("the open receive brought %v", last)
		}
		return nil
	}, WithGraph(topo.UniformGraph(2)))
}

// TestManyReceivesOpen: a rank may post more receives than any table has room for before it sends the messages that its
// peer's receives wait for.
func TestManyReceivesOpen(t *testing.T) {
	const open = 1000
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		peer, got, all := 1-c.in.Rank, make([]int32, open), make([]Message, open)
		for i := range all {
			var err error
			if all[i], err = StartRecv(c, got[i:i+1], peer, i); err != nil {
				return err
			}
		}
		for i := range int32(open) {
			if err := Send(t.Context(), c, []int32{i * i}, peer, open-1-int(i)); err != nil {
				return err
			}
		}
		for i, m := range all {
			if err := m.Wait(t.Context()); err != nil {
				return err
			}
			if want := int32((open - 1 - i) * (open - 1 - i)); got[i] != want {
				return fmt.Errorf("under tag %d: %d, want %d", i, got[i], want)
			}
		}
		return nil
	}, WithGraph(topo.UniformGraph(2)))
}

// TestSendRecvInACircle passes messages that exceed the capacity of every link around, forwards and backwards.
func TestSendRecvInACircle(t *testing.T) {
	for _, size := range []int{1, 2, 3, 6} {
		mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
			const count = 300_000
			send, recv := make([]float64, count), make([]float64, count)
			for _, step := range []int{1, size - 1} {
				to, from := (c.Rank()+step)%size, (c.Rank()+size-step)%size
				for i := range send {
					send[i] = float64(c.Rank()*count + i)
				}
				if err := exchanged(t.Context(), c, send, to, recv, from, 7); err != nil {
					return err
				}
				for i := range recv {
					if recv[i] != float64(from*count+i) {
						return fmt.Errorf("element %d is %v", i, recv[i])
					}
				}
			}
			return Barrier(t.Context(), c)
		})
	}
}

// TestPreMultipliedForms runs the pre-multiplied sums, and Barrier, as Requests
// and as persistent calls.
func TestPreMultipliedForms(t *testing.T) {
	const size = 3
	mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
		factor := int32(c.Rank() + 1)
		send, recv := make([]int32, size*100), make([]int32, size*100)
		for i := range send {
			send[i] = int32(i)
		}
		part := recv[:100]
		first := func(p *Persistent, err error) error {
			if err != nil {
				return err
			}
			return p.Run(t.Context())
		}
		wait := func(r Request, err error) error {
			if err != nil {
				return err
			}
			return r.Wait(t.Context())
		}
		for _, call := range []func() error{
			func() error { return wait(StartAllReducePreMul(c, send, recv, factor)) },
			func() error { return first(AllReducePreMulInit(c, send, recv, factor)) },
		} {
			clear(recv)
			if err := call(); err != nil {
				return err
			}
			for i := range recv {
				if recv[i] != int32(6*i) {
					return fmt.Errorf("element %d is %d, want %d", i, recv[i], 6*i)
				}
			}
		}
		for _, call := range []func() error{
			func() error { return wait(StartReduceScatterPreMul(c, send, part, factor)) },
			func() error { return first(ReduceScatterPreMulInit(c, send, part, factor)) },
		} {
			clear(part)
			if err := call(); err != nil {
				return err
			}
			for i := range part {
				if want := int32(6 * (c.Rank()*100 + i)); part[i] != want {
					return fmt.Errorf("element %d of the part is %d, want %d", i, part[i], want)
				}
			}
		}
		for _, call := range []func() error{
			func() error { return wait(StartReducePreMul(c, send, recv, factor, 1)) },
			func() error { return first(ReducePreMulInit(c, send, recv, factor, 1)) },
		} {
			clear(recv)
			if err := call(); err != nil {
				return err
			}
			for i := range recv {
				if c.Rank() == 1 && recv[i] != int32(6*i) {
					return fmt.Errorf("element %d at the root is %d, want %d", i, recv[i], 6*i)
				}
			}
		}
		return first(BarrierInit(c))
	})
}
