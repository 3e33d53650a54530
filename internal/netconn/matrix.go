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
	Total int // pairs
	text  string
}

// Error is one line per pair, or, when they are very many, one for each pair of
// hosts and reason; and a hint.
func (e *UnreachableError) Error() string { return e.text }

// try is one way on which two ranks could not connect.
type try struct {
	own, address string // "10.0.0.4, eth0" and "10.0.0.2:41234, eth0"; "" when there is no way
	reason       string // "connection refused"
}

// pairLine is a line such as "rank 3 (10.0.0.4, eth0 on host d) -> rank 1
// (10.0.0.2:41234, eth0 on host b): connection refused". There is at least one try.
func pairLine(from, to int, hostOf func(int) string, tries []try) string {
	first := tries[0]
	text := fmt.Sprintf("rank %d%s -> rank %d%s: %s", from, Where(first.own, hostOf(from)), to,
		Where(first.address, hostOf(to)), first.reason)
	for _, t := range tries[1:] {
		text += fmt.Sprintf("; %s -> %s: %s", t.own, t.address, t.reason)
	}
	return text
}

// Where says where a rank is: " (10.0.0.4, eth0 on host d)"; either may be "" where it is not
// known.
func Where(at, host string) string {
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

// unreachable returns the error that the reports make, nil when all pairs have
// connected.
func unreachable(reports []report, hostOf func(int) string) error {
	type kind struct{ from, to, reason string }
	total, known := 0, 0
	for _, r := range reports {
		total, known = total+r.Total, known+len(r.Pairs)
	}
	if total == 0 {
		return nil
	}
	hint := "hint: does a firewall stand between? --iface chooses the network, --port-range the ports that ranks listen at"
	var lines []string
	seen := map[kind]bool{}
	for from, r := range reports {
		slices.SortFunc(r.Pairs, func(a, b failedPair) int { return cmp.Compare(a.To, b.To) })
		for _, p := range r.Pairs {
			k := kind{hostOf(from), hostOf(p.To), p.Reason}
			if len(lines) < maxLines && (known <= maxLines || !seen[k]) {
				lines = append(lines, "\n  "+p.Text)
			}
			seen[k] = true
			if strings.Contains(p.Text, ErrKey.Error()) {
				hint = "hint: have all ranks been started with the same key?"
			}
		}
	}
	text := "two ranks cannot connect:"
	if total > 1 {
		text = fmt.Sprintf("%d pairs of ranks cannot connect:", total)
	}
	if more := total - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("\n  and %d pairs more", more))
	}
	return &UnreachableError{total, text + strings.Join(lines, "") + "\n" + hint}
}
