package collective

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/treerun/treerun/collective/internal/setup"
	calls "github.com/treerun/treerun/internal/call"
)

// Restore gives all ranks the state of the one that is furthest: the contents of state where version is the highest. It
// returns that version. A program calls it in each epoch of its job, before the first step: see rank.Worlds.
//
//	step, err = collective.Restore(ctx, c, step, weights, momentum, seeds[:])
//
// version counts the changes of the state on this rank, such as the steps of a training; -1 means that the rank has no
// state, as a new process. Ranks with the same version have the same contents. state is slices of any types without
// pointers, slices, maps, strings and the like, as for AllReduceFunc. All ranks pass as many slices, of the same types
// and lengths.
//
// Every rank with the highest version sends a part to the ranks with a lower one, of its own host first. These
// receive into memory of their own, and exchange their parts along trees. The slices change only once all of these
// ranks have the whole: after an error they are as before, also if a rank was lost meanwhile, and Restore returns
// version.
//
// If no rank has the state the error is an ErrNoState on all ranks, and if types or lengths differ an ErrDisagree with
// the ranks and the lengths. The communicator stays usable after both.
func Restore(ctx context.Context, c *Comm, version int, state ...any) (int, error) {
	best, err := restore(ctx, c, restoreWindow, version, state)
	if err != nil && !errors.Is(err, ErrArgument) && !errors.Is(err, ErrDisagree) { // these name Restore
		err = fmt.Errorf("collective: Restore on rank %d: %w", c.inner().Rank, err)
	}
	if err != nil {
		return version, err
	}
	return best, nil
}

// restoreWindow is the part of a state, in bytes, that moves at a time: a source copies it.
const restoreWindow = 32 << 20

// restore is Restore by windows of the given number of bytes.
func restore(ctx context.Context, c *Comm, window, version int, state []any) (int, error) {
	if c == nil {
		return 0, c.inner().ArgumentError("Restore", "")
	}
	s, err := stateOf(c, state)
	if err != nil {
		return 0, err
	}
	if version < -1 {
		return 0, c.inner().ArgumentError("Restore", "version %d, want -1 or more", version)
	}
	versions, err := s.agree(ctx, c, version)
	if err != nil {
		return 0, err
	}
	best := slices.Max(versions)
	if best < 0 {
		return 0, ErrNoState
	}
	if s.bytes == 0 || slices.Min(versions) == best {
		return best, nil
	}
	scratch, err := s.transfer(ctx, c, window, groupsOf(versions, setup.HostsOf(c.in.Setup.World)))
	if err == nil {
		// Behind it all ranks have received all.
		err = Barrier(ctx, c)
	}
	if err == nil && scratch != nil {
		s.copyIn(scratch)
	}
	return best, err
}

// savedState is the state of a rank: slices one after the other, as bytes.
type savedState struct {
	types []string
	sizes []int // of an element of each, in bytes
	of    [][]byte
	bytes int // of all

	copied []byte // see outgoing
}

// stateOf checks the slices of a state.
func stateOf(c *Comm, state []any) (*savedState, error) {
	s := &savedState{}
	for i, one := range state {
		v := reflect.ValueOf(one)
		switch {
		case v.Kind() != reflect.Slice:
			return nil, c.inner().ArgumentError("Restore", "argument %d of the state is a %T, want a slice", i, one)
		case v.Type().Elem().Size() == 0 || !plain(v.Type().Elem()):
			return nil, c.inner().ArgumentError("Restore", "slice %d: %s", i, unmovableOf(v.Type().Elem()))
		}
		s.types = append(s.types, v.Type().Elem().String())
		s.sizes = append(s.sizes, int(v.Type().Elem().Size()))
		s.of = append(s.of, bytesOfSlice(v))
		s.bytes += len(s.of[i])
	}
	return s, nil
}

// agree compares the types and lengths of all ranks, and returns their versions.
func (s *savedState) agree(ctx context.Context, c *Comm, version int) ([]int, error) {
	terms := []term{{"the number of slices", fmt.Sprint(len(s.of))}}
	for i := range s.of {
		value := fmt.Sprintf("%d %s of %d bytes", len(s.of[i])/s.sizes[i], s.types[i], s.sizes[i])
		terms = append(terms, term{fmt.Sprintf("slice %d", i), value})
	}
	return agreeOn(ctx, c, calls.Restore, version, terms)
}

// outgoing returns parts of the state, one after the other, which begin at these bytes: the memory of the state itself
// if they are one part of a slice, else a copy, which is valid until the next call.
func (s *savedState) outgoing(begins, counts []int) []byte {
	first, end, total := -1, 0, 0
	together := true
	for i, n := range counts {
		if n > 0 && first < 0 {
			first, end = begins[i], begins[i]
		}
		if n > 0 {
			together = together && begins[i] == end
			end, total = begins[i]+n, total+n
		}
	}
	from := first
	for _, of := range s.of {
		if together && total > 0 && from >= 0 && from+total <= len(of) {
			return of[from:][:total]
		}
		from -= len(of)
	}
	s.copied = slices.Grow(s.copied[:0], total)[:total]
	at := 0
	for i, n := range counts {
		s.copyOut(s.copied[at:][:n], begins[i])
		at += n
	}
	return s.copied
}

// copyOut copies the part of the state that begins at a byte to b.
func (s *savedState) copyOut(b []byte, from int) {
	for _, of := range s.of {
		skip := min(from, len(of))
		b, from = b[copy(b, of[skip:]):], from-skip
	}
}

// copyIn sets the state to b.
func (s *savedState) copyIn(b []byte) {
	for _, of := range s.of {
		b = b[copy(of, b):]
	}
}

// restoreGroup is ranks that receive the state together: each gets another part from the sources, and then the parts of
// the others.
type restoreGroup struct{ sources, receivers []int }

// groupsOf returns the groups of a Restore by the versions and hosts of the ranks: on each host where a rank has the
// state, those that have not; the rest has all sources.
func groupsOf(versions, hosts []int) (groups []restoreGroup) {
	best := slices.Max(versions)
	rest := restoreGroup{}
	byHost := make(map[int]*restoreGroup)
	for r, v := range versions {
		if v == best {
			rest.sources = append(rest.sources, r)
			g := byHost[hosts[r]]
			if g == nil {
				g = new(restoreGroup)
				byHost[hosts[r]] = g
			}
			g.sources = append(g.sources, r)
		}
	}
	for r, v := range versions {
		if g := byHost[hosts[r]]; v < best && g != nil {
			g.receivers = append(g.receivers, r)
		} else if v < best {
			rest.receivers = append(rest.receivers, r)
		}
	}
	for _, h := range slices.Sorted(maps.Keys(byHost)) {
		groups = append(groups, *byHost[h])
	}
	return append(groups, rest)
}

// transfer sends the state of the sources to the receivers of all groups, and returns the one that this rank has
// received, nil if it has received none.
func (s *savedState) transfer(ctx context.Context, c *Comm, window int, groups []restoreGroup) (scratch []byte,
	err error) {
	self := c.Rank()
	var own restoreGroup
	for _, g := range groups {
		if slices.Contains(g.receivers, self) {
			own, scratch = g, make([]byte, s.bytes)
		}
	}
	pairs := c.in.Plans.Messages >= 0
	var peers *Comm
	if pairs && len(own.receivers) > 1 {
		peers, err = c.Sub(ctx, own.receivers)
	}
	for from := 0; from < s.bytes && err == nil; from += window {
		n := min(window, s.bytes-from)
		part := scratch
		if scratch != nil {
			part = scratch[from:][:n]
		}
		if pairs {
			err = s.exchange(ctx, c, peers, groups, part, from, n)
		} else {
			err = s.broadcast(ctx, c, groups[len(groups)-1].sources[0], part, from, n)
		}
	}
	if peers != nil && err == nil {
		err = peers.Close()
	}
	if err != nil && !errors.As(err, new(*RankError)) { // else the others have it, or will
		c.Abort(err)
	}
	return scratch, err
}

// exchange moves n bytes of the state, which begin at the byte from, to into on all receivers: a part from each source,
// and then those of the peers of this rank, which are its group.
func (s *savedState) exchange(ctx context.Context, c, peers *Comm, groups []restoreGroup, into []byte,
	from, n int) error {
	self := c.Rank()
	sends, receives := make([]int, c.Size()), make([]int, c.Size())
	begins := make([]int, c.Size()) // of the parts to send
	var parts []int                 // of the peers
	var mine []byte
	for _, g := range groups {
		for i, r := range g.receivers {
			lo, hi := cut(0, n, i, len(g.receivers)), cut(0, n, i+1, len(g.receivers))
			for k, source := range g.sources {
				begin, end := cut(lo, hi, k, len(g.sources)), cut(lo, hi, k+1, len(g.sources))
				if source == self {
					begins[r], sends[r] = from+begin, end-begin
				}
				if r == self {
					receives[source] = end - begin
				}
			}
			if r == self {
				mine = into[lo:hi]
			}
			if slices.Contains(g.receivers, self) {
				parts = append(parts, hi-lo)
			}
		}
	}
	err := AllToAllV(ctx, c, s.outgoing(begins, sends), sends, mine, receives)
	if err == nil && peers != nil {
		err = AllGatherV(ctx, peers, mine, into, parts)
	}
	return err
}

// cut returns the beginning of part i of n parts of the bytes from lo to hi.
func cut(lo, hi, i, n int) int { return lo + (hi-lo)*i/n }

// broadcast is exchange where ranks have no links in pairs: all receive from one source, the others in vain.
func (s *savedState) broadcast(ctx context.Context, c *Comm, root int, into []byte, from, n int) error {
	if into == nil {
		into = make([]byte, n)
	}
	if c.Rank() == root {
		s.copyOut(into, from)
	}
	return Broadcast(ctx, c, into, into, root)
}
