package sparse

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/internal/comm"
	"github.com/treerun/treerun/internal/kernel"
)

// pricing predicts calls of 16 Mi float32, with the given number of ranks, of ranks per host and of ranks per core,
// where the dense plan moves 1 GB/s.
type pricing struct{ ranks, perHost, perCore int }

func (p pricing) of(e estimate) [formEnd]time.Duration {
	inside := &comm.Inside{Share: float64(p.perCore), HeapBytes: 1 << 40}
	for r := range p.ranks {
		inside.Hosts = append(inside.Hosts, r/p.perHost)
	}
	r := newReduction(newCall(allReduce, kernel.Float32, collective.Sum, 16<<20, nil))
	r.state = &state{c: &comm.Comm{Size: p.ranks}, inside: inside,
		hostPrices: newPrices(func(bytes int) float64 { return 20 + float64(bytes)/1e3 })}
	r.predict(&e, true)
	return e.us
}

// More blocks cost no less; a result in other memory costs all sparse forms the same; ranks that share cores take
// longer; full tensors run in the dense form, and empty ones do not.
func TestPrices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := pricing{ranks: rapid.SampledFrom([]int{2, 4, 8}).Draw(t, "ranks"),
			perCore: rapid.IntRange(1, 4).Draw(t, "per core")}
		p.perHost = rapid.SampledFrom([]int{1, 2, p.ranks}).Draw(t, "per host")
		d := rapid.Float64Range(0, 1).Draw(t, "density")
		union := 1 - math.Pow(1-d, float64(p.ranks))
		e := estimate{mean: d, most: d, host: 1 - math.Pow(1-d, float64(p.perHost)), union: union}
		more, apart, full, empty := e, e, estimate{mean: 1, most: 1, host: 1, union: 1}, estimate{}
		more.mean, more.union = d+(1-d)/2, union+(1-union)/2
		apart.apart = true
		own, away := p.of(e), p.of(apart)
		fewer := p
		fewer.perCore = 1
		for f, us := range own {
			switch form := Form(f); {
			case p.of(more)[f] < us || fewer.of(e)[f] > us:
				t.Fatalf("%v costs %v, of more blocks %v, of ranks with cores of their own %v", form, us, p.of(more)[f],
					fewer.of(e)[f])
			case form == Dense && away[f] != us, form != Dense && us > 0 && away[f]-us != away[Trees]-own[Trees] &&
				(away[f]-us-away[Trees]+own[Trees]).Abs() > time.Microsecond:
				t.Fatalf("%v costs %v, with a result in other memory %v; trees %v and %v", form, us, away[f], own[Trees],
					away[Trees])
			case (us > 0) != (form == Trees || form == Dense || form == Shared && p.perHost == p.ranks):
				t.Fatalf("%v costs %v", form, us)
			}
			if us > 0 && (p.of(full)[f] < p.of(full)[Dense] || f != int(Dense) && p.of(empty)[f] > p.of(empty)[Dense]) {
				t.Fatalf("%v costs %v where all is full, %v where all is empty; the dense form %v", Form(f), p.of(full)[f],
					p.of(empty)[f], own[Dense])
			}
		}
	})
}

// Between hosts blocks with few non-zero elements cost less; on one host, where they are sent in full, they cost as
// much as others.
func TestPriceOfThinBlocks(t *testing.T) {
	dense := estimate{mean: 1, most: 1, host: 1, union: 1}
	thin := dense
	thin.thin, thin.unionThin = 0.99, 0.96
	apart, together := pricing{4, 1, 1}, pricing{4, 4, 1}
	us, values := apart.of(thin), apart.of(dense)
	if us[Trees] > values[Trees]*2/3 || us[Dense] != values[Dense] {
		t.Errorf("between hosts: %v, of dense blocks %v", us, values)
	}
	if us := together.of(thin); us != together.of(dense) {
		t.Errorf("on one host: %v, of dense blocks %v", us, together.of(dense))
	}
}
