package plan

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// symbol stands for a value in a run of Verify: the number of times that the input of every rank is in it, and the
// order in which they were added. It is never changed after it was made, so that buffers and messages share it. In an
// AllToAll an input is one part of a rank's input: part p of rank r counts as r*Size+p.
type symbol struct {
	chunk int
	parts []part     // rising ranks
	made  stepAt     // where the sum was made; of an input: nowhere
	of    [2]*symbol // the operands of a sum; nil: an input
}

// part counts the input of one rank in a value: it is there times times, at least once.
type part struct {
	rank, times uint32
}

// input returns the symbol of the input of rank to chunk.
func input(rank, chunk int) *symbol {
	return &symbol{chunk: chunk, parts: []part{{rank: uint32(rank), times: 1}}, made: nowhere}
}

// plus is the reduction of two symbols of one chunk, made by the step at. Counts
// stay at their largest value, which is wrong in any result.
func (s *symbol) plus(t *symbol, at stepAt) *symbol {
	sum := &symbol{chunk: s.chunk, parts: make([]part, 0, len(s.parts)+len(t.parts)), made: at, of: [2]*symbol{s, t}}
	a, b := s.parts, t.parts
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].rank < b[0].rank:
			sum.parts = append(sum.parts, a[0])
			a = a[1:]
		case a[0].rank > b[0].rank:
			sum.parts = append(sum.parts, b[0])
			b = b[1:]
		default:
			times := min(uint64(a[0].times)+uint64(b[0].times), math.MaxUint32)
			sum.parts = append(sum.parts, part{a[0].rank, uint32(times)})
			a, b = a[1:], b[1:]
		}
	}
	sum.parts = append(append(sum.parts, a...), b...)
	return sum
}

// times is the number of times that the input of rank is in s.
func (s *symbol) times(rank int) uint32 {
	i, ok := slices.BinarySearchFunc(s.parts, rank, func(p part, rank int) int { return int(p.rank) - rank })
	if !ok {
		return 0
	}
	return s.parts[i].times
}

// stepAt is the location of a Step in a lane: the track, and the index in it.
type stepAt struct {
	track, step int32
}

// nowhere is no step: the caller's doing.
var nowhere = stepAt{-1, -1}

// cell is one chunk of a local buffer.
type cell struct {
	symbol  *symbol // nil: nothing was stored
	used    bool    // read since it was stored, or not stored by a step
	stored  access
	readers []access // the last time that each track read it since it was stored
}

// access is when a step touched a cell.
type access struct {
	stepAt
	at int32 // in steps of the track
}

// cell returns the cell of track t's current chunk in part of buffer b.
func (m *machine) cell(t int32, b Buf, part int) *cell {
	r := &m.tracks[t]
	at := (r.Rank*m.chunks + r.chunk) * m.parts
	if m.role.exchange {
		at += part
	}
	switch b {
	case In:
		return &m.in[at]
	case Out:
		return &m.out[at]
	}
	return &r.tmp
}

// load reads part of buffer b in a Step.
func (m *machine) load(at stepAt, b Buf, part int) (*symbol, error) {
	c := m.cell(at.track, b, part)
	if c.symbol == nil {
		return nil, m.fail(at, Undefined, "reads %v before anything was stored there", b)
	}
	if err := m.after(at, b, c.stored); err != nil {
		return nil, err
	}
	c.used = true
	if m.clocks {
		i := slices.IndexFunc(c.readers, func(a access) bool { return a.track == at.track })
		if i < 0 {
			i = len(c.readers)
			c.readers = append(c.readers, access{})
		}
		c.readers[i] = access{at, m.time(at)}
	}
	return c.symbol, nil
}

// store writes part of buffer b in a Step.
func (m *machine) store(at stepAt, b Buf, part int, s *symbol) error {
	c := m.cell(at.track, b, part)
	if c.symbol != nil {
		if err := m.after(at, b, c.stored); err != nil {
			return err
		}
	}
	for _, a := range c.readers {
		if err := m.after(at, b, a); err != nil {
			return err
		}
	}
	if c.symbol != nil && !c.used {
		return m.fail(at, DeadStore, "overwrites %v, which no step has read since %s stored it", b, m.text(c.stored.stepAt))
	}
	*c = cell{symbol: s, stored: access{at, m.time(at)}, readers: c.readers[:0]}
	return nil
}

// after checks that the access other lies before that of a Step by program
// order or by chunks delivered.
func (m *machine) after(at stepAt, b Buf, other access) error {
	if other.track < 0 || other.track == at.track || m.tracks[at.track].clock[other.track] >= other.at {
		return nil
	}
	return m.fail(at, Hazard, "touches %v, and so does %s, in no order", b, m.text(other.stepAt))
}

// VerifyStable is Verify for a plan that adds all elements in one order: it also
// proves of every result of a reduction, by the expression that the steps have
// made, that the inputs of the ranks of a host were added in their order, and then
// the sums of the hosts in theirs:
//
//	((x0 + x1) + x2) + (x3 + x4) + ...
//
// for hosts {0, 1, 2}, {3, 4}, ..., and so on every rank, in every lane. Which operand of a sum stands first does not
// matter: an op that is commutative bit for bit, as those on floats are except for the payload of a NaN, gives the same
// bits.
func VerifyStable(p *Plan, hosts [][]int, slots int) error {
	if err := checkHosts(hosts, p.Size); err != nil {
		return err
	}
	return verify(p, slots, hosts)
}

// InOrder returns the fused steps of a valid plan, by lane and track, with the operands of every step in the order of
// the ranks: for operations that are not commutative. The error is for a plan that adds in another order.
func (p *Plan) InOrder() (fused [][][]Fused, err error) {
	for lane := range p.Lanes {
		m := newMachine(p, lane, 1)
		m.sorts = true
		m.begin(false)
		if err := m.run(); err != nil {
			return nil, err
		}
		tracks := make([][]Fused, len(m.tracks))
		for t := range m.tracks {
			tracks[t] = m.tracks[t].fused
		}
		fused = append(fused, tracks)
	}
	return fused, nil
}

// sort puts the operands of a step, and their values, in the order of the ranks.
func (m *machine) sort(args []Operand) {
	for i := range args {
		for j := i; j > 0 && m.values[j].parts[0].rank < m.values[j-1].parts[0].rank; j-- {
			args[j], args[j-1] = args[j-1], args[j]
			m.values[j], m.values[j-1] = m.values[j-1], m.values[j]
		}
	}
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

// operands returns the operands of a sum, the one with the lowest rank first.
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
