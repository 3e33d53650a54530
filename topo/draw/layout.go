package draw

import (
	"cmp"
	"math"
	"slices"

	"github.com/treerun/treerun/topo"
)

// The measures of a picture, in pixels.
const (
	nodeRadius = 17.0
	margin     = 24.0 // around everything
	padding    = 34.0 // between the circles of a host and its box
	gap        = 90.0 // between boxes
	titleSpace = 40.0
	leastBox   = 220.0 // side of a box: the name and the port stand beside each other
)

// point is a place in the picture; y grows downwards.
type point struct{ x, y float64 }

func (p point) add(q point) point     { return point{p.x + q.x, p.y + q.y} }
func (p point) sub(q point) point     { return point{p.x - q.x, p.y - q.y} }
func (p point) by(f float64) point    { return point{p.x * f, p.y * f} }
func (p point) length() float64       { return math.Hypot(p.x, p.y) }
func (p point) normal() point         { return point{-p.y, p.x}.unit() }
func (p point) towards(q point) point { return q.sub(p).unit() }

func (p point) unit() point {
	if l := p.length(); l > 0 {
		return p.by(1 / l)
	}
	return point{}
}

// hostRanks are the ranks of one host.
type hostRanks struct {
	host  int
	ranks []int
}

// hostsOf returns the hosts of g, rising; one for a graph that has none.
func hostsOf(g *topo.Graph) []hostRanks {
	if len(g.Hosts) == 0 {
		all := hostRanks{}
		for r := range g.Ranks {
			all.ranks = append(all.ranks, r)
		}
		return []hostRanks{all}
	}
	index := map[int]int{}
	var list []hostRanks
	for r, h := range g.Hosts {
		i, ok := index[h]
		if !ok {
			i = len(list)
			index[h] = i
			list = append(list, hostRanks{host: h})
		}
		list[i].ranks = append(list[i].ranks, r)
	}
	slices.SortFunc(list, func(a, b hostRanks) int { return cmp.Compare(a.host, b.host) })
	return list
}

// box is a host in the picture.
type box struct {
	hostRanks
	at, size point
	boxed    bool // has a frame
}

func (b box) centre() point { return b.at.add(b.size.by(0.5)) }

// layout says where everything stands.
type layout struct {
	boxes         []box
	rank          []point // by rank: the centre of its circle
	boxOf         []int   // by rank
	width, height float64
}

// newLayout puts the ranks of every host on a circle and the hosts on a grid.
// Hosts of one rank each stand on one circle together, without frames, unless
// they have names. All begins below top; a busy picture has more room for labels.
func newLayout(g *topo.Graph, top float64, busy, named bool) *layout {
	hosts := hostsOf(g)
	framed := len(hosts) > 1
	if framed && len(hosts) == g.Ranks && !named {
		g = &topo.Graph{Ranks: g.Ranks}
		hosts, framed = hostsOf(g), false
	}
	largest := 0
	for _, h := range hosts {
		largest = max(largest, len(h.ranks))
	}
	radius := circleRadius(largest, framed && !busy)
	side := 2 * (radius + nodeRadius + padding)
	if framed {
		side = max(side, leastBox)
	}
	columns := int(math.Ceil(math.Sqrt(float64(len(hosts)))))
	rows := (len(hosts) + columns - 1) / columns
	l := &layout{rank: make([]point, g.Ranks), boxOf: make([]int, g.Ranks)}
	for i, h := range hosts {
		b := box{hostRanks: h, size: point{side, side}, boxed: framed}
		b.at = point{margin + float64(i%columns)*(side+gap), top + float64(i/columns)*(side+gap)}
		l.boxes = append(l.boxes, b)
		for k, r := range h.ranks {
			// The first two ranks stand on top, left and right of the middle.
			angle := 2*math.Pi*(float64(k)-0.5)/float64(len(h.ranks)) - math.Pi/2
			l.rank[r] = b.centre().add(point{radius * math.Cos(angle), radius * math.Sin(angle)})
			if len(h.ranks) == 1 {
				l.rank[r] = b.centre()
			}
			l.boxOf[r] = i
		}
	}
	l.width = 2*margin + float64(columns)*(side+gap) - gap
	l.height = top + margin + float64(rows)*(side+gap) - gap
	return l
}

// circleRadius leaves room between the circles of n ranks, and between the
// links that cross inside, less where it is to be narrow.
func circleRadius(n int, narrow bool) float64 {
	if n == 1 {
		return 6
	}
	least, each := 190.0, 40.0
	if narrow {
		least = 140
	}
	if n > 64 {
		each = 2.2 * nodeRadius
	}
	return max(least*math.Min(1, 0.4+float64(n)/10), float64(n)*each/math.Pi/1.6, float64(n)*(2*nodeRadius+4)/(2*math.Pi))
}
