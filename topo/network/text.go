package network

import (
	"fmt"
	"slices"
	"strings"
)

// Text writes n for people: rates and latencies between the hosts, and their cards.
// now is the time, in seconds since 1970.
func (n *Network) Text(now int64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "network of %d hosts: %s\n", len(n.Hosts), n.Origin(now))
	g := n.Graph
	g.Ports = slices.Clone(g.Ports)
	var names []string
	for h := range n.Hosts {
		names = append(names, n.name(h))
	}
	for i, p := range g.Ports {
		g.Ports[i].Name = "card of " + names[p.Ranks[0]]
	}
	g.Describe(&b, names)
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
