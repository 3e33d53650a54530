package sparse

import (
	"fmt"
	"strings"
	"time"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/topo"
)

// estimate contains the samples' densities over all ranks, and the predictions that follow from them: the same on all
// ranks.
type estimate struct {
	mean, most float64 // density of the ranks' blocks
	union      float64 // density of the union of all ranks
	host       float64 // largest density of the union of a host's ranks
	thin       float64 // part of the elements of the ranks' blocks that is zero
	unionThin  float64 // the same for the union
	apart      bool    // results are written to other memory
	form       Form
	us         [formEnd]time.Duration // predicted; 0: the form cannot run
}

// estimate predicts the times of the forms.
func (r *reduction) estimate(all []hello) estimate {
	e := estimate{form: r.form}
	if e.form != ByPrice {
		return e
	}
	n := taken(r.grid.Blocks())
	var union sample
	hosts := make(map[int]*sample)
	zero := 1.0 // part of the tensor's elements that is zero on all ranks
	for q := range all {
		s := &all[q].Sample
		d, thin := part(s.set().Len(), n), float64(all[q].Thin)/255
		e.mean += d / float64(len(all))
		e.most = max(e.most, d)
		e.apart = e.apart || all[q].Apart
		e.thin += thin * d
		zero *= 1 - d*(1-thin)
		union.set().Union(s.set())
		h := r.state.inside.Hosts[q]
		if hosts[h] == nil {
			hosts[h] = new(sample)
		}
		hosts[h].set().Union(s.set())
	}
	e.union = part(union.set().Len(), n)
	for _, s := range hosts {
		e.host = max(e.host, part(s.set().Len(), n))
	}
	if e.thin > 0 {
		e.thin /= e.mean * float64(len(all))
		e.unionThin = max(0, 1-(1-zero)/e.union)
	}
	r.predict(&e, r.call.What == allReduce)
	return e
}

// priced lists the forms that can be the fastest.
var priced = []Form{Trees, Shared, Compact, Dense}

// choose selects the fastest of the forms that can run by price, the first of equals.
func (e *estimate) choose() {
	if e.form != ByPrice {
		return
	}
	e.form = Dense
	for _, f := range priced {
		if 0 < e.us[f] && e.us[f] < e.us[e.form] {
			e.form = f
		}
	}
}

// Costs of sparse forms in addition to the time of the dense plan for the bytes that they move: a block is handled by
// itself where the dense plan has long pieces, and a search for blocks comes first.
const (
	findRate    = 12.0 // GB/s of a core, while other cores search, too
	blockUs     = 0.15 // per block moved, at each end
	treeFactor  = 1.1
	thinUs      = 1.5e-4 // per byte of blocks that are sent without their zeros
	sharedCores = 1.5    // factor of the dense plan on one host whose ranks share cores
)

// predict fills in e.us. search reports whether the blocks have to be found.
//
// The ranks' blocks go up a tree, merged on the way, and the union comes down; the dense plan moves the whole message
// both ways. So a sparse form moves as many bytes as the dense plan for a message of the mean of the two. Aggregators
// are not predicted: they get the blocks of every rank, so several ranks of a host send a block through its card
// several times, where trees merge the copies first.
//
// Work of the ranks themselves is slower by the number of ranks that share a core.
func (r *reduction) predict(e *estimate, search bool) {
	bytes := float64(r.grid.Bytes())
	ranks := 1 // of the largest host
	count := make(map[int]int)
	for _, h := range r.state.inside.Hosts {
		count[h]++
		ranks = max(ranks, count[h])
	}
	find, zeros := 0.0, 0.0
	if search {
		find, zeros = r.findUs(e)
	}
	up, ends, wait := e.mean, 1.0, 1.0
	if len(count) > 1 {
		up = e.host
	} else {
		ends = 2 // in and out of shared memory
		if r.state.inside.Share > 1 {
			wait = sharedCores
		}
	}
	handling := (up + e.union) * float64(r.grid.Blocks()) * blockUs * ends * r.state.inside.Share
	e.us[Dense] = micro(wait * r.state.hostPrices.us(int(bytes)))
	own := find + zeros + handling
	moved := up + e.union
	if e.thin > 0 && len(count) > 1 {
		own += moved * bytes * thinUs * r.state.inside.Share
		moved = up*block.Thinned(1-e.thin) + e.union*block.Thinned(1-e.unionThin)
	}
	e.us[Trees] = micro(own + wait*treeFactor*r.state.hostPrices.us(int(bytes*moved/2)))
	if r.noSharing() == "" {
		// For a full tensor it does all the work of the dense plan.
		dense := wait * r.state.hostPrices.us(int(bytes*(e.mean+e.union)/2))
		e.us[Shared] = micro(find + zeros + max(r.sharedUs(e), dense))
	}
}

// findUs predicts the time of a search for blocks, and the time to write zeros around a result in other memory.
func (r *reduction) findUs(e *estimate) (find, zeros float64) {
	bytes := float64(r.grid.Bytes()) * r.state.inside.Share
	if e.apart {
		zeros = (1 - e.union) * bytes * zeroUs
	}
	return bytes / findRate / 1e3, zeros
}

// Costs of the form Shared on a core, in us per byte: to copy a rank's blocks into shared memory; to read a block of
// another rank and add it up; to write a block of the result; to write zeros. And the time that ranks wait for each
// other, in us.
const (
	packUs  = 1 / 5e3
	readUs  = 1 / 12e3
	writeUs = 1 / 4.5e3
	zeroUs  = 1 / 9e3
	meetUs  = 30
)

// sharedUs predicts the time of the form Shared without the search: all ranks do the same at the same time.
func (r *reduction) sharedUs(e *estimate) float64 {
	n := float64(r.state.c.Size)
	us := e.mean*packUs + e.union*writeUs + min(n*e.mean, e.mean+2*e.union)*readUs
	return (us*float64(r.grid.Bytes()) + meetUs) * r.state.inside.Share
}

func micro(us float64) time.Duration { return time.Duration(us * 1e3) }

// words describes the choice and its reason.
func (e *estimate) words(r *reduction) string {
	var b strings.Builder
	fmt.Fprintf(&b, "sparse AllReduce of %d %v, %v, blocks of %d: ", r.call.Count, r.call.DType, r.call.Op, r.call.Block)
	if r.form != ByPrice {
		why := "as selected by the caller"
		if len(r.state.servers) > 0 {
			why = "on ranks that serve: " + topo.RankList(r.state.servers)
		}
		fmt.Fprintf(&b, "%v, %s\n", e.form, why)
		return b.String()
	}
	fmt.Fprintf(&b, "%s of the blocks are not zero, %s with those of all ranks", percent(e.mean), percent(e.union))
	if e.thin > 0 {
		fmt.Fprintf(&b, ", and %s of their elements", percent(1-e.thin))
	}
	fmt.Fprintf(&b, ": %v;", e.form)
	for _, f := range priced {
		if e.us[f] > 0 {
			fmt.Fprintf(&b, " %v would take %v,", f, e.us[f].Round(time.Microsecond))
		}
	}
	return strings.TrimSuffix(b.String(), ",") + "\n"
}
