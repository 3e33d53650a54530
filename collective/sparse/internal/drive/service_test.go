package drive

import (
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/collective/internal/exec"
	"github.com/treerun/treerun/collective/internal/kernel"
	"github.com/treerun/treerun/collective/sparse/block"
	"github.com/treerun/treerun/collective/sparse/omni"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/mem"
)

// served are two workers, by their ends of links, and an aggregator that serves them.
type served struct {
	eps   []transport.Endpoint
	links []*Links
	fault chan transport.Fault // of the aggregator; one without text: it was done
}

func serve(t *testing.T) *served {
	t.Helper()
	var lanes Lanes
	aggs := []int{lanes.Add(topo.Tree{Root: 2, Parent: []int{2, 2, -1}})}
	eps, err := mem.New(lanes.Layout(3, 8, 4096))
	if err != nil {
		t.Fatal(err)
	}
	s := &served{eps: eps, fault: make(chan transport.Fault, 1)}
	for r, ep := range eps {
		k, err := Open(ep, &lanes, r, 3, 2)
		if err != nil {
			t.Fatal(err)
		}
		s.links = append(s.links, k)
	}
	service := NewService(s.links[2], aggs, 64)
	if !service.Idle() || service.Done() {
		t.Error("it is busy before anybody has called")
	}
	go func() {
		f, _ := s.links[2].Run(t.Context(), service, &exec.Waiter{Spins: 1, Yields: 5}, "serving")
		s.fault <- f
	}()
	t.Cleanup(func() {
		for _, ep := range eps {
			_ = ep.Close()
		}
	})
	return s
}

// call makes a call of a worker, whose blocks are all there.
func (s *served) call(t *testing.T, worker int, tensor uint32, shape omni.Shape) transport.Fault {
	set := block.NewSet(shape.Grid.Blocks())
	for b := range shape.Grid.Blocks() {
		set.Add(b)
	}
	o := NewOmni(s.links[worker], []int{0})
	x := make([]byte, shape.Grid.Bytes())
	if err := o.Begin(tensor, shape, omni.Input{Blocks: set, Send: x, Recv: x}); err != nil {
		t.Error(err)
	}
	f, _ := s.links[worker].Run(t.Context(), o, &exec.Waiter{Spins: 1, Yields: 5}, "the call")
	return f
}

func shapeOf(elements, size int) omni.Shape {
	return omni.Shape{
		Grid: block.Grid{Elements: elements, Size: size, Width: 4}, DType: kernel.Float32, Op: kernel.Sum,
		Workers: 2, Aggregators: 1, Streams: 4, Columns: 2, Compact: true,
	}
}

// ended waits for the aggregator.
func (s *served) ended(t *testing.T) transport.Fault {
	t.Helper()
	select {
	case f := <-s.fault:
		return f
	case <-time.After(2 * time.Minute):
		t.Fatal("the aggregator still serves")
	}
	return transport.Fault{}
}

// An aggregator that has served calls, and whose workers close, is done.
func TestServiceEnds(t *testing.T) {
	s := serve(t)
	done := make(chan transport.Fault)
	go func() { done <- s.call(t, 1, 1, shapeOf(5000, 64)) }()
	if f := s.call(t, 0, 1, shapeOf(5000, 64)); f.Text != "" {
		t.Error(f)
	}
	if f := <-done; f.Text != "" {
		t.Error(f)
	}
	_, _ = s.eps[0].Close(), s.eps[1].Close()
	if f := s.ended(t); f.Text != "" {
		t.Error(f)
	}
}

// Workers whose calls differ, in whatever, all get a mismatch that says what each has
// called. So does one that goes on with another tensor.
func TestServiceMismatch(t *testing.T) {
	for want, other := range map[string]omni.Shape{
		"sum of 4000 float32 in blocks of 64,": shapeOf(4000, 64),
		"in blocks of 32,":                     shapeOf(5000, 32),
		"number 4":                             {},
	} {
		s := serve(t)
		faults := make(chan transport.Fault, 2)
		go func() { faults <- s.call(t, 0, 3, shapeOf(5000, 64)) }()
		go func() {
			if other.Workers == 0 {
				faults <- s.call(t, 1, 4, shapeOf(5000, 64))
				return
			}
			faults <- s.call(t, 1, 3, other)
		}()
		for range 2 {
			if f := <-faults; !strings.HasPrefix(f.Text, exec.FaultMismatch+"aggregator 0 in serving") || !strings.Contains(f.Text, want) {
				t.Errorf("%+v, want a mismatch with %q", f, want)
			}
		}
		if f := s.ended(t); f.Text == "" {
			t.Error("the aggregator goes on")
		}
	}
}

// A message that is no call, and one that claims more than links carry, is the fault
// of who has sent it.
func TestServiceRefuses(t *testing.T) {
	big := shapeOf(1<<20, 4096)
	for want, send := range map[string]struct {
		head transport.Header
		data []byte
	}{
		"before its call":   {transport.Header{Seq: 1, Root: -1}, make([]byte, 40)},
		"announce no call":  {transport.Header{Seq: 1, Root: callRoot}, []byte("GET / HTTP/1.1")},
		"packets of up to ": {transport.Header{Seq: 1, Root: callRoot}, (&omni.Call{Tensor: 1, Shape: big}).Encode()},
	} {
		s := serve(t)
		to := s.links[1].trees[0].toParent
		window, ok, err := to.TryReserve(len(send.data))
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		copy(window, send.data)
		to.Commit(&send.head)
		if f := s.ended(t); f.Rank != 2 || !strings.Contains(f.Text, want) || !strings.Contains(f.Text, "rank 1") {
			t.Errorf("%+v, want %q of rank 1", f, want)
		}
	}
}

// A worker that has left cannot take part in the next call.
func TestServiceAfterAWorkerHasLeft(t *testing.T) {
	s := serve(t)
	_ = s.eps[1].Close()
	f := s.call(t, 0, 1, shapeOf(5000, 64))
	if !strings.HasPrefix(f.Text, exec.FaultClosed) || f.Rank != 1 {
		t.Errorf("%+v, want that rank 1 has closed", f)
	}
	s.ended(t)
}
