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

	Location func(src, dst int) Location // of the slots of their links

	Messages bool // every two ranks have links for messages, in addition to those of plans
}

// Location is where the slots of a link lie.
type Location int

// The locations of slots. Ranks whose link is no network link share a flag segment. By CUDA's memory model the writes
// of a kernel, to any memory, are visible to the whole system before later writes of its stream, here that of the flag.
const (
	InDevice Location = iota // of the sender, whose memory the receiver's device reads
	InHost                   // memory that both ranks share, and both their devices see
	InReader                 // the receiver's device, whose memory the sender's device writes
	Network                  // pinned memory at both ends, with a transport.Endpoint in between
	locations
)

// Layout holds the offsets of all memory that ranks share: slots in the staging memory of their devices and in that of
// a host, and flags in the segment of a host. It is a pure function of a Shape, and never changes.
type Layout struct {
	Slots     int                // of a link
	SlotBytes int                // of a slot elsewhere than in the memory of a host
	HostBytes int                // of a slot there
	Owned     [locations][]int64 // by location and rank: bytes of its slots; of Network only this rank's
	Seen      [locations][]int64 // and of the slots that its device sees, pinned unless in a device

	size     int
	messages int    // the lane of messages, behind those of plans
	links    []link // by lane, source, destination
	plans    []schedule
	rank     int
}

// link is one FIFO between two ranks' devices.
type link struct {
	transport.Link
	location Location
	seen     map[int]bool // ranks that fill its slots or read them; none where its payloads lie in those of other links
	at       int64        // where its slots begin in the memory of their owner
}

// owner returns the location of its slots, as rank sees it, and the rank that allocates them: a network link
// has slots at both ends.
func (k *link) owner(rank int) (Location, int) {
	switch k.location {
	case InReader:
		return InDevice, k.Dst
	case Network:
		return Network, rank
	}
	return k.location, k.Src
}

// hostSlot is the maximum size of a slot in the memory of a host: it is pinned, by all ranks that see it, and PCIe
// takes longer for this size than the host for a step. maxPinned is the most that a rank pins of these slots: with the
// flags it is no more than 64 MiB.
const (
	hostSlot  = 512 << 10
	maxPinned = 63 << 20
	// maxNetwork is the most that a rank pins for slots of links to other hosts.
	maxNetwork = 320 << 20
)

// flagLine is the distance between two flags, in bytes: a cache line each, so
// that devices do not disturb each other.
const flagLine = 64

// flagHead is where the flags of links begin. The first word of a segment is
// not zero when one of its ranks has aborted.
const flagHead = 4096

// NewLayout lays out the links that the plans of s need, as rank sees them: all
// ranks come to the same layout.
func NewLayout(s Shape, rank int) (*Layout, error) {
	l := &Layout{Slots: s.Slots, SlotBytes: s.SlotBytes, HostBytes: min(s.SlotBytes, hostSlot), rank: rank}
	l.size = s.Plans[0].Size
	for _, p := range s.Plans {
		linkOf := lanesOf(p)
		for _, k := range p.Links() {
			l.links = append(l.links, link{Link: linkOf(k), location: s.Location(k.Src, k.Dst),
				seen: map[int]bool{}})
		}
	}
	for _, k := range l.links {
		l.messages = max(l.messages, k.Lane+1)
	}
	for i := range l.size * l.size {
		if src, dst := i/l.size, i%l.size; s.Messages && src != dst {
			l.links = append(l.links, link{Link: transport.Link{Lane: l.messages, Src: src, Dst: dst},
				location: s.Location(src, dst), seen: map[int]bool{src: true, dst: true}})
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
	l.dropUnseen()
	l.allocate()
	return l, nil
}

func compareLinks(a, b transport.Link) int { return cmp.Or(a.Lane-b.Lane, a.Src-b.Src, a.Dst-b.Dst) }

// dropUnseen removes from the lanes the links that the rank neither serves nor reads in any plan. The counters of the
// others advance in all calls.
func (l *Layout) dropUnseen() {
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

// slotOf returns how many bytes a slot in a location has.
func (l *Layout) slotOf(p Location) int {
	if p == InHost {
		return l.HostBytes
	}
	return l.SlotBytes
}

// bytesOf returns the number of bytes of a slot of a link: those of messages, which have many links, are smaller.
func (l *Layout) bytesOf(k *link) int {
	n := l.slotOf(k.location)
	if k.Lane == l.messages {
		return min(n, max(grain, n/4&^(grain-1)))
	}
	return n
}

// allocate gives each link memory for its slots, unless its payloads lie in those of other links.
func (l *Layout) allocate() {
	for p := range l.Owned {
		l.Owned[p], l.Seen[p] = make([]int64, l.size), make([]int64, l.size)
	}
	for i := range l.links {
		k := &l.links[i]
		n := int64(l.Slots) * int64(l.bytesOf(k))
		for r := range k.seen {
			l.Seen[k.location][r] += n
		}
		if p, r := k.owner(l.rank); k.seen[r] {
			k.at = l.Owned[p][r]
			l.Owned[p][r] += n
		}
	}
}

// grain is the unit of the size of slots that were made smaller.
const grain = 4 << 10

// Fit makes the slots smaller where those of a rank would take more staging memory than budget, or too much of the
// host's memory.
func (l *Layout) Fit(budget int64) {
	shrink(&l.SlotBytes, slices.Max(l.Owned[InDevice]), budget)
	l.allocate()
	shrink(&l.SlotBytes, slices.Max(l.Seen[Network]), maxNetwork)
	l.HostBytes = min(l.HostBytes, l.SlotBytes)
	l.allocate()
	shrink(&l.HostBytes, slices.Max(l.Seen[InHost]), maxPinned)
	l.allocate()
}

// shrink reduces the size of slots, which take the given number of bytes in total, to fit into a budget.
func shrink(slot *int, take, budget int64) {
	if take > budget {
		*slot = max(grain, int(int64(*slot)*budget/take)&^(grain-1))
	}
}

// message returns the index of the link of messages from this rank to a peer, or from the peer to this rank.
func (l *Layout) message(peer int, sends bool) int {
	if sends {
		return l.find(transport.Link{Lane: l.messages, Src: l.rank, Dst: peer})
	}
	return l.find(transport.Link{Lane: l.messages, Src: peer, Dst: l.rank})
}

// find returns the index of a link, which the layout has.
func (l *Layout) find(k transport.Link) int {
	i, _ := slices.BinarySearchFunc(l.links, k, func(a link, b transport.Link) int { return compareLinks(a.Link, b) })
	return i
}

// Addresses returns where the device of the layout's rank sees the slots of every link, 0 where it does not, or where
// it is a network link. see returns where it sees n bytes of those that a rank owns in a location, from byte at on.
func (l *Layout) Addresses(see func(p Location, owner, at, n int) (cuda.Addr, error)) ([]cuda.Addr, error) {
	slots := make([]cuda.Addr, len(l.links))
	for i := range l.links {
		k := &l.links[i]
		if k.location == Network || !k.seen[l.rank] {
			continue
		}
		p, owner := k.owner(l.rank)
		var err error
		if slots[i], err = see(p, owner, int(k.at), l.Slots*l.bytesOf(k)); err != nil {
			return nil, err
		}
	}
	return slots, nil
}

// FlagBytes returns the size of the flag segment of a host, a multiple of 4096.
// It is the same for every host, and zero memory when the first rank uses it.
func (l *Layout) FlagBytes() int { return (flagHead + 4*flagLine*len(l.links) + 4095) &^ 4095 }

// UsesNetwork reports whether a link of any rank needs a transport.Endpoint. Its slots are those of this Layout.
func (l *Layout) UsesNetwork() bool {
	return slices.ContainsFunc(l.links, func(k link) bool { return k.location == Network })
}

// counter is one of the two flags of a link.
type counter int

// The counters of a link.
const (
	published counter = iota // filled slots
	released                 // payloads that the receiver has released
	counters
)

// flagAt returns the offset of a counter of link i in a segment. Behind both are those of the receiver of a network
// link, whose ends count by themselves.
func flagAt(i int, c counter) int { return flagHead + flagLine*(4*i+int(c)) }
