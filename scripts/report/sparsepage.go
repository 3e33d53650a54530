package main

import (
	"fmt"
	"math"
	"strings"
)

// densities are those of the page, falling.
var densities = []float64{1, .8, .4, .2, .1, .08, .04, .02, .01}

// sparsePage is what the page is made of.
type sparsePage struct{ *record }

func sparseFiles(r *record) (any, pictures, error) { return sparsePage{r}, nil, nil }

// entry is what the repetitions of a row are together; nil: not measured.
type entry struct {
	sparse
	us, floor float64 // medians
}

// find returns the entry of a set and form with an overlap, "" for a dense AllReduce.
// Rows of several hosts are in place but for those of an older record, so that they
// count whatever inPlace says.
func (p sparsePage) find(set, who, overlap string, density float64, inPlace bool) *entry {
	same := p.of(key{Part: set, Who: who}, func(v *row) bool {
		if v.InPlace != inPlace && set[0] == '1' {
			return false
		}
		return v.Sparse == nil && overlap == "" || v.Sparse != nil && v.Sparse.Overlap == overlap &&
			v.Sparse.Density == density
	})
	if len(same) == 0 {
		return nil
	}
	e := &entry{us: same.value(key{}), floor: same.median(func(v *row) float64 { return v.FloorUs })}
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

// time is that of an entry, NaN where there is none.
func (e *entry) time() float64 {
	if e == nil {
		return math.NaN()
	}
	return e.us
}

// dense is the time of a dense AllReduce.
func (p sparsePage) dense(set, who string, inPlace bool) float64 {
	return p.find(set, who, "", 0, inPlace).time()
}

// Dense says what the dense AllReduces took.
func (p sparsePage) Dense(set string) string {
	var b strings.Builder
	for _, x := range [][2]string{{"plain", "treerun's dense AllReduce"}, {"openmpi", "Open MPI"},
		{"openmpi:ring", "Open MPI with its ring"}, {"mpich", "MPICH"}} {
		if us := p.dense(set, x[0], true); known(us) {
			fmt.Fprintf(&b, "%s: %s. ", x[1], ms(us))
		}
	}
	return strings.TrimSpace(b.String())
}

// search returns in how many microseconds the ranks, all at once, can search their
// tensors, which is to read them: the least that this took the slowest rank in the
// in-place rows of a set in which a rank has nothing else to do, NaN if there is none.
func (p sparsePage) search(set string) float64 {
	best := math.NaN()
	for _, form := range append(forms(1), "price") {
		for _, overlap := range []string{"random", "full", "none"} {
			for _, d := range densities {
				same := p.of(key{Part: set, Who: form}, func(v *row) bool {
					return v.InPlace && v.Sparse != nil && v.Sparse.Overlap == overlap && v.Sparse.Density == d && v.Sparse.FindUs > 0
				})
				if us := same.median(func(v *row) float64 { return v.Sparse.FindUs }); !(us >= best) && known(us) {
					best = us
				}
			}
		}
	}
	return best
}

// Table writes the table of an overlap, "" where nothing was measured.
func (p sparsePage) Table(set, overlap string, inPlace bool) string {
	hosts, perHost := 0, 0
	_, _ = fmt.Sscanf(set, "%dx%d", &hosts, &perHost)
	head := append(append([]string{"density", "union", "by price"}, forms(hosts)...),
		"dense over this", "limit", "share of limit", "can be", "sent, most")
	t := table{head}
	plain := p.dense(set, "plain", inPlace)
	for _, d := range densities {
		best := p.find(set, "price", overlap, d, inPlace)
		union, sent, least := 0.0, int64(0), math.Inf(1)
		var times []any
		for _, who := range append([]string{"price"}, forms(hosts)...) {
			e := p.find(set, who, overlap, d, inPlace)
			if e == nil {
				times = append(times, "")
				continue
			}
			text := ms(e.us)
			if who == "price" {
				text += " " + e.Form
			}
			times = append(times, text)
			if best == nil && who == "trees" {
				best = e
			}
			union, sent, least = max(union, e.Union), max(sent, e.Sent), min(least, e.floor)
		}
		if best == nil {
			continue
		}
		can := ""
		switch {
		case hosts > 1:
			can = fmt.Sprintf("%.2f", attainable(hosts, perHost, d, overlap))
		case inPlace:
			least = p.search(set)
		}
		speedup := ""
		if known(plain) {
			speedup = ratio(plain / best.us)
		}
		cells := append([]any{fmt.Sprint(d), fmt.Sprintf("%.3g %%", 100*union)}, times...)
		t.line(append(cells, speedup, ms(least), ratio(least/best.us), can, fmt.Sprintf("%.1f MB", float64(sent)/1e6))...)
	}
	if len(t) == 1 {
		return ""
	}
	pass := ""
	if hosts == 1 {
		pass = map[bool]string{true: ", in place", false: ", not in place"}[inPlace]
		if known(plain) {
			pass += ": the dense plan takes " + ms(plain)
		}
	}
	return fmt.Sprintf("%s overlap%s\n\n%s", strings.ToUpper(overlap[:1])+overlap[1:], pass, t)
}

// Aggregators compares where they are, "" if nothing was measured.
func (p sparsePage) Aggregators() string {
	t := table{{"hosts", "density", "on the ranks", "of their own"}}
	for _, x := range [][2]string{{"4x2", "four, 8 ranks"}, {"1x4", "one, 4 ranks"}} {
		for _, d := range densities {
			ranks, apart := p.find(x[0], "aggregators", "random", d, true), p.find(x[0], own, "random", d, true)
			if apart != nil {
				t.line(x[1], fmt.Sprint(d), ms(ranks.time()), ms(apart.us))
			}
		}
	}
	return t.String()
}

// attainable returns which share of the limit ranks reach at best that add up without
// machines between them. Hosts have perHost ranks, which have a part d of the blocks.
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

// ms prints microseconds as milliseconds.
func ms(us float64) string {
	digits := 0
	switch {
	case math.IsNaN(us):
		return ""
	case us < 10e3:
		digits = 2
	case us < 100e3:
		digits = 1
	}
	return fmt.Sprintf("%.*f ms", digits, us/1e3)
}

// goals collects what was aimed at.
type goals struct{ table }

// add notes a goal: the value is to be at least want, or at most; why is what is in the
// way if it is missed. A value that is not known is no goal.
func (g *goals) add(what string, value, want float64, least bool, why string) {
	if math.IsNaN(value) {
		return
	}
	verdict := "reached"
	if least && value < want || !least && value > want {
		verdict = "**missed**"
	} else {
		why = ""
	}
	g.line(what, fmt.Sprintf("%.2f", value), verdict, why)
}

// Goals compares what was measured with what was aimed at, and says what is in the way
// of what was missed.
func (p sparsePage) Goals() table {
	g := &goals{table{{"goal", "measured", "", "in the way"}}}
	full, plain := p.find("4x2", "price", "full", .01, true).time(), p.dense("4x2", "plain", true)
	g.add("99 % sparse, full overlap, 8 workers: at least 15 times quicker than the dense AllReduce", plain/full, 15,
		true, "")
	peers, _ := p.best(key{Part: "4x2"}, mpis)
	g.add("the same, at least 20 times quicker than the best MPI", peers/full, 20, true, "")
	g.add("dense input: time over that of the dense AllReduce, at most 1.05",
		p.find("4x2", "price", "random", 1, true).time()/plain, 1.05, false, "")
	for _, d := range densities {
		if e := p.find("4x2", "price", "random", d, true); e != nil {
			can := attainable(4, 2, d, "random")
			own := e.floor / can
			why := fmt.Sprintf("%.2f can be reached (%s); %s more, of which all ranks' searches take %s of all cores",
				can, ms(own), ms(e.us-own), ms(p.search("4x2")))
			if can < 0.8 {
				why = fmt.Sprintf("ranks that add up without a machine between them can reach %.2f: %s; this is %.2f of that",
					can, ms(own), own/e.us)
			}
			g.add(fmt.Sprintf("random positions, density %g: at least 0.80 of the limit", d), e.floor/e.us, 0.8, true, why)
		}
	}
	for _, np := range []int{2, 4, 8} {
		set := fmt.Sprintf("1x%d", np)
		plain, search := p.dense(set, "plain", true), p.search(set)
		for _, overlap := range []string{"full", "random"} {
			us := p.find(set, "price", overlap, .01, true).time()
			g.add(fmt.Sprintf("one host, %d ranks, 64 MiB in place, 99 %% sparse, %s overlap: at least 5 times quicker than "+
				"the dense plan", np, overlap), plain/us, 5, true,
				fmt.Sprintf("to search the tensors alone, %s, is %.1f times quicker than the dense plan; beyond it are %s",
					ms(search), plain/search, ms(us-search)))
		}
	}
	worst, where := p.choices()
	g.add("the chosen form over the quickest, the worst row ("+where+"): at most 1, and 0.05 for what repetitions differ",
		worst, 1.05, false, "")
	return g.table
}

// choices finds the row in which the form that was chosen takes the most beside the
// quickest, of those that were measured by themselves.
func (p sparsePage) choices() (worst float64, where string) {
	worst = math.NaN()
	for _, c := range cases() {
		for _, overlap := range strings.Split(c.overlaps, ",") {
			for _, d := range densities {
				for _, inPlace := range []bool{true, false} {
					chosen := p.find(c.set(), c.who, overlap, d, inPlace)
					if c.who != "price" || chosen == nil {
						continue
					}
					own, form, us := p.choice(&c, overlap, d, inPlace, chosen.Form)
					if own/us > worst || math.IsNaN(worst) && known(own/us) {
						worst, where = own/us, fmt.Sprintf("%s-price-%s, density %g, in place %v: %s, %s; %s, %s",
							c.set(), overlap, d, inPlace, chosen.Form, ms(own), form, ms(us))
					}
				}
			}
		}
	}
	return worst, where
}

// choice returns what the chosen form took by itself for the tensors of a row, and the
// quickest form and its time; NaN where fewer than three were measured.
func (p sparsePage) choice(c *testCase, overlap string, d float64, inPlace bool, chosen string) (own float64,
	form string, us float64) {
	own, us = math.NaN(), math.Inf(1)
	count := 0
	for _, name := range append(forms(c.hosts), "dense") {
		v := p.find(c.set(), name, overlap, d, inPlace).time()
		if name == "dense" {
			v = p.dense(c.set(), "plain", inPlace)
		}
		if !known(v) {
			continue
		}
		count++
		if name == chosen {
			own = v
		}
		if v < us {
			form, us = name, v
		}
	}
	if count < 3 {
		return math.NaN(), form, us
	}
	return own, form, us
}

// sparseSet is the page's part on one set of ranks.
type sparseSet struct {
	sparsePage
	Set string
}

// On returns the part on a set.
func (p sparsePage) On(set string) sparseSet { return sparseSet{p, set} }
