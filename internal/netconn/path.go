package netconn

import (
	"cmp"
	"slices"
)

// maxPaths is how many ways to one peer are tried.
const maxPaths = 16

// path is a way to a peer: from one of this rank's addresses to one of its.
type path struct {
	from place
	at   place
}

// paths returns the ways from a rank that listens at own to one that listens
// at theirs, best first: every one of their addresses from the address that
// suits it best, then from the second best, and so on. Both lists have the best
// addresses first.
func paths(own, theirs []place, sameHost bool) []path {
	type ranked struct {
		path
		turn int
		far  int // 1: not in the subnet of the address that it is reached from
	}
	var all []ranked
	for _, at := range theirs {
		// What both hosts have, as bridges of containers do, leads back to us.
		if !sameHost && slices.ContainsFunc(own, func(p place) bool { return p.Addr == at.Addr }) {
			continue
		}
		var list []ranked
		for _, from := range own {
			if !suits(from, at, sameHost) {
				continue
			}
			r := ranked{path: path{from, at}}
			if !from.subnet.Contains(at.Addr) {
				r.far = 1
			}
			list = append(list, r)
		}
		slices.SortStableFunc(list, func(a, b ranked) int { return a.far - b.far })
		for i := range list {
			list[i].turn = i
		}
		all = append(all, list...)
	}
	slices.SortStableFunc(all, func(a, b ranked) int {
		return cmp.Or(a.turn-b.turn, a.far-b.far)
	})
	var out []path
	for _, r := range all[:min(len(all), maxPaths)] {
		out = append(out, r.path)
	}
	return out
}

// suits says whether packets can get from one address to the other at all.
func suits(from, at place, sameHost bool) bool {
	return from.Addr.Is4() == at.Addr.Is4() &&
		from.Addr.IsLoopback() == at.Addr.IsLoopback() && (sameHost || !at.Addr.IsLoopback()) &&
		from.Addr.IsLinkLocalUnicast() == at.Addr.IsLinkLocalUnicast()
}

// failed says that this path could not be connected, and why.
func (w *path) failed(err error) try {
	return try{w.from.host(), w.at.String(), reasonOf(err)}
}
