package network

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/treerun/treerun/topo"
)

// maxTable is the number of hosts up to which all pairs are written as tables.
const maxTable = 16

// Text writes n for people: rates and latencies of all pairs, the cards, and
// where every value comes from. now is the time, in seconds since 1970.
func (n *Network) Text(now int64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "network of %d hosts: %s\n", len(n.Hosts), n.Origin(now))
	if len(n.Hosts) <= maxTable {
		n.table(&b, "GB/s", "from row to column alone", func(p *Pair, turned bool) string {
			v := p.Out
			if turned {
				v = p.Back
			}
			if v == 0 {
				v = p.GBytesPerSecond
			}
			return fmt.Sprintf("%.3g%s", v, p.mark())
		})
		n.table(&b, "us", "one way", func(p *Pair, _ bool) string { return fmt.Sprintf("%.3g", p.LatencyUs) })
	}
	b.WriteString(n.pairsText() + n.portsText())
	if strings.Contains(b.String(), estimatedMark) {
		fmt.Fprintf(&b, "%s estimated from other pairs of these hosts\n", estimatedMark)
	}
	return b.String()
}

const estimatedMark = "~"

func (p *Pair) mark() string {
	if p.Source == topo.Estimated {
		return estimatedMark
	}
	return ""
}

// Origin says how the values of n are known, and since when.
func (n *Network) Origin(now int64) string {
	if n.At == 0 {
		return "declared, nothing was measured"
	}
	return fmt.Sprintf("measured (%s) %s", n.Probe, Age(now-n.At))
}

// Age says how long ago something was, in words.
func Age(seconds int64) string {
	switch {
	case seconds < 5:
		return "just now"
	case seconds < 2*60:
		return fmt.Sprintf("%d seconds ago", seconds)
	case seconds < 2*3600:
		return fmt.Sprintf("%d minutes ago", seconds/60)
	case seconds < 2*86400:
		return fmt.Sprintf("%d hours ago", seconds/3600)
	}
	return fmt.Sprintf("%d days ago", seconds/86400)
}

// table writes a cell for every ordered pair.
func (n *Network) table(b *strings.Builder, unit, what string, cell func(p *Pair, turned bool) string) {
	wide := 9
	for _, h := range n.Hosts {
		wide = max(wide, utf8.RuneCountInString(h)+1)
	}
	fmt.Fprintf(b, "%*s", wide, unit)
	for h := range n.Hosts {
		fmt.Fprintf(b, "%*s", wide, n.name(h))
	}
	fmt.Fprintf(b, "   %s\n", what)
	for row := range n.Hosts {
		fmt.Fprintf(b, "%*s", wide, n.name(row))
		for col := range n.Hosts {
			text := "."
			if row != col {
				text = cell(&n.Pairs[index(len(n.Hosts), row, col)], row > col)
			}
			fmt.Fprintf(b, "%*s", wide, text)
		}
		b.WriteByte('\n')
	}
}

// pairsText says what all pairs come to: one rate, or the rates there are.
func (n *Network) pairsText() string {
	count := make(map[float64]int)
	var order []float64
	for _, p := range n.Pairs {
		if count[p.GBytesPerSecond] == 0 {
			order = append(order, p.GBytesPerSecond)
		}
		count[p.GBytesPerSecond]++
	}
	if n.Even() {
		return fmt.Sprintf("all pairs: %.4g GB/s, %.3g us\n", n.Pairs[0].GBytesPerSecond, n.Pairs[0].LatencyUs)
	}
	var list []string
	for _, v := range order {
		list = append(list, fmt.Sprintf("%d of %.4g GB/s", count[v], v))
	}
	const most = 16
	if more := len(list) - most; more > 0 {
		list = append(list[:most], fmt.Sprintf("%d more rates", more))
	}
	return "pairs: " + strings.Join(list, ", ") + "\n"
}

// portsText says what the hosts' cards carry.
func (n *Network) portsText() string {
	if len(n.Ports) == 0 {
		if len(n.Hosts) == 2 {
			return ""
		}
		return "no host has a card that its pairs share: all rates hold at once\n"
	}
	if n.Even() {
		return fmt.Sprintf("card of every host: %.4g GB/s for all its pairs together\n", n.Ports[0].GBytesPerSecond)
	}
	var b strings.Builder
	for _, p := range n.Ports {
		fmt.Fprintf(&b, "card of %s: %.4g GB/s", n.name(p.Host), p.GBytesPerSecond)
		if p.Out > 0 || p.In > 0 {
			b.WriteString(" (all at once:")
			if p.Out > 0 {
				fmt.Fprintf(&b, " %.4g out", p.Out)
			}
			if p.In > 0 {
				fmt.Fprintf(&b, " %.4g in", p.In)
			}
			b.WriteByte(')')
		}
		b.WriteByte('\n')
	}
	return b.String()
}
