package collective

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/treerun/treerun/topo/pack"
)

// certificate says of the trees for large messages how near they come to what
// the network between the hosts allows.
func (h *hosts) certificate() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d hosts", len(h.ranks))
	if h.even {
		b.WriteString(", all links between them alike")
	}
	b.WriteByte('\n')
	for _, k := range []setKey{{hostsDirect, bothWays, -1}, {hostsDouble, bothWays, -1}, {hostsPacked, bothWays, -1},
		{hostsDirect, oneWay, 0}, {hostsPacked, oneWay, 0}} {
		if k.shape != hostsDirect && !h.has(k) {
			continue
		}
		what, bound, err := "AllReduce", pack.Bound{}, error(nil)
		if k.of == oneWay {
			what = "Broadcast from host 0"
			bound, err = pack.BroadcastBound(h.between, 0)
		} else {
			bound, err = pack.TreeBound(h.between)
		}
		if err != nil {
			fmt.Fprintf(&b, "%s: no bound: %v\n", what, err)
			continue
		}
		set := h.set(k)
		rate := h.rate(set, k.of)
		fmt.Fprintf(&b, "%s, %v: %d trees over hosts, %.4g GB/s, %.1f %% of the bound, %.4g GB/s: %s\n",
			what, k.shape, len(set.trees), rate, math.Floor(1000*rate/bound.Rate+1e-6)/10, bound.Rate, bound)
	}
	return b.String()
}

// rate is what the trees of a set bring together, as far as links and cards
// between the hosts go, in GB/s; 0 where they take a link that is not there.
func (h *hosts) rate(s treeSet, of setKind) float64 {
	type way struct {
		link, port int
		back       bool
	}
	total := 0.0
	load := make(map[way]float64)
	crossed := h.between.Crossed()
	index := make(map[[2]int]int, len(h.between.Links))
	for i, l := range h.between.Links {
		index[[2]int{l.A, l.B}] = i
	}
	for k, t := range s.trees {
		w := s.weight(k)
		total += w
		for v, up := range t.Parent {
			if up < 0 {
				continue
			}
			i, ok := index[[2]int{min(v, up), max(v, up)}]
			if !ok {
				return 0
			}
			for _, down := range []bool{true, false} {
				from, to := up, v
				if !down {
					if from, to = v, up; of != bothWays {
						continue
					}
				}
				load[way{i, -1, from > to}] += w
				for _, p := range crossed[i] {
					load[way{-1, p, slices.Contains(h.between.Ports[p].Ranks, to)}] += w
				}
			}
		}
	}
	most := 0.0
	for k, v := range load {
		capacity := 0.0
		if k.link >= 0 {
			capacity = h.between.Links[k.link].GBytesPerSecond
		} else {
			capacity = h.between.Ports[k.port].GBytesPerSecond
		}
		most = max(most, v/capacity)
	}
	return total / most
}
