package setup

import (
	"context"
	"fmt"
	"slices"

	"github.com/treerun/treerun/internal/agree"
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

// neighbors returns the ranks that are on the host of rank r, r among them.
func neighbors(hosts []int, r int) []int {
	var all []int
	for q, h := range hosts {
		if h == hosts[r] {
			all = append(all, q)
		}
	}
	return all
}

// gatherAmong returns the AllGather of members, ranks of one host in ascending order. All hosts of the World make
// theirs at the same time: it is one AllGather of the whole World, from which every host takes the part of its own
// ranks. A failure on one host is a failure on all.
func gatherAmong(members []int, gather allGather) allGather {
	return func(ctx context.Context, blob []byte) (own [][]byte, err error) {
		all, err := gather(ctx, blob)
		for r, b := range all {
			if _, is := slices.BinarySearch(members, r); is {
				own = append(own, b)
			} else if len(b) > 0 && agree.Refusal(b) != "" { // a rank that opens no links gives nothing
				return nil, fmt.Errorf("rank %d: %s", r, agree.Refusal(b))
			}
		}
		return own, err
	}
}

// shmGathers is the number of AllGathers that every rank takes part in while shared memory is connected.
const shmGathers = 2

// connectHost opens the links of a layout between members, which are ranks of one host. With doorbell they can wait
// for other descriptors, too.
func connectHost(ctx context.Context, w World, g allGather, purpose string, layout transport.Layout, members []int,
	doorbell bool) (*shm.Endpoint, error) {
	layout.Members = members
	ep, err := shm.Connect(ctx, shm.Config{Rank: w.Rank(), Layout: layout, Key: w.DeriveKey("shm " + purpose),
		JobID: w.JobID(), Exchange: gatherAmong(members, g), Doorbell: doorbell,
		OwnCores: ownCores(w)})
	if err == nil {
		lookForLosses(ep, w)
	}
	return ep, err
}

// lookForLosses has waits of ep, links of w, look for losses that the launcher has published in memory.
func lookForLosses(ep *shm.Endpoint, w World) {
	job := waitsOf(w)
	if job.News == nil {
		return
	}
	ep.SetNews(job.News, func() (f transport.Fault, lost bool) {
		job.HandleNews()
		select {
		case <-w.Failed():
			return LostRank(w), true
		default: // the news are about another epoch
			return f, false
		}
	})
}
