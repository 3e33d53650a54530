package main

import (
	"math"
	"math/bits"
)

// A bound says how many bits of a message per second any implementation can be
// done with on a network of hosts with one rank each, from the rates that plain
// TCP flows had there.

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

// packingBound is the most that spanning trees can carry when each tree reduces
// up and broadcasts down its links, both ways at once: the least, over partitions
// of the hosts into k parts, of the rate between parts over k-1 (Tutte and
// Nash-Williams). Of a link with two rates the slower counts.
func packingBound(rate [][]float64) float64 {
	n := len(rate)
	best := math.Inf(1)
	part := make([]int, n)
	var try func(i, parts int)
	try = func(i, parts int) {
		if i == n {
			crossing := 0.0
			for a := range n {
				for b := a + 1; b < n; b++ {
					if part[a] != part[b] {
						crossing += min(rate[a][b], rate[b][a])
					}
				}
			}
			if parts > 1 {
				best = min(best, crossing/float64(parts-1))
			}
			return
		}
		for p := range parts + 1 {
			part[i] = p
			try(i+1, max(parts, p+1))
		}
	}
	try(0, 0)
	return best
}

// cutBound is the most that can come from host 0 to every other one: the least
// rate out of a set that has host 0 and not all hosts.
func cutBound(rate [][]float64) float64 {
	n := len(rate)
	best := math.Inf(1)
	for set := uint(1); set < 1<<n-1; set += 2 {
		out := 0.0
		for i := range n {
			for j := range n {
				if set>>i&1 == 1 && set>>j&1 == 0 {
					out += rate[i][j]
				}
			}
		}
		if bits.OnesCount(set) < n {
			best = min(best, out)
		}
	}
	return best
}

// apart returns the largest difference between two curves, relative to the
// second one's values; infinite where they have not as many.
func apart(a, b []float64) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	most := 0.0
	for i := range a {
		most = max(most, math.Abs(a[i]-b[i])/math.Abs(b[i]))
	}
	return most
}
