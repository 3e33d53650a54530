//go:build cgo && linux

package peers

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/treerun/treerun/rank"
	"github.com/treerun/treerun/topo"
)

// apart is a World whose ranks are on these hosts, though they run on one.
type apart struct {
	*rank.World
	hosts []int
}

func (w *apart) HostOf(r int) int { return w.hosts[r] }

// onHosts measures as this rank, on these hosts and devices; all must get the same.
func onHosts(t *testing.T, hosts, devices []int) ([]HostResult, error) {
	t.Helper()
	results, err := Measure(t.Context(), &apart{member, hosts}, deviceAt(t, devices[member.Rank()]), Options{})
	text := "failed"
	if err == nil {
		data, err := json.Marshal(results)
		if err != nil {
			t.Fatal(err)
		}
		text = string(data)
	}
	allAgree(t, text)
	return results, err
}

// TestOnHosts: hosts with different numbers of ranks measure at the same time, for
// different numbers of turns, and all ranks know all of them afterwards.
func TestOnHosts(t *testing.T) {
	if !asProcesses(t, 6) {
		return
	}
	hosts := []int{0, 1, 0, 1, 1, 2}
	found, err := onHosts(t, hosts, []int{0, 4, 3, 5, 7, 2})
	if err != nil {
		t.Fatal(err)
	}
	ranks := &topo.Graph{Ranks: 6, Hosts: hosts, Links: []topo.Link{
		{A: 0, B: 1, GBytesPerSecond: 1, Kind: topo.TCP, Source: topo.Measured},
		{A: 0, B: 5, GBytesPerSecond: 1, Kind: topo.TCP, Source: topo.Measured},
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
		if err := h.Validate(); err != nil {
			t.Error(err)
		}
	}
}

// When one host fails, all ranks get the error.
func TestOnHostsFails(t *testing.T) {
	if !asProcesses(t, 4, noMemory()) {
		return
	}
	if _, err := onHosts(t, []int{0, 0, 1, 1}, []int{0, 1, 2, 3}); err == nil ||
		!strings.Contains(err.Error(), "OUT_OF_MEMORY") {
		t.Errorf("error %v", err)
	}
}
