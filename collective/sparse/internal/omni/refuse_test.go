package omni

import (
	"encoding/binary"
	"errors"
	"github.com/treerun/treerun/collective/sparse/internal/block"
	"strings"
	"testing"
)

// pair returns an aggregator and a worker at the begin of the fuzz tests' tensor,
// and their first packets of stream 0.
func pair(t *testing.T) (x *tensors, a *Aggregator, workers [2]*Worker, first [2][]byte) {
	t.Helper()
	x = fuzzed()
	x.shape.Lists = false
	a = NewAggregator(0)
	if err := a.Begin(1, x.shape); err != nil {
		t.Fatal(err)
	}
	_, recv := x.Buffers(false)
	for w := range workers {
		workers[w] = NewWorker(w)
		if err := workers[w].Begin(1, x.shape,
			Input{Blocks: x.Sets[w], Send: x.Send[w], Recv: recv[w], Fill: true}); err != nil {
			t.Fatal(err)
		}
		p := make([]byte, x.shape.MaxPacket())
		first[w] = p[:workers[w].Compose(0, p)]
	}
	return x, a, workers, first
}

func put16(at int, v uint16) func([]byte) []byte {
	return func(p []byte) []byte { binary.LittleEndian.PutUint16(p[at:], v); return p }
}

func put32(at int, v uint32) func([]byte) []byte {
	return func(p []byte) []byte { binary.LittleEndian.PutUint32(p[at:], v); return p }
}

// last puts v into the last entry of the table.
func last(v uint32) func([]byte) []byte {
	return func(p []byte) []byte { binary.LittleEndian.PutUint32(p[len(p)-4:], v); return p }
}

// What is wrong with a packet is an error that says so.
func TestPacketsThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func([]byte) []byte
		says   string
	}{
		"short":    {func(p []byte) []byte { return p[:HeaderBytes-1] }, "less than a header"},
		"no table": {func(p []byte) []byte { return p[:HeaderBytes] }, "table"},
		"cut":      {func(p []byte) []byte { return append(p[:HeaderBytes:HeaderBytes], p[HeaderBytes+4:]...) }, "left"},
		"too long": {func(p []byte) []byte {
			return append(p[:HeaderBytes:HeaderBytes], append(make([]byte, 4), p[HeaderBytes:]...)...)
		}, "behind"},
		"worker":         {put16(12, 7), "there are 2 workers"},
		"a result":       {put16(12, 0xFFFF), "there are 2 workers"},
		"stream":         {put16(0, 900), "not of this aggregator"},
		"tensor":         {put32(4, 9), "is at tensor 1"},
		"round":          {put32(8, 1), "is at tensor 1, round 0"},
		"beyond the end": {last(11), "neither"},
		"other stream":   {last(2), "not of stream 0"},
		"not behind":     {last(1), "says 1 is next"},
		"column twice":   {last(4), "twice"},
		"other infinity": {last(16), "neither"},
		"far behind":     {last(0xFFFFFFFF), "neither"},
		"infinity beside": {func(p []byte) []byte { s := fuzzed().shape; return last(s.infinity(3))(p) },
			"not of stream 0"},
	} {
		_, a, _, first := pair(t)
		p := first[0]
		if h, _ := Decode(p); h.Entries != 2 || h.Blocks == 0 {
			t.Fatalf("the packet to change is %+v", h)
		}
		_, err := a.Handle(c.change(p))
		if !errors.Is(err, block.ErrProtocol) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// A worker that answers when it was not asked, or does not when it was, is found
// out; a repeated packet is an error, too.
func TestAnswersOutOfTurn(t *testing.T) {
	_, a, _, first := pair(t)
	if _, err := a.Handle(first[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Handle(first[0]); !errors.Is(err, block.ErrProtocol) ||
		!strings.Contains(err.Error(), "does not have") {
		t.Errorf("a packet twice: %v", err)
	}
	_, a, _, first = pair(t)
	if _, err := a.Handle(first[0]); err != nil {
		t.Fatal(err)
	}
	if answer, err := a.Handle(first[1]); err != nil || answer.Packet == nil {
		t.Fatalf("no result (%v)", err)
	}
	// A worker that was asked for a block has to send it.
	h, _ := Decode(first[0])
	ack := make([]byte, HeaderBytes)
	h.Blocks, h.Entries, h.Round = 0, 0, 1
	h.put(ack)
	owner := -1
	for k, b := range a.slots[0].at {
		if b != none && a.slots[0].next[k] == b {
			owner = 0
		}
	}
	if owner < 0 {
		t.Fatal("worker 0 is not asked for anything: another tensor is needed here")
	}
	if _, err := a.Handle(ack); !errors.Is(err, block.ErrProtocol) || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("an empty answer of a worker that was asked: %v", err)
	}
}

// An aggregator that passes over a worker's block is found out by that worker.
func TestResultsThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func([]byte) []byte
		says   string
	}{
		"block passed over": {func(p []byte) []byte { s := fuzzed().shape; return last(s.infinity(1))(p) },
			"still has block"},
		"from a worker": {put16(12, 1), "to a worker"},
		"stream":        {put16(0, 900), "no such stream"},
		"round":         {put32(8, 1), "is at tensor 1, round 0"},
		"a column less": {func(p []byte) []byte { q := put16(14, 1)(p); return q[:len(q)-4] }, ""},
	} {
		_, a, workers, first := pair(t)
		if _, err := a.Handle(first[0]); err != nil {
			t.Fatal(err)
		}
		answer, err := a.Handle(first[1])
		if err != nil || answer.Packet == nil {
			t.Fatalf("no result (%v)", err)
		}
		_, err = workers[0].Handle(c.change(append([]byte(nil), answer.Packet...)))
		if !errors.Is(err, block.ErrProtocol) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

func TestBeginRefuses(t *testing.T) {
	x, a, workers, _ := pair(t)
	if err := a.Begin(2, x.shape); err == nil {
		t.Error("an aggregator begins a tensor before the one before is done")
	}
	if err := workers[0].Begin(2, x.shape, Input{}); err == nil {
		t.Error("a worker begins a tensor before the one before is done")
	}
	if err := NewWorker(2).Begin(1, x.shape, Input{Blocks: x.Sets[0], Send: x.Send[0], Recv: x.Send[0]}); err == nil {
		t.Error("worker 2 of 2 begins")
	}
	if err := NewWorker(0).Begin(1, x.shape, Input{Blocks: x.Sets[0], Send: x.Send[0], Recv: nil}); err == nil {
		t.Error("a worker begins without memory for the result")
	}
	if err := NewAggregator(1).Begin(1, x.shape); err == nil {
		t.Error("aggregator 1 of 1 begins")
	}
	if _, err := NewAggregator(0).Handle(make([]byte, HeaderBytes)); !errors.Is(err, block.ErrProtocol) {
		t.Errorf("a packet before any tensor: %v", err)
	}
}
