package exec

import (
	"testing"

	"github.com/treerun/treerun/collective/internal/kernel"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/mem"
)

// A rank lingers only where the root can send all without it, and as long as a chunk
// takes at the most.
func TestPolls(t *testing.T) {
	layout := transport.Layout{Size: 3, Slots: 4, SlotBytes: 4 << 10}
	eps, err := mem.New(layout)
	if err != nil {
		t.Fatal(err)
	}
	for _, ep := range eps {
		defer ep.Close()
	}
	k, err := NewLinks(eps[1], 1, &layout, -1, true, true)
	if err != nil {
		t.Fatal(err)
	}
	const spins = 1
	for _, x := range []struct {
		name    string
		lingers bool
		kind    plan.Kind
		root    int32
		bytes   uint64
		wide    bool
		want    int
	}{
		{"a Broadcast", true, plan.Broadcast, 0, 1 << 10, false, lingerPolls + 16},
		{"a Scatter", true, plan.Scatter, 0, 1 << 10, false, lingerPolls + 16},
		{"of several chunks", true, plan.Broadcast, 0, 10 << 10, false, lingerPolls + 64},
		{"of more than the slots hold", true, plan.Broadcast, 0, 11 << 10, false, spins},
		{"whose root this rank is", true, plan.Broadcast, 1, 1 << 10, false, spins},
		{"that is read from the root's memory", true, plan.Scatter, 0, 1 << 10, true, spins},
		{"between ranks with cores of their own", false, plan.Broadcast, 0, 1 << 10, false, spins},
		{"a Gather", true, plan.Gather, 0, 1 << 10, false, spins},
		{"an AllReduce", true, plan.AllReduce, -1, 1 << 10, false, spins},
	} {
		w := &Waiter{Spins: spins, Lingers: x.lingers}
		c := &Call{Header: transport.Header{Kind: uint8(x.kind), Root: x.root, Count: x.bytes / 4}, DType: kernel.Float32, wide: x.wide}
		if got := w.polls(k, c); got != x.want {
			t.Errorf("%s: %d polls, want %d", x.name, got, x.want)
		}
	}
}
