package plan

import "slices"

// Direct builds the collective kind over size ranks such that nothing goes
// through a third rank but a reduction through the rank that makes it. root is
// used by the kinds with a root only.
//
// AllReduce, Barrier, Reduce: every rank owns an equal slice, a lane. The others send it their inputs of the slice, it
// reduces them, its own first and then those of the ranks behind it in turn, and sends the result to all others, or to
// the root. So the ranks share the work evenly, and every byte is read once for its reduction and once for its result.
//
// ReduceScatter, AllGather, Broadcast: one half of that; the slices are the
// parts, or there is one lane from the root. Gather, Scatter: a lane per part,
// to or from the root. AllToAll: one lane in which every two ranks exchange
// their parts; in place a rank has sent its part to another before it stores
// the one from there in its place.
//
// With the form Split, the sending and the receiving of a slice run side by side, and so do the exchanges of an
// AllToAll with different ranks: for many chunks. In the Single form one track does both, in the order that needs no
// waiting between equal ranks: an AllToAll sends to all, then receives from all.
func Direct(kind Kind, size, root int, form Form) (*Plan, error) {
	p, err := newPlan("direct", kind, size, root, func(k Kind) bool { return k.valid() && !k.Scans() })
	if err != nil {
		return nil, err
	}
	if form == Split && (kind.bothWays() || kind == Reduce || kind == AllToAll) {
		p.Name += " split"
	}
	lanes := 1
	if kind.bothWays() || kind == Reduce {
		lanes = size
	}
	return p.withLanes(lanes, nil, func(i, part int) []Track { return p.directTracks(i, part, form) })
}

// directTracks returns the tracks of the lane that rank owner, or the rank of a
// part, has.
func (p *Plan) directTracks(owner, part int, form Form) []Track {
	n := p.Size
	switch {
	case n == 1:
		return []Track{{Rank: 0, Steps: []Step{copyStep()}}}
	case p.Kind == Gather:
		return passTracks(part, p.Root)
	case p.Kind == Scatter:
		return passTracks(p.Root, part)
	case p.Kind == AllToAll:
		return exchangeTracks(n, form)
	case p.Kind == Broadcast:
		owner = p.Root
	case p.Kind == AllGather || p.Kind == ReduceScatter:
		owner = part
	}
	all := slices.Concat(Alone(n)...)
	order := append(all[owner:n:n], all[:owner]...)
	return newDirectHosts([][]int{order}, n).tracks(p.Kind, owner, p.Root, form)
}

// Star builds an AllReduce, a Barrier or a Reduce in which one rank, root, does all the work: the others send it their
// inputs, it adds them in the order of the ranks, its own in its turn, and sends the result to all others. These are
// the fewest messages, and root leaves first: where ranks share cores, its next messages are there when the others come
// to run. A Barrier or an AllReduce has one track on each rank.
func Star(kind Kind, size, root int) (*Plan, error) {
	p, err := newPlan("star", kind, size, root, func(k Kind) bool { return k.bothWays() || k == Reduce })
	if err != nil {
		return nil, err
	}
	d := newDirectHosts([][]int{slices.Concat(Alone(size)...)}, size)
	return p.withLanes(1, nil, func(_, _ int) []Track {
		return d.tracks(kind, root, root, Single)
	})
}

// passTracks hands one part from a rank to another.
func passTracks(from, to int) []Track {
	if from == to {
		return []Track{{Rank: to, Steps: []Step{copyStep()}}}
	}
	return []Track{
		{Rank: from, Steps: []Step{sendStep(In, int32(to))}},
		{Rank: to, Steps: []Step{recvStep(Out, int32(from))}},
	}
}

// appendTracks appends the tracks of a rank that gives and takes: one in the Single
// form, two where there are steps of both in Split.
func appendTracks(tracks []Track, rank int, form Form, give, take []Step) []Track {
	if form == Split && len(give) > 0 && len(take) > 0 {
		return append(tracks, Track{rank, give}, Track{rank, take})
	}
	return append(tracks, Track{rank, append(give, take...)})
}

// exchangeTracks returns the tracks of an AllToAll: of every rank one that
// sends to all others in turn, copies its own part while that travels, and
// receives from them, or one with every other rank and one for its own part.
func exchangeTracks(n int, form Form) []Track {
	var tracks []Track
	for v := range n {
		var send, recv []Step
		for d := 1; d < n; d++ {
			send = append(send, sendStep(In, int32((v+d)%n)))
			recv = append(recv, recvStep(Out, int32((v+n-d)%n)))
		}
		if form == Single {
			tracks = append(tracks, Track{v, append(append(send, copyStep()), recv...)})
			continue
		}
		for i, s := range send {
			tracks = append(tracks, Track{v, []Step{s, recv[n-2-i]}})
		}
		tracks = append(tracks, Track{v, []Step{copyStep()}})
	}
	return tracks
}
