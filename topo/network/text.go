package network

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Text writes n for people: rates and latencies of all pairs, the cards, and
// where every value comes from. now is the time, in seconds since 1970.
func (n *Network) Text(now int64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "network of %d hosts: %s\n", len(n.Hosts), n.Origin(now))
	var names []string
	for h := range n.Hosts {
		names = append(names, n.name(h))
	}
	n.Graph.WriteTables(&b, names)
	b.WriteString(n.pairsText() + n.portsText())
	return b.String()
}

// Origin says how the values of n are known, and since when.
func (n *Network) Origin(now int64) string {
	if n.At == 0 {
		return "declared, nothing was measured"
	}
	return fmt.Sprintf("measured (%s) %s", n.Probe, age(now-n.At))
}

// age says how long ago something was, in words.
func age(seconds int64) string {
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

// pairsText says what all pairs come to: one rate, or the rates there are.
func (n *Network) pairsText() string {
	count := make(map[float64]int)
	for _, p := range n.Graph.Links {
		count[p.GBytesPerSecond]++
	}
	if n.Graph.IsEven() {
		return fmt.Sprintf("all pairs: %.4g GB/s, %.3g us\n", n.Graph.Links[0].GBytesPerSecond, n.Graph.Links[0].LatencyUs)
	}
	var list []string
	for _, v := range slices.Sorted(maps.Keys(count)) {
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
	ports := n.Graph.Ports
	switch {
	case len(ports) == 0 && len(n.Hosts) == 2:
		return ""
	case len(ports) == 0:
		return "no host has a card that its pairs share: all rates hold at once\n"
	case n.Graph.IsEven():
		return fmt.Sprintf("card of every host: %.4g GB/s for all its pairs together\n", ports[0].GBytesPerSecond)
	}
	var b strings.Builder
	for _, p := range ports {
		fmt.Fprintf(&b, "card of %s: %.4g GB/s\n", n.name(p.Ranks[0]), p.GBytesPerSecond)
	}
	return b.String()
}
