package setup

import (
	"reflect"
	"testing"

	"github.com/treerun/treerun/topo"
)

// FuzzPackedGraph: what is read of a graph is a valid one, and is written as it was.
func FuzzPackedGraph(f *testing.F) {
	dgx, _ := topo.Machine("dgx1v")
	for _, g := range []*topo.Graph{topo.UniformGraph(1), topo.UniformGraph(5), dgx} {
		data, err := packGraph(g)
		if err != nil {
			f.Fatal(err)
		}
		got, err := unpackGraph(data)
		if err != nil || got.Digest() != g.Digest() {
			f.Errorf("%v: got %v, %v", g, got, err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := unpackGraph(data)
		if err != nil {
			return
		}
		again, err := packGraph(g)
		if err != nil {
			t.Fatal(err)
		}
		other, err := unpackGraph(again)
		if err != nil || !reflect.DeepEqual(other, g) {
			t.Errorf("%v, %v", other, err)
		}
	})
}
