package device

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/transport"
)

// Shape describes the links between the devices of a communicator, on which its ranks agree before they open them. It
// is the same on all of them. Its plans are for the number of ranks that there are.
type Shape struct {
	Plans []*plan.Plan // verified: every rank's Programs, in this order, on links by lanesOf

	Slots     int // of a link, at least 2, a power of two up to transport.MaxSlots
	SlotBytes int // the largest chunk, a multiple of 64; slots in the memory of a host may be smaller

	Place func(src, dst int) Place // of the slots of their links

	Messages bool // every two ranks have links for messages, in addition to those of plans
}

// Place is where the slots of a link lie.
type Place int

// The places of slots. Ranks whose link is not relayed share a flag segment. By CUDA's memory model the writes of a
// kernel, to any memory, are visible to the whole system before later writes of its stream, here that of the flag.
const (
	InDevice Place = iota // of the sender, whose memory the receiver's device reads
	InHost                // memory that both ranks share, and both their devices see
	InReader              // the receiver's device, whose memory the sender's device writes
	Relayed               // pinned memory at both ends, with a transport.Endpoint in between
	places
)

// Layout holds the places of all memory that ranks share: slots in the staging memory of their devices and in that of a
// host, and flags in the segment of a host. It is a pure function of a Shape, and never changes.
type Layout struct {
	Slots     int             // of a link
	SlotBytes int             // of a slot elsewhere than in the memory of a host
	HostBytes int             // of a slot there
	Given     [places][]int64 // by place and rank: bytes of the slots it gives; relayed: of this rank alone
	Seen      [places][]int64 // by place and rank: bytes of the slots that its device sees; pinned where not in a device

	size     int
	messages int    // the lane of messages: that behind those of plans
	links    []link // by lane, source, destination
	plans    []schedule
	rank     int
}

// link is one FIFO between two ranks' devices.
type link struct {
	transport.Link
	place Place
	seen  map[int]bool // ranks that fill its slots or read them; none where its payloads lie in those of other links
	at    int64        // where its slots begin in the memory of their giver
}

// giver returns the kind of memory in which its slots lie, as rank sees it, and the rank that gives it: a relayed link
// has slots at both ends.
func (k *link) giver(rank int) (Place, int) {
	switch k.place {
	case InReader:
		return InDevice, k.Dst
	case Relayed:
		return Relayed, rank
	}
	return k.place, k.Src
}

// hostSlot is the maximum size of a slot in the memory of a host: it is pinned, by all ranks that see it, and PCIe
// takes longer for this size than the host for a step. maxPinned is the most that a rank pins of these slots: with the
// flags it is no more than 64 MiB.
const (
	hostSlot  = 512 << 10
	maxPinned = 63 << 20
	// maxRelayed is the most that a rank pins for slots of links to other hosts.
	maxRelayed = 320 << 20
)

// flagLine is the distance between two flags, in bytes: a cache line each, so
// that devices do not disturb each other.
const flagLine = 64

// flagHead is where the flags of links begin. The first word of a segment is
// not zero when one of its ranks has aborted.
const flagHead = 4096

// NewLayout lays out the links that the plans of s need, as rank sees them: all
// ranks come to the same places.
func NewLayout(s Shape, rank int) (*Layout, error) {
	l := &Layout{Slots: s.Slots, SlotBytes: s.SlotBytes, HostBytes: min(s.SlotBytes, hostSlot), rank: rank}
	l.size = s.Plans[0].Size
	for _, p := range s.Plans {
		linkOf := lanesOf(p)
		for _, k := range p.Links() {
			l.links = append(l.links, link{Link: linkOf(k), place: s.Place(k.Src, k.Dst),
				seen: map[int]bool{}})
		}
	}
	for _, k := range l.links {
		l.messages = max(l.messages, k.Lane+1)
	}
	for i := range l.size * l.size {
		if src, dst := i/l.size, i%l.size; s.Messages && src != dst {
			l.links = append(l.links, link{Link: transport.Link{Lane: l.messages, Src: src, Dst: dst},
				place: s.Place(src, dst), seen: map[int]bool{src: true, dst: true}})
		}
	}
	slices.SortFunc(l.links, func(a, b link) int { return compareLinks(a.Link, b.Link) })
	l.links = slices.CompactFunc(l.links, func(a, b link) bool { return a.Link == b.Link })
	for _, p := range s.Plans {
		one, err := l.schedule(p)
		if err != nil {
			return nil, fmt.Errorf("device: plan %s: %w", p.Name, err)
		}
		l.plans = append(l.plans, one)
	}
	l.followed()
	l.place()
	return l, nil
}

func compareLinks(a, b transport.Link) int { return cmp.Or(a.Lane-b.Lane, a.Src-b.Src, a.Dst-b.Dst) }

// followed leaves the rank's lanes the links that it serves or whose slots it reads for some plan: their counters go on
// in all calls.
func (l *Layout) followed() {
	for i := range l.plans {
		for j := range l.plans[i].lanes {
			ln := &l.plans[i].lanes[j]
			ln.uses = slices.DeleteFunc(ln.uses, func(u linkUses) bool {
				k := &l.links[u.link]
				return k.Dst != l.rank && k.Src != l.rank && !k.seen[l.rank]
			})
		}
	}
}

// slotOf returns how many bytes a slot in a place has.
func (l *Layout) slotOf(p Place) int {
	if p == InHost {
		return l.HostBytes
	}
	return l.SlotBytes
}

// bytesOf returns the number of bytes of a slot of a link: those of messages, which have many links, are smaller.
func (l *Layout) bytesOf(k *link) int {
	n := l.slotOf(k.place)
	if k.Lane == l.messages {
		return min(n, max(grain, n/4&^(grain-1)))
	}
	return n
}

// place gives every link that lends its slots.
func (l *Layout) place() {
	for p := range l.Given {
		l.Given[p], l.Seen[p] = make([]int64, l.size), make([]int64, l.size)
	}
	for i := range l.links {
		k := &l.links[i]
		n := int64(l.Slots) * int64(l.bytesOf(k))
		for r := range k.seen {
			l.Seen[k.place][r] += n
		}
		if p, r := k.giver(l.rank); k.seen[r] {
			k.at = l.Given[p][r]
			l.Given[p][r] += n
		}
	}
}

// grain is the unit of the size of slots that were made smaller.
const grain = 4 << 10

// Fit makes the slots smaller where those of a rank would take more staging memory than budget, or too much of the
// host's memory.
func (l *Layout) Fit(budget int64) {
	shrink(&l.SlotBytes, slices.Max(l.Given[InDevice]), budget)
	l.place()
	shrink(&l.SlotBytes, slices.Max(l.Seen[Relayed]), maxRelayed)
	l.HostBytes = min(l.HostBytes, l.SlotBytes)
	l.place()
	shrink(&l.HostBytes, slices.Max(l.Seen[InHost]), maxPinned)
	l.place()
}

// shrink reduces the size of slots, which take the given number of bytes in total, to fit into a budget.
func shrink(slot *int, take, budget int64) {
	if take > budget {
		*slot = max(grain, int(int64(*slot)*budget/take)&^(grain-1))
	}
}

// message returns the index of the link of messages from a rank to another.
func (l *Layout) message(src, dst int) int {
	return l.find(transport.Link{Lane: l.messages, Src: src, Dst: dst})
}

// find returns the index of a link, which the layout has.
func (l *Layout) find(k transport.Link) int {
	i, _ := slices.BinarySearchFunc(l.links, k, func(a link, b transport.Link) int { return compareLinks(a.Link, b) })
	return i
}

// Addresses returns where the device of the layout's rank sees the slots of every link, 0 where it does not, or where
// they are relayed. see returns where it sees n bytes of those that a rank gives in a place, from byte at on.
func (l *Layout) Addresses(see func(p Place, giver, at, n int) (cuda.Addr, error)) ([]cuda.Addr, error) {
	slots := make([]cuda.Addr, len(l.links))
	for i := range l.links {
		k := &l.links[i]
		if k.place == Relayed || !k.seen[l.rank] {
			continue
		}
		p, giver := k.giver(l.rank)
		var err error
		if slots[i], err = see(p, giver, int(k.at), l.Slots*l.bytesOf(k)); err != nil {
			return nil, err
		}
	}
	return slots, nil
}

// FlagBytes returns the size of the flag segment of a host, a multiple of 4096.
// It is the same for every host, and zero memory when the first rank uses it.
func (l *Layout) FlagBytes() int { return (flagHead + 4*flagLine*len(l.links) + 4095) &^ 4095 }

// Relays reports whether a link of any rank needs a transport.Endpoint. Its slots are those of this Layout.
func (l *Layout) Relays() bool {
	return slices.ContainsFunc(l.links, func(k link) bool { return k.place == Relayed })
}

// published and released are where the flags of link i lie in a segment. Behind them are those of the
// receiver of a relayed link, whose ends count by themselves.
func published(i int) int { return flagHead + 4*flagLine*i }
func released(i int) int  { return published(i) + flagLine }
