package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// goal is one line of the goals.
type goal struct {
	what        string
	value, want float64
	more        bool   // is better
	why         string // what is in the way if it is missed
}

// goals compares what was measured with what was aimed at, and says what is in the
// way of what was missed.
func goals(r record) string {
	var b strings.Builder
	b.WriteString("\n## The goals\n\n| goal | measured | | in the way |\n|---|---|---|---|\n")
	for _, list := range [][]goal{r.dense(), r.positions(), r.oneHost(), {r.choices()}} {
		for _, g := range list {
			if math.IsNaN(g.value) {
				continue
			}
			verdict, why := "reached", ""
			if g.more && g.value < g.want || !g.more && g.value > g.want {
				verdict, why = "**missed**", g.why
			}
			fmt.Fprintf(&b, "| %s | %.2f | %s | %s |\n", g.what, g.value, verdict, why)
		}
	}
	return b.String()
}

// us returns the time of a row of several hosts, NaN where there is none.
func (r record) us(name string, d float64) float64 {
	if e := r.row(name, d); e != nil {
		return e.TimeUs
	}
	return math.NaN()
}

// dense are the goals beside dense AllReduces.
func (r record) dense() []goal {
	full := r.us("4x2-price-full", .01)
	list := []goal{{what: "99 % sparse, full overlap, 8 workers: at least 15 times quicker than the dense AllReduce", value: r.us("4x2-plain", 0) / full, want: 15, more: true}}
	var peers []float64
	for _, who := range []string{"openmpi", "openmpi:ring", "mpich"} {
		if v := r.us("4x2-"+who, 0); !math.IsNaN(v) {
			peers = append(peers, v)
		}
	}
	if len(peers) > 0 {
		list = append(list, goal{what: "the same, at least 20 times quicker than the best MPI", value: slices.Min(peers) / full, want: 20, more: true})
	}
	return append(list, goal{what: "dense input: time over that of the dense AllReduce, at most 1.05", value: r.us("4x2-price-random", 1) / r.us("4x2-plain", 0), want: 1.05})
}

// positions are the goals of random positions.
func (r record) positions() (list []goal) {
	for _, d := range densities {
		e := r.row("4x2-price-random", d)
		if e == nil {
			continue
		}
		g := goal{what: fmt.Sprintf("random positions, density %g: at least 0.80 of the limit", d), value: e.FloorUs / e.TimeUs, want: 0.8, more: true}
		can := attainable(4, 2, d, "random")
		own := e.FloorUs / can
		if can < 0.8 {
			g.why = fmt.Sprintf("ranks that add up without a machine between them can reach %.2f: %s; this is %.2f of that", can, ms(own), own/e.TimeUs)
		} else {
			g.why = fmt.Sprintf("%.2f can be reached (%s); %s more, of which all ranks' searches take %s of all cores", can, ms(own), ms(e.TimeUs-own), ms(r.search("4x2")))
		}
		list = append(list, g)
	}
	return list
}

// search returns in how many microseconds the ranks, all at once, can search their
// tensors, which is to read them: the least that this took the slowest rank in the
// in-place rows of a set in which a rank has nothing else to do, NaN if there is none.
func (r record) search(set string) float64 {
	best := math.NaN()
	for i := range r {
		e := &r[i]
		form, ok := strings.CutPrefix(e.Case, set+"-")
		form, _, _ = strings.Cut(form, "-")
		alone := form == "price" || form == "trees" || form == "aggregators" || form == "shared"
		if ok && alone && e.InPlace && e.FindUs > 0 && !(e.FindUs >= best) {
			best = e.FindUs
		}
	}
	return best
}

// oneHost are the goals of one host.
func (r record) oneHost() (list []goal) {
	for _, np := range []int{2, 4, 8} {
		plain, search := r.find(fmt.Sprintf("1x%d-plain", np), 0, true), r.search(fmt.Sprintf("1x%d", np))
		for _, overlap := range []string{"full", "random"} {
			e := r.find(fmt.Sprintf("1x%d-price-%s", np, overlap), .01, true)
			if plain == nil || e == nil {
				continue
			}
			list = append(list, goal{
				what:  fmt.Sprintf("one host, %d ranks, 64 MiB in place, 99 %% sparse, %s overlap: at least 5 times quicker than the dense plan", np, overlap),
				value: plain.TimeUs / e.TimeUs, want: 5, more: true,
				why: fmt.Sprintf("to search the tensors alone, %s, is %.1f times quicker than the dense plan; beyond it are %s", ms(search), plain.TimeUs/search, ms(e.TimeUs-search)),
			})
		}
	}
	return list
}

// choices is the goal of the choice: the row in which the form that was chosen takes
// the most beside the quickest, of those that were measured by themselves.
func (r record) choices() goal {
	g := goal{value: math.NaN(), want: 1.05}
	where := ""
	for _, c := range cases() {
		if c.form != "price" {
			continue
		}
		for _, overlap := range strings.Split(c.overlap, ",") {
			for _, d := range densities {
				for _, inPlace := range []bool{true, false} {
					chosen := r.find(c.row(overlap), d, inPlace)
					if chosen == nil {
						continue
					}
					times := r.alone(c, overlap, d, inPlace)
					own, is := times[chosen.Form]
					if !is || len(times) < 3 {
						continue
					}
					for form, us := range times {
						if own/us <= g.value {
							continue
						}
						g.value, where = own/us, fmt.Sprintf("%s, density %g, in place %v: %s, %s; %s, %s", c.row(overlap), d, inPlace, chosen.Form, ms(own), form, ms(us))
					}
				}
			}
		}
	}
	g.what = "the chosen form over the quickest, the worst row (" + where + "): at most 1, and 0.05 for what repetitions differ"
	return g
}

// alone returns what the forms took for the tensors of a row of c, and the dense plan.
func (r record) alone(c testCase, overlap string, d float64, inPlace bool) map[string]float64 {
	times := map[string]float64{}
	for _, form := range forms(c.hosts) {
		if e := r.find(strings.Replace(c.row(overlap), c.form, form, 1), d, inPlace); e != nil {
			times[form] = e.TimeUs
		}
	}
	set, _, _ := strings.Cut(c.name, "-")
	if e := r.find(set+"-plain", 0, inPlace); e != nil {
		times["dense"] = e.TimeUs
	}
	return times
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
