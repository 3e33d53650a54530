package collective

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/treerun/treerun/collective/internal/side"
	"github.com/treerun/treerun/transport"
)

// Assisted is what the World is, too, where the launcher has started aggregators
// beside the ranks: processes that serve sparse reductions. *rank.World is one.
type Assisted interface {
	// Aggregators returns how many there are. HostOf and, where the World has it,
	// HostName know them under the numbers from Size on.
	Aggregators() int

	// AllGatherWhole is AllGather with the aggregators, behind the ranks.
	AllGatherWhole(ctx context.Context, blob []byte) ([][]byte, error)

	// Turn waits until nobody else on this rank has a turn, and has it until release
	// is called. The error is that of ctx.
	Turn(ctx context.Context) (release func(), err error)
}

// Assistant is the World of an aggregator, whose Rank is Size and its number. A
// *rank.World is one.
type Assistant interface {
	World
	Assisted

	// Follow takes part in the ranks' AllGathers until they call AllGatherWhole, and
	// returns what they gave to that.
	Follow(ctx context.Context) ([][]byte, error)
}

// whole is a World whose aggregators are ranks like others.
type whole struct {
	World
	assisted Assisted
}

func (w *whole) Size() int { return w.World.Size() + w.assisted.Aggregators() }

func (w *whole) AllGather(ctx context.Context, blob []byte) ([][]byte, error) {
	return w.assisted.AllGatherWhole(ctx, blob)
}

// Epoch, ListenAddrs and HostName make it Networked.
func (w *whole) Epoch() int {
	if n, ok := w.World.(Networked); ok {
		return n.Epoch()
	}
	return 0
}

func (w *whole) ListenAddrs() []netip.Addr {
	if n, ok := w.World.(Networked); ok {
		return n.ListenAddrs()
	}
	return nil
}

func (w *whole) HostName(r int) string {
	if n, ok := w.World.(Networked); ok {
		return n.HostName(r)
	}
	return ""
}

// assistedOf returns the whole world that w is the ranks of, or that its ranks are
// some of; nil where there are no aggregators.
func assistedOf(w World) (all *whole, some bool) {
	for {
		part, is := w.(interface{ above() World })
		if !is {
			break
		}
		w, some = part.above(), true
	}
	if a, ok := w.(Assisted); ok && a.Aggregators() > 0 {
		return &whole{World: w, assisted: a}, some
	}
	return nil, false
}

// addAggregators tells s which aggregators serve c.
func (c *Comm) addAggregators(s *side.Comm) {
	all, some := assistedOf(c.world)
	switch {
	case all == nil:
	case some:
		s.Apart = true
	default:
		s.Aggregators = all.assisted.Aggregators()
		s.AggregatorHosts = hostsOf(all)[c.size:]
	}
}

// asideOpenWhole opens links to the aggregators, too.
func (c *Comm) asideOpenWhole(ctx context.Context, during string, invitation []byte, purpose string, layout transport.Layout) (transport.Endpoint, error) {
	all, _ := assistedOf(c.world)
	return c.asideConnect(ctx, during, func(within context.Context) (transport.Endpoint, error) {
		if err := c.meet(within, invitation); err != nil {
			return nil, err
		}
		resolved, cancel := c.resolved(within)
		defer cancel()
		release, err := c.takeTurn(resolved, all)
		if err != nil {
			return nil, err
		}
		defer release()
		if _, err := all.AllGather(resolved, invitation); err != nil {
			return nil, err
		}
		return c.connect(resolved, all, purpose, layout)
	})
}

// meet brings all ranks of c together, over links of its own, before they go to the
// aggregators: from then on they wait for nobody else.
func (c *Comm) meet(ctx context.Context, invitation []byte) error {
	invitations, err := newInner(c, openAside).AllGather(ctx, invitation)
	if err != nil {
		return err
	}
	for r, other := range invitations {
		if string(other) != string(invitation) {
			return fmt.Errorf("rank %d opens other links to the aggregators than rank %d", r, c.rank)
		}
	}
	return nil
}

// resolved is a context for what ranks that have met do together with the aggregators. An
// AllGather of the World that one rank gives up breaks the World for all communicators
// and ends the aggregators, so what has begun is brought to its end, which is near, also
// when the caller's context ends or c fails meanwhile. It ends when a rank is lost; and
// some time after within, should another rank have failed between meeting and going.
func (c *Comm) resolved(within context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(within))
	lost := c.world.Failed()
	go func() {
		defer cancel()
		select {
		case <-lost:
			return
		case <-ctx.Done():
			return
		case <-within.Done():
		}
		late := time.NewTimer(resolvedLate)
		defer late.Stop()
		select {
		case <-lost:
		case <-ctx.Done():
		case <-late.C:
		}
	}()
	return ctx, cancel
}

const resolvedLate = 30 * time.Second

// takeTurn waits until the ranks of c may go to the aggregators. The way there is over
// AllGathers of the World, which have one order, and several communicators may want to go
// at once, in any order on any rank. So rank 0, which is the same one for
// all communicators of all ranks, waits for its turn, and tells the others that it has it.
func (c *Comm) takeTurn(ctx context.Context, all *whole) (release func(), err error) {
	if c.rank == 0 {
		if release, err = all.assisted.Turn(ctx); err != nil {
			return nil, fmt.Errorf("waiting for another communicator to open links to the aggregators: %w", err)
		}
	}
	if _, err = newInner(c, openAside).AllGather(ctx, nil); err == nil && c.rank != 0 {
		// The one before is over on rank 0: all that this rank may still be in.
		release, err = all.assisted.Turn(ctx)
	}
	if err != nil && release != nil {
		release()
	}
	return release, err
}

// nameAggregator puts into words that no rank is at fault but an aggregator, which
// nobody knows by its number among the ranks.
func (c *Comm) nameAggregator(f transport.Fault) transport.Fault {
	all, _ := assistedOf(c.world)
	if f.Rank < c.size || all == nil {
		return f
	}
	name := fmt.Sprintf("aggregator %d", f.Rank-c.size)
	kind := ""
	for _, k := range faultKinds {
		if strings.HasPrefix(f.Text, k.prefix) {
			kind = k.prefix
		}
	}
	number := regexp.MustCompile(fmt.Sprintf(`\brank %d\b`, f.Rank)) // as links and sockets say it
	text := number.ReplaceAllString(strings.TrimPrefix(f.Text, kind), name)
	if !strings.HasPrefix(text, name) {
		text = name + ": " + text
	}
	if host := all.HostName(f.Rank); host != "" && !strings.Contains(text, " on host ") {
		text += " on host " + host
	}
	return transport.Fault{Rank: -1, Text: kind + text}
}

// Assist is for the packages of treerun that run in an aggregator; see package side.
func Assist(w Assistant) *side.Helper {
	all := &whole{World: w, assisted: w}
	hosts := hostsOf(all)
	cores := defaults().cores
	if n, err := strconv.Atoi(w.Setting("cores")); err == nil && n > 0 {
		cores = n
	}
	waiter := waiterFor(hosts, w.Rank(), cores)
	if !oneHost(hosts) {
		waiter.Yields = asideYields // the hosts may be one machine, and its cores the ranks'
	}
	return &side.Helper{
		Ranks: w.Size(), Aggregators: w.Aggregators(), Number: w.Rank() - w.Size(),
		Waiter: waiter, Verbose: w.Setting("verbose") != "",
		Next: w.Follow,
		Open: func(ctx context.Context, purpose string, layout transport.Layout) (ep transport.Endpoint, ended func(), err error) {
			err = untilFailure(ctx, w, "opening links to the ranks", func(within context.Context) (err error) {
				ep, err = connect(within, all, purpose, layout)
				return err
			})
			if err != nil {
				return nil, nil, err
			}
			over := make(chan struct{})
			go abortOnFailure(w, ep, over)
			return ep, func() { close(over) }, nil
		},
	}
}

// untilFailure has an aggregator open something, unless a rank fails. doing names it.
func untilFailure(ctx context.Context, w Assistant, doing string, open func(within context.Context) error) error {
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-w.Failed():
			cancel()
		case <-within.Done():
		}
	}()
	err := open(within)
	if err == nil {
		return nil
	}
	if _, lost := w.Failure(); lost != nil {
		err = errors.Join(lost, err)
	}
	return fmt.Errorf("collective: aggregator %d: %s: %w", w.Rank()-w.Size(), doing, err)
}
