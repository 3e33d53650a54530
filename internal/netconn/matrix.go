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

// Error is one line per pair, or, when they are very many, one per pair of
// hosts and reason; and a hint.
func (e *UnreachableError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d pairs of ranks cannot connect:", e.Total)
	if e.Total == 1 {
		b.Reset()
		b.WriteString("two ranks cannot connect:")
	}
	lines := make([]string, len(e.Pairs))
	for i, p := range e.Pairs {
		lines[i] = p.String()
	}
	told := len(e.Pairs)
	if len(lines) > maxLines {
		lines, told = e.groups()
	}
	for _, l := range lines {
		b.WriteString("\n  " + l)
	}
	if more := e.Total - told; more > 0 {
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

// groups returns one line per pair of hosts and reason, the largest first, and
// the number of pairs that they stand for.
func (e *UnreachableError) groups() (lines []string, told int) {
	type key struct{ from, to, reason string }
	count := map[key]int{}
	example := map[key]Pair{}
	for _, p := range e.Pairs {
		k := key{from: p.FromHost, to: p.ToHost}
		if len(p.Tries) > 0 {
			k.reason = p.Tries[0].Reason
		}
		if count[k]++; count[k] == 1 {
			example[k] = p
		}
	}
	keys := make([]key, 0, len(count))
	for k := range count {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b key) int {
		return cmp.Or(count[b]-count[a], cmp.Compare(example[a].From, example[b].From),
			cmp.Compare(example[a].To, example[b].To))
	})
	for _, k := range keys[:min(len(keys), maxLines)] {
		line := example[k].String()
		if n := count[k]; n > 1 {
			line = fmt.Sprintf("%d pairs like %s", n, line)
		}
		lines = append(lines, line)
		told += count[k]
	}
	return lines, told
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
