package rank

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/treerun/treerun/topo"
)

// Aggregators returns how many aggregators the job has: processes that treerun has
// started beside the ranks, which help these with sparse reductions. They are
// numbered behind the ranks: HostOf and HostName know Size() + Aggregators() numbers.
func (w *World) Aggregators() int { return w.cfg.aggregators }

// Aggregator returns this process's number among the aggregators, from 0, and -1 for
// a rank. Rank is then Size() and that number.
func (w *World) Aggregator() int { return max(w.cfg.rank-w.Size(), -1) }

// What a blob of a job with aggregators begins with: who takes part in the AllGather.
const (
	gatherRanks = 'r'
	gatherWhole = 'w'
)

// AllGatherWhole is AllGather for ranks and aggregators: the result has the blobs of
// the ranks, and behind them those of the aggregators. All ranks call it; aggregators
// that wait in Follow take part with an empty blob, others call it, too.
func (w *World) AllGatherWhole(ctx context.Context, blob []byte) ([][]byte, error) {
	if err := w.fits("AllGatherWhole", blob); err != nil {
		return nil, err
	}
	all, kind, err := w.gatherAs(ctx, "AllGatherWhole", gatherWhole, blob)
	if err == nil && kind != gatherWhole {
		err = &Error{Self: w.cfg.rank, Rank: -1, Op: "AllGatherWhole", Err: errGathers}
	}
	return all, err
}

// Follow is what an aggregator does while nobody wants anything: it takes part in the
// ranks' AllGathers, with nothing to say, until one is an AllGatherWhole, of which it
// returns the blobs.
func (w *World) Follow(ctx context.Context) ([][]byte, error) {
	for {
		all, kind, err := w.gatherAs(ctx, "Follow", 0, nil)
		if err != nil || kind == gatherWhole {
			return all, err
		}
	}
}

// Turn waits until nobody else in this process has a turn, or for the end of ctx, whose
// error it then returns. The turn lasts until release is called, once. It is for several
// parts of a program that make AllGathers, of which a World has one order: who has the
// turn makes some that belong together. AllGather itself does not ask for it.
func (w *World) Turn(ctx context.Context) (release func(), err error) {
	select {
	case w.turn <- struct{}{}:
		return func() { <-w.turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

var errGathers = errors.New("ranks called AllGather while others called AllGatherWhole")

// gatherAs is gather with the kind of call in front of every blob, where the job has
// aggregators; a kind of 0 goes along with whatever it is. It returns the kind.
func (w *World) gatherAs(ctx context.Context, op string, kind byte, blob []byte) (all [][]byte, is byte, err error) {
	if w.cfg.aggregators == 0 {
		all, err = w.gather(ctx, op, blob)
		return all, kind, w.named(err)
	}
	mine := append(append(make([]byte, 0, 1+len(blob)), kind), blob...)
	if all, err = w.gather(ctx, op, mine); err != nil {
		return nil, 0, w.named(err)
	}
	for r, b := range all {
		if len(b) == 0 || r < w.Size() && b[0] == 0 || b[0] != 0 && is != 0 && b[0] != is {
			return nil, 0, &Error{Self: w.cfg.rank, Rank: r, Op: op, Err: errGathers}
		}
		is = max(is, b[0])
		all[r] = bytes.Clone(b[1:])
	}
	return all, is, nil
}

// fits reports a blob that is too large.
func (w *World) fits(op string, blob []byte) error {
	if len(blob) <= MaxBlob {
		return nil
	}
	return &Error{Self: w.cfg.rank, Rank: w.cfg.rank, Op: op,
		Err: fmt.Errorf("gave a blob of %d bytes, at most %d are possible", len(blob), MaxBlob)}
}

// named returns err with an aggregator that is at fault named as such: no caller
// knows a rank of its number.
func (w *World) named(err error) error {
	e := (*Error)(nil)
	if !errors.As(err, &e) || e.Rank < w.Size() {
		return err
	}
	c := *e
	c.Rank, c.Err = -1, named{w.nameOf(e.Rank), e.Err}
	return &c
}

// whoIs names a rank or an aggregator.
func (w *World) whoIs(r int) string {
	if r < w.Size() {
		return fmt.Sprintf("rank %d", r)
	}
	return fmt.Sprintf("aggregator %d", r-w.Size())
}

// listOf names several, by rising number: "ranks 1-3 of 4 and aggregator 0 of 2".
func (w *World) listOf(members []int) string {
	var text []string
	name := func(what string, all []int, of int) {
		if len(all) > 1 {
			what += "s"
		}
		if len(all) > 0 {
			text = append(text, fmt.Sprintf("%s %s of %d", what, topo.RankList(all), of))
		}
	}
	ranks, aggregators := w.split(members)
	name("rank", ranks, w.Size())
	name("aggregator", aggregators, w.cfg.aggregators)
	return strings.Join(text, " and ")
}

// split returns the ranks among members, by rising number, and the aggregators, by
// their own numbers.
func (w *World) split(members []int) (ranks, aggregators []int) {
	at, _ := slices.BinarySearch(members, w.Size())
	for _, r := range members[at:] {
		aggregators = append(aggregators, r-w.Size())
	}
	return members[:at], aggregators
}

// nameOf names an aggregator and its host.
func (w *World) nameOf(r int) string {
	name := w.whoIs(r)
	if host := w.HostName(r); host != "" && !w.members.severalHosts() { // else what happened says where
		name += " on host " + host
	}
	return name + ":"
}

// named is what happened to somebody.
type named struct {
	who string
	err error
}

func (n named) Error() string { return n.who + " " + n.err.Error() }
func (n named) Unwrap() error { return n.err }

// localMembers returns how many ranks and aggregators this host has; the hosts are
// known.
func (c *config) localMembers() (n int) {
	for _, h := range c.hosts {
		if h == c.hosts[c.rank] {
			n++
		}
	}
	return n
}
