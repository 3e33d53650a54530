package topo

// Load is the load that a set of trees puts on one link or one port.
type Load struct {
	Uses     int     // of a link: the trees it is part of; of a port: the tree links that cross its set
	Rate     float64 // the sum of their trees' rates, of a port times the links' PortLoad, GB/s each way
	Capacity float64 // GB/s each way
}

// Share is the part of the capacity that the trees take, 1 for all of it.
func (l Load) Share() float64 { return l.Rate / l.Capacity }

// Loads returns the loads that trees put on g's links and ports, in their order: a tree of rate r takes r of each of
// its links, and of a port r times the PortLoad of every tree link that crosses its set, both ways (reduce up,
// broadcast down). rates holds a rate per tree in GB/s; nil leaves the rates of the loads at 0. Trees must be valid
// for g; links that g does not have are not counted.
func (g *Graph) Loads(trees []Tree, rates []float64) (links, ports []Load) {
	links = make([]Load, len(g.Links))
	ports = make([]Load, len(g.Ports))
	for i, p := range g.Ports {
		ports[i].Capacity = p.GBytesPerSecond
	}
	for i, l := range g.Links {
		links[i].Capacity = l.GBytesPerSecond
	}
	crossed, index := g.Crossed(), g.LinkIndex()
	for k, t := range trees {
		rate := 0.0
		if rates != nil {
			rate = rates[k]
		}
		for v, p := range t.Parent {
			i, has := index[Pair(v, p)]
			if !has {
				continue
			}
			links[i].add(rate)
			for _, p := range crossed[i] {
				ports[p].add(float64(rate * g.Links[i].PortLoad()))
			}
		}
	}
	return links, ports
}

func (l *Load) add(rate float64) {
	l.Uses++
	l.Rate += rate
}

// Crossed returns, for every link of g, the ports whose set holds exactly one
// of its ends, by index and rising.
func (g *Graph) Crossed() [][]int {
	out := make([][]int, len(g.Links))
	in := make([]bool, g.Ranks)
	for p, port := range g.Ports {
		for _, r := range port.Ranks {
			in[r] = true
		}
		for i, l := range g.Links {
			if in[l.A] != in[l.B] {
				out[i] = append(out[i], p)
			}
		}
		for _, r := range port.Ranks {
			in[r] = false
		}
	}
	return out
}
