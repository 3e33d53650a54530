package devices

import (
	"testing"

	"github.com/treerun/treerun/collective/internal/device"
	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/topo"
)

// served returns the shape of the links that the planner's choices for a machine need.
func served(t *testing.T, name string, location func(src, dst int) device.Location) device.Shape {
	t.Helper()
	g, ok := topo.Machine(name)
	if !ok {
		t.Fatalf("no machine %s", name)
	}
	p, err := planner.New(g, planner.Machine{Device: true}, planner.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := device.Shape{Location: location, Messages: p.Site.HasPairs()}
	s.Slots, s.SlotBytes = p.Site.Slots()
	for _, kind := range Kinds {
		all, err := p.AllPlans(kind)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range all {
			s.Plans = append(s.Plans, one.Plan)
		}
	}
	return s
}

// TestPinnedBytes: where none of eight GPUs reads another one's memory, a rank pins no more than 64 MiB.
func TestPinnedBytes(t *testing.T) {
	s := served(t, "pcie8", func(int, int) device.Location { return device.InHost })
	for rank := range s.Plans[0].Size {
		l, err := device.NewLayout(s, rank)
		if err != nil {
			t.Fatal(err)
		}
		l.Fit(planner.DefaultStagingBytes)
		b := block{Flags: l.FlagBytes(), SlotBytes: l.Owned[device.InHost]}
		pins := l.Seen[device.InHost][rank] + int64(b.slotsAt(0))
		t.Logf("rank %d pins %.1f MiB for slots of %d bytes; the host gives %.1f MiB", rank,
			float64(pins)/(1<<20), l.HostBytes, float64(b.bytes())/(1<<20))
		if pins > 64<<20 {
			t.Errorf("rank %d pins %d bytes", rank, pins)
		}
		if l.Owned[device.InDevice][rank] != 0 || l.UsesNetwork() {
			t.Errorf("rank %d allocates %d bytes of device memory, uses the network %v", rank,
				l.Owned[device.InDevice][rank], l.UsesNetwork())
		}
	}
}
