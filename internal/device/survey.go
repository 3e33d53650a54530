package device

import (
	"fmt"
	"os"
	"slices"

	"github.com/treerun/treerun/cuda/peers"
	"github.com/treerun/treerun/internal/comm/setup"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/gpu"
)

// survey makes the graph of the ranks' devices, unless it was given: what an earlier
// job has kept of them, or what they measure now, all together. Where nothing may be
// kept, and nobody wants it anew, the graph is what is declared.
func (o *opening) survey() error {
	c := o.c
	how := peerOptions(c.Setup)
	if c.Config.DeviceGraph != nil || how == nil || c.Size == 1 {
		return nil
	}
	hosts, err := peers.Measure(o.ctx, o.w, o.Device, *how)
	if err != nil {
		if _, failed := c.Endpoint.Aborted(); failed {
			return err
		}
		return &setup.RankError{Rank: -1, Op: "measuring the devices' links",
			Err: setup.DeviceError(err.Error(), err)}
	}
	if c.Rank == 0 {
		for _, h := range hosts {
			for _, line := range h.DroppedLines() {
				fmt.Fprintf(os.Stderr, "treerun: %s\n", line)
			}
		}
	}
	if err := o.hung(hosts); err != nil {
		return err
	}
	o.Graph, err = peers.Join(c.Graph, hosts, true)
	return err
}

// hung returns an error, the same on all ranks, where a copy that was measured has not
// ended: the driver waits for it whenever memory of that GPU is given back, so these
// processes can do nothing more with it. Later ones find the link left out.
func (o *opening) hung(hosts []peers.HostResult) error {
	for _, h := range hosts {
		for _, f := range h.Found {
			if !f.Hung {
				continue
			}
			text := fmt.Sprintf(
				"the link of ranks %d and %d (%s, %s) hangs, and with it whoever has tried "+
					"it: start the job again, which leaves the link out if what is measured is kept (no --no-topo-cache), or leave "+
					"out one of the two GPUs (--gpus)",
				h.Ranks[f.A], h.Ranks[f.B], h.Devices[f.A], h.Devices[f.B])
			var cause error
			for _, r := range []int{h.Ranks[f.A], h.Ranks[f.B]} {
				if r == o.c.Rank {
					cause = peers.ErrHung
					o.Device.Abandon()
				}
			}
			return &setup.RankError{Rank: -1, Op: "measuring the devices' links", Err: setup.DeviceError(text, cause)}
		}
	}
	return nil
}

// dropped reports whether the devices of this rank and another one are known not to
// reach each other.
func (o *opening) dropped(r int) bool {
	if o.Graph == nil {
		return false
	}
	a, b := min(o.c.Rank, r), max(o.c.Rank, r)
	return slices.ContainsFunc(o.Graph.Links, func(l topo.Link) bool {
		return l.Kind == gpu.KindHost && min(l.A, l.B) == a && max(l.A, l.B) == b
	})
}

// peerOptions says how the devices of the ranks are measured; nil: not at all.
func peerOptions(s *setup.Setup) *peers.Options {
	switch setting := s.World.Setting("no-topo-cache"); {
	case setting == setup.Refresh:
		return &peers.Options{Anew: true, Cache: s.Config.TopoCache(s.World)}
	case setting != "":
		return &peers.Options{Forget: true}
	}
	if cache := s.Config.TopoCache(s.World); cache != nil {
		return &peers.Options{Cache: cache}
	}
	return nil
}

// chosenGraph returns the graph that plans for devices are made for.
func (o *opening) chosenGraph() *topo.Graph {
	switch {
	case o.c.Config.DeviceGraph != nil:
		return o.c.Config.DeviceGraph
	case o.Graph != nil:
		return o.Graph
	}
	return declaredGraph(o.c.Graph, o.all, o.reads)
}
