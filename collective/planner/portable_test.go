package planner

import (
	"bytes"
	"compress/flate"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// A Planner that has traveled makes the plans of the one that it comes from.
func TestPortable(t *testing.T) {
	for _, name := range []string{"dgx1v", "pcie8", "dgxh100-x2"} {
		g, _ := topo.Machine(name)
		p, err := New(g, Machine{Cores: 4, Device: name != "pcie8"}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		q, h, err := FromPortable(p.Portable())
		if err != nil || h.Digest() != g.Digest() {
			t.Fatalf("%s: %v, %v", name, h, err)
		}
		for _, size := range []int64{8, 1 << 26} {
			a, errA := p.Choose(plan.AllReduce, -1, size)
			b, errB := q.Choose(plan.AllReduce, -1, size)
			if errA != nil || errB != nil || a.Chosen.Plan.Digest() != b.Chosen.Plan.Digest() || a.PredictedUs != b.PredictedUs {
				t.Errorf("%s, %d bytes: %v, %v", name, size, errA, errB)
			}
		}
	}
	if p, err := New(topo.UniformGraph(400), Machine{}, Options{}); err != nil || p.Portable() != nil {
		t.Errorf("a graph of 79800 links: %v", err)
	}
}

// FuzzFromPortable: bytes from another process are an error, or a Planner.
func FuzzFromPortable(f *testing.F) {
	g, _ := topo.Machine("dgx1v")
	p, err := New(g, Machine{Cores: 4}, Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(nil), false)
	f.Add(p.Portable(), false)
	f.Add([]byte(`{"Graph":{"ranks":2,"links":[{"a":0,"b":1,"gbytes_per_second":1}]},"Machine":{"Cores":1,"CoreHosts":[0,0],
"Device":false,"StagingBytes":0,"Slots":2,"SlotBytes":64},"Options":"ring"}`), true)
	f.Add([]byte(`{"Graph":null,"Machine":{"Cores":-1},"Options":"max-trees=99999999"}`), true)
	f.Fuzz(func(t *testing.T, data []byte, text bool) {
		if text { // its JSON
			var b bytes.Buffer
			w, _ := flate.NewWriter(&b, flate.BestSpeed)
			_, _ = w.Write(data)
			_ = w.Close()
			data = b.Bytes()
		}
		if p, g, err := FromPortable(data); err == nil && (p == nil || g.Validate() != nil) {
			t.Errorf("%v is not valid", g)
		}
	})
}
