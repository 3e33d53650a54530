package devices

import (
	"errors"
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective/internal/setup"
	"github.com/treerun/treerun/cuda/peers"
	"github.com/treerun/treerun/topo"
)

// survey makes the graph of the ranks' devices, unless it was given: from the findings of an earlier job, or by a
// measurement of all ranks together.
func (o *opening) survey() error {
	d, c := o.session, o.session.c
	switch {
	case c.Config.DeviceGraph != nil:
		d.Graph = c.Config.DeviceGraph
		return nil
	case c.Size == 1:
		d.Graph = topo.UniformGraph(1)
		return nil
	}
	hosts, err := peers.Measure(o.ctx, o.w, d.Device, peers.Options{Cache: c.Config.TopoCache(c.World),
		Anew: c.World.Setting("no-topo-cache") == setup.Refresh})
	if err != nil {
		if _, failed := c.Endpoint.Aborted(); failed {
			return err
		}
		const op = "measuring the devices' links"
		if err := deviceError(op, err); errors.As(err, new(*setup.RankError)) {
			return err
		}
		return &setup.RankError{Rank: -1, Op: op, Err: setup.DeviceError(err.Error(), err)}
	}
	if c.Rank == 0 {
		for _, h := range hosts {
			for _, line := range h.DroppedLines() {
				c.Config.Note("treerun: " + line + "\n")
			}
		}
	}
	if err := o.hung(hosts); err != nil {
		return err
	}
	d.Graph, err = peers.Join(c.Plans.Graph(), hosts, true)
	return err
}

// hung returns an error, the same on all ranks, where a copy that was measured has not
// ended: the driver waits for it whenever memory of that GPU is given back, so these
// processes can do nothing more with it. Later ones find the link left out.
func (o *opening) hung(hosts []peers.HostResult) error {
	d := o.session
	for _, h := range hosts {
		for _, f := range h.Found {
			if !f.Hung {
				continue
			}
			text := fmt.Sprintf(
				"the link of ranks %d and %d (%s, %s) hangs, and with it every rank that has tried "+
					"it: start the job again, which leaves the link out if results are cached (no --no-topo-cache), or leave "+
					"out one of the two GPUs (--gpus)",
				h.Ranks[f.A], h.Ranks[f.B], h.Devices[f.A], h.Devices[f.B])
			var cause error
			for _, r := range []int{h.Ranks[f.A], h.Ranks[f.B]} {
				if r == d.c.Rank {
					cause = peers.ErrHung
					d.Device.Abandon()
				}
			}
			return &setup.RankError{Rank: -1, Op: "measuring the devices' links", Err: setup.DeviceError(text, cause)}
		}
	}
	return nil
}

// linked reports whether the devices of this rank and another one were measured, and have a link of the given kind:
// gpu.KindHost where they do not reach each other.
func (o *opening) linked(r int, kind string) bool {
	d := o.session
	if d.c.Config.DeviceGraph != nil {
		return false
	}
	pair := topo.Pair(d.c.Rank, r)
	return slices.ContainsFunc(d.Graph.Links, func(l topo.Link) bool {
		return l.Kind == kind && topo.Pair(l.A, l.B) == pair
	})
}
