package plan

import (
	"fmt"
	"slices"
	"strings"
)

// VerifyStable is Verify for a plan that adds all elements in one order: it also
// proves of every result of a reduction, by the expression that the steps have
// made, that the inputs of the ranks of a host were added in their order, and then
// the sums of the hosts in theirs:
//
//	((x0 + x1) + x2) + (x3 + x4) + ...
//
// for hosts {0, 1, 2}, {3, 4}, ..., and so on every rank, whatever the lane. Which
// operand of a sum stands first does not matter: an op that is commutative bit for
// bit, as those on floats are but for what a NaN holds, gives the same bits.
func VerifyStable(p *Plan, hosts [][]int, slots int) error {
	if err := checkHosts(hosts, p.Size); err != nil {
		return err
	}
	return verify(p, slots, hosts)
}

// checkHosts checks that every host has ranks, n all together.
func checkHosts(hosts [][]int, n int) error {
	for i, ranks := range hosts {
		if len(ranks) == 0 {
			return fmt.Errorf("plan: host %d has no rank", i)
		}
	}
	if err := checkRing(slices.Concat(hosts...), n); err != nil {
		return fmt.Errorf("plan: the hosts: %w", err)
	}
	return nil
}

// sumOver returns the sum of inputs in the order of hosts.
func sumOver(hosts [][]int) *symbol {
	var sum *symbol
	for _, ranks := range hosts {
		host := input(ranks[0], 0)
		for _, r := range ranks[1:] {
			host = host.plus(input(r, 0), nowhere)
		}
		if sum == nil {
			sum = host
		} else {
			sum = sum.plus(host, nowhere)
		}
	}
	return sum
}

// operands returns what a sum was made of, that with the lowest rank first.
func (s *symbol) operands() (first, second *symbol) {
	first, second = s.of[0], s.of[1]
	if second.parts[0].rank < first.parts[0].rank {
		first, second = second, first
	}
	return first, second
}

// same reports whether s and t were made by the same sums of the same inputs.
func (s *symbol) same(t *symbol) bool {
	for s.of[0] != nil && t.of[0] != nil {
		a, b := s.operands()
		c, d := t.operands()
		if len(b.parts) != len(d.parts) || !b.same(d) {
			return false
		}
		s, t = a, c
	}
	return s.of[0] == t.of[0] && s.parts[0] == t.parts[0]
}

// String writes s as the sums that made it, as in "x0 + x1 + (x2 + x3)": from left
// to right.
func (s *symbol) String() string {
	var b strings.Builder
	s.write(&b)
	const most = 200
	if text := b.String(); len(text) > most {
		return text[:most] + "..."
	}
	return b.String()
}

func (s *symbol) write(b *strings.Builder) {
	if s.of[0] == nil {
		fmt.Fprintf(b, "x%d", s.parts[0].rank)
		return
	}
	first, second := s.operands()
	first.write(b)
	b.WriteString(" + ")
	if second.of[0] == nil {
		second.write(b)
		return
	}
	b.WriteByte('(')
	second.write(b)
	b.WriteByte(')')
}
