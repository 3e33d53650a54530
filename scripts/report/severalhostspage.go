package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/treerun/treerun/internal/chart"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/pack"
)

// severalHosts is what the page is made of. The value of a start is milliseconds.
type severalHosts struct{ *record }

func severalHostsFiles(r *record) (any, pictures, error) {
	var panels [][]chart.Panel
	for _, n := range []struct{ network, title string }{{"even", "500 Mbit/s, "}, {"open", "unshaped, "}} {
		var pair []chart.Panel
		for _, op := range strings.Split(both, ",") {
			pair = append(pair, r.panel(n.title+op, key{Part: n.network, Op: op}))
		}
		panels = append(panels, pair)
	}
	svg, err := chart.SVG("", 460, 360, panels...)
	return severalHosts{r}, pictures{"several-hosts.svg": svg}, err
}

// About is the table of facts.
func (p severalHosts) About() table { return p.Run(p.away()) }

// Chapters are those of networks that were measured.
func (p severalHosts) Chapters() (list []chapter) {
	for _, c := range chapters {
		if len(p.of(key{Part: c.network, Op: "allreduce"}))+len(p.of(key{Part: c.network, Op: "broadcast"})) > 0 {
			list = append(list, c)
		}
	}
	return list
}

// Ops are the collectives of a chapter that were measured.
func (p severalHosts) Ops(c chapter) (list []string) {
	for _, op := range strings.Split(both, ",") {
		if len(p.of(key{Part: c.network, Op: op})) > 0 {
			list = append(list, op)
		}
	}
	return list
}

// mbit returns bytes in microseconds as Mbit/s.
func mbit(bytes int64, us float64) float64 { return float64(bytes) * 8 / us }

// Goals says in one table how each goal was met, "" where none is judged.
func (p severalHosts) Goals() string {
	t := table{{"network", "collective", "size", "treerun, Mbit/s", "bound, Mbit/s", "share", "goal", "best peer, Mbit/s",
		"ratio"}}
	for _, c := range chapters {
		for _, op := range strings.Split(both, ",") {
			goal, has := c.goals[op]
			k := key{Part: c.network, Op: op, Who: "treerun"}
			bound := p.bound(c.network, op)
			for _, bytes := range p.sizes(k) {
				if bytes < c.from || !has {
					continue
				}
				k.Bytes = bytes
				mine := p.value(k)
				best, who := p.bestPeer(k)
				t.line(c.network, op, numbers.Bytes(bytes), mbit(bytes, mine), bound, below(mbit(bytes, mine)/bound, goal),
					fmt.Sprintf("%.2f", goal), strings.TrimSpace(number(mbit(bytes, best))+" "+titleOf(who)), below(best/mine, 1))
			}
		}
	}
	return t.String()
}

// who returns the implementations in the rows that k asks for, in the order of columns.
func (p severalHosts) who(k key) (list []string) {
	for _, x := range implementations {
		if k.Who = x.name; len(p.of(k)) > 0 {
			list = append(list, x.name)
		}
	}
	return list
}

// Sweep writes the table of one operation.
func (p severalHosts) Sweep(c chapter, op string) string {
	k := key{Part: c.network, Op: op}
	who, bound := p.who(k), p.bound(c.network, op)
	head := []string{op + " (µs)"}
	for _, x := range who {
		head = append(head, titleOf(x))
	}
	head = append(head, "plan", "ratio")
	if known(bound) {
		head = append(head, "Mbit/s", "share of bound")
	}
	t := table{head}
	var all ratios
	for _, bytes := range p.sizes(k) {
		k.Bytes = bytes
		mine := p.get(k, "treerun")
		best, _ := p.bestPeer(k)
		all.add(best/mine, 1, numbers.Bytes(bytes))
		cells := []any{numbers.Bytes(bytes)}
		for _, x := range who {
			cells = append(cells, p.get(k, x))
		}
		own := key{Part: c.network, Op: op, Bytes: bytes, Who: "treerun"}
		cells = append(cells, strings.Join(p.of(own).plans(), ", "), below(best/mine, 1))
		if known(bound) {
			cells = append(cells, mbit(bytes, mine), c.share(op, bytes, mbit(bytes, mine)/bound))
		}
		t.line(cells...)
	}
	text := t.String()
	if known(bound) {
		text += fmt.Sprintf("\n\nBound: %s Mbit/s.", number(bound))
	}
	if known(geometric(all.list)) {
		text += fmt.Sprintf("\n\nGeometric mean of the ratios: %s. Slower than the best peer at: %s.", all.mean(),
			all.where())
	}
	return text
}

// share writes the share of the bound where it means something: bursts do not.
func (c chapter) share(op string, bytes int64, v float64) string {
	if bytes < mib {
		return ""
	}
	goal := 0.0
	if bytes >= c.from {
		goal = c.goals[op]
	}
	return below(v, goal)
}

// Start is the table of an empty job, "" if it was not measured.
func (p severalHosts) Start() string {
	k := key{Part: "start"}
	mine, ompi := p.get(k, "treerun"), p.get(k, "openmpi")
	if !known(mine) {
		return ""
	}
	t := table{{"hosts", "treerun (ms)", "Open MPI (ms)", "MPICH (ms)", "Open MPI / treerun"}}
	t.line(hosts, mine, ompi, p.get(k, "mpich"), below(ompi/mine, 2))
	return t.String()
}

// bound returns how fast a message can be done with at most, in Mbit/s of the payload that
// TCP carries over cards and links of such rates; NaN where there is no limit.
func (p severalHosts) bound(name, op string) float64 {
	all := networks()
	n := all[slices.IndexFunc(all, func(n network) bool { return n.name == name })]
	rate := func(text string) (v float64) {
		_, _ = fmt.Sscanf(text, "%gmbit", &v) // no rate: no link
		return v * payload
	}
	switch {
	case n.Mesh != nil && op == "broadcast":
		return cutBound(hosts, func(from, to int) float64 { return rate(n.Mesh[from][to]) })
	case n.Mesh != nil:
		return packingBound(hosts, func(a, b int) float64 { return rate(n.Mesh[a][b]) })
	case n.Rates == nil:
		return math.NaN()
	}
	var cards []float64
	for i := range hosts {
		cards = append(cards, rate(n.Rates[min(i, len(n.Rates)-1)]))
	}
	return cardsBound(op, cards)
}

// cardsBound is for hosts whose cards send and receive rates[i] each. Everybody
// must send and receive all of an AllReduce at least once, and 2(n-1) messages
// go over all cards; a Broadcast leaves the root's card, comes in at every other,
// and n-1 messages are sent.
func cardsBound(op string, rates []float64) float64 {
	sum, least := 0.0, math.Inf(1)
	for _, r := range rates {
		sum, least = sum+r, min(least, r)
	}
	passes := float64(len(rates) - 1)
	if op == "allreduce" {
		passes *= 2
	}
	return min(least, sum/passes)
}

// packingBound is the most that spanning trees can carry when each tree reduces up and
// broadcasts down its links, both ways at once.
func packingBound(n int, rate func(a, b int) float64) float64 {
	const unit = 8000 // Mbit/s for 1 GB/s
	g := &topo.Graph{Ranks: n}
	for a := range n {
		g.Hosts = append(g.Hosts, a)
		for b := range a {
			if v := rate(a, b); v > 0 {
				g.Links = append(g.Links, topo.Link{A: b, B: a, GBytesPerSecond: v / unit})
			}
		}
	}
	b, err := pack.FindBound(g, pack.BothWays)
	if err != nil {
		return math.NaN() // some host has no link
	}
	return b.Rate * unit
}

// cutBound is the most that can come from host 0 to every other one: the least
// rate out of a set that has host 0 and not all hosts.
func cutBound(n int, rate func(from, to int) float64) float64 {
	best := math.Inf(1)
	for set := 1; set < 1<<n-1; set += 2 {
		out := 0.0
		for i := range n {
			for j := range n {
				if set>>i&1 == 1 && set>>j&1 == 0 {
					out += rate(i, j)
				}
			}
		}
		best = min(best, out)
	}
	return best
}
