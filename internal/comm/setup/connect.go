package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/shm"
)

// HostsOf returns the host of every rank of w.
func HostsOf(w World) []int {
	hosts := make([]int, w.Size())
	for r := range hosts {
		hosts[r] = w.HostOf(r)
	}
	return hosts
}

// OneHost reports whether all ranks are on one host.
func OneHost(hosts []int) bool {
	return !slices.ContainsFunc(hosts, func(h int) bool { return h != hosts[0] })
}

// neighbours returns the ranks that are on the host of rank r, r among them.
func neighbours(hosts []int, r int) []int {
	var all []int
	for q, h := range hosts {
		if h == hosts[r] {
			all = append(all, q)
		}
	}
	return all
}

// hostGather is the AllGather of some ranks of one host. All hosts of the World do the same in theirs at the same time:
// it is one of the whole World, from which every host takes what is its own.
type hostGather struct {
	world   World
	members []int    // by their ranks in the World, rising
	gathers int      // that it has begun
	latest  [][]byte // what the latest gave, of all ranks; nil where it failed
}

func (h *hostGather) AllGather(ctx context.Context, blob []byte) ([][]byte, error) {
	h.gathers++
	h.latest = nil
	all, err := h.world.AllGather(ctx, blob)
	if err != nil {
		return nil, err
	}
	if len(all) != h.world.Size() {
		return nil, fmt.Errorf("the all-gather gave %d blobs for %d ranks", len(all), h.world.Size())
	}
	h.latest = all
	own := make([][]byte, len(h.members))
	for i, r := range h.members {
		own[i] = all[r]
	}
	return own, nil
}

// finish takes part in the AllGathers of connecting shared memory that are left, with a blob.
func (h *hostGather) finish(ctx context.Context, blob []byte) error {
	for h.gathers < shmGathers {
		if _, err := h.AllGather(ctx, blob); err != nil {
			return err
		}
	}
	return nil
}

// shmGathers is how many AllGathers every rank takes part in while shared
// memory is connected, whatever becomes of it on its host.
const shmGathers = 2

// connectHost connects the ranks of each host among themselves. Where that
// fails, as it does between containers that do not share what it takes, each
// rank of the host counts as a host of its own from then on. It returns the
// hosts as they count.
func connectHost(ctx context.Context, w World, purpose string, layout transport.Layout) (transport.Endpoint, []int,
	error) {
	hosts := HostsOf(w)
	view := &hostGather{world: w, members: neighbours(hosts, w.Rank())}
	ep, err := shm.Connect(ctx, hostConfig(w, purpose, layout, view.members, view.AllGather))
	if err != nil {
		if failed := view.finish(ctx, shm.Failure(err)); failed != nil || view.latest == nil {
			return nil, nil, errors.Join(err, failed)
		}
	}
	apart := slices.Clone(hosts)
	for r, blob := range view.latest {
		why := shm.Failed(blob)
		if why == "" {
			continue
		}
		for _, q := range neighbours(hosts, r) {
			apart[q] = len(hosts) + q
		}
		if w.Rank() == 0 && w.Setting("verbose") != "" {
			fmt.Fprintf(os.Stderr, "treerun: rank %d and the others of its host use TCP: %s\n", r, why)
		}
	}
	if ep != nil {
		return ep, apart, nil
	}
	alone := func(_ context.Context, blob []byte) ([][]byte, error) { return [][]byte{blob}, nil }
	ep, err = shm.Connect(ctx, hostConfig(w, purpose, layout, []int{w.Rank()}, alone))
	return ep, apart, err
}

// hostConfig is that of the links between members, which sleep on doorbells.
func hostConfig(w World, purpose string, layout transport.Layout, members []int,
	gather func(context.Context, []byte) ([][]byte, error)) shm.Config {
	layout.Members = members
	layout.Links = slices.DeleteFunc(slices.Clone(layout.Links), func(k transport.Link) bool {
		return !slices.Contains(members, k.Src) || !slices.Contains(members, k.Dst)
	})
	cfg := shmConfig(w, purpose, layout, gather)
	cfg.Doorbell = true
	return cfg
}

func shmConfig(w World, purpose string, layout transport.Layout,
	gather func(context.Context, []byte) ([][]byte, error)) shm.Config {
	return shm.Config{Rank: w.Rank(), Layout: layout, Key: w.DeriveKey("shm " + purpose), JobID: w.JobID(),
		Exchange: gather}
}
