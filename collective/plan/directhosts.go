package plan

import (
	"fmt"
	"slices"

	"github.com/treerun/treerun/topo"
)

// DirectHosts builds a reduction over several hosts such that every element is added in one order, for all places in
// the message: the ranks of a host in their order, then the hosts in theirs. VerifyStable proves it. kind is AllReduce,
// Barrier, Reduce or ReduceScatter; root is used by Reduce only. hosts has the ranks of every host, all ranks together;
// one host is Direct with Options.Stable.
//
// Every rank owns a slice, a lane. On each of the other hosts one rank, the slice's leader there, adds the inputs of
// its host, all hosts' ranks in turn; the owner adds the sums of the hosts, and sends the result to its own host's
// ranks and to the leaders, which pass it on. So a byte crosses to the owner's host once for its reduction and back
// once for its result. Each host owns as much as any other, its ranks in equal parts.
//
// The owner makes two sums, that of its host and that of all hosts, in one pass where its host is one of the first two:
// a sum of two does not depend on their order. A rank that has no Out has no place for a second one: in a Reduce
// another rank of the owner's host adds there.
//
// A ReduceScatter has a slice for every part, owned by the rank that gets the part. In a Reduce over three hosts or
// more the root's host owns nothing: its card has the result to take in, which all its ranks do in turn, for the root.
// Over two it owns everything, so that results stay there.
func DirectHosts(kind Kind, hosts [][]int, root int, form Form) (*Plan, error) {
	p, err := newPlan("direct stable", kind, len(slices.Concat(hosts...)), root, Kind.adds)
	if err == nil {
		err = checkHosts(hosts, p.Size)
	}
	if err != nil {
		return nil, err
	}
	if len(hosts) > 1 {
		p.Name = fmt.Sprintf("direct(%d hosts) stable", len(hosts))
	}
	d := newDirectHosts(hosts, p.Size)
	if kind == ReduceScatter {
		return p.withLanes(1, nil, func(_, part int) []Track { return d.tracks(kind, part, part, form) })
	}
	owners, weights := d.owners(p.Root)
	return p.withLanes(len(owners), weights, func(i, _ int) []Track { return d.tracks(kind, owners[i], p.Root, form) })
}

// directHosts holds the places of the ranks on the hosts.
type directHosts struct {
	hosts       [][]int
	host, place []int // by rank: its host, and where it stands there
}

func newDirectHosts(hosts [][]int, n int) *directHosts {
	d := &directHosts{hosts: hosts}
	d.host, d.place = topo.Places(hosts, n)
	return d
}

// owners returns the ranks that own slices, with their shares, for a root or -1.
func (d *directHosts) owners(root int) (owners []int, weights []float64) {
	for h, ranks := range d.hosts {
		if n := len(d.hosts); root >= 0 && n > 1 && (n == 2) != (h == d.host[root]) {
			continue
		}
		for _, r := range ranks {
			owners, weights = append(owners, r), append(weights, 1/float64(len(ranks)))
		}
	}
	return owners, weights
}

// adder returns the rank that adds the inputs of a host for a slice.
func (d *directHosts) adder(kind Kind, host, owner int) int {
	ranks, at := d.hosts[host], d.place[owner]
	if kind == Reduce && host == d.host[owner] && host > 1 {
		at++ // not the owner, unless it is alone
	}
	return ranks[at%len(ranks)]
}

// tracks returns the tracks of the slice of owner, by rank. root gets the result of a
// Reduce, on another host from the rank that adds there.
func (d *directHosts) tracks(kind Kind, owner, root int, form Form) []Track {
	at, n := d.host[owner], len(d.hosts)
	t := topo.Tree{Root: owner, Parent: make([]int, len(d.host)), Round: make([]int, len(d.host))}
	for h, ranks := range d.hosts {
		adder := d.adder(kind, h, owner)
		for _, r := range ranks { // served last by the owner: those behind it first
			t.Parent[r], t.Round[r] = adder, (d.place[r]-d.place[adder]+len(ranks))%len(ranks)
		}
		t.Parent[adder], t.Round[adder] = owner, len(d.hosts[at])+(h-at+n)%n
	}
	t.Parent[owner] = -1
	l := newOverTree(kind, t, form)
	l.hosts, l.adder = d.hosts, d.adder(kind, at, owner)
	if kind == Reduce && root != owner {
		if d.host[root] != at && d.adder(kind, d.host[root], owner) != root {
			l.path = []int{d.adder(kind, d.host[root], owner)}
		}
		l.path = append(l.path, root)
	}
	tracks, _ := l.tracks() // the sum of every host reaches the owner whole
	return tracks
}
