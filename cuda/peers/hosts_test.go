//go:build cgo

package peers

import (
	"bytes"
	"strings"
	"testing"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/docs/fakegpu"
	"github.com/treerun/treerun/rank/ranktest"
	"github.com/treerun/treerun/topo"
)

// onHosts lets a rank for each device measure, on these hosts; all must get the same.
func onHosts(t *testing.T, hosts, devices []int) ([]HostResult, error) {
	t.Helper()
	fakegpu.Need(t)
	list, err := cuda.Devices()
	if err != nil {
		t.Fatal(err)
	}
	results := make([][]HostResult, len(devices))
	errs := ranktest.New(hosts...).Run(t, func(w *ranktest.World) (err error) {
		results[w.Rank()], err = OnHosts(t.Context(), w, list[devices[w.Rank()]], Options{Forget: true})
		return err
	})
	for rank := range devices {
		if (errs[rank] == nil) != (errs[0] == nil) {
			t.Fatalf("rank 0: %v, rank %d: %v", errs[0], rank, errs[rank])
		}
		for i := range results[0] {
			a, _ := results[0][i].AppendJSON(nil)
			b, _ := results[rank][i].AppendJSON(nil)
			if !bytes.Equal(a, b) {
				t.Fatalf("ranks 0 and %d have different results", rank)
			}
		}
	}
	return results[0], errs[0]
}

// TestOnHosts: hosts with different numbers of ranks measure at the same time, for
// different numbers of turns, and all ranks know all of them afterwards.
func TestOnHosts(t *testing.T) {
	hosts := []int{0, 1, 0, 1, 1, 2}
	found, err := onHosts(t, hosts, []int{0, 4, 3, 5, 7, 2})
	if err != nil {
		t.Fatal(err)
	}
	ranks := &topo.Graph{Ranks: 6, Hosts: hosts, Links: []topo.Link{
		{A: 0, B: 1, GBytesPerSecond: 1, Kind: topo.TCP, Source: topo.Measured}, {A: 0, B: 5, GBytesPerSecond: 1, Kind: topo.TCP, Source: topo.Measured},
		{A: 0, B: 2, GBytesPerSecond: 9, Kind: "shm", Source: topo.Measured},
	}}
	g, err := Join(ranks, found, false)
	if err != nil {
		t.Fatal(err)
	}
	kinds := make(map[string]int)
	for _, l := range g.Links {
		kinds[l.Kind]++
	}
	if len(found) != 3 || len(found[1].Ranks) != 3 || kinds["nvlink"] != 4 || kinds[topo.TCP] != 2 || len(g.Links) != 6 {
		t.Errorf("%d hosts, links %v", len(found), g.Links)
	}
	for _, h := range found {
		data, err := h.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseHost(data)
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := back.AppendJSON(nil); !bytes.Equal(again, data) {
			t.Errorf("comes back as\n%s\nwritten\n%s", again, data)
		}
	}
}

// Where one host fails all hear of it.
func TestOnHostsFails(t *testing.T) {
	if !inChild(t, noMemoryFrom(1)) {
		return
	}
	if _, err := onHosts(t, []int{0, 0, 1, 1}, []int{0, 1, 2, 3}); err == nil || !strings.Contains(err.Error(), "OUT_OF_MEMORY") {
		t.Errorf("error %v", err)
	}
}
