package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// densities are those of the page, falling.
var densities = []float64{1, .8, .4, .2, .1, .08, .04, .02, .01}

// tensors is what the page is made of: the rows of a set of ranks, with an overlap, ""
// for a dense AllReduce, and a density.
type tensors struct {
	*record
	Set     string
	Overlap string
	Density float64
	Outside bool // not in place
}

func sparseFiles(r *record, _ pictures) (any, error) { return tensors{record: r}, nil }

// On chooses the set of ranks.
func (t tensors) On(set string) tensors { t.Set = set; return t }

// Lie chooses the overlap.
func (t tensors) Lie(overlap string) tensors { t.Overlap = overlap; return t }

// At chooses the density.
func (t tensors) At(density float64) tensors { t.Density = density; return t }

// OutOfPlace chooses rows that are not in place.
func (t tensors) OutOfPlace() tensors { t.Outside = true; return t }

// Each chooses each density of the page.
func (t tensors) Each() (list []tensors) {
	for _, d := range densities {
		list = append(list, t.At(d))
	}
	return list
}

// OnOne reports whether the ranks are on one host.
func (t tensors) OnOne() bool { return strings.HasPrefix(t.Set, "1x") }

// hosts returns how many hosts the ranks are on, and how many ranks each has.
func (t tensors) hosts() (hosts, perHost int) {
	_, _ = fmt.Sscanf(t.Set, "%dx%d", &hosts, &perHost)
	return hosts, perHost
}

// entry is what the repetitions of a row are together.
type entry struct {
	sparse
	Us, Floor float64 // medians
}

// rowsOf returns the rows of a form for which more holds.
func (t tensors) rowsOf(who string, more func(*row) bool) rows {
	return t.of(key{Part: t.Set, Who: who}, func(v *row) bool {
		return v.Sparse == nil && t.Overlap == "" || v.Sparse != nil && v.Sparse.Overlap == t.Overlap &&
			v.Sparse.Density == t.Density
	}, more)
}

// Of returns the entry of a form, nil where it was not measured. Rows of several hosts
// are in place but for those of an older record, so that they count whatever is asked for.
func (t tensors) Of(who string) *entry {
	same := t.rowsOf(who, func(v *row) bool { return v.InPlace != t.Outside || !t.OnOne() })
	if len(same) == 0 {
		return nil
	}
	e := &entry{Us: same.median((*row).value), Floor: same.median(func(v *row) float64 { return v.FloorUs })}
	if same[0].Sparse == nil {
		return e
	}
	e.sparse = *same[0].Sparse
	times := map[string]int{}
	for _, v := range same {
		if times[v.Sparse.Form]++; times[v.Sparse.Form] > times[e.Form] {
			e.Form = v.Sparse.Form
		}
	}
	return e
}

// Any reports whether a form was measured anywhere.
func (t tensors) Any(who string) bool { return len(t.of(key{Who: who})) > 0 }

// Time is that of an entry, NaN where there is none.
func (t tensors) Time(who string) float64 {
	if e := t.Of(who); e != nil {
		return e.Us
	}
	return math.NaN()
}

// Dense is the time of a dense AllReduce of the set.
func (t tensors) Dense(who string) float64 { return t.Lie("").Time(who) }

// Peers is the best time of those of an MPI.
func (t tensors) Peers() float64 { return view{record: t.record}.In(t.Set).Least(mpis...).Us }

// Search returns in how many microseconds the ranks, all at once, can search their
// tensors, which is to read them: the least that this took the slowest rank in the
// in-place rows of a set in which a rank has nothing else to do, NaN if there is none.
func (t tensors) Search() float64 {
	best := math.NaN()
	for _, form := range append(forms(1), "price") {
		for _, overlap := range []string{"random", "full", "none"} {
			for _, at := range t.Lie(overlap).Each() {
				us := at.rowsOf(form, func(v *row) bool { return v.InPlace && v.Sparse.FindUs > 0 }).
					median(func(v *row) float64 { return v.Sparse.FindUs })
				if !(us >= best) && known(us) {
					best = us
				}
			}
		}
	}
	return best
}

// Forms are those that the ranks can choose between, beside the dense plan.
func (t tensors) Forms() []string {
	hosts, _ := t.hosts()
	return forms(hosts)
}

// Best is the entry by price, or that of trees, with the most blocks and bytes and the least
// limit of all forms; nil where nothing was measured.
func (t tensors) Best() *entry {
	best := cmp.Or(t.Of("price"), t.Of("trees"))
	if best == nil {
		return nil
	}
	for _, who := range t.Forms() {
		if e := t.Of(who); e != nil {
			best.Union, best.Sent, best.Floor = max(best.Union, e.Union), max(best.Sent, e.Sent), min(best.Floor, e.Floor)
		}
	}
	if t.OnOne() && !t.Outside {
		best.Floor = t.Search()
	}
	return best
}

// Measured reports whether there is anything of the overlap.
func (t tensors) Measured() bool {
	return slices.ContainsFunc(t.Each(), func(at tensors) bool { return at.Best() != nil })
}

// SentMB is the most that a rank sent, in megabytes.
func (e *entry) SentMB() float64 { return float64(e.Sent) / 1e6 }

// Attainable returns which share of the limit ranks reach at best that add up without
// machines between them.
func (t tensors) Attainable() float64 {
	hosts, perHost := t.hosts()
	return attainable(hosts, perHost, t.Density, t.Overlap)
}

// attainable is for hosts with perHost ranks, which have a part d of the blocks.
func attainable(hosts, perHost int, d float64, overlap string) float64 {
	n := float64(hosts)
	own, union, others := d, d, d // of a host, of all, of all but one
	switch overlap {
	case "random":
		own = 1 - math.Pow(1-d, float64(perHost))
		union, others = 1-math.Pow(1-own, n), 1-math.Pow(1-own, n-1)
	case "none":
		own = min(1, d*float64(perHost))
		union, others = min(1, n*own), min(1, (n-1)*own)
	}
	limit := max(own, others)
	together := (n*own + (n-2)*union) / n
	return limit / max(limit, together)
}

// choice is the row in which the form that was chosen takes the most beside the quickest
// of those that were measured by themselves.
type choice struct {
	Worst float64 // the former over the latter
	Where string
}

// Choices finds that row.
func (t tensors) Choices() choice {
	worst := choice{Worst: math.NaN()}
	for _, set := range []string{"4x2", "4x1", "1x2", "1x4", "1x8"} {
		for _, overlap := range []string{"random", "full", "none"} {
			for _, at := range t.On(set).Lie(overlap).Each() {
				for _, outside := range []bool{false, true} {
					at.Outside = outside
					if v := at.choice(); v.Worst > worst.Worst || math.IsNaN(worst.Worst) && known(v.Worst) {
						worst = v
					}
				}
			}
		}
	}
	return worst
}

// choice compares the chosen form with the quickest one; NaN where fewer than three were
// measured.
func (t tensors) choice() choice {
	chosen := t.Of("price")
	if chosen == nil {
		return choice{Worst: math.NaN()}
	}
	own, least, quickest, count := math.NaN(), math.Inf(1), "", 0
	for _, name := range append(t.Forms(), "dense") {
		v := t.Time(name)
		if name == "dense" {
			v = t.Dense("plain")
		}
		if !known(v) {
			continue
		}
		count++
		if name == chosen.Form {
			own = v
		}
		if v < least {
			quickest, least = name, v
		}
	}
	if count < 3 {
		return choice{Worst: math.NaN()}
	}
	return choice{own / least, fmt.Sprintf("%s-price-%s, density %g, in place %v: %s, %s; %s, %s",
		t.Set, t.Overlap, t.Density, !t.Outside, chosen.Form, ms(own), quickest, ms(least))}
}
