package collective

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/treerun/treerun/topo"
)

// everyCall returns all functions that use a communicator of at least two ranks, with valid arguments.
func everyCall(t *testing.T, c *Comm) (map[string]func() error, error) {
	ctx := t.Context()
	x, y := make([]float32, 5), make([]float32, 5*c.in.Size)
	xs := [][]float32{x}
	next := (c.in.Rank + 1) % c.in.Size
	prepared, err := AllReduceInit(c, x, x, Sum)
	if err != nil {
		return nil, err
	}
	started := func(_ Request, err error) error { return err }
	begun := func(_ Message, err error) error { return err }
	return map[string]func() error{
		"AllReduce":               func() error { return AllReduce(ctx, c, x, x, Sum) },
		"Reduce":                  func() error { return Reduce(ctx, c, x, x, Sum, 0) },
		"Broadcast":               func() error { return Broadcast(ctx, c, x, x, 0) },
		"AllGather":               func() error { return AllGather(ctx, c, x, y) },
		"ReduceScatter":           func() error { return ReduceScatter(ctx, c, y, x, Sum) },
		"AllToAll":                func() error { return AllToAll(ctx, c, y, y) },
		"Gather":                  func() error { return Gather(ctx, c, x, y, 0) },
		"Scatter":                 func() error { return Scatter(ctx, c, y, x, 0) },
		"Barrier":                 func() error { return Barrier(ctx, c) },
		"AllReducePreMul":         func() error { return AllReducePreMul(ctx, c, x, x, 2) },
		"ReducePreMul":            func() error { return ReducePreMul(ctx, c, x, x, 2, 0) },
		"ReduceScatterPreMul":     func() error { return ReduceScatterPreMul(ctx, c, y, x, 2) },
		"AllReduceCoalesced":      func() error { return AllReduceCoalesced(ctx, c, xs, xs, Sum) },
		"BroadcastCoalesced":      func() error { return BroadcastCoalesced(ctx, c, xs, xs, 0) },
		"StartAllReduce":          func() error { return started(StartAllReduce(c, x, x, Sum)) },
		"StartReduce":             func() error { return started(StartReduce(c, x, x, Sum, 0)) },
		"StartBroadcast":          func() error { return started(StartBroadcast(c, x, x, 0)) },
		"StartAllGather":          func() error { return started(StartAllGather(c, x, y)) },
		"StartReduceScatter":      func() error { return started(StartReduceScatter(c, y, x, Sum)) },
		"StartAllToAll":           func() error { return started(StartAllToAll(c, y, y)) },
		"StartGather":             func() error { return started(StartGather(c, x, y, 0)) },
		"StartScatter":            func() error { return started(StartScatter(c, y, x, 0)) },
		"StartBarrier":            func() error { return started(StartBarrier(c)) },
		"StartAllReduceCoalesced": func() error { return started(StartAllReduceCoalesced(c, xs, xs, Sum)) },
		"StartBroadcastCoalesced": func() error { return started(StartBroadcastCoalesced(c, xs, xs, 0)) },
		"Persistent.Run":          func() error { return prepared.Run(ctx) },
		"Persistent.Start":        func() error { return started(prepared.Start()) },
		"Send":                    func() error { return Send(ctx, c, x, next, 0) },
		"Recv":                    func() error { return received(ctx, c, x, next, 0) },
		"SendRecv":                func() error { return exchanged(ctx, c, x, next, y[:5], next, 0) },
		"SendRecv, with itself":   func() error { return exchanged(ctx, c, x, c.in.Rank, y[:5], c.in.Rank, 0) },
		"StartSend":               func() error { return begun(StartSend(c, x, next, 0)) },
		"StartRecv":               func() error { return begun(StartRecv(c, x, next, 0)) },
	}, nil
}

// TestAfterClose: every call on a closed communicator returns ErrClosed, and a second Close does nothing.
func TestAfterClose(t *testing.T) {
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		calls, err := everyCall(t, c)
		if err != nil {
			return err
		}
		sum := []int{c.Rank()}
		request, err := StartAllReduce(c, sum, sum, Sum)
		if err != nil {
			return err
		}
		message, err := StartSend(c, sum, c.Rank(), 77)
		if err != nil {
			return err
		}
		if _, err := Recv(t.Context(), c, sum[:1:1], c.Rank(), 77); err != nil {
			return err
		}
		if err := errors.Join(Barrier(t.Context(), c), c.Close(), c.Close()); err != nil {
			return err
		}
		if err := errors.Join(request.Wait(t.Context()), message.Wait(t.Context())); err != nil {
			return fmt.Errorf("what was done before Close: %w", err)
		}
		for name, call := range calls {
			if err := call(); !errors.Is(err, ErrClosed) {
				return fmt.Errorf("%s after Close: %v, want ErrClosed", name, err)
			}
		}
		return nil
	}, WithGraph(topo.UniformGraph(2)))
}

// TestOneCallAtATime: every call of a second goroutine returns ErrBusy, and does not disturb the call in flight.
func TestOneCallAtATime(t *testing.T) {
	refused := make(chan struct{})
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		sum, got := []float32{1, 2, 3}, make([]int8, 9)
		request, err := StartAllReduce(c, sum, sum, Sum)
		if err != nil {
			return err
		}
		if c.in.Rank == 1 {
			<-refused
			return errors.Join(Barrier(t.Context(), c), Send(t.Context(), c, got, 0, 4), request.Wait(t.Context()))
		}
		message, err := StartRecv(c, got, 1, 4)
		if err == nil {
			err = refuseAll(t, c, request, message, func() { close(refused) })
		}
		if err := errors.Join(err, message.Wait(t.Context()), request.Wait(t.Context())); err != nil {
			return err
		}
		if !slices.Equal(sum, []float32{2, 4, 6}) {
			return fmt.Errorf("the sum that was under way is %v", sum)
		}
		return nil
	}, WithGraph(topo.UniformGraph(2)))
}

// refuseAll makes all calls while a Barrier waits for done.
func refuseAll(t *testing.T, c *Comm, request Request, message Message, done func()) error {
	calls, err := everyCall(t, c)
	if err != nil {
		return err
	}
	calls["Wait"] = func() error { return request.Wait(t.Context()) }
	calls["Test"] = func() error { _, err := request.Test(); return err }
	calls["Wait for a message"] = func() error { return message.Wait(t.Context()) }
	calls["Test of a message"] = func() error { _, err := message.Test(); return err }
	barrier := make(chan error)
	go func() { barrier <- Barrier(t.Context(), c) }()
	for !c.in.Claimed() {
		time.Sleep(time.Millisecond)
	}
	for name, call := range calls {
		if busy := call(); !errors.Is(busy, ErrBusy) {
			err = errors.Join(err, fmt.Errorf("%s during a call: %v, want ErrBusy", name, busy))
		}
	}
	done()
	return errors.Join(err, <-barrier)
}
