package device

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/transport"
)

// Shape is what the ranks of a communicator agree on before they open links
// between their devices. It is the same on all of them. Its plans are for as many ranks
// as there are.
type Shape struct {
	Plans []*plan.Plan // verified: every rank's Programs, in this order, on links by linkOf

	Slots     int // of a link, at least 2, a power of two up to transport.MaxSlots
	SlotBytes int // the largest chunk, a multiple of 64

	// Direct reports whether the device of rank dst reads the memory of that of
	// rank src, and both ranks share a flag segment. Links between others are
	// relayed: through pinned memory and a transport.Endpoint.
	Direct func(src, dst int) bool
}

// Layout says where everything lies that ranks share: slots in the staging
// memory of their devices, and flags in the segment of a host. It is a pure
// function of a Shape, and never changes.
type Layout struct {
	size      int
	slots     int
	slotBytes int
	links     []link // by lane, source, destination
	staging   []int64
	plans     []schedule
	rank      int
}

// link is one FIFO between two ranks' devices.
type link struct {
	transport.Link
	direct bool
	lends  bool  // some plan puts payloads into its slots
	at     int64 // where its slots begin in the staging memory of Src
}

// flagLine is the distance between two flags, in bytes: a cache line each, so
// that devices do not disturb each other.
const flagLine = 64

// flagHead is where the flags of links begin. The first word of a segment is
// not zero when one of its ranks has aborted.
const flagHead = 4096

// newLayout lays out the links that the plans of s need, as rank sees them: all
// ranks come to the same places.
func newLayout(s Shape, rank int) (*Layout, error) {
	l := &Layout{slots: s.Slots, slotBytes: s.SlotBytes, rank: rank}
	l.size = s.Plans[0].Size
	for _, p := range s.Plans {
		for _, k := range p.Links() {
			l.links = append(l.links, link{Link: linkOf(p.Kind, k), direct: s.Direct(k.Src, k.Dst)})
		}
	}
	slices.SortFunc(l.links, func(a, b link) int { return compareLinks(a.Link, b.Link) })
	l.links = slices.Compact(l.links)
	for _, p := range s.Plans {
		one, err := l.schedule(p)
		if err != nil {
			return nil, fmt.Errorf("device: plan %s: %w", p.Name, err)
		}
		l.plans = append(l.plans, one)
	}
	l.place()
	return l, nil
}

func compareLinks(a, b transport.Link) int { return cmp.Or(a.Lane-b.Lane, a.Src-b.Src, a.Dst-b.Dst) }

// place gives every link that lends its slots.
func (l *Layout) place() {
	l.staging = make([]int64, l.size)
	for i := range l.links {
		if k := &l.links[i]; k.direct && k.lends {
			k.at = l.staging[k.Src]
			l.staging[k.Src] += int64(l.slots) * int64(l.slotBytes)
		}
	}
}

// fit makes the slots smaller where those of a rank would take more staging memory than budget.
func (l *Layout) fit(budget int64) {
	const grain = 4 << 10
	if most := slices.Max(l.staging); most > budget {
		l.slotBytes = max(grain, int(int64(l.slotBytes)*budget/most)&^(grain-1))
		l.place()
	}
}

// find returns the index of a link, which the layout has.
func (l *Layout) find(k transport.Link) int {
	i, _ := slices.BinarySearchFunc(l.links, k, func(a link, b transport.Link) int { return compareLinks(a.Link, b) })
	return i
}

// StagingBytes returns how much device memory rank r has to give: one
// allocation, which the ranks that read it map. It may be 0.
func (l *Layout) StagingBytes(r int) int64 { return l.staging[r] }

// flagBytes returns the size of the flag segment of a host, a multiple of 4096.
// It is the same for every host, and zero memory when the first rank uses it.
func (l *Layout) flagBytes() int { return (flagHead + 4*flagLine*len(l.links) + 4095) &^ 4095 }

// Sources returns the ranks whose staging memory rank r reads, rising.
func (l *Layout) Sources(r int) []int {
	var all []int
	for _, k := range l.links {
		if k.direct && k.Dst == r {
			all = append(all, k.Src)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// relays reports whether a link of any rank needs a transport.Endpoint. Its slots are those of this Layout.
func (l *Layout) relays() bool {
	return slices.ContainsFunc(l.links, func(k link) bool { return !k.direct })
}

// published and released are where the flags of link i lie in a segment. Behind them are those of the
// receiver of a relayed link, whose ends count by themselves.
func published(i int) int { return flagHead + 4*flagLine*i }
func released(i int) int  { return published(i) + flagLine }
