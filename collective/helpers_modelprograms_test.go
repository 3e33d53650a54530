package collective

import (
	"math"
	"slices"

	"pgregory.net/rapid"
)

// modelBytes are the sizes at which the path of a message changes: inline, slots, lent memory, copies by both ends,
// chunks. rapid prefers the first ones.
var modelBytes = []int{
	0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 128, 1000, 1024, 1032, 4 << 10, 4104, 8 << 10, 8200, 16 << 10, 16<<10 + 8,
	32 << 10, 32<<10 + 8, 64<<10 - 8, 64 << 10, 64<<10 + 8, 128 << 10, 256<<10 + 8,
	512 << 10, 1 << 20, 1<<20 + 8, 3 << 20, 8 << 20,
}

// maxProgramBytes is the maximum total size of the payloads of a program, where links are wide.
const maxProgramBytes = 12 << 20

// programs draws programs for the given number of ranks, with payloads of at most the given number of bytes; with
// large, most payloads have a size that both ends copy.
//
// All operations have an order, and each rank does its own in that order. An operation that waits depends only on
// operations of other ranks before it, or at the same place: a Send and a Recv that meet there, ranks in a cycle of
// SendRecv, a collective. So the first operation in that order which is not done can always continue, even if no send
// is buffered; a Send of up to 64 KiB may stand by itself. A communicator makes progress on messages only during calls
// on it, so a rank that changes to the other communicator has waited for all operations that it began on the first.
func programs(size, bytes int, large bool) *rapid.Generator[program] {
	return rapid.Custom(func(t *rapid.T) program {
		all := make([][]operation, size)
		g := &generator{t: t, left: bytes, large: large}
		members := make([]*[]operation, size)
		for r := range all {
			members[r] = &all[r]
		}
		g.communicator(members, !large) // the AllGather of processes does not detect deaths
		return program{all}
	})
}

// generator draws one program.
type generator struct {
	t     *rapid.T
	ids   int
	left  int // bytes
	large bool

	ranks  []*[]operation     // of the communicator
	halves map[pairing][]half // begun on one side only, oldest first
	begun  [][]*pending       // by rank
}

// pairing contains the common properties of a message and its receive.
type pairing struct{ from, to, tag int }

// half is a message that one side has begun.
type half struct {
	operation
	sent  bool // else the receive was posted
	begun *pending
}

// pending is an operation that a rank has started and not waited for.
type pending struct {
	id      int
	matched bool // the other side has begun
}

func (g *generator) int(most int, what string) int { return rapid.IntRange(0, most).Draw(g.t, what) }

// communicator draws the operations of ranks on a communicator of their own.
func (g *generator) communicator(ranks []*[]operation, splits bool) {
	g.ranks, g.halves, g.begun = ranks, map[pairing][]half{}, make([][]*pending, len(ranks))
	most := 12
	if !splits {
		most = 5
	}
	for range g.int(most, "operations") + 1 {
		switch g.int(20, "operation") {
		case 0, 1, 2:
			g.meet()
		case 3, 4, 5, 6:
			g.half(true)
		case 7, 8, 9, 10:
			g.half(false)
		case 11, 12:
			g.wait()
		case 13, 14:
			g.test()
		case 15:
			g.circle()
		case 16, 17, 18:
			g.collective()
		case 19:
			if splits && g.int(3, "chatter") == 3 {
				g.chatter()
			}
		case 20:
			if splits && g.int(49, "split") == 49 {
				g.waitForAll()
				g.split()
				g.ranks, g.halves, g.begun = ranks, map[pairing][]half{}, make([][]*pending, len(ranks))
			}
		}
	}
	g.waitForAll()
}

func (g *generator) add(rank int, o operation) { *g.ranks[rank] = append(*g.ranks[rank], o) }

// start adds an operation that is waited for later.
func (g *generator) start(rank int, o operation, matched bool) *pending {
	o.Start = true
	g.add(rank, o)
	p := &pending{o.ID, matched}
	g.begun[rank] = append(g.begun[rank], p)
	return p
}

// sized draws the type and the length of a payload that is sent the given number of times.
func (g *generator) sized(times int) operation {
	o := operation{ID: g.ids, Type: elementType(g.int(len(modelTypes)-1, "type"))}
	g.ids++
	bytes := rapid.SampledFrom(modelBytes).Draw(g.t, "bytes")
	if g.large {
		bytes = modelBytes[len(modelBytes)-1-g.int(9, "large")]
	} else if large := g.int(3, "large"); bytes > 1<<10 && large < 2 || bytes > 256<<10 && large < 3 { // those take long
		bytes %= 1 << 10
	}
	if bytes*times > g.left {
		bytes = 0
	}
	g.left -= bytes * times
	o.Count = bytes / modelTypes[o.Type].bytes
	if bytes > 0 && bytes < 1<<20 && g.int(3, "odd") == 3 {
		o.Count++
	}
	return o
}

// pair draws a sender, a receiver and a tag.
func (g *generator) pair() (p pairing, ok bool) {
	n := len(g.ranks)
	if n < 2 {
		return p, false
	}
	p.from = g.int(n-1, "from")
	p.to = (p.from + 1 + g.int(n-2, "to")) % n
	p.tag = rapid.SampledFrom([]int{0, 1, 2, 3, math.MaxInt32}).Draw(g.t, "tag")
	return p, true
}

// meet adds a Send and a Recv that wait for each other.
func (g *generator) meet() {
	p, ok := g.pair()
	if !ok || len(g.halves[p]) > 0 {
		return
	}
	o := g.sized(1)
	o.From, o.To, o.Tag = p.from, p.to, p.tag
	o.Do, o.Sync = doSend, g.int(3, "sync") == 0
	g.add(p.from, o)
	o.Do, o.Sync = doRecv, false
	g.add(p.to, o)
}

// chatter adds many small messages in both directions, whatever else is in flight.
func (g *generator) chatter() {
	p, ok := g.pair()
	back := pairing{p.to, p.from, p.tag}
	if !ok || len(g.halves[p]) > 0 || len(g.halves[back]) > 0 {
		return
	}
	for range 150 {
		for _, p := range []pairing{p, back} {
			o := operation{ID: g.ids, From: p.from, To: p.to, Tag: p.tag, Count: g.ids % 11}
			g.ids++
			o.Do, o.Sync = doSend, o.ID%20 == 7
			g.add(p.from, o)
			o.Do, o.Sync = doRecv, false
			g.add(p.to, o)
		}
	}
}

// half adds one side of a message: the second side of a message that was begun, if there is one, waiting or not;
// otherwise the first side, without waiting.
func (g *generator) half(sends bool) {
	p, ok := g.pair()
	if !ok {
		return
	}
	if open := g.halves[p]; len(open) > 0 && open[0].sent != sends {
		g.complete(p, g.int(1, "waits") == 1)
		return
	}
	o := g.sized(1)
	o.From, o.To, o.Tag = p.from, p.to, p.tag
	rank := p.from
	if o.Do = doSend; !sends {
		o.Do, rank = doRecv, p.to
	}
	begun := &pending{id: o.ID}
	if sends && o.Count*modelTypes[o.Type].bytes <= 64<<10 && g.int(1, "waits") == 1 {
		g.add(rank, o)
	} else {
		begun = g.start(rank, o, false)
	}
	g.halves[p] = append(g.halves[p], half{o, sends, begun})
}

// complete adds the second side of the oldest message of a pairing.
func (g *generator) complete(p pairing, waits bool) {
	h := g.halves[p][0]
	g.halves[p] = g.halves[p][1:]
	h.begun.matched = true
	rank := p.to
	if h.Do = doRecv; !h.sent {
		h.Do, rank = doSend, p.from
		h.Sync = waits && g.int(3, "sync") == 0
	}
	if waits {
		g.add(rank, h.operation)
	} else {
		g.start(rank, h.operation, true)
	}
}

// wait adds a Wait for an operation that can be done by now.
func (g *generator) wait() {
	r := g.int(len(g.ranks)-1, "rank")
	var can []*pending
	for _, p := range g.begun[r] {
		if p.matched {
			can = append(can, p)
		}
	}
	if len(can) == 0 {
		return
	}
	p := can[g.int(len(can)-1, "waits for")]
	g.add(r, operation{Do: doWait, ID: p.id})
	if g.int(3, "again") > 0 {
		g.begun[r] = slices.DeleteFunc(g.begun[r], func(q *pending) bool { return q == p })
	}
}

func (g *generator) test() {
	r := g.int(len(g.ranks)-1, "rank")
	if n := len(g.begun[r]); n > 0 {
		g.add(r, operation{Do: doTest, ID: g.begun[r][g.int(n-1, "tests")].id})
	}
}

// circle adds a SendRecv of all ranks in a cycle.
func (g *generator) circle() {
	n := len(g.ranks)
	shift, tag := g.int(n-1, "shift"), g.int(3, "tag")
	for r := range n {
		if len(g.halves[pairing{r, (r + shift) % n, tag}]) > 0 {
			return
		}
	}
	o := g.sized(n)
	o.Do, o.Tag = doSendRecv, tag
	for r := range n {
		o.To, o.From = (r+shift)%n, (r+n-shift)%n
		g.add(r, o)
	}
}

// collective adds a collective, which some ranks start and others wait for at once.
func (g *generator) collective() {
	n := len(g.ranks)
	kind := rapid.SampledFrom(kinds).Draw(g.t, "kind")
	times := n
	if kind.HasParts() {
		times *= n
	}
	o := g.sized(times)
	o.Do, o.Kind, o.To, o.InPlace = doCall, kind, g.int(n-1, "root"), g.int(1, "in place") == 1
	if !kind.HasRoot() {
		o.To = 0
	}
	if reduces(kind) {
		o.Op = rapid.SampledFrom(opsOf(kind)).Draw(g.t, "op")
	}
	starts := g.int(1<<n-1, "starts")
	for r := range n {
		if starts>>r&1 == 1 {
			g.start(r, o, true)
		} else {
			g.add(r, o)
		}
	}
}

// waitForAll completes all messages, and makes all ranks wait for all operations that they have begun.
func (g *generator) waitForAll() {
	for from := range g.ranks {
		for to := range g.ranks {
			for _, tag := range []int{3, math.MaxInt32, 1, 0, 2} {
				for p := (pairing{from, to, tag}); len(g.halves[p]) > 0; {
					g.complete(p, g.int(1, "waits") == 1)
				}
			}
		}
	}
	for r := range g.ranks {
		for left := g.begun[r]; len(left) > 0; {
			i := g.int(len(left)-1, "waits for")
			g.add(r, operation{Do: doWait, ID: left[i].id})
			left = slices.Delete(left, i, i+1)
		}
	}
}

// split adds a Split, and the operations of the ranks on the new communicators. Every rank has one.
func (g *generator) split() {
	ranks, groups := g.ranks, map[int][]*[]operation{}
	backwards := g.int(1, "backwards") == 1
	for r := range ranks {
		o := operation{Do: doSplit, Color: g.int(1, "color"), Key: r}
		if backwards {
			o.Key = -r
		}
		g.add(r, o)
		groups[o.Color] = append(groups[o.Color], ranks[r])
	}
	for color := range 2 {
		if members := groups[color]; len(members) > 0 {
			if backwards {
				slices.Reverse(members)
			}
			g.communicator(members, false)
			for r := range members {
				g.add(r, operation{Do: doLeave})
			}
		}
	}
}
