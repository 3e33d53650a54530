package netconn

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// UnreachableError says which pairs of ranks could not connect. All ranks
// return the same.
type UnreachableError struct {
	Pairs []Pair // some of them when they are very many
	Total int    // all of them
}

// Pair is two ranks that could not connect.
type Pair struct {
	From, To         int
	FromHost, ToHost string // "" when not known
	Tries            []Try  // at least one
}

// Try is one way on which they could not.
type Try struct {
	Own, Address string // "10.0.0.4, eth0" and "10.0.0.2:41234, eth0"; "" when there is no way
	Reason       string // "connection refused"
}

// Error is one line per pair, or, when they are very many, one for each pair of
// hosts and reason; and a hint.
func (e *UnreachableError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d pairs of ranks cannot connect:", e.Total)
	if e.Total == 1 {
		b.Reset()
		b.WriteString("two ranks cannot connect:")
	}
	pairs := e.Pairs
	if len(pairs) > maxLines {
		pairs = e.examples()
	}
	for _, p := range pairs {
		b.WriteString("\n  " + p.String())
	}
	if more := e.Total - len(pairs); more > 0 {
		fmt.Fprintf(&b, "\n  and %d pairs more", more)
	}
	return b.String() + "\n" + e.hint()
}

// String is a line such as "rank 3 (10.0.0.4, eth0 on host d) -> rank 1
// (10.0.0.2:41234, eth0 on host b): connection refused".
func (p Pair) String() string {
	var b strings.Builder
	first := Try{}
	if len(p.Tries) > 0 {
		first = p.Tries[0]
	}
	fmt.Fprintf(&b, "rank %d%s -> rank %d%s: %s", p.From, where(first.Own, p.FromHost), p.To,
		where(first.Address, p.ToHost), first.Reason)
	for _, t := range p.Tries[min(1, len(p.Tries)):] {
		fmt.Fprintf(&b, "; %s -> %s: %s", t.Own, t.Address, t.Reason)
	}
	return b.String()
}

func where(at, host string) string {
	switch {
	case at == "" && host == "":
		return ""
	case host == "":
		return " (" + at + ")"
	case at == "":
		return " (on host " + host + ")"
	}
	return " (" + at + " on host " + host + ")"
}

// examples returns the first pair of each two hosts and reason, maxLines at most.
func (e *UnreachableError) examples() (pairs []Pair) {
	type key struct{ from, to, reason string }
	seen := map[key]bool{}
	for _, p := range e.Pairs {
		k := key{from: p.FromHost, to: p.ToHost}
		if len(p.Tries) > 0 {
			k.reason = p.Tries[0].Reason
		}
		if !seen[k] && len(pairs) < maxLines {
			seen[k] = true
			pairs = append(pairs, p)
		}
	}
	return pairs
}

func (e *UnreachableError) hint() string {
	for _, p := range e.Pairs {
		for _, t := range p.Tries {
			if t.Reason == ErrKey.Error() {
				return "hint: have all ranks been started with the same key?"
			}
		}
	}
	return "hint: does a firewall stand between? --iface chooses the network, --port-range the ports that ranks listen at"
}

// unreachable returns the error that the reports make, nil when all pairs have
// connected.
func unreachable(reports []report, hostOf func(int) string) error {
	e := &UnreachableError{}
	for from, r := range reports {
		e.Total += r.Total
		for _, f := range r.Pairs {
			e.Pairs = append(e.Pairs, Pair{From: from, To: f.To, FromHost: hostOf(from), ToHost: hostOf(f.To), Tries: f.Tries})
		}
	}
	if e.Total == 0 {
		return nil
	}
	slices.SortStableFunc(e.Pairs, func(a, b Pair) int { return cmp.Or(a.From-b.From, a.To-b.To) })
	return e
}
